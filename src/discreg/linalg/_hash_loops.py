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
    """Compute a number for a column."""
    return _mixed(np.uint64(column) + _mixed(np.uint64(seed)))


@compiled()
def _entry(value: float, key: np.uint64) -> np.uint64:
    """Compute the term of an entry in the hash of its row; the term of a zero is 0."""
    return np.uint64(0) if value == 0.0 else _mixed(np.float64(value).view(np.uint64) ^ key)


@compiled()
def hash_dense_rows(X: RealArray, seed: int) -> NDArray[np.uint64]:
    """Compute a hash of each row: a sum over its entries modulo 2⁶⁴."""
    hashes = np.empty(len(X), dtype=np.uint64)
    keys = np.empty(X.shape[1], dtype=np.uint64)
    for j in range(X.shape[1]):
        keys[j] = _key(j, seed)
    for i in range(len(X)):
        total = np.uint64(0)
        for j in range(X.shape[1]):
            total += _entry(X[i, j], keys[j])
        hashes[i] = _mixed(total)
    return hashes


@compiled()
def hash_sparse_rows(
    data: RealArray, indices: Indices, indptr: Indices, seed: int
) -> NDArray[np.uint64]:
    """Compute a hash of each CSR row."""
    hashes = np.empty(len(indptr) - 1, dtype=np.uint64)
    for i in range(len(hashes)):
        total = np.uint64(0)
        for entry in range(indptr[i], indptr[i + 1]):
            total += _entry(data[entry], _key(indices[entry], seed))
        hashes[i] = _mixed(total)
    return hashes
