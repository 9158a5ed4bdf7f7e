"""Sources of blocks of rows, with one reduction for memory maps, streams and Dask.

A statistic is a function of one block; its values can be added. `BlockSource.reduce` computes the
sum over all blocks, also on a cluster. Only the arguments and the values of the statistic are sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import isnan
from numbers import Number
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.utils import check_array, gen_batches
from sklearn.utils.multiclass import check_classification_targets

from discreg.linalg.rows import (
    canonical,
    checked_weights,
    class_sums,
    class_weights,
    find_labels,
    require_sum_of_weights,
    require_two_classes,
    require_weight_in_each_class,
)
from discreg.linalg.types import Array, Indices

Statistic = Callable[..., Any]
LARGEST_BLOCK = 64 << 20  # bytes

ROWS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


DIFFERENT_TYPES = (
    "y contains labels of different types, which cannot be sorted. Make them all strings or all "
    "numbers."
)


def largest_block() -> int:
    """Return the bytes of a block: scikit-learn's working memory, at most 64 MB."""
    return int(min(get_config()["working_memory"] * (1 << 20), LARGEST_BLOCK))


def is_dask(X: Any) -> bool:
    """Return whether X is a Dask collection, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def is_out_of_core(X: Any) -> bool:
    """Return whether X can only be read in blocks: on Dask, or by its method `open_blocks`."""
    return is_dask(X) or hasattr(X, "open_blocks")


def number_of_rows(X: Any) -> int | None:
    """Return the number of rows of an array; None if X can only be read in blocks."""
    return None if is_out_of_core(X) else int(X.shape[0])


def is_streamed(X: Any) -> bool:
    """Return whether X is read in blocks: out of core, or a memory map of more than one block."""
    if is_out_of_core(X):
        return True
    return isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > largest_block()


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
        weights = checked_weights(sample_weight, len(labels), in_part=True)
    if len(labels):
        require_labels(labels)
    found, places = find_labels(labels)
    return Counts(found, class_sums(places, weights, len(found)), len(labels))


def require_labels(labels: NDArray[Any], name: str = "y") -> None:
    """Raise ValueError if labels are missing, continuous, bytes or of several types."""
    if labels.ndim != 1:
        raise ValueError(f"{name} must have one dimension; its shape is {labels.shape}.")
    kinds: set[Any] = set()
    if labels.dtype.kind in "iubU":  # always valid; the check below would sort them
        return
    if labels.dtype.kind == "f":
        missing = bool(np.isnan(labels).any())
    else:
        found = labels.tolist()
        missing = any(map(is_missing, found))
        kinds = {float if isinstance(label, Number) else type(label) for label in found}
    if missing:
        raise ValueError(f"{name} has missing labels. Leave out the rows without a label.")
    if bytes in kinds:
        raise ValueError(
            f"{name} contains bytes. Decode them, for example with np.char.decode({name})."
        )
    if len(kinds) > 1:
        raise ValueError(DIFFERENT_TYPES)
    if labels.dtype == object and kinds != {str}:
        raise ValueError(
            f"Unknown label type: {name} contains objects of type {type(found[0]).__name__}. "
            f"Convert them, for example with np.asarray({name}).astype(str)."
        )
    # A block may have many classes in few rows; scikit-learn would warn of more classes than half
    # of the rows.
    check_classification_targets(np.tile(labels, 2))


def is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN, or NA or NaT of pandas."""
    is_na = type(label).__name__ in ("NAType", "NaTType")
    return label is None or is_na or (isinstance(label, float) and isnan(label))


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
        weights = checked_weights(sample_weight, len(labels), in_part=True)
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

    @abstractmethod
    def reduce(self, statistic: Statistic, *args: Any) -> Any:
        """Sum ``statistic(block, *args)`` over all non-empty blocks."""

    @property
    @abstractmethod
    def counts(self) -> Counts:
        """Labels of all rows with their sums of sample weights, and the number of rows."""

    @cached_property
    def layout(self) -> BlockLayout:
        """Properties that all blocks share."""
        classes, sizes = self.counts.labels, self.counts.sizes
        require_two_classes(classes)
        require_sum_of_weights(float(sizes.sum()))
        require_weight_in_each_class(sizes, classes, "sample_weight")
        factors = class_weights(self.class_weight, classes, sizes)
        require_weight_in_each_class(sizes * factors, classes, "class_weight")
        return BlockLayout(self.n_features, self.dtype, classes, factors)

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


class RawBlocks(BlockSource):
    """Rows as they are read, whose blocks are checked and converted before they are reduced."""

    @abstractmethod
    def reduce_raw(self, statistic: Statistic, *args: Any) -> Any:
        """Sum ``statistic(X, y, sample_weight, first, *args)`` over all non-empty blocks."""

    def reduce(self, statistic: Statistic, *args: Any) -> Any:
        return self.reduce_raw(partial(_on_block, self.layout, statistic, args))


def _on_block(layout: BlockLayout, statistic: Statistic, args: Any, *raw: Any) -> Any:
    return statistic(layout.block(*raw), *args)


def count_block(X: Any, y: Any, sample_weight: Any, first: int) -> Counts:
    """Count the labels of a block, as a statistic of its rows."""
    return count_labels(y, sample_weight)


class SequentialBlocks(RawBlocks):
    """Rows that are read one block after another."""

    @abstractmethod
    def blocks(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yield rows, labels and sample weights of each block, in the same order in every pass."""

    @cached_property
    def counts(self) -> Counts:
        return cast(Counts, self.reduce_raw(count_block))

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
                checked_weights(self._sample_weight, X.shape[0])  # raises ValueError
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
