"""The objective of the family with the targets eliminated, its gradient and its certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.ridge import NormalEquations, Regression

from ._certificate import objective_unit, relative_gap
from ._losses import Evaluation, TargetLoss

__all__ = ["Certified", "Gradient", "Line", "Point", "Problem", "Start", "Step", "rough_gap"]

Array = NDArray[np.float64]


class Start(NamedTuple):
    """Where to begin: coefficients in the regression's coordinates, and the mean scores."""

    coef: Array
    offset: Array


class Gradient(NamedTuple):
    """Half gradient with respect to the coefficients and to the mean scores."""

    coef: Array
    offset: Array


class Step(NamedTuple):
    """A change of the coefficients and of the mean scores."""

    coef: Array
    offset: Array


class Point(NamedTuple):
    """Coefficients with the objective and all that was computed on the way to it."""

    coef: Array
    offset: Array
    scores: Any  # None where the rows are not in memory
    at: Any  # an Evaluation, or its sums where the rows are not in memory
    objective: float


class Certified(NamedTuple):
    """A point and its relative optimality gap."""

    point: Point
    gap: float


Line = Callable[[float], tuple[Point, float]]  # a point at some length, and the slope there


@dataclass
class Problem:
    """Minimise F(W, b) = L(ΦW + 1bᵀ) + β‖W‖² for a loss L and the features Φ of a regression."""

    regression: Regression
    loss: TargetLoss

    def first_point(self, start: Start | None, centres: Array | None = None) -> Point:
        """The given start, or else the regression onto the zero-one targets from given centres."""
        if start is not None:
            return self.point(start.coef, start.offset)
        totals, weights = self.regression.class_totals(self.loss.y, self.loss.n_classes)
        offset = weights / weights.sum() if self.regression.centred else np.zeros_like(weights)
        return self.point(self.regression.solve(totals), offset, centres)

    def point(self, coef: Array, offset: Array, centres: Array | None = None) -> Point:
        """Evaluate the objective afresh: with the best centres, or one update from given ones."""
        scores = self.regression.scores(coef, offset)
        at = self.loss.evaluate(scores, centres)
        if centres is not None:
            at = self.loss.recentre(at)
        return self.assemble(coef, offset, scores, at)

    def assemble(self, coef: Array, offset: Array, scores: Array, at: Evaluation) -> Point:
        """A point from its parts."""
        objective = at.value + self.regression.beta * float(np.vdot(coef, coef))
        return Point(coef, offset, scores, at, objective)

    def gradient(self, point: Point) -> Gradient:
        """Half gradient at a point."""
        return self.rmatmul(self.loss.weights[:, None] * point.at.residuals, point.coef)

    def rmatmul(self, weighted: Array, coef: Array) -> Gradient:
        """Half gradient for weighted residuals of the scores and given coefficients."""
        totals = np.ones(len(weighted)) @ weighted
        return self._half_gradient(self.regression.gradient(weighted, totals), totals, coef)

    def _half_gradient(self, pulled_back: Array, totals: Array, coef: Array) -> Gradient:
        return Gradient(
            pulled_back + self.regression.beta * coef,
            totals if self.regression.centred else np.zeros_like(totals),
        )

    def curve(self, point: Point, step: Step) -> tuple[Gradient, float]:
        """Half Hessian at a point times a step, and its inner product with the step."""
        coef, totals, curvature = self.regression.curve(
            step.coef,
            step.offset,
            partial(self.loss.curvature, point.at.residuals),
            row_wise=self.loss.row_wise,
            compiled=self.loss.pulled_curvature(point.at.residuals),
        )
        curvature += self.regression.beta * float(np.vdot(step.coef, step.coef))
        return self._half_gradient(coef, totals, step.coef), curvature

    @property
    def n_classes(self) -> int:
        """Number of columns of the scores."""
        return self.loss.n_classes

    @property
    def work(self) -> int:
        """Multiplications that the scores of all training samples take."""
        return len(self.loss.y) * self.regression.size * self.loss.n_classes

    def certify(self, point: Point, gradient: Gradient) -> Certified:
        """The point with its rigorous relative optimality gap."""
        gap = relative_gap(
            self.regression, self.loss, point.scores, point.at, gradient.coef, point.objective
        )
        return Certified(point, gap)

    def certify_afresh(self, at: Start) -> Certified:
        """The same with all computed from the coefficients, free of what rounding added up to."""
        point = self.point(at.coef, at.offset)
        return self.certify(point, self.gradient(point))

    def rough_gap(self, point: Point, gradient: Gradient) -> float:
        """Size of the gradient on the scale of the gap, without a further pass over the rows."""
        return rough_gap(self.regression, point.objective, gradient)

    def regressed(self, point: Point, step: Step) -> Point:
        """Where regression onto the targets leads, a step back, with new targets and centres."""
        coef, offset = point.coef - step.coef, point.offset - step.offset
        scores = point.scores - self.regression.scores(*step)
        at = self.loss.recentre(self.loss.evaluate(scores, point.at.centres))
        return self.assemble(coef, offset, scores, at)

    def line(self, point: Point, direction: Step) -> Line:
        """The points from here along a direction; each costs one retargeting, no pass over X."""
        moved = self.regression.scores(*direction)

        def trial(length: float) -> tuple[Point, float]:
            scores = moved * length
            scores += point.scores
            there = self.assemble(
                point.coef + length * direction.coef,
                point.offset + length * direction.offset,
                scores,
                self.loss.evaluate(scores),
            )
            weighted = self.loss.weights[:, None] * there.at.residuals
            slope = np.vdot(weighted, moved)
            slope += self.regression.beta * np.vdot(there.coef, direction.coef)
            return there, float(slope)

        return trial


def rough_gap(regression: NormalEquations, objective: float, gradient: Gradient) -> float:
    """Size of the gradient on the scale of the gap."""
    size = float(gradient.offset @ gradient.offset) / regression.total
    if regression.beta > 0:
        size += float(np.vdot(gradient.coef, gradient.coef)) / regression.beta
    return float(size / objective_unit(objective, regression.total))
