"""What the low-rank models share: the targets, the rank, the projection that they learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from discreg.base.classifier import Prepared, RegressionClassifier
from discreg.base.params import CLASS_WEIGHT, Boolean, Choice, Number
from discreg.blocks.lazy import lazily

__all__ = ["RANK", "LowRankClassifier"]

Array = NDArray[np.float64]
SAME = 1e-6  # entries that differ by less are equally large
RANK = Choice((None,), others=(Number(1, closed="left", integer=True),))


class LowRankClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RegressionClassifier):
    """Base of LRLR, LRRR and SLRR: coefficients A Vᵀ, with A the projection of `transform`."""

    _constraints: dict[str, Any] = {
        "rank": RANK,
        "fit_intercept": Boolean(),
        "class_weight": CLASS_WEIGHT,
    }
    rank: int | None
    scalings_: NDArray[Any]

    def _largest_rank(self, prepared: Prepared) -> int:
        """Largest rank that coefficients can have: centred classes have one direction fewer."""
        of_classes = len(prepared.classes) - int(self.fit_intercept)
        return of_classes if prepared.kernel else min(of_classes, prepared.regression.n_features)

    def _checked_rank(self, prepared: Prepared) -> int:
        """The rank asked for; None is the largest one."""
        largest = self._largest_rank(prepared)
        if self.rank is None:
            return largest
        if self.rank > largest:
            what = f"{len(prepared.classes)} classes"
            if self.fit_intercept:
                what += ", whose centred targets have one direction fewer,"
            if prepared.kernel is None:
                what += f" and {prepared.regression.n_features} features"
            raise ValueError(
                f"rank={self.rank} is too large: with {what} the largest rank is {largest}. Use a "
                f"rank from 1 to {largest}, or None for the largest."
            )
        return self.rank

    def _store(self, prepared: Prepared, projected: Array, directions: Array, shift: Array) -> None:
        """Set the fitted attributes from A, in the regression's coordinates, V and a shift."""
        signs = _signs(directions)
        projected, directions = projected * signs, directions * signs
        scalings, means = prepared.regression.predictor(projected)
        self.rank_ = projected.shape[1]
        self.directions_ = directions.astype(prepared.dtype)
        self.scalings_ = scalings.astype(prepared.dtype)
        self._means = means.astype(prepared.dtype)
        self._shift = shift.astype(prepared.dtype)
        self._set_coefficients(prepared, scalings @ directions.T, shift - directions @ means)

    @lazily
    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Project samples onto the discriminative subspace.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        projected : ndarray of shape (n_samples, rank_)
            The samples, centred where there is an intercept, times `scalings_`. What explains
            most of the classes comes first.
        """
        return self._linear_scores(self._new_samples(X), self.scalings_.T, -self._means)

    @property
    def _n_features_out(self) -> int:
        return int(self.scalings_.shape[1])


def _signs(directions: Array) -> Array:
    """Signs that make the first of the largest entries of every direction positive."""
    sizes = np.abs(directions)
    first = np.argmax(sizes >= (1 - SAME) * sizes.max(axis=0), axis=0)
    return np.where(directions[first, np.arange(len(first))] < 0, -1.0, 1.0)
