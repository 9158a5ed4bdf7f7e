"""Compiled loops of dual coordinate descent, on a kernel matrix and on rows of features.

The dual of both models is, for multipliers a and tilts t that are fixed,

    min over a of ½ (a + t)ᵀ Q (a + t) − Σ gain_i(a_i),        Q = Y K Y,

with the gains of `_terms`. One coordinate is minimised in closed form. `scores` holds K y(a + t),
and `shift` is the intercept, which is fixed unless it is pulled along. `terms` are the fields of
`_terms.Terms`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["add_rows", "gram_descent", "gram_scores", "row_descent"]

REORDER = {"reassoc", "contract", "nsz"}  # sums in any order, so that they use vector registers
BLOCK = 64  # samples whose part of a kernel matrix stays in the first cache
BLOCK_PASSES = 10
BLOCK_ACCURACY = 0.1
WORTH_A_VISIT = 0.1  # share of the gap, relative to the mean one
ROUNDS = 10  # over samples of large parts, of which one visits all samples


@njit(cache=True, nogil=True)
def _best_multiplier(old, margin, diagonal, low, high, ridge_low, ridge_high, upper):
    """Minimiser of the dual over one multiplier, for the margin that the old one brings."""
    pulled = diagonal * old - margin + low
    if pulled > 0.0:
        slope = diagonal + ridge_low
        return min(pulled / slope, upper) if slope > 0.0 else upper
    pushed = diagonal * old - margin + high
    return pushed / (diagonal + ridge_high) if pushed < 0.0 else 0.0


@njit(cache=True, nogil=True)
def _loss(margin, low, high, ridge_low, ridge_high, upper):
    """Loss of one margin."""
    if margin < low:
        short = low - margin
        if short <= ridge_low * upper:
            return 0.5 * short * short / ridge_low
        return upper * (short - 0.5 * ridge_low * upper)
    if margin > high:
        return 0.5 * (margin - high) ** 2 / ridge_high
    return 0.0


@njit(cache=True, nogil=True)
def _gain(multiplier, low, high, ridge_low, ridge_high):
    """What one multiplier earns in the dual."""
    if multiplier > 0.0:
        return multiplier * (low - 0.5 * ridge_low * multiplier)
    if multiplier < 0.0:
        return multiplier * (high - 0.5 * ridge_high * multiplier)
    return 0.0


@njit(cache=True, nogil=True)
def _is_settled(multiplier, margin, low, high, upper, slack):
    """Whether a multiplier at zero or at its limit is far from leaving it."""
    if multiplier == 0.0:
        return margin - low > slack and high - margin > slack
    return multiplier == upper and low - margin > slack


@njit(cache=True, nogil=True, fastmath=REORDER)
def _add_row(total, factor, row):
    for j in range(len(total)):
        total[j] += factor * row[j]


@njit(cache=True, nogil=True, fastmath=REORDER)
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
        _add_row(total, factors[k], rows[samples[k]])


@njit(cache=True, nogil=True)
def _seeded(seed):
    """State of a generator of random numbers, one for each call and so for each thread."""
    return np.array([np.uint64(seed) * np.uint64(2654435769) + np.uint64(88172645463325252)])


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def gram_scores(gram, signed):
    """K times coefficients of which many are zero, summed in double precision."""
    scores = np.zeros(len(signed))
    used = np.flatnonzero(signed)
    add_rows(scores, signed[used], gram, used)
    return scores


@njit(cache=True, nogil=True)
def gram_descent(
    gram, y, tilt, terms, shift, pull, multipliers, scores,
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
    passes = 0
    block_gram = np.empty((min(n, BLOCK), min(n, BLOCK)))
    while passes < max_passes:
        passes += 1
        if shuffled:
            _shuffle(active, size, random)
        pulled = shift + pull * excess
        if shrinking:
            size = _leave_out_settled(active, size, y, terms, pulled, multipliers, scores, slack)
        count = _worth_a_visit_first(active, size, y, terms, pulled, multipliers, scores)
        largest = 0.0
        for start in range(0, count, BLOCK):
            block = active[start : min(start + BLOCK, count)]
            moved, excess = _descend_on_block(
                block, block_gram, gram, y, terms, shift, pull, excess, multipliers, scores
            )
            largest = max(largest, moved)
        shift += pull * excess
        gap, unit = _gap(y, tilt, terms, shift, multipliers, scores)
        gap /= unit
        if gap <= tol or (largest == 0.0 and size == n):
            break
        slack = largest
        if largest == 0.0 or _gap_is_elsewhere(
            active, size, y, terms, shift, multipliers, scores, 0.5 * gap * unit
        ):
            size = n
            slack = np.inf
    return passes, gap, shift


@njit(cache=True, nogil=True)
def _leave_out_settled(active, size, y, terms, shift, multipliers, scores, slack):
    """Move the samples whose multiplier is settled behind the others; returns how many are left."""
    low, high, _, _, upper = terms
    k = 0
    while k < size:
        i = active[k]
        if _is_settled(multipliers[i], y[i] * (scores[i] + shift), low, high, upper[i], slack):
            size -= 1
            active[k], active[size] = active[size], active[k]
        else:
            k += 1
    return size


@njit(cache=True, nogil=True)
def _worth_a_visit_first(active, size, y, terms, shift, multipliers, scores):
    """Move the samples that have a good part of the gap to the front; returns their number."""
    low, high, ridge_low, ridge_high, upper = terms
    parts = np.empty(size)
    for k in range(size):
        i = active[k]
        margin = y[i] * (scores[i] + shift)
        parts[k] = (
            _loss(margin, low, high, ridge_low[i], ridge_high[i], upper[i])
            - _gain(multipliers[i], low, high, ridge_low[i], ridge_high[i])
            + multipliers[i] * margin
        )
    least = WORTH_A_VISIT * parts.sum() / max(size, 1)
    count = 0
    for k in range(size):
        if parts[k] > least:
            active[k], active[count] = active[count], active[k]
            count += 1
    return count


@njit(cache=True, nogil=True)
def _descend_on_block(
    block, block_gram, gram, y, terms, shift, pull, excess, multipliers, scores
):  # fmt: skip
    """A few passes over the multipliers of a block.

    Returns the largest step of the first pass, and the excess Σ y (a + t) after the last.
    """
    low, high, ridge_low, ridge_high, upper = terms
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
            best = _best_multiplier(
                new[k], margin, diagonal, low, high, ridge_low[i], ridge_high[i], upper[i]
            )
            step = best - new[k]
            if step != 0.0:
                new[k] = best
                _add_row(local, y[i] * step, block_gram[k, :m])
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


@njit(cache=True, nogil=True)
def _gap_is_elsewhere(active, size, y, terms, shift, multipliers, scores, half):
    """Whether the samples that are left out hold at least half of the gap."""
    low, high, ridge_low, ridge_high, upper = terms
    if size == len(y):
        return False
    kept = 0.0
    for k in range(size):
        i = active[k]
        margin = y[i] * (scores[i] + shift)
        kept += (
            _loss(margin, low, high, ridge_low[i], ridge_high[i], upper[i])
            - _gain(multipliers[i], low, high, ridge_low[i], ridge_high[i])
            + multipliers[i] * margin
        )
    return kept <= half


@njit(cache=True, nogil=True)
def _gap(y, tilt, terms, shift, multipliers, scores):
    """Duality gap for a fixed shift, and the objective without what the tilts earn."""
    low, high, ridge_low, ridge_high, upper = terms
    gap = 0.0
    unit = 1e-300
    for i in range(len(y)):
        margin = y[i] * (scores[i] + shift)
        loss = _loss(margin, low, high, ridge_low[i], ridge_high[i], upper[i])
        gain = _gain(multipliers[i], low, high, ridge_low[i], ridge_high[i])
        gap += loss - gain + multipliers[i] * margin
        unit += loss + 0.5 * (multipliers[i] + tilt[i]) * y[i] * scores[i]
    return max(gap, 0.0), unit


@njit(cache=True, nogil=True, fastmath=REORDER)
def _dense_product(row, coef):
    total = 0.0
    for j in range(len(row)):
        total += row[j] * coef[j]
    return total


@njit(cache=True, nogil=True)
def _product(rows, i, coef):
    """Inner product of row i with the coefficients."""
    dense, data, indices, indptr, is_sparse = rows
    if not is_sparse:
        return _dense_product(dense[i], coef)
    total = 0.0
    for k in range(indptr[i], indptr[i + 1]):
        total += data[k] * coef[indices[k]]
    return total


@njit(cache=True, nogil=True)
def _add_multiple_of_row(rows, i, factor, coef):
    """Add a multiple of row i to the coefficients."""
    dense, data, indices, indptr, is_sparse = rows
    if not is_sparse:
        _add_row(coef, factor, dense[i])
    else:
        for k in range(indptr[i], indptr[i + 1]):
            coef[indices[k]] += factor * data[k]


@njit(cache=True, nogil=True)
def _largest_first(active, size, parts):
    """Move the samples of large parts to the front; returns their number."""
    total = 0.0
    for k in range(size):
        total += parts[active[k]]
    least = WORTH_A_VISIT * total / max(size, 1)
    count = 0
    for k in range(size):
        if parts[active[k]] > least:
            active[k], active[count] = active[count], active[k]
            count += 1
    return count


@njit(cache=True, nogil=True)
def row_descent(
    rows, norms, offsets, square, level, y, tilt, terms, shift, multipliers, coef, scores,
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
    low, high, ridge_low, ridge_high, upper = terms
    random = _seeded(seed)
    active = np.arange(n)
    size = n
    slack = np.inf
    gap = np.inf
    parts = np.empty(n)  # of the gap, at the last visit of each sample
    drift = 0.0
    rounds = 0
    visits = 0
    while visits < max_passes * n:
        if shuffled:
            _shuffle(active, size, random)
        whole = rounds % ROUNDS == 0
        rounds += 1
        count = size if whole else _largest_first(active, size, parts)
        largest = 0.0
        seen = 0.0
        loss = 0.0
        k = 0
        while k < count:
            i = active[k]
            score = _product(rows, i, coef) - level - drift * (offsets[i] - square)
            margin = y[i] * (score + shift)
            old = multipliers[i]
            if whole and shrinking and _is_settled(old, margin, low, high, upper[i], slack):
                size -= 1
                count -= 1
                active[k], active[size] = active[size], active[k]
                continue
            k += 1
            part = _loss(margin, low, high, ridge_low[i], ridge_high[i], upper[i])
            loss += part
            parts[i] = part - _gain(old, low, high, ridge_low[i], ridge_high[i]) + old * margin
            seen += parts[i]
            new = _best_multiplier(
                old, margin, norms[i], low, high, ridge_low[i], ridge_high[i], upper[i]
            )
            if new != old:
                multipliers[i] = new
                factor = y[i] * (new - old)
                _add_multiple_of_row(rows, i, factor, coef)
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
        size_of_coef = _dense_product(coef, coef) - drift * (2.0 * level - drift * square)
        if last or largest == 0.0 or seen <= tol * (loss + 0.5 * size_of_coef):
            for i in range(n):
                score = _product(rows, i, coef) - level
                scores[i] = score - drift * (offsets[i] - square)
            gap, unit = _gap(y, tilt, terms, shift, multipliers, scores)
            gap /= unit
            if gap <= tol or (largest == 0.0 and size == n):
                break
            size = n
            slack = np.inf
    return drift, (visits + n - 1) // n, gap
