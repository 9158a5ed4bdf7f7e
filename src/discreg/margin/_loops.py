"""Compiled loops of the solvers of ODM and LDM.

`loss` holds the parameters of ℓ, as `Numbers` or, with one entry per sample, as `LossArrays`.
`rows` is the result of `compiled_rows`. The loops use scalars and preallocated arrays only: array
expressions take seconds to compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.linalg.compiled import REORDER, compiled
from discreg.linalg.factorisation import EPS
from discreg.linalg.types import Array, Indices, RealArray

from ._losses import CLEARLY, PATIENCE, LossArrays, Numbers


@compiled()
def of_sample(loss: LossArrays, i: int) -> Numbers:
    """Return the parameters of ℓ of one sample."""
    return loss[0], loss[1], loss[2][i], loss[3][i], loss[4][i]


@compiled()
def times(loss: Numbers, weight: float) -> Numbers:
    """Return the parameters of ℓ times a weight."""
    low, high, ridge_low, ridge_high, upper = loss
    return low, high, ridge_low / weight, ridge_high / weight, upper * weight


@compiled()
def evaluate_margin(margin: float, loss: Numbers) -> tuple[float, float, float]:
    """Compute the value ℓ(z), multiplier −ℓ'(z) and curvature ℓ''(z) at one margin.

    At the kink of a hinge the multiplier is zero.
    """
    low, high, ridge_low, ridge_high, upper = loss
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
def gap_of_margin(multiplier: float, margin: float, loss: Numbers) -> tuple[float, float]:
    """Compute the value ℓ(z) and the duality gap ℓ(z) + ℓ*(−a) + a z of one multiplier."""
    low, high, ridge_low, ridge_high, upper = loss
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
def best_multiplier(old: float, margin: float, diagonal: float, loss: Numbers) -> float:
    """Minimise the dual over one multiplier; `margin` is the margin at the old multiplier."""
    low, high, ridge_low, ridge_high, upper = loss
    pulled = diagonal * old - margin + low
    if pulled > 0.0:
        slope = diagonal + ridge_low
        return min(pulled / slope, upper) if slope > 0.0 else upper
    pushed = diagonal * old - margin + high
    return pushed / (diagonal + ridge_high) if pushed < 0.0 else 0.0


CompiledRows = tuple[RealArray, RealArray, NDArray[np.int32], NDArray[np.int32], bool]
DualArrays = tuple[RealArray, RealArray, LossArrays]  # labels, tilts and losses
Order = tuple[Indices, RealArray, NDArray[np.uint64]]  # `active`, `gaps`, `random`


def compiled_rows(X: Any) -> CompiledRows:
    """Convert rows for the loops; a dense X is copied only if it is not contiguous."""
    if sparse.issparse(X):
        return np.empty((0, 0)), X.data, X.indices, X.indptr, True
    none = np.empty(0, dtype=np.int32)
    return np.ascontiguousarray(X), np.empty(0), none, none, False


@compiled(fastmath=REORDER)
def product(rows: CompiledRows, i: int, coef: RealArray) -> float:
    """Compute the inner product of row i with the coefficients."""
    dense, data, indices, indptr, is_sparse = rows
    total = 0.0
    if is_sparse:
        for k in range(indptr[i], indptr[i + 1]):
            total += data[k] * coef[indices[k]]
    else:
        for j in range(len(coef)):
            total += dense[i, j] * coef[j]
    return total


@compiled(fastmath=REORDER)
def add_multiple_of_row(rows: CompiledRows, i: int, factor: float, coef: RealArray) -> None:
    """Add a multiple of row i to the coefficients."""
    dense, data, indices, indptr, is_sparse = rows
    if is_sparse:
        for k in range(indptr[i], indptr[i + 1]):
            coef[indices[k]] += factor * data[k]
    else:
        for j in range(len(coef)):
            coef[j] += factor * dense[i, j]


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
def _is_settled(multiplier: float, margin: float, loss: Numbers, slack: float) -> bool:
    """Return whether a multiplier is at zero or at its limit and unlikely to change."""
    low, high, _, _, upper = loss
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
    dual: DualArrays,
    shift: float,
    pull: float,
    multipliers: RealArray,
    scores: RealArray,
    tol: float,
    max_passes: int,
    order: Order,
    work: RealArray,
) -> tuple[float, int]:
    """Run coordinate descent on a kernel matrix until the relative gap is at most `tol`.

    Samples are visited in blocks. A block is visited several times while its part of the matrix is
    in the cache. The scores of all samples are updated after each block.

    A pass is idle if the dual decreases by less than its rounding error and the gap is not clearly
    smaller than before. After `PATIENCE` idle passes the descent ends.

    With a `pull` κ > 0 the intercept is found together with the multipliers, by the method of
    multipliers for its constraint Σ y (a + t) = 0. The dual gets the term ½ κ (Σ y (a + t))², which
    adds κ to every entry of the kernel. After a pass the intercept changes by κ Σ y (a + t).

    `work` is an array of shape (BLOCK + 3, BLOCK). Returns the intercept and the number of
    passes; `multipliers` and `scores` are updated.
    """
    y, tilt, loss = dual
    active, gaps, random = order
    n = len(y)
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
        _shuffle(active, size, random)
        pulled = shift + pull * excess
        k = 0
        while k < size:
            i = active[k]
            margin = y[i] * (scores[i] + pulled)
            if _is_settled(multipliers[i], margin, of_sample(loss, i), slack):
                size -= 1
                active[k], active[size] = active[size], active[k]
            else:
                k += 1
        _gap(active, size, dual, pulled, multipliers, scores, gaps)
        count = _largest_first(active, size, gaps)
        largest = 0.0
        gained = 0.0
        for start in range(0, count, BLOCK):
            m = min(BLOCK, count - start)
            moved, gain, excess = _descend_on_block(
                active, start, m, work, gram, dual, shift, pull, excess, multipliers, scores
            )
            largest = max(largest, moved)
            gained += gain
        shift += pull * excess
        gap, unit, terms = _gap(active, n, dual, shift, multipliers, scores, gaps)
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
    return shift, passes


@compiled(fastmath=REORDER)
def _descend_on_block(
    active: Indices,
    start: int,
    m: int,
    work: RealArray,
    gram: RealArray,
    dual: DualArrays,
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
    y, _, loss = dual
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
            numbers = of_sample(loss, i)
            best = best_multiplier(old, margin, diagonal, numbers)
            step = best - old
            if step != 0.0:
                work[new, k] = best
                factor = y[i] * step
                for other in range(m):
                    work[local, other] += factor * work[k, other]
                slope = diagonal + max(numbers[2], numbers[3])
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
    """Add multiples of the rows active[start : start + count] of a kernel matrix to the scores."""
    for k in range(count):
        i, step = active[start + k], steps[k]
        for j in range(len(scores)):
            scores[j] += step * gram[i, j]


@compiled()
def _gap(
    active: Indices,
    size: int,
    dual: DualArrays,
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
    y, tilt, loss = dual
    gap = 0.0
    unit = 1e-300
    terms = 0.0
    for k in range(size):
        i = active[k]
        margin = y[i] * (scores[i] + shift)
        value, gaps[i] = gap_of_margin(multipliers[i], margin, of_sample(loss, i))
        gap += gaps[i]
        part = 0.5 * (multipliers[i] + tilt[i]) * y[i] * scores[i]
        unit += value + part
        terms += abs(part) + abs(multipliers[i]) * loss[0]
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
    dual: DualArrays,
    shift: float,
    pull: float,
    multipliers: RealArray,
    coef: RealArray,
    scores: RealArray,
    tol: float,
    max_passes: int,
    order: Order,
) -> tuple[float, int]:
    """Run coordinate descent on rows of features, with the coefficients Xᵀ y(a + t).

    A `pull` finds the intercept as in `gram_descent`. Returns the intercept and the number of
    passes; `multipliers`, `coef` and `scores` are updated.

    Every tenth round visits all samples. The other rounds visit the samples with a large part of
    the gap. n visits count as a pass. The scores and the gap of all samples are computed when the
    gap of the visited samples is small enough, and at the end.
    """
    y, tilt, loss = dual
    active, gaps, random = order
    n = len(y)
    excess = 0.0
    if pull > 0.0:
        for i in range(n):
            excess += y[i] * (multipliers[i] + tilt[i])
    size = n
    slack = np.inf
    gap = np.inf
    smallest = np.inf
    gained = 0.0
    idle = 0
    rounds = 0
    visits = 0
    while visits < max_passes * n:
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
            margin = y[i] * (product(rows, i, coef) + shift + pull * excess)
            old, numbers = multipliers[i], of_sample(loss, i)
            if whole and _is_settled(old, margin, numbers, slack):
                size -= 1
                count -= 1
                active[k], active[size] = active[size], active[k]
                continue
            k += 1
            value, gaps[i] = gap_of_margin(old, margin, numbers)
            lost += value
            seen += gaps[i]
            new = best_multiplier(old, margin, norms[i] + pull, numbers)
            if new != old:
                multipliers[i] = new
                factor = y[i] * (new - old)
                excess += factor
                add_multiple_of_row(rows, i, factor, coef)
                moved = abs(new - old) * (norms[i] + pull + max(numbers[2], numbers[3]))
                largest = max(largest, moved)
                gained += 0.5 * abs(new - old) * moved
        visits += max(count, 1)
        shift += pull * excess
        last = visits >= max_passes * n
        if not (whole or last):
            continue
        slack = largest
        size_of_coef = 0.0
        for j in range(len(coef)):
            size_of_coef += coef[j] * coef[j]
        terms = 0.5 * size_of_coef
        for i in range(n):
            terms += abs(multipliers[i]) * loss[0]
        idle = 0 if gained > EPS * terms or seen < CLEARLY * smallest else idle + 1
        smallest = min(smallest, seen)
        gained = 0.0
        stuck = largest == 0.0 or idle >= PATIENCE
        if last or stuck or seen <= tol * (lost + 0.5 * size_of_coef):
            for i in range(n):
                scores[i] = product(rows, i, coef)
            gap, unit, _ = _gap(active, n, dual, shift, multipliers, scores, gaps)
            gap /= unit
            if gap <= tol or (stuck and size == n):
                break
            size = n
            slack = np.inf
    return shift, (visits + n - 1) // n


@compiled()
def _best_pair(
    rest: float, diagonal: float, ridge: float, mean: float, tilt: float, upper: float
) -> tuple[float, float]:
    """Minimise the dual over the multipliers h and r of one sample.

    `rest` is the margin without the sample's own part k(x, x) a. The margin is 1 if 0 < h < upper.
    """
    slope = diagonal + ridge
    r = (rest + diagonal * tilt - mean) / slope
    if rest + diagonal * (tilt - r) >= 1.0:
        return 0.0, r
    r = (rest + diagonal * (tilt + upper) - mean) / slope
    if rest + diagonal * (tilt + upper - r) <= 1.0:
        return upper, r
    r = (1.0 - mean) / ridge
    h = (1.0 - rest) / diagonal + r - tilt
    return min(max(h, 0.0), upper), r


@compiled(fastmath=REORDER)
def pair_pass(
    gram: RealArray,
    y: RealArray,
    ridge: RealArray,
    tilt: RealArray,
    upper: RealArray,
    shift: float,
    mean: float,
    pull: float,
    mean_pull: float,
    excess: float,
    total: float,
    h: RealArray,
    r: RealArray,
    scores: RealArray,
    order: Indices,
    work: RealArray,
) -> None:
    """Visit all samples once, in blocks; `h`, `r` and `scores` are updated.

    `excess` is Σ y a and `total` is Σ r before the pass. The method of multipliers adds to the dual
    the terms ½ κ (Σ y a)² with κ = `pull` and ½ κ (Σ r)² with κ = `mean_pull`. `work` is an array
    of shape (BLOCK + 2, BLOCK).
    """
    new, local = BLOCK, BLOCK + 1  # rows of `work` below the matrix of the block
    for start in range(0, len(order), BLOCK):
        m = min(BLOCK, len(order) - start)
        for k in range(m):
            i = order[start + k]
            for other in range(m):
                work[k, other] = gram[i, order[start + other]] + pull
            work[new, k] = 0.0
            work[local, k] = scores[i] + shift + pull * excess
        first = 0.0
        for _ in range(BLOCK_PASSES):
            largest = 0.0
            for k in range(m):
                i = order[start + k]
                diagonal = work[k, k]
                old = h[i] - r[i] + tilt[i]
                best, variance = _best_pair(
                    y[i] * work[local, k] - diagonal * old,
                    diagonal,
                    ridge[i] + mean_pull,
                    mean + mean_pull * (total - r[i]),
                    tilt[i],
                    upper[i],
                )
                step = y[i] * (best - variance + tilt[i] - old)
                total += variance - r[i]
                h[i], r[i] = best, variance
                work[new, k] += step
                for other in range(m):
                    work[local, other] += step * work[k, other]
                largest = max(largest, abs(step) * (diagonal + ridge[i]))
            first = max(first, largest)
            if largest <= BLOCK_ACCURACY * first:
                break
        for k in range(m):
            excess += work[new, k]
        add_rows(gram, order, start, m, work[new], scores)


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
    updates Σ s, Σ s (z − 1), Σ s (z − 1)² and the smallest margin in `spread`.
    """
    for i in range(len(scores)):
        signed[0, i] = signed[1, i] = signed[2, i] = 0.0
        weight = weights[i]
        if weight == 0.0:
            continue
        sign = 1.0 if y[i] == positive else -1.0
        margin = sign * scores[i]
        apart = margin - 1.0
        spread[0] += weight
        spread[1] += weight * apart
        spread[2] += weight * apart * apart
        spread[3] = min(spread[3], margin)
        value, multiplier, curvature = evaluate_margin(margin, times(loss, weight))
        side = 0 if sign * multiplier >= 0.0 else 1
        signed[side, i] = sign * multiplier
        signed[2, i] = curvature
        sizes[side] += abs(multiplier)
        values[side] += value


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


State = tuple[float, float, float, float, float, float, float]

SMALLEST_SHRINK = 1e-100  # below it v, which grows as 1 / shrink, is rescaled


@compiled()
def _start(mean: RealArray, gradient: RealArray) -> State:
    """Create the state of an epoch: shrink, pull, drift, x̄·v, x̄·μ, x̄·x̄ and the change of b'."""
    return 1.0, 0.0, 0.0, 0.0, np.dot(mean, gradient), np.dot(mean, mean), 0.0


@compiled()
def _score_change(
    rows: CompiledRows, i: int, offset: float, v: RealArray, gradient: RealArray, state: State
) -> float:
    """Compute the change of the score of row i since the snapshot."""
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
    """Take a step for a sample with slope y_i δ; update v and return the new state."""
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
    """Take steps with the gradients of samples (24) or of pairs of samples (23).

    A step from the snapshot w̄ with the full gradient μ changes w by

        w ← w − η (w − w̄ + μ + δ y_i (x_i − x̄)),

    where δ is the change of the sample's slope since the snapshot, and x̄ is the mean of the rows.
    Steps are taken in (w, b') with b = b' − w·x̄, because a mean far from zero would couple w to b.
    The only term that depends on the sample is a multiple of x_i, which may be sparse. So w is
    stored as

        w = w̄ + shrink (v − drift x̄) − pull μ.

    A step multiplies `shrink` by 1 − η, moves `pull` towards 1 by the fraction η, adds a multiple
    of x_i to v and adds the factor to `drift`. These are the iterates of the paper at the cost of
    one row per step. `offsets` are x̄·(x_i − x̄). The intercept of the snapshot is optimal, so that
    the derivative by b' is zero there. v starts at zero.

    v is updated. Returns `shrink`, `pull`, `drift` and the change of b'. `multipliers` are −ℓ' at
    the snapshot. λ2 has no effect on a step, because the slope of the mean margin is constant.
    """
    state = _start(mean, gradient)
    for k in range(len(samples)):
        i, j = samples[k], partners[k]
        change = y[i] * _score_change(rows, i, offsets[i], v, gradient, state)
        _, multiplier, _ = evaluate_margin(margins[i] + change, loss)
        slope = multipliers[i] - multiplier
        if lambda1 > 0.0:
            other = y[j] * _score_change(rows, j, offsets[j], v, gradient, state)
            slope += 2.0 * lambda1 * (change - other)
        state = _step(rows, i, offsets[i], y[i] * slope, step, intercept_step, v, state)
    return state[0], state[1], state[2], state[6]
