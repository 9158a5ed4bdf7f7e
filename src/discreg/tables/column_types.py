"""Column types of a table: numeric, boolean, categorical, constant or identifier.

A parsed column is an array: floats for numeric columns, 0.0 and 1.0 for boolean columns, strings
for categorical columns. A missing cell is NaN in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg.base.errors import InputError

from .formats import MISSING, UNTITLED, quoted

__all__ = [
    "MAX_CATEGORIES",
    "TRUE_AND_FALSE",
    "USED",
    "Column",
    "Kind",
    "as_categories",
    "as_texts",
    "describe",
    "parse",
    "places_of_text",
    "refuse_infinite",
]

Kind = Literal["numeric", "boolean", "categorical", "constant", "identifier"]
USED: tuple[Kind, ...] = ("numeric", "boolean", "categorical")
TRUE_AND_FALSE = {"true": 1.0, "false": 0.0}
MAX_CATEGORIES = 50  # per column; rarer categories share an indicator
# A text column is an identifier if at least this fraction of its cells is distinct.
IDENTIFIER_SHARE = 0.9
# An integer column of distinct values is an identifier if it counts the rows or has one of these
# names. Fewer rows can be in order by chance.
COUNTER_NAMES = ("id", "index")
COUNTER_BEGINNINGS = (UNTITLED.lower(), "__index_level_")
COUNTER_ROWS = 10
# Whole numbers and days in the forms "3.0" and "2024-01-31 00:00:00".
WHOLE = re.compile(r"([-+]?\d{1,15})\.0+")
DAY = re.compile(r"(\d{4}-\d\d-\d\d)[ T]00:00:00(?:\.0+)?")


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
    if pd.api.types.is_numeric_dtype(column.dtype) and not is_category:
        kind: Kind = "boolean" if pd.api.types.is_bool_dtype(column.dtype) else "numeric"
        return kind, column.to_numpy(dtype=np.float64, na_value=np.nan)
    codes, vocabulary = _vocabulary(column)
    present = [text.lower() for text in vocabulary if isinstance(text, str)]
    if present and TRUE_AND_FALSE.keys() >= set(present):
        truths = [TRUE_AND_FALSE.get(str(text).lower(), np.nan) for text in vocabulary]
        return "boolean", np.array(truths)[codes]
    numbers = _numbers(vocabulary)
    # A declared category stays one, even if its values are digits.
    if not is_category and (~np.isnan(numbers)).sum() == len(present):
        return "numeric", numbers[codes]
    return "categorical", _categories(vocabulary)[codes]


def as_categories(column: pd.Series) -> NDArray[Any]:
    """Convert cells to categories: 3 and 3.0 are the same, as are a day and its midnight."""
    codes, vocabulary = _vocabulary(column)
    return _categories(vocabulary)[codes]


def _categories(vocabulary: NDArray[Any]) -> NDArray[Any]:
    """Normalise strings, so that all file formats give the same categories."""
    categories = vocabulary.copy()
    for place, text in enumerate(vocabulary[:-1]):
        if isinstance(text, str) and (written := WHOLE.fullmatch(text) or DAY.fullmatch(text)):
            categories[place] = written[1]
    return categories


def as_texts(column: pd.Series) -> NDArray[Any]:
    """Convert the cells of a column to strings; 3 and 3.0 give the same string."""
    codes, vocabulary = _vocabulary(column)
    return vocabulary[codes]


def _vocabulary(column: pd.Series) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the code of each cell and the strings; the last, NaN, has the code -1."""
    codes, values = pd.factorize(column)
    vocabulary = np.empty(len(values) + 1, dtype=object)
    vocabulary[:-1] = [_as_text(value) for value in values]
    vocabulary[-1] = np.nan
    return codes, vocabulary


def _as_text(value: Any) -> Any:
    if isinstance(value, float | np.floating) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    return np.nan if text in MISSING else text


def _numbers(texts: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(
        pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").to_numpy(np.float64)
    )


def places_of_text(values: NDArray[Any]) -> NDArray[np.intp]:
    """Find the cells of a categorical column that are not numbers."""
    return np.flatnonzero(~pd.isna(values) & np.isnan(_numbers(values)))


def refuse_infinite(name: object, values: NDArray[Any], rows: pd.Index) -> None:
    """Raise an error if a numeric column has an infinite cell."""
    if values.dtype.kind == "f" and np.isinf(values).any():
        row = rows[np.flatnonzero(np.isinf(values))[0]] + 1
        raise InputError(
            f"column '{name}' is infinite in row {row}; correct the value or empty the cell"
        )


def describe(frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Column, ...], list[str]]:
    """Parse the columns of a frame; return the columns to use, all column types, and notes.

    The index of the frame is the position of a row in the file, from 0.
    """
    columns: list[Column] = []
    used: dict[str, NDArray[Any]] = {}
    doubts: list[str] = []
    for name, cells in frame.items():
        kind, values = parse(cells)
        refuse_infinite(name, values, frame.index)
        if kind == "categorical":
            doubts += _almost_numeric(str(name), values, frame.index)
        column = _column(str(name), kind, values, frame.index)
        columns.append(column)
        if column.kind in USED:
            used[column.name] = values
    notes = [*_kinds_found(columns), *doubts, *_left_out(columns), *_gaps(columns)]
    if not used:
        raise InputError(f"no column can be used as a feature: {'; '.join(_left_out(columns))}")
    return pd.DataFrame(used), tuple(columns), notes


def _column(name: str, kind: Kind, values: NDArray[Any], rows: pd.Index) -> Column:
    missing = pd.isna(values)
    n_distinct, n_missing = len(pd.unique(values[~missing])), int(missing.sum())
    if n_distinct < 2:
        kind = "constant"
    elif kind == "categorical":
        if n_distinct >= IDENTIFIER_SHARE * (len(values) - n_missing):
            kind = "identifier"
    elif kind == "numeric" and n_distinct == len(values) and _counts(name, values, rows):
        kind = "identifier"
    return Column(name, kind, n_distinct, n_missing)


def _counts(name: str, values: NDArray[np.float64], rows: pd.Index) -> bool:
    """Return whether distinct numbers count the rows; in a sorted file they reveal the labels."""
    if len(values) < COUNTER_ROWS or (values != np.round(values)).any():
        return False
    name = name.lower()
    has_such_a_name = name in COUNTER_NAMES or name.startswith(COUNTER_BEGINNINGS)
    return has_such_a_name or bool(np.ptp(values - rows.to_numpy()) == 0)


def _almost_numeric(name: str, values: NDArray[Any], rows: pd.Index) -> list[str]:
    """Write a note if a column would be numeric without a few cells of text."""
    places = places_of_text(values)
    if not 0 < len(places) <= 0.1 * (~pd.isna(values)).sum():
        return []
    first = places[0]
    return [
        f"column '{name}' is numeric except for {_count(len(places), 'cell')}, the first "
        f"'{values[first]}' in row {rows[first] + 1}, and is treated as categorical; empty these "
        "cells if the column should be numeric"
    ]


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _kinds_found(columns: Sequence[Column]) -> list[str]:
    counts = [(kind, sum(column.kind == kind for column in columns)) for kind in USED]
    found = ", ".join(f"{count} {kind}" for kind, count in counts if count)
    notes = [f"{sum(count for _, count in counts)} of {len(columns)} columns are used: {found}"]
    categorical = [column for column in columns if column.kind == "categorical"]
    if categorical:
        n_indicators = sum(min(column.n_distinct, MAX_CATEGORIES) for column in categorical)
        are, become = ("is", "becomes") if len(categorical) == 1 else ("are", "become")
        notes.append(
            f"{_count(len(categorical), 'column')} {are} categorical and {become} up to "
            f"{n_indicators} indicator columns"
        )
    notes += [
        f"column '{column.name}' has {column.n_distinct} categories: the {MAX_CATEGORIES - 1} most "
        "frequent ones in the training rows have one indicator column each, the others share one"
        for column in categorical
        if column.n_distinct > MAX_CATEGORIES
    ]
    return notes


def _left_out(columns: Sequence[Column]) -> list[str]:
    empty = [column.name for column in columns if column.n_distinct == 0]
    constant = [column.name for column in columns if column.n_distinct == 1]
    identifiers = [column.name for column in columns if column.kind == "identifier"]
    notes = [
        f"{_subject(names)} {word} and left out"
        for names, word in ((empty, "empty"), (constant, "constant"))
        if names
    ]
    if identifiers:
        are = "is" if len(identifiers) == 1 else "are"
        notes.append(
            f"{_subject(identifiers, 'has', 'have')} a different value in nearly every row, like "
            f"an identifier, and {are} left out"
        )
    return notes


def _subject(names: Sequence[str], one: str = "is", many: str = "are") -> str:
    """Write the subject of a sentence on columns, with its verb."""
    return f"column '{names[0]}' {one}" if len(names) == 1 else f"columns {quoted(names)} {many}"


def _gaps(columns: Sequence[Column]) -> list[str]:
    """Write a note on the missing values of the columns that are used."""
    with_gaps = [column for column in columns if column.n_missing and column.kind in USED]
    if not with_gaps:
        return []
    n_missing = sum(column.n_missing for column in with_gaps)
    return [
        f"{_count(n_missing, 'missing value')} in {_count(len(with_gaps), 'column')} "
        f"({quoted(column.name for column in with_gaps)}), replaced by the median or the most "
        "frequent value of the training rows"
    ]
