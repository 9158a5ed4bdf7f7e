"""Compiled loops over margins and rows: minimisation along a line, and what Newton's method needs.

`terms` are the fields of `_terms.Terms`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["add_outer_products", "evaluate", "minimum_along"]

LINE_STEPS = 200
ROUNDING = 1e-15


@njit(cache=True, nogil=True)
def minimum_along(margins, direction, terms, slope, curvature):
    """Minimiser over t of slope · t + curvature · t²/2 + Σ ℓ(margin + t · direction).

    Newton's steps on the derivative, which increases, kept inside a bracket and else halved. Where
    the minimum is an interval, some point of it.
    """
    lowest = -np.inf
    highest = np.inf
    step = 0.0
    for _ in range(LINE_STEPS):
        left, right, curved, size = _derivative(margins, direction, terms, step)
        left += slope + curvature * step
        right += slope + curvature * step
        curved += curvature
        if left - ROUNDING * size <= 0.0 <= right + ROUNDING * size:
            break
        if right < 0.0:
            lowest = step
            value = right
        else:
            highest = step
            value = left
        following = step - value / curved if curved > 0.0 else np.nan
        if not lowest < following < highest:
            if lowest == -np.inf:
                following = highest - 2.0 * (1.0 + abs(highest))
            elif highest == np.inf:
                following = lowest + 2.0 * (1.0 + abs(lowest))
            else:
                following = 0.5 * (lowest + highest)
                if following <= lowest or following >= highest:
                    break
        step = following
    return step


@njit(cache=True, nogil=True)
def _derivative(margins, direction, terms, step):
    """Derivatives of the losses along a line, from the left, from the right, and the second.

    Last, the sum of the absolute values of what the first is the sum of.
    """
    low, high, ridge_low, ridge_high, upper = terms
    slope = 0.0
    left = 0.0
    right = 0.0
    curved = 0.0
    size = 0.0
    for i in range(len(margins)):
        d = direction[i]
        margin = margins[i] + step * d
        if margin < low:
            multiplier = upper[i]
            if low - margin < ridge_low[i] * upper[i]:
                steepness = 1.0 / ridge_low[i]
                multiplier = (low - margin) * steepness
                curved += d * d * steepness
        elif margin > high:
            steepness = 1.0 / ridge_high[i]
            multiplier = (high - margin) * steepness
            curved += d * d * steepness
        else:
            if margin == low and ridge_low[i] == 0.0:  # the kink of a hinge
                left -= max(upper[i] * d, 0.0)
                right -= min(upper[i] * d, 0.0)
            continue
        slope -= multiplier * d
        size += abs(multiplier * d)
    return slope + left, slope + right, curved, size


@njit(cache=True, nogil=True)
def evaluate(margins, terms, multipliers, curvature):
    """Write −ℓ' and ℓ'' of each margin; returns the sum of the losses. For smooth losses."""
    low, high, ridge_low, ridge_high, _ = terms
    total = 0.0
    for i in range(len(margins)):
        margin = margins[i]
        if margin < low:
            short = low - margin
            curvature[i] = 1.0 / ridge_low[i]
            multipliers[i] = short * curvature[i]
            total += 0.5 * short * multipliers[i]
        elif margin > high:
            beyond = margin - high
            curvature[i] = 1.0 / ridge_high[i]
            multipliers[i] = -beyond * curvature[i]
            total -= 0.5 * beyond * multipliers[i]
        else:
            curvature[i] = 0.0
            multipliers[i] = 0.0
    return total


@njit(cache=True, nogil=True)
def add_outer_products(total, data, indices, indptr, rows, factors):
    """Add factor · x xᵀ for CSR rows x: each pair of entries once, in either triangle."""
    for k in range(len(rows)):
        begin, end = indptr[rows[k]], indptr[rows[k] + 1]
        for a in range(begin, end):
            value = factors[k] * data[a]
            for b in range(begin, a + 1):
                total[indices[a], indices[b]] += value * data[b]
