"""The loss ℓ of `_losses`, its derivatives and its conjugate, compiled."""

from __future__ import annotations

from discreg.linalg.compiled import REORDER, compiled
from discreg.linalg.types import RealArray

__all__ = [
    "best_multiplier",
    "evaluate_margin",
    "gap_of_margin",
    "hinge_derivatives",
    "smooth_derivatives",
]


@compiled()
def evaluate_margin(
    margin: float, low: float, high: float, ridge_low: float, ridge_high: float, upper: float
) -> tuple[float, float, float]:
    """Compute the value ℓ(z), multiplier −ℓ'(z) and curvature ℓ''(z) at one margin.

    At the kink of a hinge the multiplier is zero.
    """
    if margin < low:
        short = low - margin
        if ridge_low == 0.0:
            return upper * short, upper, 0.0
        return 0.5 * short * short / ridge_low, short / ridge_low, 1.0 / ridge_low
    if margin > high:
        beyond = margin - high
        return 0.5 * beyond * beyond / ridge_high, -beyond / ridge_high, 1.0 / ridge_high
    return 0.0, 0.0, 0.0


@compiled()
def gap_of_margin(
    multiplier: float,
    margin: float,
    low: float,
    high: float,
    ridge_low: float,
    ridge_high: float,
    upper: float,
) -> tuple[float, float]:
    """Compute the value ℓ(z) and the duality gap ℓ(z) + ℓ*(−a) + a z of one multiplier."""
    value = 0.0
    if margin > high:
        value = 0.5 * (margin - high) ** 2 / ridge_high
    elif margin < low:
        short = low - margin
        value = upper * short if ridge_low == 0.0 else 0.5 * short * short / ridge_low
    if multiplier > 0.0:
        return value, value + multiplier * (margin - low + 0.5 * ridge_low * multiplier)
    if multiplier < 0.0:
        return value, value + multiplier * (margin - high + 0.5 * ridge_high * multiplier)
    return value, value


@compiled()
def best_multiplier(
    old: float,
    margin: float,
    diagonal: float,
    low: float,
    high: float,
    ridge_low: float,
    ridge_high: float,
    upper: float,
) -> float:
    """Minimise the dual over one multiplier; `margin` is the margin at the old multiplier."""
    pulled = diagonal * old - margin + low
    if pulled > 0.0:
        slope = diagonal + ridge_low
        return min(pulled / slope, upper) if slope > 0.0 else upper
    pushed = diagonal * old - margin + high
    return pushed / (diagonal + ridge_high) if pushed < 0.0 else 0.0


@compiled(fastmath=REORDER)
def smooth_derivatives(
    margins: RealArray,
    direction: RealArray,
    step: float,
    low: float,
    high: float,
    curvature_low: RealArray,
    curvature_high: RealArray,
) -> tuple[float, float, float]:
    """Compute the first and second derivatives of squared losses along a line.

    The last number returned is the sum of the absolute values of the terms of the first derivative.
    """
    slope = 0.0
    curved = 0.0
    size = 0.0
    for i in range(len(margins)):
        d = direction[i]
        margin = margins[i] + step * d
        short = max(low - margin, 0.0)
        beyond = min(high - margin, 0.0)
        curvature = curvature_low[i] if short > 0.0 else 0.0
        curvature += curvature_high[i] if beyond < 0.0 else 0.0
        term = (short + beyond) * (curvature * d)
        slope -= term
        curved += curvature * d * d
        size += abs(term)
    return slope, curved, size


@compiled()
def hinge_derivatives(
    margins: RealArray, direction: RealArray, step: float, low: float, upper: RealArray
) -> tuple[float, float, float]:
    """Compute the left and right derivatives of hinge losses along a line.

    The last number returned is the sum of the absolute values of the terms at margins below `low`.
    """
    slope = 0.0
    left = 0.0
    right = 0.0
    size = 0.0
    for i in range(len(margins)):
        term = upper[i] * direction[i]
        margin = margins[i] + step * direction[i]
        if margin < low:
            slope -= term
            size += abs(term)
        elif margin == low:  # the kink
            if term > 0.0:
                left -= term
            else:
                right -= term
    return slope + left, slope + right, size
