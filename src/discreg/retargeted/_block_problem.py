"""The objective of the family on rows that are not in memory: every evaluation is a pass over them.

Nothing is kept of a row. A point is its coefficients and the sums that one pass found there: the
loss, the residuals pulled back, and what GReLSR's centres need. The residuals that a Hessian or a
certificate asks for are computed again from the coefficients, block by block.

GReLSR couples the rows of a class by its centre μ. The best centres solve one equation a class,
μ = mean of t_k(μ) − 1, by Newton's steps of one pass each. Along a direction the targets of class k
move by a term proportional to dμ_k, which itself is a ratio of sums; so the terms are pulled back
class by class and put together after the pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from discreg.blocks.moment_ridge import MomentRegression
from discreg.blocks.source import AddableTuple, Block, BlockSource
from discreg.linalg.rows import class_sums, one_hot, rmatmul, times

from ._certificate import bounded_gap
from ._losses import Evaluation, TargetLoss
from ._problem import Certified, Gradient, Line, Point, Start, Step, rough_gap

__all__ = ["BlockProblem", "MakeLoss"]

Array = NDArray[np.float64]
MakeLoss = Callable[[NDArray[np.intp], Array, int], TargetLoss]
MAX_CENTRE_STEPS = 50
ROUNDING = 1e-14  # of a centre, relative
SCORE_BYTES = 1 << 21  # of the scores of a part of a block
FEWEST_ROWS = 256  # of such a part


class At(NamedTuple):
    """A loss at scores that are not kept: what one pass has added up there."""

    value: float
    pulled: Array  # XᵀSG for the residuals G
    totals: Array  # sums of the columns of SG
    used: Array  # the centres that the targets were computed with
    centres: Array
    targets: None = None  # not kept


@dataclass
class BlockProblem:
    """Minimise F(W, b) = L(ΦW + 1bᵀ) + β‖W‖² over the rows of a table.

    Attributes
    ----------
    regression : MomentRegression
        The normal equations of plain regression, their penalty fixed.
    table : BlockSource
    make_loss : callable
        ``make_loss(y, weights, n_classes)`` gives the loss of a block.
    group_penalty : float
        GReLSR's γ; 0 where the rows are independent.
    """

    regression: MomentRegression
    table: BlockSource
    make_loss: MakeLoss
    group_penalty: float = 0.0
    _centres: Array = field(init=False)

    def __post_init__(self) -> None:
        self._centres = np.zeros(self.n_classes)

    @property
    def n_classes(self) -> int:
        """Number of columns of the scores."""
        return self.table.n_classes

    def first_point(self, start: Start | None, centres: Array | None = None) -> Point:
        """The given start, or else the regression onto the zero-one targets from given centres."""
        if start is not None:
            return self.point(start.coef, start.offset)
        totals, weights = self.regression.class_totals()
        offset = weights / weights.sum() if self.regression.centred else np.zeros_like(weights)
        return self.point(self.regression.solve(totals), offset, centres)

    def point(self, coef: Array, offset: Array, centres: Array | None = None) -> Point:
        """Evaluate the objective: with the best centres, or one update from given ones."""
        at = self._at(coef, offset, centres)
        objective = at.value + self.regression.beta * float(np.vdot(coef, coef))
        return Point(coef, offset, None, at, objective)

    def _at(self, coef: Array, offset: Array, centres: Array | None) -> At:
        shift = self._shift(coef, offset)
        weights = self.table.weights
        used, first = self._centres if centres is None else centres, True
        for turn in range(MAX_CENTRE_STEPS):
            sums = self._fold(_evaluate, coef, shift, used)
            squares, pulled, totals, moves, spread, slope = sums
            if self.group_penalty == 0:  # then the moves are those from centres of zero
                return At(squares, pulled, totals, used, moves / weights)
            steps = moves / slope
            rounding = ROUNDING * (1 + self.group_penalty) * (1 + np.abs(used))
            moving = (steps > rounding) | (first & (steps < -rounding))
            if centres is not None or not moving.any() or turn == MAX_CENTRE_STEPS - 1:
                break
            used, first = used + np.where(moving, steps, 0.0), False
        if centres is not None:  # the best ones for the targets that the given ones led to
            left = float(np.sum(spread - moves**2 / weights))
            value = squares + self.group_penalty * max(left, 0.0)
            return At(value, pulled, totals, used, used + moves / weights)
        self._centres = used
        value = squares + self.group_penalty * float(spread.sum())
        return At(value, pulled, totals, used, used)

    def _fold(self, statistic: Callable[..., AddableTuple], *args: Any) -> AddableTuple:
        """One pass: the sum of a statistic over parts of the blocks, whose scores stay small."""
        total: AddableTuple = self.table.reduce(
            _by_parts, self.n_classes, statistic, self.make_loss, *args
        )
        return total

    def _shift(self, coef: Array, offset: Array) -> Array:
        mean = self.regression.mean
        return offset if mean is None else offset - mean @ coef

    def gradient(self, point: Point) -> Gradient:
        """Half gradient at a point, from the pass that evaluated it."""
        return self._half_gradient(point.at.pulled, point.at.totals, point.coef)

    def _half_gradient(self, pulled: Array, totals: Array, coef: Array) -> Gradient:
        return Gradient(
            self._centre(pulled, totals) + self.regression.beta * coef,
            totals if self.regression.centred else np.zeros_like(totals),
        )

    def _centre(self, pulled: Array, totals: Array) -> Array:
        mean = self.regression.mean
        return pulled if mean is None else pulled - np.outer(mean, totals)

    def curve(self, point: Point, step: Step) -> tuple[Gradient, float]:
        """Half Hessian at a point times a step, and its inner product with the step."""
        at = self._shift(point.coef, point.offset)
        along = self._shift(step.coef, step.offset)
        places = (point.coef, at, point.at.used, step.coef, along)
        if self.group_penalty == 0:
            pulled, totals, inner = self._fold(_curve, *places)
        else:
            pulled, totals, inner, moved, held, by_class, totals_by_class = self._fold(
                _curve_groups, self.group_penalty, *places
            )
            centre_steps = moved / held
            pulled = pulled + np.tensordot(centre_steps, by_class, 1)
            totals = totals + centre_steps @ totals_by_class
            inner -= self.group_penalty * float(centre_steps @ moved)
        inner += self.regression.beta * float(np.vdot(step.coef, step.coef))
        return self._half_gradient(pulled, totals, step.coef), inner

    def regressed(self, point: Point, step: Step) -> Point:
        """Where regression onto the targets leads, a step back, with new targets and centres."""
        return self.point(
            point.coef - step.coef, point.offset - step.offset, centres=point.at.centres
        )

    def line(self, point: Point, direction: Step) -> Line:
        """The points from here along a direction; each costs a pass, which also finds the slope."""

        def trial(length: float) -> tuple[Point, float]:
            there = self.point(
                point.coef + length * direction.coef, point.offset + length * direction.offset
            )
            gradient = self.gradient(there)
            slope = np.vdot(gradient.coef, direction.coef) + gradient.offset @ direction.offset
            return there, float(slope)

        return trial

    def rough_gap(self, point: Point, gradient: Gradient) -> float:
        """Size of the gradient on the scale of the gap, without a further pass over the rows."""
        return rough_gap(self.regression, point.objective, gradient)

    def certify(self, point: Point, gradient: Gradient) -> Certified:
        """The point with its rigorous relative optimality gap."""
        cost, balanced = 0.0, gradient.coef
        if self.regression.centred:
            place = (point.coef, self._shift(point.coef, point.offset), point.at.used)
            sums = self._fold(_balance_sums, *place)
            none = np.zeros(0)
            loss = self.make_loss(none.astype(np.intp), none, self.n_classes)
            plan = loss.plan_balance(sums)
            pulled, totals, cost = self._fold(_balance, plan, *place)
            balanced = balanced + self._centre(pulled, totals)
        scatter = self.regression.moments.scatter
        square = max(float(np.vdot(point.coef, scatter @ point.coef)), 0.0)
        gap = bounded_gap(self.regression, balanced, cost, square, point.objective)
        return Certified(point, gap)

    def certify_afresh(self, at: Start) -> Certified:
        """The same with all computed from the coefficients."""
        point = self.point(at.coef, at.offset)
        return self.certify(point, self.gradient(point))


def _by_parts(
    block: Block,
    n_classes: int,
    statistic: Callable[..., AddableTuple],
    make_loss: MakeLoss,
    *args: Any,
) -> AddableTuple:
    """The sum of a statistic over parts of a block."""
    step = max(FEWEST_ROWS, SCORE_BYTES // (8 * n_classes))
    parts = (
        statistic(
            Block(block.X[rows], block.y[rows], block.weights[rows]),
            make_loss,
            *args,
        )
        for rows in gen_batches(len(block.y), step)
    )
    return reduce(add, parts)


def _loss_at(
    block: Block, make_loss: MakeLoss, coef: Array, shift: Array, centres: Array
) -> tuple[TargetLoss, Evaluation]:
    """The loss of a block, and its value and residuals at the scores XW + shift."""
    loss = make_loss(block.y, block.weights, len(shift))
    scores = times(block.X, coef)
    scores += shift
    return loss, loss.evaluate(scores, centres)


def _active(at: Evaluation, y: NDArray[np.intp]) -> NDArray[np.bool_]:
    """The true class of each row and the classes whose scores are too large beside it."""
    return (at.residuals > 0) | (one_hot(y, at.residuals.shape[1]) > 0)


def _evaluate(
    block: Block, make_loss: MakeLoss, coef: Array, shift: Array, centres: Array
) -> AddableTuple:
    """Weighted squares of the residuals, these pulled back, and how far t_k − 1 are from centres.

    That is d = t_k − 1 − μ, of which the sums and the squares of each class are added up; the best
    targets for γ > 0 have γ d = Σ_j (r_j − t_j), which loses no digits. Last, the slope of the
    equation of each centre.
    """
    loss, at = _loss_at(block, make_loss, coef, shift, centres)
    group_penalty = float(getattr(loss, "group_penalty", 0.0))
    weighted = block.weights[:, None] * at.residuals
    if group_penalty > 0:
        distances = at.residuals.sum(axis=1) / group_penalty
    else:
        distances = np.take_along_axis(at.targets, block.y[:, None], axis=1)[:, 0] - 1.0
    sums = [class_sums(block.y, block.weights * distances**power, len(shift)) for power in (1, 2)]
    size = _active(at, block.y).sum(axis=1)
    slope = class_sums(block.y, block.weights * size / (size + group_penalty), len(shift))
    return AddableTuple(
        (
            float(np.vdot(weighted, at.residuals)),
            rmatmul(block.X, weighted),
            weighted.sum(axis=0),
            *sums,
            slope,
        )
    )


def _curve(block: Block, make_loss: MakeLoss, *places: Any) -> AddableTuple:
    """The derivative of the residuals along a direction, pulled back; its totals and product."""
    coef, shift, centres, step, along = places
    loss, at = _loss_at(block, make_loss, coef, shift, centres)
    moved = times(block.X, step)
    moved += along
    curved = loss.curvature(at.residuals, moved)
    return AddableTuple((rmatmul(block.X, curved.product), curved.totals, curved.inner))


def _curve_groups(
    block: Block, make_loss: MakeLoss, group_penalty: float, *places: Any
) -> AddableTuple:
    """The same for fixed centres, what moves the centres, and what a move of each adds.

    With A the active classes of a row, q the sum of the direction over them and their number m, a
    target moves by (q + γ dμ) / (γ + m), and dμ is the ratio of Σ s q / (γ + m) and Σ s m / (γ + m)
    over the class.
    """
    coef, shift, centres, step, along = places
    n_classes = len(shift)
    _, at = _loss_at(block, make_loss, coef, shift, centres)
    moved = times(block.X, step)
    moved += along
    active = _active(at, block.y)
    size = active.sum(axis=1)
    mean = np.where(active, moved, 0.0).sum(axis=1) / (size + group_penalty)
    product = block.weights[:, None] * np.where(active, moved - mean[:, None], 0.0)
    following = active * (-group_penalty * block.weights / (size + group_penalty))[:, None]
    of_classes = [np.flatnonzero(block.y == k) for k in range(n_classes)]
    return AddableTuple(
        (
            rmatmul(block.X, product),
            product.sum(axis=0),
            float(np.vdot(product, moved)),
            class_sums(block.y, block.weights * mean, n_classes),
            class_sums(block.y, block.weights * size / (size + group_penalty), n_classes),
            np.stack([rmatmul(block.X[rows], following[rows]) for rows in of_classes]),
            np.stack([following[rows].sum(axis=0) for rows in of_classes]),
        )
    )


def _balance_sums(block: Block, make_loss: MakeLoss, *place: Any) -> AddableTuple:
    """What the balance of the residuals depends on."""
    loss, at = _loss_at(block, make_loss, *place)
    return loss.balance_sums(at)


def _balance(block: Block, make_loss: MakeLoss, plan: Any, *place: Any) -> AddableTuple:
    """The change that balances the residuals, pulled back; its totals and its cost."""
    loss, at = _loss_at(block, make_loss, *place)
    change, cost = loss.balance(at, plan)
    weighted = block.weights[:, None] * change
    return AddableTuple((rmatmul(block.X, weighted), weighted.sum(axis=0), cost))
