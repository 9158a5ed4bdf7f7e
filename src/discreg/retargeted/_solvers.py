"""The two solvers of the family: the papers' alternation, and Newton's method to the optimum.

A solver is a step from one point to the next; `minimise` repeats it until the certificate is
small enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from discreg.core.result import Solution

from ._certificate import objective_unit
from ._problem import Gradient, Point, Problem, Start, Step

__all__ = ["EXACT", "STEPS", "minimise"]

Array = NDArray[np.float64]
MAX_CG_STEPS = 500
MIN_ACCURACY, MAX_ACCURACY = 1e-3, 0.3  # of the conjugate gradients, relative
MAX_TRIALS = 40
SUFFICIENT_DECREASE = 1e-4
EXACT = 1e-20  # a gap that rounding alone leaves
DRIFT = 1e-10  # gaps above are not touched by the rounding of scores that were added up
ROUNDING = 1e-13  # relative decrease that the objective can no longer show


def minimise(
    problem: Problem,
    solver: str,
    *,
    tol: float,
    max_iter: int,
    start: Start | None = None,
) -> Solution:
    """Take steps of a solver until the relative optimality gap is at most `tol`.

    The first iteration is the start: the regression onto the zero-one targets, as in the papers,
    unless another one is given. With ``tol=0`` Newton's method ends when rounding does not let it
    go further.
    """
    step = STEPS[solver]
    # The papers' alternation begins with centres of zero.
    centres = np.zeros(problem.loss.n_classes) if solver == "alternating" else None
    point = problem.first_point(start, centres)
    best = Start(point.coef, point.offset)
    history = [point.objective]
    certified, smallest = None, np.inf
    while len(history) < max_iter:
        gradient = problem.gradient(point)
        size = problem.rough_gap(point, gradient)
        if size <= tol:
            certified = (
                problem.certify(point, gradient)
                if tol >= DRIFT
                else problem.certify_afresh(Start(point.coef, point.offset))
            )
            if certified.gap <= tol or size <= EXACT:
                break
        certified = None
        # Steps are told how much smaller the gap is wanted; without a penalty that is not known.
        reduction = tol / size if problem.regression.beta > 0 else 0.0
        following = step(problem, point, gradient, reduction)
        if following is None:
            break
        if size >= smallest and following.objective >= point.objective * (1 - ROUNDING):
            certified = problem.certify_afresh(best)  # rounding is all that is left
            break
        if size < smallest:
            smallest, best = size, Start(point.coef, point.offset)
        point = following
        history.append(min(point.objective, history[-1]))
    point, gap = certified or problem.certify_afresh(Start(point.coef, point.offset))
    return Solution(
        coef=point.coef,
        offset=point.offset,
        scores=point.scores,
        targets=point.at.targets,
        objective_history=history,
        gap=gap,
        n_iter=len(history),
        solver=solver,
    )


def alternating_step(problem: Problem, point: Point, gradient: Gradient, reduction: float) -> Point:
    """Regress onto the targets, retarget, recentre: Algorithm 1 of ReLSR, steps 1 to 3 of GReLSR.

    Regression onto the targets of a point is the step from its W by −(ΦᵀSΦ + βI)⁻¹h, with h half
    the gradient for fixed targets.
    """
    step = _precondition(problem, gradient)
    coef, offset = point.coef - step.coef, point.offset - step.offset
    scores = point.scores - problem.regression.scores(*step)
    at = problem.loss.recentre(problem.loss.evaluate(scores, point.at.centres))
    return problem.assemble(coef, offset, scores, at)


def newton_step(
    problem: Problem, point: Point, gradient: Gradient, reduction: float
) -> Point | None:
    """Semismooth Newton step by conjugate gradients, with a line search; None without progress."""
    direction = _newton_direction(problem, point, gradient, reduction)
    return _line_search(problem, point, gradient, direction)


def _newton_direction(problem: Problem, point: Point, gradient: Gradient, reduction: float) -> Step:
    """Solve H p = −h by conjugate gradients preconditioned by the Hessian of plain regression.

    That Hessian, ΦᵀSΦ + βI and Σs for the mean scores, is never smaller than H, and is already
    factored.
    """
    coef, offset = np.zeros_like(point.coef), np.zeros_like(point.offset)
    residual = Gradient(-gradient.coef, -gradient.offset)
    search = _precondition(problem, residual)
    energy = _slope(residual, search)
    # Roughly while far from the optimum, exactly near it (the energy is of the order of the
    # objective's excess), but never more so than the wanted reduction of the gap asks for.
    excess = max(energy, 0.0) / objective_unit(point.objective, problem.loss.weights)
    accuracy = max(excess**0.25, 0.4 * np.sqrt(reduction))
    enough = energy * np.clip(accuracy, MIN_ACCURACY, MAX_ACCURACY) ** 2
    for _ in range(MAX_CG_STEPS):
        image, curvature = problem.curve(point, search)
        if curvature <= 0:
            break
        length = energy / curvature
        coef += length * search.coef
        offset += length * search.offset
        residual = Gradient(
            residual.coef - length * image.coef, residual.offset - length * image.offset
        )
        preconditioned = _precondition(problem, residual)
        energy, previous = _slope(residual, preconditioned), energy
        if energy <= enough:
            break
        ratio = energy / previous
        search = Step(*(a + ratio * b for a, b in zip(preconditioned, search, strict=True)))
    return Step(coef, offset)


def _precondition(problem: Problem, residual: Gradient) -> Step:
    """The step of plain regression for a half gradient."""
    coef = problem.regression.solve(residual.coef)
    return Step(coef, residual.offset / problem.loss.weights.sum())


def _slope(gradient: Gradient, direction: Step) -> float:
    """Inner product of a half gradient with a direction."""
    return float(np.vdot(gradient.coef, direction.coef) + gradient.offset @ direction.offset)


def _line_search(
    problem: Problem, point: Point, gradient: Gradient, direction: Step
) -> Point | None:
    """Armijo's rule from the full step; each trial costs one retargeting, no pass over X."""
    slope = _slope(gradient, direction)
    if not slope < 0:
        return None
    moved = problem.regression.scores(*direction)
    length = 1.0
    for _ in range(MAX_TRIALS):
        scores = moved * length
        scores += point.scores
        trial = problem.assemble(
            point.coef + length * direction.coef,
            point.offset + length * direction.offset,
            scores,
            problem.loss.evaluate(scores),
        )
        if trial.objective <= point.objective + 2 * SUFFICIENT_DECREASE * length * slope:
            return trial
        weighted = problem.loss.weights[:, None] * trial.at.residuals
        trial_slope = float(
            np.vdot(weighted, moved) + problem.regression.beta * np.vdot(trial.coef, direction.coef)
        )
        if trial.objective <= point.objective * (1 + ROUNDING) and (
            abs(trial_slope) <= 0.5 * abs(slope)
        ):
            return trial  # the decrease drowns in rounding, the gradient still shows it
        length *= min(max(-slope / (trial_slope - slope), 0.1), 0.9)
    return None


STEPS: dict[str, Callable[[Problem, Point, Gradient, float], Point | None]] = {
    "alternating": alternating_step,
    "newton": newton_step,
}
