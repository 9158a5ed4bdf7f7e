"""From training rows to samples: copies of rows, and a sample of rows that are not in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.blocks.kept_rows import KeptRows, kept_of_block
from discreg.blocks.source import (
    AddableTuple,
    Block,
    BlockSource,
    Counts,
    Statistic,
    labels_of_block,
    require_same_length,
    rows_of_block,
)
from discreg.linalg.kernel_approximation import hash_rows
from discreg.linalg.types import Array, Indices

from ._trials import Samples

__all__ = ["ScaledRows", "are_copies", "sample_of_blocks", "samples_of"]

MOST_OF_CLASS, MOST_ROWS = 2_000, 4_000  # of a sample
FEWEST_OF_CLASS = 10
FEWEST_DISTINCT = 0.5  # share of distinct rows from which equal rows are copies
FEWEST_MIXED = 0.5  # share of rows that occur with several classes in a table of counts


def are_copies(numbers: Indices, y: Indices, weights: Array) -> bool:
    """Return whether rows with the same number are copies of one sample.

    A row of a weight above 1 counts as copies. In a table of counts, few rows are distinct and most
    of them occur with several classes: there equal rows are different samples.
    """
    n_distinct, n_classes = int(numbers.max()) + 1, int(y.max()) + 1
    if n_distinct == 1 or (n_distinct == len(y) and weights.max() <= 1):
        return False
    counts = np.zeros((n_distinct, n_classes))
    np.add.at(counts, (numbers, y), weights)
    is_mixed = np.count_nonzero(counts, axis=1) > 1
    share = counts[is_mixed].sum() / weights.sum()
    return bool(n_distinct >= FEWEST_DISTINCT * weights.sum() or share < FEWEST_MIXED)


def samples_of(
    rows: Any,
    scaled: dict[str, Any],
    y: Indices,
    weights: Array,
    factors: Array,
    groups: Indices | None,
    *,
    by_folds: bool,
) -> Samples:
    """Decide how samples are held out; without groups, copies of a row are held out together.

    Parameters
    ----------
    rows : {ndarray, CSR} of shape (n_samples, n_features)
    scaled : dict
        Their features by scaling.
    y : ndarray of shape (n_samples,)
        Class indices.
    weights : ndarray of shape (n_samples,)
        Sample weights, all positive.
    factors : ndarray of shape (n_classes,)
        Class weights.
    groups : ndarray of shape (n_samples,) or None
    by_folds : bool
        Whether all machines are held out in folds.
    """
    hashes, are_duplicates = hash_rows(rows, 0), False
    if groups is None:
        numbers = np.unique(hashes, return_inverse=True)[1]
        are_duplicates = are_copies(numbers, y, weights)
        groups = numbers if are_duplicates else None
    return Samples.of(
        scaled, y, weights, factors, hashes, groups,
        are_duplicates=are_duplicates, by_folds=by_folds,
    )  # fmt: skip


def sample_of_blocks(source: BlockSource) -> tuple[Any, Indices, Array]:
    """Draw rows by a hash of their values, in one pass.

    Each class has its share of at most 4,000 rows, but at least ten rows, or all that it has.

    Returns
    -------
    X : ndarray or CSR of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        Class indices.
    weights : ndarray of shape (n_rows,)
        Sample weights, each the sum over equal rows.
    """
    by_class: list[KeptRows] = source.reduce(_rows_of_each_class, source.n_classes)
    shares = source.sizes / source.sizes.sum()
    n_rows = min(MOST_ROWS, MOST_OF_CLASS / shares.max())
    wanted = np.maximum(np.ceil(n_rows * shares), FEWEST_OF_CLASS).astype(int)
    parts = [
        kept.take(np.argsort(kept.hashes, kind="stable")[:size])
        for kept, size in zip(by_class, wanted.tolist(), strict=True)
    ]
    stack = sparse.vstack if sparse.issparse(parts[0].X) else np.vstack
    y, weights = (
        np.concatenate([getattr(kept, name) for kept in parts]) for name in ("y", "weights")
    )
    X: Any = stack([kept.X for kept in parts])
    return X.tocsr() if sparse.issparse(X) else X, y, weights


def _rows_of_each_class(block: Block, n_classes: int) -> AddableTuple:
    factors = np.ones(n_classes)
    parts = []
    for k in range(n_classes):
        rows = np.flatnonzero(block.y == k)
        own = Block(block.X[rows], block.y[rows], block.weights[rows])
        parts.append(kept_of_block(own, factors))
    return AddableTuple(parts)


@dataclass(frozen=True)
class ScaledRows:
    """Rows in blocks to which a scaler is applied, with class indices as labels.

    Estimators fit them block by block. Labels and sample weights are those of the source.
    """

    source: BlockSource
    scaler: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return self.source.n_rows, self.source.n_features

    def open_blocks(self, y: Any, sample_weight: Any, class_weight: Any) -> ScaledBlocks:
        """Create the source of the scaled blocks."""
        return ScaledBlocks(self.source, self.scaler, class_weight)


class ScaledBlocks(BlockSource):
    """Rows of another source, scaled, with class indices as labels."""

    def __init__(self, source: BlockSource, scaler: Any, class_weight: Any) -> None:
        super().__init__(source.n_features, source.dtype, class_weight)
        self._source, self._scaler = source, scaler

    def reduce_raw(self, statistic: Statistic, *args: Any) -> Any:
        classes = self._source.layout.classes
        return self._source.reduce_raw(_on_scaled, classes, self._scaler, statistic, args)

    def _count(self) -> Counts:
        counts = self._source.counts
        return Counts(np.arange(len(counts.labels)), counts.sizes, counts.n_rows)


def _on_scaled(
    X: Any,
    y: Any,
    sample_weight: Any,
    first: int,
    classes: NDArray[Any],
    scaler: Any,
    statistic: Statistic,
    args: Any,
) -> Any:
    """Compute a statistic of the scaled rows of a block."""
    rows, labels = rows_of_block(X, scaler.n_features_in_), labels_of_block(y)
    require_same_length(rows, labels)
    scaled = scaler.transform(rows)
    return statistic(scaled, np.searchsorted(classes, labels), sample_weight, first, *args)
