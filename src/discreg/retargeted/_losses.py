"""Losses of the scores with the targets eliminated: one class per target rule.

For weights s, scores R and allowed targets 𝒯 the loss is

    L(R) = min over T in 𝒯 of Σ_i s_i ‖r_i − t_i‖²        (GReLSR: + γ Σ_i s_i (t_ik − 1 − μ_k)²),

which is convex and once differentiable. Its half gradient is S(R − T) at the best targets T. A loss
stores no data: all methods take the class indices `y` and the weights of some rows. The solvers for
rows in memory and for rows in blocks call the same methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import pinvh
from sklearn.utils import check_array, check_consistent_length

from discreg.base.validation import Number, sample_weights
from discreg.blocks.source import AddableTuple
from discreg.linalg.rows import (
    class_sums,
    class_totals,
    matmul,
    one_hot,
    rmatmul,
    row_blocks,
    row_dots,
    weighted_square,
)
from discreg.linalg.types import Array, Indices

SMALL = 800  # number of scores below which NumPy is faster than loading a compiled loop
ROUNDING = 1e-15  # relative change of a centre due to rounding
BALANCED = 1e-9  # relative column sums due to rounding


class Evaluation(NamedTuple):
    """Best targets, residuals and value of a loss at given scores, and GReLSR's centres."""

    targets: Array
    residuals: Array
    value: float
    centres: Array


class TargetLoss(ABC):
    """Base class of the losses.

    A target rule that treats each row separately implements `targets` and `score_hessp`, and
    `support` unless the zero-one targets of a row have the largest ⟨z_i, t_i⟩.

    Examples
    --------
    The zero-one targets of LSR, which do not depend on the scores:

    >>> import numpy as np
    >>> from discreg.retargeted import TargetLoss
    >>> class ZeroOneTargets(TargetLoss):
    ...     def targets(self, scores, y):
    ...         return np.eye(scores.shape[1])[y]
    ...
    ...     def score_hessp(self, residuals, direction, y, weights):
    ...         return weights[:, None] * direction
    ...
    ...     def support(self, z, y):
    ...         return z[np.arange(len(y)), y]
    >>> ZeroOneTargets().targets(np.zeros((2, 3)), np.array([1, 2]))
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """

    group_penalty = 0.0  # GReLSR's γ; if it is positive, the centres couple the rows of a class
    # Rule of `_loops.visit_block`, "margin" or "dragged"; None if the loop has none.
    descent_rule: str | None = None
    is_relative = False  # whether a constant added to all scores and centres has no effect

    @abstractmethod
    def targets(self, scores: Array, y: Indices) -> Array:
        """Compute the allowed targets nearest to the scores."""

    @abstractmethod
    def score_hessp(self, residuals: Array, direction: Array, y: Indices, weights: Array) -> Array:
        """Multiply half the Hessian of the loss with respect to the scores by a direction.

        The direction may be overwritten.
        """

    @abstractmethod
    def support(self, z: Array, y: Indices) -> Array:
        """Compute max ⟨z_i, t_i⟩ over the allowed targets for each row, assuming it is finite."""

    def feasible(self, z: Array, y: Indices) -> Array:
        """Return residuals near z for which `support` is finite."""
        return z

    def excess(self, z: Array, at: Evaluation, y: Indices) -> Array:
        """Compute 2 (max ⟨z_i, t⟩ − ⟨z_i, t_i⟩) over the allowed targets t for each row.

        The constraints on z are assumed to hold. GReLSR's group penalty adds its part of the gap.
        """
        return np.asarray(2 * (self.support(z, y) - row_dots(z, at.targets)))

    def evaluate(
        self,
        scores: Array,
        y: Indices,
        weights: Array,
        centres: Array | None = None,
        *,
        start: Array | None = None,
    ) -> Evaluation:
        """Evaluate the loss at given scores.

        The centres are given, or else the best ones, which are computed from `start`.
        """
        targets = self.targets(scores, y)
        residuals = scores - targets
        value = weighted_square(residuals, weights)
        return Evaluation(targets, residuals, value, np.zeros(scores.shape[1]))

    def recentre(self, at: Evaluation, y: Indices, weights: Array) -> Evaluation:
        """Evaluate the loss at the same targets with the best centres for them."""
        return at

    def hessp(
        self, X: Any, coef: Array, shift: Array, residuals: Array, y: Indices, weights: Array
    ) -> AddableTuple:
        """Compute XᵀG and the column sums of G, where G is `score_hessp` along XW + shift.

        Unless the rows are coupled, each block of X is used for both products while it is in the
        cache.
        """
        if self.group_penalty > 0 or sparse.issparse(X):
            direction = matmul(X, coef)
            direction += shift
            product = self.score_hessp(residuals, direction, y, weights)
            return AddableTuple((rmatmul(X, product), np.ones(len(y)) @ product))
        image, totals = np.zeros_like(coef), np.zeros_like(shift)
        for rows in row_blocks(*X.shape):
            block = X[rows]
            direction = matmul(block, coef)
            direction += shift
            product = self.score_hessp(residuals[rows], direction, y[rows], weights[rows])
            totals += np.ones(len(block)) @ product
            image += rmatmul(block, product)
        return AddableTuple((image, totals))

    def balance_sums(self, at: Evaluation, y: Indices, weights: Array) -> AddableTuple:
        """Compute the sums over rows that `balance_plan` needs; those of blocks can be added."""
        return AddableTuple((weights @ at.residuals, float(weights.sum())))

    def balance_plan(self, sums: AddableTuple) -> Any:
        """Find a change of the residuals that makes their weighted columns sum to zero."""
        columns, total = sums
        return np.asarray(-columns / total)

    def balance(self, at: Evaluation, plan: Any, y: Indices, weights: Array) -> tuple[Array, float]:
        """Compute the change of the residuals of some rows, and its cost in the duality gap.

        The change e_i of a row costs ‖e_i‖² + 2 (sup_t ⟨z_i, t⟩ − ⟨z_i, t_i⟩) for the changed
        residuals z_i.
        """
        change = np.broadcast_to(plan, at.residuals.shape)
        excess = self.excess(at.residuals + change, at, y)
        return change, weighted_square(change, weights) + float(weights @ excess)

    def balanced(self, at: Evaluation, y: Indices, weights: Array) -> tuple[Array, float]:
        """Compute the change of the residuals of all rows, and its cost in the duality gap."""
        plan = self.balance_plan(self.balance_sums(at, y, weights))
        return self.balance(at, plan, y, weights)

    def centre_sums(self, at: Evaluation, y: Indices, weights: Array) -> AddableTuple:
        """Compute the sums of d = t_k − 1 − μ_k, of d² and of −∂d/∂μ_k over each class k."""
        n_classes = at.residuals.shape[1]
        return AddableTuple((np.zeros(n_classes), np.zeros(n_classes), np.ones(n_classes)))


class DraggedTargets(TargetLoss):
    """Targets of at least 1 for the true class and at most 0 for the others: DLSR, equation (6)."""

    descent_rule = "dragged"

    def targets(self, scores: Array, y: Indices) -> Array:
        """Compute the targets by equation (8) of the ReLSR paper."""
        targets = np.minimum(scores, 0.0)
        rows = np.arange(len(y))
        targets[rows, y] = np.maximum(scores[rows, y], 1.0)
        return targets

    def feasible(self, z: Array, y: Indices) -> Array:
        own = np.arange(len(y)), y
        residuals = z.clip(min=0.0)
        residuals[own] = np.minimum(z[own], 0.0)
        return residuals

    def support(self, z: Array, y: Indices) -> Array:
        """Return the residuals of the true classes, which bound ⟨z_i, t_i⟩ if z is feasible."""
        return np.asarray(z[np.arange(len(y)), y])

    def score_hessp(self, residuals: Array, direction: Array, y: Indices, weights: Array) -> Array:
        product = direction * weights[:, None]
        product[residuals == 0] = 0.0
        return product

    def balance_sums(self, at: Evaluation, y: Indices, weights: Array) -> AddableTuple:
        """Compute the sums of `Shares` of each column, for the rows of its class and the others."""
        own = one_hot(y, at.residuals.shape[1])
        slack = np.abs(at.targets - own)
        sides = [
            Shares.of(np.abs(at.residuals), slack, weights[:, None] * side)
            for side in (own, 1.0 - own)
        ]
        pairs = zip(*sides, strict=True)
        return AddableTuple((weights @ at.residuals, *(np.stack(pair) for pair in pairs)))

    def balance_plan(self, sums: AddableTuple) -> DraggedPlan:
        """Decrease positive columns in the rows of their class, increase others in other rows."""
        columns, *sides = sums
        at_own = columns > 0
        chosen = Shares(*(np.where(at_own, *side) for side in sides))
        factors, even = chosen.split(np.abs(columns))
        return DraggedPlan(at_own, -np.sign(columns) * factors, -np.sign(columns) * even)

    def balance(
        self, at: Evaluation, plan: DraggedPlan, y: Indices, weights: Array
    ) -> tuple[Array, float]:
        own = one_hot(y, at.residuals.shape[1])
        changed = (own > 0) == plan.at_own
        change = changed * (plan.factors * np.abs(at.residuals) + plan.even)
        slack = changed * np.abs(plan.even) * np.abs(at.targets - own)
        cost = weighted_square(change, weights) + 2 * float(weights @ slack.sum(axis=1))
        return change, cost


class DraggedPlan(NamedTuple):
    """Change of the residuals of each column.

    `at_own` is true if the rows of the column's own class are changed, false if the others are.
    The change is `factors` times the absolute residuals plus `even`.
    """

    at_own: NDArray[np.bool_]
    factors: Array
    even: Array


class MarginTargets(TargetLoss):
    """Targets with a margin of 1: ReLSR, equation (10), and with γ > 0 GReLSR, equation (18).

    The targets of a row satisfy t_k − t_j ≥ 1 for the true class k and every other class j. The
    active classes of a row are its true class and the false classes with a positive residual.
    """

    descent_rule = "margin"
    is_relative = True

    def __init__(self, group_penalty: float = 0.0) -> None:
        self.group_penalty = group_penalty

    def targets(self, scores: Array, y: Indices, centres: Array | None = None) -> Array:
        """Solve equation (22) of GReLSR with margin 1, by sorting as in (23) of ReLSR."""
        centres = np.zeros(scores.shape[1]) if centres is None else centres
        tops, _ = true_targets(scores, y, self.group_penalty, centres)
        return targets_below(tops, scores, y)

    def feasible(self, z: Array, y: Indices) -> Array:
        residuals = _positive(z, y)
        own = np.arange(len(y)), y
        residuals[own] = z[own] if self.group_penalty > 0 else -residuals.sum(axis=1)
        return residuals

    def excess(self, z: Array, at: Evaluation, y: Indices) -> Array:
        excess = 2 * row_dots(_positive(z, y), _slack(at, y))
        if self.group_penalty > 0:
            sums = z.sum(axis=1) / self.group_penalty
            distances = _from_centres(at.targets, at.centres, y)
            excess += self.group_penalty * (distances - sums) ** 2
        return np.asarray(excess)

    def _best_targets(
        self, scores: Array, y: Indices, weights: Array, centres: Array
    ) -> tuple[Array, Array]:
        """Compute targets and centres with μ_k = mean over class k of t_k(μ_k) − 1.

        The right-hand side minus μ is convex, piecewise linear and decreasing, with a slope in
        [−1, −1/(1 + γ)]. After the first Newton step the centres only increase, and Newton's method
        reaches the root in finitely many steps.
        """
        n_classes, first = scores.shape[1], True
        while True:
            tops, taken = true_targets(scores, y, self.group_penalty, centres)
            excess = class_sums(y, weights * (tops - 1.0 - centres[y]), n_classes)
            slopes = (1.0 + taken) / (1.0 + self.group_penalty + taken)
            slope = class_sums(y, weights * slopes, n_classes)
            steps = np.divide(excess, slope, out=np.zeros(n_classes), where=slope > 0)
            rounding = ROUNDING * (1.0 + self.group_penalty) * (1.0 + np.abs(centres))
            moving = (steps > rounding) | (first & (steps < -rounding))
            if not moving.any():
                return targets_below(tops, scores, y), centres
            centres, first = centres + np.where(moving, steps, 0.0), False

    def evaluate(
        self,
        scores: Array,
        y: Indices,
        weights: Array,
        centres: Array | None = None,
        *,
        start: Array | None = None,
    ) -> Evaluation:
        first = np.zeros(scores.shape[1]) if start is None else start
        if centres is None and self.group_penalty > 0:
            targets, centres = self._best_targets(scores, y, weights, first)
        else:
            centres = first if centres is None else centres
            targets = self.targets(scores, y, centres)
        return self._evaluation(targets, scores - targets, centres, y, weights)

    def recentre(self, at: Evaluation, y: Indices, weights: Array) -> Evaluation:
        """Set the centres to the mean translation of each class, equation (23) of GReLSR."""
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
            distances = _from_centres(targets, centres, y)
            value += self.group_penalty * float((weights * distances) @ distances)
        return Evaluation(targets, residuals, value, centres)

    def support(self, z: Array, y: Indices) -> Array:
        """Return the residuals of the true classes, which bound ⟨z_i, t_i⟩ if z is feasible."""
        return np.asarray(z[np.arange(len(y)), y])

    def score_hessp(self, residuals: Array, direction: Array, y: Indices, weights: Array) -> Array:
        centre_steps = np.zeros(residuals.shape[1])
        if self.group_penalty > 0:
            moved, held = self.centre_moves(residuals, direction, y, weights)
            centre_steps = moved / held
        return self.fixed_hessp(residuals, direction, y, weights, centre_steps)

    def centre_moves(
        self, residuals: Array, direction: Array, y: Indices, weights: Array
    ) -> AddableTuple:
        """Compute two sums for each class whose ratio is the change of its centre.

        They are Σ s q / (γ + m) and Σ s m / (γ + m), where q is the sum of the direction over the m
        active classes of a row.
        """
        sums, sizes = active_sums(residuals, direction, y)
        shares = weights / (sizes + self.group_penalty)
        return AddableTuple(
            class_sums(y, shares * each, residuals.shape[1]) for each in (sums, sizes)
        )

    def fixed_hessp(
        self,
        residuals: Array,
        direction: Array,
        y: Indices,
        weights: Array,
        centre_steps: Array,
    ) -> Array:
        """Compute `score_hessp` for given steps of the centres; the direction is overwritten.

        The targets of the active classes of a row change by (q + γ dμ) / (γ + m), where dμ is the
        step of the centre of its class.
        """
        if residuals.size < SMALL:
            sums, sizes = active_sums(residuals, direction, y)
            moved = sums + self.group_penalty * centre_steps[y]
            direction -= (moved / (sizes + self.group_penalty))[:, None]
            direction *= active_classes(residuals, y) * weights[:, None]
        else:
            from . import _loops

            _loops.margin_hessp(residuals, direction, y, weights, self.group_penalty, centre_steps)
        return direction

    def centre_sums(self, at: Evaluation, y: Indices, weights: Array) -> AddableTuple:
        """Compute the sums; for γ > 1 from γ (t_k − 1 − μ_k) = Σ_j (r_j − t_j).

        The right-hand side is free of cancellation, but a small γ would enlarge rounding errors.
        """
        if self.group_penalty > 1:
            distances = at.residuals.sum(axis=1) / self.group_penalty
        else:
            distances = _from_centres(at.targets, at.centres, y)
        size = active_classes(at.residuals, y).sum(axis=1)
        slopes = size / (size + self.group_penalty)
        n_classes = at.residuals.shape[1]
        return AddableTuple(
            class_sums(y, weights * each, n_classes) for each in (distances, distances**2, slopes)
        )

    def centre_response(self, at: Evaluation, y: Indices, weights: Array) -> Array:
        """Compute the derivative of the weighted residuals by the centre of each row's class."""
        active = active_classes(at.residuals, y)
        factors: Array = self.group_penalty * weights / (active.sum(axis=1) + self.group_penalty)
        return np.asarray(active * -factors[:, None])

    def balance_sums(self, at: Evaluation, y: Indices, weights: Array) -> AddableTuple:
        """Compute sums of the residuals of each class in each column, and of the columns."""
        n_classes = at.residuals.shape[1]
        positive = _positive(at.residuals, y)
        sums, squares, slacks = (
            class_totals(each, y, weights, n_classes).T
            for each in (positive, positive**2, _slack(at, y))
        )
        totals = class_sums(y, weights, n_classes)
        return AddableTuple((sums, squares, slacks, totals, weights @ at.residuals))

    def balance_plan(self, sums: AddableTuple) -> MarginPlan:
        """Scale the residuals of pairs of classes, or else distribute the excess of columns."""
        by_class, squares, slacks, totals, columns = sums
        # The residual of a true class is γ times a small distance from the centre.
        rounding = ROUNDING * (1.0 + self.group_penalty) * float(by_class.sum())
        return flow_plan(by_class, squares, columns, rounding) or spread_plan(
            by_class, squares, slacks, totals, columns
        )

    def balance(
        self, at: Evaluation, plan: MarginPlan, y: Indices, weights: Array
    ) -> tuple[Array, float]:
        change = plan.factors[y]
        change *= _positive(at.residuals, y)
        change += plan.even[y]
        change[np.arange(len(y)), y] -= change.sum(axis=1)
        cost = weighted_square(change, weights)
        if plan.even.any():  # constant changes also apply to targets inside their constraints
            cost += 2 * float(np.vdot(weights[:, None] * _slack(at, y), plan.even[y]))
        return change, cost


class MarginPlan(NamedTuple):
    """Change of the residuals of class k in column j.

    The change is ``factors[k, j]`` times the residual plus ``even[k, j]``. It is subtracted from
    the residual of the true class.
    """

    factors: Array
    even: Array


def flow_plan(sums: Array, squares: Array, excess: Array, rounding: float) -> MarginPlan | None:
    """Scale residuals so that all columns sum to zero; return None if that is impossible.

    Scale the residuals of class k in column j by 1 + u_kj and subtract the change in column k. This
    moves u_kj T_kj from column k to column j, where T_kj is the weighted sum of the residuals, and
    costs u_kj² times the sum of their weighted squares. Potentials of the columns give the flows of
    minimum total cost. `excess` holds the column sums, and `rounding` is their error.
    """
    conductance = np.divide(sums**2, squares, out=np.zeros_like(sums), where=squares > 0)
    both_ways = conductance + conductance.T
    potentials = pinvh(np.diag(both_ways.sum(axis=0)) - both_ways) @ excess
    flows = conductance * (potentials[:, None] - potentials)
    unbalanced = excess + flows.sum(axis=0) - flows.sum(axis=1)
    scales = np.divide(flows, sums, out=np.zeros_like(sums), where=squares > 0)
    tolerance = BALANCED * np.abs(excess).sum() + rounding
    if scales.min() < -1 or np.abs(unbalanced).sum() > tolerance:
        return None
    return MarginPlan(scales, np.zeros_like(scales))


def spread_plan(
    sums: Array, squares: Array, slacks: Array, totals: Array, columns: Array
) -> MarginPlan:
    """Move the excess of a column, in the rows of its class, to columns with negative sums."""
    excess, lack = np.maximum(columns, 0.0), np.maximum(-columns, 0.0)
    factors, even = np.zeros_like(sums), np.zeros_like(sums)
    if lack.any():
        for k in np.flatnonzero(excess):
            of_class = Shares(sums[k], squares[k], slacks[k], np.full_like(lack, totals[k]))
            factors[k], even[k] = of_class.split(excess[k] * lack / lack.sum())
    return MarginPlan(factors, even)


def true_targets(
    scores: Array, y: Indices, group_penalty: float, centres: Array
) -> tuple[Array, Array]:
    """Compute the target t_k of the true class of each row, and the number of active false classes.

    t_k is the weighted mean of r_k (weight 1), 1 + μ_k (weight γ) and the largest values r_j + 1
    (weight 1). The number of these values is the one that maximises the mean.
    """
    n_rows, n_classes = scores.shape
    if scores.size >= SMALL:
        from . import _loops

        tops, taken = np.empty(n_rows), np.empty(n_rows)
        _loops.true_targets(scores, y, group_penalty, centres, tops, taken)
        return tops, taken
    own = np.arange(n_rows), y
    values = -1.0 - scores
    values[own] = -np.inf
    values.sort(axis=1)
    values[:, 0] = -scores[own] - group_penalty * (1.0 + centres[y])
    means = -np.cumsum(values, axis=1) / (1.0 + group_penalty + np.arange(n_classes))
    taken = means.argmax(axis=1)
    return means[np.arange(n_rows), taken], taken.astype(np.float64)


def targets_below(tops: Array, scores: Array, y: Indices) -> Array:
    """Compute all targets from t_k: the scores, limited to t_k − 1 for the false classes."""
    targets = np.minimum(scores, (tops - 1.0)[:, None])
    targets[np.arange(len(y)), y] = tops
    return targets


def active_classes(residuals: Array, y: Indices) -> NDArray[np.bool_]:
    """Return which classes of each row are active."""
    active = residuals > 0
    active[np.arange(len(y)), y] = True
    return active


def active_sums(residuals: Array, direction: Array, y: Indices) -> tuple[Array, Array]:
    """Sum a direction over the active classes of each row, and count these classes."""
    if residuals.size < SMALL:
        active = active_classes(residuals, y)
        return (active * direction).sum(axis=1), active.sum(axis=1, dtype=np.float64)
    from . import _loops

    sums, sizes = np.empty(len(y)), np.empty(len(y))
    _loops.active_sums(residuals, direction, y, sums, sizes)
    return sums, sizes


def _from_centres(targets: Array, centres: Array, y: Indices) -> Array:
    """Compute the distances t_k − 1 − μ_k of the translations from the centres of their classes."""
    return np.asarray(targets[np.arange(len(y)), y] - 1.0 - centres[y])


def _positive(residuals: Array, y: Indices) -> Array:
    """Return the positive parts of the residuals of the false classes."""
    positive = residuals.clip(min=0.0)
    positive[np.arange(len(y)), y] = 0.0
    return positive


def _slack(at: Evaluation, y: Indices) -> Array:
    """Compute the slacks t_k − 1 − t_j of the constraints of the targets."""
    top = np.take_along_axis(at.targets, y[:, None], axis=1)
    return (top - 1.0 - at.targets).clip(min=0.0)


class Shares(NamedTuple):
    """Weighted sums over rows of residuals, squared residuals, slacks and ones, by column."""

    total: Array
    energy: Array
    slack: Array
    weights: Array

    @classmethod
    def of(cls, residuals: Array, slack: Array, weights: Array) -> Shares:
        """Compute the sums, with one weight per row and column."""
        parts = (residuals, residuals**2, slack, np.ones_like(slack))
        return cls(*(np.einsum("ij,ij->j", weights, part) for part in parts))

    def split(self, amounts: Array) -> tuple[Array, Array]:
        """Distribute one amount per column in proportion to the residuals or evenly.

        The cheaper way is used for each column. A share e of a row costs e² + 2 e · slack, and the
        slack is zero where the residual is not. Returns the multiples of the residuals and the even
        shares.
        """
        even = 1.0 / self.weights
        safe_total = np.where(self.total > 0, self.total, 1.0)
        in_proportion = np.where(self.total > 0, amounts**2 * self.energy / safe_total**2, np.inf)
        evenly = amounts**2 * even + 2 * amounts * even * self.slack
        cheaper = in_proportion < evenly
        factors = np.where(cheaper, amounts / safe_total, 0.0)
        return factors, np.where(cheaper, 0.0, amounts * even)


def retarget(
    scores: ArrayLike,
    y: ArrayLike,
    *,
    rule: str = "relsr",
    group_penalty: float = 0.0,
    centres: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> NDArray[Any]:
    """Compute the targets nearest to the scores that a rule allows.

    For a row of scores :math:`r` with true class :math:`k`, ``rule="relsr"`` returns the minimiser
    of

    .. math:: \\|r - t\\|^2 + \\gamma (t_k - 1 - \\mu_k)^2
              \\quad\\text{subject to}\\quad t_k - t_j \\ge 1,\\; j \\ne k,

    which is the retargeting of ReLSR, equations (17) to (23) of [1]_, for :math:`\\gamma = 0` and
    equation (22) of GReLSR [2]_ otherwise. ``rule="dlsr"`` returns DLSR's targets, equation (8) of
    [1]_: :math:`t_k = \\max(r_k, 1)` and :math:`t_j = \\min(r_j, 0)`.

    Parameters
    ----------
    scores : array-like of shape (n_samples, n_classes)
        Scores :math:`XW + b`.
    y : array-like of shape (n_samples,)
        Index of the true class of each sample, from 0 to n_classes - 1.
    rule : {"relsr", "dlsr"}, default="relsr"
        Rule that defines the allowed targets.
    group_penalty : float, default=0.0
        GReLSR's weight :math:`\\gamma` of the squared distance between the translation
        :math:`t_k - 1` of a sample and the centre :math:`\\mu_k` of its class.
    centres : array-like of shape (n_classes,), default=None
        The centres :math:`\\mu`; None means the optimal centres for these scores.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample in the centres.

    Returns
    -------
    targets : ndarray of shape (n_samples, n_classes)

    References
    ----------
    .. [1] X.-Y. Zhang, L. Wang, S. Xiang, C.-L. Liu, "Retargeted Least Squares Regression
           Algorithm", IEEE TNNLS 26 (2015).
    .. [2] L. Wang, C. Pan, "Groupwise Retargeted Least-Squares Regression", IEEE TNNLS 29 (2018).

    Examples
    --------
    Two rows of Table I of [1]_. The targets of the first are its scores, because its margin is 1:

    >>> from discreg.retargeted import retarget
    >>> retarget([[0.5, 1.5, 0.5], [0.2, 0.2, 0.8]], [1, 2]).round(4)
    array([[0.5   , 1.5   , 0.5   ],
           [0.0667, 0.0667, 1.0667]])
    >>> retarget([[0.5, 1.5, 0.5], [0.2, 0.2, 0.8]], [1, 2], rule="dlsr")
    array([[0. , 1.5, 0. ],
           [0. , 0. , 1. ]])
    """
    given = check_array(scores, dtype=[np.float64, np.float32], input_name="scores")
    matrix = np.ascontiguousarray(given, dtype=np.float64)
    classes = _class_indices(y, matrix)
    if rule == "dlsr":
        if group_penalty != 0 or centres is not None:
            raise ValueError(
                "group_penalty and centres are for rule='relsr'. Omit them with rule='dlsr'."
            )
        return DraggedTargets().targets(matrix, classes).astype(given.dtype, copy=False)
    if rule != "relsr":
        raise ValueError(f"rule must be 'relsr' or 'dlsr', got {rule!r}.")
    if not Number(0, closed="left").accepts(group_penalty):
        raise ValueError(f"group_penalty must be a finite number >= 0, got {group_penalty!r}.")
    if centres is None:
        weights = sample_weights(sample_weight, len(matrix))
        targets = MarginTargets(float(group_penalty)).evaluate(matrix, classes, weights).targets
    else:
        best = np.array(
            check_array(centres, ensure_2d=False, dtype=np.float64, input_name="centres")
        )
        if best.shape != (matrix.shape[1],):
            raise ValueError(
                f"centres must contain one number for each of the {matrix.shape[1]} classes; "
                f"got shape {best.shape}."
            )
        targets = MarginTargets(float(group_penalty)).targets(matrix, classes, best)
    return targets.astype(given.dtype, copy=False)


def _class_indices(y: ArrayLike, scores: Array) -> Indices:
    indices = np.asarray(y)
    check_consistent_length(scores, indices)
    if indices.ndim != 1 or indices.dtype.kind not in "iub":
        raise ValueError("y must be a one-dimensional array of integer class indices.")
    if indices.min() < 0 or indices.max() >= scores.shape[1]:
        raise ValueError(
            f"y must contain class indices from 0 to {scores.shape[1] - 1}, the columns of scores; "
            f"got values from {indices.min()} to {indices.max()}."
        )
    return indices.astype(np.intp, copy=False)
