"""The retargeted problem on rows that are not in memory; every evaluation is a pass over them.

No scores or targets are stored. A point consists of coefficients and the sums of one pass: the
loss, its gradient, and the sums for GReLSR's centres. Products with the Hessian and duality gaps
compute the residuals again from the coefficients, block by block.

GReLSR couples the rows of a class by its centre μ. The best centres solve one equation per class,
μ = mean of t_k(μ) − 1, by Newton steps of one pass each. Along a direction the targets of class k
change by a multiple of dμ_k, which is a ratio of sums over all rows. So a pass multiplies the terms
of each class by Xᵀ, and dμ is applied after the pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from discreg.blocks.moment_ridge import MomentRegression
from discreg.blocks.source import AddableTuple, Block, BlockSource
from discreg.linalg.ridge import Regression
from discreg.linalg.rows import matmul, rmatmul
from discreg.linalg.types import Array

from ._losses import Evaluation, TargetLoss
from ._solvers import ArrayProblem, Line, Point, RetargetedProblem

__all__ = ["BlockProblem"]

MAX_CENTRE_STEPS = 50
ROUNDING = 1e-14  # relative change of a centre due to rounding
SCORE_BYTES = 1 << 21  # memory for the scores of a part of a block
FEWEST_ROWS = 256  # minimum number of rows of a part


class BlockEvaluation(NamedTuple):
    """Sums of one pass: the loss, its gradient and the centres."""

    value: float
    image: Array  # XᵀSG for the residuals G
    totals: Array  # column sums of SG
    used: Array  # the centres that the targets were computed with
    centres: Array
    targets: None = None  # not kept


class BlockProblem(RetargetedProblem):
    """The retargeted problem on the rows of a block source."""

    def __init__(self, regression: MomentRegression, loss: TargetLoss, source: BlockSource) -> None:
        super().__init__(regression, loss, source.n_classes)
        self.source = source

    def in_memory(self) -> ArrayProblem:
        """Read the rows into memory; the coordinates of the coefficients remain the same."""
        X, y, weights = self.source.reduce(_rows_of_block)
        rows = sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.vstack(X)
        regression = Regression(rows, np.concatenate(weights), centre=self.regression.centred)
        regression.within_class = self.regression.within_class
        regression.scatter = self.regression.scatter
        regression.at(self.regression.beta)
        return ArrayProblem(regression, self.loss, np.concatenate(y), self.n_classes)

    def _class_totals(self) -> tuple[Array, Array]:
        totals: tuple[Array, Array] = self.regression.class_totals()
        return totals

    def point(self, theta: Array, centres: Array | None = None) -> Point:
        return self._assemble(theta, None, self._evaluate(theta, centres))

    def _evaluate(self, theta: Array, centres: Array | None) -> BlockEvaluation:
        raw, weights, penalty = self._raw(theta), self.source.weights, self.loss.group_penalty
        used, first = self._centres if centres is None else centres, True
        for turn in range(MAX_CENTRE_STEPS):
            squares, image, totals, moves, spread, slope = self._reduce(_evaluate_block, raw, used)
            if penalty == 0:  # the centres, mean translations, have no effect
                return BlockEvaluation(squares, image, totals, used, moves / weights)
            steps = moves / slope
            rounding = ROUNDING * (1 + penalty) * (1 + np.abs(used))
            moving = (steps > rounding) | (first & (steps < -rounding))
            if centres is not None or not moving.any() or turn == MAX_CENTRE_STEPS - 1:
                break
            used, first = used + np.where(moving, steps, 0.0), False
        if centres is not None:  # one update: the best centres for the targets just computed
            left = float(np.sum(spread - moves**2 / weights))
            value = squares + penalty * max(left, 0.0)
            return BlockEvaluation(value, image, totals, used, used + moves / weights)
        self._centres = used
        value = squares + penalty * float(spread.sum())
        return BlockEvaluation(value, image, totals, used, used)

    def _reduce(self, statistic: Callable[..., AddableTuple], *args: Any) -> AddableTuple:
        """Sum a statistic over all rows, in parts of blocks to limit the memory for scores."""
        total: AddableTuple = self.source.reduce(
            _by_parts, self.n_classes, statistic, self.loss, *args
        )
        return total

    def _raw(self, theta: Array) -> tuple[Array, Array]:
        """Return the coefficients of the raw features and the constant term of the scores."""
        return theta[:-1], self.regression.shift(theta[:-1], theta[-1])

    def gradient(self, point: Point) -> Array:
        """Compute half the gradient from the sums of the pass that evaluated the point."""
        image = self.regression.centre(point.at.image, point.at.totals)
        return self._with_penalty(image, point.at.totals, point.theta[:-1])

    def hessp(self, point: Point, step: Array) -> Array:
        places = (self._raw(point.theta), point.at.used, self._raw(step))
        if self.loss.group_penalty == 0:
            image, totals = self._reduce(_hessp, *places)
        else:
            image, totals, moved, held, by_class, totals_by_class = self._reduce(
                _hessp_of_groups, *places
            )
            centre_steps = moved / held
            image = image + np.tensordot(centre_steps, by_class, 1)
            totals = totals + centre_steps @ totals_by_class
        return self._with_penalty(self.regression.centre(image, totals), totals, step[:-1])

    def regressed(self, point: Point, step: Array) -> Point:
        return self.point(point.theta - step, centres=point.at.centres)

    def line(self, point: Point, direction: Array) -> Line:
        """Return a function that evaluates points along a direction, with one pass per point."""

        def trial(length: float) -> tuple[Point, float]:
            there = self.point(point.theta + length * direction)
            return there, float(np.vdot(self.gradient(there), direction))

        return trial

    def gap(self, point: Point, gradient: Array) -> float:
        cost, balanced = 0.0, gradient[:-1]
        if self.regression.centred:
            place = (self._raw(point.theta), point.at.used)
            plan = self.loss.balance_plan(self._reduce(_balance_sums, *place))
            image, totals, cost = self._reduce(_balance, *place, plan)
            balanced = balanced + self.regression.centre(image, totals)
        coef = point.theta[:-1]
        square = max(float(np.vdot(coef, self.regression.moments.scatter @ coef)), 0.0)
        return self._bound(balanced, cost, square, point.objective)


def _by_parts(
    block: Block,
    n_classes: int,
    statistic: Callable[..., AddableTuple],
    loss: TargetLoss,
    *args: Any,
) -> AddableTuple:
    """Sum a statistic over parts of a block."""
    step = max(FEWEST_ROWS, SCORE_BYTES // (8 * n_classes))
    parts = (
        statistic(Block(block.X[rows], block.y[rows], block.weights[rows]), loss, *args)
        for rows in gen_batches(len(block.y), step)
    )
    return reduce(add, parts)


def _rows_of_block(block: Block) -> AddableTuple:
    return AddableTuple(([block.X], [block.y], [block.weights]))


def _scores(block: Block, raw: tuple[Array, Array]) -> Array:
    scores = matmul(block.X, raw[0])
    scores += raw[1]
    return scores


def _evaluation(
    block: Block, loss: TargetLoss, raw: tuple[Array, Array], centres: Array
) -> Evaluation:
    return loss.evaluate(_scores(block, raw), block.y, block.weights, centres)


def _evaluate_block(block: Block, loss: TargetLoss, *place: Any) -> AddableTuple:
    """Compute the loss, Xᵀ times the residuals, their column sums and centre sums.

    The group penalty is left out of the loss.
    """
    at = _evaluation(block, loss, *place)
    weighted = block.weights[:, None] * at.residuals
    return AddableTuple(
        (
            float(np.vdot(weighted, at.residuals)) if loss.group_penalty > 0 else at.value,
            rmatmul(block.X, weighted),
            weighted.sum(axis=0),
            *loss.centre_sums(at, block.y, block.weights),
        )
    )


def _hessp(
    block: Block, loss: TargetLoss, raw: Any, centres: Array, step: tuple[Array, Array]
) -> AddableTuple:
    at = _evaluation(block, loss, raw, centres)
    return loss.hessp(block.X, *step, at.residuals, block.y, block.weights)


def _hessp_of_groups(
    block: Block, loss: Any, raw: Any, centres: Array, step: tuple[Array, Array]
) -> AddableTuple:
    """Compute the product for fixed centres, the moves of the centres, and their effects."""
    X, y, weights, _ = block
    at = _evaluation(block, loss, raw, centres)
    direction = _scores(block, step)
    moves = loss.centre_moves(at.residuals, direction, y, weights)
    product = loss.fixed_hessp(at.residuals, direction, y, weights, np.zeros_like(centres))
    response = loss.centre_response(at, y, weights)
    of_classes = [np.flatnonzero(y == k) for k in range(len(centres))]
    return AddableTuple(
        (
            rmatmul(X, product),
            product.sum(axis=0),
            *moves,
            np.stack([rmatmul(X[rows], response[rows]) for rows in of_classes]),
            np.stack([response[rows].sum(axis=0) for rows in of_classes]),
        )
    )


def _balance_sums(block: Block, loss: TargetLoss, *place: Any) -> AddableTuple:
    at = _evaluation(block, loss, *place)
    return loss.balance_sums(at, block.y, block.weights)


def _balance(block: Block, loss: TargetLoss, raw: Any, centres: Array, plan: Any) -> AddableTuple:
    """Compute Xᵀ times the change that balances the residuals, its column sums and its cost."""
    at = _evaluation(block, loss, raw, centres)
    change, cost = loss.balance(at, plan, block.y, block.weights)
    weighted = block.weights[:, None] * change
    return AddableTuple((rmatmul(block.X, weighted), weighted.sum(axis=0), cost))
