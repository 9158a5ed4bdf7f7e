"""Training samples in order of their class, and how points are compared with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.utils import gen_batches

from discreg.linalg.factorisation import pivoted_cholesky
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernel_approximation import FeatureMap

from ._problem import Groups

__all__ = ["Training"]

Array = NDArray[np.float64]
BATCH_BYTES = 32 << 20


@dataclass(frozen=True)
class Training:
    """What all solvers share.

    Attributes
    ----------
    X : ndarray or CSR of shape (n, n_features)
        Training rows in the order of the groups; with a feature map, their features; with a
        precomputed kernel, the kernel matrix as it was given. None once it is not needed.
    rows : ndarray or CSR of shape (n, n_features) or None
        The training rows themselves; None for a precomputed kernel.
    groups : Groups
    kernel : FittedKernel
        Kernel between rows of X; linear where there is a feature map.
    features : FeatureMap or None
        How points become rows like those of X.
    source_kernel : FittedKernel
        Kernel between rows of the data as they are given.
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
        return isinstance(self.kernel.kernel, str) and self.kernel.kernel == "linear"

    @property
    def has_few_features(self) -> bool:
        """Whether the linear form in the features is the cheaper one.

        A prediction takes n² multiplications in the kernel form and g p² in the features.
        """
        if not self.is_linear:
            return False
        n_samples, n_features = self.X.shape
        return bool(self.groups.n_classes * n_features**2 <= n_samples**2)

    @property
    def is_precomputed(self) -> bool:
        """Whether points come as rows of the kernel matrix."""
        return isinstance(self.kernel.kernel, str) and self.kernel.kernel == "precomputed"

    def matrix(self, copies: int) -> Array:
        """Kernel matrix of the training samples, a fresh array that has been checked."""
        has_components = self.features is None and not self.is_precomputed
        matrix = self.kernel.training_matrix(self.X, copies=copies, has_components=has_components)
        if self.is_precomputed:
            matrix = matrix[np.ix_(self.groups.order, self.groups.order)]
        self.kernel.require_psd(matrix, self.X)
        return matrix

    def without_matrix(self) -> Training:
        """The same for new points alone: a precomputed kernel matrix is let go."""
        return replace(self, X=None) if self.is_precomputed else self

    def without_features(self) -> Training:
        """The same without the features of the training rows, which can be had again."""
        return self if self.features is None else replace(self, X=None)

    def points(self, X: Any) -> Any:
        """Rows of new data in the coordinates of the training rows."""
        if self.features is not None:
            return self.features(X)
        return X[:, self.groups.order] if self.is_precomputed else X

    def cross(self, points: Any) -> Array:
        """Kernel K_x between points and training samples."""
        if self.is_precomputed:
            rows = points.toarray() if hasattr(points, "toarray") else points
            return np.asarray(rows, dtype=np.float64)
        return self.kernel(points, self.X)

    def self_kernel(self, points: Any) -> Array:
        """k(x, x) of each point.

        Of a precomputed kernel only the part in the span of the training samples is known.
        """
        if self.is_precomputed:
            triangle, pivots = self._span
            if not len(pivots):
                return np.zeros(points.shape[0])
            coordinates = linalg.solve_triangular(
                triangle, self.cross(points)[:, pivots].T, lower=True, check_finite=False
            )
            return np.einsum("ji,ji->i", coordinates, coordinates)
        return self.kernel.diagonal(points)

    def exact_self_kernel(self, X: Any) -> Array:
        """k(x, x) of rows of new data by the kernel itself, even where features approximate it."""
        return self.source_kernel.diagonal(X)

    @cached_property
    def _span(self) -> tuple[Array, NDArray[np.intp]]:
        """Coordinates of samples that span all training samples of a precomputed kernel."""
        factor, pivots = pivoted_cholesky(self.matrix(copies=2))
        return factor[pivots], pivots

    def batches(self, n_points: int) -> Iterator[slice]:
        """Slices of points whose kernel with all training samples stays small."""
        return gen_batches(n_points, max(1, BATCH_BYTES // (8 * len(self.groups.y))))
