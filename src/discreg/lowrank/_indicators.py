"""Normalised class indicators, the targets of the low-rank models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreg.base.regression import Prepared
from discreg.linalg.types import Array

__all__ = ["Indicators"]

DIGITS = 12  # of the logarithms of shares, so that classes of equal weight have equal ones


@dataclass(frozen=True)
class Indicators:
    """The matrix Y with Y_ij = 1/√n_j for samples i of class j, else 0, stored by class.

    n_j is the sum of the sample weights of class j. Class weights multiply the weights of the rows
    of Y; they do not change Y.

    Attributes
    ----------
    sizes : ndarray of shape (n_classes,)
        n_j, the sums of the sample weights.
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
        """Create the indicators of training data."""
        return cls(prepared.sizes, prepared.class_weights, prepared.regression.centred)

    @property
    def scale(self) -> float:
        """√(n/c) for n samples of c classes, the factor of the model's scores.

        Times this factor, the entries of Y are 1 for classes of equal size, so that the scores do
        not shrink as the number of samples grows.
        """
        return float(self.scale_of(self.sizes)[0])

    @staticmethod
    def scale_of(sizes: Array) -> Array:
        """Compute the scale for other n_j, possibly one row per sample."""
        return np.asarray(np.sqrt(sizes.mean(axis=-1, keepdims=True)))

    @property
    def entries(self) -> Array:
        """1/√n_j."""
        return 1 / np.sqrt(self.sizes)

    @property
    def mean(self) -> Array:
        """Weighted mean of the rows; zero without centring."""
        return np.asarray(self.weights * self.entries / self.weights.sum() * self.centred)

    @property
    def shift(self) -> Array:
        """Change of the mean by class weights, added to the scores; zero without class weights.

        Equation (38) omits the mean of Y, which assumes that no class is weighted. The shift
        restores the influence of the class weights on the decision.
        """
        return self.shift_of(self.mean, self.sizes)

    def shift_of(self, mean: Array, sizes: Array) -> Array:
        """Compute the shift for other means of Y and other n_j, possibly one row per sample."""
        if not self.centred or np.array_equal(self.weights, self.sizes):
            return np.zeros_like(sizes)
        return np.asarray(mean - np.sqrt(sizes) / sizes.sum(axis=-1, keepdims=True))

    def offset(self, coef: Array) -> Array:
        """Compute what a sparse model adds to its scores: the shift, times the scale.

        Without coefficients it is the logarithms of the shares of the classes, so that the largest
        class is predicted and its probability is its share. It is zero without centring, because
        there is no intercept then.
        """
        if coef.any():
            return self.shift * self.scale
        logs = np.log(self.weights)
        return np.asarray(np.round((logs - logs.mean()) * self.centred, DIGITS))

    @property
    def second(self) -> Array:
        """YᵀSY, with Y centred if the features are."""
        mean = self.mean
        return np.asarray(
            np.diag(self.weights / self.sizes) - self.weights.sum() * np.outer(mean, mean)
        )

    @property
    def constant(self) -> float:
        """Decrease of ‖Y‖² by centring, which does not depend on the features (Theorem 2)."""
        return float(self.weights.sum() * self.mean @ self.mean)
