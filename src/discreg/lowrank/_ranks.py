"""Models of all ranks from one ridge regression and one small eigenproblem."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.metrics import accuracy_score

from discreg.base.regression import Prepared
from discreg.linalg.reduced_rank import RankedCoefficients, rank_coefficients
from discreg.linalg.resources import (
    threads_for,
)
from discreg.linalg.types import Array, Labels, MatrixLike, RealArray

from ._indicators import Indicators
from ._subspace import checked_rank, store_subspace

__all__ = ["RankPath", "fit_ranked", "ranked_ridge", "scores_by_rank"]


def ranked_ridge(prepared: Prepared, beta: float) -> RankedCoefficients:
    """Solve ridge regression onto the normalised indicators, for every rank.

    Φ is centred, so that the moments ΦᵀSY do not depend on centring Y (Theorem 2).
    """
    regression = prepared.regression
    with threads_for(regression.size**3 / 6):  # of a Cholesky factorisation
        regression.at(beta)
        totals, _ = regression.class_totals(prepared.y, len(prepared.classes))
        moments = totals * Indicators.of(prepared).entries
        return rank_coefficients(regression.solve(moments), moments)


def fit_ranked(estimator: Any, prepared: Prepared, beta: float) -> None:
    """Fit LRLR (beta = 0) or LRRR."""
    rank = checked_rank(estimator.rank, prepared)
    ranked = ranked_ridge(prepared, beta)
    store_subspace(estimator, prepared, ranked.projected[:, :rank], ranked.directions[:, :rank])
    estimator.eigenvalues_ = ranked.explained[:rank].astype(prepared.dtype)
    estimator._calibrate(prepared, ranked)


class RankPath:
    """Coefficients and scores of every rank.

    Returned by :meth:`LRRRClassifier.rank_path <discreg.LRRRClassifier.rank_path>`.

    Parameters
    ----------
    estimator : LRLRClassifier or LRRRClassifier
        Fitted with the largest rank.

    Attributes
    ----------
    ranks : ndarray of shape (n_ranks,)
        From 1 to the largest rank.
    classes : ndarray of shape (n_classes,)
        Class labels, in the order of the columns of the scores.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from discreg import LRRRClassifier
    >>> path = LRRRClassifier().rank_path(*load_wine(return_X_y=True))
    >>> path.ranks, path.coef(1).shape
    (array([1, 2]), (3, 13))
    """

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, sample_weight: Any) -> RankPath:
        """Compute the path of a clone of the estimator."""
        estimator._check_params()
        return cls(
            clone(estimator).set_params(rank=None, probability=False).fit(X, y, sample_weight)
        )

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self.ranks = np.arange(1, estimator.rank_ + 1)
        self.classes = estimator.classes_
        self._shift = estimator._shift

    def coef(self, rank: int) -> RealArray:
        """Return the coefficients of a rank, of the features or of the kernel functions.

        Parameters
        ----------
        rank : int
            One of `ranks`.

        Returns
        -------
        coef : ndarray of shape (n_classes, n_features) or (n_classes, n_samples)
        """
        self._check(rank)
        fitted = self._estimator
        return np.asarray(fitted.directions_[:, :rank] @ fitted.scalings_[:, :rank].T)

    def intercept(self, rank: int) -> RealArray:
        """Return the intercepts of a rank.

        Parameters
        ----------
        rank : int
            One of `ranks`.

        Returns
        -------
        intercept : ndarray of shape (n_classes,)
        """
        self._check(rank)
        fitted = self._estimator
        return np.asarray(self._shift - fitted.directions_[:, :rank] @ fitted._means[:rank])

    def decision_function(self, X: MatrixLike) -> RealArray:
        """Compute the decision values of the models of all ranks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n_ranks, n_samples, n_classes)
            One column per class, also for two classes.
        """
        projected = self._estimator.transform(X)
        by_rank = scores_by_rank(projected, self._estimator.directions_, self._shift)
        return np.array(list(by_rank))

    def predict(self, X: MatrixLike) -> Labels:
        """Predict labels with the models of all ranks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_ranks, n_samples)
        """
        return np.asarray(self.classes[self.decision_function(X).argmax(axis=2)])

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Array:
        """Compute the accuracies of the models of all ranks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        accuracies : ndarray of shape (n_ranks,)
        """
        return np.array(
            [accuracy_score(y, labels, sample_weight=sample_weight) for labels in self.predict(X)]
        )

    def _check(self, rank: int) -> None:
        if not isinstance(rank, Integral) or rank not in self.ranks:
            raise ValueError(f"rank must be one of 1 to {self.ranks[-1]}, got {rank!r}.")


def scores_by_rank(
    projected: NDArray[Any], directions: NDArray[Any], shift: NDArray[Any]
) -> Iterator[NDArray[Any]]:
    """Yield the scores of projected samples for rank 1, rank 2, and so on."""
    scores = np.repeat(shift[None], len(projected), axis=0)
    for column, direction in zip(projected.T, directions.T, strict=True):
        scores = scores + np.outer(column, direction)
        yield scores
