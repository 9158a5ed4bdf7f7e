"""Exact proximal operators of the penalties ρ(‖·‖_{q,r}), for any q and r in {1, 2, ∞}.

The minimiser u of ½‖u − v‖² + step·ρ(‖u‖_{q,r}) comes apart once each class has its threshold τ:
within the class it minimises ½‖u − v‖² + τ‖u‖_q. With t the norms ‖u‖_q of the classes,

    r = 1: τ = step,
    r = 2: τ = step·t/‖t‖,
    r = ∞: Σ τ = step, and τ > 0 only where t is largest;

the half-square has step·‖t‖_r in place of step. Three remarks leave few cases to solve.

- q = r: all samples may count as one class.
- q = 2: u is a multiple of v in each class. The multiples are those of the problem with q = 1 whose
  classes have one coordinate each, the norm of v.
- q = ∞ and q = 1 need one level x a class: u is v clipped to [−cx, cx] for q = ∞, and what the clip
  cuts off for q = 1. The level is the norm t for q = ∞ and the threshold τ for q = 1; F(x) of
  `_prox_loops` is the other one of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from ._penalties import Penalty, group_norms

__all__ = ["prox"]

Array = NDArray[np.float64]


def prox(
    V: Array,
    step: float,
    penalty: Penalty,
    groups_slices: Sequence[slice],
    weights: Array | None = None,
) -> Array:
    """Minimise ½‖u − v‖² + step·ρ(‖u‖_{q,r}) for each row v.

    Parameters
    ----------
    V : ndarray of shape (n_points, n_samples)
        The points, one a row.
    step : float
        At least zero.
    penalty : Penalty
    groups_slices : sequence of slice
        The columns of each group: consecutive, from the first column to the last.
    weights : ndarray of shape (n_samples,), default=None
        The positive weights c of the coordinates: Σ c|u| for q = 1, max |u|/c for q = ∞; q = 2 has
        none. None: all ones.

    Returns
    -------
    U : ndarray of shape (n_points, n_samples)
    """
    V = np.ascontiguousarray(V, dtype=np.float64)
    if step == 0 or V.size == 0:
        return V.copy()
    slices = [rows for rows in groups_slices if rows.stop > rows.start]
    if penalty.q == penalty.r:
        slices = [slice(0, V.shape[1])]
    sizes = [rows.stop - rows.start for rows in slices]
    if penalty.q == 2:
        norms = group_norms(V, 2, slices)
        singles = [slice(i, i + 1) for i in range(len(slices))]
        shrunk = prox(norms, step, Penalty(1, penalty.r, penalty.rho), singles)
        factors = np.divide(shrunk, norms, out=np.zeros_like(norms), where=norms > 0)
        return V * np.repeat(factors, sizes, axis=1)
    c = np.ones(V.shape[1]) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    levels = np.repeat(_levels(np.abs(V), float(step), penalty, slices, c), sizes, axis=1)
    levels *= c
    clipped = np.clip(V, -levels, levels)
    return clipped if penalty.q == inf else V - clipped


def _levels(A: Array, step: float, penalty: Penalty, slices: list[slice], c: Array) -> Array:
    """The levels x of each row, one column a group."""
    from . import _prox_loops as loops

    starts = np.array([0] + [rows.stop for rows in slices])
    levels = np.empty((len(A), len(slices)))
    q, r, half_square = penalty.q, penalty.r, penalty.half_square
    separable = len(slices) == 1 or r == (2 if half_square else 1)
    if separable and half_square:  # τ = step·t in each group
        loops.each_level(A, starts, c, 0.0, 1 / step if q == 1 else step, levels)
    elif separable and q == 1:  # τ = step
        levels.fill(step)
    elif separable:
        loops.each_level(A, starts, c, step, 0.0, levels)
    elif r == 2:
        loops.levels_at_norm(A, starts, c, step, q == inf, levels)
    elif q == 1:  # one norm t for all groups that reach it, Σ τ = step or step·t
        shift, slope = (0.0, step) if half_square else (step, 0.0)
        loops.levels_at_common_value(A, starts, c, shift, slope, levels)
    else:  # one threshold τ for all groups, Σ t = τ / step
        loops.levels_at_common_value(A, starts, c, 0.0, 1 / step, levels)
    if q == 1 and not (separable or half_square):
        # Rounding leaves a trace of what the minimiser has as zero.
        levels[penalty.dual_norm(A, slices, c) <= step] = inf
    return levels
