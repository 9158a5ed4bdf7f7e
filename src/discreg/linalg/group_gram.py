"""Gram matrices of a working set of features, stored as a matrix or as the features.

Both forms implement what the group lasso needs: passes of coordinate descent, products, and the
linear systems of its Newton steps. With more features than samples, the features take less memory.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Protocol

import numpy as np

from discreg.linalg.types import Array, Indices

from .rows import row_dots
from .systems import psd_solver

__all__ = ["FeatureGram", "FormedGram", "WorkingGram"]

FEW_FEATURES = 16


class WorkingGram(Protocol):
    """The Gram matrix G = ΦᵀSΦ of a working set of features."""

    def descend(
        self, moments: Array, correlations: Array, coef: Array, threshold: float, n_passes: int
    ) -> None:
        """Do passes of coordinate descent; update `coef` and `correlations`, C − GA, in place."""

    def matmul(self, coef: Array) -> Array:
        """Compute GA."""

    def rows(self, used: Indices) -> Array:
        """Compute the matrix of a subset of the features."""

    def matmul_rows(self, used: Indices, coef: Array) -> Array:
        """Compute GA for a subset of the features and their coefficients."""

    def solver(self, used: Indices, diagonal: Array) -> Callable[[Array], Array]:
        """Return a solver of (2G + diag) Z = B for a subset of the features."""


class FormedGram:
    """Gram matrix stored as a matrix."""

    def __init__(self, gram: Array) -> None:
        self._gram = gram

    def descend(
        self, moments: Array, correlations: Array, coef: Array, threshold: float, n_passes: int
    ) -> None:
        if len(coef) <= FEW_FEATURES:
            self._descend_few(correlations, coef, threshold, n_passes)
        else:
            from ._group_lasso_loops import descend

            descend(self._gram, correlations, coef, threshold, n_passes, np.empty(coef.shape[1]))

    def _descend_few(
        self, correlations: Array, coef: Array, threshold: float, n_passes: int
    ) -> None:
        """Update the rows with NumPy, so that a first fit needs no compilation."""
        diagonal = self._gram.diagonal().tolist()
        used = [j for j, scale in enumerate(diagonal) if scale > 0]
        for _ in range(n_passes):
            for j in used:
                z = correlations[j] + diagonal[j] * coef[j]
                norm = sqrt(z @ z)
                shrink = (1 - threshold / norm) / diagonal[j] if norm > threshold else 0.0
                change = shrink * z - coef[j]
                coef[j] += change
                correlations -= self._gram[j, :, None] * change

    def matmul(self, coef: Array) -> Array:
        return self._gram @ coef

    def rows(self, used: Indices) -> Array:
        return self._gram[np.ix_(used, used)]

    def matmul_rows(self, used: Indices, coef: Array) -> Array:
        return self.rows(used) @ coef

    def solver(self, used: Indices, diagonal: Array) -> Callable[[Array], Array]:
        matrix = 2 * self.rows(used)
        matrix[np.diag_indices_from(matrix)] += diagonal
        return psd_solver(matrix)


class FeatureGram:
    """Gram matrix G = FFᵀ stored as F, one row per feature, centred and scaled by √weights."""

    def __init__(self, features: Array) -> None:
        self._features = features
        self._squares = row_dots(features, features)

    def descend(
        self, moments: Array, correlations: Array, coef: Array, threshold: float, n_passes: int
    ) -> None:
        from ._group_lasso_loops import descend_on_features

        fitted, change = self._features.T @ coef, np.empty(coef.shape[1])
        descend_on_features(
            self._features, self._squares, moments, fitted, coef, threshold, n_passes, change
        )
        correlations[...] = moments - self.matmul(coef)

    def matmul(self, coef: Array) -> Array:
        return self._features @ (self._features.T @ coef)

    def rows(self, used: Indices) -> Array:
        features = self._features[used]
        return features @ features.T

    def matmul_rows(self, used: Indices, coef: Array) -> Array:
        features = self._features[used]
        return features @ (features.T @ coef)

    def solver(self, used: Indices, diagonal: Array) -> Callable[[Array], Array]:
        """Return a solver by Woodbury's identity, for a system of size n_samples."""
        features = self._features[used]
        scaled = features / diagonal[:, None]
        inner = features.T @ scaled
        inner[np.diag_indices_from(inner)] += 0.5
        solve = psd_solver(inner)

        def solved(right: Array) -> Array:
            rest = right / diagonal[:, None]
            return rest - scaled @ solve(features.T @ rest)

        return solved
