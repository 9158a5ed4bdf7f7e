r"""ReLSR with a capped loss: Σ s_i min(l_i, cap) + β‖W‖², by a sequence of convex problems.

The loss l_i of a row is the squared distance of its scores from the allowed targets. For a set C of
capped rows,

    F(W, b, C) = Σ_{i not in C} s_i l_i + cap Σ_{i in C} s_i + β‖W‖²

is convex in W and b, and its minimum over C is the objective. Each step caps the rows whose loss
exceeds the cap, which minimises F over C, and then minimises F over W and b from the last solution.
So F decreases in each step, and because there are finitely many sets, one of them repeats. Unless a
loss equals the cap, the objective is then F(·, C) near the solution, which is a local minimum.

A class whose rows would all be capped keeps the set that it had, in which some rows are not capped.
F does not increase by that either.

All convex problems have the features, centre and normal equations of all rows. Centring the
features elsewhere only changes the intercepts, and the normal equations of all rows bound those of
fewer, as the solvers need.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.left_out import LeftOut
from discreg.base.regression import Prepared
from discreg.linalg.iterations import Report
from discreg.linalg.rows import class_sums, row_dots
from discreg.linalg.types import Array

from ._fit import solve
from ._left_out import left_out
from ._losses import TargetLoss
from ._solvers import Solution

__all__ = ["CappedSolution", "left_out_of_capped", "solve_capped"]

Mask = NDArray[np.bool_]
ROUNDING = 1e-12  # relative decrease of the objective that is due to rounding
TIED = 1e-9  # relative difference from the cap that is due to rounding: such rows are not capped


@dataclass(kw_only=True)
class CappedSolution(Solution):
    """Solution of the last convex problem.

    Attributes
    ----------
    problem : Prepared
        The training data with weights of zero for the capped rows.
    capped : ndarray of bool of shape (n_samples,)
    values : list of float
        F after each convex problem.
    """

    problem: Prepared
    capped: Mask
    values: list[float]


def solve_capped(
    estimator: Any,
    prepared: Prepared,
    loss: TargetLoss,
    start: Array | None,
    *,
    report: Report,
    **options: Any,
) -> CappedSolution:
    """Solve convex problems until the set of capped rows repeats or F no longer decreases.

    The parameters are those of `solve`; the cap is `estimator.loss_cap`. An iteration is a convex
    problem.
    """
    cap = estimator.loss_cap
    best: CappedSolution | None = None
    capped = np.zeros(len(prepared.y), dtype=bool)
    while True:
        problem = _without(prepared, capped)
        solution = solve(estimator, problem, loss, start, **options)
        value = solution.objective_history[-1] + cap * float(prepared.weights[capped].sum())
        if best is not None and not value < best.values[-1] * (1 - ROUNDING):
            return best
        values = [value] if best is None else [*best.values, value]
        best = CappedSolution(**vars(solution), problem=problem, capped=capped, values=values)
        following = _next_set(prepared, loss, best, cap)
        if report(1) or np.array_equal(following, capped):
            return best
        capped, start = following, solution.theta


def _next_set(prepared: Prepared, loss: TargetLoss, last: CappedSolution, cap: float) -> Mask:
    """Return the rows whose loss exceeds the cap, class by class; no class is capped as a whole."""
    theta, y, weights = last.theta, prepared.y, prepared.weights
    scores = last.problem.regression.scores(theta[:-1], theta[-1])
    residuals = scores - loss.targets(scores, y)
    exceeds = (row_dots(residuals, residuals) > cap * (1 + TIED)) & (weights > 0)
    remaining = class_sums(y, np.where(exceeds, 0.0, weights), len(prepared.classes))
    return np.where(remaining[y] > 0, exceeds, last.capped)


def _without(prepared: Prepared, capped: Mask) -> Prepared:
    """Return the training data with weights of zero for the capped rows."""
    weights = np.where(capped, 0.0, prepared.weights)
    return replace(prepared, weights=weights, regression=prepared.regression.reweighted(weights))


def left_out_of_capped(
    prepared: Prepared, loss: TargetLoss, solution: CappedSolution, scores: Array
) -> LeftOut:
    """Compute the scores of the rows to hold out, each without one unit of its weight.

    A capped row has no influence on the solution, and its held-out scores are its `scores`. Those
    of the others are the held-out scores of the last convex problem: they are not exact, because
    without a row others may be capped.
    """
    kept, weights = prepared.kept, solution.problem.weights
    assert kept is not None
    assert kept.places is not None
    seen = np.flatnonzero(~solution.capped[kept.places])
    problem = replace(
        solution.problem,
        class_weights=class_sums(prepared.y, weights, len(prepared.classes)),
        kept=kept.take(seen),
    )
    problem.regression.total = float(weights.sum())  # the solvers need that of all rows
    held_out = scores.copy()
    held_out[seen] = left_out(problem, loss, solution, None).scores
    return LeftOut(held_out, is_exact=False)
