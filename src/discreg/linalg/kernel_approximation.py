"""Features whose inner products approximate a kernel: Nyström and random features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.utils.extmath import safe_sparse_dot

from .fitted_kernel import FittedKernel
from .kernels import KERNELS
from .resources import require_memory
from .rows import batches, hash_rows
from .types import Array

BATCH_BYTES = 64 << 20
FEWEST_ROWS = 64  # rows that are mapped at once, at least
CHECKED = 500  # rows on which the error of an approximation is measured
TINY = 1e-300
# Relative eigenvalue of a direction that is kept: Gram matrices of the features, whose entries have
# rounding errors of 1e-16, still see it.
SMALLEST = 1e-12


@dataclass(frozen=True)
class NystroemMap:
    """Nyström features φ(x) = Λ^{-1/2} Uᵀ k(basis, x) with k(basis, basis) = U Λ Uᵀ.

    Inner products of the features equal the kernel on the basis and approximate it elsewhere. If
    all training samples are in the basis, they equal the kernel on the training samples.
    """

    kernel: FittedKernel
    basis: Any
    whitening: Array
    error: float = 0.0  # see `map_of_draw`

    @classmethod
    def on(cls, kernel: FittedKernel, basis: Any) -> NystroemMap:
        """Create the map of a basis; directions without variation are dropped."""
        matrix, _ = kernel.centred_matrix(basis, None)
        values, vectors = linalg.eigh(matrix, check_finite=False)
        kept = values > SMALLEST * values[-1]
        if not kept.any():
            raise ValueError(
                f"The {kernel.description} is zero on all {len(values)} basis samples. Choose "
                "another kernel or scale the features."
            )
        return cls(kernel, basis, _with_fixed_signs(vectors[:, kept]) / np.sqrt(values[kept]))

    @property
    def n_components(self) -> int:
        """Number of features."""
        return int(self.whitening.shape[1])

    def __call__(self, X: Any) -> Array:
        """Compute the features of the rows of X."""
        return self.kernel(X, self.basis) @ self.whitening

    def scores(self, X: Any, coef: NDArray[Any], intercept: NDArray[Any]) -> NDArray[Any]:
        """Compute ``features(X) @ coef.T + intercept`` with coefficients of the basis.

        They are kept for the next call: to compute them takes longer than to predict one row.
        """
        kept, of_basis = vars(self).get("_of_basis", (None, None))
        if of_basis is None or not np.array_equal(kept, coef):
            of_basis = np.asfortranarray(coef.astype(np.float64) @ self.whitening.T)
            vars(self)["_of_basis"] = coef.copy(), of_basis
        scores = self.kernel.scores(X, self.basis, of_basis, intercept)
        return scores.astype(coef.dtype, copy=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_of_basis"}


@dataclass(frozen=True)
class RandomFeatures:
    """Random Fourier features φ(x) = (cos Ωx, sin Ωx) / √m.

    The m rows of Ω are drawn from the Fourier transform of the kernel. Inner products of features
    are unbiased estimates of the kernel, and k(x, x) = 1 holds exactly.
    """

    kernel: FittedKernel
    directions: Array
    error: float = 0.0  # see `map_of_draw`

    @property
    def n_components(self) -> int:
        """Number of features."""
        return int(2 * self.directions.shape[1])

    def __call__(self, X: Any) -> Array:
        """Compute the features of the rows of X."""
        angles = np.asarray(safe_sparse_dot(X, self.directions, dense_output=True))
        features = np.hstack([np.cos(angles), np.sin(angles)])
        features /= np.sqrt(angles.shape[1])
        return features

    def scores(self, X: Any, coef: NDArray[Any], intercept: NDArray[Any]) -> NDArray[Any]:
        """Compute ``features(X) @ coef.T + intercept`` in batches of rows."""
        scores = np.empty((X.shape[0], len(coef)), dtype=coef.dtype)
        for rows in batches(X.shape[0], max(1, BATCH_BYTES // (16 * self.n_components))):
            scores[rows] = self(X[rows]) @ coef.T + intercept
        return scores


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
    return _smallest(hash_rows(X, seed), X, size)


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


FeatureMap = NystroemMap | RandomFeatures
APPROXIMATIONS = ("nystroem", "random_features")


def random_features(
    kernel: FittedKernel, n_features: int, n_components: int, random: np.random.RandomState
) -> RandomFeatures:
    """Draw random features of a kernel for rows with `n_features` columns.

    There are n_components / 2 directions, at least one, each with a sine and a cosine.
    """
    frequencies = kernel.facts.frequencies
    if frequencies is None or kernel.gamma is None:
        names = " or ".join(repr(name) for name, each in KERNELS.items() if each.frequencies)
        raise ValueError(
            f"approximation='random_features' supports kernel={names}, not the "
            f"{kernel.description}. Use approximation='nystroem'."
        )
    require_memory(
        8 * n_components * (n_features + FEWEST_ROWS),
        f"{n_components:,} components of rows with {n_features:,} features",
        "Use fewer n_components.",
    )
    size = (n_features, max(1, n_components // 2))
    return RandomFeatures(kernel, frequencies(random, size, kernel.gamma))


def map_of_rows(
    name: str, kernel: FittedKernel, X: Any, n_components: int, random: np.random.RandomState
) -> FeatureMap:
    """Create a feature map for training rows X, which repeated rows do not change."""
    drawn = draw_rows(X, n_components + CHECKED, random_seed(random))
    return map_of_draw(name, kernel, drawn, n_components, random)


@np.errstate(over="ignore", invalid="ignore")  # features of training rows are checked
def map_of_draw(
    name: str, kernel: FittedKernel, drawn: Draw, n_components: int, random: np.random.RandomState
) -> FeatureMap:
    """Create a feature map from a draw of `n_components` + CHECKED training rows, if there are.

    The Nyström basis consists of the first rows. The `error` of the map is the root mean square
    error of the kernel on the others, relative to the root mean square of its values there. If all
    training rows are in the basis, the kernel is exact on them.
    """
    features: FeatureMap
    if name == "random_features":
        features = random_features(kernel, drawn.rows.shape[1], n_components, random)
    else:
        features = NystroemMap.on(kernel, drawn.rows[:n_components])
    rows = drawn.rows[n_components:]
    if name == "nystroem" and not rows.shape[0]:
        return features
    rows = drawn.rows[-CHECKED:] if name == "random_features" else rows
    exact, mapped = kernel(rows), features(rows)
    error = float(np.linalg.norm(exact - mapped @ mapped.T))
    return replace(features, error=error / max(float(np.linalg.norm(exact)), TINY))


@np.errstate(over="ignore", invalid="ignore")  # the features are checked
def mapped_rows(features: FeatureMap, X: Any) -> Array:
    """Compute the features of training rows; raise ValueError if they are not finite."""
    mapped = features(X)
    if not np.isfinite(mapped).all():
        raise ValueError(
            f"The {features.kernel.description} gives infinite or undefined values on these "
            "data. Scale the features, for example with sklearn.preprocessing.StandardScaler, or "
            "change gamma, degree or coef0."
        )
    return mapped
