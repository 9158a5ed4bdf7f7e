"""The retargeted problem with the targets eliminated, and its two solvers.

    F(θ) = L(ΦW + 1bᵀ) + β‖W‖²

for a loss L and the features Φ of a regression. θ stacks the coefficients W and, as its last row,
the mean scores b. A solver is a function that steps from one point to the next; `minimise` repeats
it until the relative optimality gap is small enough.

`ArrayProblem` is the problem on rows in memory, `BlockProblem` that on rows in blocks, where every
evaluation is a pass over them. There no scores or targets are stored. A point consists of
coefficients and the sums of one pass: the loss, its gradient, and the sums for GReLSR's centres.
Products with the Hessian and duality gaps compute the residuals again from the coefficients, block
by block.

GReLSR couples the rows of a class by its centre μ. The best centres solve one equation per class,
μ = mean of t_k(μ) − 1, by Newton steps of one pass each. Along a direction the targets of class k
change by a multiple of dμ_k, which is a ratio of sums over all rows. So a pass multiplies the terms
of each class by Xᵀ, and dμ is applied after the pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from discreg.blocks.moments import MomentRegression
from discreg.blocks.source import AddableTuple, Block, BlockSource
from discreg.linalg.factorisation import conjugate_gradients
from discreg.linalg.ridge import NormalEquations, Regression, objective_unit
from discreg.linalg.rows import matmul, rmatmul, row_dots, weighted_square
from discreg.linalg.types import Array, Indices

from ._losses import Evaluation, TargetLoss

REACH = 10.0  # radius, relative to the scores, of the comparison without a penalty (see `gap`)
MAX_CG_STEPS = 500
MIN_ACCURACY, MAX_ACCURACY = 1e-3, 0.3  # relative accuracy of conjugate gradients
MAX_TRIALS = 40
SUFFICIENT_DECREASE = 1e-4
EXACT = 1e-20  # relative gap due to rounding
DRIFT = 1e-10  # smaller gaps are affected by rounding errors of updated scores
ROUNDING = 1e-13  # relative change of the objective due to rounding
SLOW = 20  # Newton steps after which a gap above `FAR` means that the penalty is too small
FAR = 1e-2  # gap at which the next smaller penalty is tried
DECADES = 15  # larger penalties that are tried, down to rounding
MAX_CENTRE_STEPS = 50
CENTRE_ROUNDING = 1e-14  # relative change of a centre due to rounding
SCORE_BYTES = 1 << 21  # memory for the scores of a part of a block
FEWEST_ROWS = 256  # minimum number of rows of a part


class Point(NamedTuple):
    """Coefficients with their scores, loss and objective."""

    theta: Array
    scores: Any  # None if the rows are not in memory
    at: Any  # an Evaluation, or a BlockEvaluation if the rows are not in memory
    objective: float


Line = Callable[[float], tuple[Point, float]]  # the point at a step length, and the slope there


class Options(NamedTuple):
    """Options of a solver: its name, the wanted gap, a limit of its iterations, and a start."""

    solver: str
    tol: float
    max_iter: int
    start: Array | None = None


@dataclass
class Solution:
    """Coefficients with their relative optimality gap.

    Attributes
    ----------
    theta : ndarray of shape (size + 1, n_classes)
        Coefficients in the coordinates of the regression. The last row holds the mean score of each
        class, which is the intercept for centred features.
    targets : ndarray of shape (n_samples, n_classes) or None
        Best targets for the scores; None if the rows are not in memory.
    objective_history : list of float
        Objective after each iteration, the starting point first.
    gap : float
        Relative optimality gap.
    solver : str
        Name of the solver that ran.
    centres : ndarray of shape (n_classes,) or None
        Centres of the classes, for GReLSR.
    """

    theta: Array
    targets: Array | None
    objective_history: list[float]
    gap: float
    solver: str
    centres: Array | None = None


class RetargetedProblem(ABC):
    """Base class of the retargeted problem on rows in memory or in blocks.

    Parameters
    ----------
    regression : NormalEquations
        The normal equations of ridge regression, with a fixed penalty.
    loss : TargetLoss
    n_classes : int
    """

    y: Any = None  # class indices; None if the rows are not in memory

    def __init__(self, regression: NormalEquations, loss: TargetLoss, n_classes: int) -> None:
        self.regression = regression
        self.loss, self.n_classes = loss, n_classes
        self._centres = np.zeros(n_classes)  # start of the search for the best centres

    def first_point(self, start: Array | None, centres: Array | None) -> Point:
        """Evaluate the starting point: by default, the regression onto the zero-one targets."""
        if start is not None:
            return self.point(start)
        totals, weights = self.regression.class_totals(self.y, self.n_classes)
        offset = weights / weights.sum() if self.regression.centred else np.zeros_like(weights)
        return self.point(np.vstack([self.regression.solve(totals), offset]), centres)

    @abstractmethod
    def point(self, theta: Array, centres: Array | None = None) -> Point:
        """Evaluate the objective with the best centres, or with one update of given centres."""

    @abstractmethod
    def gradient(self, point: Point) -> Array:
        """Compute half the gradient at a point."""

    @abstractmethod
    def hessp(self, point: Point, step: Array) -> Array:
        """Multiply half the Hessian at a point by a step."""

    @abstractmethod
    def regressed(self, point: Point, step: Array) -> Point:
        """Subtract a step from the coefficients, then update the targets and the centres once."""

    @abstractmethod
    def line(self, point: Point, direction: Array) -> Line:
        """Return a function that evaluates points along a direction."""

    @abstractmethod
    def balanced(self, point: Point) -> tuple[Array, Array, float]:
        """Compute XᵀSE and the column sums of SE for the E of `gap`, and the cost of E."""

    @abstractmethod
    def centred_square(self, point: Point) -> float:
        """Compute the weighted squares of the scores minus their means."""

    def gap(self, point: Point, gradient: Array) -> float:
        r"""Compute an upper bound of (F(θ) − min F) / F(θ), derived in docs/retargeted.md.

        By Fenchel's inequality every Z with Σ_i s_i z_i = 0 (b has no penalty) and finite L* gives
        min F ≥ −L*(2Z) − ‖XᵀSZ‖² / β. The residuals G = R − T at the best targets have finite L*,
        but their columns do not sum to zero. So Z = G + E with a small E from
        `TargetLoss.balance`. Then F minus the bound is free of cancellation:

        .. math:: F - \text{bound} = \tfrac1\beta \|X^\top S (G + E) + \beta W\|^2
                  + \sum_i s_i (\|e_i\|^2 + 2\, e_i \cdot \text{slack}_i),

        where slack is the distance of a target from its constraint. For β = 0 the objective is not
        strongly convex. F is then compared with every W' whose centred scores differ from those of
        W by at most `REACH` times their size: F − F(W') ≤ ⟨∇F, W − W'⟩ and F − F(W') ≤ F.
        """
        regression, objective = self.regression, point.objective
        cost, gradient = 0.0, gradient[:-1]
        if regression.centred:
            image, totals, cost = self.balanced(point)
            gradient = gradient + regression.centre(image, totals)
        if regression.beta > 0:
            bound = regression.dual_square(gradient) + cost
        else:
            slope = np.sqrt(max(float(np.vdot(gradient, regression.solve(gradient))), 0.0))
            slope *= np.sqrt(1.0 + regression.within_class)  # ΦᵀSΦ + ωS_w is at most (1 + ω)ΦᵀSΦ
            size = np.sqrt(max(self.centred_square(point), regression.total))
            bound = 2.0 * float(slope) * REACH * float(size) + cost
        return float(min(objective, bound) / objective_unit(objective, regression.total))

    def rough_gap(self, point: Point, gradient: Array) -> float:
        """Estimate the gap from the gradient, without another pass over the rows."""
        size = float(gradient[-1] @ gradient[-1]) / self.regression.total
        if self.regression.beta > 0:
            size += self.regression.dual_square(gradient[:-1])
        return float(size / objective_unit(point.objective, self.regression.total))

    def precondition(self, gradient: Array) -> Array:
        """Compute the step of ridge regression for half the gradient."""
        coef = self.regression.solve(gradient[:-1])
        return np.vstack([coef, gradient[-1] / self.regression.total])

    def _with_penalty(self, image: Array, totals: Array, coef: Array) -> Array:
        """Add the penalty to half the gradient of the loss, or to its Hessian times a step."""
        last = totals if self.regression.centred else np.zeros_like(totals)
        return np.vstack([image + self.regression.penalised(coef), last])

    def _assemble(self, theta: Array, scores: Any, at: Any) -> Point:
        coef = theta[:-1]
        objective = at.value + self.regression.penalty(coef, coef)
        return Point(theta, scores, at, objective)


class ArrayProblem(RetargetedProblem):
    """The retargeted problem on rows in memory; points store the scores of all rows."""

    regression: Regression

    def __init__(
        self, regression: Regression, loss: TargetLoss, y: Indices, n_classes: int
    ) -> None:
        super().__init__(regression, loss, n_classes)
        self.y, self.weights = y, regression.weights

    @property
    def work(self) -> int:
        """Number of multiplications to compute the scores of all training samples."""
        return int(len(self.y) * self.regression.size * self.n_classes)

    def evaluate(self, scores: Array, centres: Array | None = None) -> Evaluation:
        """Evaluate the loss with the best centres, or with one update of given centres."""
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
        """Return a function that evaluates points along a direction without a pass over X."""
        moved = self.regression.scores(direction[:-1], direction[-1])

        def trial(length: float) -> tuple[Point, float]:
            scores = moved * length
            scores += point.scores
            there = self._assemble(point.theta + length * direction, scores, self.evaluate(scores))
            slope = self.weights @ row_dots(there.at.residuals, moved)
            slope += self.regression.penalty(there.theta[:-1], direction[:-1])
            return there, float(slope)

        return trial

    def balanced(self, point: Point) -> tuple[Array, Array, float]:
        change, cost = self.loss.balanced(point.at, self.y, self.weights)
        weighted = self.weights[:, None] * change
        return rmatmul(self.regression.X, weighted), weighted.sum(axis=0), cost

    def centred_square(self, point: Point) -> float:
        centred = point.scores - self.weights @ point.scores / self.regression.total
        return weighted_square(centred, self.weights)


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

    regression: MomentRegression

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
            rounding = CENTRE_ROUNDING * (1 + penalty) * (1 + np.abs(used))
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

    def balanced(self, point: Point) -> tuple[Array, Array, float]:
        place = (self._raw(point.theta), point.at.used)
        plan = self.loss.balance_plan(self._reduce(_balance_sums, *place))
        image, totals, cost = self._reduce(_balance, *place, plan)
        return image, totals, cost

    def centred_square(self, point: Point) -> float:
        coef = point.theta[:-1]
        return float(np.vdot(coef, self.regression.moments.scatter @ coef))


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


@np.errstate(over="ignore", invalid="ignore")  # an overflow shows in the gap
def minimise(problem: RetargetedProblem, options: Options) -> Solution:
    """Take steps of a solver until the relative optimality gap is at most `tol`.

    The first iteration is the starting point, by default the regression onto the zero-one targets
    as in the papers. With ``tol=0`` Newton's method stops when rounding prevents further progress.

    If the classes can be separated and β is tiny, the curvature changes by orders of magnitude
    between the pieces of the loss, and Newton's method takes tiny steps. It is then repeated with
    β larger at first, each time from the previous solution.
    """
    regression, beta = problem.regression, problem.regression.beta
    if options.solver != "newton" or beta == 0:
        return _repeat(problem, options)
    tol, max_iter = options.tol, options.max_iter
    first = solution = _repeat(problem, options._replace(max_iter=min(max_iter, SLOW)))
    history = first.objective_history
    larger = regression.scale * 10.0 ** -np.arange(1, DECADES + 1)
    larger = larger[larger > beta] if first.gap > max(FAR, tol) else larger[:0]
    if first.gap <= tol or len(history) == max_iter or (len(history) < SLOW and not len(larger)):
        return first
    theta = None if len(larger) else first.theta
    for penalty in (*larger, beta):
        last, left = penalty == beta, max_iter - len(history)
        limit = left if last else min(left - 1, SLOW)
        if limit > 0:
            regression.at(penalty)
            following = Options("newton", tol if last else FAR, limit, theta)
            solution = _repeat(problem, following)
            # With a larger penalty the objective is larger, so that the minimum remains a bound.
            history = np.minimum.accumulate(history + solution.objective_history).tolist()
            theta = solution.theta
    best = min(first, solution, key=lambda each: each.objective_history[-1])
    return replace(best, objective_history=history)


def _repeat(problem: RetargetedProblem, options: Options) -> Solution:
    step, tol = STEPS[options.solver], options.tol
    # In the papers the alternation starts with centres of zero. Its centres are those of the
    # previous targets, for which the residuals are not feasible in the dual.
    centres = np.zeros(problem.n_classes) if options.solver == "alternating" else None
    certify = _certify_afresh if centres is None else _certify_as_it_is
    point = best = problem.first_point(options.start, centres)
    history = [point.objective]
    certified, smallest = None, np.inf
    while len(history) < options.max_iter:
        gradient = problem.gradient(point)
        size = problem.rough_gap(point, gradient)
        if size <= max(tol, EXACT):
            certified = (
                (point, problem.gap(point, gradient))
                if tol >= DRIFT and centres is None
                else certify(problem, point)
            )
            if certified[1] <= tol or size <= EXACT:
                break
        certified = None
        # The factor by which the gap has to decrease; it is not known without a penalty.
        reduction = tol / size if problem.regression.beta > 0 else 0.0
        following = step(problem, point, gradient, reduction)
        if following is None:
            break
        if size >= smallest and following.objective >= point.objective * (1 - ROUNDING):
            certified = certify(problem, best)  # only rounding errors remain
            break
        if size < smallest:
            smallest, best = size, point
        point = following
        history.append(min(point.objective, history[-1]))
    point, gap = certified or certify(problem, point)
    return Solution(point.theta, point.at.targets, history, gap, options.solver, point.at.centres)


def _certify_afresh(problem: RetargetedProblem, point: Point) -> tuple[Point, float]:
    """Compute a point and its gap from the coefficients, without accumulated rounding errors."""
    point = problem.point(point.theta)
    return point, problem.gap(point, problem.gradient(point))


def _certify_as_it_is(problem: RetargetedProblem, point: Point) -> tuple[Point, float]:
    """Compute the gap of a point of the alternation, whose centres are not the best ones.

    It is that of the coefficients with their best centres, plus what these centres decrease.
    """
    best, gap = _certify_afresh(problem, point)
    total = problem.regression.total
    excess = max(point.objective - best.objective, 0.0)
    distance = excess + gap * objective_unit(best.objective, total)
    return point, min(float(distance / objective_unit(point.objective, total)), 1.0)


def alternating_step(
    problem: RetargetedProblem, point: Point, gradient: Array, reduction: float
) -> Point:
    """Regress onto the targets, retarget, recentre: Algorithm 1 of ReLSR, steps 1 to 3 of GReLSR.

    Regression onto the targets of a point is the step −(ΦᵀSΦ + βI)⁻¹h of W, where h is half the
    gradient for fixed targets.
    """
    return problem.regressed(point, problem.precondition(gradient))


def newton_step(
    problem: RetargetedProblem, point: Point, gradient: Array, reduction: float
) -> Point | None:
    """Take a semismooth Newton step with a line search; return None without progress.

    H p = −h is solved by conjugate gradients. The preconditioner is the Hessian of ridge
    regression, ΦᵀSΦ + βI, and Σs for the mean scores. It is an upper bound of H and already
    factored.
    """
    # The system is solved more accurately near the optimum: the energy is of the order of the
    # distance of the objective from its minimum. More accuracy than `reduction` needs is useless.
    energy = max(float(np.vdot(gradient, problem.precondition(gradient))), 0.0)
    excess = energy / objective_unit(point.objective, problem.regression.total)
    accuracy = max(excess**0.25, 0.4 * np.sqrt(reduction))
    direction = conjugate_gradients(
        lambda step: problem.hessp(point, step),
        -gradient,
        problem.precondition,
        tol=float(np.clip(accuracy, MIN_ACCURACY, MAX_ACCURACY)),
        max_iter=MAX_CG_STEPS,
    )
    return _line_search(problem, point, gradient, direction)


def _line_search(
    problem: RetargetedProblem, point: Point, gradient: Array, direction: Array
) -> Point | None:
    """Shorten the full step until Armijo's condition holds; return None without progress."""
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
            return trial  # the decrease is below rounding, but the gradient is smaller
        if not trial_slope > slope:  # no curvature beyond rounding
            return None
        length *= min(max(-slope / (trial_slope - slope), 0.1), 0.9)
    return None


STEPS: dict[str, Callable[[RetargetedProblem, Point, Array, float], Point | None]] = {
    "alternating": alternating_step,
    "newton": newton_step,
}
