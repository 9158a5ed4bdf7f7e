"""Training samples in an order of their own, and how they are held out.

The order follows from ranks and labels: it does not depend on the order of the rows or columns, on
repeated rows, or on the units of the features. Folds and parts are drawn in this order, so that
these do not matter to the model either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.base.held_out import N_FOLDS, Fold, folds_of, stratified_parts
from discreg.blocks.source import AddableTuple, Block, BlockSource
from discreg.linalg.rows import class_sums, hash_rows
from discreg.linalg.types import Array, Indices

from ._scaling import Scaling, fitted_scalings

MOST_IN_FOLDS = 5_000  # with more rows, one part is held out
MOST_JUDGED, SHARE_JUDGED = 5_000, 0.25  # rows of this part
FEWEST_OF_CLASS = 50  # rows of a class that a part keeps
FEWEST_DISTINCT = 0.5  # share of distinct rows from which equal rows are repeated rows
FEWEST_MIXED = 0.5  # share of rows that occur with several classes in a table of counts
ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Samples:
    """Training samples and how they are held out.

    Attributes
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
        Features that are not scaled.
    y : ndarray of shape (n_samples,)
        Class indices.
    weights : ndarray of shape (n_samples,)
        Sample weights. Those of a part of the rows are multiplied by a factor of their class, so
        that the classes have the shares of all rows.
    n_classes : int
    units : ndarray of shape (n_samples,)
        Samples with the same number are held out together.
    has_groups : bool
        Whether units are groups that were given.
    is_indicator : ndarray of shape (n_features,)
        Features that keep their scale.
    seed : int
    source : BlockSource or None
        All rows, if the samples are a part of them.
    own_weights : ndarray of shape (n_samples,) or None
        Weights of the samples in the source.
    columns : ndarray of shape (n_features,)
        Columns of the source in the order of the features.
    """

    X: Any
    y: Indices
    weights: Array
    n_classes: int
    units: Indices
    has_groups: bool
    is_indicator: NDArray[np.bool_]
    seed: int = 0
    source: BlockSource | None = None
    own_weights: Array | None = None
    columns: Indices | None = None

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def scalings(self) -> dict[str, Scaling]:
        """Fitted scalings by name."""
        return fitted_scalings(self.X, self.weights, self.is_indicator)

    @cached_property
    def _scaled(self) -> dict[str, Any]:
        return {}

    def scaled(self, name: str) -> Any:
        """Return the scaled features."""
        if name not in self._scaled:
            self._scaled[name] = self.scalings[name](self.X)
        return self._scaled[name]

    @cached_property
    def sizes(self) -> Array:
        """Sum of the weights of each class."""
        return class_sums(self.y, self.weights, self.n_classes)

    @property
    def shares(self) -> Array:
        """Shares of the classes."""
        return np.asarray(self.sizes / self.sizes.sum())

    @cached_property
    def folds(self) -> list[Fold]:
        """Training and test rows: five folds, or one part that is held out if there are many."""
        if len(self) <= MOST_IN_FOLDS:
            parts = self._parts()
        else:
            n_judged = min(MOST_JUDGED, int(SHARE_JUDGED * len(self)))
            if self.has_groups:  # whole groups, until there are enough rows
                numbers, firsts = np.unique(self.units, return_index=True)
                numbers = numbers[np.argsort(firsts)]
                reached = np.cumsum(np.bincount(self.units)[numbers])
                drawn = numbers[: max(1, int(np.searchsorted(reached, n_judged)))]
            else:
                drawn = self.units[self._stratified(n_judged, SHARE_JUDGED)]
            parts = [np.flatnonzero(np.isin(self.units, drawn))]
        folds = folds_of(parts, np.arange(len(self)), self.y, self.weights)
        return [fold for fold in folds if np.ptp(self.y[fold[0]])]

    def _parts(self) -> list[Indices]:
        """Split the samples into five parts of whole units with similar shares of the classes."""
        numbers, firsts = np.unique(self.units, return_index=True)
        if self.has_groups:
            return stratified_parts(self.y, self.units)
        place = np.empty(len(numbers), dtype=np.intp)
        place[np.lexsort((firsts, self.y[firsts]))] = np.arange(len(numbers))
        fold = place[np.searchsorted(numbers, self.units)] % N_FOLDS
        return [np.flatnonzero(fold == k) for k in range(N_FOLDS) if (fold == k).any()]

    @cached_property
    def judged(self) -> Indices:
        """Indices of the samples that are judged when they are held out."""
        tests = [test for _, test in self.folds]
        return np.sort(np.concatenate(tests)) if tests else np.empty(0, dtype=np.intp)

    @cached_property
    def judged_weights(self) -> Array:
        """Weights of the judged samples; the classes have the shares of all samples."""
        return self.take(self.judged).weights if len(self.judged) else np.empty(0)

    @property
    def plain_folds(self) -> list[Fold]:
        """Five folds of whole units that ignore the classes, as new samples do.

        In stratified folds, the class frequencies would seem to predict the test rows.
        """
        numbers, firsts = np.unique(self.units, return_index=True)
        place = np.empty(len(numbers), dtype=np.intp)
        place[np.argsort(firsts)] = np.arange(len(numbers))
        fold = place[self.units] % N_FOLDS
        found = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(N_FOLDS)]
        return [(train, test) for train, test in found if len(test) and len(train)]

    @property
    def held_out(self) -> str:
        """How samples are held out in folds."""
        what = " of whole groups" if self.has_groups else ""
        n_folds = len(self.folds)
        return f"{n_folds} folds{what}" if n_folds != 1 else f"{len(self.judged):,} rows{what}"

    def part(self, n_rows: int) -> Samples:
        """Return a stratified part of the samples; every class keeps 50 rows, or all."""
        return self.take(self._stratified(n_rows, 1.0))

    def _stratified(self, n_rows: int, largest_share: float) -> Indices:
        """Draw rows, of every class at least 50 or the largest share that is allowed."""
        counts = np.bincount(self.y, minlength=self.n_classes)
        fewest = np.minimum(FEWEST_OF_CLASS, largest_share * counts)
        wanted = np.ceil(np.maximum(n_rows * counts / len(self), fewest))
        order = np.argsort(self.y, kind="stable")
        place = np.arange(len(self)) - (np.cumsum(counts) - counts)[self.y[order]]
        return np.sort(order[place < wanted[self.y[order]]])

    def take(self, rows: Indices, *, keep_shares: bool = True) -> Samples:
        """Return some of the samples, by default so that classes keep their shares."""
        y, weights = self.y[rows], self.weights[rows]
        if keep_shares:
            kept = class_sums(y, weights, self.n_classes)
            factors = np.divide(self.sizes, kept, out=np.ones_like(kept), where=kept > 0)
            weights = weights * factors[y] * (weights.sum() / (factors[y] @ weights))
        units = np.unique(self.units[rows], return_inverse=True)[1]
        return replace(self, X=self.X[rows], y=y, weights=weights, units=units, source=None)


def samples_of(
    X: Any,
    y: Indices,
    weights: Array,
    groups: Indices | None,
    n_classes: int,
    is_indicator: NDArray[np.bool_],
    seed: int,
) -> Samples:
    """Order rows in memory, and add up the weights of repeated rows.

    Equal rows of a class are one sample; without groups, equal rows of other classes are held out
    with them. In a table of counts, where less than half of the rows are distinct and most of them
    occur with several classes, equal rows are different samples.
    """
    numbers = np.unique(hash_rows(X, 0), return_inverse=True)[1]
    has_groups = groups is not None
    units = numbers if groups is None else groups
    if has_groups or _are_repeated(numbers, y, weights):
        of_each = np.unique(np.column_stack([numbers, y, units]), axis=0, return_index=True,
                            return_inverse=True)  # fmt: skip
        rows, merged = of_each[1], class_sums(of_each[2].ravel(), weights, len(of_each[1]))
    else:
        rows, merged, units = np.arange(len(y)), weights, np.arange(len(y))
    X, y, units = X[rows], y[rows], units[rows]
    columns, keys = _invariant_keys(X, y)
    order = np.lexsort((y, keys))
    if sparse.issparse(X):
        X = X[order]
    else:
        X = np.ascontiguousarray(X[order][:, columns], dtype=np.float64)
    units = np.unique(units[order], return_inverse=True)[1]
    return Samples(
        X, y[order], merged[order], n_classes, units, has_groups, is_indicator[columns],
        seed, columns=columns,
    )  # fmt: skip


def _are_repeated(numbers: Indices, y: Indices, weights: Array) -> bool:
    """Return whether rows with the same number are repetitions of one sample."""
    n_distinct, n_classes = int(numbers.max()) + 1, int(y.max()) + 1
    if n_distinct == 1:
        return False
    counts = np.bincount(numbers * n_classes + y, weights, n_distinct * n_classes)
    counts = counts.reshape(n_distinct, n_classes)
    is_mixed = np.count_nonzero(counts, axis=1) > 1
    share = counts[is_mixed].sum() / weights.sum()
    return bool(n_distinct >= FEWEST_DISTINCT * weights.sum() or share < FEWEST_MIXED)


@np.errstate(over="ignore")
def _invariant_keys(X: Any, y: Indices) -> tuple[Indices, NDArray[np.uint64]]:
    """Return an order of the columns, and a random key of each row, both from ranks and labels."""
    if sparse.issparse(X):
        return np.arange(X.shape[1]), hash_rows(X, 0)
    marks = np.empty(X.shape[1], dtype=np.uint64)
    keys = np.zeros(len(y), dtype=np.uint64)
    labels = _mixed(y.astype(np.uint64))
    for j, column in enumerate(X.T):
        ranks = np.unique(column, return_inverse=True)[1].astype(np.uint64)
        marks[j] = _mixed(ranks + labels).sum()
        keys += _mixed(ranks ^ marks[j])
    return np.argsort(marks, kind="stable"), _mixed(keys)


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of numbers (splitmix64)."""
    numbers = numbers * ODD + ODD
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(numbers ^ (numbers >> np.uint64(31)))


def sample_of_blocks(
    source: BlockSource, n_rows: int, is_indicator: NDArray[np.bool_], seed: int
) -> Samples:
    """Draw samples from rows in blocks by a hash of their values, in one pass.

    Every class has its share of the rows, but at least 50, or all that it has.
    """
    shares = source.sizes / source.sizes.sum()
    wanted = np.maximum(np.ceil(n_rows * shares), FEWEST_OF_CLASS).astype(int)
    parts = source.reduce(_drawn_of_each_class, wanted.tolist())
    stack = sparse.vstack if sparse.issparse(parts[0].X) else np.vstack
    X: Any = stack([part.X for part in parts])
    X = X.tocsr() if sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    y = np.repeat(np.arange(len(parts)), [len(part.hashes) for part in parts])
    hashes = np.concatenate([part.hashes for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    order = np.lexsort((y, hashes))
    X, y, weights = X[order], y[order], weights[order]
    factors = source.sizes / np.bincount(y, weights, len(parts))
    factors *= weights.sum() / source.sizes.sum()
    units = np.unique(hashes[order], return_inverse=True)[1]
    return Samples(
        X, y, weights * factors[y], len(parts), units, False, is_indicator, seed, source, weights
    )


@dataclass(frozen=True)
class Drawn:
    """Distinct rows with the smallest hashes, at most `size`, with the sums of their weights."""

    hashes: NDArray[np.uint64]
    X: Any
    weights: Array
    size: int

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], X: Any, weights: Array, size: int) -> Drawn:
        """Draw from rows; equal rows become one."""
        found, firsts, places = np.unique(hashes, return_index=True, return_inverse=True)
        merged = class_sums(places, weights, len(found))
        return cls(found[:size], X[firsts[:size]], merged[:size], size)

    def __add__(self, other: Drawn) -> Drawn:
        stack = sparse.vstack if sparse.issparse(self.X) or sparse.issparse(other.X) else np.vstack
        X: Any = stack([self.X, other.X])
        hashes = np.concatenate([self.hashes, other.hashes])
        weights = np.concatenate([self.weights, other.weights])
        return Drawn.of(hashes, X.tocsr() if sparse.issparse(X) else X, weights, self.size)


def _drawn_of_each_class(block: Block, wanted: list[int]) -> AddableTuple:
    hashes, parts = hash_rows(block.X, 0), []
    for k, size in enumerate(wanted):
        rows = np.flatnonzero((block.y == k) & (block.weights > 0))
        parts.append(Drawn.of(hashes[rows], block.X[rows], block.weights[rows], size))
    return AddableTuple(parts)
