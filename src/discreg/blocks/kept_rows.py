"""A sample of the training rows, drawn by a hash of their values.

The sample does not depend on the order of the rows or on blocks, and a row of weight k is drawn as
k equal rows are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.linalg.kernel_approximation import hash_rows
from discreg.linalg.types import Array, Indices

from .source import Block

__all__ = ["MOST_ROWS", "KeptRows", "keep_rows", "kept_of_block"]

MOST_ROWS = 2_000
MORE = 4  # factor of the number of candidates if too many of them are equal
SEED = 0


@dataclass(frozen=True)
class KeptRows:
    """Some of the rows of positive weight, or all of them.

    Attributes
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        Indices of the classes.
    weights : ndarray of shape (n_rows,)
        Weights, each the sum over equal rows if the rows were in blocks.
    units : ndarray of shape (n_rows,)
        Weight that is left out of each row: that of one copy, or all of a weight below one.
    hashes : ndarray of shape (n_rows,)
        Rows with the smallest hashes are kept.
    places : ndarray of shape (n_rows,) or None
        Indices among the training rows; None if these are not in memory.
    """

    X: Any
    y: Indices
    weights: Array
    units: Array
    hashes: NDArray[np.uint64]
    places: Indices | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __add__(self, other: KeptRows) -> KeptRows:
        stack = sparse.vstack if sparse.issparse(self.X) or sparse.issparse(other.X) else np.vstack
        both = KeptRows(
            stack([self.X, other.X]),
            np.concatenate([self.y, other.y]),
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.units, other.units]),
            np.concatenate([self.hashes, other.hashes]),
        )
        rows, weights = _smallest(both.hashes, both.y, both.units, both.weights)
        return replace(both.take(rows), weights=weights)

    def take(self, rows: Any) -> KeptRows:
        """Return some of the rows."""
        places = None if self.places is None else self.places[rows]
        X = self.X.tocsr()[rows] if sparse.issparse(self.X) else self.X[rows]
        y, weights, units = self.y[rows], self.weights[rows], self.units[rows]
        return replace(
            self, X=X, y=y, weights=weights, units=units, hashes=self.hashes[rows], places=places
        )

    def scaled(self, factors: Array) -> KeptRows:
        """Return the rows with weights multiplied by the factors of their classes."""
        of_rows = factors[self.y]
        return replace(self, weights=of_rows * self.weights, units=of_rows * self.units)


def keep_rows(
    X: Any, y: Indices, copies: Array, factors: Array, *, hashed: bool = True
) -> KeptRows:
    """Keep all rows of positive weight if there are at most 2,000, otherwise as many distinct ones.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        Indices of the classes.
    copies : ndarray of shape (n_rows,)
        Sample weights.
    factors : ndarray of shape (n_classes,)
        Class weights.
    hashed : bool, default=True
        Whether the rows are drawn by their values. The rows of a precomputed kernel matrix, which
        depend on the order of the samples, are drawn by their indices.
    """
    weights = copies * factors[y]
    seen = np.flatnonzero(weights > 0)
    units = np.minimum(copies, 1.0)
    if len(seen) <= MOST_ROWS:
        hashes = np.zeros(len(seen), dtype=np.uint64)
        kept = KeptRows(X[seen], y[seen], copies[seen], units[seen], hashes, seen)
    elif hashed:
        kept = _kept(X, y, weights, factors)
    else:
        some = np.sort(np.random.default_rng(SEED).choice(seen, MOST_ROWS, replace=False))
        hashes = np.zeros(len(some), dtype=np.uint64)
        kept = KeptRows(X[some], y[some], copies[some], units[some], hashes, some)
    return kept.scaled(factors)


def kept_of_block(block: Block, factors: Array) -> KeptRows:
    """Keep rows of a block; their weights do not include the class weights `factors`."""
    return replace(_kept(block.X, block.y, block.weights, factors), places=None)


def _kept(X: Any, y: Indices, weights: Array, factors: Array) -> KeptRows:
    """Keep the rows of positive weight with the smallest hashes, merging equal rows."""
    hashes = hash_rows(X, SEED)
    n_candidates = MOST_ROWS + MOST_ROWS // 10  # expected; more than 2,000 unless rows are equal
    while True:
        all_rows = n_candidates >= len(hashes)
        rows = np.arange(len(hashes))
        if not all_rows:
            rows = np.flatnonzero(hashes < np.uint64((n_candidates << 64) // len(hashes)))
        rows = rows[weights[rows] > 0]
        copies = weights[rows] / factors[y[rows]]
        units = np.minimum(copies, 1.0)
        some, copies = _smallest(hashes[rows], y[rows], units, copies)
        if len(some) == MOST_ROWS or all_rows:
            rows = rows[some]
            return KeptRows(X[rows], y[rows], copies, units[some], hashes[rows], rows)
        n_candidates *= MORE  # many of the candidates are equal or have no weight


def _smallest(
    hashes: NDArray[np.uint64], y: Indices, units: Array, weights: Array
) -> tuple[Indices, Array]:
    """Return the distinct rows with the smallest hashes, and their weights with those of copies."""
    order = np.argsort(hashes)
    if np.all(np.diff(hashes[order]) != 0):
        order = order[:MOST_ROWS]
        return order, weights[order]
    keys = (units, y, hashes)
    order = np.lexsort(keys)
    differs = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    firsts = np.flatnonzero(np.concatenate([[True], differs]))
    merged = np.add.reduceat(weights[order], firsts)
    return order[firsts][:MOST_ROWS], merged[:MOST_ROWS]
