"""Notes on the columns of a table: their types, what is left out, and missing values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
from numpy.typing import NDArray

from discreg.base.errors import InputError

from .column_types import MAX_CATEGORIES, USED, Column, infer, places_of_text
from .formats import quoted

__all__ = ["Described", "column_notes", "describe", "left_out"]


class Described(NamedTuple):
    """The parsed columns of a table."""

    X: pd.DataFrame  # columns to use
    columns: tuple[Column, ...]  # all columns
    notes: list[str]
    identifiers: pd.DataFrame  # columns that look like identifiers


def describe(frame: pd.DataFrame) -> Described:
    """Parse the columns of a frame.

    The index of the frame is the position of a row in the file, from 0.
    """
    columns, cells = infer(frame)
    used = {column.name: cells[column.name] for column in columns if column.kind in USED}
    if not used:
        raise InputError(f"no column can be used as a feature: {'; '.join(left_out(columns))}")
    doubts = [
        doubt
        for column in columns
        if cells[column.name].dtype == object
        for doubt in _almost_numeric(column.name, cells[column.name], frame.index)
    ]
    notes = [*column_notes(columns), *doubts]
    identifiers = {
        column.name: cells[column.name] for column in columns if column.kind == "identifier"
    }
    return Described(
        pd.DataFrame(used),
        tuple(columns),
        notes,
        pd.DataFrame(identifiers, index=range(len(frame))),
    )


def column_notes(columns: Sequence[Column]) -> list[str]:
    """Write notes on the types of columns, on those left out and on missing values."""
    return [*_kinds_found(columns), *left_out(columns), *_gaps(columns)]


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
        n_indicators = sum(
            min(column.n_distinct + (column.n_missing > 0), MAX_CATEGORIES)
            for column in categorical
        )
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


def left_out(columns: Sequence[Column]) -> list[str]:
    """Write notes on the columns that are not used as features."""
    empty = [column.name for column in columns if column.n_distinct == 0]
    constant = [column.name for column in columns if column.n_distinct == 1]
    identifiers = [column.name for column in columns if column.kind == "identifier"]
    notes = [
        f"{_subject(names)} {word} and left out"
        for names, word in ((empty, "empty"), (constant, "constant"))
        if names
    ]
    if identifiers:
        look = _subject(identifiers, "looks like an identifier", "look like identifiers")
        by, are = ("its", "is") if len(identifiers) == 1 else ("their", "are")
        notes.append(f"{look}, by {by} name or values, and {are} left out")
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
        f"({quoted(column.name for column in with_gaps)}): the median of the training rows "
        "replaces numbers, with an indicator, and a missing category is a category of its own"
    ]
