"""The two solvers of the family: the papers' alternation, and Newton's method to the optimum.

A solver is a step from one point to the next; `minimise` repeats it until the certificate is
small enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.ridge import NormalEquations

from ._certificate import objective_unit
from ._problem import Certified, Gradient, Line, Point, Start, Step
from ._result import Solution

__all__ = ["EXACT", "STEPS", "minimise"]

Array = NDArray[np.float64]
MAX_CG_STEPS = 500
MIN_ACCURACY, MAX_ACCURACY = 1e-3, 0.3  # of the conjugate gradients, relative
MAX_TRIALS = 40
SUFFICIENT_DECREASE = 1e-4
EXACT = 1e-20  # a gap that rounding alone leaves
DRIFT = 1e-10  # gaps above are not touched by the rounding of scores that were added up
ROUNDING = 1e-13  # relative decrease that the objective can no longer show


class Objective(Protocol):
    """What a solver asks of a problem, whether its rows are in memory or elsewhere."""

    @property
    def regression(self) -> NormalEquations:
        """The normal equations of plain regression, their penalty fixed."""

    @property
    def n_classes(self) -> int:
        """Number of columns of the scores."""

    def first_point(self, start: Start | None, centres: Array | None) -> Point:
        """The given start, or else the regression onto the zero-one targets from given centres."""

    def gradient(self, point: Point) -> Gradient:
        """Half gradient at a point."""

    def curve(self, point: Point, step: Step) -> tuple[Gradient, float]:
        """Half Hessian at a point times a step, and its inner product with the step."""

    def regressed(self, point: Point, step: Step) -> Point:
        """Where regression onto the targets leads, a step back, with new targets and centres."""

    def line(self, point: Point, direction: Step) -> Line:
        """The points from here along a direction."""

    def rough_gap(self, point: Point, gradient: Gradient) -> float:
        """Size of the gradient on the scale of the gap."""

    def certify(self, point: Point, gradient: Gradient) -> Certified:
        """The point with its rigorous relative optimality gap."""

    def certify_afresh(self, at: Start) -> Certified:
        """The same with all computed from the coefficients."""


def minimise(
    problem: Objective,
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
    centres = np.zeros(problem.n_classes) if solver == "alternating" else None
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
        centres=point.at.centres,
        objective_history=history,
        gap=gap,
        n_iter=len(history),
        solver=solver,
    )


def alternating_step(
    problem: Objective, point: Point, gradient: Gradient, reduction: float
) -> Point:
    """Regress onto the targets, retarget, recentre: Algorithm 1 of ReLSR, steps 1 to 3 of GReLSR.

    Regression onto the targets of a point is the step from its W by −(ΦᵀSΦ + βI)⁻¹h, with h half
    the gradient for fixed targets.
    """
    return problem.regressed(point, _precondition(problem, gradient))


def newton_step(
    problem: Objective, point: Point, gradient: Gradient, reduction: float
) -> Point | None:
    """Semismooth Newton step by conjugate gradients, with a line search; None without progress."""
    direction = _newton_direction(problem, point, gradient, reduction)
    return _line_search(problem, point, gradient, direction)


def _newton_direction(
    problem: Objective, point: Point, gradient: Gradient, reduction: float
) -> Step:
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
    excess = max(energy, 0.0) / objective_unit(point.objective, problem.regression.total)
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


def _precondition(problem: Objective, residual: Gradient) -> Step:
    """The step of plain regression for a half gradient."""
    coef = problem.regression.solve(residual.coef)
    return Step(coef, residual.offset / problem.regression.total)


def _slope(gradient: Gradient, direction: Step) -> float:
    """Inner product of a half gradient with a direction."""
    return float(np.vdot(gradient.coef, direction.coef) + gradient.offset @ direction.offset)


def _line_search(
    problem: Objective, point: Point, gradient: Gradient, direction: Step
) -> Point | None:
    """Armijo's rule from the full step."""
    slope = _slope(gradient, direction)
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


STEPS: dict[str, Callable[[Objective, Point, Gradient, float], Point | None]] = {
    "alternating": alternating_step,
    "newton": newton_step,
}
