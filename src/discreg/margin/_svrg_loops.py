"""Compiled epochs of stochastic variance reduced gradients: Algorithm 2 of the ODM paper.

A step from the snapshot w̄ with the full gradient μ changes w by

    w ← w − η (w − w̄ + μ + δ y_i (x_i − x̄)),

where δ is the change of the sample's slope since the snapshot, and x̄ the mean of the rows: the
intercept is b = b' − w·x̄ and steps are taken in (w, b'), because a mean far from zero would couple
w to b. Only the multiple of x_i is new information, and it has the non-zeros of a row. So w is kept
as

    w = w̄ + shrink (v − drift x̄) − pull μ,

where a step multiplies `shrink` by 1 − η, moves `pull` by η of its way to one, and adds a multiple
of x_i to v and the same multiple to `drift`: the iterates of the paper at the cost of a row.

Rows are a tuple (dense, data, indices, indptr, is_sparse), of which one part is empty. `offsets`
are the products x̄·(x_i − x̄). `margins` and `gradient` are those of the snapshot, whose intercept is
optimal: the gradient of b' is zero there. v is zero at first.
"""

from __future__ import annotations

from numba import njit

__all__ = ["ldm_epoch", "odm_epoch"]

REORDER = {"reassoc", "contract", "nsz"}  # sums in any order, so that they use vector registers
SMALLEST_SHRINK = 1e-100  # v, of the size of one over it, is then rescaled


@njit(cache=True, nogil=True, fastmath=REORDER)
def _dense_products(row, v, gradient):
    """Inner products of a dense row with two vectors."""
    with_v = 0.0
    with_gradient = 0.0
    for j in range(len(row)):
        with_v += row[j] * v[j]
        with_gradient += row[j] * gradient[j]
    return with_v, with_gradient


@njit(cache=True, nogil=True)
def _sparse_products(data, indices, begin, end, v, gradient):
    """Inner products of a sparse row with two vectors."""
    with_v = 0.0
    with_gradient = 0.0
    for k in range(begin, end):
        with_v += data[k] * v[indices[k]]
        with_gradient += data[k] * gradient[indices[k]]
    return with_v, with_gradient


@njit(cache=True, nogil=True)
def _products(rows, i, v, gradient):
    """Inner products of row i with two vectors."""
    dense, data, indices, indptr, is_sparse = rows
    if is_sparse:
        return _sparse_products(data, indices, indptr[i], indptr[i + 1], v, gradient)
    return _dense_products(dense[i], v, gradient)


@njit(cache=True, nogil=True)
def _add_row(rows, i, factor, v):
    """Add a multiple of row i to v."""
    dense, data, indices, indptr, is_sparse = rows
    if is_sparse:
        for k in range(indptr[i], indptr[i + 1]):
            v[indices[k]] += factor * data[k]
    else:
        row = dense[i]
        for j in range(len(row)):
            v[j] += factor * row[j]


@njit(cache=True, nogil=True)
def _odm_slope(margin, C1, C2, D):
    """Derivative of ODM's loss C1 max(0, 1 − D − z)² + C2 max(0, z − 1 − D)²."""
    return 2.0 * C1 * min(margin - 1.0 + D, 0.0) + 2.0 * C2 * max(margin - 1.0 - D, 0.0)


@njit(cache=True, nogil=True)
def _start(mean, gradient):
    """The state of an epoch: shrink, pull, drift, x̄·v, x̄·μ, x̄·x̄ and the change of b'."""
    return 1.0, 0.0, 0.0, 0.0, mean @ gradient, mean @ mean, 0.0


@njit(cache=True, nogil=True)
def _score_change(rows, i, offset, v, gradient, state):
    """Change of the score of row i since the snapshot."""
    shrink, pull, drift, mean_v, mean_gradient, _, shift = state
    with_v, with_gradient = _products(rows, i, v, gradient)
    moved = shrink * (with_v - mean_v - drift * offset)
    return moved - pull * (with_gradient - mean_gradient) + shift


@njit(cache=True, nogil=True)
def _step(rows, i, offset, slope, step, intercept_step, v, state):
    """Take a step for a sample whose slope y_i δ is given; writes v, returns the new state."""
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
        _add_row(rows, i, factor, v)
        drift += factor
        mean_v += factor * (offset + mean_mean)
        shift -= intercept_step * slope
    return shrink, pull, drift, mean_v, mean_gradient, mean_mean, shift


@njit(cache=True, nogil=True)
def odm_epoch(
    rows, y, mean, offsets, samples, margins, gradient, step, intercept_step, C1, C2, D, v
):
    """Steps with the gradient (24) of a sample each; writes v, returns shrink, pull, drift, b'."""
    state = _start(mean, gradient)
    for i in samples:
        change = y[i] * _score_change(rows, i, offsets[i], v, gradient, state)
        slope = _odm_slope(margins[i] + change, C1, C2, D) - _odm_slope(margins[i], C1, C2, D)
        state = _step(rows, i, offsets[i], y[i] * slope, step, intercept_step, v, state)
    return state[0], state[1], state[2], state[6]


@njit(cache=True, nogil=True)
def ldm_epoch(
    rows, y, mean, offsets, samples, partners, margins, pulls, gradient, step, intercept_step,
    C, lambda1, v,
):  # fmt: skip
    """Steps with the gradient (23) of a pair of samples each; otherwise as `odm_epoch`.

    `pulls` are minus the slopes of the hinge at the snapshot, between 0 and C. The slope of the
    mean is the same everywhere: λ2 falls out.
    """
    state = _start(mean, gradient)
    for k in range(len(samples)):
        i, j = samples[k], partners[k]
        change = y[i] * _score_change(rows, i, offsets[i], v, gradient, state)
        slope = pulls[i] - (C if margins[i] + change < 1.0 else 0.0)
        if lambda1 > 0.0:
            other = y[j] * _score_change(rows, j, offsets[j], v, gradient, state)
            slope += 2.0 * lambda1 * (change - other)
        state = _step(rows, i, offsets[i], y[i] * slope, step, intercept_step, v, state)
    return state[0], state[1], state[2], state[6]
