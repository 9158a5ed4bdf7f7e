"""The quadratic problem behind a representation, equation (9) of the DRM paper, with weights.

Samples are in order of their class. A sample of weight s stands for s copies, which share its
coefficient v evenly, so that in terms of v the objective for a test point x is

    ½ vᵀQv − K_xᵀv + penalty(v),    Q = K + α diag(h/s) − α B,

with h the diagonal of K, B the diagonal blocks K_ii / n_i of the classes, n_i = Σ s over class i.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.rows import rmatmul, row_dots, times

__all__ = ["Groups", "KernelOperator", "LinearOperator", "Operator"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Groups:
    """Training samples of positive weight, in order of their class.

    Attributes
    ----------
    order : ndarray of shape (n,)
        Which rows of the training data they are.
    y : ndarray of shape (n,)
        Class indices, ascending.
    weights : ndarray of shape (n,)
        Sample weights.
    n_classes : int
    """

    order: NDArray[np.intp]
    y: NDArray[np.intp]
    weights: Array
    n_classes: int

    @classmethod
    def of(cls, y: NDArray[np.intp], weights: Array, n_classes: int) -> Groups:
        """Group the rows of training data by class; rows of weight zero are left out."""
        order = np.argsort(y, kind="stable")
        order = order[weights[order] > 0]
        return cls(order, y[order], weights[order], n_classes)

    @cached_property
    def slices(self) -> list[slice]:
        """The samples of each class."""
        ends = np.searchsorted(self.y, np.arange(self.n_classes + 1)).tolist()
        return [slice(*pair) for pair in pairwise(ends)]

    @cached_property
    def totals(self) -> Array:
        """Total weight n_i of each class."""
        return np.array([self.weights[rows].sum() for rows in self.slices])

    def remaining(self, units: Array) -> Array:
        """Weight that is left in a sample's class once it has lost a unit of weight.

        Added up rather than subtracted, so that no digits are lost to one large weight.
        """
        left = np.empty_like(units)
        for rows in self.slices:
            weights = self.weights[rows]
            before = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
            after = np.concatenate([np.cumsum(weights[::-1])[::-1][1:], [0.0]])
            left[rows] = before + after + np.maximum(weights - units[rows], 0.0)
        return left

    def shrinkage(self, norms: Array, alpha: float, beta: float) -> Array:
        """(α h + β) / s: the diagonal of Q + βS⁻¹ beside K and B, for squared norms h."""
        return (alpha * norms + beta) / self.weights


class Operator(Protocol):
    """What an iterative solver needs to know of Q; vectors are rows, one for each test point."""

    @property
    def groups(self) -> Groups:
        """The samples that Q belongs to."""

    def apply(self, V: Array) -> Array:
        """V Q."""

    def residuals(self, V: Array, K_x: Array) -> Array:
        """δ of equation (11), one column a class, for the representations V of the points K_x."""


@dataclass(frozen=True)
class KernelOperator:
    """Q for any kernel, from the matrix of the training samples in order of their class."""

    groups: Groups
    kernel: Array
    alpha: float

    def apply(self, V: Array) -> Array:
        product = V @ self.kernel
        product += V * (self.alpha * self.kernel.diagonal() / self.groups.weights)
        for rows, total in zip(self.groups.slices, self.groups.totals, strict=True):
            product[:, rows] -= (self.alpha / total) * (V[:, rows] @ self.kernel[rows, rows])
        return product

    def residuals(self, V: Array, K_x: Array) -> Array:
        images = V @ self.kernel
        columns = []
        for rows in self.groups.slices:
            own = V[:, rows] @ self.kernel[rows, rows]
            columns.append(row_dots(V[:, rows], 2 * (own - images[:, rows] - K_x[:, rows])))
        return np.stack(columns, axis=1) + row_dots(V, images)[:, None]


@dataclass(frozen=True)
class LinearOperator:
    """Q for the linear kernel without any n × n matrix: equations (21) to (23)."""

    groups: Groups
    X: Any
    norms: Array
    alpha: float

    def apply(self, V: Array) -> Array:
        projections = self.projections(V)
        total = np.sum(projections, axis=0)
        product = V * (self.alpha * self.norms / self.groups.weights)
        for rows, n_i, own in zip(self.groups.slices, self.groups.totals, projections, strict=True):
            product[:, rows] += times(self.X[rows], (total - (self.alpha / n_i) * own).T).T
        return product

    def projections(self, V: Array) -> list[Array]:
        """ψ_i = X_iᵀ v_i for each class, one row a test point."""
        return [rmatmul(self.X[rows], V[:, rows].T).T for rows in self.groups.slices]

    def residuals(self, V: Array, K_x: Array) -> Array:
        projections = self.projections(V)
        total = np.sum(projections, axis=0)
        columns = [
            2 * row_dots(own, own - total) - 2 * row_dots(V[:, rows], K_x[:, rows])
            for rows, own in zip(self.groups.slices, projections, strict=True)
        ]
        return np.stack(columns, axis=1) + row_dots(total, total)[:, None]
