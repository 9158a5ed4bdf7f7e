"""Class labels of a table: their conversion, and targets that are not classes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg.base.errors import InputError

from .column_types import as_texts, parse
from .formats import MISSING, quoted

__all__ = ["parse_labels", "repeated", "rows_text"]

PLAIN = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.0+)?")
MANY_NUMBERS = 20  # more distinct numbers than this are classes only if they repeat
ALONE = 0.1  # largest share of numbers with one row only, if the numbers are classes


def parse_labels(column: pd.Series, target: str) -> NDArray[Any]:
    """Convert labels to integers if they are whole numbers, otherwise to strings.

    Labels of a boolean type stay booleans, so that predictions can be compared with them.
    """
    column = column.reset_index(drop=True)
    if pd.api.types.is_bool_dtype(column) and not column.isna().any():
        return np.asarray(column, dtype=bool)
    kind, values = parse(column)
    missing = np.flatnonzero(pd.isna(values))
    if missing.size:
        raise InputError(
            f"target '{target}' is missing in {missing.size} of {len(column)} rows "
            f"({rows_text(missing)}); complete or remove them ({quoted(MISSING[1:], at_most=20)} "
            "and empty cells count as missing)"
        )
    if kind != "numeric":
        return as_texts(column).astype(str)
    _refuse_scores(values, target)
    texts = as_texts(column).astype(str)
    return values.astype(np.int64) if _are_plain(texts) else texts


def _refuse_scores(values: NDArray[np.float64], target: str) -> None:
    """Raise an error if numbers measure something instead of naming classes."""
    numbers, counts = np.unique(values, return_counts=True)
    if len(numbers) <= MANY_NUMBERS:
        return
    is_whole = bool(np.isfinite(values).all()) and bool((values == np.round(values)).all())
    hardly_repeats = len(numbers) > len(values) / 2 or (counts == 1).mean() > ALONE
    if is_whole and not hardly_repeats:
        return
    shown = ", ".join(f"{number:g}" for number in pd.unique(values)[:3])
    noun = "score, not classes" if is_whole else "measured quantity, not classes"
    raise InputError(
        f"target '{target}' has {len(numbers)} different numbers in {len(values)} rows ({shown}, "
        f"...): this looks like a {noun}. Choose a column of classes, or divide the numbers into "
        "classes such as 'low' and 'high'"
    )


def _are_plain(texts: NDArray[np.str_]) -> bool:
    """Return whether all are whole numbers without leading zeros: 007 and 7 must differ."""
    return all(PLAIN.fullmatch(text) for text in np.unique(texts).tolist())


def rows_text(places: NDArray[np.intp], *, at_most: int = 5) -> str:
    """Write the numbers of the first few rows, counted from 1."""
    shown = ", ".join(str(place + 1) for place in places[:at_most])
    more = f" and {len(places) - at_most} more" if len(places) > at_most else ""
    return f"{'row' if len(places) == 1 else 'rows'} {shown}{more}"


def repeated(
    y: NDArray[Any], target: str, training: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.bool_], list[str]]:
    """Find the rows of classes with at least two (training) rows; write a note on the others."""
    classes, codes = np.unique(y, return_inverse=True)
    counts = np.bincount(codes, weights=training, minlength=len(classes)).astype(np.intp)
    if len(classes) == 1:
        raise InputError(
            f"target '{target}' has only one class, '{classes[0]}' ({len(y)} rows); at least two "
            "are needed"
        )
    kept = counts[codes] > 1
    of_training = "" if training is None else "training "
    if (counts > 1).sum() < 2:
        raise InputError(
            f"target '{target}' has {len(classes)} classes in {len(y)} rows, and "
            f"{'none' if not kept.any() else 'only one'} of them has two {of_training}rows or "
            "more; at least two such classes are needed"
        )
    if kept.all():
        return kept, []
    alone = classes[counts < 2]
    which = f"class {quoted(alone)} has" if len(alone) == 1 else f"classes {quoted(alone)} have"
    number = "only one row" if training is None else "fewer than two training rows"
    return kept, [f"{which} {number}, left out: {rows_text(np.flatnonzero(~kept))}"]
