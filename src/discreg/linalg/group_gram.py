"""The Gram matrix of a working set of features: as it is, or as the features it comes from.

Both do what the group lasso asks: passes of coordinate descent, products, and the systems of its
Newton steps. With more features than samples the features themselves are the smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Protocol

import numpy as np

from discreg.linalg.types import Array, Indices

from .ridge import (
    psd_solver,
)

__all__ = ["FeatureGram", "FormedGram", "WorkingGram"]

FEW_FEATURES = 16


class WorkingGram(Protocol):
    """G = ΦᵀSΦ of a working set."""

    def descend(
        self, moments: Array, correlations: Array, coef: Array, threshold: float, n_passes: int
    ) -> None:
        """Passes of coordinate descent; `coef` and `correlations`, C − GA, are kept up."""

    def matmul(self, coef: Array) -> Array:
        """GA."""

    def matmul_rows(self, used: Indices, coef: Array) -> Array:
        """GA for some features and coefficients of these."""

    def solver(self, used: Indices, diagonal: Array) -> Callable[[Array], Array]:
        """Solver of (2G + diag) Z = B for some features."""


class FormedGram:
    """The matrix itself."""

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
        """Update the rows with NumPy: a first fit does not wait for the compiler."""
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

    def matmul_rows(self, used: Indices, coef: Array) -> Array:
        return self._gram[np.ix_(used, used)] @ coef

    def solver(self, used: Indices, diagonal: Array) -> Callable[[Array], Array]:
        matrix = 2 * self._gram[np.ix_(used, used)]
        matrix[np.diag_indices_from(matrix)] += diagonal
        return psd_solver(matrix)


class FeatureGram:
    """G = FFᵀ by the features, a row each, centred and times the roots of the weights."""

    def __init__(self, features: Array) -> None:
        self._features = features
        self._squares = np.einsum("ij,ij->i", features, features)

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

    def matmul_rows(self, used: Indices, coef: Array) -> Array:
        features = self._features[used]
        return features @ (features.T @ coef)

    def solver(self, used: Indices, diagonal: Array) -> Callable[[Array], Array]:
        """By Woodbury's identity a system of the size of the samples."""
        features = self._features[used]
        scaled = features / diagonal[:, None]
        inner = features.T @ scaled
        inner[np.diag_indices_from(inner)] += 0.5
        solve = psd_solver(inner)

        def solved(right: Array) -> Array:
            rest = right / diagonal[:, None]
            return rest - scaled @ solve(features.T @ rest)

        return solved
