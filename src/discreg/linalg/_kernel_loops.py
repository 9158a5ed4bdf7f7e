"""Compiled loops that compute a kernel on one tile of its matrix, in place.

The exponential is plain arithmetic without branches or function calls, so that the compiler can
vectorise the loops. The exponential of the C library would be called once per entry.
"""

from __future__ import annotations

import math

import numpy as np

from discreg.linalg.compiled import REORDER, compiled
from discreg.linalg.types import Indices, RealArray

__all__ = [
    "distance_tile",
    "laplacian_tile",
    "power_tile",
    "rbf_tile",
    "single_laplacian_tile",
    "single_rbf_tile",
    "sparse_distance_tile",
    "sparse_tile",
    "tanh_tile",
]

# Only multiply-adds may be fused: the exponential is wrong if other operations are reordered.
compiled_tile = compiled(fastmath={"contract"})

# ln 2 in two parts (Cody and Waite): LN2_HIGH ends in zeros, so that n · LN2_HIGH is exact.
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
LOG2_E = 1 / math.log(2)
# Adding this number rounds to an integer, which the lowest bits of the sum contain.
ROUNDER = 1.5 * 2.0**52
ROUNDER_BITS = int(np.float64(ROUNDER).view(np.int64))
# 1/13!, ..., 1/2!: the first omitted term, r¹⁴/14!, is below 5e-18 for |r| ≤ ln(2)/2.
TAYLOR = tuple(1 / math.factorial(k) for k in range(13, 1, -1))
EXPONENT_BIAS = 1023
MANTISSA_BITS = 52
# The same constants in single precision, where 1/7! is the last significant term.
SINGLE_LN2_HIGH = np.float32(0.693359375)
SINGLE_LN2_LOW = np.float32(math.log(2) - 0.693359375)
SINGLE_LOG2_E = np.float32(LOG2_E)
SINGLE_ROUNDER = np.float32(1.5 * 2.0**23)
SINGLE_ROUNDER_BITS = np.int32(SINGLE_ROUNDER.view(np.int32))
SINGLE_TAYLOR = tuple(np.float32(coefficient) for coefficient in TAYLOR[-6:])
SINGLE_LEAST = np.float32(-87.0)  # exp(−87) is close to the smallest normal number
SINGLE_EXPONENT_BIAS = np.int32(127)
SINGLE_MANTISSA_BITS = np.int32(23)
ZERO, ONE, TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)


@compiled_tile
def _reduce(x: float) -> tuple[np.int64, float]:
    """Compute the integer n and exp(r) − 1 for x = n ln 2 + r with |r| ≤ ln(2)/2."""
    rounded = x * LOG2_E + ROUNDER
    n = rounded - ROUNDER
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    series = 0.0
    for coefficient in TAYLOR:
        series = series * r + coefficient
    return np.float64(rounded).view(np.int64) - ROUNDER_BITS, r + r * r * series


@compiled_tile
def _two_to_the(n: np.int64) -> float:
    """Compute 2ⁿ for an integer −1023 < n < 1024."""
    return np.int64((n + EXPONENT_BIAS) << MANTISSA_BITS).view(np.float64)


@compiled_tile
def _exp(x: float) -> float:
    """Compute exp(x) for x ≤ 0 to one unit in the last place; NaN stays NaN."""
    n, expm1 = _reduce(-746.0 if x < -746.0 else x)  # exp(−746) rounds to zero
    half = n >> 1  # for x < −708, 2ⁿ is below the smallest normal number
    return (1.0 + expm1) * _two_to_the(half) * _two_to_the(n - half)


@compiled_tile
def _tanh(x: float) -> float:
    """Compute tanh(x) to three units in the last place."""
    n, expm1 = _reduce(-2.0 * min(abs(x), 20.0))  # tanh(20) rounds to one
    scale = _two_to_the(n)
    decay = expm1 * scale + (scale - 1.0)  # exp(−2|x|) − 1
    return math.copysign(decay / (2.0 + decay), x)


@compiled_tile
def sparse_tile(
    K: RealArray,
    rows: slice,
    cols: slice,
    indptr: Indices,
    indices: Indices,
    data: RealArray,
    col_indptr: Indices,
    col_indices: Indices,
    col_data: RealArray,
) -> None:
    """Compute xᵀy for sparse rows x and y; the rows y are stored by feature, `cols` starts at 0."""
    for i in range(rows.start, rows.stop):
        row = K[i, cols]
        row[:] = 0.0
        for entry in range(indptr[i], indptr[i + 1]):
            feature = indices[entry]
            for other in range(col_indptr[feature], col_indptr[feature + 1]):
                j = col_indices[other]
                if j >= row.size:
                    break
                row[j] += data[entry] * col_data[other]


@compiled_tile
def rbf_tile(
    K: RealArray, rows: slice, cols: slice, row_norms: RealArray, col_norms: RealArray, gamma: float
) -> None:
    """Compute exp(−γ ‖x − y‖²) from the inner products xᵀy and the squared norms.

    Inner products and squared norms that overflow give NaN.
    """
    col_norms = col_norms[cols]
    for i in range(rows.start, rows.stop):
        row = K[i, cols]
        for j in range(row.size):
            exponent = gamma * (2.0 * row[j] - (row_norms[i] + col_norms[j]))
            row[j] = _exp(0.0 if exponent > 0.0 else exponent)


@compiled_tile
def _single_exp(x: np.float32) -> np.float32:
    """Compute exp(max(x, −87)) for x ≤ 0 in single precision, to two units in the last place."""
    x = SINGLE_LEAST if x < SINGLE_LEAST else x
    rounded = x * SINGLE_LOG2_E + SINGLE_ROUNDER
    n = rounded - SINGLE_ROUNDER
    r = (x - n * SINGLE_LN2_HIGH) - n * SINGLE_LN2_LOW
    series = ZERO
    for coefficient in SINGLE_TAYLOR:
        series = series * r + coefficient
    exponent = np.float32(rounded).view(np.int32) - SINGLE_ROUNDER_BITS + SINGLE_EXPONENT_BIAS
    power = np.int32(exponent << SINGLE_MANTISSA_BITS).view(np.float32)
    return (ONE + (r + r * r * series)) * power


@compiled_tile
def single_rbf_tile(
    K: RealArray, rows: slice, cols: slice, row_norms: RealArray, col_norms: RealArray, gamma: float
) -> None:
    """Compute the values of `rbf_tile` in single precision, the type of all arguments."""
    col_norms = col_norms[cols]
    for i in range(rows.start, rows.stop):
        row = K[i, cols]
        for j in range(row.size):
            exponent = gamma * (TWO * row[j] - (row_norms[i] + col_norms[j]))
            row[j] = _single_exp(ZERO if exponent > ZERO else exponent)


@compiled(fastmath=REORDER)
def distance_tile(
    K: RealArray, rows: slice, cols: slice, X: RealArray, features: RealArray
) -> None:
    """Compute the L1 distance between dense rows x and y; `features` holds the rows y transposed.

    Four features of all columns stay in the first-level cache for all rows. The distances are read
    and written once per four features.
    """
    n_features = X.shape[1]
    last = n_features - n_features % 4
    K[rows, cols] = 0.0
    for k in range(0, last, 4):
        y0, y1 = features[k, cols], features[k + 1, cols]
        y2, y3 = features[k + 2, cols], features[k + 3, cols]
        for i in range(rows.start, rows.stop):
            row = K[i, cols]
            x0, x1, x2, x3 = X[i, k], X[i, k + 1], X[i, k + 2], X[i, k + 3]
            for j in range(row.size):
                row[j] += (abs(x0 - y0[j]) + abs(x1 - y1[j])) + (abs(x2 - y2[j]) + abs(x3 - y3[j]))
    for k in range(last, n_features):
        y0 = features[k, cols]
        for i in range(rows.start, rows.stop):
            row, x0 = K[i, cols], X[i, k]
            for j in range(row.size):
                row[j] += abs(x0 - y0[j])


@compiled_tile
def sparse_distance_tile(
    K: RealArray,
    rows: slice,
    cols: slice,
    indptr: Indices,
    indices: Indices,
    data: RealArray,
    row_sums: RealArray,
    col_indptr: Indices,
    col_indices: Indices,
    col_data: RealArray,
    col_sums: RealArray,
) -> None:
    """Compute the L1 distance between sparse rows; the arguments are those of `sparse_tile`.

    It is the sum of both L1 norms, corrected by |x − y| − |x| − |y| for each common feature.
    """
    for i in range(rows.start, rows.stop):
        row = K[i, cols]
        row[:] = row_sums[i] + col_sums[: row.size]
        for entry in range(indptr[i], indptr[i + 1]):
            x, feature = data[entry], indices[entry]
            for other in range(col_indptr[feature], col_indptr[feature + 1]):
                j, y = col_indices[other], col_data[other]
                if j >= row.size:
                    break
                row[j] += abs(x - y) - (abs(x) + abs(y))


@compiled_tile
def laplacian_tile(K: RealArray, rows: slice, cols: slice, gamma: float) -> None:
    """Compute exp(−γ d) from distances d; a sum of sparse rows may be negative by rounding."""
    for i in range(rows.start, rows.stop):
        row = K[i, cols]
        for j in range(row.size):
            row[j] = _exp(0.0 if row[j] < 0.0 else -gamma * row[j])


@compiled_tile
def single_laplacian_tile(K: RealArray, rows: slice, cols: slice, gamma: float) -> None:
    """Compute the values of `laplacian_tile` in single precision, the type of all arguments."""
    for i in range(rows.start, rows.stop):
        row = K[i, cols]
        for j in range(row.size):
            row[j] = _single_exp(ZERO if row[j] < ZERO else -gamma * row[j])


@compiled_tile
def power_tile(
    K: RealArray, rows: slice, cols: slice, gamma: float, coef0: float, degree: int
) -> None:
    """Compute (γ xᵀy + c)ᵈ for an integer d ≥ 0 by repeated squaring."""
    square = np.empty(cols.stop - cols.start)
    for i in range(rows.start, rows.stop):
        row = K[i, cols]
        for j in range(row.size):
            square[j] = gamma * row[j] + coef0
            row[j] = 1.0
        exponent = degree
        while exponent > 0:
            if exponent & 1:
                for j in range(row.size):
                    row[j] *= square[j]
            exponent >>= 1
            for j in range(row.size):
                square[j] *= square[j]


@compiled_tile
def tanh_tile(K: RealArray, rows: slice, cols: slice, gamma: float, coef0: float) -> None:
    """Compute tanh(γ xᵀy + c)."""
    for i in range(rows.start, rows.stop):
        row = K[i, cols]
        for j in range(row.size):
            row[j] = _tanh(gamma * row[j] + coef0)
