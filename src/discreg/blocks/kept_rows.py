"""Distinct training rows, drawn by a hash of their values.

Equal rows of one class count as one row whose weight is their sum, so that a row of weight k is
held out as k equal rows are. Neither the order of the rows nor blocks matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.linalg.rows import hash_rows
from discreg.linalg.types import Array, Indices

from .source import AddableTuple, Block, BlockSource, Statistic

MOST_ROWS = 2_000
MORE = 4  # factor of the number of candidates if too many of them are equal
SEED = 0


@dataclass(frozen=True)
class KeptRows:
    """Some of the distinct rows of positive weight, or all of them.

    Attributes
    ----------
    X : {ndarray, sparse matrix} of shape (n_kept, n_features)
    y : ndarray of shape (n_kept,)
        Indices of the classes.
    weights : ndarray of shape (n_kept,)
        Sample weights, each the sum over equal rows of the class.
    hashes : ndarray of shape (n_kept,)
        Rows with the smallest hashes are kept.
    places : ndarray of shape (n_kept,) or None
        Indices among the training rows; None if these are not in memory.
    numbers : ndarray of shape (n_rows,) or None
        The kept row that equals each training row, -1 for those of weight zero; None if there are
        more than 2,000 rows or they are not in memory.
    """

    X: Any
    y: Indices
    weights: Array
    hashes: NDArray[np.uint64]
    places: Indices | None = None
    numbers: Indices | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __add__(self, other: KeptRows) -> KeptRows:
        stack = sparse.vstack if sparse.issparse(self.X) or sparse.issparse(other.X) else np.vstack
        both = KeptRows(
            stack([self.X, other.X]),
            np.concatenate([self.y, other.y]),
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.hashes, other.hashes]),
        )
        rows, weights = _smallest(both.hashes, both.y, both.weights)
        return replace(both.take(rows), weights=weights)

    def take(self, rows: Indices) -> KeptRows:
        """Return some of the kept rows."""
        places, numbers = self.places, self.numbers
        if places is not None:
            places = places[rows]
        if numbers is not None:
            renumbered = np.full(len(self) + 1, -1, dtype=np.intp)  # the last one is for -1
            renumbered[rows] = np.arange(len(rows))
            numbers = renumbered[numbers]
        X = self.X.tocsr()[rows] if sparse.issparse(self.X) else self.X[rows]
        y, weights, hashes = self.y[rows], self.weights[rows], self.hashes[rows]
        return KeptRows(X, y, weights, hashes, places, numbers)


def row_keys(X: Any, weights: Array, *, hashed: bool = True) -> NDArray[np.uint64]:
    """Compute keys of rows, by which they are drawn: equal rows have equal keys.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    weights : ndarray of shape (n_rows,)
    hashed : bool, default=True
        Whether keys are hashes of the values. The values of a precomputed kernel matrix depend on
        the order of the rows: those of positive weight have random keys, which are all different.
    """
    if hashed:
        return hash_rows(X, SEED)
    keys, seen = np.zeros(len(weights), dtype=np.uint64), weights > 0
    keys[seen] = np.random.default_rng(SEED).integers(1 << 64, size=seen.sum(), dtype=np.uint64)
    return keys


def distinct_rows(keys: NDArray[np.uint64], y: Indices, weights: Array) -> Indices:
    """Number the distinct rows of positive weight by class, and by key within a class.

    Equal rows of a class have equal numbers; rows of weight zero have the number -1.
    """
    seen = np.flatnonzero(weights > 0)
    keys = keys[seen]
    order = np.lexsort((keys, y[seen]))
    is_new = (np.diff(keys[order]) != 0) | (np.diff(y[seen][order]) != 0)
    numbers = np.full(len(y), -1, dtype=np.intp)
    numbers[seen[order]] = np.concatenate([[0], np.cumsum(is_new)])
    return numbers


def keep_rows(X: Any, keys: NDArray[np.uint64], y: Indices, weights: Array) -> KeptRows:
    """Keep the distinct rows of positive weight if there are at most 2,000, otherwise as many.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    keys : ndarray of shape (n_rows,)
        Those of `row_keys`.
    y : ndarray of shape (n_rows,)
        Indices of the classes.
    weights : ndarray of shape (n_rows,)
        Sample weights.
    """
    kept = _kept(X, keys, y, weights)
    if np.count_nonzero(weights) > MOST_ROWS:
        return kept
    assert kept.places is not None
    of_all = distinct_rows(keys, y, weights)
    renumbered = np.full(len(y) + 1, -1, dtype=np.intp)  # the last one is for -1
    renumbered[of_all[kept.places]] = np.arange(len(kept))
    return replace(kept, numbers=renumbered[of_all])


def reduce_and_keep(
    source: BlockSource, keep: bool, statistic: Statistic, *args: Any
) -> tuple[Any, KeptRows | None]:
    """Reduce a statistic of the blocks of a source, and with `keep` keep rows in the same pass."""
    if not keep:
        return source.reduce(statistic, *args), None
    value, kept = source.reduce(_with_rows, source.layout.factors, statistic, args)
    return value, kept


def _with_rows(block: Block, factors: Array, statistic: Statistic, args: Any) -> AddableTuple:
    return AddableTuple([statistic(block, *args), kept_of_block(block, factors)])


def kept_of_block(block: Block, factors: Array) -> KeptRows:
    """Keep rows of a block; their weights do not include the class weights `factors`."""
    weights = block.weights / factors[block.y]
    return replace(_kept(block.X, hash_rows(block.X, SEED), block.y, weights), places=None)


def _kept(X: Any, hashes: NDArray[np.uint64], y: Indices, weights: Array) -> KeptRows:
    """Keep the rows of positive weight with the smallest hashes, merging equal rows."""
    n_candidates = MOST_ROWS + MOST_ROWS // 10  # expected; more than 2,000 unless rows are equal
    while True:
        all_rows = n_candidates >= len(hashes)
        rows = np.arange(len(hashes))
        if not all_rows:
            rows = np.flatnonzero(hashes < np.uint64((n_candidates << 64) // len(hashes)))
        rows = rows[weights[rows] > 0]
        some, merged = _smallest(hashes[rows], y[rows], weights[rows])
        if len(some) == MOST_ROWS or all_rows:
            rows = rows[some]
            return KeptRows(X[rows], y[rows], merged, hashes[rows], rows)
        n_candidates *= MORE  # many of the candidates are equal or have no weight


def _smallest(hashes: NDArray[np.uint64], y: Indices, weights: Array) -> tuple[Indices, Array]:
    """Return the distinct rows with the smallest hashes, and their weights with those of copies."""
    order = np.lexsort((y, hashes))
    if not len(order):
        return order, weights[order]
    differs = (np.diff(hashes[order]) != 0) | (np.diff(y[order]) != 0)
    firsts = np.flatnonzero(np.concatenate([[True], differs]))
    merged = np.add.reduceat(weights[order], firsts)
    return order[firsts][:MOST_ROWS], merged[:MOST_ROWS]
