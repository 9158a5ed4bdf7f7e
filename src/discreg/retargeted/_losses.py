"""Losses of the scores once the targets are eliminated: one for each set of allowed targets.

For weights s, scores R and allowed targets 𝒯 the loss is

    L(R) = min over T in 𝒯 of Σ_i s_i ‖r_i − t_i‖²        (GReLSR: + γ Σ_i s_i (t_ik − 1 − μ_k)²),

convex and once differentiable, with half gradient S(R − T) at the best targets T. Every loss
knows three things: its value and residuals R − T, the derivative of the weighted residuals along
a direction (the half Hessian), and how to balance residuals (see `_certificate`).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import pinvh

from discreg.core.labels import one_hot
from discreg.core.regression import Curved, PulledCurvature
from discreg.core.rows import ALL, thin_step

from ._targets import centred_targets, dragged_targets, margin_targets

__all__ = ["DraggedTargets", "Evaluation", "FixedTargets", "MarginTargets", "TargetLoss"]

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

    def balance(self, at: Evaluation) -> tuple[Array, float]:
        """Change of the residuals that makes their weighted columns sum to zero, and its cost."""


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

    def balance(self, at: Evaluation) -> tuple[Array, float]:
        change = np.broadcast_to(
            -(self.weights @ at.residuals) / self.weights.sum(), at.residuals.shape
        )
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

    def balance(self, at: Evaluation) -> tuple[Array, float]:
        """A column that sums to too much is lowered at its class, else raised elsewhere."""
        change = np.zeros_like(at.residuals)
        cost = 0.0
        for k, excess in enumerate(self.weights @ at.residuals):
            rows = np.flatnonzero((self.y == k) == (excess > 0))
            slack = np.abs(at.targets[rows, k] - (excess > 0))
            shares, price = _shares(
                np.abs(at.residuals[rows, k, None]),
                slack[:, None],
                self.weights[rows],
                np.array([abs(excess)]),
            )
            change[rows, k] = -np.sign(excess) * shares[:, 0]
            cost += price
        return change, cost


class MarginTargets:
    """ReLSR, equation (10), and for groupwise > 0 GReLSR, equation (18): a margin of 1.

    The targets of a row satisfy t_k − t_j ≥ 1 for the true class k and every other class j.
    """

    def __init__(
        self, y: NDArray[np.intp], weights: Array, n_classes: int, groupwise: float = 0.0
    ) -> None:
        self.y, self.weights, self.n_classes = y, weights, n_classes
        self.groupwise = groupwise
        self.row_wise = groupwise == 0
        self._centres = np.zeros(n_classes)

    def evaluate(self, scores: Array, centres: Array | None = None) -> Evaluation:
        if centres is None:
            targets, centres = centred_targets(
                scores, self.y, self.weights, self.groupwise, start=self._centres
            )
            self._centres = centres  # a good start for the next scores
        else:
            targets = margin_targets(scores, self.y, self.groupwise, centres)
        return self._evaluation(targets, scores - targets, centres)

    def recentre(self, at: Evaluation) -> Evaluation:
        """Equation (23) of GReLSR: the mean translation of each class."""
        if self.groupwise == 0:
            return at
        translations = at.targets[np.arange(len(self.y)), self.y] - 1.0
        totals = np.bincount(self.y, weights=self.weights)
        centres = np.bincount(self.y, weights=self.weights * translations) / totals
        return self._evaluation(at.targets, at.residuals, centres)

    def _evaluation(self, targets: Array, residuals: Array, centres: Array) -> Evaluation:
        value = _weighted_square(residuals, self.weights)
        if self.groupwise > 0:
            spread = targets[np.arange(len(self.y)), self.y] - 1.0 - centres[self.y]
            value += self.groupwise * float(self.weights @ spread**2)
        return Evaluation(targets, residuals, value, centres)

    def curvature(self, residuals: Array, direction: Array, rows: slice = ALL) -> Curved:
        from . import _loops

        product, totals = np.empty_like(direction), np.zeros(self.n_classes)
        inner = _loops.margin_curvature(
            residuals[rows],
            self.y[rows],
            self.weights[rows],
            self.groupwise,
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

    def balance(self, at: Evaluation) -> tuple[Array, float]:
        """Scale the residuals of pairs of classes, or else spread what a column has too much."""
        return self._flow(at.residuals) or self._spread(at)

    def _flow(self, residuals: Array) -> tuple[Array, float] | None:
        """Balance by scaling the residuals of the rows of a class in a column; None if it cannot.

        Scaled by 1 + u_kj and made up for at the true class, the residuals of class k in column j
        move u_kj T_kj from column k to column j, T_kj their weighted sum, at a cost of u_kj² times
        their weighted squares. The flows of least total cost come from potentials of the columns.
        """
        from . import _loops

        sums, squares = _loops.class_sums(residuals, self.y, self.weights)
        conductance = np.divide(sums**2, squares, out=np.zeros_like(sums), where=squares > 0)
        both_ways = conductance + conductance.T
        excess = self.weights @ residuals
        potentials = pinvh(np.diag(both_ways.sum(axis=0)) - both_ways) @ excess
        flows = conductance * (potentials[:, None] - potentials)
        unbalanced = excess + flows.sum(axis=0) - flows.sum(axis=1)
        scales = np.divide(flows, sums, out=np.zeros_like(sums), where=squares > 0)
        if scales.min() < -1 or np.abs(unbalanced).sum() > BALANCED * np.abs(excess).sum():
            return None
        change = np.empty_like(residuals)
        cost = _loops.scale_residuals(residuals, self.y, self.weights, scales, change)
        return change, cost

    def _spread(self, at: Evaluation) -> tuple[Array, float]:
        """Send the excess of a column from its own class's rows to the columns that lack it."""
        columns = self.weights @ at.residuals
        excess, lack = np.maximum(columns, 0.0), np.maximum(-columns, 0.0)
        change = np.zeros_like(at.residuals)
        cost = 0.0
        if not lack.any():
            return change, cost
        for k in np.flatnonzero(excess):
            rows = np.flatnonzero(self.y == k)
            residuals = at.residuals[rows].clip(min=0.0)
            slack = (at.targets[rows, k, None] - 1.0 - at.targets[rows]).clip(min=0.0)
            shares, price = _shares(
                residuals, slack, self.weights[rows], excess[k] * lack / lack.sum()
            )
            change[rows] = shares
            change[rows, k] = -shares.sum(axis=1)
            cost += price + float(self.weights[rows] @ change[rows, k] ** 2)
        return change, cost


def _curved(product: Array, direction: Array) -> Curved:
    return Curved(product, product.sum(axis=0), float(np.vdot(product, direction)))


def _weighted_square(residuals: Array, weights: Array) -> float:
    return float(weights @ np.einsum("ij,ij->i", residuals, residuals))


def _shares(residuals: Array, slack: Array, weights: Array, amounts: Array) -> tuple[Array, float]:
    """Distribute amounts, one a column, over rows: in proportion to the residuals, or evenly.

    Whichever is cheaper for a column: a share e of a row costs e² + 2 e · slack, and the slack is
    zero where the residual is not.
    """
    total = weights @ residuals
    energy = weights @ residuals**2
    even = 1.0 / weights.sum()
    safe_total = np.where(total > 0, total, 1.0)
    cost_in_proportion = np.where(total > 0, amounts**2 * energy / safe_total**2, np.inf)
    cost_evenly = amounts**2 * even + 2 * amounts * even * (weights @ slack)
    in_proportion = cost_in_proportion < cost_evenly
    shares = np.where(in_proportion, residuals * (amounts / safe_total), amounts * even)
    return shares, float(np.where(in_proportion, cost_in_proportion, cost_evenly).sum())
