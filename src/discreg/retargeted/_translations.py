r"""Targets with a margin whose translations have a penalty of their own, equation (16) of GReLSR.

The loss of a row with scores r and true class k is the minimum over its targets t of

    ‖r − t‖² + γ ρ(t_k − 1)      subject to      t_k − t_j ≥ 1,

where ρ(a) is a² or |a|. The best translation a = t_k − 1 solves

    (r_k − 1 − a) + Σ_j max(r_j − a, 0) = σ,      σ ∈ γ/2 ∂ρ(a),

where the left-hand side is the sum of the residuals of the row. For a² this is GReLSR's rule with a
centre of zero. For |a| it is ReLSR's rule with the score r_k − σ, where σ is the left-hand side at
a = 0, limited to [−γ/2, γ/2]; inside of this interval a is zero.

In the conjugate the sum σ of a row's residuals costs σ²/γ, or has to be in the interval. The
intercepts need residuals whose total is zero. So `balance` changes the residuals of the true
classes first: evenly for a²; for |a| in proportion to the distance of σ from the end of the
interval, in rows without a translation, which costs nothing else, or if these are not enough in all
rows, at 2|a| for each unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.blocks.source import AddableTuple
from discreg.linalg.rows import class_sums
from discreg.linalg.types import Array, Indices

from ._losses import Evaluation, TargetLoss
from ._margin_targets import MarginTargets, active_classes, active_sums, targets_below, true_targets

__all__ = ["PenalisedTranslations"]

ROUNDING = 1e-9  # relative distance of σ from the end of its interval due to rounding


class PenalisedTranslations(MarginTargets):
    """Targets with a margin of 1 and the penalty γ Σ a² ("l2") or γ Σ |a| ("l1").

    The rows are not coupled, so that the group penalty of the base class is zero.
    """

    descent_rule = None
    is_relative = False

    def __init__(self, weight: float, kind: str) -> None:
        super().__init__()
        self.weight, self.is_absolute = weight, kind == "l1"
        self.may_be_linear = self.is_absolute  # it is if all rows have a translation

    def targets_for(self, scores: Array, y: Indices, centres: Array) -> Array:
        own, none = (np.arange(len(y)), y), np.zeros(scores.shape[1])
        if not self.is_absolute:
            return targets_below(true_targets(scores, y, self.weight, none)[0], scores, y)
        positive = scores.clip(min=0.0)
        sums = positive.sum(axis=1) - positive[own] + scores[own] - 1.0
        limited = sums.clip(-self.weight / 2, self.weight / 2)
        shifted = scores.copy()
        shifted[own] -= limited
        tops = true_targets(shifted, y, 0.0, none)[0]
        return targets_below(np.where(sums == limited, 1.0, tops), scores, y)

    def _evaluation(
        self, targets: Array, residuals: Array, centres: Array, y: Indices, weights: Array
    ) -> Evaluation:
        at = super()._evaluation(targets, residuals, centres, y, weights)
        sizes = np.abs(targets[np.arange(len(y)), y] - 1.0)
        cost = self.weight * float(weights @ (sizes if self.is_absolute else sizes**2))
        return at._replace(value=at.value + cost)

    def _is_still(self, residuals: Array) -> NDArray[np.bool_]:
        """Return which rows have no translation, also after a small change of their scores."""
        inside = (1.0 - ROUNDING) * self.weight / 2
        return np.asarray(self.is_absolute & (np.abs(residuals.sum(axis=1)) < inside))

    def pieces(self, residuals: Array) -> Array:
        return np.asarray(np.sign(residuals) + 3.0 * self._is_still(residuals)[:, None])

    def score_hessp(self, residuals: Array, direction: Array, y: Indices, weights: Array) -> Array:
        sums, sizes = active_sums(residuals, direction, y)
        moves = sums / (sizes + (0.0 if self.is_absolute else self.weight))
        direction -= np.where(self._is_still(residuals), 0.0, moves)[:, None]
        direction *= active_classes(residuals, y) * weights[:, None]
        return direction

    row_derivatives = TargetLoss.row_derivatives
    class_curvatures = TargetLoss.class_curvatures

    def _rooms(self, residuals: Array) -> Array:
        """Compute how far σ of each row can decrease and increase: without other cost, or at all.

        For a² these are shares of any change.
        """
        if not self.is_absolute:
            return np.ones((2, 2, len(residuals)))
        sums = residuals.sum(axis=1)
        rooms = (self.weight / 2 + np.stack([sums, -sums])).clip(min=0.0)
        return np.stack([rooms * self._is_still(residuals), rooms], axis=1)

    def balance_sums(self, at: Evaluation, y: Indices, weights: Array) -> AddableTuple:
        rooms = self._rooms(at.residuals).reshape(4, -1)
        by_class = [class_sums(y, weights * room, at.residuals.shape[1]) for room in rooms]
        return AddableTuple((np.array(by_class), super().balance_sums(at, y, weights)))

    def balance_plan(self, sums: AddableTuple) -> Any:
        rooms, others = sums
        *others, columns = others
        total = float(columns.sum())
        way = 0 if total > 0 else 2
        way += int(self.is_absolute and rooms[way].sum() < abs(total))
        share = -total / float(rooms[way].sum()) if total != 0 else 0.0
        columns = columns + share * rooms[way]
        return super().balance_plan(AddableTuple((*others, columns))), way, share

    def balance(self, at: Evaluation, plan: Any, y: Indices, weights: Array) -> tuple[Array, float]:
        of_columns, way, share = plan
        change, cost = super().balance(at, of_columns, y, weights)
        own, steps = (np.arange(len(y)), y), share * self._rooms(at.residuals).reshape(4, -1)[way]
        more = steps * (2.0 * change[own] + steps)
        if self.is_absolute:
            more += 2.0 * np.abs(steps * (at.targets[own] - 1.0))
        else:
            more += steps**2 / self.weight
        change[own] += steps
        return change, cost + float(weights @ more)
