"""Compiled loops that centre, scale and group a small block of rows before a product.

The rows are read from memory once; `out` stays in the cache until BLAS multiplies it.
"""

from __future__ import annotations

import numpy as np

from discreg.linalg.compiled import REORDER, compiled
from discreg.linalg.types import Indices, RealArray


@compiled(fastmath=REORDER)
def centre_rows(
    X: RealArray,
    y: Indices,
    weights: RealArray,
    origin: RealArray,
    totals: RealArray,
    sums: RealArray,
    shift: RealArray,
    out: RealArray,
) -> None:
    """Sum the weights and the rows of each class, and centre the rows.

    The weights s are added to `totals`, and s (x − origin) to `sums`, for an origin near the rows.
    `shift` becomes the mean of the rows in their precision, and `out` becomes √s (x − shift).
    """
    n_rows, n_features = X.shape
    for i in range(n_rows):
        k = y[i]
        weight = weights[i]
        totals[k] += weight
        row = X[i]
        into = sums[k]
        for j in range(n_features):
            into[j] += weight * (row[j] - origin[j])
    total = max(totals.sum(), 1e-300)
    for j in range(n_features):
        summed = 0.0
        for k in range(len(totals)):
            summed += sums[k, j]
        shift[j] = origin[j] + summed / total
    for i in range(n_rows):
        row = X[i]
        into = out[i]
        if weights[i] == 1.0:
            for j in range(n_features):
                into[j] = row[j] - shift[j]
        else:
            root = out.dtype.type(np.sqrt(weights[i]))
            for j in range(n_features):
                into[j] = root * (row[j] - shift[j])


@compiled(fastmath=REORDER)
def group_rows(
    X: RealArray,
    y: Indices,
    weights: RealArray,
    alpha: float,
    beta: float,
    ends: Indices,
    out: RealArray,
) -> float:
    """Write √(s / (α‖x‖² + β)) x to `out`, with the rows grouped by class.

    `ends` becomes the end of each class in `out`. Returns the sum of all squares, which is not
    finite if an entry is NaN or infinite.
    """
    n_rows, n_features = X.shape
    ends[:] = 0
    for i in range(n_rows):
        if y[i] + 1 < len(ends):
            ends[y[i] + 1] += 1
    for k in range(1, len(ends)):
        ends[k] += ends[k - 1]  # the start of each class, until its rows are written
    squares = 0.0
    for i in range(n_rows):
        row = X[i]
        square = 0.0
        for j in range(n_features):
            square += np.float64(row[j]) * np.float64(row[j])
        squares += square
        scale = out.dtype.type(np.sqrt(weights[i] / (alpha * square + beta)))
        into = out[ends[y[i]]]
        ends[y[i]] += 1
        for j in range(n_features):
            into[j] = scale * row[j]
    return squares
