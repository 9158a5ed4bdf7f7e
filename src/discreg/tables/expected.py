"""Columns that a model was fitted to, and their check in new rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
from numpy.typing import NDArray

from discreg.base.errors import InputError

from .column_types import USED, Kind, as_kinds
from .formats import nearest, quoted

if TYPE_CHECKING:
    from .table import Table

__all__ = ["ExpectedColumns", "check_columns", "checked_cells", "expected_columns"]


@dataclass(frozen=True)
class ExpectedColumns:
    """Columns that a model was fitted to; ``dataclasses.asdict`` converts them for JSON."""

    kinds: dict[str, Kind]  # column name to type, in order; empty for sparse data
    n_features: int
    first_index: int = 0  # index of the first feature in svmlight files


def expected_columns(table: Table) -> ExpectedColumns:
    """Return the columns that a model of this table is fitted to."""
    kinds = {column.name: column.kind for column in table.columns if column.kind in USED}
    return ExpectedColumns(kinds, table.X.shape[1], table.first_index)


def check_columns(frame: pd.DataFrame, kinds: Mapping[str, Kind]) -> pd.DataFrame:
    """Select the expected columns of a frame and convert them to the expected types.

    Other columns, such as the target or unused columns, are ignored.
    """
    return pd.DataFrame(checked_cells(frame, kinds))


def checked_cells(frame: pd.DataFrame, kinds: Mapping[str, Kind]) -> dict[str, NDArray[Any]]:
    """Select the expected columns of a frame; return their cells in the expected types."""
    missing = [name for name in kinds if name not in frame]
    if missing:
        others = [str(name) for name in frame if name not in kinds]
        candidates = ((name, nearest(name, others)) for name in missing[:8])
        hints = [f"; is '{near}' the column '{name}'?" for name, near in candidates if near]
        raise InputError(
            f"{len(missing)} of {len(kinds)} columns are missing: {quoted(missing)}"
            + "".join(hints[:1])
        )
    return as_kinds(frame, kinds)
