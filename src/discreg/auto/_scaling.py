"""Scalings of features: standard scores, ranks, or division by the largest absolute value."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from discreg.blocks.validation import sample_weights
from discreg.linalg.types import Array, MatrixLike

__all__ = ["RankScaler", "fitted_scalers"]

MOST_KNOTS = 1_000  # of the function of a feature
LARGEST = 1e150  # absolute value of which sums of squares do not overflow


class RankScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Map each feature to [0, 1] by its empirical distribution function.

    A value is mapped to the share of the training samples that are smaller, plus half the share of
    those that are equal. Between these values the function is linear, and outside it is constant.
    It is stored at up to 1,000 values of each feature.

    Attributes
    ----------
    values_ : list of ndarray
        Ascending values of each feature.
    ranks_ : list of ndarray
        Their images.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.
    """

    def fit(self, X: MatrixLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Compute the distribution function of each feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights; weight k is equivalent to repeating the sample k times.

        Returns
        -------
        self : object
            The fitted scaler.
        """
        X = validate_data(self, X, dtype=(np.float64, np.float32))
        weights = sample_weights(sample_weight, len(X))
        seen = weights > 0
        functions = [_distribution(column, weights[seen]) for column in X[seen].T]
        self.values_ = [values for values, _ in functions]
        self.ranks_ = [ranks for _, ranks in functions]
        return self

    def transform(self, X: MatrixLike) -> Any:
        """Map each value to its rank.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ranks : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        ranks = np.empty_like(X, order="F")
        for j, (values, of_values) in enumerate(zip(self.values_, self.ranks_, strict=True)):
            ranks[:, j] = np.interp(X[:, j], values, of_values)
        return np.ascontiguousarray(ranks)


def _distribution(column: Array, weights: Array) -> tuple[Array, Array]:
    """Compute the middle ranks of the distinct values, thinned out if there are many."""
    values, places = np.unique(column, return_inverse=True)
    shares = np.bincount(places, weights) / weights.sum()
    ranks = np.cumsum(shares) - shares / 2
    if len(values) > MOST_KNOTS:
        some = np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], MOST_KNOTS))
        some = np.unique(some)
        values, ranks = values[some], ranks[some]
    return values.astype(np.float64), ranks


def fitted_scalers(X: Any, weights: Array, indicators: Any = None) -> dict[str, Any]:
    """Fit the scalers to try, by name.

    The features that are `indicators` keep their scale in standard scores: otherwise those of rare
    categories would dominate the distances.
    """
    if sparse.issparse(X):
        return {"largest": MaxAbsScaler().fit(X)}
    largest = float(np.abs(X).max())
    if largest > LARGEST:
        raise ValueError(
            f"X has values up to {largest:.3g}, whose squares overflow. Divide the features by "
            "their largest values, for example with sklearn.preprocessing.MaxAbsScaler."
        )
    scalers = {"standard": StandardScaler(), "ranks": RankScaler()}
    fitted = {name: scaler.fit(X, sample_weight=weights) for name, scaler in scalers.items()}
    if indicators is not None:
        fitted["standard"].scale_[indicators] = 1.0
    return fitted
