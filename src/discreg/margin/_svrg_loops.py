"""Compiled epochs of stochastic variance reduced gradients: Algorithm 2 of the ODM paper.

A step from the snapshot w̄ with the full gradient μ changes w by

    w ← w − η (w − w̄ + μ + δ y_i (x_i − x̄)),

where δ is the change of the sample's slope since the snapshot, and x̄ the mean of the rows. Steps
are taken in (w, b') with b = b' − w·x̄, because a mean far from zero would couple w to b. Only the
multiple of x_i differs between steps, and it is as sparse as a row. So w is stored as

    w = w̄ + shrink (v − drift x̄) − pull μ,

where a step multiplies `shrink` by 1 − η, moves `pull` by η of its way to one, and adds a multiple
of x_i to v and the same multiple to `drift`. These are the iterates of the paper at the cost of one
row per step.

`rows` are those of `_row_loops`. `offsets` are the products x̄·(x_i − x̄). `margins` and `gradient`
are those of the snapshot, whose intercept is optimal, so that the gradient of b' is zero there. v
starts at zero.
"""

from __future__ import annotations

import numpy as np

from discreg.linalg.compiled import compiled
from discreg.linalg.types import Indices, RealArray

from ._loss_loops import evaluate_margin
from ._losses import Numbers
from ._row_loops import CompiledRows, add_multiple_of_row, product

__all__ = ["epoch"]

State = tuple[float, float, float, float, float, float, float]

SMALLEST_SHRINK = 1e-100  # below it v, which grows as 1 / shrink, is rescaled


@compiled()
def _start(mean: RealArray, gradient: RealArray) -> State:
    """The state of an epoch: shrink, pull, drift, x̄·v, x̄·μ, x̄·x̄ and the change of b'."""
    return 1.0, 0.0, 0.0, 0.0, np.dot(mean, gradient), np.dot(mean, mean), 0.0


@compiled()
def _score_change(
    rows: CompiledRows, i: int, offset: float, v: RealArray, gradient: RealArray, state: State
) -> float:
    """Change of the score of row i since the snapshot."""
    shrink, pull, drift, mean_v, mean_gradient, _, shift = state
    moved = shrink * (product(rows, i, v) - mean_v - drift * offset)
    return moved - pull * (product(rows, i, gradient) - mean_gradient) + shift


@compiled()
def _step(
    rows: CompiledRows,
    i: int,
    offset: float,
    slope: float,
    step: float,
    intercept_step: float,
    v: RealArray,
    state: State,
) -> State:
    """Take a step for a sample whose slope y_i δ is given; writes v, returns the new state."""
    shrink, pull, drift, mean_v, mean_gradient, mean_mean, shift = state
    shrink *= 1.0 - step
    pull += step * (1.0 - pull)
    if shrink < SMALLEST_SHRINK:
        v *= shrink
        drift *= shrink
        mean_v *= shrink
        shrink = 1.0
    if slope != 0.0:
        factor = -step * slope / shrink
        add_multiple_of_row(rows, i, factor, v)
        drift += factor
        mean_v += factor * (offset + mean_mean)
        shift -= intercept_step * slope
    return shrink, pull, drift, mean_v, mean_gradient, mean_mean, shift


@compiled()
def epoch(
    rows: CompiledRows,
    y: RealArray,
    mean: RealArray,
    offsets: RealArray,
    samples: Indices,
    partners: Indices,
    margins: RealArray,
    multipliers: RealArray,
    gradient: RealArray,
    step: float,
    intercept_step: float,
    loss: Numbers,
    lambda1: float,
    v: RealArray,
) -> tuple[float, float, float, float]:
    """Steps with the gradients of samples (24) or of pairs (23) of samples.

    Writes v; returns `shrink`, `pull`, `drift` and the change of b'. `multipliers` are −ℓ' at the
    snapshot. λ2 does not occur, because the slope of the mean margin is constant.
    """
    low, high, ridge_low, ridge_high, upper = loss
    state = _start(mean, gradient)
    for k in range(len(samples)):
        i, j = samples[k], partners[k]
        change = y[i] * _score_change(rows, i, offsets[i], v, gradient, state)
        _, multiplier, _ = evaluate_margin(
            margins[i] + change, low, high, ridge_low, ridge_high, upper
        )
        slope = multipliers[i] - multiplier
        if lambda1 > 0.0:
            other = y[j] * _score_change(rows, j, offsets[j], v, gradient, state)
            slope += 2.0 * lambda1 * (change - other)
        state = _step(rows, i, offsets[i], y[i] * slope, step, intercept_step, v, state)
    return state[0], state[1], state[2], state[6]
