"""The two solvers of the family: the papers' alternation, and Newton's method to the optimum.

A solver is a step from one point to the next; `minimise` repeats it until the certificate is
small enough.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from discreg.blocks.moment_ridge import MomentRegression
from discreg.linalg.conjugate_gradients import conjugate_gradients

from ._problem import Point, RetargetedProblem, Solution, objective_unit

__all__ = ["EXACT", "STEPS", "minimise", "solve_closed"]

Array = NDArray[np.float64]
MAX_CG_STEPS = 500
MIN_ACCURACY, MAX_ACCURACY = 1e-3, 0.3  # of the conjugate gradients, relative
MAX_TRIALS = 40
SUFFICIENT_DECREASE = 1e-4
EXACT = 1e-20  # a gap that rounding alone leaves
DRIFT = 1e-10  # gaps above are not touched by the rounding of scores that were added up
ROUNDING = 1e-13  # relative decrease that the objective can no longer show
REFINEMENTS = 2  # of a closed solution, which undo the rounding on ill-conditioned data


def minimise(
    problem: RetargetedProblem,
    solver: str,
    *,
    tol: float,
    max_iter: int,
    start: Array | None = None,
) -> Solution:
    """Take steps of a solver until the relative optimality gap is at most `tol`.

    The first iteration is the start: the regression onto the zero-one targets, as in the papers,
    unless another one is given. With ``tol=0`` Newton's method ends when rounding does not let it
    go further.
    """
    step = STEPS[solver]
    # The papers' alternation begins with centres of zero.
    centres = np.zeros(problem.n_classes) if solver == "alternating" else None
    point = problem.first_point(start, centres)
    best = point.theta
    history = [point.objective]
    certified, smallest = None, np.inf
    while len(history) < max_iter:
        gradient = problem.gradient(point)
        size = problem.rough_gap(point, gradient)
        if size <= tol:
            certified = (
                (point, problem.gap(point, gradient))
                if tol >= DRIFT
                else _certify_afresh(problem, point.theta)
            )
            if certified[1] <= tol or size <= EXACT:
                break
        certified = None
        # Steps are told how much smaller the gap is wanted; without a penalty that is not known.
        reduction = tol / size if problem.regression.beta > 0 else 0.0
        following = step(problem, point, gradient, reduction)
        if following is None:
            break
        if size >= smallest and following.objective >= point.objective * (1 - ROUNDING):
            certified = _certify_afresh(problem, best)  # rounding is all that is left
            break
        if size < smallest:
            smallest, best = size, point.theta
        point = following
        history.append(min(point.objective, history[-1]))
    point, gap = certified or _certify_afresh(problem, point.theta)
    return Solution(point.theta, point.at.targets, history, gap, solver, point.at.centres)


def _certify_afresh(problem: RetargetedProblem, theta: Array) -> tuple[Point, float]:
    """A point and its gap computed from the coefficients, free of what rounding added up to."""
    point = problem.point(theta)
    return point, problem.gap(point, problem.gradient(point))


def alternating_step(
    problem: RetargetedProblem, point: Point, gradient: Array, reduction: float
) -> Point:
    """Regress onto the targets, retarget, recentre: Algorithm 1 of ReLSR, steps 1 to 3 of GReLSR.

    Regression onto the targets of a point is the step from its W by −(ΦᵀSΦ + βI)⁻¹h, with h half
    the gradient for fixed targets.
    """
    return problem.regressed(point, problem.precondition(gradient))


def newton_step(
    problem: RetargetedProblem, point: Point, gradient: Array, reduction: float
) -> Point | None:
    """Semismooth Newton step with a line search; None without progress.

    H p = −h is solved by conjugate gradients preconditioned by the Hessian of plain regression,
    ΦᵀSΦ + βI and Σs for the mean scores. That is never smaller than H, and already factored.
    """
    # Roughly while far from the optimum, exactly near it (the energy is of the order of the
    # objective's excess), but never more so than the wanted reduction of the gap asks for.
    energy = max(float(np.vdot(gradient, problem.precondition(gradient))), 0.0)
    excess = energy / objective_unit(point.objective, problem.regression.total)
    accuracy = max(excess**0.25, 0.4 * np.sqrt(reduction))
    direction = conjugate_gradients(
        partial(problem.hessp, point),
        -gradient,
        problem.precondition,
        tol=float(np.clip(accuracy, MIN_ACCURACY, MAX_ACCURACY)),
        max_iter=MAX_CG_STEPS,
    )
    return _line_search(problem, point, gradient, direction)


def _line_search(
    problem: RetargetedProblem, point: Point, gradient: Array, direction: Array
) -> Point | None:
    """Armijo's rule from the full step."""
    slope = float(np.vdot(gradient, direction))
    if not slope < 0:
        return None
    line = problem.line(point, direction)
    length = 1.0
    for _ in range(MAX_TRIALS):
        trial, trial_slope = line(length)
        if trial.objective <= point.objective + 2 * SUFFICIENT_DECREASE * length * slope:
            return trial
        if trial.objective <= point.objective * (1 + ROUNDING) and (
            abs(trial_slope) <= 0.5 * abs(slope)
        ):
            return trial  # the decrease drowns in rounding, the gradient still shows it
        if not trial_slope > slope:  # straight to rounding: there is nothing to gain
            return None
        length *= min(max(-slope / (trial_slope - slope), 0.1), 0.9)
    return None


STEPS: dict[str, Callable[[RetargetedProblem, Point, Array, float], Point | None]] = {
    "alternating": alternating_step,
    "newton": newton_step,
}


def solve_closed(regression: MomentRegression) -> Solution:
    """Regression onto the zero-one targets, its objective, and what rounding has left to gain.

    The penalty is fixed. The objective is a quadratic function of W with Hessian ΦᵀSΦ + βI, so that
    it exceeds its minimum by ⟨R, (ΦᵀSΦ + βI)⁻¹R⟩ for half the gradient R.
    """
    totals, weights = regression.class_totals()
    coef = np.zeros_like(totals)
    residual = totals
    for _ in range(1 + REFINEMENTS):
        coef = coef + regression.solve(residual)
        residual = totals - regression.gram @ coef - regression.beta * coef
    total = float(weights.sum())
    offset = weights / total if regression.centred else np.zeros_like(weights)
    targets = total - total * float(offset @ offset)  # squares of the centred targets
    # ‖Y − ΦW‖² + β‖W‖² with ΦᵀSΦW + βW = ΦᵀSY − R.
    objective = max(targets - float(np.vdot(coef, totals)) - float(np.vdot(coef, residual)), 0.0)
    excess = max(float(np.vdot(residual, regression.solve(residual))), 0.0)
    gap = min(objective, excess) / objective_unit(objective, total)
    return Solution(np.vstack([coef, offset]), None, [objective], gap, "closed")
