"""The columns that a model is fitted to, and whether those of a new table fit it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg.base.errors import InputError

from .column_types import USED, Kind, as_categories, as_texts, first_text, parse, refuse_infinite
from .formats import nearest, quoted

if TYPE_CHECKING:
    from .table import Table

__all__ = ["ExpectedColumns", "check_columns", "expected_columns"]

TRUTHS = {"true": 1.0, "1": 1.0, "false": 0.0, "0": 0.0}


@dataclass(frozen=True)
class ExpectedColumns:
    """What a model was fitted to; ``dataclasses.asdict`` gives it as plain values for JSON."""

    kinds: dict[str, Kind]  # by name, in their order; empty for sparse data
    n_features: int
    first_index: int = 0  # of the features in svmlight files


def expected_columns(table: Table) -> ExpectedColumns:
    """The names and kinds of the columns that a model of this table is fitted to."""
    kinds = {column.name: column.kind for column in table.columns if column.kind in USED}
    return ExpectedColumns(kinds, table.X.shape[1], table.first_index)


def check_columns(frame: pd.DataFrame, expected: ExpectedColumns) -> pd.DataFrame:
    """The expected columns of a frame, in their order and as the kinds they should be.

    Other columns, such as a target or those that were left out, are ignored.
    """
    if not expected.kinds:
        raise InputError(
            f"the model was fitted to sparse data of {expected.n_features} features without "
            "names; a table with named columns does not fit it"
        )
    missing = [name for name in expected.kinds if name not in frame]
    if missing:
        others = [str(name) for name in frame if name not in expected.kinds]
        candidates = ((name, nearest(name, others)) for name in missing[:8])
        hints = [f"; is '{near}' meant to be '{name}'?" for name, near in candidates if near]
        raise InputError(
            f"{len(missing)} of {len(expected.kinds)} columns are missing: {quoted(missing)}"
            + "".join(hints[:1])
        )
    return pd.DataFrame(
        {name: _as_kind(name, frame[name], kind) for name, kind in expected.kinds.items()}
    )


def _as_kind(name: str, column: pd.Series, kind: Kind) -> NDArray[Any]:
    if kind == "categorical":
        return as_categories(column)
    return _as_truths(name, column) if kind == "boolean" else _as_numbers(name, column)


def _as_truths(name: str, column: pd.Series) -> NDArray[np.float64]:
    texts = as_texts(column)
    truths = np.array([TRUTHS.get(str(text).lower(), np.nan) for text in texts])
    wrong = np.flatnonzero(np.isnan(truths) & ~pd.isna(texts))
    if wrong.size:
        raise InputError(_misfit(name, texts, wrong[0], "true or false was"))
    return truths


def _as_numbers(name: str, column: pd.Series) -> NDArray[np.float64]:
    # What a file declares as categories are numbers to a model that was fitted to numbers.
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    kind, values = parse(column.astype(object) if is_category else column)
    if kind == "categorical":
        _, place = first_text(values)
        raise InputError(_misfit(name, values, place, "numbers were"))
    refuse_infinite(name, values, pd.RangeIndex(len(values)))
    return values


def _misfit(name: str, texts: NDArray[Any], place: int, expected: str) -> str:
    return (
        f"column '{name}' holds text '{texts[place]}' in row {place + 1} where {expected} expected"
    )
