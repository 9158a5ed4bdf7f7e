"""Reader of Excel files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd

from discreg.base.errors import InputError

from .contents import Contents, FileBytes
from .names import MISSING, UNTITLED, intact, quoted, refuse_duplicates

__all__ = ["read_excel"]


def read_excel(file: FileBytes) -> Contents:
    """Read the first sheet that is not empty; its first row has the names of the columns."""
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise InputError(
            "Excel files need the package openpyxl: pip install 'discreg[compare]'"
        ) from error
    with intact("Excel file"):
        book = openpyxl.load_workbook(io.BytesIO(file.content), read_only=True, data_only=True)
        try:
            sheets = {sheet.title: _rows(sheet) for sheet in book.worksheets}
        finally:
            book.close()
    filled = [title for title, rows in sheets.items() if rows]
    if not filled:
        raise InputError("the file is empty")
    frame = _frame(filled[0], sheets[filled[0]])
    if len(filled) == 1:
        return Contents(frame)
    note = f"sheet '{filled[0]}' is read; the others are not: {quoted(filled[1:])}"
    return Contents(frame, notes=(note,))


def _rows(sheet: Any) -> list[list[Any]]:
    """Return the cells of the rows that are not empty; a missing cell is NaN."""
    rows = [
        [
            np.nan if cell is None or (isinstance(cell, str) and cell.strip() in MISSING) else cell
            for cell in row
        ]
        for row in sheet.iter_rows(values_only=True)
    ]
    return [row for row in rows if not pd.isna(pd.Series(row, dtype=object)).all()]


def _frame(title: str, rows: list[list[Any]]) -> pd.DataFrame:
    width = max(place + 1 for row in rows for place, cell in enumerate(row) if not pd.isna(cell))
    rows = [(row + [np.nan] * width)[:width] for row in rows]
    header, *cells = rows
    is_named = [not pd.isna(name) for name in header]
    if 2 * sum(is_named) < width:
        raise InputError(
            f"the first row of sheet '{title}' has {sum(is_named)} names for {width} columns; "
            "remove titles above the table"
        )
    names = [
        str(name).strip() if named else f"{UNTITLED}{place}"
        for place, (name, named) in enumerate(zip(header, is_named, strict=True))
    ]
    refuse_duplicates(names)
    frame = pd.DataFrame(cells, columns=names, dtype=object)
    return frame.infer_objects()
