"""Samples of a margin classifier, its two-class problems, and their fits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isqrt
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from discreg.linalg.centring import centre_kernel, largest_before_centring
from discreg.linalg.factorisation import EPS, pivoted_cholesky
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernels import kernel_matrix, require_kernel_memory
from discreg.linalg.rows import batches, linear_gram, matmul, row_norms, weighted_mean
from discreg.linalg.types import Array, Indices

from ._cached_dual import WORKING_SET, CachedDual
from ._dual import Dual, GramDual, RowDual, SolverOptions
from ._losses import MarginLoss, SampleLosses, mean_and_variance
from ._svrg import SvrgResult, svrg
from ._variance import damped_gram, rough_damped_gram

__all__ = ["SMALL", "TINY", "BinaryFit", "BinaryProblem", "MarginSamples", "MarginStatistics"]

SAMPLED = 500  # number of samples for the check of a kernel whose matrix does not fit
LARGEST_ROUNDING = 1e-3  # largest rounding error of scores, which are of the order of 1
SEEN_IN_SCORES = 1e-9  # rounding error of scores above which other coefficients are tried
SMALL = 1_000  # up to this number of samples or features, solve to machine precision
SINGLE_ROUNDING = 5e-6  # of the objective on a matrix in single precision; measured: 1.3e-6
SEEN_ROUNDING = 1e-5  # largest error of a kernel matrix in single precision
TINY = 1e-300
MOST_HELD = 1 << 24  # numbers in the matrices that fits of all classes keep
BATCH_BYTES = 64 << 20  # of a kernel matrix that is converted to double precision
LARGEST_SINGLE = 1e30  # largest squared distance for single precision


class MarginStatistics(NamedTuple):
    """Weighted mean and variance of the training margins, and the smallest margin.

    Numbers for two classes, arrays with one entry per class for more.

    Attributes
    ----------
    mean : float or ndarray of shape (n_classes,)
        Weighted mean of the margins.
    variance : float or ndarray of shape (n_classes,)
        Their weighted variance.
    minimum : float or ndarray of shape (n_classes,)
        The smallest margin.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from discreg import ODMClassifier
    >>> margins = ODMClassifier().fit(*load_breast_cancer(return_X_y=True)).margins_
    >>> margins.minimum < margins.mean
    True
    """

    mean: Any
    variance: Any
    minimum: Any

    @classmethod
    def of(cls, margins: Array, weights: Array) -> MarginStatistics:
        """Compute the statistics of one two-class problem."""
        return cls(*mean_and_variance(margins, weights), float(margins.min()))


@dataclass(frozen=True)
class BinaryFit:
    """Fit of one two-class problem."""

    intercept: float
    objective: float
    gap: float
    n_iter: int
    margins: MarginStatistics
    coef: Array | None = None  # coefficients of the features, for a linear kernel
    theta: Array | None = None  # w = Σ θ φ(x); None for rows in blocks
    bound: float | None = None  # upper bound of the leave-one-out error
    warm: Any = None  # start of a later fit
    multipliers: Array | None = None  # −ℓ'(z); None after stochastic gradients on the hinge
    scores: Array | None = None  # of the samples, with the intercept
    response: Any = None  # what responses of scores to forces are computed from
    solver: str | None = None  # solver of the dual; None if the dual was not solved
    limited: bool = False  # whether `max_iter` ended the iterations; else `tol` or rounding did
    soft: MarginLoss | None = None  # finite loss with the same solution as that of a hard margin


@dataclass
class MarginSamples:
    """Samples of positive weight, their kernel, and the memory for its matrix.

    With an intercept the coefficients θ of the samples sum to zero, so that centring the kernel
    matrix changes the scores by a constant, which becomes part of the intercept. Centring avoids
    a loss of precision for data far from the origin.
    """

    X: Any
    weights: Array
    kernel: FittedKernel | None  # None: linear
    cache_bytes: float
    centred: bool
    n_problems: int = 1  # two-class problems on the same kernel matrix
    n_sharing: int = 1  # problems that are solved at the same time
    precise: bool = True  # whether a kernel matrix has to be in double precision
    _damped: dict[float, Array] = field(default_factory=dict, init=False, repr=False)
    _gram: Array | None = field(default=None, init=False, repr=False)
    _kernel_mean: Array | None = field(default=None, init=False, repr=False)
    _factor: Array | None = field(default=None, init=False, repr=False)
    _lock: Any = field(default_factory=RLock, init=False, repr=False)  # threads share it

    @property
    def n_samples(self) -> int:
        return len(self.weights)

    @property
    def fits_gram(self) -> bool:
        """Whether the kernel matrix fits into the cache, or is precomputed."""
        if self.kernel is not None and self.kernel.kernel == "precomputed":
            return True
        return self.n_samples <= self.largest_gram

    @property
    def largest_gram(self) -> int:
        """Number of samples whose kernel matrix fits into the cache, or into a working set."""
        return max(isqrt(int(self.cache_bytes / self.dtype().itemsize)), WORKING_SET)

    @cached_property
    def dtype(self) -> type[np.floating[Any]]:
        """Precision of the kernel matrix: single, which is faster, if it is accurate enough.

        The rounding error of a squared distance between x and z is a few ε (‖x‖² + ‖z‖²).
        """
        single = (
            not self.precise
            and self.n_samples > SMALL
            and self.kernel is not None
            and self.kernel.facts.single_precision
            and not sparse.issparse(self.X)
        )
        if not single:
            return np.float64
        assert self.kernel is not None
        assert self.kernel.gamma is not None
        largest = float(row_norms(self.X - self.X[self.n_samples // 2]).max())
        seen = float(np.finfo(np.float32).eps) * self.kernel.gamma * largest
        return np.float32 if seen <= SEEN_ROUNDING and largest <= LARGEST_SINGLE else np.float64

    @property
    def rounding(self) -> float:
        """Error of the objective, relative to it, by the rounding of the kernel matrix."""
        return SINGLE_ROUNDING if self.dtype == np.float32 else 0.0

    @property
    def gram(self) -> Array:
        """Kernel matrix, checked, and centred if there is an intercept; computed once."""
        with self._lock:
            if self._gram is None:
                self._gram = self._checked_gram()
            return self._gram

    def _checked_gram(self) -> Array:
        centre = self.weights if self.centred else None
        if self.kernel is not None:
            matrix, self._kernel_mean = self.kernel.centred_matrix(self.X, centre, dtype=self.dtype)
            return matrix
        matrix = kernel_matrix(self.X)
        if centre is not None:
            self._kernel_mean = centre_kernel(matrix, centre)
        return matrix

    @property
    def factor(self) -> Array:
        """Matrix L of few columns with `gram` = L Lᵀ up to its rounding errors; computed once."""
        with self._lock:
            if self._factor is None:
                require_kernel_memory(self.n_samples, copies=3)
                self._factor = pivoted_cholesky(self.gram.copy(), self._largest)[0]
            return self._factor

    @property
    def _largest(self) -> float:
        """Largest entry of the kernel matrix before it was centred."""
        return largest_before_centring(self.gram.diagonal(), self._kernel_mean, self.weights)

    def is_seen(self, total: float, *, limit: float) -> bool:
        """Whether rounding of a large kernel moves scores with coefficients of a total by more."""
        if self.kernel is None or self.kernel.is_bounded or not self.fits_gram:
            return False
        return EPS * self._largest * total > limit

    def kernel_coefficients(self, theta: Array, coef: Array) -> Array:
        """Return coefficients with Lᵀθ = coef: close to θ, or small if rounding of θ is seen."""
        if self.factor.shape[1]:
            if self.is_seen(float(np.abs(theta).sum()), limit=SEEN_IN_SCORES):
                theta = np.zeros_like(theta)
            orthogonal, triangle = linalg.qr(self.factor, mode="economic", check_finite=False)
            rest = coef - theta @ self.factor
            image = linalg.solve_triangular(triangle, rest, trans="T", check_finite=False)
            theta = theta + orthogonal @ image
        if self.centred:
            theta = theta - self.weights / self.weights.sum() * theta.sum()
        return np.asarray(theta)

    @property
    def has_fast_kernel(self) -> bool:
        """Whether the kernel between subsets of the samples is fast to compute."""
        return self.dtype == np.float32

    def gram_of(self, samples: Indices) -> Array:
        """Compute the kernel matrix of some samples."""
        assert self.kernel is not None
        require_kernel_memory(len(samples))
        return self.kernel(self.X[samples], dtype=self.dtype)

    def kernel_of(self, samples: Indices) -> Array:
        """Compute the matrix of some samples in double precision, centred if `gram` exists."""
        if self.kernel is None:
            rows = self.X[samples]
            centre = self.weights[samples] if self.centred else None
            return linear_gram(rows, None if centre is None else weighted_mean(rows, centre))
        if self._gram is not None or self.kernel.kernel == "precomputed":
            return self.gram[np.ix_(samples, samples)].astype(np.float64)
        return self.gram_of(samples).astype(np.float64)

    def scores(self, samples: Indices, theta: Array) -> Array:
        """Compute the scores of some samples for sparse coefficients θ of all samples."""
        assert self.kernel is not None
        used = np.flatnonzero(theta)
        if not len(used):
            return np.zeros(len(samples))
        rows = self.X[samples], self.X[used], theta[used, None]
        return self.kernel.product(*rows, dtype=self.dtype)[:, 0]

    def image(self, theta: Array) -> Array:
        """Compute the kernel matrix, not centred, times coefficients θ of all samples."""
        if self._gram is None:
            assert self.kernel is not None
            used = np.flatnonzero(theta)
            precomputed = self.kernel.kernel == "precomputed"
            X, X_fit = (self.X[:, used], None) if precomputed else (self.X, self.X[used])
            return self.kernel.scores(X, X_fit, theta[None, used], np.zeros(1))[:, 0]
        gram, mean = self._gram, self._kernel_mean
        step = max(1, BATCH_BYTES // (8 * self.n_samples))
        image = np.concatenate([gram[rows] @ theta for rows in batches(self.n_samples, step)])
        if mean is not None:
            apart = mean - float(self.weights @ mean) / float(self.weights.sum())
            image += float(mean @ theta) + apart * float(theta.sum())
        return image

    def damped_gram(self, lambda1: float, *, rough: bool) -> Array:
        """Return the part of LDM's kernel matrix that all classes share; computed once.

        A rough one takes a third of the time.
        """
        with self._lock:
            if lambda1 not in self._damped:
                compute = rough_damped_gram if rough else damped_gram
                self._damped = {lambda1: compute(self.gram, self.weights, lambda1)}
            return self._damped[lambda1]

    def intercept(self, shift: float, theta: Array) -> float:
        """Compute the intercept for the raw kernel from the intercept for the centred `gram`."""
        mean = self._kernel_mean
        if mean is None:
            return shift
        if EPS * float(np.abs(mean) @ np.abs(theta)) > LARGEST_ROUNDING:
            raise ValueError(
                f"The kernel's values are so large, {np.abs(mean).max():.3g} on "
                f"average with coefficients of {np.abs(theta).max():.3g}, that their differences "
                "are lost to rounding. Scale the features, for example with "
                "sklearn.preprocessing.StandardScaler, or lower gamma, degree or the penalties."
            )
        return shift - float(mean @ theta)

    @cached_property
    def diagonal(self) -> Array:
        """Kernel of each sample with itself."""
        if self.kernel is None:
            return row_norms(self.X)
        if self.kernel.kernel == "precomputed" or self._gram is not None:
            return self.gram.diagonal().copy()
        return self.kernel.diagonal(self.X)

    def kernel_dual(self, y: Array, losses: SampleLosses) -> Dual:
        """Create the dual on the kernel matrix; if it does not fit, on rows computed on demand."""
        if self.fits_gram:
            return GramDual(self.gram, y, losses)
        return self.cached_dual(y, losses)

    def cached_dual(self, y: Array, losses: SampleLosses) -> CachedDual:
        """Create the dual on kernel rows computed on demand."""
        n_rows = int(self.cache_bytes // (8 * self.n_samples * self.n_sharing))
        return CachedDual(self._rows_of, n_rows, y, losses)

    def check_kernel(self) -> None:
        """Check the kernel matrix, or a part of it if it does not fit.

        An RBF kernel matrix in single precision needs no check and is computed later.
        """
        if self.kernel is None or self.has_fast_kernel:
            return
        if self.fits_gram:
            _ = self.gram
            return
        some = self.X[np.linspace(0, self.n_samples - 1, SAMPLED).astype(np.intp)]
        self.kernel.centred_matrix(some, None)

    def row_dual(self, y: Array, losses: SampleLosses) -> RowDual:
        """Create the dual on the rows of features."""
        mean = weighted_mean(self.X, self.weights) if self.centred else None
        return RowDual(self.X, y, losses, mean)

    def _rows_of(self, samples: Indices) -> Array:
        """Compute the kernel between some samples and all samples."""
        assert self.kernel is not None
        if not len(samples):
            return np.empty((0, self.n_samples))
        return self.kernel(self.X[samples], self.X)


@dataclass(frozen=True)
class BinaryProblem:
    """Two-class problem with its loss, solver and starting point."""

    training: MarginSamples
    y: Array  # labels ±1
    positive: Any  # label of the positive class
    loss: MarginLoss
    fit_intercept: bool
    solver: str
    options: SolverOptions
    exact: bool  # whether to solve a small problem to machine precision
    start: Any = None  # `warm` of another fit

    @cached_property
    def losses(self) -> SampleLosses:
        """Losses of the samples."""
        return self.loss.of_samples(self.training.weights)

    @property
    def may_hold_matrix(self) -> bool:
        """Whether all two-class problems may keep a matrix of the size of their Hessian."""
        return self.training.n_problems * int(self.training.X.shape[1]) ** 2 <= MOST_HELD

    def statistics(self, scores: Array) -> MarginStatistics:
        """Compute the statistics of the margins for given scores of the samples."""
        return MarginStatistics.of(self.y * scores, self.training.weights)

    def objective(self, square: float, scores: Array) -> tuple[float, float]:
        """Compute the objective, and the objective without the term of the mean.

        With a hard margin it is that of the smallest multiple, at least 1, that is feasible.
        """
        margins, loss, factor = self.y * scores, self.loss, 1.0
        mean, variance = mean_and_variance(margins, self.training.weights)
        if loss.is_hard:
            factor = self.feasible_factor(scores)
            convex = factor**2 * (0.5 * square + loss.lambda1 * variance)
        else:
            convex = 0.5 * square + loss.lambda1 * variance + self.losses.value(margins)
        return convex - loss.lambda2 * factor * mean, convex

    def feasible_factor(self, scores: Array) -> float:
        """Return the smallest factor, at least 1, with which all margins are at least 1."""
        least = float((self.y * scores).min())
        return max(1.0 / least, 1.0) if least > 0 else np.inf

    def stored(self, fit: BinaryFit, dtype: np.dtype[Any]) -> BinaryFit:
        """Return a fit with the objective and the gap of its coefficients stored in a precision."""
        intercept = float(dtype.type(fit.intercept))
        if fit.coef is not None:
            coef = fit.coef.astype(dtype).astype(np.float64)
            image = matmul(self.training.X, coef[:, None])[:, 0]
            square = float(coef @ coef)
        else:
            assert fit.theta is not None
            theta = fit.theta.astype(dtype).astype(np.float64)
            image = self.training.image(theta)
            square = float(theta @ image)
        objective, convex = self.objective(square, image + intercept)
        if self.loss.is_hard and not np.isfinite(objective):
            raise ValueError(
                f"The hard margin of class {self.positive!r} is so small that rounding the "
                f"coefficients to {dtype} puts samples on the wrong side. Scale the features, pass "
                "X in float64, or use a finite C."
            )
        exact = fit.objective + self.loss.lambda2 * fit.margins.mean  # without the mean
        lowest = fit.objective - fit.gap * exact
        gap = (objective - lowest) / max(convex, TINY)
        return replace(fit, objective=objective, gap=max(gap, fit.gap))

    def stochastic_gradients(self) -> SvrgResult:
        """Solve the problem by `svrg`."""
        result = svrg(
            self.training.X,
            self.y,
            self.training.weights,
            self.loss,
            fit_intercept=self.fit_intercept,
            tol=self.options.tol,
            max_iter=self.options.max_iter,
            random=np.random.RandomState(self.options.seed),
            start=self.start,
            first_step=self.options.svrg_step,
            report=self.options.report,
        )
        if not np.isfinite(result.gap):
            raise ValueError(
                "The gradients of solver='svrg' overflow. Scale the features, for example with "
                "sklearn.preprocessing.StandardScaler, or use another solver."
            )
        return result
