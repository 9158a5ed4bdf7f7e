"""The targets of the low-rank models: normalised class indicators, known by a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreg.base.classifier import Prepared

__all__ = ["Indicators"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Indicators:
    """Y_ij = 1/√n_j for samples i of class j, else 0, with n_j the copies in class j.

    Class weights weigh the rows of Y and leave Y itself as it is.

    Attributes
    ----------
    sizes : ndarray of shape (n_classes,)
        n_j: sums of the sample weights.
    weights : ndarray of shape (n_classes,)
        Sums of the sample weights times the class weights.
    centred : bool
        Whether the features are centred.
    """

    sizes: Array
    weights: Array
    centred: bool

    @classmethod
    def of(cls, prepared: Prepared) -> Indicators:
        """The indicators of training data."""
        return cls(prepared.sizes, prepared.class_weights, prepared.regression.centred)

    @property
    def entries(self) -> Array:
        """1/√n_j."""
        return 1 / np.sqrt(self.sizes)

    @property
    def mean(self) -> Array:
        """Weighted mean of the rows; zero where nothing is centred."""
        return self.weights * self.entries / self.weights.sum() * self.centred

    @property
    def shift(self) -> Array:
        """What class weights add to the mean, hence to the scores; zero without them.

        Equation (38) leaves the mean of Y out of the scores, the same as for classes that are as
        heavy as they are large. What class weights add to it is their say in the decision.
        """
        return self.shift_of(self.mean, self.sizes)

    def shift_of(self, mean: Array, sizes: Array) -> Array:
        """The same for another mean of Y and other numbers of copies, or for rows of them."""
        if not self.centred or np.array_equal(self.weights, self.sizes):
            return np.zeros_like(sizes)
        return mean - np.sqrt(sizes) / sizes.sum(axis=-1, keepdims=True)

    @property
    def second(self) -> Array:
        """YᵀSY, of the centred Y where the features are centred."""
        mean = self.mean
        return np.diag(self.weights / self.sizes) - self.weights.sum() * np.outer(mean, mean)

    @property
    def constant(self) -> float:
        """What centring takes from the squares of Y; no feature changes it (Theorem 2)."""
        return float(self.weights.sum() * self.mean @ self.mean)
