"""Compiled products with single rows, dense or CSR.

`rows` is the tuple (dense, data, indices, indptr, is_sparse) of `compiled_rows`. The arrays of the
unused format are empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.linalg.compiled import REORDER, compiled
from discreg.linalg.types import RealArray

__all__ = [
    "add_multiple_of_row",
    "compiled_rows",
    "product",
]

CompiledRows = tuple[RealArray, RealArray, NDArray[np.int32], NDArray[np.int32], bool]


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
