"""Features whose inner products approximate a kernel: Nyström's and random Fourier features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.utils.extmath import safe_sparse_dot

from .fitted_kernel import FittedKernel
from .linalg import EPS
from .memory import require_memory
from .rows import row_signatures

__all__ = ["FeatureMap", "FourierMap", "NystroemMap", "feature_map"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NystroemMap:
    """φ(x) = Λ^{-1/2} Uᵀ k(basis, x) with k(basis, basis) = U Λ Uᵀ.

    Inner products of features equal the kernel on the basis and approximate it elsewhere; with all
    training samples in the basis they equal the kernel between any of them.
    """

    kernel: FittedKernel
    basis: Any
    whitening: Array

    @classmethod
    def of(
        cls, kernel: FittedKernel, X: Any, n_components: int, random: np.random.RandomState
    ) -> NystroemMap:
        """Take basis rows at random from the different rows of X, so that copies change nothing.

        Directions of no variation are left out.
        """
        _, different = np.unique(row_signatures(X), return_index=True)
        basis = X[different[random.permutation(len(different))[:n_components]]]
        matrix = kernel.training_matrix(basis)
        kernel.require_psd(matrix, basis)
        values, vectors = linalg.eigh(matrix, check_finite=False)
        kept = values > 10 * len(values) * EPS * values[-1]
        if not kept.any():
            raise ValueError(
                f"The kernel {kernel.kernel!r} is zero on all {len(values)} basis samples. Choose "
                "another kernel or scale the features."
            )
        return cls(kernel, basis, vectors[:, kept] / np.sqrt(values[kept]))

    def __call__(self, X: Any) -> Array:
        """Features of the rows of X."""
        return self.kernel(X, self.basis) @ self.whitening


@dataclass(frozen=True)
class FourierMap:
    """φ(x) = (cos Ωx, sin Ωx) / √m with m rows of Ω normal of variance 2γ, for the RBF kernel.

    Inner products of features are unbiased estimates of the kernel, and k(x, x) = 1 holds exactly.
    """

    directions: Array

    @classmethod
    def of(
        cls, kernel: FittedKernel, X: Any, n_components: int, random: np.random.RandomState
    ) -> FourierMap:
        """Draw n_components / 2 directions."""
        if kernel.kernel != "rbf" or kernel.gamma is None:
            raise ValueError(
                f"approximation='fourier' is for kernel='rbf'; the kernel is {kernel.kernel!r}. "
                "Use approximation='nystroem'."
            )
        directions = random.normal(size=(X.shape[1], max(1, n_components // 2)))
        return cls(np.sqrt(2 * kernel.gamma) * directions)

    def __call__(self, X: Any) -> Array:
        """Features of the rows of X."""
        angles = np.asarray(safe_sparse_dot(X, self.directions, dense_output=True))
        features = np.hstack([np.cos(angles), np.sin(angles)])
        return features / np.sqrt(angles.shape[1])


FeatureMap = NystroemMap | FourierMap
MAPS: dict[str, Any] = {"nystroem": NystroemMap, "fourier": FourierMap}


def feature_map(
    name: str, kernel: FittedKernel, X: Any, n_components: int, random: np.random.RandomState
) -> FeatureMap:
    """The map of that name, drawn for training data X whose features will fit into memory."""
    require_memory(
        8 * n_components * (X.shape[0] + 2 * n_components),
        f"{n_components:,} features of {X.shape[0]:,} samples",
        "Use fewer n_components.",
    )
    return MAPS[name].of(kernel, X, n_components, random)
