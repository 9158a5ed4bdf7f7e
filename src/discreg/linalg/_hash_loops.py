"""Compiled loops that hash rows; a dense row and the same sparse row have equal hashes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.compiled import compiled
from discreg.linalg.types import Indices, RealArray

__all__ = ["hash_dense_rows", "hash_sparse_rows"]


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
