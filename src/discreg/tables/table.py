"""Labelled data for a comparison, from files, data frames and arrays."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
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

from .classifier import expected_columns, refuse_non_finite
from .column_types import MAX_CATEGORIES, USED, Column, as_texts, infer, parse, places_of_text
from .formats import Contents, file_stem, named_columns, read_contents
from .frames import (
    MISSING,
    as_pandas,
    is_frame,
    located,
    one_column,
    quoted,
    rows_text,
    shown,
    unknown_column,
)

TARGET_IN_FILE = "y"  # name of the labels in files of arrays
ROLES = ("target", "fold", "groups", "sample_weight", "time")  # of columns that are no features
PLAIN = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.0+)?")
MANY_NUMBERS = 20  # more distinct numbers than this are classes only if they repeat
ALONE = 0.1  # largest share of numbers with one row only, if the numbers are classes
NEARLY_NUMERIC = 0.1  # largest share of texts in a column that is reported as nearly numeric


@dataclass(frozen=True, eq=False)
class TestRows:
    """Labelled rows of a test table, in the columns and classes of the training table."""

    X: pd.DataFrame | sparse.csr_array
    y: NDArray[Any]
    weights: NDArray[np.float64] | None
    groups: NDArray[np.intp] | None


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
    test : TestRows or None
        Rows of a test table, which no fit and no choice depends on.
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
    notes: tuple[str, ...]
    first_index: int = 0
    target: str = TARGET_IN_FILE
    groups: NDArray[np.intp] | None = None
    weights: NDArray[np.float64] | None = None
    time: NDArray[np.float64] | None = None
    test: TestRows | None = None
    identifiers: pd.DataFrame = field(default_factory=pd.DataFrame)
    kept: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))

    @cached_property
    def class_counts(self) -> dict[str, int]:
        """Number of rows of each class."""
        pairs = zip(*np.unique(self.y, return_counts=True), strict=True)
        return {str(label): int(count) for label, count in pairs}

    def without(self, names: Sequence[str]) -> Table:
        """Return the table without some features, which become identifiers."""
        if not names:
            return self
        X = self.X.drop(columns=list(names))
        if not X.shape[1]:
            raise InputError(f"{self.name}: all features look like identifiers: {quoted(names)}")
        columns = tuple(
            replace(column, kind="identifier") if column.name in names else column
            for column in self.columns
        )
        identifiers = pd.concat([self.identifiers, self.X[list(names)]], axis=1)
        before = column_notes(self.columns)
        notes = [note for note in self.notes if note not in before] + column_notes(columns)
        return replace(self, X=X, columns=columns, identifiers=identifiers, notes=tuple(notes))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the contents, sixteen hexadecimal digits; equal data have equal hashes."""
        X, names = self.X, ("y", "folds", "groups", "weights", "time")
        arrays = {name: getattr(self, name) for name in names}
        frames = [pd.DataFrame({name: each for name, each in arrays.items() if each is not None})]
        if isinstance(X, pd.DataFrame):
            frames.append(X)
        else:
            row, column = X.nonzero()
            frames.append(pd.DataFrame({"row": row, "column": column, "value": X[row, column]}))
        kinds = [column.kind for column in self.columns]
        text = repr((X.shape, kinds, [list(frame) for frame in frames]))
        digest = hashlib.sha256(text.encode())
        for frame in frames:
            digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
        return digest.hexdigest()[:16]


def as_table(
    X: Any,
    y: Any = None,
    *,
    target: str | None = None,
    name: str | None = None,
    drop: str | Sequence[str] | None = None,
    test: Any = None,
    **roles: Any,
) -> Table:
    """Create a table from a file, a data frame, an array or a sparse array.

    Parameters
    ----------
    X : str, path, data frame, array or sparse array
        A file may be CSV, TSV, Excel, JSON, Parquet, Feather, ARFF, svmlight or npz, and may be
        compressed.
    y : array of shape (n_samples,) or str, optional
        Labels, or the name of the column of labels.
    target : str, optional
        Name of the column of labels. Files of svmlight and npz have their labels beside X.
    name : str, optional
        Name of the table; that of the file, or "table".
    drop : str or sequence of str, optional
        Columns to leave out.
    test : str, path, data frame or tuple (X, y), optional
        A test table with the same columns, which no model is fitted to.
    **roles
        `fold`, the fold that tests each row; `groups`, the group of each row; `sample_weight`;
        `time`, dates or numbers that order the rows: names of columns (in npz files of arrays), or
        arrays.

    Raises
    ------
    InputError
        If the data cannot be read or used for classification. Lines are those of the file; row
        numbers count the rows of data from 1.
    """
    if unknown := set(roles) - set(ROLES):
        raise TypeError(f"{', '.join(unknown)}: roles are {', '.join(ROLES)}")
    if isinstance(y, str):
        if target not in (None, y):
            raise InputError(f"The column of labels is '{y}' or '{target}'; give one of them.")
        y, target = None, y
    is_file = isinstance(X, str | PathLike)
    name = name or (file_stem(Path(X)) if is_file else "table")
    dropped = () if drop is None else (drop,) if isinstance(drop, str) else tuple(map(str, drop))
    with located(X if is_file else name):
        contents, cells = _collected(X, y, {"target": target, **roles})
        table = _table(name, contents, cells, dropped)
        if test is None:
            return table
        with located("test table"):
            return _with_test(table, test, roles)


def _with_test(table: Table, test: Any, roles: Mapping[str, Any]) -> Table:
    """Add the rows of a test table. Those of classes that the table does not have are left out."""
    for role in ("fold", "time"):
        if roles.get(role) is not None:
            raise InputError(f"test and {role} both say which rows are held out; give one of them")
    names = {role: option for role, option in roles.items() if isinstance(option, str)}
    if isinstance(test, tuple) and len(test) != 2:
        raise InputError(f"a tuple (X, y) is expected, not one of {len(test)} parts")
    X, y, target = (*test, None) if isinstance(test, tuple) else (test, None, table.target)
    contents, cells = _collected(X, y, {**names, "target": target})
    X = expected_columns(table).checked(contents.X, contents.first_index)
    known = {str(label): label for label in np.unique(table.y)}
    texts = parse_labels(cells["target"], table.target).astype(str)
    kept = np.isin(texts, list(known))
    if not kept.any():
        raise InputError(f"no row has one of the classes {quoted(known)}")
    rows = np.flatnonzero(kept)
    cells = {role: column[kept] for role, column in cells.items()}
    held = TestRows(
        X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows],
        np.array([known[text] for text in texts[kept]]),
        _role("sample_weight", cells["sample_weight"])[0] if "sample_weight" in cells else None,
        pd.factorize(cells["groups"])[0] if "groups" in cells else None,
    )
    notes = [f"{len(rows)} rows of the test table are held out from all fits"]
    if len(rows) < len(kept):
        notes.append(f"test rows of other classes left out: {rows_text(np.flatnonzero(~kept))}")
    return replace(table, test=held, notes=(*table.notes, *contents.notes, *notes))


def _collected(X: Any, y: Any, options: Mapping[str, Any]) -> tuple[Contents, dict[str, pd.Series]]:
    """Find the features, and the columns with a role: by name, or given as values.

    The series of a role has the name of its column.
    """
    if isinstance(X, str | PathLike):
        names = [options.get(role) for role in ("target", "groups")]
        contents = read_contents(Path(X), text_columns=[n for n in names if isinstance(n, str)])
    else:
        contents = Contents(_features(X))
    X, n_rows = contents.X, contents.X.shape[0]
    columns = {**dict(X.items() if isinstance(X, pd.DataFrame) else {}), **(contents.arrays or {})}
    options = {**options, "target": _target(contents, columns, y, options["target"])}
    roles: dict[str, pd.Series] = {}
    for role, option in options.items():
        if option is None:
            continue
        cells = _cells(role, option, columns, n_rows)
        for other in (each for each in roles if roles[each].name == cells.name):
            both = f"both {other} and {role}"
            raise InputError(f"column '{cells.name}' cannot be {both}")
        roles[role] = cells
    # A column that is given as values is no feature either.
    used = [cells.name for cells in roles.values() if cells.equals(columns.get(cells.name))]
    X = X.drop(columns=used) if isinstance(X, pd.DataFrame) else X
    return replace(contents, X=X), roles


def _target(contents: Contents, columns: Mapping[str, Any], y: Any, target: str | None) -> Any:
    """Return the labels or the name of their column."""
    if y is not None and target is not None:
        raise InputError(f"give the labels as y or as column '{target}', not as both")
    default = None if contents.arrays is None else TARGET_IN_FILE
    found = next((each for each in (y, target, default) if each is not None), None)
    if found is None:
        names = f"Name one of {quoted(columns, at_most=20)} with --target" if columns else "Give y"
        raise InputError(f"which column holds the labels? {names}")
    return found


def _cells(role: str, option: Any, columns: Mapping[str, Any], n_rows: int) -> pd.Series:
    """Find a named column, or check the number of values that are given, and name them."""
    if isinstance(option, str):
        if option not in columns:
            raise InputError(unknown_column(f"for the {role}", option, list(columns)))
        return one_column(columns[option], role).rename(option)
    cells = one_column(option, f"the {role}")
    if len(cells) != n_rows:
        raise InputError(f"there are {len(cells)} values of the {role} for {n_rows} rows")
    name = getattr(option, "name", None)
    default = TARGET_IN_FILE if role == "target" else role
    return cells.rename(name if isinstance(name, str) and name else default)


def _features(X: Any) -> pd.DataFrame | sparse.csr_array:
    """Convert the features to a data frame with strings as names, or to a CSR array."""
    if sparse.issparse(X):
        return sparse.csr_array(X, dtype=np.float64)
    if is_frame(X):
        frame = as_pandas(X).reset_index(drop=True)
    elif np.ndim(X) == 2:
        frame = named_columns(X if isinstance(X, np.ndarray) else list(X))
    else:
        raise InputError(
            f"X is a {type(X).__name__} of shape {np.shape(X)}; a data frame, an array of two "
            "dimensions, a sparse array or the name of a file is expected"
        )
    if not len(frame):
        raise InputError("there are no rows of data")
    return frame


def _table(
    name: str, contents: Contents, roles: Mapping[str, pd.Series], dropped: tuple[str, ...]
) -> Table:
    """Check labels, roles and features, and leave out rows and columns that cannot be used."""
    target = str(roles["target"].name)
    y = parse_labels(roles["target"], target)
    X, first_index, notes = contents.X, contents.first_index or 0, list(contents.notes)
    if dropped:
        X = _without_dropped(X, dropped, roles)
        notes.append(f"left out by request: {quoted(dropped)}")
    kept, class_notes = _repeated(y, target)
    notes += class_notes
    arrays: dict[str, NDArray[Any]] = {}
    for role in (role for role in ROLES if role in roles and role != "target"):
        arrays[role], note = _role(role, roles[role][kept])
        notes.append(note)
    columns: tuple[Column, ...] = ()
    identifiers = pd.DataFrame(index=range(int(kept.sum())))
    if isinstance(X, pd.DataFrame):
        X, columns, found, identifiers = describe(X[kept])
        notes += found
    else:
        X = X[:, first_index:]
        refuse_non_finite(X, first_index)
        X = X[kept]
        if not X.nnz:
            raise InputError("every feature is zero in every row")
        nonzero = f"{X.nnz / (X.shape[0] * X.shape[1]):.2%} of the values are nonzero"
        notes.append(f"{X.shape[1]} features, {nonzero}")
    return Table(
        name,
        X,
        y[kept],
        arrays.get("fold"),
        columns,
        tuple(notes),
        first_index,
        target=target,
        groups=arrays.get("groups"),
        weights=arrays.get("sample_weight"),
        time=arrays.get("time"),
        identifiers=identifiers,
        kept=kept,
    )


def _without_dropped(X: Any, dropped: tuple[str, ...], roles: Mapping[str, pd.Series]) -> Any:
    if not isinstance(X, pd.DataFrame):
        raise InputError(f"sparse features have no names: {quoted(dropped)} cannot be dropped")
    used = {cells.name: role for role, cells in roles.items()}
    for name in dropped:
        if name in used:
            raise InputError(f"column '{name}' is the {used[name]} and cannot be dropped")
        if name not in X:
            raise InputError(unknown_column("to drop", name, list(X)))
    if X.shape[1] == len(set(dropped)):
        raise InputError("every column is dropped; at least one must be left as a feature")
    return X.drop(columns=list(dropped))


def parse_labels(column: pd.Series, target: str) -> NDArray[Any]:
    """Convert labels to integers if they are whole numbers, otherwise to strings.

    Labels of a boolean type stay booleans, so that predictions can be compared with them.
    """
    if pd.api.types.is_bool_dtype(column) and not column.isna().any():
        return np.asarray(column, dtype=bool)
    kind, values = parse(column)
    missing = np.flatnonzero(pd.isna(values))
    if missing.size:
        raise InputError(
            f"target '{target}' is missing in {missing.size} of {len(column)} rows: "
            f"{rows_text(missing)}; complete or remove them (empty cells and "
            f"{quoted(MISSING[1:], at_most=20)} count as missing)"
        )
    texts = as_texts(column).astype(str)
    if kind != "numeric":
        return texts
    _refuse_scores(values, target)
    # Whole numbers without leading zeros: 007 and 7 must differ.
    is_plain = all(PLAIN.fullmatch(text) for text in np.unique(texts).tolist())
    return values.astype(np.int64) if is_plain else texts


def _refuse_scores(values: NDArray[np.float64], target: str) -> None:
    """Raise an error if numbers measure something instead of naming classes."""
    numbers, counts = np.unique(values, return_counts=True)
    is_whole = bool(np.isfinite(values).all()) and bool((values == np.round(values)).all())
    hardly_repeats = len(numbers) > len(values) / 2 or (counts == 1).mean() > ALONE
    if len(numbers) <= MANY_NUMBERS or (is_whole and not hardly_repeats):
        return
    raise InputError(
        f"target '{target}' has {len(numbers)} different numbers in {len(values)} rows: this looks "
        f"like a {'score' if is_whole else 'measured quantity'}, not classes. Choose a column of "
        "classes, or divide the numbers into classes such as 'low' and 'high'"
    )


def _repeated(y: NDArray[Any], target: str) -> tuple[NDArray[np.bool_], list[str]]:
    """Find the rows of classes with at least two rows; write a note on the others."""
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(classes) == 1:
        raise InputError(f"target '{target}' has only one class, {shown(classes[0])}")
    kept = counts[codes] > 1
    if (enough := int((counts > 1).sum())) < 2:
        raise InputError(
            f"target '{target}' has {len(classes)} classes, of which {enough} has two rows or "
            "more; at least two such classes are needed"
        )
    names = f"class{'' if (counts < 2).sum() == 1 else 'es'} {quoted(classes[counts < 2])}"
    note = f"{names} with fewer than two rows left out: {rows_text(np.flatnonzero(~kept))}"
    return kept, [] if kept.all() else [note]


def _role(role: str, cells: pd.Series) -> tuple[NDArray[Any], str]:
    """Check and convert the cells of a fold, group, sample weight or time; write a note."""
    what, column = f"{role} '{cells.name}'", f"column '{cells.name}'"
    kind, values = parse(cells)
    missing = cells.index[pd.isna(values)]
    if len(missing):
        raise InputError(f"{what} is missing in {rows_text(missing)}; fill in these cells")
    if role in ("fold", "groups"):
        return _codes(role, cells, what)
    if role == "time":
        return _times(kind, values, cells)
    if kind not in ("numeric", "boolean"):
        raise InputError(f"{what} has values that are not numbers, such as {shown(values[0])}")
    wrong = np.flatnonzero(~np.isfinite(values) | (values < 0))[:1]
    if wrong.size or not values.any():
        where = (
            f"{values[wrong[0]]:g} in {rows_text(cells.index[wrong])}" if wrong.size else "all 0"
        )
        raise InputError(f"{what} is {where}; weights must be finite, not negative and not all 0")
    lowest, highest = values.min(), values.max()
    return values, f"{column} holds sample weights from {lowest:g} to {highest:g}"


def _codes(role: str, cells: pd.Series, what: str) -> tuple[NDArray[np.intp], str]:
    """Number folds or groups in the order of strings, which is the same in all formats."""
    texts = as_texts(cells).astype(str)
    names, codes, sizes = np.unique(texts, return_inverse=True, return_counts=True)
    if len(names) == 1:
        raise InputError(f"{what} is {shown(names[0])} in every row; at least two are needed")
    if role == "groups" and len(names) == len(cells):
        raise InputError(f"{what} has another value in every row; choose a column that repeats")
    together = ", which stay together in all folds" if role == "groups" else ""
    found = f"{len(names)} {role.removesuffix('s')}s of {sizes.min()} to {sizes.max()} rows"
    return codes, f"column '{cells.name}' defines {found}{together}"


def _times(kind: str, values: NDArray[Any], cells: pd.Series) -> tuple[NDArray[np.float64], str]:
    """Convert dates to days since 1970; numbers stay as they are."""
    what = f"time '{cells.name}'"
    if kind not in ("date", "numeric") or (kind == "numeric" and np.isinf(values).any()):
        raise InputError(
            f"{what} has values such as {shown(cells.iloc[0])}, which are neither numbers nor "
            "dates in the form 2024-01-31 or 2024-01-31 12:30"
        )
    ends = [
        str(each)[:10] if kind == "date" else f"{each:g}" for each in (values.min(), values.max())
    ]
    if values.min() == values.max():
        raise InputError(f"{what} is '{ends[0]}' in every row; at least two times are needed")
    if kind == "date":
        values = values.astype("datetime64[us]").astype(np.int64) / 86_400e6
    note = f"orders the rows in time, from {ends[0]} to {ends[1]}, and is not a feature"
    return values, f"column '{cells.name}' {note}"


def describe(
    frame: pd.DataFrame,
) -> tuple[pd.DataFrame, tuple[Column, ...], list[str], pd.DataFrame]:
    """Return the columns to use, the types of all, notes, and the identifiers.

    The index of the frame is the position of a row in the data, from 0.
    """
    columns, cells = infer(frame, rows=frame.index.to_numpy())
    used = {column.name: cells[column.name] for column in columns if column.kind in USED}
    if not used:
        reasons = "; ".join(_left_out(columns)) or "there is none beside the labels"
        raise InputError(f"no column can be used as a feature: {reasons}")
    notes = column_notes(columns)
    for name, values in used.items():
        places = places_of_text(values) if values.dtype == object else np.zeros(0, int)
        if 0 < len(places) <= NEARLY_NUMERIC * (~pd.isna(values)).sum():
            first = f"{shown(values[places[0]])} in {rows_text(frame.index[places[:1]])}"
            notes.append(
                f"column '{name}' is numeric except for {_count(len(places), 'cell')}, the first "
                f"{first}, and is treated as categorical; empty these cells if it is numeric"
            )
    identifiers = {each.name: cells[each.name] for each in columns if each.kind == "identifier"}
    index = range(len(frame))
    return pd.DataFrame(used), tuple(columns), notes, pd.DataFrame(identifiers, index=index)


def column_notes(columns: Sequence[Column]) -> list[str]:
    """Write notes on the types of columns, on those left out and on missing values."""
    counts = [(sum(column.kind == kind for column in columns), kind) for kind in USED]
    found = ", ".join(f"{count} {kind}" for count, kind in counts if count)
    notes = [f"{sum(count for count, _ in counts)} of {len(columns)} columns are used: {found}"]
    notes += [
        f"column '{column.name}' has {column.n_distinct} categories: the {MAX_CATEGORIES - 1} most "
        "frequent ones in the training rows have one indicator column each, the others share one"
        for column in columns
        if column.kind == "categorical" and column.n_distinct > MAX_CATEGORIES
    ]
    notes += _left_out(columns)
    if with_gaps := [column for column in columns if column.n_missing and column.kind in USED]:
        missing = _count(sum(column.n_missing for column in with_gaps), "missing value")
        where = f"{_count(len(with_gaps), 'column')} ({quoted(each.name for each in with_gaps)})"
        notes.append(
            f"{missing} in {where}: the median of the training rows replaces numbers, with an "
            "indicator, and a missing category is a category of its own"
        )
    return notes


def _left_out(columns: Sequence[Column]) -> list[str]:
    """Write notes on the columns that are not used as features."""
    constant = [column for column in columns if column.kind == "constant"]
    reasons = {
        "empty": [column.name for column in constant if not column.n_distinct],
        "constant": [column.name for column in constant if column.n_distinct],
        "named or filled like an identifier": [c.name for c in columns if c.kind == "identifier"],
    }
    notes = []
    for reason, names in reasons.items():
        subject = f"column{'s' if len(names) > 1 else ''} {quoted(names)}"
        verb = "are" if len(names) > 1 else "is"
        notes += [f"{subject} {verb} {reason} and left out"] if names else []
    return notes


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


BUNDLED = ("breast_cancer", "wine", "iris", "digits")


def bundled_table(name: str) -> Table:
    """Load one of the data sets in `BUNDLED`, with names of classes and features."""
    if name not in BUNDLED:
        raise InputError(f"There is no data set '{name}'. There are {', '.join(BUNDLED)}.")
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    X = pd.DataFrame(data.data, columns=data.feature_names)
    return as_table(X, data.target_names[data.target], name=name)
