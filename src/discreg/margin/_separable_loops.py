"""Compiled pass of coordinate descent over the pairs of multipliers of `_separable`."""

from __future__ import annotations

from discreg.linalg.compiled import REORDER, compiled
from discreg.linalg.types import Indices, RealArray

from ._coordinate_descent_loops import BLOCK, BLOCK_ACCURACY, BLOCK_PASSES, add_rows

__all__ = ["pair_pass"]


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
