"""Losses of the scores with the targets eliminated.

For weights s, scores R and allowed targets 𝒯 the loss is

    L(R) = min over T in 𝒯 of Σ_i s_i ‖r_i − t_i‖²        (GReLSR: + γ Σ_i s_i (t_ik − 1 − μ_k)²),

which is convex and once differentiable. Its half gradient is S(R − T) at the best targets T. A loss
stores no data: all methods take the class indices `y` and the weights of some rows. The solvers for
rows in memory and for rows in blocks call the same methods. The losses of LSR and DLSR are defined
in the modules of their estimators, that of ReLSR and GReLSR in `_margin_targets`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from discreg.blocks.source import AddableTuple
from discreg.linalg.rows import matmul, product_blocks, rmatmul, row_dots
from discreg.linalg.types import Array, Indices

__all__ = ["Evaluation", "Shares", "TargetLoss", "weighted_square"]


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
        excess = self.excess(at.residuals + change, at, y)
        return change, weighted_square(change, weights) + float(weights @ excess)

    def centre_sums(self, at: Evaluation, y: Indices, weights: Array) -> AddableTuple:
        """Compute the sums of d = t_k − 1 − μ_k, of d² and of −∂d/∂μ_k over each class k."""
        n_classes = at.residuals.shape[1]
        return AddableTuple((np.zeros(n_classes), np.zeros(n_classes), np.ones(n_classes)))


def weighted_square(residuals: Array, weights: Array) -> float:
    """Compute the weighted sum of the squared residuals; rows of weight zero have no effect."""
    squares = row_dots(residuals, residuals)
    if not np.isfinite(squares).all():
        squares[weights == 0] = 0.0
    return float(weights @ squares)


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
