"""Training data of a margin classifier: what all its two-class problems share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.core.fitted_kernel import FittedKernel
from discreg.core.kernels import kernel_matrix
from discreg.core.linalg import EPS
from discreg.core.regression import centre_kernel
from discreg.core.rows import row_norms, weighted_mean

from ._dual import CachedDual, Dual, GramDual, RowDual
from ._terms import Terms
from ._variance import damped_gram

__all__ = ["FEW_SAMPLES", "BinaryFit", "Training"]

Array = NDArray[np.float64]
MEGABYTE = 1 << 20
SAMPLED = 500  # rows of a kernel matrix that is not kept, to be checked
LARGEST_ROUNDING = 1e-3  # of scores, which are of the order of 1
FEW_SAMPLES = 1_000  # of a problem that is solved to rounding
SEEN_ROUNDING = 1e-5  # of entries of a kernel matrix in single precision
LARGEST_SINGLE = 1e30  # squared distance that single precision holds with room to spare


@dataclass(frozen=True)
class BinaryFit:
    """What the fit of one two-class problem found."""

    theta: Array  # w = Σ θ φ(x)
    shift: float
    scores: Array  # of the training samples, intercept included
    objective: float
    gap: float
    n_iter: int
    coef: Array | None = None  # of the features, for a linear kernel
    bound: float | None = None  # of the leave-one-out error
    warm: Any = None  # where a later fit may begin


@dataclass
class Training:
    """Samples of positive weight, their kernel, and how much memory it may take.

    With an intercept the coefficients θ of the samples sum to zero, so that a kernel matrix may be
    centred: scores change by a constant, which the intercept takes up. Distances from the origin
    then cost no digits.
    """

    X: Any
    weights: Array
    kernel: FittedKernel | None  # None: linear
    cache_bytes: float
    centred: bool
    n_sharing: int = 1  # problems that are solved at the same time
    precise: bool = True  # whether a kernel matrix has to be in double precision
    _damped: dict[float, Array] = field(default_factory=dict, init=False, repr=False)
    _lock: Any = field(default_factory=Lock, init=False, repr=False)  # threads share it

    @property
    def n_samples(self) -> int:
        return len(self.weights)

    @property
    def fits_gram(self) -> bool:
        """Whether the kernel matrix fits into the cache; a precomputed one is there already."""
        if self.kernel is not None and self.kernel.kernel == "precomputed":
            return True
        return self.dtype().itemsize * self.n_samples**2 <= self.cache_bytes

    @cached_property
    def dtype(self) -> type[np.floating[Any]]:
        """Of the kernel matrix: single where that is twice as fast and rounding is not seen.

        Of a squared distance between x and z rounding leaves a few ε (‖x‖² + ‖z‖²).
        """
        single = (
            not self.precise
            and self.n_samples > FEW_SAMPLES
            and self.kernel is not None
            and self.kernel.kernel == "rbf"
            and not sparse.issparse(self.X)
        )
        if not single:
            return np.float64
        assert self.kernel is not None
        assert self.kernel.gamma is not None
        largest = float(row_norms(self.X - self.X[self.n_samples // 2]).max())
        seen = float(np.finfo(np.float32).eps) * self.kernel.gamma * largest
        return np.float32 if seen <= SEEN_ROUNDING and largest <= LARGEST_SINGLE else np.float64

    @cached_property
    def gram(self) -> Array:
        """The kernel matrix, checked, and centred if there is an intercept."""
        matrix = (
            kernel_matrix(self.X)
            if self.kernel is None
            else self.kernel.training_matrix(self.X, dtype=self.dtype)
        )
        if self.centred:
            self._kernel_mean = centre_kernel(matrix, self.weights)
        if self.kernel is not None:
            self.kernel.require_psd(matrix, self.X)
        return matrix

    def damped_gram(self, lambda1: float) -> Array:
        """What the kernel matrices that carry LDM's variance share, computed once."""
        with self._lock:
            if lambda1 not in self._damped:
                self._damped = {lambda1: damped_gram(self.gram, self.weights, lambda1)}
            return self._damped[lambda1]

    def intercept(self, shift: float, theta: Array) -> float:
        """The intercept for the kernel as it is, from that for the matrix `gram`."""
        if not self.centred:
            return shift
        if EPS * float(np.abs(self._kernel_mean) @ np.abs(theta)) > LARGEST_ROUNDING:
            raise ValueError(
                f"The kernel's values are so large, {np.abs(self._kernel_mean).max():.3g} on "
                "average, that their differences are lost to rounding. Scale the features, for "
                "example with sklearn.preprocessing.StandardScaler, or lower gamma or degree."
            )
        return shift - float(self._kernel_mean @ theta)

    @cached_property
    def diagonal(self) -> Array:
        """Kernel of each sample with itself."""
        if self.kernel is None:
            return row_norms(self.X)
        if self.kernel.kernel == "precomputed" or "gram" in self.__dict__:
            return self.gram.diagonal().copy()
        return self.kernel.diagonal(self.X)

    def kernel_dual(self, y: Array, terms: Terms, tilt: Array | None = None) -> Dual:
        """The dual on the kernel matrix, or on its rows as they are needed."""
        if self.fits_gram:
            return GramDual(self.gram, y, terms, tilt)
        n_rows = int(self.cache_bytes // (8 * self.n_samples * self.n_sharing))
        return CachedDual(self._rows_of, n_rows, y, terms, tilt)

    def check_kernel(self) -> None:
        """Check the kernel matrix, or a part of it where there is no room for all."""
        if self.kernel is None:
            return
        if self.fits_gram:
            _ = self.gram
            return
        some = self.X[np.linspace(0, self.n_samples - 1, SAMPLED).astype(np.intp)]
        self.kernel.require_psd(self.kernel.training_matrix(some), some)

    def row_dual(self, y: Array, terms: Terms, tilt: Array | None = None) -> RowDual:
        """The dual on the rows of features."""
        mean = weighted_mean(self.X, self.weights) if self.centred else None
        return RowDual(self.X, y, terms, tilt, mean)

    def _rows_of(self, samples: NDArray[np.intp]) -> Array:
        """Kernel between some samples and all."""
        assert self.kernel is not None
        if not len(samples):
            return np.empty((0, self.n_samples))
        return self.kernel(self.X[samples], self.X)
