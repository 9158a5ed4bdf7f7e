"""Column types of a table: numeric, boolean, date, categorical, text, constant or identifier.

A parsed column is an array: floats for numeric columns, 0.0 and 1.0 for boolean columns, datetime64
in UTC for dates, strings for categories and texts. A missing cell is NaN, in dates NaT. Spaces
around a string are no part of it, so that a cell of spaces is missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg.base.errors import InputError

from .frames import MISSING, UNTITLED, nearest, quoted, rows_text, shown

Kind = Literal["numeric", "boolean", "date", "categorical", "text", "constant", "identifier"]
USED: tuple[Kind, ...] = ("numeric", "boolean", "date", "categorical", "text")
TRUE_AND_FALSE = {"true": 1.0, "false": 0.0}
TRUTHS = {**TRUE_AND_FALSE, "1": 1.0, "0": 0.0}
MAX_CATEGORIES = 50  # per column; rarer categories share an indicator
# Strings of this many words that hardly repeat are texts.
TEXT_WORDS = 3
# A column of other strings is an identifier if at least this fraction of its cells is distinct.
IDENTIFIER_SHARE = 0.9
# Strings and whole numbers in a column with such a name are identifiers: id, patient_id, orderID.
IDENTIFIER_NAME = re.compile(r"(?:.*[\W_])?(?i:id|uuid|guid)|.*[a-z](?:Id|ID)")
# An integer column of distinct values is an identifier if it counts the rows or has such a name.
# Fewer rows can be in order by chance.
COUNTER_NAME = re.compile(rf"index|{UNTITLED}.*|__index_level_.*", re.IGNORECASE)
COUNTER_ROWS = 10
# Whole numbers and days in the forms "3.0" and "2024-01-31 00:00:00".
WHOLE = re.compile(r"([-+]?\d{1,15})\.0+")
DAY = re.compile(r"(\d{4}-\d\d-\d\d)[ T]00:00:00(?:\.0+)?")
DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[-+]\d\d(?::?\d\d)?)?)?"
)
MISSING_DATE = np.datetime64("NaT", "us")


@dataclass(frozen=True)
class Column:
    """Name, type and counts of a column of a table."""

    name: str
    kind: Kind
    n_distinct: int
    n_missing: int


def parse(column: pd.Series) -> tuple[Kind, NDArray[Any]]:
    """Infer the type of a column from its cells and convert the cells to that type."""
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    if getattr(column.dtype, "kind", "O") in "mM":
        return _parse_times(column)
    if pd.api.types.is_complex_dtype(column.dtype):
        raise InputError(f"column '{column.name}' has complex numbers; use their parts")
    if pd.api.types.is_numeric_dtype(column.dtype) and not is_category:
        kind: Kind = "boolean" if pd.api.types.is_bool_dtype(column.dtype) else "numeric"
        return kind, column.to_numpy(dtype=np.float64, na_value=np.nan)
    codes, vocabulary = _vocabulary(column)
    # A declared category stays one, even if its values are digits.
    kinds: tuple[Kind, ...] = ("boolean",) if is_category else ("numeric", "boolean", "date")
    is_empty = len(vocabulary) == 1
    for kind in () if is_empty and is_category else kinds:
        values, _ = _converted(vocabulary, kind, TRUE_AND_FALSE)
        if (pd.isna(values) == pd.isna(vocabulary)).all():
            return kind, values[codes]
    return "categorical", _categories(vocabulary)[codes]


def _parse_times(column: pd.Series) -> tuple[Kind, NDArray[Any]]:
    if column.dtype.kind == "M":
        return "date", column.to_numpy("datetime64[us]", na_value=MISSING_DATE)
    values = column.to_numpy("timedelta64[us]", na_value=np.timedelta64("NaT", "us"))
    return "numeric", values / np.timedelta64(1, "D")  # days


def as_kind(column: pd.Series, kind: Kind) -> NDArray[Any]:
    """Convert the cells of a column to a type; raise an error if that is not possible."""
    if kind == "categorical":
        return as_categories(column)
    if kind == "text":
        return as_texts(column)
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)  # a declared category may contain numbers
    found, values = parse(column)
    if found != kind and (kind, found) != ("numeric", "boolean"):
        texts = as_texts(column)
        values, expected = _converted(texts, kind)
        wrong = np.flatnonzero(pd.isna(values) & ~pd.isna(texts))
        if wrong.size:
            cell = f"text {shown(texts[wrong[0]])} in {rows_text(wrong[:1])}"
            raise InputError(f"column '{column.name}' contains {cell} where {expected} expected")
    _refuse_infinite(column.name, values, np.arange(len(values)))
    return values


def checked_cells(frame: pd.DataFrame, kinds: Mapping[str, Kind]) -> dict[str, NDArray[Any]]:
    """Select the expected columns of a frame; return their cells in the expected types.

    Other columns, such as the target or unused columns, are ignored.
    """
    if missing := [name for name in kinds if name not in frame]:
        others = [str(name) for name in frame if name not in kinds]
        pairs = [(name, nearest(name, others)) for name in missing[:8]]
        hint = next((f"; is '{near}' the column '{name}'?" for name, near in pairs if near), "")
        number = f"{len(missing)} of {len(kinds)} columns are missing"
        raise InputError(f"{number}: {quoted(missing)}{hint}")
    return {name: as_kind(frame[name], kind) for name, kind in kinds.items()}


def _converted(
    texts: NDArray[Any], kind: Kind, truths: Mapping[str, float] = TRUTHS
) -> tuple[NDArray[Any], str]:
    """Convert strings to a type, with NaN or NaT where that is not possible."""
    if kind == "boolean":
        found = [truths.get(str(text).lower(), np.nan) for text in texts]
        return np.array(found, dtype=np.float64), "true or false was"
    if kind == "date":
        return _dates(texts), "dates such as 2024-01-31 were"
    return _numbers(texts), "numbers were"


def as_categories(column: pd.Series) -> NDArray[Any]:
    """Convert cells to categories: 3 and 3.0 are the same, as are a day and its midnight."""
    codes, vocabulary = _vocabulary(column)
    return _categories(vocabulary)[codes]


def _categories(vocabulary: NDArray[Any]) -> NDArray[Any]:
    """Normalise strings, so that all file formats give the same categories."""
    categories = vocabulary.copy()
    for place, text in enumerate(vocabulary[:-1]):
        if isinstance(text, str) and (written := WHOLE.fullmatch(text) or DAY.fullmatch(text)):
            categories[place] = "0" if written[1] == "-0" else written[1]
    return categories


def as_texts(column: pd.Series) -> NDArray[Any]:
    """Convert the cells of a column to strings; 3 and 3.0 give the same string."""
    codes, vocabulary = _vocabulary(column)
    return vocabulary[codes]


def _vocabulary(column: pd.Series) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the code of each cell and the strings; the last, NaN, has the code -1."""
    if column.dtype == object and pd.api.types.infer_dtype(column, skipna=True).startswith("mixed"):
        # Beside numbers, True would be equal to 1.
        column = column.map(lambda cell: str(cell) if isinstance(cell, bool | np.bool_) else cell)
    try:
        codes, values = pd.factorize(column)
        texts = [_as_text(value) for value in values]
    except (TypeError, ValueError, OverflowError) as error:  # lists; integers of many digits
        kinds = "neither numbers, booleans, strings nor dates"
        raise InputError(f"column '{column.name}' has cells that are {kinds}: {error}") from error
    vocabulary = np.empty(len(values) + 1, dtype=object)
    vocabulary[:-1] = texts
    vocabulary[-1] = np.nan
    return codes, vocabulary


def _as_text(value: Any) -> Any:
    if isinstance(value, float | np.floating) and value.is_integer():
        value = int(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    text = str(value).strip()
    text.encode()  # raises an error for half of a character
    return np.nan if text in MISSING else text


def _numbers(texts: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(
        pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").to_numpy(np.float64)
    )


def _dates(texts: NDArray[Any]) -> NDArray[np.datetime64]:
    return np.array([_as_date(text) for text in texts], dtype="datetime64[us]")


def _as_date(text: object) -> np.datetime64:
    """Convert a date in ISO format, with or without a time of day, to UTC."""
    if not isinstance(text, str) or DATE.fullmatch(text) is None:
        return MISSING_DATE
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # such as February 30th
        return MISSING_DATE
    return np.datetime64(moment, "us")


def places_of_text(values: NDArray[Any]) -> NDArray[np.intp]:
    """Find the cells of a categorical column that are not numbers."""
    return np.flatnonzero(~pd.isna(values) & np.isnan(_numbers(values)))


def _refuse_infinite(name: object, values: NDArray[Any], rows: NDArray[Any]) -> None:
    if values.dtype.kind == "f" and np.isinf(values).any():
        where = rows_text(rows[np.isinf(values)][:1])
        raise InputError(f"column '{name}' is infinite in {where}; correct or empty the cell")


def infer(
    frame: pd.DataFrame,
    kinds: Mapping[str, Kind] | None = None,
    rows: NDArray[np.intp] | None = None,
) -> tuple[list[Column], dict[str, NDArray[Any]]]:
    """Infer the types of all columns, except for those given, and parse the cells.

    The index of the frame orders the rows, for columns that count them. `rows` are their numbers in
    messages, by default their positions in the frame.
    """
    rows = np.arange(len(frame)) if rows is None else rows
    columns, cells = [], {}
    for name, series in frame.items():
        if kinds and name in kinds:
            kind = kinds[name]
            values = as_kind(series, kind)
        else:
            kind, values = parse(series)
            _refuse_infinite(name, values, rows)
        missing = pd.isna(values)
        column = Column(str(name), kind, len(pd.unique(values[~missing])), int(missing.sum()))
        if not kinds or name not in kinds:
            column = _described(column, values, series)
            if column.kind == "categorical" != kind:
                values = as_categories(series)
        columns.append(column)
        cells[column.name] = values
    return columns, cells


def _described(column: Column, values: NDArray[Any], series: pd.Series) -> Column:
    """Find out whether a column is constant, an identifier or a text."""
    n_present = len(values) - column.n_missing
    has_such_a_name = IDENTIFIER_NAME.fullmatch(column.name) is not None
    if column.n_distinct == 0 or (column.n_distinct == 1 and not column.n_missing):
        return replace(column, kind="constant")
    if column.n_distinct == 1:  # "yes" and blanks
        return replace(column, kind="identifier" if has_such_a_name else "categorical")
    if column.kind == "categorical":
        hardly_repeats = column.n_distinct >= IDENTIFIER_SHARE * n_present
        is_long = not isinstance(series.dtype, pd.CategoricalDtype) and _has_many_words(values)
        if is_long and (hardly_repeats or column.n_distinct > MAX_CATEGORIES):
            return replace(column, kind="text")
        if hardly_repeats or has_such_a_name:
            return replace(column, kind="identifier")
    if column.kind == "numeric" and _counts(column, values, series.index):
        return replace(column, kind="identifier")
    return column


def _has_many_words(values: NDArray[Any]) -> bool:
    """Return whether at least half of the strings consist of several words."""
    words = [len(text.split()) for text in pd.unique(values[~pd.isna(values)])]
    return bool(np.median(words) >= TEXT_WORDS)


def _counts(column: Column, values: NDArray[np.float64], rows: pd.Index) -> bool:
    """Return whether numbers name or count the rows; in a sorted file they reveal the labels."""
    present = values[~np.isnan(values)]
    if (present != np.round(present)).any():
        return False
    if IDENTIFIER_NAME.fullmatch(column.name):
        return True
    if column.n_distinct < max(len(values), COUNTER_ROWS):
        return False
    has_such_a_name = COUNTER_NAME.fullmatch(column.name) is not None
    return has_such_a_name or len(np.unique(values - rows.to_numpy())) == 1
