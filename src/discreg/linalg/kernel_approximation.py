"""Features whose inner products approximate a kernel: Nyström and random Fourier features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.utils.extmath import safe_sparse_dot

from discreg.linalg.types import Array

from .factorisation import EPS
from .fitted_kernel import FittedKernel
from .kernel_registry import KERNELS
from .resources import (
    require_memory,
)

__all__ = [
    "Draw",
    "FeatureMap",
    "FourierMap",
    "NystroemMap",
    "draw_rows",
    "feature_map",
    "random_seed",
]


@dataclass(frozen=True)
class NystroemMap:
    """Nyström features φ(x) = Λ^{-1/2} Uᵀ k(basis, x) with k(basis, basis) = U Λ Uᵀ.

    Inner products of the features equal the kernel on the basis and approximate it elsewhere. If
    all training samples are in the basis, they equal the kernel on the training samples.
    """

    kernel: FittedKernel
    basis: Any
    whitening: Array

    @classmethod
    def of(
        cls, kernel: FittedKernel, X: Any, n_components: int, random: np.random.RandomState
    ) -> NystroemMap:
        """Draw the basis from the distinct rows of X, so that repeated rows have no effect."""
        return cls.on(kernel, draw_rows(X, n_components, random_seed(random)).rows)

    @classmethod
    def on(cls, kernel: FittedKernel, basis: Any) -> NystroemMap:
        """Create the map of a basis; directions without variation are dropped."""
        matrix, _ = kernel.centred_matrix(basis, None)
        values, vectors = linalg.eigh(matrix, check_finite=False)
        kept = values > 10 * len(values) * EPS * values[-1]
        if not kept.any():
            raise ValueError(
                f"The {kernel.description} is zero on all {len(values)} basis samples. Choose "
                "another kernel or scale the features."
            )
        return cls(kernel, basis, _with_fixed_signs(vectors[:, kept]) / np.sqrt(values[kept]))

    def __call__(self, X: Any) -> Array:
        """Compute the features of the rows of X."""
        return self.kernel(X, self.basis) @ self.whitening


@dataclass(frozen=True)
class FourierMap:
    """Random Fourier features φ(x) = (cos Ωx, sin Ωx) / √m.

    The m rows of Ω are drawn from the Fourier transform of the kernel. Inner products of features
    are unbiased estimates of the kernel, and k(x, x) = 1 holds exactly.
    """

    directions: Array

    @classmethod
    def of(
        cls, kernel: FittedKernel, X: Any, n_components: int, random: np.random.RandomState
    ) -> FourierMap:
        """Draw n_components / 2 directions."""
        return cls.in_features(kernel, X.shape[1], n_components, random)

    @classmethod
    def in_features(
        cls, kernel: FittedKernel, n_features: int, n_components: int, random: np.random.RandomState
    ) -> FourierMap:
        """Draw n_components / 2 directions for rows with `n_features` columns."""
        frequencies = kernel.facts.frequencies
        if frequencies is None or kernel.gamma is None:
            names = " or ".join(repr(name) for name, each in KERNELS.items() if each.frequencies)
            raise ValueError(
                f"approximation='fourier' supports kernel={names}, not {kernel.kernel!r}. "
                "Use approximation='nystroem'."
            )
        return cls(frequencies(random, (n_features, max(1, n_components // 2)), kernel.gamma))

    def __call__(self, X: Any) -> Array:
        """Compute the features of the rows of X."""
        angles = np.asarray(safe_sparse_dot(X, self.directions, dense_output=True))
        features = np.hstack([np.cos(angles), np.sin(angles)])
        return np.asarray(features / np.sqrt(angles.shape[1]))


@dataclass(frozen=True)
class Draw:
    """Distinct rows drawn at random: those with the smallest hashes.

    The draw does not depend on how the rows are split into blocks.

    Attributes
    ----------
    hashes : ndarray of uint64
        Hashes of the rows, in ascending order.
    rows : ndarray or CSR
    size : int
        Maximum number of rows.
    """

    hashes: NDArray[np.uint64]
    rows: Any
    size: int

    def __add__(self, other: Draw) -> Draw:
        both = (self.rows, other.rows)
        some_sparse = any(sparse.issparse(rows) for rows in both)
        rows = sparse.vstack(both).tocsr() if some_sparse else np.vstack(both)
        return _smallest(np.concatenate([self.hashes, other.hashes]), rows, self.size)


def draw_rows(X: Any, size: int, seed: int) -> Draw:
    """Draw from the distinct rows of X; their order and repeated rows have no effect."""
    from ._hash_loops import hash_dense_rows, hash_sparse_rows

    if not sparse.issparse(X):
        return _smallest(hash_dense_rows(X, seed), X, size)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return _smallest(hash_sparse_rows(X.data, X.indices, X.indptr, seed), X, size)


def _smallest(hashes: NDArray[np.uint64], rows: Any, size: int) -> Draw:
    found, places = np.unique(hashes, return_index=True)
    return Draw(found[:size], rows[places[:size]], size)


def random_seed(random: np.random.RandomState) -> int:
    """Draw a seed for hashes from a random state."""
    return int(random.randint(np.iinfo(np.int32).max))


def _with_fixed_signs(vectors: Array) -> Array:
    """Make the largest entry of each column positive, so that signs do not depend on rounding."""
    largest = np.abs(vectors).argmax(axis=0)
    return np.asarray(vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])]))


FeatureMap = NystroemMap | FourierMap
MAPS: dict[str, Any] = {"nystroem": NystroemMap, "fourier": FourierMap}


def feature_map(
    name: str, kernel: FittedKernel, X: Any, n_components: int, random: np.random.RandomState
) -> FeatureMap:
    """Draw a feature map for training data X; raise MemoryError if its features do not fit."""
    require_memory(
        8 * n_components * (X.shape[0] + 2 * n_components),
        f"{n_components:,} features of {X.shape[0]:,} samples",
        "Use fewer n_components.",
    )
    drawn: FeatureMap = MAPS[name].of(kernel, X, n_components, random)
    return drawn
