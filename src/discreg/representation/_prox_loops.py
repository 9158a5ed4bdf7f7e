"""Compiled loops behind the proximal operators: roots of piecewise linear functions.

For a group of sizes a = |v| > 0 with weights c,

    F(x) = Σ c (a − c x)₊

is convex, piecewise linear and falls from Σ ca to zero at max a/c. It is the norm left after a
threshold x for q = 1, and the threshold that leaves the norm x for q = ∞. Every equation below is
convex and falls, or is concave and rises, along its unknown, so Newton's steps that start on the
left of its root never pass it; for the piecewise linear ones they end at it.
"""

from __future__ import annotations

import numpy as np

from discreg.linalg.compiled import REORDER, compiled
from discreg.linalg.types import Indices, RealArray

ROUNDING = 4e-16
MAX_STEPS = 1000  # of Newton's method; a few dozen are enough unless rounding decides


@compiled(fastmath=REORDER)
def _value(a: RealArray, c: RealArray, x: float) -> tuple[float, float, int]:
    """F(x), minus its slope, and the number of sizes above c x.

    Sizes that are below by rounding count too: without a large c among them, the slope is too small
    by orders of magnitude, and Newton's steps are too short.
    """
    value = 0.0
    fall = 0.0
    count = 0
    for j in range(len(a)):
        excess = a[j] - c[j] * x
        above = 1.0 if excess > -ROUNDING * a[j] else 0.0
        value += above * c[j] * excess
        fall += above * c[j] * c[j]
        count += excess > -ROUNDING * a[j]
    return value, fall, count


@compiled()
def _level(
    a: RealArray, c: RealArray, scale: float, shift: float, slope: float
) -> tuple[float, float]:
    """The least x ≥ 0 with scale·F(x) ≤ shift + slope·x, and minus the slope of F on its left.

    The set of sizes above c x only shrinks on the way, and once it stays the equation is linear.
    """
    x = 0.0
    last_fall = 0.0
    last_count = -1
    while True:
        value, fall, count = _value(a, c, x)
        if count == 0:
            break
        last_fall = fall
        excess = scale * value - shift - slope * x
        if excess <= 0.0:
            break
        x += excess / (scale * fall + slope)
        if count == last_count:
            break
        last_count = count
    return x, last_fall


@compiled()
def each_level(
    A: RealArray, starts: Indices, c: RealArray, shift: float, slope: float, levels: RealArray
) -> None:
    """Write the level x with F(x) = shift + slope·x of each group of each row."""
    for i in range(len(A)):
        for k in range(len(starts) - 1):
            group = slice(starts[k], starts[k + 1])
            levels[i, k], _ = _level(A[i, group], c[group], 1.0, shift, slope)


@compiled()
def levels_at_common_value(
    A: RealArray, starts: Indices, c: RealArray, shift: float, slope: float, levels: RealArray
) -> None:
    """Write the levels of a row's groups with one value F_k(x_k) = y and Σ x_k = shift + slope·y.

    Groups with F_k(0) ≤ y have the level zero. The sum of the levels falls with y and is convex.
    """
    for i in range(len(A)):
        y = 0.0
        for _ in range(MAX_STEPS):
            excess = -shift - slope * y
            falls = slope
            for k in range(len(starts) - 1):
                group = slice(starts[k], starts[k + 1])
                levels[i, k], fall = _level(A[i, group], c[group], 1.0, y, 0.0)
                if levels[i, k] > 0.0:
                    excess += levels[i, k]
                    falls += 1.0 / fall
            if not excess > ROUNDING * y * falls:  # this way round, NaN ends the loop too
                break
            y += excess / falls


@compiled()
def levels_at_norm(
    A: RealArray, starts: Indices, c: RealArray, step: float, largest: bool, levels: RealArray
) -> None:
    """Write the levels for which a row's thresholds τ are `step` / ‖t‖ times the norms t left.

    With b = ‖t‖ / step, each group has t = bτ: F(τ) = bτ with the level τ for q = 1, and F(t) = t/b
    with the level t for q = ∞ (`largest`). What is left is ‖τ‖ = `step`, where 1/‖τ‖ rises with b
    and is concave.
    """
    for i in range(len(A)):
        b = 0.0
        for _ in range(MAX_STEPS):
            squares = 0.0
            falls = 0.0
            for k in range(len(starts) - 1):
                a = A[i, starts[k] : starts[k + 1]]
                weight = c[starts[k] : starts[k + 1]]
                if largest:
                    levels[i, k], fall = _level(a, weight, b, 0.0, 1.0)
                    # F(t) is t/b, but loses digits where a clip is small.
                    threshold = levels[i, k] / b if b > 0.0 else _value(a, weight, 0.0)[0]
                    relative = fall / (1.0 + b * fall)
                else:
                    levels[i, k], fall = _level(a, weight, 1.0, 0.0, b)
                    threshold = levels[i, k]
                    relative = 1.0 / (fall + b) if threshold > 0.0 else 0.0
                squares += threshold**2
                falls += threshold**2 * relative
            excess = (np.sqrt(squares) / step - 1.0) * squares
            if not excess > ROUNDING * max(squares, b * falls):
                break
            b += excess / falls
