"""Losses of the scores with the targets eliminated, and the loss of ReLSR and GReLSR.

For weights s, scores R and allowed targets 𝒯 the loss is

    L(R) = min over T in 𝒯 of Σ_i s_i ‖r_i − t_i‖²        (GReLSR: + γ Σ_i s_i (t_ik − 1 − μ_k)²),

which is convex and once differentiable. Its half gradient is S(R − T) at the best targets T. A loss
stores no data: all methods take the class indices `y` and the weights of some rows. The solvers for
rows in memory and for rows in blocks call the same methods. The losses of LSR and DLSR are defined
in the modules of their estimators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.blocks.source import AddableTuple
from discreg.linalg.rows import (
    class_sums,
    class_totals,
    matmul,
    product_blocks,
    rmatmul,
)
from discreg.linalg.types import Array, Indices

from ._balance import MarginPlan, flow_plan, spread_plan

__all__ = [
    "Evaluation",
    "MarginTargets",
    "TargetLoss",
    "active_classes",
    "active_sums",
    "targets_below",
    "true_targets",
    "weighted_square",
]

SMALL = 800  # number of scores below which NumPy is faster than loading a compiled loop
ROUNDING = 1e-15  # relative change of a centre due to rounding


class Evaluation(NamedTuple):
    """Best targets, residuals and value of a loss at given scores, and GReLSR's centres."""

    targets: Array
    residuals: Array
    value: float
    centres: Array


class TargetLoss(ABC):
    """Base class of the losses.

    A target rule that treats each row separately implements `targets`, `score_hessp` and `support`.

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
    # Rule of `_descent_loops.visit_block`, "margin" or "dragged"; None if the loop has none.
    descent_rule: str | None = None
    knows_pieces = False  # whether `pieces` tells the quadratic pieces of the loss apart
    is_separable = False  # whether the residual of each class depends on its own score alone
    is_relative = False  # whether a constant added to all scores and centres has no effect
    may_be_linear = False  # whether the loss may be linear in a constant added to all scores

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
        return np.asarray(2 * (self.support(z, y) - np.einsum("ij,ij->i", z, at.targets)))

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

    def pieces(self, residuals: Array) -> Array:
        """Compute numbers that are equal for rows on the same quadratic piece of the loss."""
        return np.asarray(np.sign(residuals))

    def row_derivatives(self, at: Evaluation, y: Indices) -> tuple[Array, Array]:
        """Compute half the gradient and half the Hessian of the loss of each row, for weight 1.

        The variables of a row are its scores and, for GReLSR, the centre of its class.
        """
        n_rows, n_classes = at.residuals.shape
        hessians = np.empty((n_rows, n_classes, n_classes))
        for j in range(n_classes):
            direction = np.zeros((n_rows, n_classes))
            direction[:, j] = 1.0
            hessians[:, :, j] = self.score_hessp(at.residuals, direction, y, np.ones(n_rows))
        return at.residuals, hessians

    def class_curvatures(self, at: Evaluation, y: Indices) -> Array:
        """Compute the diagonals of the half Hessians by the scores; if separable, these are all."""
        if self.is_separable:
            return self.score_hessp(at.residuals, np.ones_like(at.residuals), y, np.ones(len(y)))
        return np.asarray(np.einsum("ijj->ij", self.row_derivatives(at, y)[1]))

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
        coef = np.ascontiguousarray(coef)
        image, totals = np.zeros_like(coef), np.zeros_like(shift)
        blocks = list(product_blocks(X, coef.shape[1]))
        buffer = np.empty((max((len(y[rows]) for rows in blocks), default=0), coef.shape[1]))
        ones = np.ones(len(buffer))
        for rows in blocks:
            block = X[rows]
            direction = np.matmul(block, coef, out=buffer[: len(block)])
            direction += shift
            product = self.score_hessp(residuals[rows], direction, y[rows], weights[rows])
            totals += ones[: len(block)] @ product
            image += block.T @ product
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
        z = at.residuals + change
        excess = self.support(z, y) - np.einsum("ij,ij->i", z, at.targets)
        return change, weighted_square(change, weights) + 2 * float(weights @ excess)

    def centre_sums(self, at: Evaluation, y: Indices, weights: Array) -> AddableTuple:
        """Compute the sums of d = t_k − 1 − μ_k, of d² and of −∂d/∂μ_k over each class k."""
        n_classes = at.residuals.shape[1]
        return AddableTuple((np.zeros(n_classes), np.zeros(n_classes), np.ones(n_classes)))


class MarginTargets(TargetLoss):
    """Targets with a margin of 1: ReLSR, equation (10), and with γ > 0 GReLSR, equation (18).

    The targets of a row satisfy t_k − t_j ≥ 1 for the true class k and every other class j. The
    active classes of a row are its true class and the false classes with a positive residual.
    """

    descent_rule: str | None = "margin"
    knows_pieces = True
    is_relative = True

    def __init__(self, group_penalty: float = 0.0) -> None:
        self.group_penalty = group_penalty

    def targets(self, scores: Array, y: Indices) -> Array:
        return self.targets_for(scores, y, np.zeros(scores.shape[1]))

    def targets_for(self, scores: Array, y: Indices, centres: Array) -> Array:
        """Solve equation (22) of GReLSR with margin 1, by sorting as in (23) of ReLSR."""
        tops, _ = true_targets(scores, y, self.group_penalty, centres)
        return targets_below(tops, scores, y)

    def support(self, z: Array, y: Indices) -> Array:
        return np.asarray(z[np.arange(len(y)), y])

    def feasible(self, z: Array, y: Indices) -> Array:
        residuals = _positive(z, y)
        own = np.arange(len(y)), y
        residuals[own] = z[own] if self.group_penalty > 0 else -residuals.sum(axis=1)
        return residuals

    def excess(self, z: Array, at: Evaluation, y: Indices) -> Array:
        excess = 2 * np.einsum("ij,ij->i", _positive(z, y), _slack(at, y))
        if self.group_penalty > 0:
            sums = z.sum(axis=1) / self.group_penalty
            distances = at.targets[np.arange(len(y)), y] - 1.0 - at.centres[y]
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
        if centres is not None:
            targets = self.targets_for(scores, y, centres)
            return self._evaluation(targets, scores - targets, centres, y, weights)
        centres = np.zeros(scores.shape[1]) if start is None else start
        if self.group_penalty > 0:
            targets, centres = self._best_targets(scores, y, weights, centres)
        else:
            targets = self.targets_for(scores, y, centres)
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
            spread = targets[np.arange(len(y)), y] - 1.0 - centres[y]
            value += self.group_penalty * float((weights * spread) @ spread)
        return Evaluation(targets, residuals, value, centres)

    def row_derivatives(self, at: Evaluation, y: Indices) -> tuple[Array, Array]:
        """Compute the derivatives; the Hessian is diag(a) − aaᵀ / Σa.

        The vector a is one for active classes, zero for others, and γ for the centre.
        """
        gradients, active = at.residuals, active_classes(at.residuals, y).astype(np.float64)
        if self.group_penalty > 0:
            gradients = np.column_stack([gradients, -gradients.sum(axis=1)])
            active = np.column_stack([active, np.full(len(y), self.group_penalty)])
        hessians = active[:, :, None] * (-active / active.sum(axis=1)[:, None])[:, None, :]
        diagonal = np.arange(active.shape[1])
        hessians[:, diagonal, diagonal] += active
        return gradients, hessians

    def class_curvatures(self, at: Evaluation, y: Indices) -> Array:
        """Compute the diagonals, scaled so that separate classes are close to all together.

        Residuals sum to zero by row. With c classes, the sums of half Hessians over rows that are
        active in all classes, or equally often in each pair of them, act on such vectors like
        their diagonals times c / (c − 1).
        """
        active = active_classes(at.residuals, y)
        n_classes, n_active = active.shape[1], active.sum(axis=1)
        scales = np.where(n_active > 1, n_classes / (n_classes - 1), 1.0)
        curvatures = scales * (1 - 1 / (n_active + self.group_penalty))
        return np.asarray(active * np.minimum(curvatures, 1.0)[:, None])

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
            distances = at.targets[np.arange(len(y)), y] - 1.0 - at.centres[y]
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


def _positive(residuals: Array, y: Indices) -> Array:
    """Return the positive parts of the residuals of the false classes."""
    positive = residuals.clip(min=0.0)
    positive[np.arange(len(y)), y] = 0.0
    return positive


def _slack(at: Evaluation, y: Indices) -> Array:
    """Compute the slacks t_k − 1 − t_j of the constraints of the targets."""
    top = np.take_along_axis(at.targets, y[:, None], axis=1)
    return (top - 1.0 - at.targets).clip(min=0.0)


def weighted_square(residuals: Array, weights: Array) -> float:
    """Compute the weighted sum of the squared residuals; rows of weight zero have no effect."""
    squares = np.einsum("ij,ij->i", residuals, residuals)
    if not np.isfinite(squares).all():
        squares[weights == 0] = 0.0
    return float(weights @ squares)
