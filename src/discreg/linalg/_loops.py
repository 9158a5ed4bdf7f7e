"""Compiled loops: kernels on tiles of their matrix, hashes of rows, and the group lasso."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .compiled import REORDER, compiled
from .types import Indices, RealArray


@compiled(fastmath=REORDER)
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


@compiled()
def _mixed(bits: np.uint64) -> np.uint64:
    """Mix the bits with the finaliser of SplitMix64 (Steele, Lea and Flood)."""
    bits += np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@compiled()
def _key(column: int, seed: int) -> np.uint64:
    """Compute an odd number for a column."""
    return _mixed(np.uint64(column) + _mixed(np.uint64(seed))) | np.uint64(1)


@compiled()
def _entry(value: float, key: np.uint64) -> np.uint64:
    """Compute the term of an entry in the hash of its row; the term of a zero is 0.

    For each column, different values have different terms.
    """
    bits = np.float64(value + 0.0).view(np.uint64)  # 0.0 instead of -0.0
    # Bits of simple numbers such as 1.0 are at the left, and a product moves none to the right.
    bits ^= bits >> np.uint64(32)
    bits ^= bits >> np.uint64(20)
    return bits * key


@compiled()
def hash_dense_rows(X: RealArray, seed: int, hashes: NDArray[np.uint64]) -> None:
    """Compute a hash of each row: a mixed sum over its entries modulo 2⁶⁴."""
    keys = np.empty(X.shape[1], dtype=np.uint64)
    for j in range(X.shape[1]):
        keys[j] = _key(j, seed)
    for i in range(len(X)):
        total = np.uint64(0)
        for j in range(X.shape[1]):
            total += _entry(X[i, j], keys[j])
        hashes[i] = _mixed(total)


@compiled()
def hash_sparse_rows(
    data: RealArray, indices: Indices, indptr: Indices, seed: int, hashes: NDArray[np.uint64]
) -> None:
    """Compute a hash of each CSR row."""
    for i in range(len(hashes)):
        total = np.uint64(0)
        for entry in range(indptr[i], indptr[i + 1]):
            total += _entry(data[entry], _key(indices[entry], seed))
        hashes[i] = _mixed(total)


@compiled(fastmath=REORDER)
def _threshold_row(
    coef: RealArray, j: int, change: RealArray, threshold: float, scale: float
) -> bool:
    """Set row j to (1 − t/‖z‖)₊ z / g for z in `change`, and write there by how much it changes.

    Returns whether the row changes.
    """
    square = 0.0
    for k in range(len(change)):
        square += change[k] * change[k]
    norm = math.sqrt(square)
    shrink = (1.0 - threshold / norm) / scale if norm > threshold else 0.0
    moves = False
    for k in range(len(change)):
        new = shrink * change[k]
        change[k] = new - coef[j, k]
        coef[j, k] = new
        moves |= change[k] != 0.0
    return moves


@compiled(fastmath=REORDER)
def descend(
    gram: RealArray,
    correlations: RealArray,
    coef: RealArray,
    threshold: float,
    n_passes: int,
    change: RealArray,
) -> None:
    """Minimise ½⟨A, GA⟩ − ⟨A, C⟩ + t Σ‖a_j‖ over one row of A after another, in place.

    `correlations` contains C − GA and is updated; `change` is a buffer for one row. Each row is
    soft-thresholded: with z = (C − GA)_j + g_jj a_j it becomes (1 − t/‖z‖)₊ z / g_jj.
    """
    n_rows, n_columns = coef.shape
    for _ in range(n_passes):
        for j in range(n_rows):
            scale = gram[j, j]
            if scale <= 0.0:
                continue
            for k in range(n_columns):
                change[k] = correlations[j, k] + scale * coef[j, k]
            if _threshold_row(coef, j, change, threshold, scale):
                for i in range(n_rows):
                    for k in range(n_columns):
                        correlations[i, k] -= gram[j, i] * change[k]


@compiled(fastmath=REORDER)
def descend_on_features(
    features: RealArray,
    squares: RealArray,
    moments: RealArray,
    fitted: RealArray,
    coef: RealArray,
    threshold: float,
    n_passes: int,
    change: RealArray,
) -> None:
    """Minimise the objective of `descend` for G = FFᵀ, with the features F in rows, in place.

    `fitted` contains FᵀA and is updated.
    """
    n_rows, n_columns = coef.shape
    n_samples = features.shape[1]
    for _ in range(n_passes):
        for j in range(n_rows):
            scale = squares[j]
            if scale <= 0.0:
                continue
            for k in range(n_columns):
                change[k] = moments[j, k] + scale * coef[j, k]
            for i in range(n_samples):
                for k in range(n_columns):
                    change[k] -= features[j, i] * fitted[i, k]
            if _threshold_row(coef, j, change, threshold, scale):
                for i in range(n_samples):
                    for k in range(n_columns):
                        fitted[i, k] += features[j, i] * change[k]
