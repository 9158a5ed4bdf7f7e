"""The loss ℓ of `_losses` in compiled form: value, derivatives, conjugate, minimum along a line.

`loss` is `MarginLoss.numbers` for one margin and `SampleLosses.arrays` for the margins of samples.
"""

from __future__ import annotations

import numpy as np

from discreg.linalg.compiled import compiled

__all__ = [
    "best_multiplier",
    "evaluate",
    "evaluate_margin",
    "gap_of_margin",
    "gaps",
    "minimum_along",
]

LINE_STEPS = 200
ROUNDING = 1e-15


@compiled()
def evaluate_margin(margin, low, high, ridge_low, ridge_high, upper):
    """Value ℓ(z), multiplier −ℓ'(z) and curvature ℓ''(z) at one margin.

    At the kink of a hinge the multiplier is zero.
    """
    if margin < low:
        short = low - margin
        if short <= ridge_low * upper:
            curvature = 1.0 / ridge_low
            return 0.5 * short * short * curvature, short * curvature, curvature
        return upper * (short - 0.5 * ridge_low * upper), upper, 0.0
    if margin > high:
        beyond = margin - high
        curvature = 1.0 / ridge_high
        return 0.5 * beyond * beyond * curvature, -beyond * curvature, curvature
    return 0.0, 0.0, 0.0


@compiled()
def gap_of_margin(multiplier, margin, low, high, ridge_low, ridge_high, upper):
    """Value ℓ(z), and the duality gap ℓ(z) + ℓ*(−a) + a z of one multiplier."""
    value, _, _ = evaluate_margin(margin, low, high, ridge_low, ridge_high, upper)
    conjugate = 0.0  # ℓ*(−a)
    if multiplier > 0.0:
        conjugate = -multiplier * (low - 0.5 * ridge_low * multiplier)
    elif multiplier < 0.0:
        conjugate = -multiplier * (high - 0.5 * ridge_high * multiplier)
    return value, value + conjugate + multiplier * margin


@compiled()
def best_multiplier(old, margin, diagonal, low, high, ridge_low, ridge_high, upper):
    """Minimiser of the dual over one multiplier, for the margin that the old one brings."""
    pulled = diagonal * old - margin + low
    if pulled > 0.0:
        slope = diagonal + ridge_low
        return min(pulled / slope, upper) if slope > 0.0 else upper
    pushed = diagonal * old - margin + high
    return pushed / (diagonal + ridge_high) if pushed < 0.0 else 0.0


@compiled()
def evaluate(margins, loss, multipliers, curvatures):
    """Write −ℓ' and ℓ'' of each margin; returns the sum of the losses."""
    low, high, ridge_low, ridge_high, upper = loss
    total = 0.0
    for i in range(len(margins)):
        value, multipliers[i], curvatures[i] = evaluate_margin(
            margins[i], low, high, ridge_low[i], ridge_high[i], upper[i]
        )
        total += value
    return total


@compiled()
def gaps(multipliers, margins, loss):
    """Duality gap of each multiplier."""
    low, high, ridge_low, ridge_high, upper = loss
    found = np.empty(len(margins))
    for i in range(len(margins)):
        _, found[i] = gap_of_margin(
            multipliers[i], margins[i], low, high, ridge_low[i], ridge_high[i], upper[i]
        )
    return found


@compiled()
def minimum_along(margins, direction, loss, slope, curvature):
    """Minimiser over t of slope · t + curvature · t²/2 + Σ ℓ(margin + t · direction).

    Newton's steps on the derivative, which increases, kept inside a bracket and else halved. Where
    the minimum is an interval, some point of it.
    """
    lowest = -np.inf
    highest = np.inf
    step = 0.0
    for _ in range(LINE_STEPS):
        left, right, curved, size = _derivative(margins, direction, loss, step)
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


@compiled()
def _derivative(margins, direction, loss, step):
    """Derivatives of the losses along a line, from the left, from the right, and the second.

    Last, the sum of the absolute values of the terms of the first.
    """
    low, high, ridge_low, ridge_high, upper = loss
    slope = 0.0
    left = 0.0
    right = 0.0
    curved = 0.0
    size = 0.0
    for i in range(len(margins)):
        d = direction[i]
        margin = margins[i] + step * d
        _, multiplier, curvature = evaluate_margin(
            margin, low, high, ridge_low[i], ridge_high[i], upper[i]
        )
        if margin == low and ridge_low[i] == 0.0:  # the kink of a hinge
            left -= max(upper[i] * d, 0.0)
            right -= min(upper[i] * d, 0.0)
        curved += d * d * curvature
        slope -= multiplier * d
        size += abs(multiplier * d)
    return slope + left, slope + right, curved, size
