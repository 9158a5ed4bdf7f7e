"""Samples of a margin classifier, its two-class problems, and their fits by the dual."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from discreg.linalg.factorisation import EPS, pivoted_cholesky
from discreg.linalg.fitted_kernel import (
    LINEAR,
    FittedKernel,
    largest_before_centring,
)
from discreg.linalg.kernels import require_kernel_memory
from discreg.linalg.rows import matmul, rmatmul, row_norms, weighted_mean
from discreg.linalg.types import Array

from ._dual import (
    Dual,
    DualSolution,
    GramDual,
    RowDual,
    SolverOptions,
    polish,
    solve_by_active_set,
    solve_dual,
)
from ._losses import MarginLoss, SampleLosses, mean_and_variance
from ._variance import damped_gram

LARGEST_ROUNDING = 1e-3  # largest rounding error of scores, which are of the order of 1
SEEN_IN_SCORES = 1e-9  # rounding error of scores above which other coefficients are tried
SMALL = 1_000  # up to this number of samples or features, solve to machine precision
TINY = 1e-300
SUCCESS = 1e-9  # relative gap that is small enough for every tolerance


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
    solver: str | None = None  # solver of the dual; None if the dual was not solved
    limited: bool = False  # whether `max_iter` ended the iterations; else `tol` or rounding did


@dataclass
class MarginSamples:
    """Samples of positive weight and their kernel.

    With an intercept the coefficients θ of the samples sum to zero, so that centring the kernel
    matrix changes the scores by a constant, which becomes part of the intercept. Centring avoids
    a loss of precision for data far from the origin.
    """

    X: Any
    weights: Array
    kernel: FittedKernel | None  # None: linear
    centred: bool
    _damped: dict[float, Array] = field(default_factory=dict, init=False, repr=False)
    _gram: Array | None = field(default=None, init=False, repr=False)
    _kernel_mean: Array | None = field(default=None, init=False, repr=False)
    _factor: Array | None = field(default=None, init=False, repr=False)
    _lock: Any = field(default_factory=RLock, init=False, repr=False)  # threads share it

    @property
    def n_samples(self) -> int:
        return len(self.weights)

    @property
    def gram(self) -> Array:
        """Kernel matrix, checked, and centred if there is an intercept; computed once."""
        with self._lock:
            if self._gram is None:
                centre = self.weights if self.centred else None
                self._gram, self._kernel_mean = (self.kernel or LINEAR).centred_matrix(
                    self.X, centre
                )
            return self._gram

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
        if self.kernel is None or self.kernel.is_bounded:
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

    def image(self, theta: Array) -> Array:
        """Compute the kernel matrix, not centred, times coefficients θ of all samples."""
        image, mean = self.gram @ theta, self._kernel_mean
        if mean is not None:
            apart = mean - float(self.weights @ mean) / float(self.weights.sum())
            image += float(mean @ theta) + apart * float(theta.sum())
        return np.asarray(image)

    def damped_gram(self, lambda1: float) -> Array:
        """Return the part of LDM's kernel matrix that all classes share; computed once."""
        with self._lock:
            if lambda1 not in self._damped:
                self._damped = {lambda1: damped_gram(self.gram, self.weights, lambda1)}
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
        return row_norms(self.X) if self.kernel is None else self.gram.diagonal().copy()

    @cached_property
    def row_mean(self) -> Array | None:
        """Mean of dense rows if there is an intercept."""
        is_centred = self.centred and not sparse.issparse(self.X)
        return weighted_mean(self.X, self.weights) if is_centred else None

    @cached_property
    def centred_rows(self) -> Any:
        """Rows of features; dense rows are centred if there is an intercept."""
        return self.X if self.row_mean is None else self.X - self.row_mean


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

    def statistics(self, scores: Array) -> MarginStatistics:
        """Compute the statistics of the margins for given scores of the samples."""
        return MarginStatistics.of(self.y * scores, self.training.weights)

    def objective(self, square: float, scores: Array) -> tuple[float, float]:
        """Compute the objective, and the objective without the term of the mean."""
        margins, loss = self.y * scores, self.loss
        mean, variance = mean_and_variance(margins, self.training.weights)
        convex = 0.5 * square + loss.lambda1 * variance + self.losses.value(margins)
        return convex - loss.lambda2 * mean, convex

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
        exact = fit.objective + self.loss.lambda2 * fit.margins.mean  # without the mean
        lowest = fit.objective - fit.gap * exact
        gap = (objective - lowest) / max(convex, TINY)
        return replace(fit, objective=objective, gap=max(gap, fit.gap))


def solve_dual_of_kernel(problem: BinaryProblem) -> BinaryFit:
    """Fit a model without a variance, by its dual on rows of features or on a kernel matrix."""
    training, y, losses = problem.training, problem.y, problem.losses
    dual = (
        GramDual(training.gram, y, losses)
        if training.kernel is not None
        else RowDual(training.centred_rows, y, losses)
    )
    return fit_of_dual(problem, dual, solve(problem, dual, fit_intercept=problem.fit_intercept))


def fit_of_dual(problem: BinaryProblem, dual: Dual, solution: DualSolution) -> BinaryFit:
    """Create the fit from the solution of such a dual."""
    state, shift, training = solution.state, solution.shift, problem.training
    theta = dual.signed(state.multipliers)
    if state.coef is None:
        intercept = training.intercept(shift, theta)
    else:
        mean = training.row_mean
        intercept = shift if mean is None else shift - float(mean @ state.coef)
    return BinaryFit(
        intercept,
        dual.objective(state, shift),
        solution.gap,
        solution.n_iter,
        problem.statistics(state.scores + shift),
        state.coef,
        theta,
        warm=(state.multipliers, shift),
        solver=solution.solver,
        limited=solution.limited,
    )


def solve(problem: BinaryProblem, dual: Dual, *, fit_intercept: bool) -> DualSolution:
    """Solve a dual with the solver of the problem, to machine precision if it is small.

    Coordinate descent replaces the active set method if the latter does not succeed.
    """
    options, start = problem.options, None
    if problem.start is not None:
        lowest = -np.inf if dual.losses.is_smooth else 0.0
        multipliers = np.clip(problem.start[0], lowest, dual.losses.upper)
        start = (dual.state(multipliers), problem.start[1])
    if problem.solver == "active_set":
        exact = solve_by_active_set(
            dual, fit_intercept=fit_intercept, max_iter=options.max_iter, start=start
        )
        if exact is not None and exact.gap <= max(options.tol, SUCCESS):
            return exact
    solution = solve_dual(dual, options, fit_intercept=fit_intercept, start=start)
    n_samples = len(dual.y)
    n_features = dual.X.shape[1] if isinstance(dual, RowDual) else n_samples
    stopped_early = solution.gap > options.tol  # descent is slow for large costs
    if (problem.exact or stopped_early) and min(n_samples, n_features) <= SMALL:
        solution = polish(dual, solution, fit_intercept=fit_intercept)
    return solution


def fit_from_factor(training: MarginSamples, fit: BinaryFit) -> BinaryFit:
    """Convert the fit of a problem on the rows of the factor into one on the kernel."""
    assert fit.theta is not None
    assert fit.coef is not None
    theta = training.kernel_coefficients(fit.theta, fit.coef)
    coef = rmatmul(training.X, theta[:, None])[:, 0] if training.kernel is None else None
    return replace(fit, coef=coef, theta=theta, intercept=training.intercept(fit.intercept, theta))
