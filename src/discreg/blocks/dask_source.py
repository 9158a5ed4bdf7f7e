"""Dask collections as a source of blocks: sums over chunks, and lazy predictions.

A worker reads and checks a chunk and reduces it to its statistic; the statistics are added in a
tree. Every pass starts from the chunks of the collection. If a worker is lost, only its chunks of
the current pass are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import cache, cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from .source import ChunkError, Counts, RawBlocks, count_labels, is_dask, labels_of_block

BRANCHES = 8  # of each node in the tree of sums


def _dask() -> Any:
    """Import Dask and its arrays."""
    try:
        import dask
        import dask.array
    except ImportError as error:
        raise ImportError(
            'Dask collections need the extra "dask": pip install "discreg[dask]".'
        ) from error
    return dask


class DaskBlocks(RawBlocks):
    """A Dask array or dataframe with its labels and weights, chunk by chunk.

    Parameters
    ----------
    estimator : object
        Estimator whose number and names of features are set.
    X : dask Array or DataFrame
    y : dask Array or Series, or array-like
        Labels; they are rechunked if their chunks differ from those of X.
    sample_weight : dask Array or Series, array-like, float or None
    class_weight : dict, "balanced" or None
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        class_weight: Mapping[Any, float] | str | None,
    ) -> None:
        _dask()
        super().__init__(*_set_features(estimator, X), class_weight)
        X = _rows_in_one_chunk(X)
        if y is None:
            raise ValueError(f"{type(estimator).__name__} needs labels, but y is None.")
        self._X = _chunks(X)
        lengths = cache(lambda: _lengths(X, self._X))
        self._y = _aligned(y, X, self._X, lengths, "y")
        one = sample_weight is None or np.isscalar(sample_weight)
        self._weights = (
            [sample_weight] * len(self._X)
            if one
            else _aligned(sample_weight, X, self._X, lengths, "sample_weight")
        )
        self._chunks = list(zip(self._X, self._y, self._weights, strict=True))
        self._firsts: list[int] | None = None  # unknown until the rows are counted

    @cached_property
    def counts(self) -> Counts:
        dask = _dask()
        labels = list(zip(self._y, self._weights, strict=True))
        counts = self._computed(
            [
                dask.delayed(_counts_of_chunk, pure=False)(number, chunk)
                for number, chunk in enumerate(labels)
            ]
        )
        self._firsts = np.cumsum([0, *(each.n_rows for each in counts[:-1])]).tolist()
        total: Counts = _required(_added([each for each in counts if each.n_rows]))
        return total

    def reduce_raw(self, statistic: Callable[..., Any], *args: Any) -> Any:
        dask = _dask()
        shared = dask.delayed((statistic, args), traverse=False)
        chunks = zip(self._chunks, self._firsts or [0] * len(self._chunks), strict=True)
        parts = [
            dask.delayed(_statistic_of_chunk, pure=False)(number, shared, chunk, first)
            for number, (chunk, first) in enumerate(chunks)
        ]
        while len(parts) > 1:
            parts = [
                dask.delayed(_added, pure=False)(parts[start : start + BRANCHES])
                for start in range(0, len(parts), BRANCHES)
            ]
        (total,) = self._computed(parts)
        return _required(total)

    def _computed(self, parts: list[Any]) -> tuple[Any, ...]:
        """Compute the parts; if a chunk fails, the error names it."""
        try:
            return tuple(_dask().compute(*parts))
        except Exception as error:
            self._name_chunk(error)
            raise

    def _name_chunk(self, error: Exception) -> None:
        """Raise ChunkError if one of the chunks cannot be computed."""
        if isinstance(error, ChunkError) or type(error).__module__.startswith("distributed"):
            return
        for number, chunk in enumerate(self._chunks):
            try:
                _dask().delayed(_nothing, pure=False)(*chunk).compute()
            except Exception as cause:
                reason = f"it cannot be computed, {type(cause).__name__}: {cause}"
                raise ChunkError.of(number, reason) from cause


def _counts_of_chunk(number: int, chunk: Any) -> Counts:
    y, sample_weight = chunk
    try:
        return count_labels(y, sample_weight)
    except (TypeError, ValueError) as error:
        raise ChunkError.of(number, error) from error


def _statistic_of_chunk(number: int, shared: tuple[Any, Any], chunk: Any, first: int) -> Any:
    statistic, args = shared
    X, y, sample_weight = chunk
    try:
        if not X.shape[0] and not len(labels_of_block(y)):
            return None
        return statistic(X, y, sample_weight, first, *args)
    except (TypeError, ValueError) as error:
        raise ChunkError.of(number, error) from error
    except Exception as error:
        raise ChunkError.of(number, f"{type(error).__name__}: {error}") from error


def _required(total: Any) -> Any:
    if total is None:
        raise ValueError("X has no rows: all its chunks are empty.")
    return total


def _added(parts: list[Any]) -> Any:
    some = [part for part in parts if part is not None]
    return reduce(add, some) if some else None


def _nothing(*chunk: Any) -> None:
    """Ignore a chunk that Dask has computed."""


def _set_features(estimator: Any, X: Any) -> tuple[int, np.dtype[Any]]:
    """Set the features of the estimator; return their number and type."""
    example = _example(X)
    validate_data(estimator, example, accept_sparse="csr", dtype=None, ensure_all_finite=False)
    return example.shape[1], _dtype(X)


def _dtype(X: Any) -> np.dtype[Any]:
    """Return the common type of the columns; float64 if some have no numeric NumPy type."""
    if not hasattr(X, "columns"):
        dtype: np.dtype[Any] = np.dtype(X.dtype)
        return dtype
    dtypes = list(X.dtypes)
    plain = all(isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in dtypes)
    return np.result_type(*dtypes) if plain else np.dtype(np.float64)


def _rows_in_one_chunk(X: Any) -> Any:
    """Rechunk the collection so that all features of a row are in the same chunk."""
    return X.rechunk({1: -1}) if hasattr(X, "rechunk") and X.numblocks[1] > 1 else X


def _chunks(collection: Any) -> list[Any]:
    """Return the chunks of an array or the partitions of a dataframe as delayed objects."""
    # The graphs of frames are optimised, so that unused columns are not read. Those of arrays are
    # not, so that labels and rows of the same source are read once.
    is_frame = not hasattr(collection, "rechunk")
    chunks = collection.to_delayed(optimize_graph=is_frame)
    return list(np.asarray(chunks, dtype=object).ravel())


def _lengths(collection: Any, chunks: list[Any]) -> tuple[int, ...]:
    """Return the number of rows of each chunk; unknown ones are computed."""
    known = getattr(collection, "chunks", None)
    if known is not None and not np.isnan(known[0]).any():
        return tuple(known[0])
    dask = _dask()
    return tuple(dask.compute(*(dask.delayed(_length, pure=False)(chunk) for chunk in chunks)))


def _length(chunk: Any) -> int:
    return int(chunk.shape[0])


def _aligned(
    labels: Any,
    X: Any,
    X_chunks: list[Any],
    lengths_of_X: Callable[[], Any],
    name: str,
) -> list[Any]:
    """Return the chunks of labels or weights, rechunked if they differ from those of X."""
    dask = _dask()
    da = dask.array
    if not is_dask(labels):
        labels = labels_of_block(labels)
        if labels.ndim != 1:
            raise ValueError(f"{name} must have one dimension; its shape is {labels.shape}.")
        lengths = lengths_of_X()
        _require_rows(len(labels), sum(lengths), name)
        # Persisted on the workers, so that they are sent once and not in every pass.
        return _chunks(da.from_array(labels, chunks=(lengths,)).persist())
    if labels.ndim == 2:
        if labels.shape[1] != 1:
            raise ValueError(f"{name} must have one column; it has {labels.shape[1]}.")
        labels = labels[labels.columns[0]] if hasattr(labels, "columns") else labels[:, 0]
    chunks = _chunks(labels)
    unknown = [_has_unknown_lengths(each) for each in (labels, X)]
    if all(unknown) and len(chunks) == len(X_chunks):
        return chunks  # their lengths are compared chunk by chunk later
    lengths, own = lengths_of_X(), _lengths(labels, chunks)
    _require_rows(sum(own), sum(lengths), name)
    if own == lengths:
        return chunks
    if _has_unknown_lengths(labels):
        flat = [dask.delayed(labels_of_block, pure=False)(chunk) for chunk in chunks]
        parts = zip(flat, own, strict=True)
        labels = da.concatenate([da.from_delayed(part, (n,), object) for part, n in parts])
    return _chunks(labels.rechunk({0: lengths}))


def _has_unknown_lengths(collection: Any) -> bool:
    chunks = getattr(collection, "chunks", None)
    return chunks is None or bool(np.isnan(chunks[0]).any())


def _require_rows(found: int, wanted: int, name: str) -> None:
    if found != wanted:
        raise ValueError(f"X has {wanted} rows, but {name} has {found} entries.")


def map_rows(estimator: Any, method: str, X: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply a method of a fitted estimator to the rows of a Dask collection, lazily."""
    dask = _dask()
    da = dask.array
    estimator = copy(estimator)  # a later fit must not change the lazy result
    outcome = np.asarray(getattr(estimator, method)(_example(X), *args, **kwargs))
    shared = dask.delayed((estimator, method, args, kwargs, outcome[:0]), traverse=False)
    if hasattr(X, "columns"):
        parts = [
            da.from_delayed(
                dask.delayed(_apply, pure=True)(chunk, shared=shared),
                shape=(np.nan, *outcome.shape[1:]),
                meta=outcome[:0],
            )
            for chunk in _chunks(X)
        ]
        return da.concatenate(parts, axis=0, allow_unknown_chunksizes=True)
    X = _rows_in_one_chunk(X)
    shape: dict[str, Any] = {"drop_axis": 1}
    if outcome.ndim == 2:
        shape = {"chunks": (X.chunks[0], (outcome.shape[1],))}
    return X.map_blocks(_apply, shared=shared, dtype=outcome.dtype, meta=outcome[:0], **shape)


def _apply(rows: Any, shared: tuple[Any, str, tuple[Any, ...], dict[str, Any], Any]) -> Any:
    estimator, method, args, kwargs, empty = shared
    return np.asarray(getattr(estimator, method)(rows, *args, **kwargs)) if rows.shape[0] else empty


def _example(X: Any) -> Any:
    """Create a row of zeros with the columns and the type of a collection."""
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions; it has {X.ndim}.")
    if hasattr(X, "columns"):
        import pandas as pd

        return pd.DataFrame(np.zeros((1, len(X.columns)), dtype=_dtype(X)), columns=X.columns)
    if not isinstance(X.shape[1], int | np.integer):
        raise ValueError("The number of columns of X is not known. Call X.compute_chunk_sizes().")
    return np.zeros((1, X.shape[1]), dtype=X.dtype)
