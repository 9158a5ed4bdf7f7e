"""Compiled loops of dual coordinate descent, on a kernel matrix and on rows of features.

The dual of both models is, for multipliers a and fixed tilts t,

    min over a of ½ (a + t)ᵀ Q (a + t) − Σ gain_i(a_i),        Q = Y K Y,

with gain_i(a) = −ℓ_i*(−a). The minimum over one coordinate has a closed form. `scores` holds
K y(a + t), and `shift` is the intercept. `loss` is the result of `SampleLosses.arrays`. `active`,
`gaps` and `random` come from `descent_arrays`.

A pass is idle if the dual decreases by less than its rounding error and the gap is not clearly
smaller than before. After `PATIENCE` idle passes the descent ends, because rounding prevents
progress.

The loops use scalars and preallocated arrays only: array expressions take seconds to compile.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.compiled import REORDER, compiled
from discreg.linalg.factorisation import EPS
from discreg.linalg.types import Array, Indices, RealArray

from ._dual import CLEARLY, PATIENCE
from ._loss_loops import best_multiplier, gap_of_margin
from ._losses import LossArrays
from ._row_loops import CompiledRows, add_multiple_of_row, product

__all__ = [
    "BLOCK",
    "BLOCK_ACCURACY",
    "BLOCK_PASSES",
    "add_rows",
    "descent_arrays",
    "gram_descent",
    "row_descent",
]

BLOCK = 64  # number of samples whose part of a kernel matrix stays in the L1 cache
BLOCK_PASSES = 10
BLOCK_ACCURACY = 0.1
WORTH_A_VISIT = 0.1  # smallest gap of a visited sample, relative to the mean gap
ROUNDS = 10  # one in this number of rounds visits all samples, the others those with large gaps


def descent_arrays(n_samples: int, seed: int) -> tuple[Indices, Array, NDArray[np.uint64]]:
    """Create the arrays `active`, `gaps` and `random` of the loops."""
    random = np.array([seed * 2654435769 + 88172645463325252], dtype=np.uint64)
    return np.arange(n_samples), np.empty(n_samples), random


@compiled()
def _is_settled(
    multiplier: float, margin: float, low: float, high: float, upper: float, slack: float
) -> bool:
    """Return whether a multiplier is at zero or at its limit and unlikely to change."""
    if multiplier == 0.0:
        return margin - low > slack and high - margin > slack
    return multiplier == upper and low - margin > slack


@compiled()
def _shuffle(active: Indices, size: int, random: NDArray[np.uint64]) -> None:
    """Put the samples in a random order, by Marsaglia's xorshift generator."""
    x = random[0]
    for k in range(size - 1, 0, -1):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        other = np.int64((x >> np.uint64(11)) % np.uint64(k + 1))
        active[k], active[other] = active[other], active[k]
    random[0] = x


@compiled()
def gram_descent(
    gram: RealArray,
    y: RealArray,
    tilt: RealArray,
    loss: LossArrays,
    shift: float,
    pull: float,
    multipliers: RealArray,
    scores: RealArray,
    tol: float,
    max_passes: int,
    shuffled: bool,
    shrinking: bool,
    active: Indices,
    gaps: RealArray,
    random: NDArray[np.uint64],
    work: RealArray,
) -> tuple[int, float, float]:
    """Run coordinate descent on a kernel matrix until the relative gap is at most `tol`.

    Samples are visited in blocks. A block is visited several times while its part of the matrix is
    in the cache. The scores of all samples are updated after each block.

    With a `pull` κ > 0 the intercept is found together with the multipliers, by the method of
    multipliers for its constraint Σ y (a + t) = 0. The dual gets the term ½ κ (Σ y (a + t))², which
    adds κ to every entry of the kernel. After a pass the intercept changes by κ Σ y (a + t).

    `work` is an array of shape (BLOCK + 3, BLOCK). Returns the number of passes, the relative gap
    for the last intercept, and that intercept; `multipliers` and `scores` are updated.
    """
    n = len(y)
    low, high, _, _, upper = loss
    excess = 0.0
    if pull > 0.0:
        for i in range(n):
            excess += y[i] * (multipliers[i] + tilt[i])
    size = n
    slack = np.inf
    gap = np.inf
    smallest = np.inf
    idle = 0
    passes = 0
    while passes < max_passes:
        passes += 1
        if shuffled:
            _shuffle(active, size, random)
        pulled = shift + pull * excess
        k = 0
        while shrinking and k < size:
            i = active[k]
            if _is_settled(multipliers[i], y[i] * (scores[i] + pulled), low, high, upper[i], slack):
                size -= 1
                active[k], active[size] = active[size], active[k]
            else:
                k += 1
        _gap(active, size, y, tilt, loss, pulled, multipliers, scores, gaps)
        count = _largest_first(active, size, gaps)
        largest = 0.0
        gained = 0.0
        for start in range(0, count, BLOCK):
            m = min(BLOCK, count - start)
            moved, gain, excess = _descend_on_block(
                active, start, m, work, gram, y, loss, shift, pull, excess, multipliers, scores
            )
            largest = max(largest, moved)
            gained += gain
        shift += pull * excess
        gap, unit, terms = _gap(active, n, y, tilt, loss, shift, multipliers, scores, gaps)
        kept = 0.0
        for k in range(size):
            kept += gaps[active[k]]
        left_out_dominate = largest == 0.0 or kept <= 0.5 * gap
        gap /= unit
        idle = 0 if gained > EPS * terms or gap < CLEARLY * smallest else idle + 1
        smallest = min(smallest, gap)
        if gap <= tol or (size == n and (largest == 0.0 or idle >= PATIENCE)):
            break
        slack = largest
        if size < n and (left_out_dominate or idle >= PATIENCE):
            size = n
            slack = np.inf
    return passes, gap, shift


@compiled(fastmath=REORDER)
def _descend_on_block(
    active: Indices,
    start: int,
    m: int,
    work: RealArray,
    gram: RealArray,
    y: RealArray,
    loss: LossArrays,
    shift: float,
    pull: float,
    excess: float,
    multipliers: RealArray,
    scores: RealArray,
) -> tuple[float, float, float]:
    """Make a few passes over the multipliers of the samples active[start : start + m].

    Returns the largest step of the first pass, the decrease of the dual, and the excess Σ y (a + t)
    after the last pass.
    """
    low, high, ridge_low, ridge_high, upper = loss
    new, local, steps = BLOCK, BLOCK + 1, BLOCK + 2  # rows of `work` below the block's matrix
    for k in range(m):
        i = active[start + k]
        for other in range(m):
            work[k, other] = gram[i, active[start + other]] + pull
        work[new, k] = multipliers[i]
        work[local, k] = scores[i] + pull * excess
    first = 0.0
    gain = 0.0
    for _ in range(BLOCK_PASSES):
        largest = 0.0
        for k in range(m):
            i = active[start + k]
            old = work[new, k]
            diagonal = work[k, k]
            margin = y[i] * (work[local, k] + shift)
            best = best_multiplier(
                old, margin, diagonal, low, high, ridge_low[i], ridge_high[i], upper[i]
            )
            step = best - old
            if step != 0.0:
                work[new, k] = best
                factor = y[i] * step
                for other in range(m):
                    work[local, other] += factor * work[k, other]
                slope = diagonal + max(ridge_low[i], ridge_high[i])
                largest = max(largest, abs(step) * slope)
                gain += 0.5 * step * step * slope
        first = max(first, largest)
        if largest <= BLOCK_ACCURACY * first:
            break
    moved = 0
    for k in range(m):  # moves the changed samples to the front of the block
        i = active[start + k]
        step = y[i] * (work[new, k] - multipliers[i])
        if step != 0.0:
            multipliers[i] = work[new, k]
            excess += step
            work[steps, moved] = step
            active[start + k], active[start + moved] = active[start + moved], i
            moved += 1
    add_rows(gram, active, start, moved, work[steps], scores)
    return first, gain, excess


@compiled(fastmath=REORDER)
def add_rows(
    gram: RealArray, active: Indices, start: int, count: int, steps: RealArray, scores: RealArray
) -> None:
    """Add multiples of the rows active[start : start + count] of a kernel matrix to the scores.

    Four rows at a time, to read the scores less often. `steps` has room for a multiple of four.
    """
    for k in range(count, (count + 3) // 4 * 4):
        steps[k] = 0.0
    end = start + count - 1
    for k in range(0, count, 4):
        f0, f1, f2, f3 = steps[k], steps[k + 1], steps[k + 2], steps[k + 3]
        i0, i1 = active[start + k], active[min(start + k + 1, end)]
        i2, i3 = active[min(start + k + 2, end)], active[min(start + k + 3, end)]
        for j in range(len(scores)):
            scores[j] += f0 * gram[i0, j] + f1 * gram[i1, j] + f2 * gram[i2, j] + f3 * gram[i3, j]


@compiled()
def _gap(
    active: Indices,
    size: int,
    y: RealArray,
    tilt: RealArray,
    loss: LossArrays,
    shift: float,
    multipliers: RealArray,
    scores: RealArray,
    gaps: RealArray,
) -> tuple[float, float, float]:
    """Compute the duality gap of some samples for a fixed shift, and their part of the objective.

    The term of the tilts is not part of this objective. The gap of each sample is written to
    `gaps`. The last value returned is the size of the terms of the dual, which bounds its rounding
    error.
    """
    low, high, ridge_low, ridge_high, upper = loss
    gap = 0.0
    unit = 1e-300
    terms = 0.0
    for k in range(size):
        i = active[k]
        margin = y[i] * (scores[i] + shift)
        value, gaps[i] = gap_of_margin(
            multipliers[i], margin, low, high, ridge_low[i], ridge_high[i], upper[i]
        )
        gap += gaps[i]
        part = 0.5 * (multipliers[i] + tilt[i]) * y[i] * scores[i]
        unit += value + part
        terms += abs(part) + abs(multipliers[i]) * low
    return max(gap, 0.0), unit, terms


@compiled()
def _largest_first(active: Indices, size: int, gaps: RealArray) -> int:
    """Move the samples with a large part of the gap to the front and return their number."""
    total = 0.0
    for k in range(size):
        total += gaps[active[k]]
    least = WORTH_A_VISIT * total
    count = 0
    for k in range(size):
        if gaps[active[k]] * size > least:
            active[k], active[count] = active[count], active[k]
            count += 1
    return count


@compiled()
def row_descent(
    rows: CompiledRows,
    norms: RealArray,
    offsets: RealArray,
    square: float,
    level: float,
    y: RealArray,
    tilt: RealArray,
    loss: LossArrays,
    shift: float,
    multipliers: RealArray,
    coef: RealArray,
    scores: RealArray,
    tol: float,
    max_passes: int,
    shuffled: bool,
    shrinking: bool,
    active: Indices,
    gaps: RealArray,
    random: NDArray[np.uint64],
) -> tuple[float, int, float]:
    """Run coordinate descent on rows of features, with the coefficients Xᵀ y(a + t).

    The rows are centred implicitly at a mean µ: `offsets` are Xµ, `square` is µᵀµ and `level` is
    µᵀ coef. The coefficients are then coef − drift · µ; the drift is the first value returned.

    Every tenth round visits all samples. The other rounds visit the samples with a large part of
    the gap. n visits count as a pass. The scores and the gap of all samples are computed when the
    gap of the visited samples is small enough, and at the end.
    """
    n = len(y)
    low, high, ridge_low, ridge_high, upper = loss
    size = n
    slack = np.inf
    gap = np.inf
    drift = 0.0
    smallest = np.inf
    gained = 0.0
    idle = 0
    rounds = 0
    visits = 0
    while visits < max_passes * n:
        if shuffled:
            _shuffle(active, size, random)
        whole = rounds % ROUNDS == 0
        rounds += 1
        count = size if whole else _largest_first(active, size, gaps)
        largest = 0.0
        seen = 0.0
        lost = 0.0
        k = 0
        while k < count:
            i = active[k]
            score = product(rows, i, coef) - level - drift * (offsets[i] - square)
            margin = y[i] * (score + shift)
            old = multipliers[i]
            if whole and shrinking and _is_settled(old, margin, low, high, upper[i], slack):
                size -= 1
                count -= 1
                active[k], active[size] = active[size], active[k]
                continue
            k += 1
            value, gaps[i] = gap_of_margin(
                old, margin, low, high, ridge_low[i], ridge_high[i], upper[i]
            )
            lost += value
            seen += gaps[i]
            new = best_multiplier(
                old, margin, norms[i], low, high, ridge_low[i], ridge_high[i], upper[i]
            )
            if new != old:
                multipliers[i] = new
                factor = y[i] * (new - old)
                add_multiple_of_row(rows, i, factor, coef)
                if square > 0.0:
                    level += factor * offsets[i]
                    drift += factor
                moved = abs(new - old) * (norms[i] + max(ridge_low[i], ridge_high[i]))
                largest = max(largest, moved)
                gained += 0.5 * abs(new - old) * moved
        visits += max(count, 1)
        last = visits >= max_passes * n
        if not (whole or last):
            continue
        slack = largest
        size_of_coef = -drift * (2.0 * level - drift * square)
        for j in range(len(coef)):
            size_of_coef += coef[j] * coef[j]
        terms = 0.5 * size_of_coef
        for i in range(n):
            terms += abs(multipliers[i]) * low
        idle = 0 if gained > EPS * terms or seen < CLEARLY * smallest else idle + 1
        smallest = min(smallest, seen)
        gained = 0.0
        stuck = largest == 0.0 or idle >= PATIENCE
        if last or stuck or seen <= tol * (lost + 0.5 * size_of_coef):
            for i in range(n):
                score = product(rows, i, coef) - level
                scores[i] = score - drift * (offsets[i] - square)
            gap, unit, _ = _gap(active, n, y, tilt, loss, shift, multipliers, scores, gaps)
            gap /= unit
            if gap <= tol or (stuck and size == n):
                break
            size = n
            slack = np.inf
    return drift, (visits + n - 1) // n, gap
