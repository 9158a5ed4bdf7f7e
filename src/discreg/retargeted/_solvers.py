"""The problem of the family with the targets eliminated, and its two solvers.

    F(θ) = L(ΦW + 1bᵀ) + β‖W‖²

for a loss L and the features Φ of a regression. θ stacks the coefficients W and, as its last row,
the mean scores b. A solver is a step from one point to the next; `minimise` repeats it until the
certificate is small enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.factorisation import EPS
from discreg.linalg.ridge import (
    NormalEquations,
    Regression,
    conjugate_gradients,
)
from discreg.linalg.rows import row_dots
from discreg.linalg.types import Array

from ._losses import Evaluation, TargetLoss

__all__ = [
    "EXACT",
    "STEPS",
    "ArrayProblem",
    "Point",
    "RetargetedProblem",
    "Solution",
    "minimise",
    "objective_unit",
]

REACH = 10.0  # how far, in sizes of the scores, a fit without penalty is compared
MAX_CG_STEPS = 500
MIN_ACCURACY, MAX_ACCURACY = 1e-3, 0.3  # of the conjugate gradients, relative
MAX_TRIALS = 40
SUFFICIENT_DECREASE = 1e-4
EXACT = 1e-20  # a gap that rounding alone leaves
DRIFT = 1e-10  # gaps above are not touched by the rounding of scores that were added up
ROUNDING = 1e-13  # relative decrease that the objective can no longer show


class Point(NamedTuple):
    """Coefficients with the objective and all that was computed on the way to it."""

    theta: Array
    scores: Any  # None where the rows are not in memory
    at: Any  # an Evaluation, or its sums where the rows are not in memory
    objective: float


Line = Callable[[float], tuple[Point, float]]  # the point at a step length, and the slope there


@dataclass
class Solution:
    """Coefficients with the certificate of how good they are.

    Attributes
    ----------
    theta : ndarray of shape (size + 1, n_classes)
        Coefficients in the coordinates of the regression that was solved, and in the last row the
        mean score of each class: the intercept once the mean of the features is taken out.
    targets : ndarray of shape (n_samples, n_classes) or None
        Targets that the scores were regressed onto; None where the rows are not in memory.
    objective_history : list of float
        Objective after each iteration, the starting point first.
    gap : float
        Relative optimality gap.
    solver : str
        Name of the solver that ran.
    centres : ndarray of shape (n_classes,) or None
        GReLSR's centres of the classes.
    """

    theta: Array
    targets: Array | None
    objective_history: list[float]
    gap: float
    solver: str
    centres: Array | None = None


class RetargetedProblem(ABC):
    """What a solver asks of a problem, whether its rows are in memory or in blocks.

    Parameters
    ----------
    regression : NormalEquations
        The normal equations of plain regression, their penalty fixed.
    loss : TargetLoss
    n_classes : int
    """

    def __init__(self, regression: NormalEquations, loss: TargetLoss, n_classes: int) -> None:
        self.regression: Any = regression
        self.loss, self.n_classes = loss, n_classes
        self._centres = np.zeros(n_classes)  # the last best ones, a good start for the next scores

    def first_point(self, start: Array | None, centres: Array | None) -> Point:
        """The given start, or else the regression onto the zero-one targets from given centres."""
        if start is not None:
            return self.point(start)
        totals, weights = self._class_totals()
        offset = weights / weights.sum() if self.regression.centred else np.zeros_like(weights)
        return self.point(np.vstack([self.regression.solve(totals), offset]), centres)

    @abstractmethod
    def _class_totals(self) -> tuple[Array, Array]:
        """ΦᵀSY for the zero-one matrix Y of the classes, and the weights of the classes."""

    @abstractmethod
    def point(self, theta: Array, centres: Array | None = None) -> Point:
        """Evaluate the objective: with the best centres, or one update from given ones."""

    @abstractmethod
    def gradient(self, point: Point) -> Array:
        """Half gradient at a point."""

    @abstractmethod
    def hessp(self, point: Point, step: Array) -> Array:
        """Half Hessian at a point times a step."""

    @abstractmethod
    def regressed(self, point: Point, step: Array) -> Point:
        """Where regression onto the targets leads, a step back, with new targets and centres."""

    @abstractmethod
    def line(self, point: Point, direction: Array) -> Line:
        """The points from here along a direction."""

    @abstractmethod
    def gap(self, point: Point, gradient: Array) -> float:
        r"""Upper bound of (F(θ) − min F) / F(θ), derived in docs/retargeted.md.

        By Fenchel's inequality every Z with Σ_i s_i z_i = 0 (b has no penalty) and finite L* gives
        min F ≥ −L*(2Z) − ‖XᵀSZ‖² / β. The residuals G = R − T at the best targets satisfy all this
        but for the columns, so Z = G + E with a small E (`TargetLoss.balance`). Then F minus the
        bound is free of cancellation:

        .. math:: F - \text{bound} = \tfrac1\beta \|X^\top S (G + E) + \beta W\|^2
                  + \sum_i s_i (\|e_i\|^2 + 2\, e_i \cdot \text{slack}_i),

        slack the amount by which a target is inside its constraint. For β = 0 strong convexity is
        lost, and F is compared with every W' whose centred scores differ from those of W by at most
        `REACH` times their size: F − F(W') ≤ ⟨∇F, W − W'⟩, never more than F itself.
        """

    def _bound(self, gradient: Array, cost: float, square: float, objective: float) -> float:
        """The gap from its parts: XᵀS(G + E) + βW, what E costs, squares of centred scores."""
        regression = self.regression
        if regression.beta > 0:
            bound = float(np.vdot(gradient, gradient)) / regression.beta + cost
        else:
            slope = np.sqrt(max(float(np.vdot(gradient, regression.solve(gradient))), 0.0))
            size = max(np.sqrt(square), np.sqrt(regression.total))
            bound = 2.0 * float(slope) * REACH * float(size) + cost
        return float(min(objective, bound) / objective_unit(objective, regression.total))

    def rough_gap(self, point: Point, gradient: Array) -> float:
        """Size of the gradient on the scale of the gap, without a further pass over the rows."""
        size = float(gradient[-1] @ gradient[-1]) / self.regression.total
        if self.regression.beta > 0:
            size += float(np.vdot(gradient[:-1], gradient[:-1])) / self.regression.beta
        return float(size / objective_unit(point.objective, self.regression.total))

    def precondition(self, gradient: Array) -> Array:
        """The step of plain regression for a half gradient."""
        coef = self.regression.solve(gradient[:-1])
        return np.vstack([coef, gradient[-1] / self.regression.total])

    def _with_penalty(self, image: Array, totals: Array, coef: Array) -> Array:
        """Half gradient, or Hessian times a step, from the centred part of the loss."""
        last = totals if self.regression.centred else np.zeros_like(totals)
        return np.vstack([image + self.regression.beta * coef, last])

    def _assemble(self, theta: Array, scores: Any, at: Any) -> Point:
        coef = theta[:-1]
        objective = at.value + self.regression.beta * float(np.vdot(coef, coef))
        return Point(theta, scores, at, objective)


class ArrayProblem(RetargetedProblem):
    """The problem for rows in memory, whose scores are kept."""

    def __init__(
        self, regression: Regression, loss: TargetLoss, y: NDArray[np.intp], n_classes: int
    ) -> None:
        super().__init__(regression, loss, n_classes)
        self.y, self.weights = y, regression.weights

    @property
    def work(self) -> int:
        """Multiplications that the scores of all training samples take."""
        return int(len(self.y) * self.regression.size * self.n_classes)

    def _class_totals(self) -> tuple[Array, Array]:
        totals: tuple[Array, Array] = self.regression.class_totals(self.y, self.n_classes)
        return totals

    def evaluate(self, scores: Array, centres: Array | None = None) -> Evaluation:
        """The loss at the scores: with the best centres, or one update from given ones."""
        if centres is not None:
            at = self.loss.evaluate(scores, self.y, self.weights, centres)
            return self.loss.recentre(at, self.y, self.weights)
        at = self.loss.evaluate(scores, self.y, self.weights, start=self._centres)
        self._centres = at.centres
        return at

    def point(self, theta: Array, centres: Array | None = None) -> Point:
        scores = self.regression.scores(theta[:-1], theta[-1])
        return self._assemble(theta, scores, self.evaluate(scores, centres))

    def gradient(self, point: Point) -> Array:
        weighted = self.weights[:, None] * point.at.residuals
        totals = np.ones(len(weighted)) @ weighted
        return self._with_penalty(
            self.regression.gradient(weighted, totals), totals, point.theta[:-1]
        )

    def hessp(self, point: Point, step: Array) -> Array:
        regression, coef = self.regression, step[:-1]
        shift = regression.shift(coef, step[-1])
        image, totals = self.loss.hessp(
            regression.X, coef, shift, point.at.residuals, self.y, self.weights
        )
        return self._with_penalty(regression.centre(image, totals), totals, coef)

    def regressed(self, point: Point, step: Array) -> Point:
        scores = point.scores - self.regression.scores(step[:-1], step[-1])
        return self._assemble(point.theta - step, scores, self.evaluate(scores, point.at.centres))

    def line(self, point: Point, direction: Array) -> Line:
        """The points from here along a direction; each costs one retargeting, no pass over X."""
        moved = self.regression.scores(direction[:-1], direction[-1])

        def trial(length: float) -> tuple[Point, float]:
            scores = moved * length
            scores += point.scores
            there = self._assemble(point.theta + length * direction, scores, self.evaluate(scores))
            slope = self.weights @ row_dots(there.at.residuals, moved)
            slope += self.regression.beta * np.vdot(there.theta[:-1], direction[:-1])
            return there, float(slope)

        return trial

    def balance(self, at: Evaluation) -> tuple[Array, float]:
        """Change of the residuals that makes their weighted columns sum to zero, and its cost."""
        plan = self.loss.balance_plan(self.loss.balance_sums(at, self.y, self.weights))
        return self.loss.balance(at, plan, self.y, self.weights)

    def gap(self, point: Point, gradient: Array) -> float:
        cost, balanced = 0.0, gradient[:-1]
        if self.regression.centred:
            change, cost = self.balance(point.at)
            weighted = self.weights[:, None] * change
            balanced = balanced + self.regression.gradient(weighted, weighted.sum(axis=0))
        centred = point.scores - self.weights @ point.scores / self.regression.total
        square = float(self.weights @ np.einsum("ij,ij->i", centred, centred))
        return self._bound(balanced, cost, square, point.objective)


def objective_unit(objective: float, total: float) -> float:
    """What differences of the objective are relative to: itself, unless rounding is all it is.

    That is for samples of a total weight.
    """
    return max(objective, EPS * total)


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
