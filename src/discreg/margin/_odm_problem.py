"""One two-class problem of ODM: the solver of a name, then the exact end where it is small."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.rows import times

from ._active_set import polish
from ._bounds import odm_bound
from ._coordinate_descent import DualSolution, solve_dual
from ._dual import Descent, Dual, GramDual
from ._newton import FEW_FEATURES, PrimalSolution, newton
from ._parts import solve_in_parts
from ._svrg import odm_svrg
from ._terms import Terms
from ._training import FEW_SAMPLES, BinaryFit, Training

__all__ = ["ODMSettings", "choose_solver", "solve_odm"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ODMSettings:
    """Parameters of ODM and of its solvers."""

    C1: float
    C2: float
    D: float
    solver: str
    fit_intercept: bool
    how: Descent
    exact: bool  # whether small problems are solved to rounding

    def terms(self, weights: Array) -> Terms:
        return Terms.odm(weights, self.C1, self.C2, self.D)


def choose_solver(training: Training) -> str:
    """The solver that "auto" means: Newton for no more features than samples."""
    if training.kernel is not None:
        return "dcd"
    n_samples, n_features = training.X.shape
    return "newton" if n_features <= n_samples else "dcd"


def solve_odm(
    training: Training, y: Array, settings: ODMSettings, *, start: Any = None
) -> BinaryFit:
    """Fit ODM to labels ±1."""
    terms = settings.terms(training.weights)
    if settings.solver == "dcd":
        return _by_descent(training, y, terms, settings, start)
    by_newton = settings.exact and training.X.shape[1] <= FEW_FEATURES
    if settings.solver == "svrg":
        solution = _by_svrg(training, y, terms, settings, start)
        if by_newton:
            after = (solution.coef, solution.shift)
            exact = _by_newton(training, y, terms, settings, after, tol=0.0)
            solution = replace(exact, n_iter=solution.n_iter)
    else:
        tol = 0.0 if by_newton else settings.how.tol
        solution = _by_newton(training, y, terms, settings, start, tol=tol)
    fit = _of_primal(training, y, terms, settings, solution)
    if settings.exact and not by_newton and training.n_samples <= FEW_SAMPLES:
        dual = training.row_dual(y, terms)
        rough = DualSolution(dual.state(solution.multipliers), 0.0, fit.gap, fit.n_iter)
        finer = polish(dual, rough, fit_intercept=settings.fit_intercept)
        if finer is not rough:
            return replace(_of_dual(training, dual, finer, settings), warm=fit.warm)
    return fit


def _by_newton(
    training: Training, y: Array, terms: Terms, settings: ODMSettings, start: Any, *, tol: float
) -> PrimalSolution:
    return newton(
        training.X,
        y,
        terms,
        fit_intercept=settings.fit_intercept,
        tol=tol,
        max_iter=settings.how.max_passes,
        start=start,
    )


def _by_svrg(
    training: Training, y: Array, terms: Terms, settings: ODMSettings, start: Any
) -> PrimalSolution:
    """Stochastic gradients, with all that is known about the coefficients they reach."""
    found = odm_svrg(
        training.X,
        y,
        training.weights,
        C1=settings.C1,
        C2=settings.C2,
        D=settings.D,
        fit_intercept=settings.fit_intercept,
        tol=settings.how.tol,
        max_iter=settings.how.max_passes,
        random=np.random.RandomState(settings.how.seed),
        start=start,
    )
    scores = times(training.X, found.coef[:, None])[:, 0]
    margins = y * (scores + found.intercept)
    objective = 0.5 * float(found.coef @ found.coef) + terms.loss(margins)
    return PrimalSolution(
        found.coef,
        found.intercept,
        scores,
        terms.multipliers(margins),
        objective,
        found.gap,
        found.n_iter,
    )


def _by_descent(
    training: Training, y: Array, terms: Terms, settings: ODMSettings, start: Any
) -> BinaryFit:
    """Dual coordinate descent on the kernel matrix or on rows, then the exact end."""
    once = settings.exact and training.n_problems == 1 and start is None
    if once and training.has_parts:
        whole = training.cached_dual(y, terms)
        found = solve_in_parts(
            training, whole, settings.terms, settings.how, fit_intercept=settings.fit_intercept
        )
        if found is not None:
            return _of_dual(training, whole, found, settings)
    linear = training.kernel is None
    dual = training.row_dual(y, terms) if linear else training.kernel_dual(y, terms)
    begin = None if start is None else (dual.state(start[0]), start[1])
    solution = solve_dual(dual, settings.how, fit_intercept=settings.fit_intercept, start=begin)
    if settings.exact and training.n_samples <= FEW_SAMPLES:
        solution = polish(dual, solution, fit_intercept=settings.fit_intercept)
    elif settings.exact and linear and training.X.shape[1] <= FEW_FEATURES:
        assert solution.state.coef is not None
        after = (solution.state.coef, dual.intercept(solution.state, solution.shift))
        primal = _by_newton(training, y, terms, settings, after, tol=0.0)
        primal = replace(primal, n_iter=solution.n_passes)
        fit = _of_primal(training, y, terms, settings, primal)
        return replace(fit, warm=(primal.multipliers, solution.shift))
    return _of_dual(training, dual, solution, settings)


def _of_dual(
    training: Training, dual: Dual, solution: DualSolution, settings: ODMSettings
) -> BinaryFit:
    state, shift = solution.state, solution.shift
    theta = dual.y * state.multipliers
    in_gram = isinstance(dual, GramDual)
    return BinaryFit(
        theta=theta,
        shift=training.intercept(shift, theta) if in_gram else dual.intercept(state, shift),
        scores=state.scores + shift,
        objective=dual.objective(state, shift),
        gap=solution.gap,
        n_iter=solution.n_passes,
        coef=state.coef,
        bound=_bound(training, state.multipliers, dual.terms, settings),
        warm=(state.multipliers, shift),
    )


def _of_primal(
    training: Training,
    y: Array,
    terms: Terms,
    settings: ODMSettings,
    solution: PrimalSolution,
) -> BinaryFit:
    return BinaryFit(
        theta=y * solution.multipliers,
        shift=solution.shift,
        scores=solution.scores + solution.shift,
        objective=solution.objective,
        gap=solution.gap,
        n_iter=solution.n_iter,
        coef=solution.coef,
        bound=_bound(training, solution.multipliers, terms, settings),
        warm=(solution.coef, solution.shift),
    )


def _bound(
    training: Training, multipliers: Array, terms: Terms, settings: ODMSettings
) -> float | None:
    if settings.fit_intercept:
        return None
    return odm_bound(multipliers, training.diagonal, training.weights, terms)
