"""Compiled products with single rows, dense or CSR.

`rows` is the tuple (dense, data, indices, indptr, is_sparse) of `compiled_rows`, of which one half
is empty.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from discreg.linalg.compiled import REORDER, compiled

__all__ = [
    "add_multiple_of_row",
    "add_row",
    "compiled_rows",
    "dense_product",
    "product",
]


def compiled_rows(X):
    """Rows in the form that the loops take; a dense X is copied only if it is not contiguous."""
    if sparse.issparse(X):
        return np.empty((0, 0)), X.data, X.indices, X.indptr, True
    none = np.empty(0, dtype=np.int32)
    return np.ascontiguousarray(X), np.empty(0), none, none, False


@compiled(fastmath=REORDER)
def dense_product(row, coef):
    total = 0.0
    for j in range(len(row)):
        total += row[j] * coef[j]
    return total


@compiled(fastmath=REORDER)
def add_row(total, factor, row):
    for j in range(len(total)):
        total[j] += factor * row[j]


@compiled()
def product(rows, i, coef):
    """Inner product of row i with the coefficients."""
    dense, data, indices, indptr, is_sparse = rows
    if not is_sparse:
        return dense_product(dense[i], coef)
    total = 0.0
    for k in range(indptr[i], indptr[i + 1]):
        total += data[k] * coef[indices[k]]
    return total


@compiled()
def add_multiple_of_row(rows, i, factor, coef):
    """Add a multiple of row i to the coefficients."""
    dense, data, indices, indptr, is_sparse = rows
    if not is_sparse:
        add_row(coef, factor, dense[i])
    else:
        for k in range(indptr[i], indptr[i + 1]):
            coef[indices[k]] += factor * data[k]
