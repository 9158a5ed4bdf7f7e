"""Compiled loops of dual coordinate descent, on a kernel matrix and on rows of features.

The dual of both models is, for multipliers a and tilts t that are fixed,

    min over a of ½ (a + t)ᵀ Q (a + t) − Σ gain_i(a_i),        Q = Y K Y,

with gain_i(a) = −ℓ_i*(−a). One coordinate is minimised in closed form. `scores` holds K y(a + t),
and `shift` is the intercept, which is fixed unless it is pulled along. `loss` is
`SampleLosses.arrays`.
"""

from __future__ import annotations

import numpy as np

from discreg.linalg.compiled import REORDER, compiled

from ._loss_loops import best_multiplier, gap_of_margin
from ._row_loops import add_multiple_of_row, add_row, dense_product, product

__all__ = ["add_rows", "gram_descent", "gram_scores", "row_descent"]

BLOCK = 64  # samples whose part of a kernel matrix stays in the first cache
BLOCK_PASSES = 10
BLOCK_ACCURACY = 0.1
WORTH_A_VISIT = 0.1  # share of the gap, relative to the mean one
ROUNDS = 10  # over samples of large gaps, of which one visits all samples


@compiled()
def _is_settled(multiplier, margin, low, high, upper, slack):
    """Whether a multiplier at zero or at its limit is far from leaving it."""
    if multiplier == 0.0:
        return margin - low > slack and high - margin > slack
    return multiplier == upper and low - margin > slack


@compiled(fastmath=REORDER)
def add_rows(total, factors, rows, samples):
    """Add multiples of some rows of a matrix, four at a time: the total is read once for them."""
    whole = len(samples) - len(samples) % 4
    for k in range(0, whole, 4):
        f0, f1, f2, f3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        r0, r1 = rows[samples[k]], rows[samples[k + 1]]
        r2, r3 = rows[samples[k + 2]], rows[samples[k + 3]]
        for j in range(len(total)):
            total[j] += f0 * r0[j] + f1 * r1[j] + f2 * r2[j] + f3 * r3[j]
    for k in range(whole, len(samples)):
        add_row(total, factors[k], rows[samples[k]])


@compiled()
def _seeded(seed):
    """State of a generator of random numbers, one for each call and so for each thread."""
    return np.array([np.uint64(seed) * np.uint64(2654435769) + np.uint64(88172645463325252)])


@compiled()
def _shuffle(active, size, random):
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
def gram_scores(gram, signed):
    """K times coefficients of which many are zero, summed in double precision."""
    scores = np.zeros(len(signed))
    used = np.flatnonzero(signed)
    add_rows(scores, signed[used], gram, used)
    return scores


@compiled()
def gram_descent(
    gram, y, tilt, loss, shift, pull, multipliers, scores,
    tol, max_passes, shuffled, shrinking, seed,
):  # fmt: skip
    """Passes over the multipliers of a kernel matrix until the gap is `tol` of the objective.

    Samples are taken in blocks, which are passed over several times while their part of the matrix
    is in the cache; the scores of all samples follow after each block.

    With a `pull` κ > 0 the intercept is found along with the multipliers, by the method of
    multipliers for its constraint Σ y (a + t) = 0: the dual gains ½ κ (Σ y (a + t))², which is κ
    added to every entry of the kernel, and after a pass the intercept moves by κ Σ y (a + t).

    Returns the number of passes, the relative gap for the last intercept, and that intercept;
    `multipliers` and `scores` are updated.
    """
    n = len(y)
    excess = 0.0
    if pull > 0.0:
        for i in range(n):
            excess += y[i] * (multipliers[i] + tilt[i])
    random = _seeded(seed)
    active = np.arange(n)
    size = n
    slack = np.inf
    gap = np.inf
    gaps = np.empty(n)
    passes = 0
    block_gram = np.empty((min(n, BLOCK), min(n, BLOCK)))
    while passes < max_passes:
        passes += 1
        if shuffled:
            _shuffle(active, size, random)
        pulled = shift + pull * excess
        if shrinking:
            size = _leave_out_settled(active, size, y, loss, pulled, multipliers, scores, slack)
        _gaps_of(active, size, y, loss, pulled, multipliers, scores, gaps)
        count = _largest_first(active, size, gaps)
        largest = 0.0
        for start in range(0, count, BLOCK):
            block = active[start : min(start + BLOCK, count)]
            moved, excess = _descend_on_block(
                block, block_gram, gram, y, loss, shift, pull, excess, multipliers, scores
            )
            largest = max(largest, moved)
        shift += pull * excess
        gap, unit = _gap(y, tilt, loss, shift, multipliers, scores)
        gap /= unit
        if gap <= tol or (largest == 0.0 and size == n):
            break
        slack = largest
        if size < n:
            kept = _gaps_of(active, size, y, loss, shift, multipliers, scores, gaps)
            if largest == 0.0 or kept <= 0.5 * gap * unit:  # the gap is with those left out
                size = n
                slack = np.inf
    return passes, gap, shift


@compiled()
def _leave_out_settled(active, size, y, loss, shift, multipliers, scores, slack):
    """Move the samples whose multiplier is settled behind the others; returns how many are left."""
    low, high, _, _, upper = loss
    k = 0
    while k < size:
        i = active[k]
        if _is_settled(multipliers[i], y[i] * (scores[i] + shift), low, high, upper[i], slack):
            size -= 1
            active[k], active[size] = active[size], active[k]
        else:
            k += 1
    return size


@compiled()
def _gaps_of(active, size, y, loss, shift, multipliers, scores, gaps):
    """Write what each of some samples has of the duality gap; returns their sum."""
    low, high, ridge_low, ridge_high, upper = loss
    total = 0.0
    for k in range(size):
        i = active[k]
        _, gaps[i] = gap_of_margin(
            multipliers[i],
            y[i] * (scores[i] + shift),
            low,
            high,
            ridge_low[i],
            ridge_high[i],
            upper[i],
        )
        total += gaps[i]
    return total


@compiled()
def _descend_on_block(
    block, block_gram, gram, y, loss, shift, pull, excess, multipliers, scores
):  # fmt: skip
    """A few passes over the multipliers of a block.

    Returns the largest step of the first pass, and the excess Σ y (a + t) after the last.
    """
    low, high, ridge_low, ridge_high, upper = loss
    m = len(block)
    for k in range(m):
        row = gram[block[k]]
        for other in range(m):
            block_gram[k, other] = row[block[other]] + pull
    old, new, local = multipliers[block], multipliers[block], scores[block] + pull * excess
    first = 0.0
    for _ in range(BLOCK_PASSES):
        largest = 0.0
        for k in range(m):
            i = block[k]
            margin = y[i] * (local[k] + shift)
            diagonal = block_gram[k, k]
            best = best_multiplier(
                new[k], margin, diagonal, low, high, ridge_low[i], ridge_high[i], upper[i]
            )
            step = best - new[k]
            if step != 0.0:
                new[k] = best
                add_row(local, y[i] * step, block_gram[k, :m])
                slope = diagonal + max(ridge_low[i], ridge_high[i])
                largest = max(largest, abs(step) * slope)
        first = max(first, largest)
        if largest <= BLOCK_ACCURACY * first:
            break
    moved = np.flatnonzero(new != old)
    samples = block[moved]
    steps = y[samples] * (new[moved] - old[moved])
    multipliers[samples] = new[moved]
    add_rows(scores, steps, gram, samples)
    return first, excess + steps.sum()


@compiled()
def _gap(y, tilt, loss, shift, multipliers, scores):
    """Duality gap for a fixed shift, and the objective without what the tilts earn."""
    low, high, ridge_low, ridge_high, upper = loss
    gap = 0.0
    unit = 1e-300
    for i in range(len(y)):
        margin = y[i] * (scores[i] + shift)
        value, part = gap_of_margin(
            multipliers[i], margin, low, high, ridge_low[i], ridge_high[i], upper[i]
        )
        gap += part
        unit += value + 0.5 * (multipliers[i] + tilt[i]) * y[i] * scores[i]
    return max(gap, 0.0), unit


@compiled()
def _largest_first(active, size, gaps):
    """Move the samples that have a good part of the gap to the front; returns their number."""
    total = 0.0
    for k in range(size):
        total += gaps[active[k]]
    least = WORTH_A_VISIT * total / max(size, 1)
    count = 0
    for k in range(size):
        if gaps[active[k]] > least:
            active[k], active[count] = active[count], active[k]
            count += 1
    return count


@compiled()
def row_descent(
    rows, norms, offsets, square, level, y, tilt, loss, shift, multipliers, coef, scores,
    tol, max_passes, shuffled, shrinking, seed,
):  # fmt: skip
    """The same on rows of features, with the coefficients Xᵀ y(a + t) in the place of the scores.

    Rows are meant minus a mean µ, if there is one: `offsets` are Xµ, `square` is µᵀµ and `level` is
    µᵀ coef. The coefficients are then coef − drift · µ, with the drift that is returned first.

    Only every tenth round visits all samples, the others those that have had most of the gap; n
    visits count as a pass. The scores of all samples, and with them the gap, are computed when what
    the samples of a round had of it is small enough; they are right when this returns.
    """
    n = len(y)
    low, high, ridge_low, ridge_high, upper = loss
    random = _seeded(seed)
    active = np.arange(n)
    size = n
    slack = np.inf
    gap = np.inf
    gaps = np.empty(n)  # at the last visit of each sample
    drift = 0.0
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
        visits += max(count, 1)
        last = visits >= max_passes * n
        if not (whole or last):
            continue
        slack = largest
        size_of_coef = dense_product(coef, coef) - drift * (2.0 * level - drift * square)
        if last or largest == 0.0 or seen <= tol * (lost + 0.5 * size_of_coef):
            for i in range(n):
                score = product(rows, i, coef) - level
                scores[i] = score - drift * (offsets[i] - square)
            gap, unit = _gap(y, tilt, loss, shift, multipliers, scores)
            gap /= unit
            if gap <= tol or (largest == 0.0 and size == n):
                break
            size = n
            slack = np.inf
    return drift, (visits + n - 1) // n, gap
