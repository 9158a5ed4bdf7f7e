"""Sources of blocks of rows, with one reduction for memory maps, streams and Dask.

A statistic is a function of one block; its values can be added. `BlockSource.reduce` computes the
sum over all blocks, also on a cluster. Only the arguments and the values of the statistic are sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import check_array, gen_batches
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from discreg.linalg.rows import class_sums
from discreg.linalg.types import Array, Indices

from .validation import (
    canonical,
    class_weights,
    find_labels,
    is_dask,
    is_out_of_core,
    largest_block,
    require_sum_of_weights,
    require_two_classes,
    require_weight_in_each_class,
    sample_weights,
)

__all__ = [
    "AddableTuple",
    "ArrayBlocks",
    "Block",
    "BlockLayout",
    "BlockSource",
    "ChunkError",
    "Counts",
    "SequentialBlocks",
    "Statistic",
    "count_block",
    "count_labels",
    "labels_of_block",
    "open_blocks",
    "require_labels",
    "require_same_length",
    "rows_of_block",
]

Statistic = Callable[..., Any]
DIFFERENT_TYPES = (
    "y contains labels of different types, which cannot be sorted. Make them all strings or all "
    "numbers."
)


class Block(NamedTuple):
    """Rows with the indices of their classes and their weights."""

    X: Any
    y: Indices
    weights: Array
    first: int = 0  # index of the first row among all rows


class AddableTuple(tuple[Any, ...]):
    """Tuple of numbers and arrays with elementwise addition."""

    def __add__(self, other: Any) -> AddableTuple:
        return AddableTuple(mine + its for mine, its in zip(self, other, strict=True))


@dataclass(frozen=True)
class Counts:
    """Labels in ascending order, their sums of sample weights, and the number of rows."""

    labels: NDArray[Any]
    sizes: Array
    n_rows: int

    def __add__(self, other: Counts) -> Counts:
        if (self.labels.dtype.kind in "OUS") != (other.labels.dtype.kind in "OUS"):
            raise ValueError(DIFFERENT_TYPES)
        labels = np.concatenate([self.labels, other.labels])
        try:
            found, places = np.unique(labels, return_inverse=True)
        except TypeError as error:
            raise ValueError(DIFFERENT_TYPES) from error
        sizes = class_sums(places, np.concatenate([self.sizes, other.sizes]), len(found))
        return Counts(found, sizes, self.n_rows + other.n_rows)


def count_labels(y: Any, sample_weight: Any) -> Counts:
    """Count the labels of one block."""
    labels = labels_of_block(y)
    weights = None
    if sample_weight is not None:
        weights = sample_weights(sample_weight, len(labels), in_part=True)
    if len(labels):
        require_labels(labels)
    found, places = find_labels(labels)
    return Counts(found, class_sums(places, weights, len(found)), len(labels))


def require_labels(labels: NDArray[Any], name: str = "y") -> None:
    """Raise ValueError if labels are missing, continuous or of several types."""
    if labels.ndim != 1:
        raise ValueError(f"{name} must have one dimension; its shape is {labels.shape}.")
    if labels.dtype.kind in "iubU":  # always valid; the check below would sort them
        return
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"{name} contains NaN.")
    if labels.dtype.kind == "O":
        found = labels.tolist()
        kinds = {str if isinstance(label, str) else type(label) for label in found}
        without = type(None) in kinds or any(kind.__name__ == "NAType" for kind in kinds)
        if without or (float in kinds and any(label != label for label in found)):
            raise ValueError(f"{name} contains missing labels. Remove these rows or label them.")
        if str in kinds and len(kinds) > 1:
            raise ValueError(DIFFERENT_TYPES)
    # A block may have many classes in few rows; scikit-learn would warn of more classes than half
    # of the rows.
    check_classification_targets(np.tile(labels, 2))


@dataclass(frozen=True)
class BlockLayout:
    """Properties that all blocks share, and the conversion of raw blocks to `Block`."""

    n_features: int
    dtype: np.dtype[Any]
    classes: NDArray[Any]
    factors: Array  # weights of the classes

    def block(self, X: Any, y: Any, sample_weight: Any, first: int = 0) -> Block:
        """Check the shapes and the labels of a block; the statistics check its numbers."""
        rows = rows_of_block(X, self.n_features).astype(self.dtype, copy=False)
        labels = labels_of_block(y)
        require_same_length(rows, labels)
        _, indices = find_labels(labels, self.classes)
        strange = self.classes[indices] != labels
        if np.any(strange):
            label = labels[np.flatnonzero(strange)[0]].item()
            raise ValueError(
                f"y contains the label {label!r}, which is not one of the classes "
                f"{self.classes.tolist()}."
            )
        weights = sample_weights(sample_weight, len(labels), in_part=True)
        if np.any(self.factors != 1):
            weights *= self.factors[indices]
        return Block(rows, indices, weights, first)


def rows_of_block(X: Any, n_features: int) -> Any:
    """Convert the rows of a block to an array or CSR matrix and check the number of columns."""
    if sparse.issparse(X):
        rows = canonical(X.tocsr())
    elif isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        rows = np.asarray(X)  # parts of a memory map are created more slowly than of an array
    else:  # frames, lists and arrays of objects
        rows = check_array(X, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=0)
    if rows.ndim != 2:
        raise ValueError(f"X must have two dimensions; its shape is {rows.shape}.")
    if rows.shape[1] != n_features:
        raise ValueError(f"X has {rows.shape[1]} columns, but the first chunk has {n_features}.")
    return rows


def require_same_length(rows: Any, labels: NDArray[Any]) -> None:
    """Raise ValueError if a block has not one label for each row."""
    if len(labels) != rows.shape[0]:
        raise ValueError(
            f"X has {rows.shape[0]} rows, but y has {len(labels)} labels. If the sizes of Dask's "
            "chunks are not known, pass X.to_dask_array(lengths=True) and y likewise."
        )


def labels_of_block(y: Any) -> NDArray[Any]:
    """Convert the labels of a block to an array; a single column becomes one-dimensional."""
    labels = np.asarray(y)
    return labels.ravel() if labels.ndim == 2 and labels.shape[1] == 1 else labels


class ChunkError(ValueError):
    """Error in one chunk of the data."""

    @classmethod
    def of(cls, number: int, reason: object) -> ChunkError:
        """Create the error of a chunk; chunks are numbered from 0."""
        return cls(f"Chunk {number}: {reason}")


class BlockSource(ABC):
    """Rows in blocks, with labels and weights.

    The labels are counted when the classes are first needed, unless `settle` was called before.

    Parameters
    ----------
    n_features : int
    dtype : dtype
        Type of the raw rows. Types other than float32 are converted to float64.
    class_weight : dict, "balanced" or None
    """

    def __init__(
        self, n_features: int, dtype: Any, class_weight: Mapping[Any, float] | str | None
    ) -> None:
        self.n_features, self.class_weight = n_features, class_weight
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        self._known: tuple[BlockLayout, Counts] | None = None

    @abstractmethod
    def reduce_raw(self, statistic: Statistic, *args: Any) -> Any:
        """Sum ``statistic(X, y, sample_weight, first, *args)`` over all non-empty blocks."""

    @abstractmethod
    def _count(self) -> Counts:
        """Count the labels of all rows."""

    def reduce(self, statistic: Statistic, *args: Any) -> Any:
        """Sum ``statistic(block, *args)`` over all non-empty blocks."""
        return self.reduce_raw(_on_block, self.layout, statistic, args)

    @property
    def is_settled(self) -> bool:
        """Whether the classes are known."""
        return self._known is not None

    def settle(self, counts: Counts) -> tuple[BlockLayout, Counts]:
        """Set the classes and their weights from the labels of all rows."""
        classes = counts.labels
        require_two_classes(classes)
        require_sum_of_weights(float(counts.sizes.sum()))
        require_weight_in_each_class(counts.sizes, classes, "sample_weight")
        factors = class_weights(self.class_weight, classes, counts.sizes)
        require_weight_in_each_class(counts.sizes * factors, classes, "class_weight")
        self._known = BlockLayout(self.n_features, self.dtype, classes, factors), counts
        return self._known

    @property
    def layout(self) -> BlockLayout:
        """Properties that all blocks share."""
        return (self._known or self.settle(self._count()))[0]

    @property
    def counts(self) -> Counts:
        """Labels of all rows with their sums of sample weights, and the number of rows."""
        return (self._known or self.settle(self._count()))[1]

    @property
    def sizes(self) -> Array:
        """Sum of the sample weights of each class, without class weights."""
        return self.counts.sizes

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.counts.n_rows

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.layout.classes)

    @property
    def weights(self) -> Array:
        """Sum of the weights of each class, with class weights."""
        return self.sizes * self.layout.factors


def _on_block(
    X: Any,
    y: Any,
    sample_weight: Any,
    first: int,
    layout: BlockLayout,
    statistic: Statistic,
    args: Any,
) -> Any:
    return statistic(layout.block(X, y, sample_weight, first), *args)


def count_block(X: Any, y: Any, sample_weight: Any, first: int) -> Counts:
    """Count the labels of a block, as a statistic of its rows."""
    return count_labels(y, sample_weight)


class SequentialBlocks(BlockSource):
    """Rows that are read one block after another."""

    @abstractmethod
    def blocks(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yield rows, labels and sample weights of each block, in the same order in every pass."""

    def _count(self) -> Counts:
        counts: Counts = self.reduce_raw(count_block)
        return counts

    def reduce_raw(self, statistic: Statistic, *args: Any) -> Any:
        total, first = None, 0
        for number, (X, y, sample_weight) in enumerate(self.blocks()):
            if not X.shape[0]:
                continue
            try:
                part = statistic(X, y, sample_weight, first, *args)
            except (TypeError, ValueError) as error:
                raise ChunkError.of(number, error) from error
            total = part if total is None else total + part
            first += X.shape[0]
        return total


class ArrayBlocks(SequentialBlocks):
    """Rows of an array in memory or in a memory map."""

    def __init__(
        self,
        X: Any,
        y: NDArray[Any],
        sample_weight: ArrayLike | None,
        class_weight: Mapping[Any, float] | str | None,
        *,
        block_bytes: int | None = None,
    ) -> None:
        super().__init__(X.shape[1], X.dtype, class_weight)
        self._X, self._y = X, y
        self._sample_weight = sample_weight
        if sample_weight is not None and not np.isscalar(sample_weight):
            self._sample_weight = np.asarray(sample_weight)
            if self._sample_weight.shape != (X.shape[0],):
                sample_weights(self._sample_weight, X.shape[0])  # raises ValueError
        self._step = _rows_in_a_block(X, block_bytes or largest_block())

    def blocks(self) -> Iterator[tuple[Any, Any, Any]]:
        for rows in gen_batches(self._X.shape[0], self._step):
            yield self._X[rows], self._y[rows], self._weights(rows)

    def _weights(self, rows: slice) -> Any:
        given = self._sample_weight
        return given if given is None or np.isscalar(given) else np.asarray(given)[rows]


def _rows_in_a_block(X: Any, block_bytes: int) -> int:
    if sparse.issparse(X):
        row_bytes = (X.data.nbytes + X.indices.nbytes) / max(X.shape[0], 1)
    else:
        itemsize = X.dtype.itemsize if X.dtype.kind == "f" else 8  # after the conversion to float64
        row_bytes = X.shape[1] * itemsize
    return max(1, int(block_bytes / max(row_bytes, 1)))


def open_blocks(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    class_weight: Mapping[Any, float] | str | None,
) -> BlockSource:
    """Create the source of streamed training data and set the features of the estimator."""
    if is_dask(X):
        from .dask_source import DaskBlocks

        return DaskBlocks(estimator, X, y, sample_weight, class_weight)
    if is_out_of_core(X):
        if np.isscalar(sample_weight) and y is not None:
            sample_weight = np.broadcast_to(sample_weight, len(y))
        source: BlockSource = X.open_blocks(y, sample_weight, class_weight)
        validate_data(estimator, np.zeros((1, source.n_features)))
        return source
    validate_data(estimator, X[:1], accept_sparse="csr", dtype=None, ensure_all_finite=False)
    labels = labels_of_block(y)
    if labels.shape != (X.shape[0],):
        raise ValueError(
            f"y must contain one label for each of the {X.shape[0]} rows of X; its shape is "
            f"{labels.shape}."
        )
    return ArrayBlocks(X, labels, sample_weight, class_weight)
