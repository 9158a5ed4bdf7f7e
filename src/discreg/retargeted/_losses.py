"""Losses of the scores once the targets are eliminated, and that of ReLSR and GReLSR.

For weights s, scores R and allowed targets 𝒯 the loss is

    L(R) = min over T in 𝒯 of Σ_i s_i ‖r_i − t_i‖²        (GReLSR: + γ Σ_i s_i (t_ik − 1 − μ_k)²),

convex and once differentiable, with half gradient S(R − T) at the best targets T. A loss holds no
rows: all of its methods take the class indices `y` and the weights of the rows that they work on.
The solver of rows in memory and that of rows in blocks call the same methods. The losses of LSR and
DLSR are beside their estimators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import pinvh

from discreg.blocks.source import AddableTuple
from discreg.linalg.rows import (
    class_sums,
    has_few_columns,
    matmul,
    one_hot,
    product_blocks,
    rmatmul,
    rows_per_product,
)

__all__ = ["Evaluation", "MarginTargets", "Shares", "TargetLoss", "weighted_square"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
BALANCED = 1e-9  # relative excess of a column that rounding leaves


class Evaluation(NamedTuple):
    """A loss at given scores: best targets, residuals, value, and GReLSR's centres."""

    targets: Array
    residuals: Array
    value: float
    centres: Array


class TargetLoss(ABC):
    """What the solvers ask of a loss.

    A rule that treats the rows one by one is described by `targets`, `score_hessp` and `support`.
    """

    group_penalty = 0.0  # GReLSR's γ; where it is positive the centres couple the rows of a class

    @abstractmethod
    def targets(self, scores: Array, y: Indices) -> Array:
        """The allowed targets nearest to the scores."""

    @abstractmethod
    def score_hessp(self, residuals: Array, direction: Array, y: Indices, weights: Array) -> Array:
        """Half Hessian of the loss as a function of the scores, times a direction."""

    def support(self, z: Array, y: Indices) -> Array:
        """Largest ⟨z_i, t_i⟩ of each row over the allowed targets, where that is finite.

        For LSR, DLSR, ReLSR and GReLSR it is z_ik, k the true class.
        """
        return np.asarray(z[np.arange(len(y)), y])

    def evaluate(
        self,
        scores: Array,
        y: Indices,
        weights: Array,
        centres: Array | None = None,
        *,
        start: Array | None = None,
    ) -> Evaluation:
        """Loss at the scores, for given centres or for the best ones, found from a start."""
        targets = self.targets(scores, y)
        residuals = scores - targets
        value = weighted_square(residuals, weights)
        return Evaluation(targets, residuals, value, np.zeros(scores.shape[1]))

    def recentre(self, at: Evaluation, y: Indices, weights: Array) -> Evaluation:
        """The loss at the same targets with the centres that are best for them."""
        return at

    def hessp(
        self, X: Any, coef: Array, shift: Array, residuals: Array, y: Indices, weights: Array
    ) -> AddableTuple:
        """XᵀG and the column sums of G, for G = `score_hessp` along XW + shift.

        One pass over the rows: a block is multiplied from both sides while it is in cache, unless
        the rows are coupled.
        """
        in_blocks = self.group_penalty == 0 and not sparse.issparse(X)
        image, totals = np.zeros_like(coef), np.zeros_like(shift)
        for rows in product_blocks(X, coef.shape[1]) if in_blocks else [slice(None)]:
            block = X[rows] if in_blocks else X
            direction = matmul(block, coef)
            direction += shift
            product = self.score_hessp(residuals[rows], direction, y[rows], weights[rows])
            totals += product.sum(axis=0)
            image += rmatmul(block, product)
        return AddableTuple((image, totals))

    def balance_sums(self, at: Evaluation, y: Indices, weights: Array) -> AddableTuple:
        """What `balance_plan` needs to know of the rows; it adds up over blocks."""
        return AddableTuple((weights @ at.residuals, float(weights.sum())))

    def balance_plan(self, sums: AddableTuple) -> Any:
        """How to change the residuals of all rows so that their weighted columns sum to zero."""
        columns, total = sums
        return np.asarray(-columns / total)

    def balance(self, at: Evaluation, plan: Any, y: Indices, weights: Array) -> tuple[Array, float]:
        """Change of the residuals of some rows by a plan, and its cost in the certificate.

        The change e_i of a row costs ‖e_i‖² + 2 (sup_t ⟨z_i, t⟩ − ⟨z_i, t_i⟩) for the changed
        residuals z_i.
        """
        change = np.broadcast_to(plan, at.residuals.shape)
        z = at.residuals + change
        excess = self.support(z, y) - np.einsum("ij,ij->i", z, at.targets)
        return change, weighted_square(change, weights) + 2 * float(weights @ excess)

    def centre_sums(self, at: Evaluation, y: Indices, weights: Array) -> AddableTuple:
        """Of each class: sum and squares of t_k − 1 − μ_k, and the slope of the first in μ_k."""
        n_classes = at.residuals.shape[1]
        return AddableTuple((np.zeros(n_classes), np.zeros(n_classes), np.ones(n_classes)))


class MarginTargets(TargetLoss):
    """ReLSR, equation (10), and for group_penalty > 0 GReLSR, equation (18): a margin of 1.

    The targets of a row satisfy t_k − t_j ≥ 1 for the true class k and every other class j. The
    active classes of a row are its true class and the false classes with a positive residual.
    """

    def __init__(self, group_penalty: float = 0.0) -> None:
        self.group_penalty = group_penalty

    def targets(self, scores: Array, y: Indices) -> Array:
        return self.targets_for(scores, y, np.zeros(scores.shape[1]))

    def targets_for(self, scores: Array, y: Indices, centres: Array) -> Array:
        """Equation (22) of GReLSR with margin 1, solved by the sorted form of (23) of ReLSR."""
        from . import _loops

        tops, targets = np.empty(len(scores)), np.empty_like(scores)
        _loops.true_targets(scores, y, self.group_penalty, centres, tops)
        _loops.targets_below(scores, y, tops, targets)
        return targets

    def evaluate(
        self,
        scores: Array,
        y: Indices,
        weights: Array,
        centres: Array | None = None,
        *,
        start: Array | None = None,
    ) -> Evaluation:
        if centres is not None:
            targets = self.targets_for(scores, y, centres)
            return self._evaluation(targets, scores - targets, centres, y, weights)
        centres = np.zeros(scores.shape[1]) if start is None else start.copy()
        if self.group_penalty == 0:
            targets = self.targets_for(scores, y, centres)
        else:
            from . import _loops

            tops, targets = np.empty(len(scores)), np.empty_like(scores)
            _loops.best_centres(scores, y, weights, self.group_penalty, centres, tops)
            _loops.targets_below(scores, y, tops, targets)
        return self._evaluation(targets, scores - targets, centres, y, weights)

    def recentre(self, at: Evaluation, y: Indices, weights: Array) -> Evaluation:
        """Equation (23) of GReLSR: the mean translation of each class."""
        if self.group_penalty == 0:
            return at
        translations = at.targets[np.arange(len(y)), y] - 1.0
        totals = np.bincount(y, weights=weights)
        centres = np.bincount(y, weights=weights * translations) / totals
        return self._evaluation(at.targets, at.residuals, centres, y, weights)

    def _evaluation(
        self, targets: Array, residuals: Array, centres: Array, y: Indices, weights: Array
    ) -> Evaluation:
        value = weighted_square(residuals, weights)
        if self.group_penalty > 0:
            spread = targets[np.arange(len(y)), y] - 1.0 - centres[y]
            value += self.group_penalty * float(weights @ spread**2)
        return Evaluation(targets, residuals, value, centres)

    def score_hessp(self, residuals: Array, direction: Array, y: Indices, weights: Array) -> Array:
        centre_steps = np.zeros(direction.shape[1])
        if self.group_penalty > 0:
            moved, held = self.centre_moves(residuals, direction, y, weights)
            centre_steps = moved / held
        return self.fixed_hessp(residuals, direction, y, weights, centre_steps)

    def centre_moves(
        self, residuals: Array, direction: Array, y: Indices, weights: Array
    ) -> AddableTuple:
        """Two sums for each class whose ratio is the move of its centre along a direction.

        With q the sum of the direction over the m active classes of a row: Σ s q / (γ + m) and
        Σ s m / (γ + m).
        """
        from . import _loops

        return AddableTuple(
            _loops.centre_moves(residuals, y, weights, self.group_penalty, direction)
        )

    def fixed_hessp(
        self,
        residuals: Array,
        direction: Array,
        y: Indices,
        weights: Array,
        centre_steps: Array,
    ) -> Array:
        """The same while the centres take given steps."""
        from . import _loops

        product = np.empty_like(direction)
        _loops.margin_hessp(
            residuals, y, weights, self.group_penalty, centre_steps, direction, product
        )
        return product

    def hessp(
        self, X: Any, coef: Array, shift: Array, residuals: Array, y: Indices, weights: Array
    ) -> AddableTuple:
        plain = not sparse.issparse(X) and X.dtype == np.float64 and X.flags.c_contiguous
        if self.group_penalty > 0 or not plain or not has_few_columns(X, len(shift)):
            return super().hessp(X, coef, shift, residuals, y, weights)
        from . import _loops  # rows that compiled code can hand to BLAS as they are

        return AddableTuple(
            _loops.margin_hessp_of_rows(
                X,
                np.ascontiguousarray(coef),
                shift,
                residuals,
                y,
                weights,
                rows_per_product(*coef.shape),
            )
        )

    def centre_sums(self, at: Evaluation, y: Indices, weights: Array) -> AddableTuple:
        """The best targets for γ > 0 have γ (t_k − 1 − μ_k) = Σ_j (r_j − t_j): no digits cancel."""
        if self.group_penalty > 0:
            distances = at.residuals.sum(axis=1) / self.group_penalty
        else:
            distances = at.targets[np.arange(len(y)), y] - 1.0
        size = self._active(at, y).sum(axis=1)
        slopes = size / (size + self.group_penalty)
        n_classes = at.residuals.shape[1]
        return AddableTuple(
            class_sums(y, weights * each, n_classes) for each in (distances, distances**2, slopes)
        )

    def centre_response(self, at: Evaluation, y: Indices, weights: Array) -> Array:
        """Change of the weighted residuals of each row with the centre of its class."""
        active = self._active(at, y)
        return (
            active
            * (-self.group_penalty * weights / (active.sum(axis=1) + self.group_penalty))[:, None]
        )

    def _active(self, at: Evaluation, y: Indices) -> NDArray[np.bool_]:
        return (at.residuals > 0) | (one_hot(y, at.residuals.shape[1]) > 0)

    def balance_sums(self, at: Evaluation, y: Indices, weights: Array) -> AddableTuple:
        """Of the residuals of each class in each column, and of the columns."""
        from . import _loops

        n_classes = at.residuals.shape[1]
        sums, squares = _loops.class_sums(at.residuals, y, weights)
        weighted = weights[:, None] * _slack(at, y)
        slacks = np.stack([class_sums(y, column, n_classes) for column in weighted.T])
        totals = class_sums(y, weights, n_classes)
        return AddableTuple((sums, squares, slacks.T, totals, weights @ at.residuals))

    def balance_plan(self, sums: AddableTuple) -> MarginPlan:
        """Scale the residuals of pairs of classes, or else spread what a column has too much."""
        by_class, squares, slacks, totals, columns = sums
        return _flow(by_class, squares, columns) or _spread(
            by_class, squares, slacks, totals, columns
        )

    def balance(
        self, at: Evaluation, plan: MarginPlan, y: Indices, weights: Array
    ) -> tuple[Array, float]:
        from . import _loops

        change = np.empty_like(at.residuals)
        cost = _loops.scale_residuals(at.residuals, y, weights, plan.factors, plan.even, change)
        if plan.even.any():  # also where a target is inside its constraint
            cost += 2 * float(np.vdot(weights[:, None] * _slack(at, y), plan.even[y]))
        return change, cost


class MarginPlan(NamedTuple):
    """What is added to the residuals of class k in column j: a multiple of them and a number.

    The same is taken from their true class.
    """

    factors: Array
    even: Array


def _slack(at: Evaluation, y: Indices) -> Array:
    """By how much the targets are inside their margin."""
    top = np.take_along_axis(at.targets, y[:, None], axis=1)
    return (top - 1.0 - at.targets).clip(min=0.0)


def _flow(sums: Array, squares: Array, excess: Array) -> MarginPlan | None:
    """Balance by scaling the residuals of the rows of a class in a column; None if it cannot.

    Scaled by 1 + u_kj and made up for at the true class, the residuals of class k in column j
    move u_kj T_kj from column k to column j, T_kj their weighted sum, at a cost of u_kj² times
    their weighted squares. The flows of least total cost come from potentials of the columns.
    """
    conductance = np.divide(sums**2, squares, out=np.zeros_like(sums), where=squares > 0)
    both_ways = conductance + conductance.T
    potentials = pinvh(np.diag(both_ways.sum(axis=0)) - both_ways) @ excess
    flows = conductance * (potentials[:, None] - potentials)
    unbalanced = excess + flows.sum(axis=0) - flows.sum(axis=1)
    scales = np.divide(flows, sums, out=np.zeros_like(sums), where=squares > 0)
    if scales.min() < -1 or np.abs(unbalanced).sum() > BALANCED * np.abs(excess).sum():
        return None
    return MarginPlan(scales, np.zeros_like(scales))


def _spread(
    sums: Array, squares: Array, slacks: Array, totals: Array, columns: Array
) -> MarginPlan:
    """Send the excess of a column from its own class's rows to the columns that lack it."""
    excess, lack = np.maximum(columns, 0.0), np.maximum(-columns, 0.0)
    factors, even = np.zeros_like(sums), np.zeros_like(sums)
    if lack.any():
        for k in np.flatnonzero(excess):
            of_class = Shares(sums[k], squares[k], slacks[k], np.full_like(lack, totals[k]))
            factors[k], even[k] = of_class.split(excess[k] * lack / lack.sum())
    return MarginPlan(factors, even)


def weighted_square(residuals: Array, weights: Array) -> float:
    """Sum of the squares of the residuals, each row with its weight."""
    return float(weights @ np.einsum("ij,ij->i", residuals, residuals))


class Shares(NamedTuple):
    """Weighted sums over rows, one per column: of residuals, their squares, slacks, and weights."""

    total: Array
    energy: Array
    slack: Array
    weights: Array

    @classmethod
    def of(cls, residuals: Array, slack: Array, weights: Array) -> Shares:
        """The sums for weights of rows and columns."""
        parts = (residuals, residuals**2, slack, np.ones_like(slack))
        return cls(*(np.einsum("ij,ij->j", weights, part) for part in parts))

    def split(self, amounts: Array) -> tuple[Array, Array]:
        """Distribute amounts, one per column, in proportion to the residuals or evenly.

        Whichever is cheaper for a column: a share e of a row costs e² + 2 e · slack, and the slack
        is zero where the residual is not. Returns the multiples of the residuals and the even
        shares.
        """
        even = 1.0 / self.weights
        safe_total = np.where(self.total > 0, self.total, 1.0)
        in_proportion = np.where(self.total > 0, amounts**2 * self.energy / safe_total**2, np.inf)
        evenly = amounts**2 * even + 2 * amounts * even * self.slack
        cheaper = in_proportion < evenly
        factors = np.where(cheaper, amounts / safe_total, 0.0)
        return factors, np.where(cheaper, 0.0, amounts * even)
