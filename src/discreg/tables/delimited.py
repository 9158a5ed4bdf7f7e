"""Reader of text tables: cells separated by commas, semicolons, tabs, bars or spaces."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Collection, Iterator

import numpy as np
import pandas as pd

from discreg.base.errors import InputError

from .contents import Contents, FileBytes
from .names import MISSING, UNTITLED, quoted, refuse_duplicates

__all__ = ["read_csv", "read_delimited", "read_text_table"]

# Numbers between tabs: with a comma that cannot separate thousands, and with a point.
WITH_COMMA, WITH_POINT = (
    re.compile(rf"(?<![^\t\n])[-+]?(?:{number})(?=[\t\r\n]|$)")
    for number in (r"\d+,(?!\d{3}(?:\D|$))\d+|(?:0|\d{4})\d*,\d+", r"\d*\.\d+")
)
STATED = re.compile(r"\s*sep=(.)[ \t]*\r?\n", re.IGNORECASE)  # first line, as spreadsheets write it
QUOTED_NUMBER = re.compile(r"[-+]?\d+(?:,\d+)?")
GROUPED = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+(?:,\d+)?")


def read_csv(file: FileBytes) -> Contents:
    """Read cells separated by commas, semicolons, tabs or bars: the most frequent in the header."""
    return read_delimited(file, _delimiter(file.text(), ",;\t|"))


def read_text_table(file: FileBytes) -> Contents:
    """Read cells separated by the most frequent sign in the header, or else by spaces."""
    return read_delimited(file, _delimiter(file.text(), "\t;,| "))


def _delimiter(text: str, signs: str) -> str:
    stated = STATED.match(text)
    if stated:
        return stated[1]
    header, _, _ = text.lstrip("\r\n").partition("\n")
    unquoted = re.sub('"[^"]*"', "", header.strip())
    found = max((sign for sign in signs if sign != " "), key=unquoted.count)
    return found if " " not in signs or found in unquoted else " "


def read_delimited(file: FileBytes, delimiter: str = "\t") -> Contents:
    """Read cells separated by a delimiter."""
    text = STATED.sub("\n", file.text())
    _, header = next(_records(text, delimiter), (1, None))
    if header is None:
        raise InputError("the file is empty")
    names = [name.strip() or f"{UNTITLED}{place}" for place, name in enumerate(header)]
    refuse_duplicates(names)
    decimal = _decimal_sign(text, delimiter)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # more cells than the header
            frame = pd.read_csv(
                io.StringIO(text),
                sep=delimiter,
                # With a decimal comma, numbers with a point are read as text and converted when
                # the columns are parsed.
                decimal=decimal,
                header=0,
                names=names,
                index_col=False,
                dtype={name: str for name in names if name in file.text_columns},
                keep_default_na=False,
                na_values=list(MISSING),
                skipinitialspace=True,
                low_memory=False,
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
        if "EOF inside string" in str(error):
            *_, (line, _) = _records(text, delimiter)
            raise InputError(f"a quote in line {line} is not closed") from error
        _refuse_ragged_line(text, delimiter, len(names))
        raise InputError(f"the file is malformed: {error}") from error
    if frame.iloc[:, -1].isna().any():  # pandas fills short lines with NaN
        _refuse_ragged_line(text, delimiter, len(names))
    if decimal == ",":
        _refuse_thousands(frame.drop(columns=[*file.text_columns], errors="ignore"))
    notes = _convert_quoted_commas(frame, file.text_columns) if delimiter == "," else []
    return Contents(frame, notes=tuple(notes))


def _decimal_sign(text: str, delimiter: str) -> str:
    """Infer a decimal comma, as in spreadsheets: with semicolons, or with tabs and no point."""
    if delimiter == ";" and "," in text:
        return ","
    if delimiter == "\t" and WITH_COMMA.search(text) and not WITH_POINT.search(text):
        return ","
    return "."


def _refuse_thousands(frame: pd.DataFrame) -> None:
    """Raise an error if the points of a column may be decimal points or separate thousands."""
    for name, column in frame.items():
        if pd.api.types.is_numeric_dtype(column.dtype):
            continue
        cells = [cell.strip() for cell in column.dropna().unique() if isinstance(cell, str)]
        pointed = [cell for cell in cells if "." in cell]
        if pointed and all(map(THOUSANDS.fullmatch, pointed)):
            raise InputError(
                f"column '{name}' has cells such as '{pointed[0]}' in a file with decimal commas: "
                "does the point separate thousands? Write numbers without points"
            )


def _convert_quoted_commas(frame: pd.DataFrame, text_columns: Collection[str]) -> list[str]:
    """Convert columns of quoted numbers with a comma, such as "1,5", in place; write a note."""
    converted = []
    for name, column in frame.items():
        if name in text_columns or pd.api.types.is_numeric_dtype(column.dtype):
            continue
        cells = [cell.strip() for cell in column.dropna().unique() if isinstance(cell, str)]
        with_comma = [cell for cell in cells if "," in cell]
        if not with_comma or not all(map(QUOTED_NUMBER.fullmatch, cells)):
            continue
        if all(map(GROUPED.fullmatch, with_comma)):
            raise InputError(
                f"column '{name}' has cells such as '{with_comma[0]}': does the comma separate "
                "thousands or decimals? Write numbers without commas"
            )
        numbers = column.str.strip().str.replace(",", ".", regex=False)
        frame[name] = pd.to_numeric(numbers).astype(np.float64)
        converted.append(name)
    if not converted:
        return []
    return [f"the comma is the decimal sign of the quoted numbers in {quoted(converted)}"]


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of each record; slower than pandas, which has no lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"line {line} cannot be read; is a quote not closed? ({error})") from error


def _refuse_ragged_line(text: str, delimiter: str, n_columns: int) -> None:
    for line, cells in _records(text, delimiter):
        if len(cells) != n_columns:
            raise InputError(
                f"line {line} should have {n_columns} cells like the header, but has {len(cells)}"
            )
