"""Losses of the scores once the targets are eliminated: one for each set of allowed targets.

For weights s, scores R and allowed targets 𝒯 the loss is

    L(R) = min over T in 𝒯 of Σ_i s_i ‖r_i − t_i‖²        (GReLSR: + γ Σ_i s_i (t_ik − 1 − μ_k)²),

convex and once differentiable, with half gradient S(R − T) at the best targets T. Every loss
knows three things: its value and residuals R − T, the derivative of the weighted residuals along
a direction (the half Hessian), and how to balance residuals (see `_certificate`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import pinvh

from discreg.blocks.source import AddableTuple
from discreg.linalg.ridge import Curved, PulledCurvature
from discreg.linalg.rows import ALL, class_sums, one_hot, thin_step

from ._targets import centred_targets, dragged_targets, margin_targets

__all__ = [
    "DraggedTargets",
    "Evaluation",
    "FixedTargets",
    "MarginTargets",
    "TargetLoss",
    "balance",
]

Array = NDArray[np.float64]
BALANCED = 1e-9  # what rounding leaves of a column's excess, relative


class Evaluation(NamedTuple):
    """A loss at given scores: best targets, residuals, value, and GReLSR's centres."""

    targets: Array
    residuals: Array
    value: float
    centres: Array


class TargetLoss(Protocol):
    """What a solver may ask of a loss."""

    y: NDArray[np.intp]
    weights: Array
    n_classes: int
    row_wise: bool  # whether the curvature of a row does not depend on the other rows

    def evaluate(self, scores: Array, centres: Array | None = None) -> Evaluation:
        """Loss at the scores, for given centres or (None) for the best ones."""

    def recentre(self, at: Evaluation) -> Evaluation:
        """The loss at the same targets, once the centres are the best for them."""

    def curvature(self, residuals: Array, direction: Array, rows: slice = ALL) -> Curved:
        """Derivative of the weighted residuals along a direction of the scores of some rows."""

    def pulled_curvature(self, residuals: Array) -> PulledCurvature | None:
        """The same of scores XW + shift, times Xᵀ, in one compiled pass; None if there is none."""

    def balance_sums(self, at: Evaluation) -> AddableTuple:
        """What `plan_balance` has to know of the rows; it adds up over blocks of them."""

    def plan_balance(self, sums: AddableTuple) -> Any:
        """How the residuals of all rows are to be changed so that their columns sum to zero."""

    def balance(self, at: Evaluation, plan: Any) -> tuple[Array, float]:
        """The change of the residuals of these rows by a plan, and what it costs."""


def balance(loss: TargetLoss, at: Evaluation) -> tuple[Array, float]:
    """Change of the residuals that makes their weighted columns sum to zero, and its cost."""
    return loss.balance(at, loss.plan_balance(loss.balance_sums(at)))


class FixedTargets:
    """LSR, equation (4): the targets are the zero-one matrix."""

    row_wise = True

    def __init__(self, y: NDArray[np.intp], weights: Array, n_classes: int) -> None:
        self.y, self.weights, self.n_classes = y, weights, n_classes
        self._targets = one_hot(y, n_classes)

    def evaluate(self, scores: Array, centres: Array | None = None) -> Evaluation:
        residuals = scores - self._targets
        return Evaluation(
            self._targets,
            residuals,
            _weighted_square(residuals, self.weights),
            np.zeros(self.n_classes),
        )

    def recentre(self, at: Evaluation) -> Evaluation:
        return at

    def curvature(self, residuals: Array, direction: Array, rows: slice = ALL) -> Curved:
        return _curved(self.weights[rows, None] * direction, direction)

    def pulled_curvature(self, residuals: Array) -> None:
        return None

    def balance_sums(self, at: Evaluation) -> AddableTuple:
        return AddableTuple((self.weights @ at.residuals, float(self.weights.sum())))

    def plan_balance(self, sums: AddableTuple) -> Array:
        columns, total = sums
        return np.asarray(-columns / total)

    def balance(self, at: Evaluation, plan: Array) -> tuple[Array, float]:
        change = np.broadcast_to(plan, at.residuals.shape)
        return change, _weighted_square(change, self.weights)


class DraggedTargets:
    """DLSR, equation (6): at least 1 for the true class, at most 0 for the false ones."""

    row_wise = True

    def __init__(self, y: NDArray[np.intp], weights: Array, n_classes: int) -> None:
        self.y, self.weights, self.n_classes = y, weights, n_classes

    def evaluate(self, scores: Array, centres: Array | None = None) -> Evaluation:
        targets = dragged_targets(scores, self.y)
        residuals = scores - targets
        return Evaluation(
            targets, residuals, _weighted_square(residuals, self.weights), np.zeros(self.n_classes)
        )

    def recentre(self, at: Evaluation) -> Evaluation:
        return at

    def curvature(self, residuals: Array, direction: Array, rows: slice = ALL) -> Curved:
        product = direction * self.weights[rows, None]
        product[residuals[rows] == 0] = 0.0
        return _curved(product, direction)

    def pulled_curvature(self, residuals: Array) -> None:
        return None

    def balance_sums(self, at: Evaluation) -> AddableTuple:
        """Of each column, for the rows of its class and for the others: what shares depend on."""
        own = one_hot(self.y, self.n_classes)
        slack = np.abs(at.targets - own)
        sides = [
            _ShareSums.of(np.abs(at.residuals), slack, self.weights[:, None] * side)
            for side in (own, 1.0 - own)
        ]
        pairs = zip(*sides, strict=True)
        return AddableTuple((self.weights @ at.residuals, *(np.stack(pair) for pair in pairs)))

    def plan_balance(self, sums: AddableTuple) -> DraggedPlan:
        """A column that sums to too much is lowered at its class, else raised elsewhere."""
        columns, *sides = sums
        at_own = columns > 0
        chosen = _ShareSums(*(np.where(at_own, *side) for side in sides))
        factors, even = chosen.shares(np.abs(columns))
        return DraggedPlan(at_own, -np.sign(columns) * factors, -np.sign(columns) * even)

    def balance(self, at: Evaluation, plan: DraggedPlan) -> tuple[Array, float]:
        own = one_hot(self.y, self.n_classes)
        changed = (own > 0) == plan.at_own
        change = changed * (plan.factors * np.abs(at.residuals) + plan.even)
        slack = changed * np.abs(plan.even) * np.abs(at.targets - own)
        cost = _weighted_square(change, self.weights) + 2 * float(self.weights @ slack.sum(axis=1))
        return change, cost


class DraggedPlan(NamedTuple):
    """Of each column: whether its own class is changed or the others, and by how much.

    What is added to the residuals: a multiple of their sizes and a number.
    """

    at_own: NDArray[np.bool_]
    factors: Array
    even: Array


class MarginTargets:
    """ReLSR, equation (10), and for group_penalty > 0 GReLSR, equation (18): a margin of 1.

    The targets of a row satisfy t_k − t_j ≥ 1 for the true class k and every other class j.
    """

    def __init__(
        self, y: NDArray[np.intp], weights: Array, n_classes: int, group_penalty: float = 0.0
    ) -> None:
        self.y, self.weights, self.n_classes = y, weights, n_classes
        self.group_penalty = group_penalty
        self.row_wise = group_penalty == 0
        self._centres = np.zeros(n_classes)

    def evaluate(self, scores: Array, centres: Array | None = None) -> Evaluation:
        if centres is None:
            targets, centres = centred_targets(
                scores, self.y, self.weights, self.group_penalty, start=self._centres
            )
            self._centres = centres  # a good start for the next scores
        else:
            targets = margin_targets(scores, self.y, self.group_penalty, centres)
        return self._evaluation(targets, scores - targets, centres)

    def recentre(self, at: Evaluation) -> Evaluation:
        """Equation (23) of GReLSR: the mean translation of each class."""
        if self.group_penalty == 0:
            return at
        translations = at.targets[np.arange(len(self.y)), self.y] - 1.0
        totals = np.bincount(self.y, weights=self.weights)
        centres = np.bincount(self.y, weights=self.weights * translations) / totals
        return self._evaluation(at.targets, at.residuals, centres)

    def _evaluation(self, targets: Array, residuals: Array, centres: Array) -> Evaluation:
        value = _weighted_square(residuals, self.weights)
        if self.group_penalty > 0:
            spread = targets[np.arange(len(self.y)), self.y] - 1.0 - centres[self.y]
            value += self.group_penalty * float(self.weights @ spread**2)
        return Evaluation(targets, residuals, value, centres)

    def curvature(self, residuals: Array, direction: Array, rows: slice = ALL) -> Curved:
        from . import _loops

        product, totals = np.empty_like(direction), np.zeros(self.n_classes)
        inner = _loops.margin_curvature(
            residuals[rows],
            self.y[rows],
            self.weights[rows],
            self.group_penalty,
            direction,
            product,
            totals,
        )
        return Curved(product, totals, inner)

    def pulled_curvature(self, residuals: Array) -> PulledCurvature | None:
        if not self.row_wise:
            return None
        from . import _loops

        def pulled(X: Array, coef: Array, shift: Array) -> Curved:
            return Curved(
                *_loops.pulled_margin_curvature(
                    X, coef, shift, residuals, self.y, self.weights, thin_step(*coef.shape)
                )
            )

        return pulled

    def balance_sums(self, at: Evaluation) -> AddableTuple:
        """Of the residuals of each class in each column, and of the columns."""
        from . import _loops

        sums, squares = _loops.class_sums(at.residuals, self.y, self.weights)
        top = np.take_along_axis(at.targets, self.y[:, None], axis=1)
        slack = (top - 1.0 - at.targets).clip(min=0.0)
        weighted = self.weights[:, None] * slack
        slacks = np.stack([class_sums(self.y, column, self.n_classes) for column in weighted.T])
        totals = class_sums(self.y, self.weights, self.n_classes)
        return AddableTuple((sums, squares, slacks.T, totals, self.weights @ at.residuals))

    def plan_balance(self, sums: AddableTuple) -> MarginPlan:
        """Scale the residuals of pairs of classes, or else spread what a column has too much."""
        by_class, squares, slacks, totals, columns = sums
        return _flow(by_class, squares, columns) or _spread(
            by_class, squares, slacks, totals, columns
        )

    def balance(self, at: Evaluation, plan: MarginPlan) -> tuple[Array, float]:
        from . import _loops

        change = np.empty_like(at.residuals)
        cost = _loops.scale_residuals(
            at.residuals, self.y, self.weights, plan.factors, plan.even, change
        )
        if plan.even.any():  # also where a target is inside its constraint
            top = np.take_along_axis(at.targets, self.y[:, None], axis=1)
            slack = (top - 1.0 - at.targets).clip(min=0.0)
            weighted = self.weights[:, None] * slack
            cost += 2 * float(np.vdot(weighted, plan.even[self.y]))
        return change, cost


class MarginPlan(NamedTuple):
    """What is added to the residuals of class k in column j: a multiple of them and a number.

    The same is taken from their true class.
    """

    factors: Array
    even: Array


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
            weights = np.full_like(lack, totals[k])
            of_class = _ShareSums(sums[k], squares[k], slacks[k], weights)
            factors[k], even[k] = of_class.shares(excess[k] * lack / lack.sum())
    return MarginPlan(factors, even)


def _curved(product: Array, direction: Array) -> Curved:
    return Curved(product, product.sum(axis=0), float(np.vdot(product, direction)))


def _weighted_square(residuals: Array, weights: Array) -> float:
    return float(weights @ np.einsum("ij,ij->i", residuals, residuals))


class _ShareSums(NamedTuple):
    """Weighted sums over rows, one a column: of residuals, their squares, slacks, and weights."""

    total: Array
    energy: Array
    slack: Array
    weights: Array

    @classmethod
    def of(cls, residuals: Array, slack: Array, weights: Array) -> _ShareSums:
        """The sums for weights of rows and columns."""
        parts = (residuals, residuals**2, slack, np.ones_like(slack))
        return cls(*(np.einsum("ij,ij->j", weights, part) for part in parts))

    def shares(self, amounts: Array) -> tuple[Array, Array]:
        """Distribute amounts, one a column, over rows: in proportion to the residuals, or evenly.

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
