"""Compiled loops of Newton's method: sums over the margins of a block, and products of rows.

`loss` is the result of `MarginLoss.numbers` for a row of weight one. The class `positive` has label
1, all other classes have label −1. Rows of weight zero are skipped.
"""

from __future__ import annotations

import numpy as np

from discreg.linalg.compiled import compiled
from discreg.linalg.types import Indices, RealArray

from ._loss_loops import evaluate_margin
from ._losses import Numbers

__all__ = ["add_outer_products", "evaluate_block", "scale_rows", "slopes_along"]


@compiled()
def evaluate_block(
    scores: RealArray,
    y: Indices,
    positive: int,
    weights: RealArray,
    loss: Numbers,
    signed: RealArray,
    sizes: RealArray,
    values: RealArray,
    spread: RealArray,
) -> None:
    """Write the positive y a, the negative y a and ℓ'' of each row to the rows of `signed`.

    Adds the absolute values of y a on both sides to `sizes` and their losses to `values`, and
    updates the weight, the mean, the scatter and the minimum of the margins in `spread`.
    """
    low, high, ridge_low, ridge_high, upper = loss
    total, mean, scatter, minimum = spread
    for i in range(len(scores)):
        signed[0, i] = signed[1, i] = signed[2, i] = 0.0
        weight = weights[i]
        if weight == 0.0:
            continue
        sign = 1.0 if y[i] == positive else -1.0
        margin = sign * scores[i]
        total += weight
        apart = margin - mean
        mean += apart * (weight / total)
        scatter += weight * apart * (margin - mean)
        minimum = min(minimum, margin)
        value, multiplier, curvature = evaluate_margin(
            margin, low, high, ridge_low / weight, ridge_high / weight, upper * weight
        )
        side = 0 if sign * multiplier >= 0.0 else 1
        signed[side, i] = sign * multiplier
        signed[2, i] = curvature
        sizes[side] += abs(multiplier)
        values[side] += value
    spread[0], spread[1], spread[2], spread[3] = total, mean, scatter, minimum


@compiled()
def slopes_along(
    scores: RealArray,
    moves: RealArray,
    y: Indices,
    positive: int,
    weights: RealArray,
    loss: Numbers,
    lengths: RealArray,
    slopes: RealArray,
) -> None:
    """Add to `slopes` the derivatives of the losses at scores + length · moves."""
    low, high, ridge_low, ridge_high, upper = loss
    for i in range(len(scores)):
        weight = weights[i]
        if weight == 0.0:
            continue
        sign = 1.0 if y[i] == positive else -1.0
        for k in range(len(lengths)):
            margin = sign * (scores[i] + lengths[k] * moves[i])
            _, multiplier, _ = evaluate_margin(
                margin, low, high, ridge_low / weight, ridge_high / weight, upper * weight
            )
            slopes[k] -= multiplier * sign * moves[i]


@compiled()
def scale_rows(rows: RealArray, factors: RealArray, out: RealArray) -> int:
    """Write √factor · row for the rows with positive factors and return their number."""
    place = 0
    for i in range(len(factors)):
        if factors[i] > 0.0:
            root = np.sqrt(factors[i])
            for j in range(rows.shape[1]):
                out[place, j] = root * rows[i, j]
            place += 1
    return place


@compiled()
def add_outer_products(
    total: RealArray,
    data: RealArray,
    indices: Indices,
    indptr: Indices,
    rows: Indices,
    factors: RealArray,
) -> None:
    """Add one triangle of factor · x xᵀ for CSR rows x."""
    for k in range(len(rows)):
        begin, end = indptr[rows[k]], indptr[rows[k] + 1]
        for a in range(begin, end):
            value = factors[k] * data[a]
            for b in range(begin, a + 1):
                total[indices[a], indices[b]] += value * data[b]
