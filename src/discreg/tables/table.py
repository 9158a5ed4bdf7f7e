"""The user's labelled table: reading and checking it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from discreg.base.errors import InputError

from .column_notes import describe
from .column_types import Column, as_texts, parse
from .expected import ExpectedColumns, check_columns
from .formats import (
    MISSING,
    Contents,
    default_names,
    nearest,
    quoted,
    read_contents,
    refuse_duplicates,
)

__all__ = ["Column", "Table", "read_features", "read_table"]

TARGET_IN_FILE = "y"  # name of the labels in files of arrays
PLAIN = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.0+)?")
MANY_NUMBERS = 20  # more distinct numbers than this are classes only if they repeat


@dataclass(frozen=True, eq=False)
class Table:
    """Features and labels of a table, with notes on its columns and on rows left out."""

    name: str
    X: pd.DataFrame | sparse.csr_array  # the columns that are used; float64 or strings
    y: NDArray[Any]  # integers or strings
    folds: NDArray[np.intp] | None  # the fold that tests each row, from 0
    columns: tuple[Column, ...]  # all columns of the file; empty for sparse data
    class_counts: dict[str, int]
    notes: tuple[str, ...]
    first_index: int = 0  # index of the first feature in the svmlight file

    @classmethod
    def from_arrays(
        cls, name: str, X: Any, y: Any, feature_names: Sequence[str] | None = None
    ) -> Table:
        """Create a table from an array, a data frame or a sparse array, and labels."""
        with _located(name):
            if sparse.issparse(X):
                return _table(name, sparse.csr_array(X, dtype=np.float64), np.asarray(y), "y")
            frame = pd.DataFrame(X)
            if feature_names is not None:
                frame.columns = pd.Index(feature_names)
            elif not isinstance(X, pd.DataFrame):
                frame.columns = pd.Index(default_names(frame.shape[1]))
            frame.columns = frame.columns.map(str)
            refuse_duplicates(frame.columns)
            return _table(name, frame.reset_index(drop=True), np.asarray(y), "y")

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the contents, sixteen hexadecimal digits; equal data have equal hashes."""
        digest = hashlib.sha256()
        kinds = [column.kind for column in self.columns]
        for part in (*_contents(self.X), *kinds, self.y, self.folds):
            digest.update(_as_bytes(part) + b"\0")
        return digest.hexdigest()[:16]


def read_table(path: str | PathLike[str], *, target: str | None, fold: str | None = None) -> Table:
    """Read a file of labelled data in the format of its suffix.

    Parameters
    ----------
    path : str or path
        CSV, TSV, Parquet, ARFF, svmlight or npz; each may be gzipped.
    target : str or None
        The column of labels. None for svmlight and npz files, which contain labels.
    fold : str, optional
        A column (in npz files an array) with the fold that tests each row.

    Raises
    ------
    InputError
        If the file cannot be read or its contents cannot be used for classification. Row numbers
        count from 1, without the header.
    """
    path = Path(path)
    with _located(path):
        contents = read_contents(path, text_columns=set() if target is None else {target})
        if contents.labels_apart:
            return _from_labelled_arrays(_stem(path), contents, target, fold)
        return _from_columns(_stem(path), contents.X, target, fold)


def read_features(
    path: str | PathLike[str], expected: ExpectedColumns
) -> pd.DataFrame | sparse.csr_array:
    """Read the features of new rows for a model with these expected columns."""
    path = Path(path)
    as_text = {name for name, kind in expected.kinds.items() if kind in ("categorical", "text")}
    with _located(path):
        contents = read_contents(path, text_columns=as_text)
        if sparse.issparse(contents.X):
            return _check_sparse(contents, expected)
        if not expected.kinds:
            raise InputError(
                f"the model was fitted to sparse data with {expected.n_features} unnamed features "
                "and cannot be applied to a table with named columns"
            )
        return check_columns(contents.X, expected.kinds)


def _check_sparse(contents: Contents, expected: ExpectedColumns) -> sparse.csr_array:
    if expected.kinds:
        raise InputError(
            f"the model needs named columns ({quoted(expected.kinds)}), but the features of this "
            "file have no names"
        )
    X = contents.X
    if contents.first_index is not None:
        if contents.first_index < expected.first_index:
            raise InputError("a feature has index 0, but the model was fitted to indices from 1")
        X = X[:, expected.first_index :]
        X.resize(len(X.indptr) - 1, max(X.shape[1], expected.n_features))
    if X.shape[1] != expected.n_features:
        raise InputError(
            f"there are {X.shape[1]} features, but the model was fitted to {expected.n_features}"
        )
    _refuse_non_finite(X, expected.first_index)
    return X


@contextmanager
def _located(where: object) -> Iterator[None]:
    """Prefix error messages with the file or the data set."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _stem(path: Path) -> str:
    stem = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).stem
    return stem.encode("utf-8", "replace").decode()  # file names need not be UTF-8


def _from_columns(name: str, frame: pd.DataFrame, target: str | None, fold: str | None) -> Table:
    if target is None:
        raise InputError(
            f"which column holds the labels? Name one of {quoted(frame, at_most=20)} with --target"
        )
    for role, column in (("target", target), ("fold", fold)):
        if column is not None and column not in frame:
            raise InputError(_unknown(role, column, list(frame)))
    if fold == target:
        raise InputError(f"column '{fold}' cannot be both the target and the fold")
    X = frame.drop(columns=[each for each in (target, fold) if each is not None])
    folds = None if fold is None else frame[fold]
    return _table(name, X, frame[target], target, folds, fold)


def _from_labelled_arrays(
    name: str, contents: Contents, target: str | None, fold: str | None
) -> Table:
    if contents.y is None:
        raise InputError("the file has no array 'y' of labels")
    if target not in (None, TARGET_IN_FILE):
        raise InputError(
            f"the labels of this file are its array 'y', so the target cannot be '{target}'; omit "
            "--target"
        )
    X, first_index = contents.X, contents.first_index or 0
    marks = {name: array for name, array in contents.others.items() if array.shape == X.shape[:1]}
    if fold is not None and fold not in marks:
        raise InputError(_unknown("fold", fold, list(marks)))
    if sparse.issparse(X):
        X = X[:, first_index:]
    folds = None if fold is None else marks[fold]
    return _table(name, X, contents.y, TARGET_IN_FILE, folds, fold, first_index=first_index)


def _unknown(role: str, name: str, names: Sequence[str]) -> str:
    near = nearest(name, names)
    hint = f"; did you mean '{near}'?" if near else "."
    there_are = f"There are {quoted(names, at_most=20)}" if names else "There is none"
    return f"there is no column '{name}' for the {role}{hint} {there_are}"


def _table(
    name: str,
    X: pd.DataFrame | sparse.csr_array,
    labels: Any,
    target: str,
    folds: Any = None,
    fold: str | None = None,
    *,
    first_index: int = 0,
) -> Table:
    """Check labels, folds and features, and leave out rows and columns that cannot be used."""
    y = _labels(pd.Series(labels), target)
    if len(y) != X.shape[0]:
        raise InputError(f"there are {len(y)} labels for {X.shape[0]} rows")
    kept, notes = _repeated(y, target)
    codes = None
    if fold is not None:
        codes, fold_notes = _fold_codes(pd.Series(folds)[kept], fold)
        notes += fold_notes
    columns: tuple[Column, ...] = ()
    if isinstance(X, pd.DataFrame):
        X, columns, column_notes = describe(X[kept])
        notes += column_notes
    else:
        _refuse_non_finite(X, first_index)
        X = X[kept]
        notes.append(_sparse_note(X))
    y = y[kept]
    classes, counts = np.unique(y, return_counts=True)
    class_counts = {str(label): int(count) for label, count in zip(classes, counts, strict=True)}
    return Table(name, X, y, codes, columns, class_counts, tuple(notes), first_index)


def _labels(column: pd.Series, target: str) -> NDArray[Any]:
    """Convert labels to integers if they are whole numbers, otherwise to strings."""
    column = column.reset_index(drop=True)
    kind, values = parse(column)
    missing = np.flatnonzero(pd.isna(values))
    if missing.size:
        raise InputError(
            f"target '{target}' is missing in {missing.size} of {len(column)} rows "
            f"({_rows(missing)}); complete or remove them ({quoted(MISSING[1:], at_most=20)} and "
            "empty cells count as missing)"
        )
    if kind != "numeric":
        return as_texts(column).astype(str)
    numbers = pd.unique(values)
    is_whole = bool((values == np.round(values)).all()) and bool(np.isfinite(values).all())
    if len(numbers) > MANY_NUMBERS and (not is_whole or len(numbers) > len(values) / 2):
        raise InputError(
            f"target '{target}' has {len(numbers)} different numbers in {len(values)} rows "
            f"({', '.join(f'{number:g}' for number in numbers[:3])}, ...), which looks like "
            "regression; choose a column of classes, or group the numbers into classes"
        )
    texts = as_texts(column).astype(str)
    return values.astype(np.int64) if _are_plain(texts) else texts


def _are_plain(texts: NDArray[np.str_]) -> bool:
    """Return whether all are whole numbers without leading zeros: 007 and 7 must differ."""
    return all(PLAIN.fullmatch(text) for text in np.unique(texts).tolist())


def _rows(places: NDArray[np.intp], *, at_most: int = 5) -> str:
    shown = ", ".join(str(place + 1) for place in places[:at_most])
    more = f" and {len(places) - at_most} more" if len(places) > at_most else ""
    return f"{'row' if len(places) == 1 else 'rows'} {shown}{more}"


def _repeated(y: NDArray[Any], target: str) -> tuple[NDArray[np.bool_], list[str]]:
    """Find the rows of classes with at least two rows; write a note on the others."""
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(classes) == 1:
        raise InputError(
            f"target '{target}' has only one class, '{classes[0]}' ({len(y)} rows); at least two "
            "are needed"
        )
    kept = counts[codes] > 1
    if (counts > 1).sum() < 2:
        raise InputError(
            f"target '{target}' has {len(classes)} classes in {len(y)} rows, and "
            f"{'none' if not kept.any() else 'only one'} of them has two rows or more; at least "
            "two such classes are needed"
        )
    if kept.all():
        return kept, []
    alone = classes[counts == 1]
    which = f"class {quoted(alone)} has" if len(alone) == 1 else f"classes {quoted(alone)} have"
    rows = _rows(np.flatnonzero(~kept))
    return kept, [f"{which} only one row, left out: {rows}"]


def _fold_codes(column: pd.Series, fold: str) -> tuple[NDArray[np.intp], list[str]]:
    values = as_texts(column)
    missing = column.index[pd.isna(values)].to_numpy()
    if missing.size:
        raise InputError(f"fold '{fold}' is missing in {_rows(missing)}; fill in these cells")
    # Sorted as strings, so that the same file always gives the same codes.
    names, codes = np.unique(values.astype(str), return_inverse=True)
    if len(names) == 1:
        raise InputError(f"fold '{fold}' is '{names[0]}' in every row; at least two are needed")
    sizes = np.bincount(codes)
    return codes, [
        f"column '{fold}' defines {len(names)} folds of {sizes.min()} to {sizes.max()} rows"
    ]


def _refuse_non_finite(X: sparse.csr_array, first_index: int) -> None:
    places = np.flatnonzero(~np.isfinite(X.data))
    if places.size:
        row = np.searchsorted(X.indptr, places[0], side="right")
        raise InputError(
            f"feature {X.indices[places[0]] + first_index} is {X.data[places[0]]} in row {row}; "
            "sparse data cannot have missing or infinite values"
        )


def _sparse_note(X: sparse.csr_array) -> str:
    n_rows, n_features = X.shape
    if not X.nnz:
        raise InputError("no column can be used as a feature: every feature is zero in every row")
    return f"{n_features} features, {X.nnz / (n_rows * n_features):.2%} of the values are nonzero"


def _contents(X: pd.DataFrame | sparse.csr_array) -> Iterator[Any]:
    """Yield the parts of the features that the hash depends on."""
    if isinstance(X, pd.DataFrame):
        for name, column in X.items():
            yield name
            yield column.to_numpy()
    else:
        yield from (str(X.shape), X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64))


def _as_bytes(part: Any) -> bytes:
    """Convert a value, a name or an array to bytes that do not depend on the process."""
    if isinstance(part, np.ndarray) and part.dtype.kind in "iuf":
        return np.ascontiguousarray(part).tobytes()
    texts = part.tolist() if isinstance(part, np.ndarray) else [part]
    return "\x1f".join(str(text) for text in texts).encode()
