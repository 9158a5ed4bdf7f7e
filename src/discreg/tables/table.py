"""Labelled data for a comparison, from files, data frames and arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from discreg.base.errors import InputError

from .column_notes import column_notes, describe
from .column_types import Column
from .formats import file_stem, nearest, quoted
from .labels import parse_labels, repeated
from .new_rows import read_features, refuse_non_finite
from .sources import TARGET_IN_FILE, Source, is_path, located, with_test

__all__ = ["Column", "Table", "as_table", "read_features", "read_table"]

Drop = str | Sequence[str] | None


@dataclass(frozen=True, eq=False)
class Table:
    """Features and labels of a table, with notes on its columns and on rows left out.

    Attributes
    ----------
    name : str
    X : DataFrame or csr_array
        The columns that are used: floats, dates or strings.
    y : ndarray of shape (n_samples,)
        Labels: integers, strings or booleans.
    folds : ndarray of shape (n_samples,) or None
        The fold that tests each row, from 0.
    columns : tuple of Column
        All columns that can be features; empty for sparse data.
    class_counts : dict
        Number of rows of each class.
    notes : tuple of str
        What is left out, and how columns are treated.
    first_index : int
        Index of the first feature in the svmlight file.
    target : str
        Name of the column of labels.
    groups : ndarray of shape (n_samples,) or None
        Number of the group of each row, from 0.
    weights : ndarray of shape (n_samples,) or None
        Sample weights.
    time : ndarray of shape (n_samples,) or None
        Numbers that order the rows in time; of dates, the days since 1970.
    test : ndarray of bool of shape (n_samples,) or None
        Rows of a test table. They are the last ones.
    roles : dict
        Names of the columns with a role: fold, groups, sample_weight and time.
    dropped : tuple of str
        Columns left out by `drop`.
    identifiers : DataFrame
        Columns that look like identifiers and are not used as features.
    kept : ndarray of bool
        Which rows of the data are in the table. Rows of classes with one row are left out.
    """

    name: str
    X: pd.DataFrame | sparse.csr_array
    y: NDArray[Any]
    folds: NDArray[np.intp] | None
    columns: tuple[Column, ...]
    class_counts: dict[str, int]
    notes: tuple[str, ...]
    first_index: int = 0
    target: str = TARGET_IN_FILE
    groups: NDArray[np.intp] | None = None
    weights: NDArray[np.float64] | None = None
    time: NDArray[np.float64] | None = None
    test: NDArray[np.bool_] | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    identifiers: pd.DataFrame = field(default_factory=pd.DataFrame)
    kept: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))

    @classmethod
    def from_arrays(
        cls,
        name: str,
        X: Any,
        y: Any,
        feature_names: Sequence[str] | None = None,
        *,
        drop: Drop = None,
        test: Any = None,
        **roles: Any,
    ) -> Table:
        """Create a table from an array, a data frame or a sparse array, and labels.

        Parameters
        ----------
        name : str
        X : array, data frame or sparse array of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        feature_names : sequence of str, optional
            Names of the columns of an array.
        drop : str or sequence of str, optional
            Columns to leave out.
        test : tuple (X, y), data frame or file, optional
            A test table with the same columns, which no model is fitted to.
        **roles
            `fold`, `groups`, `sample_weight` and `time`: names of columns, or arrays.
        """
        with located(name):
            source = Source.of(X, y, None, roles, feature_names=feature_names)
            return _table(name, with_test(source, test, roles), _listed(drop))

    @classmethod
    def from_frame(
        cls,
        name: str,
        frame: Any,
        *,
        target: str,
        drop: Drop = None,
        test: Any = None,
        **roles: Any,
    ) -> Table:
        """Create a table from a data frame of pandas or polars that has a column of labels.

        The other parameters are those of `from_arrays`.
        """
        with located(name):
            source = Source.of(frame, None, target, roles)
            return _table(name, with_test(source, test, roles), _listed(drop))

    def without(self, names: Sequence[str]) -> Table:
        """Return the table without some features, which become identifiers."""
        if not names:
            return self
        if sparse.issparse(self.X):
            raise InputError(f"{self.name}: the features of sparse data have no names")
        columns = tuple(
            replace(column, kind="identifier") if column.name in names else column
            for column in self.columns
        )
        X = self.X.drop(columns=list(names))
        if not X.shape[1]:
            raise InputError(
                f"{self.name}: no column can be used as a feature: {quoted(names)} look like "
                "identifiers"
            )
        identifiers = pd.concat([self.identifiers, self.X[list(names)]], axis=1)
        before, after = column_notes(self.columns), column_notes(columns)
        notes = (*(note for note in self.notes if note not in before), *after)
        return replace(self, X=X, columns=columns, identifiers=identifiers, notes=notes)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the contents, sixteen hexadecimal digits; equal data have equal hashes."""
        digest = hashlib.sha256()
        kinds = [column.kind for column in self.columns]
        further = (self.groups, self.weights, self.time, self.test)
        marks = [
            part
            for name, array in zip(("groups", "weights", "time", "test"), further, strict=True)
            if array is not None
            for part in (name, array)
        ]
        for part in (*_contents(self.X), *kinds, self.y, self.folds, *marks):
            digest.update(_as_bytes(part) + b"\0")
        return digest.hexdigest()[:16]


def as_table(
    X: Any,
    y: Any = None,
    *,
    target: str | None = None,
    name: str | None = None,
    drop: Drop = None,
    test: Any = None,
    **roles: Any,
) -> Table:
    """Create a table from a file name, a data frame, an array or a sparse array.

    Parameters
    ----------
    X : str, path, data frame, array or sparse array
    y : array of shape (n_samples,) or str, optional
        Labels, or the name of the column of labels.
    target : str, optional
        Name of the column of labels.
    name : str, optional
        Name of the table; that of the file, or "table".
    drop : str or sequence of str, optional
        Columns to leave out.
    test : str, path, data frame or tuple (X, y), optional
        A test table with the same columns, which no model is fitted to.
    **roles
        `fold`, `groups`, `sample_weight` and `time`: names of columns, or arrays.
    """
    if isinstance(y, str):
        if target not in (None, y):
            raise InputError(f"The column of labels is '{y}' or '{target}'; give one of them.")
        y, target = None, y
    if is_path(X) and y is None:
        table = read_table(X, target=target, drop=drop, test=test, **roles)
        return table if name is None else replace(table, name=name)
    name = name or (file_stem(Path(X)) if is_path(X) else "table")
    with located(name):
        source = Source.of(X, y, target, roles)
        return _table(name, with_test(source, test, roles), _listed(drop))


def read_table(
    path: str | PathLike[str],
    *,
    target: str | None,
    drop: Drop = None,
    test: Any = None,
    **roles: Any,
) -> Table:
    """Read a file of labelled data in the format of its suffix.

    Parameters
    ----------
    path : str or path
        CSV, TSV, Excel, JSON, Parquet, Feather, ARFF, svmlight or npz; each may be compressed.
    target : str or None
        The column of labels. None for svmlight and npz files, which contain labels.
    drop : str or sequence of str, optional
        Columns to leave out.
    test : str, path, data frame or tuple (X, y), optional
        A test table with the same columns, which no model is fitted to.
    **roles
        Columns (in npz files arrays) with a role: `fold`, the fold that tests each row; `groups`,
        the group of each row; `sample_weight`; `time`, dates or numbers that order the rows.

    Raises
    ------
    InputError
        If the file cannot be read or its contents cannot be used for classification. Row numbers
        count from 1, without the header.
    """
    path = Path(path)
    with located(path):
        source = Source.of(path, None, target, roles)
        return _table(file_stem(path), with_test(source, test, roles), _listed(drop))


def _listed(drop: Drop) -> tuple[str, ...]:
    return () if drop is None else (drop,) if isinstance(drop, str) else tuple(map(str, drop))


def _table(name: str, source: Source, drop: tuple[str, ...]) -> Table:
    """Check labels, roles and features, and leave out rows and columns that cannot be used."""
    y = parse_labels(source.labels, source.target)
    X, notes = source.X, list(source.notes)
    if drop:
        X = _without_dropped(X, drop, source)
        notes.append(f"left out by request: {quoted(drop)}")
    n_training = len(y) - source.n_test
    test = np.arange(len(y)) >= n_training if source.n_test else None
    kept, class_notes = repeated(y, source.target, None if test is None else ~test)
    arrays, role_notes = source.roles.parsed(kept)
    notes += [*class_notes, *role_notes]
    if test is not None:
        test = test[kept]
        notes.append(f"{test.sum()} rows of the test table are held out from all fits")
    columns: tuple[Column, ...] = ()
    identifiers = pd.DataFrame(index=range(int(kept.sum())))
    if isinstance(X, pd.DataFrame):
        X, columns, column_notes, identifiers = describe(X[kept])
        notes += column_notes
    else:
        refuse_non_finite(X, source.first_index)
        X = X[kept]
        notes.append(_sparse_note(X))
    y = y[kept]
    classes, counts = np.unique(y, return_counts=True)
    return Table(
        name,
        X,
        y,
        arrays["fold"],
        columns,
        {str(label): int(count) for label, count in zip(classes, counts, strict=True)},
        tuple(notes),
        source.first_index,
        target=source.target,
        groups=arrays["groups"],
        weights=arrays["sample_weight"],
        time=arrays["time"],
        test=test,
        roles=source.roles.names(),
        dropped=drop,
        identifiers=identifiers,
        kept=kept,
    )


def _without_dropped(
    X: pd.DataFrame | sparse.csr_array, drop: tuple[str, ...], source: Source
) -> pd.DataFrame:
    if not isinstance(X, pd.DataFrame):
        raise InputError(
            f"the features of sparse data have no names, so that {quoted(drop)} cannot be dropped"
        )
    roles = {source.target: "target"} | {name: role for role, name in source.roles.names().items()}
    for name in drop:
        if name in roles:
            raise InputError(f"column '{name}' is the {roles[name]} and cannot be dropped")
        if name not in X:
            raise InputError(_unknown_drop(name, list(X)))
    return X.drop(columns=list(drop))


def _unknown_drop(name: str, names: Sequence[str]) -> str:
    near = nearest(name, names)
    hint = f"; did you mean '{near}'?" if near else "."
    return f"there is no column '{name}' to drop{hint} There are {quoted(names, at_most=20)}"


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
