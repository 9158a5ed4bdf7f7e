"""Compiled loops over scores of a small block: multipliers, curvatures and slopes along a line.

`losses` are low, high and the curvatures of a row of weight one below and above. A row belongs to
the class `positive` of a problem or is against it; rows of weight zero are left out.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["curve", "scale_rows", "slopes_along"]


@njit(cache=True, nogil=True)
def curve(scores, y, positive, weights, losses, pulls, sizes, lost, spread):
    """Write y a > 0, y a < 0 and ℓ'' of each row to the three rows of `pulls`.

    Adds the absolute values of y a on both sides to `sizes` and their losses to `lost`, and brings
    the weight, the mean, the scatter and the minimum of the margins in `spread` up to date.
    """
    low, high, steep_low, steep_high = losses
    total, mean, scatter, minimum = spread
    for i in range(len(scores)):
        pulls[0, i] = pulls[1, i] = pulls[2, i] = 0.0
        weight = weights[i]
        if weight == 0.0:
            continue
        belongs = y[i] == positive
        margin = scores[i] if belongs else -scores[i]
        total += weight
        apart = margin - mean
        mean += apart * (weight / total)
        scatter += weight * apart * (margin - mean)
        minimum = min(minimum, margin)
        if margin < low:
            beyond = low - margin
            steepness = steep_low * weight
            side = 0 if belongs else 1
        elif margin > high:
            beyond = margin - high
            steepness = steep_high * weight
            side = 1 if belongs else 0
        else:
            continue
        size = beyond * steepness
        pulls[side, i] = size if side == 0 else -size
        pulls[2, i] = steepness
        sizes[side] += size
        lost[side] += 0.5 * beyond * size
    spread[0], spread[1], spread[2], spread[3] = total, mean, scatter, minimum


@njit(cache=True, nogil=True)
def slopes_along(scores, moves, y, positive, weights, losses, lengths, slopes):
    """Add to `slopes` the derivatives of the losses at scores + length · moves."""
    low, high, steep_low, steep_high = losses
    for i in range(len(scores)):
        sign = 1.0 if y[i] == positive else -1.0
        margin = sign * scores[i]
        move = sign * moves[i]
        for k in range(len(lengths)):
            moved = margin + lengths[k] * move
            if moved < low:
                slopes[k] -= steep_low * weights[i] * (low - moved) * move
            elif moved > high:
                slopes[k] += steep_high * weights[i] * (moved - high) * move


@njit(cache=True, nogil=True)
def scale_rows(rows, factors, out):
    """Write √factor · row for the rows of positive factors, one after another; their number."""
    place = 0
    for i in range(len(factors)):
        if factors[i] > 0.0:
            root = np.sqrt(factors[i])
            for j in range(rows.shape[1]):
                out[place, j] = root * rows[i, j]
            place += 1
    return place
