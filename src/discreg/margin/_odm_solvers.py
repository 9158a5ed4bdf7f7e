"""Solvers of one two-class problem of ODM; small problems are solved to machine precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from discreg.linalg.rows import matmul
from discreg.linalg.types import Array

from ._active_set import polish, solve
from ._coordinate_descent import DualSolution
from ._dual import Dual, GramDual
from ._newton import FEW_FEATURES, PrimalSolution, newton
from ._problem import SMALL, BinaryFit, BinaryProblem
from ._working_set import solve_on_working_sets

__all__ = ["on_factor_if_large", "solve_odm"]

SEEN_IN_DUAL = 1e-6  # rounding error of scores above which dual solvers no longer converge


def solve_odm(problem: BinaryProblem) -> BinaryFit:
    """Fit ODM to labels ±1."""
    in_factor = on_factor_if_large(problem)
    if in_factor is not problem:
        return _in_factor(problem, in_factor)
    if problem.solver in ("active_set", "dcd"):
        return _by_dual(problem)
    if problem.solver == "svrg":
        return _primal_fit(problem, _by_svrg(problem))
    training = problem.training
    to_rounding = problem.exact and training.X.shape[1] <= FEW_FEATURES
    solution = newton(
        training.X,
        problem.y,
        problem.losses,
        fit_intercept=problem.fit_intercept,
        tol=0.0 if to_rounding else problem.options.tol,
        max_iter=problem.options.max_iter,
        start=problem.start,
        report=problem.options.report,
    )
    fit = _primal_fit(problem, solution)
    if problem.exact and not to_rounding and training.n_samples <= SMALL:
        dual = training.row_dual(problem.y, problem.losses)
        rough = DualSolution(dual.state(solution.multipliers), 0.0, fit.gap, fit.n_iter)
        finer = polish(dual, rough, fit_intercept=problem.fit_intercept)
        if finer is not rough:
            return replace(_dual_fit(problem, dual, finer), warm=fit.warm)
    return fit


def on_factor_if_large(problem: BinaryProblem) -> BinaryProblem:
    """Return a problem, on rows of a factor if its kernel matrix has very large values."""
    training = problem.training
    if not training.is_seen(problem.loss.total_of_multipliers, limit=SEEN_IN_DUAL):
        return problem
    rows = replace(training, X=training.factor, kernel=None, centred=False)
    return replace(problem, training=rows, solver="newton", start=None)


def _in_factor(problem: BinaryProblem, in_factor: BinaryProblem) -> BinaryFit:
    """Solve a problem of very large values of the kernel on the rows of a factor."""
    training = problem.training
    fit = solve_odm(in_factor)
    assert fit.theta is not None
    assert fit.coef is not None
    theta = training.kernel_coefficients(fit.theta, fit.coef)
    return replace(
        fit,
        coef=None,
        theta=theta,
        intercept=training.intercept(fit.intercept, theta),
        warm=(problem.y * fit.theta, fit.intercept),
        solver="newton",
    )


def _by_svrg(problem: BinaryProblem) -> PrimalSolution:
    """Solve the problem by stochastic gradients."""
    coef, intercept, gap, n_iter, limited = problem.stochastic_gradients()
    scores = matmul(problem.training.X, coef[:, None])[:, 0]
    value, multipliers, _ = problem.losses.evaluate(problem.y * (scores + intercept))
    objective = 0.5 * float(coef @ coef) + value
    return PrimalSolution(coef, intercept, scores, multipliers, objective, gap, n_iter, limited)


def _by_dual(problem: BinaryProblem) -> BinaryFit:
    """Solve the dual on the kernel matrix or on rows of features."""
    training, y, losses = problem.training, problem.y, problem.losses
    alone = problem.exact and training.n_problems == 1 and problem.start is None
    if alone and problem.solver == "dcd" and training.has_fast_kernel:
        whole = training.cached_dual(y, losses)
        found = solve_on_working_sets(problem, whole)
        if found is not None:
            return _dual_fit(problem, whole, found)
    linear = training.kernel is None
    dual = training.row_dual(y, losses) if linear else training.kernel_dual(y, losses)
    solution = solve(problem, dual, fit_intercept=problem.fit_intercept)
    if solution.solver == "active_set":
        return _dual_fit(problem, dual, solution)
    if problem.exact and training.n_samples <= SMALL:
        solution = polish(dual, solution, fit_intercept=problem.fit_intercept)
    return _dual_fit(problem, dual, solution)


def _dual_fit(problem: BinaryProblem, dual: Dual, solution: DualSolution) -> BinaryFit:
    state, shift = solution.state, solution.shift
    theta = dual.y * state.multipliers
    if isinstance(dual, GramDual):
        intercept = problem.training.intercept(shift, theta)
    else:
        intercept = dual.intercept(state, shift)
    return BinaryFit(
        intercept,
        dual.objective(state, shift),
        solution.gap,
        solution.n_iter,
        problem.statistics(state.scores + shift),
        state.coef,
        theta,
        _bound(problem, state.multipliers),
        warm=(state.multipliers, shift),
        multipliers=state.multipliers,
        scores=state.scores + shift,
        solver=solution.solver,
        limited=solution.limited,
    )


def _primal_fit(problem: BinaryProblem, solution: PrimalSolution) -> BinaryFit:
    return BinaryFit(
        solution.shift,
        solution.objective,
        solution.gap,
        solution.n_iter,
        problem.statistics(solution.scores + solution.shift),
        solution.coef,
        problem.y * solution.multipliers,
        _bound(problem, solution.multipliers),
        warm=(solution.coef, solution.shift),
        multipliers=solution.multipliers,
        scores=solution.scores + solution.shift,
        response=solution.response if problem.may_hold_matrix else None,
        limited=solution.limited,
    )


def _bound(problem: BinaryProblem, multipliers: Array) -> float | None:
    """Compute the bound (1/m) Σ max(0, |a| (k(x, x) + m/2C) ± D) of the leave-one-out error.

    Theorem 3 holds without an intercept, for the error when a sample is removed and 1/m stays
    fixed. A sample of weight s is equivalent to s equal samples of multiplier a/s and ridge s u.
    """
    if problem.fit_intercept:
        return None
    weights, diagonal = problem.training.weights, problem.training.diagonal
    losses, D = problem.losses, problem.loss.high - 1.0
    a = multipliers / weights
    pulled = a * (diagonal + losses.ridge_low * weights) + D
    pushed = -a * (diagonal + losses.ridge_high * weights) - D
    terms = np.where(a > 0, pulled, np.where(a < 0, pushed, 0.0))
    return float(weights @ np.maximum(terms, 0.0)) / float(weights.sum())
