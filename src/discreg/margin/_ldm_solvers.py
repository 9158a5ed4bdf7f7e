"""Solvers of one two-class problem of LDM; small problems are solved to machine precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from discreg.linalg.kernels import require_kernel_memory
from discreg.linalg.resources import (
    require_memory,
)
from discreg.linalg.rows import matmul, rmatmul, row_norms, row_signatures
from discreg.linalg.types import Array, Indices

from ._active_set import polish, solve
from ._coordinate_descent import DualSolution
from ._dual import Dual, GramDual, RowDual
from ._hard_margin import solve_hard_margin
from ._problem import SMALL, TINY, BinaryFit, BinaryProblem, MarginSamples
from ._separable import Pairs, solve_pairs
from ._variance import VarianceMetric, variance_gram, variance_rows, variance_term

__all__ = ["groups_of_copies", "is_solved_in_factor", "solve_ldm"]

HELD_MATRICES = 4  # matrices of the size of the kernel matrix in memory at the same time
HELD_ROWS = 3  # arrays of the size of the dense rows in memory at the same time
# Descent by pairs is slow where 2 λ1/m is larger; then up to so many samples a matrix is factored.
STIFF = 50.0
FACTORED = 2_000
AT_LIMIT = 1e-9  # relative distance of a multiplier from its limit due to rounding


def solve_ldm(problem: BinaryProblem) -> BinaryFit:
    """Fit LDM to labels ±1."""
    if problem.loss.is_hard:
        return solve_hard_margin(problem, _by_dual)
    _require_bounded(problem)
    return _by_svrg(problem) if problem.solver == "svrg" else _by_dual(problem)


def _require_bounded(problem: BinaryProblem) -> None:
    """Raise if the objective decreases without bound as the intercept grows."""
    loss, y, weights = problem.loss, problem.y, problem.training.weights
    losses = loss.upper * float(min(weights[y > 0].sum(), weights[y < 0].sum()))
    pull = loss.lambda2 * abs(float(weights @ y))
    if loss.lambda1 == 0 and problem.fit_intercept and pull > 0 and pull >= losses:
        raise ValueError(
            "With lambda1=0 and an intercept the objective has no minimum for class "
            f"{problem.positive!r} against the others: the slope of the mean margin is {pull:g}, "
            f"that of the losses at most {losses:g}. Use lambda1 > 0, a lambda2 below "
            f"{loss.lambda2 * losses / pull:g}, or fit_intercept=False."
        )


def _by_dual(problem: BinaryProblem) -> BinaryFit:
    """Solve the dual on rows or on a kernel matrix, whichever is smaller."""
    training = problem.training
    if problem.loss.lambda1 == 0:
        return _without_variance(problem)
    if training.kernel is None and training.X.shape[1] < training.n_samples:
        return _in_features(problem, training.X)
    return _in_factor(problem) if is_solved_in_factor(problem) else _in_kernel(problem)


def is_solved_in_factor(problem: BinaryProblem) -> bool:
    """Whether a problem without fewer features than samples is solved on a factor of its matrix."""
    training = problem.training
    if training.kernel is None:
        return training.n_samples <= SMALL
    return not training.kernel.is_bounded


def _without_variance(problem: BinaryProblem) -> BinaryFit:
    """Solve LDM with lambda1=0, which is a soft-margin SVM with tilts."""
    training, y, losses = problem.training, problem.y, problem.losses
    linear = training.kernel is None
    dual: Dual = training.row_dual(y, losses) if linear else training.kernel_dual(y, losses)
    solution = _solve(problem, dual, fit_intercept=problem.fit_intercept)
    state, shift = solution.state, solution.shift
    return _dual_fit(
        problem,
        dual,
        solution,
        scores=state.scores + shift,
        shift=dual.intercept(state, shift),
        diagonal=training.diagonal,
        coef=state.coef,
    )


def _in_factor(problem: BinaryProblem) -> BinaryFit:
    """Solve LDM on the rows of a factor of the kernel matrix.

    This keeps digits that a matrix with the variance loses if its values or lambda1 are large.
    """
    training = problem.training
    fit = _in_features(problem, training.factor)
    assert fit.theta is not None
    assert fit.coef is not None
    theta = training.kernel_coefficients(fit.theta, fit.coef)
    linear = training.kernel is None
    coef = rmatmul(training.X, theta[:, None])[:, 0] if linear else None
    return replace(fit, coef=coef, theta=theta, intercept=training.intercept(fit.intercept, theta))


def _in_features(problem: BinaryProblem, X: Any) -> BinaryFit:
    """Solve LDM as an SVM on rows that include the variance."""
    training, y = problem.training, problem.y
    n_samples, n_features = X.shape
    require_memory(
        HELD_ROWS * 8 * n_samples * (n_features + 1),
        f"Rows of {n_samples:,} samples with {n_features:,} features that include the variance",
        "Use solver='svrg', which does not need them.",
    )
    carried = variance_rows(
        X, y, training.weights, problem.loss.lambda1, fit_intercept=problem.fit_intercept
    )
    dual = RowDual(carried.rows, y, problem.losses)
    solution = _solve(problem, dual, fit_intercept=False)
    assert solution.state.coef is not None
    coef, shift = carried.coefficients(solution.state.coef)
    return _dual_fit(
        problem,
        dual,
        solution,
        scores=matmul(X, coef[:, None])[:, 0] + shift,
        shift=shift,
        diagonal=row_norms(carried.rows),
        coef=coef,
        metric=carried.metric if problem.may_hold_matrix else None,
    )


def _in_kernel(problem: BinaryProblem) -> BinaryFit:
    """Solve LDM by pairs of multipliers, or as an SVM on a matrix that includes the variance.

    The latter needs a factorisation. It is better for small problems, which it solves to machine
    precision, and for large costs. Without an intercept, `_bound` needs its matrix.
    """
    training, y, lambda1 = problem.training, problem.y, problem.loss.lambda1
    passes, options = 0, problem.options
    stiff = 2.0 * lambda1 > STIFF * float(training.weights.sum())
    most = FACTORED if stiff else SMALL
    if problem.solver == "dcd" and problem.fit_intercept and training.n_samples > most:
        pairs = solve_pairs(problem)
        passes = pairs.n_iter
        if pairs.gap <= options.tol or passes == options.max_iter or options.report(0):
            return _pairs_fit(problem, pairs)
        rest = replace(options, max_iter=options.max_iter - passes)
        problem = replace(problem, options=rest, start=(np.nan_to_num(pairs.h), 0.0))
    require_kernel_memory(training.n_samples, copies=HELD_MATRICES)
    carried = variance_gram(
        training.damped_gram(lambda1, rough=not problem.exact),
        y,
        training.weights,
        lambda1,
        fit_intercept=problem.fit_intercept,
    )
    dual = GramDual(carried.gram(), y, problem.losses)
    solution = _solve(problem, dual, fit_intercept=False)
    shift = carried.intercept(y * (solution.state.multipliers + dual.tilt))
    return _dual_fit(
        problem,
        dual,
        replace(solution, n_iter=passes + solution.n_iter),
        scores=solution.state.scores,
        shift=shift,
        diagonal=dual.gram.diagonal(),
        coef=None,
    )


def _pairs_fit(problem: BinaryProblem, pairs: Pairs) -> BinaryFit:
    training, theta = problem.training, pairs.theta
    scores = pairs.scores + pairs.shift
    linear = training.kernel is None
    return BinaryFit(
        training.intercept(pairs.shift, theta),
        problem.objective(float(theta @ pairs.scores), scores)[0],
        pairs.gap,
        pairs.n_iter,
        problem.statistics(scores),
        rmatmul(training.X, theta[:, None])[:, 0] if linear else None,
        theta,
        warm=(pairs.h, pairs.shift, pairs.r, pairs.mean),
        multipliers=pairs.h,
        scores=scores,
        solver="dcd",
        limited=pairs.gap > problem.options.tol,
    )


def _by_svrg(problem: BinaryProblem) -> BinaryFit:
    """Fit by stochastic gradients."""
    training, y, losses = problem.training, problem.y, problem.losses
    coef, intercept, gap, n_iter, limited = problem.stochastic_gradients()
    scores = matmul(training.X, coef[:, None])[:, 0] + intercept
    objective, _ = problem.objective(float(coef @ coef), scores)
    variance = variance_term(scores, y, training.weights, problem.loss.lambda1)
    return BinaryFit(
        intercept,
        objective,
        gap,
        n_iter,
        problem.statistics(scores),
        coef,
        theta=y * (losses.multipliers(y * scores) + losses.tilt) - variance,
        warm=(coef, intercept),
        limited=limited,
    )


def _solve(problem: BinaryProblem, dual: Dual, *, fit_intercept: bool) -> DualSolution:
    """Solve the dual, to machine precision if the problem is small."""
    solution = solve(problem, dual, fit_intercept=fit_intercept)
    if solution.solver == "active_set":
        return solution
    n_samples = len(dual.y)
    n_features = dual.X.shape[1] if isinstance(dual, RowDual) else n_samples
    stopped_early = solution.gap > problem.options.tol  # descent is slow for large costs
    if (problem.exact or stopped_early) and min(n_samples, n_features) <= SMALL:
        solution = polish(dual, solution, fit_intercept=fit_intercept)
    return solution


def _dual_fit(
    problem: BinaryProblem,
    dual: Dual,
    solution: DualSolution,
    *,
    scores: Array,
    shift: float,
    diagonal: Array,
    coef: Array | None,
    metric: VarianceMetric | None = None,
) -> BinaryFit:
    """Create the fit from the solution of the dual: θ = y (α + t) − A f, because w is stationary.

    Objective and gap are computed from this θ or from the coefficients. The matrix of the dual is
    inaccurate for a very large lambda1.
    """
    training, y, lambda1 = problem.training, problem.y, problem.loss.lambda1
    multipliers = solution.state.multipliers
    if problem.exact:
        multipliers = _evenly(training, y, multipliers)
    variance = variance_term(scores, y, training.weights, lambda1)
    theta = y * (multipliers + dual.tilt) - variance
    if coef is not None:
        square = float(coef @ coef)
        objective, convex = problem.objective(square, scores)
        # The dual value is linear in the matrix: half the error of its scores is missing.
        error = scores - (solution.state.scores + solution.shift)
        excess = max(0.5 * float(dual.signed(solution.state.multipliers) @ error), 0.0)
        lowest = dual.lower_bound(solution.state, solution.shift) - excess
    else:
        in_memory = isinstance(dual, GramDual)
        bare = training.gram @ theta if in_memory else dual.state(multipliers).scores
        square, scores = float(theta @ bare), bare + shift
        objective, convex = problem.objective(square, scores)
        # The dual of `_separable` at h = α and r = y A f, with what is left of its constraints.
        lowest = float(multipliers.sum()) - 0.5 * square
        if lambda1 > 0:
            ridge = 0.5 * training.weights.sum() / lambda1 / training.weights
            mean = float(training.weights @ (y * scores)) / float(training.weights.sum())
            lowest -= 0.5 * float(ridge @ variance**2) + abs(mean * float(y @ variance))
        if problem.fit_intercept:
            lowest -= abs(shift * float(theta.sum()))
        shift = training.intercept(shift, theta) if in_memory else shift
        if training.kernel is None:
            coef = rmatmul(training.X, theta[:, None])[:, 0]
    missing = objective - lowest
    gap = max(solution.gap, missing / max(convex, TINY))
    if not np.isfinite(missing) or gap < 0:
        raise ValueError(
            f"The objective of LDM overflows with lambda1={lambda1:g}. Lower lambda1, or scale the "
            "features, for example with sklearn.preprocessing.StandardScaler."
        )
    bound = None if problem.fit_intercept else _bound(problem, multipliers, diagonal)
    return BinaryFit(
        shift,
        objective,
        gap,
        solution.n_iter,
        problem.statistics(scores),
        coef,
        theta,
        bound,
        warm=(multipliers, solution.shift),
        multipliers=multipliers,
        scores=scores,
        response=metric,
        solver=solution.solver,
        limited=solution.limited,
    )


def _bound(problem: BinaryProblem, multipliers: Array, diagonal: Array) -> float:
    """Compute the bound of the leave-one-out error without an intercept, Theorem 2.

    It is (1/m) (Σ α h over 0 < α < C/m, plus the number of samples with α = C/m), where h is the
    diagonal of a matrix that still contains the sample. It bounds the error for α fixed at zero.
    """
    weights = problem.training.weights
    at_limit = multipliers >= (1.0 - AT_LIMIT) * problem.losses.upper
    inside = (multipliers > 0) & ~at_limit
    total = float(multipliers[inside] @ diagonal[inside]) + float(weights[at_limit].sum())
    return total / float(weights.sum())


def _evenly(training: MarginSamples, y: Array, multipliers: Array) -> Array:
    """Divide multipliers among equal samples in proportion to their weights, also optimal."""
    groups = groups_of_copies(training.X, y)
    shared = np.flatnonzero(np.bincount(groups)[groups] > 1)
    if not len(shared):
        return multipliers
    shares = np.bincount(groups, multipliers) / np.bincount(groups, training.weights)
    even = multipliers.copy()
    even[shared] = training.weights[shared] * shares[groups[shared]]
    return even


def groups_of_copies(X: Any, y: Array) -> Indices:
    """Return the group number of each sample; equal samples have the same group.

    Samples with equal signatures are compared with the first one. A sample that differs from it
    gets a group of its own.
    """
    _, codes = np.unique(row_signatures(X), return_inverse=True)
    codes = 2 * codes + (y > 0)
    _, firsts, groups = np.unique(codes, return_index=True, return_inverse=True)
    suspects = np.flatnonzero(firsts[groups] != np.arange(len(y)))
    if len(suspects):
        pairs = X[suspects], X[firsts[groups[suspects]]]
        if sparse.issparse(X):
            alike = np.asarray(abs(pairs[0] - pairs[1]).sum(axis=1)).ravel() == 0
        else:
            alike = (pairs[0] == pairs[1]).all(axis=1)
        alone = suspects[~alike]
        groups[alone] = len(firsts) + np.arange(len(alone))
    return groups
