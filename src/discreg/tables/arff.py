"""Reader of ARFF files with numeric, nominal, string and date attributes.

Sparse rows (``{0 1, 3 2}``) and relational attributes are not supported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from discreg.base.errors import InputError

__all__ = ["parse_arff"]

QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
ATTRIBUTE = re.compile(rf"@attribute\s+({QUOTED}|[^\s{{]+)\s*(.+)", re.IGNORECASE)
NOMINAL = re.compile(r"\{(.*)\}\s*(?:%.*)?")
CELL = re.compile(rf"\s*({QUOTED}|[^,'\"]*)\s*(,|$)")
NUMERIC = ("numeric", "real", "integer")
TEXT = ("string", "date")


class Attribute(NamedTuple):
    """A declared column."""

    name: str
    kind: str  # one of NUMERIC, one of TEXT, or "nominal"
    values: tuple[str, ...] = ()  # of a nominal attribute


def parse_arff(text: str) -> pd.DataFrame:
    """Parse an ARFF file into columns of floats, categories (nominal attributes) or strings."""
    lines = _lines(text)
    attributes = _attributes(lines)
    numbers, rows = [], []
    for number, line in lines:
        if line.startswith("{"):
            raise InputError(
                f"line {number} is a sparse row, which is not supported; save the file as svmlight "
                "or as dense ARFF"
            )
        cells = _cells(line, number)
        if len(cells) != len(attributes):
            raise InputError(
                f"line {number} should have {len(attributes)} cells, one per attribute, but has "
                f"{len(cells)}"
            )
        numbers.append(number)
        rows.append(cells)
    columns = zip(*rows, strict=True) if rows else [()] * len(attributes)
    return pd.DataFrame(
        {
            attribute.name: _column(attribute, cells, numbers)
            for attribute, cells in zip(attributes, columns, strict=True)
        }
    )


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield line numbers and lines, without empty lines and comments."""
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip()
        if line and not line.startswith("%"):
            yield number, line


def _attributes(lines: Iterator[tuple[int, str]]) -> list[Attribute]:
    """Read the declarations up to @data; the iterator then continues with the data."""
    attributes: list[Attribute] = []
    for number, line in lines:
        keyword = line.split(maxsplit=1)[0].lower()
        if keyword == "@data":
            if not attributes:
                raise InputError(f"no @attribute is declared before @data in line {number}")
            return attributes
        if keyword == "@attribute":
            attributes.append(_attribute(line, number))
            if attributes[-1].name in {each.name for each in attributes[:-1]}:
                raise InputError(
                    f"line {number} declares '{attributes[-1].name}' a second time; two columns "
                    "cannot have the same name"
                )
        elif keyword != "@relation":
            raise InputError(
                f"line {number} is not ARFF: @relation, @attribute or @data is expected, not "
                f"'{line[:40]}'"
            )
    raise InputError("the file has no @data")


def _attribute(line: str, number: int) -> Attribute:
    found = ATTRIBUTE.fullmatch(line)
    if found is None:
        raise InputError(f"line {number}: '@attribute name type' is expected, not '{line[:60]}'")
    name, kind = _unquoted(found[1]), found[2].strip()
    nominal = NOMINAL.fullmatch(kind)
    if nominal:
        values = _cells(nominal[1], number)
        return Attribute(name, "nominal", tuple(value for value in values if value is not None))
    kind = kind.split()[0].lower()
    if kind not in (*NUMERIC, *TEXT):
        raise InputError(f"line {number}: attributes of type '{kind}' are not supported")
    return Attribute(name, kind)


def _cells(line: str, number: int) -> list[str | None]:
    """Split a line into cells; a missing cell is None."""
    if "'" not in line and '"' not in line:
        cells = [cell.strip() for cell in line.split(",")]
        return [None if cell == "?" else cell for cell in cells]
    found: list[str | None] = []
    place, divider = 0, ","
    while divider == ",":
        cell = CELL.match(line, place)
        if cell is None:
            raise InputError(f"line {number} has an unclosed quote, or text next to a quote")
        text, divider = cell[1].strip(), cell[2]
        found.append(None if text == "?" else _unquoted(text))
        place = cell.end()
    return found


def _unquoted(text: str) -> str:
    if text[:1] in ("'", '"'):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def _column(attribute: Attribute, cells: Sequence[str | None], numbers: Sequence[int]) -> Any:
    if attribute.kind in TEXT:
        return np.array(cells, dtype=object)
    if attribute.kind == "nominal":
        declared = list(dict.fromkeys(attribute.values))
        known = [cell if cell in attribute.values else None for cell in cells]
        column = pd.Categorical(known, categories=declared)
        expected = f"one of the declared values of '{attribute.name}'"
    else:
        column = pd.to_numeric(np.array(cells, dtype=object), errors="coerce").astype(np.float64)
        expected = f"a number, as '{attribute.name}' is {attribute.kind}"
    wrong = np.flatnonzero(pd.isna(column) & ~pd.isna(np.array(cells, dtype=object)))
    if wrong.size:
        raise InputError(f"line {numbers[wrong[0]]}: '{cells[wrong[0]]}' is not {expected}")
    return column
