"""The quadratic problem of a representation, equation (9) of the DRM paper, with sample weights.

Samples are sorted by class. A sample of weight s is equivalent to s repeated samples with the
coefficient v/s each, so that in terms of v the objective for a test point x is

    ½ vᵀQv − K_xᵀv + penalty(v),    Q = K + α diag(h/s) − α B,

with h the diagonal of K, B the diagonal blocks K_ii / n_i of the classes, n_i = Σ s over class i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from discreg.base.components import fit_map
from discreg.linalg.factorisation import pivoted_cholesky
from discreg.linalg.fitted_kernel import FittedKernel, require_square
from discreg.linalg.kernel_approximation import FeatureMap, mapped_rows
from discreg.linalg.resources import require_memory
from discreg.linalg.rows import batches, matmul, rmatmul, row_dots, row_norms
from discreg.linalg.types import Array, Indices

__all__ = [
    "LINEAR",
    "FeatureOperator",
    "Groups",
    "KernelOperator",
    "Operator",
    "TrainingSamples",
    "require_squares",
    "training_samples",
]

BATCH_BYTES = 32 << 20
ROUNDING = 1e-12
LINEAR = FittedKernel("linear", None, 1, 0.0, None)


@dataclass(frozen=True)
class Groups:
    """Training samples of positive weight, sorted by class.

    Attributes
    ----------
    order : ndarray of shape (n,)
        Indices of the samples in the training data.
    y : ndarray of shape (n,)
        Class indices, ascending.
    weights : ndarray of shape (n,)
        Sample weights.
    n_classes : int
    """

    order: Indices
    y: Indices
    weights: Array
    n_classes: int

    @classmethod
    def of(cls, y: Indices, weights: Array, n_classes: int) -> Groups:
        """Group the rows of training data by class; rows of weight zero are left out."""
        order = np.argsort(y, kind="stable")
        order = order[weights[order] > 0]
        return cls(order, y[order], weights[order], n_classes)

    @cached_property
    def slices(self) -> list[slice]:
        """Slice of the samples of each class."""
        ends = np.searchsorted(self.y, np.arange(self.n_classes + 1)).tolist()
        return [slice(*pair) for pair in pairwise(ends)]

    @cached_property
    def totals(self) -> Array:
        """Total weight n_i of each class."""
        return np.array([self.weights[rows].sum() for rows in self.slices])

    def remaining(self, units: Array) -> Array:
        """Compute the weight of each sample's class after removing a unit of its weight.

        Sums the other weights instead of subtracting, which would lose precision if one weight is
        large.
        """
        left = np.empty_like(units)
        for rows in self.slices:
            weights = self.weights[rows]
            before = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
            after = np.concatenate([np.cumsum(weights[::-1])[::-1][1:], [0.0]])
            left[rows] = before + after + np.maximum(weights - units[rows], 0.0)
        return left

    def without(self, kept: Indices, units: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Compute `remaining` for some samples, and which of them are the last of their class.

        For these, the first array contains the weight of the class with the sample: any number
        gives the same model, which has no samples of the class.
        """
        of_all = np.zeros(len(self.y))
        of_all[kept] = units
        remaining, totals = self.remaining(of_all)[kept], self.totals[self.y[kept]]
        vanishing = remaining <= ROUNDING * totals
        return np.where(vanishing, totals, remaining), vanishing

    def shrinkage(self, norms: Array, alpha: float, beta: float) -> Array:
        """Compute (α h + β) / s, the diagonal of Q + βS⁻¹ − K + αB, for squared norms h."""
        return (alpha * norms + beta) / self.weights


@dataclass(frozen=True)
class KernelOperator:
    """Q for any kernel, from the kernel matrix of the training samples sorted by class."""

    groups: Groups
    kernel: Array
    alpha: float

    def apply(self, V: Array) -> Array:
        """Compute V Q; V has one row per test point."""
        product = V @ self.kernel
        product += V * (self.alpha * self.kernel.diagonal() / self.groups.weights)
        for rows, total in zip(self.groups.slices, self.groups.totals, strict=True):
            product[:, rows] -= (self.alpha / total) * (V[:, rows] @ self.kernel[rows, rows])
        return product

    def residuals(self, V: Array, K_x: Array) -> Array:
        """Compute δ of equation (11), one column per class, for the representations V."""
        images = V @ self.kernel
        columns = []
        for rows in self.groups.slices:
            own = V[:, rows] @ self.kernel[rows, rows]
            columns.append(row_dots(V[:, rows], 2 * (own - images[:, rows] - K_x[:, rows])))
        return np.stack(columns, axis=1) + row_dots(V, images)[:, None]


@dataclass(frozen=True)
class FeatureOperator:
    """Q for the linear kernel without an n × n matrix, equations (21) to (23)."""

    groups: Groups
    X: Any
    norms: Array
    alpha: float

    def apply(self, V: Array) -> Array:
        """Compute V Q."""
        projections = self.projections(V)
        total = np.sum(projections, axis=0)
        product = V * (self.alpha * self.norms / self.groups.weights)
        for rows, n_i, own in zip(self.groups.slices, self.groups.totals, projections, strict=True):
            product[:, rows] += matmul(self.X[rows], (total - (self.alpha / n_i) * own).T).T
        return product

    def projections(self, V: Array) -> list[Array]:
        """Compute ψ_i = X_iᵀ v_i for each class, one row per test point."""
        return [rmatmul(self.X[rows], V[:, rows].T).T for rows in self.groups.slices]

    def residuals(self, V: Array, K_x: Array) -> Array:
        """Compute δ of equation (11)."""
        projections = self.projections(V)
        total = np.sum(projections, axis=0)
        columns = [
            2 * row_dots(own, own - total) - 2 * row_dots(V[:, rows], K_x[:, rows])
            for rows, own in zip(self.groups.slices, projections, strict=True)
        ]
        return np.stack(columns, axis=1) + row_dots(total, total)[:, None]


Operator = KernelOperator | FeatureOperator


@dataclass(frozen=True)
class TrainingSamples:
    """Training samples and their kernel, as used by all solvers.

    Attributes
    ----------
    X : ndarray or CSR of shape (n, n_features)
        Training rows in the order of the groups; with a feature map, their features; with a
        precomputed kernel, the kernel matrix in the original order. None once it is not needed.
    rows : ndarray or CSR of shape (n, n_features) or None
        The training rows before the feature map; None for a precomputed kernel.
    groups : Groups
    kernel : FittedKernel
        Kernel between rows of X; linear if there is a feature map.
    features : FeatureMap or None
        Feature map of rows, if the kernel is approximated.
    source_kernel : FittedKernel
        Kernel between the original rows.
    """

    X: Any
    rows: Any
    groups: Groups
    kernel: FittedKernel
    features: FeatureMap | None
    source_kernel: FittedKernel

    @property
    def is_linear(self) -> bool:
        """Whether the kernel is the inner product of the rows of X."""
        return self.kernel.kernel == "linear"

    @property
    def has_few_features(self) -> bool:
        """Whether the linear form in the features is cheaper than the kernel form.

        For n samples, p features and g classes, a prediction takes n² multiplications in the kernel
        form and g p² in the features.
        """
        if not self.is_linear:
            return False
        n_samples, n_features = self.X.shape
        return bool(self.groups.n_classes * n_features**2 <= n_samples**2)

    @property
    def is_precomputed(self) -> bool:
        """Whether points are given as rows of the kernel matrix."""
        return self.kernel.kernel == "precomputed"

    def matrix(self, copies: int) -> Array:
        """Compute and check the kernel matrix of the training samples, as a new array."""
        X = self.X
        if self.is_precomputed:
            require_square(X)
            X = X[np.ix_(self.groups.order, self.groups.order)]
        options = {"copies": copies, "has_components": self.features is None}
        return self.kernel.centred_matrix(X, None, **options)[0]

    def subset(self, rows: Indices, weights: Array) -> TrainingSamples:
        """Select samples by their positions, in ascending order, and give them other weights."""
        X = self.X if self.is_precomputed else self.X[rows]
        groups = self.groups
        groups = Groups(groups.order[rows], groups.y[rows], weights, groups.n_classes)
        return TrainingSamples(X, None, groups, self.kernel, None, self.kernel)

    def without_matrix(self) -> TrainingSamples:
        """Drop a precomputed kernel matrix, which new points do not need."""
        return replace(self, X=None) if self.is_precomputed else self

    def without_features(self) -> TrainingSamples:
        """Drop the mapped training rows, which can be computed again from `rows`."""
        return self if self.features is None else replace(self, X=None)

    def points(self, X: Any) -> Any:
        """Convert new rows to the coordinates of the training rows."""
        if self.features is not None:
            return self.features(X)
        return X[:, self.groups.order] if self.is_precomputed else X

    def cross(self, points: Any) -> Array:
        """Compute the kernel K_x between points and training samples."""
        if self.is_precomputed:
            rows = points.toarray() if hasattr(points, "toarray") else points
            return np.asarray(rows, dtype=np.float64)
        return self.kernel(points, self.X)

    def self_kernel(self, points: Any) -> Array:
        """Compute k(x, x) of each point.

        With a precomputed kernel, compute it for the projection onto the span of the training
        samples.
        """
        if self.is_precomputed:
            triangle, pivots = self._span
            if not len(pivots):
                return np.zeros(points.shape[0])
            coordinates = linalg.solve_triangular(
                triangle, self.cross(points)[:, pivots].T, lower=True, check_finite=False
            )
            return np.asarray(np.einsum("ji,ji->i", coordinates, coordinates))
        return self.kernel.diagonal(points)

    @cached_property
    def _span(self) -> tuple[Array, Indices]:
        """Triangular coordinates and indices of samples that span all training samples."""
        factor, pivots = pivoted_cholesky(self.matrix(copies=2))
        return factor[pivots], pivots

    def batches(self, rows: Any, width: int | None = None) -> Iterator[tuple[slice, Any]]:
        """Yield slices of new rows and their points, in batches of limited memory.

        `width` is how many numbers are computed for a point: one per training sample by default.
        """
        size = max(1, BATCH_BYTES // (8 * (len(self.groups.y) if width is None else width)))
        for part in batches(rows.shape[0], size):
            yield part, self.points(rows[part])


def training_samples(
    estimator: Any,
    X: Any,
    groups: Groups,
    weights: Array,
    n_components: int | None,
    random: np.random.RandomState,
) -> TrainingSamples:
    """Sort the training rows by class and map them if the kernel has components."""
    if n_components is None:
        kernel = FittedKernel.of(estimator, X, weights)
        require_squares(X, kernel)
        precomputed = kernel.kernel == "precomputed"
        rows = X if precomputed else X[groups.order]
        return TrainingSamples(rows, None if precomputed else rows, groups, kernel, None, kernel)
    require_memory(
        8 * n_components * (X.shape[0] + 2 * n_components),
        f"{n_components:,} components of {X.shape[0]:,} samples",
        "Use fewer n_components.",
    )
    features = fit_map(estimator, X, weights, n_components, random)
    require_squares(X, features.kernel)
    rows = X[groups.order]
    mapped = mapped_rows(features, rows)
    return TrainingSamples(mapped, rows, groups, LINEAR, features, features.kernel)


def require_squares(X: Any, kernel: FittedKernel) -> None:
    """Raise an error if squared norms overflow and the kernel depends on inner products."""
    if not kernel.has_product:
        return
    with np.errstate(over="ignore"):
        finite = np.all(np.isfinite(row_norms(X)))
    if not finite:
        raise ValueError(
            "The squares of the features overflow. Scale the features, for example with "
            "sklearn.preprocessing.StandardScaler."
        )
