"""One two-class problem of LDM: the solver of a name, then the exact end where it is small."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.linalg.kernels import require_kernel_memory
from discreg.linalg.memory import require_memory
from discreg.linalg.rows import rmatmul, row_norms, row_signatures, times

from ._active_set import polish
from ._bounds import ldm_bound
from ._coordinate_descent import DualSolution, solve_dual
from ._dual import Descent, Dual, GramDual, RowDual
from ._svrg_ldm import ldm_svrg
from ._terms import Terms
from ._training import BinaryFit, Training
from ._variance import (
    VarianceGram,
    VarianceRows,
    mean_and_variance,
    variance_gram,
    variance_rows,
    variance_term,
)

__all__ = ["LDMSettings", "require_bounded", "solve_ldm"]

Array = NDArray[np.float64]
FEW = 1_000  # samples or features of a problem that is solved to rounding
HELD_MATRICES = 4  # as large as the kernel matrix, while the variance is worked in
TINY = 1e-300
HELD_ROWS = 3  # as large as the dense rows, likewise


@dataclass(frozen=True)
class LDMSettings:
    """Parameters of LDM and of its solvers."""

    C: float
    lambda1: float
    lambda2: float
    solver: str
    fit_intercept: bool
    how: Descent
    exact: bool  # whether small problems are solved to rounding


def require_bounded(y: Array, weights: Array, settings: LDMSettings, positive: Any) -> None:
    """Refuse a problem whose objective falls for ever as the intercept grows."""
    minority = float(min(weights[y > 0].sum(), weights[y < 0].sum()))
    pull = settings.lambda2 * abs(float(weights @ y))
    if settings.lambda1 == 0 and settings.fit_intercept and pull >= settings.C * minority:
        raise ValueError(
            f"With lambda1=0 and an intercept the objective has no minimum for class {positive!r} "
            f"against the others: the mean margin gains {pull:g} on one side, the losses hold "
            f"against it with {settings.C * minority:g} only. Use lambda1 > 0, a lambda2 below "
            f"{settings.lambda2 * settings.C * minority / pull:g}, or fit_intercept=False."
        )


def solve_ldm(
    training: Training,
    y: Array,
    settings: LDMSettings,
    *,
    start: Any = None,
) -> BinaryFit:
    """Fit LDM to labels ±1."""
    if settings.solver == "dcd":
        return _by_descent(training, y, settings, start)
    rough, multipliers = _by_svrg(training, y, settings, start)
    n_samples, n_features = training.X.shape
    too_large = HELD_ROWS * 8 * n_samples * (n_features + 1) > training.cache_bytes
    if not settings.exact or too_large or min(n_samples, n_features) > FEW:
        return rough
    exact = _by_descent(training, y, settings, (multipliers, rough.shift))
    return replace(exact, n_iter=rough.n_iter, warm=rough.warm)


def _by_descent(training: Training, y: Array, settings: LDMSettings, start: Any) -> BinaryFit:
    """Dual coordinate descent in the form that suits the data, then the exact end."""
    if settings.lambda1 == 0:
        return _without_variance(training, y, settings, start)
    linear = training.kernel is None
    if linear and training.X.shape[1] < training.n_samples:
        return _in_features(training, y, settings, start)
    return _in_kernel(training, y, settings, start)


def _without_variance(training: Training, y: Array, settings: LDMSettings, start: Any) -> BinaryFit:
    """A soft-margin SVM whose multipliers add to tilts."""
    terms, tilt = _terms_and_tilt(training, settings)
    linear = training.kernel is None
    dual: Dual = (
        training.row_dual(y, terms, tilt) if linear else training.kernel_dual(y, terms, tilt)
    )
    solution = _solve(dual, settings, start, fit_intercept=settings.fit_intercept)
    state, shift = solution.state, solution.shift
    return _fit_of(
        training,
        dual,
        settings,
        solution,
        scores=state.scores + shift,
        shift=dual.intercept(state, shift),
        diagonal=training.diagonal,
        coef=state.coef,
    )


def _in_features(training: Training, y: Array, settings: LDMSettings, start: Any) -> BinaryFit:
    """LDM as an SVM on rows that carry the variance."""
    n_samples, n_features = training.X.shape
    require_memory(
        HELD_ROWS * 8 * n_samples * (n_features + 1),
        f"Rows of {n_samples:,} samples with {n_features:,} features that carry the variance",
        "Use solver='svrg', which needs none of them.",
    )
    terms, tilt = _terms_and_tilt(training, settings)
    carried: VarianceRows = variance_rows(
        training.X, y, training.weights, settings.lambda1, fit_intercept=settings.fit_intercept
    )
    dual = RowDual(carried.rows, y, terms, tilt)
    solution = _solve(dual, settings, start, fit_intercept=False)
    assert solution.state.coef is not None
    coef, shift = carried.coefficients(solution.state.coef)
    return _fit_of(
        training,
        dual,
        settings,
        solution,
        scores=times(training.X, coef[:, None])[:, 0] + shift,
        shift=shift,
        diagonal=row_norms(carried.rows),
        coef=coef,
    )


def _in_kernel(training: Training, y: Array, settings: LDMSettings, start: Any) -> BinaryFit:
    """LDM as an SVM on a kernel matrix that carries the variance."""
    require_kernel_memory(training.n_samples, copies=HELD_MATRICES)
    terms, tilt = _terms_and_tilt(training, settings)
    carried: VarianceGram = variance_gram(
        training.damped_gram(settings.lambda1),
        y,
        training.weights,
        settings.lambda1,
        fit_intercept=settings.fit_intercept,
    )
    dual = GramDual(carried.gram, y, terms, tilt)
    solution = _solve(dual, settings, start, fit_intercept=False)
    shift = carried.intercept(y * (solution.state.multipliers + tilt))
    return _fit_of(
        training,
        dual,
        settings,
        solution,
        scores=solution.state.scores,
        shift=shift,
        diagonal=carried.gram.diagonal(),
        coef=None,
    )


def _by_svrg(
    training: Training,
    y: Array,
    settings: LDMSettings,
    start: Any,
) -> tuple[BinaryFit, Array]:
    """Stochastic gradients, and the multipliers that the margins they reach ask for."""
    found = ldm_svrg(
        training.X,
        y,
        training.weights,
        C=settings.C,
        lambda1=settings.lambda1,
        lambda2=settings.lambda2,
        fit_intercept=settings.fit_intercept,
        tol=settings.how.tol,
        max_iter=settings.how.max_passes,
        random=np.random.RandomState(settings.how.seed),
        start=start,
    )
    terms, tilt = _terms_and_tilt(training, settings)
    scores = times(training.X, found.coef[:, None])[:, 0] + found.intercept
    multipliers = terms.multipliers(y * scores)
    square = float(found.coef @ found.coef)
    convex, mean = _objective_parts(training, y, settings, square, scores)
    term = variance_term(scores, y, training.weights, settings.lambda1)
    fit = BinaryFit(
        theta=y * (multipliers + tilt) - term,
        shift=found.intercept,
        scores=scores,
        objective=convex - settings.lambda2 * mean,
        gap=found.gap,
        n_iter=found.n_iter,
        coef=found.coef,
        warm=(found.coef, found.intercept),
    )
    return fit, multipliers


def _solve(dual: Dual, settings: LDMSettings, start: Any, *, fit_intercept: bool) -> DualSolution:
    """Coordinate descent, then the exact end of a small problem."""
    begin = None
    if start is not None:
        begin = (dual.state(np.clip(start[0], 0.0, dual.terms.upper)), start[1])
    solution = solve_dual(dual, settings.how, fit_intercept=fit_intercept, start=begin)
    n_samples = len(dual.y)
    n_features = dual.X.shape[1] if isinstance(dual, RowDual) else n_samples
    if settings.exact and min(n_samples, n_features) <= FEW:
        solution = polish(dual, solution, fit_intercept=fit_intercept)
    return solution


def _terms_and_tilt(training: Training, settings: LDMSettings) -> tuple[Terms, Array]:
    """The hinge, and λ2 s/m that the mean margin adds to the multipliers."""
    weights = training.weights
    return Terms.hinge(weights, settings.C), settings.lambda2 * weights / weights.sum()


def _evenly(training: Training, y: Array, multipliers: Array) -> Array:
    """Multipliers that copies of a sample share as their weights, which is optimal too."""
    firsts, groups = _copies(training.X, y)
    shared = np.flatnonzero(np.bincount(groups)[groups] > 1)
    if not len(shared):
        return multipliers
    shares = np.bincount(groups, multipliers) / np.bincount(groups, training.weights)
    even = multipliers.copy()
    even[shared] = training.weights[shared] * shares[groups[shared]]
    return even


def _copies(X: Any, y: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first of each group of equal samples, and the group of each sample.

    Samples of one signature are compared with the first of them; one that differs stays alone.
    """
    signatures = np.column_stack([row_signatures(X), y])
    _, firsts, groups = np.unique(signatures, axis=0, return_index=True, return_inverse=True)
    groups = groups.ravel()
    suspects = np.flatnonzero(firsts[groups] != np.arange(len(y)))
    if len(suspects):
        pairs = X[suspects], X[firsts[groups[suspects]]]
        if sparse.issparse(X):
            alike = np.asarray(abs(pairs[0] - pairs[1]).sum(axis=1)).ravel() == 0
        else:
            alike = (pairs[0] == pairs[1]).all(axis=1)
        alone = suspects[~alike]
        groups[alone] = len(firsts) + np.arange(len(alone))
        firsts = np.concatenate([firsts, alone])
    return firsts, groups


def _fit_of(
    training: Training,
    dual: Dual,
    settings: LDMSettings,
    solution: DualSolution,
    *,
    scores: Array,
    shift: float,
    diagonal: Array,
    coef: Array | None,
) -> BinaryFit:
    """The fit of a solved dual: θ = y (α + t) − A f, from the condition that w is stationary.

    Objective and gap are those of this θ (or of the coefficients), not of the dual's own matrix,
    which a very large lambda1 makes inaccurate.
    """
    y = dual.y
    multipliers = _evenly(training, y, solution.state.multipliers)
    theta = y * (multipliers + dual.tilt)
    theta = theta - variance_term(scores, y, training.weights, settings.lambda1)
    if coef is not None:
        square = float(coef @ coef)
    else:
        bare = training.gram @ theta
        square, scores = float(theta @ bare), bare + shift
        shift = training.intercept(shift, theta)
        if training.kernel is None:
            coef = rmatmul(training.X, theta[:, None])[:, 0]
    convex, mean = _objective_parts(training, y, settings, square, scores)
    objective = convex - settings.lambda2 * mean
    missing = objective - dual.lower_bound(solution.state, solution.shift)
    gap = max(solution.gap, missing / max(convex, TINY))
    if not np.isfinite(objective):
        raise ValueError(
            f"The objective of LDM overflows with lambda1={settings.lambda1:g}. Lower lambda1, or "
            "scale the features, for example with sklearn.preprocessing.StandardScaler."
        )
    bound = None
    if not settings.fit_intercept:
        bound = ldm_bound(multipliers, diagonal, training.weights, dual.terms.upper)
    return BinaryFit(
        theta=theta,
        shift=shift,
        scores=scores,
        objective=objective,
        gap=gap,
        n_iter=solution.n_passes,
        coef=coef,
        bound=bound,
        warm=(multipliers, solution.shift),
    )


def _objective_parts(
    training: Training, y: Array, settings: LDMSettings, square: float, scores: Array
) -> tuple[float, float]:
    """Half the squared norm, variance and losses together, and the mean margin."""
    margins, weights = y * scores, training.weights
    mean, variance = mean_and_variance(margins, weights)
    losses = Terms.hinge(weights, settings.C).loss(margins)
    return 0.5 * square + settings.lambda1 * variance + losses, mean
