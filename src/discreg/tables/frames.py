"""Data frames of pandas and polars, and names, cells and rows as messages write them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from discreg.base.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


# Without "None", which is more often a category ("no garage") than a missing value.
MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "NULL", "null")
UNTITLED = "Unnamed: "  # pandas' name of a column without a name, followed by its position
LONGEST = 60  # characters of a name or a cell in a message


def _origin(X: object) -> set[tuple[str, str]]:
    """Return package and name of the classes of X."""
    return {(base.__module__.split(".")[0], base.__name__) for base in type(X).__mro__}


def is_frame(X: object) -> bool:
    """Return whether X is a data frame of pandas or polars.

    Raises
    ------
    InputError
        If X is not a table but can be made one: a series, a lazy frame or a dictionary.
    """
    origin = _origin(X)
    advice = {
        ("pandas", "Series"): "For one row write X.to_frame().T, for one column X.to_frame().",
        ("polars", "Series"): "For one column write X.to_frame().",
        ("polars", "LazyFrame"): "Write X.collect().",
        ("pyarrow", "Table"): "Write X.to_pandas().",
        ("pyarrow", "RecordBatch"): "Write X.to_pandas().",
        ("builtins", "dict"): "Write pandas.DataFrame(X).",
    }
    # One of the formats of sparse arrays is a dictionary.
    for kind in () if sparse.issparse(X) else origin & advice.keys():
        raise InputError(f"X is a {kind[1]} and not a data frame. {advice[kind]}")
    return bool(origin & {("pandas", "DataFrame"), ("polars", "DataFrame")})


def as_pandas(X: Any) -> pd.DataFrame:
    """Return a frame of pandas with strings as column names and the positions of rows as index.

    An index of integers is kept: in part of a table, it holds the positions in the whole table.
    """
    import pandas as pd

    names = [str(name) for name in X.columns]
    refuse_duplicates(names)
    if not isinstance(X, pd.DataFrame):
        columns = (_polars_column(column) for column in X.iter_columns())
        return pd.DataFrame(dict(zip(names, columns, strict=True)), index=range(len(X)))
    has_positions = pd.api.types.is_integer_dtype(X.index)
    frame = X.copy(deep=False) if has_positions else X.reset_index(drop=True)
    frame.columns = pd.Index(names, dtype=object)
    arrow = [name for name in frame if isinstance(frame[name].dtype, pd.ArrowDtype)]
    return frame.assign(**{name: _from_arrow(frame[name]) for name in arrow}) if arrow else frame


def _from_arrow(column: pd.Series) -> pd.Series:
    """Convert a column with a type of Arrow to one of NumPy."""
    import pyarrow as pa

    values = pa.array(column).to_pandas(timestamp_as_object=False)
    return values.set_axis(column.index).rename(column.name)


def _polars_column(column: Any) -> pd.Series:
    """Convert a column of polars; for a whole frame, polars would need pyarrow."""
    import pandas as pd

    kind = column.dtype.base_type().__name__
    if kind in ("Categorical", "Enum"):
        return pd.Series(pd.Categorical(column.to_list()))
    # NumPy has no integers of 128 bits.
    as_list = column.dtype.is_nested() or kind in ("Int128", "UInt128")
    return pd.Series(column.to_list() if as_list else column.to_numpy())


def one_column(values: Any, what: str) -> pd.Series:
    """Convert an array, a list or a column of a frame to a Series with the positions as index."""
    import pandas as pd

    if ("polars", "Series") in _origin(values):
        values = _polars_column(values)
    elif not isinstance(values, pd.Series | pd.Categorical):
        values = as_pandas(values) if is_frame(values) else values
    shape = np.shape(values)
    if sparse.issparse(values) or (len(shape) != 1 and shape[1:] != (1,)):
        kind = type(values).__name__
        raise InputError(f"{what} must be one column of values, not a {kind} of shape {shape}")
    if len(shape) == 2:
        values = values.iloc[:, 0] if hasattr(values, "iloc") else np.asarray(values)[:, 0]
    series = pd.Series(values).reset_index(drop=True)
    return _from_arrow(series) if isinstance(series.dtype, pd.ArrowDtype) else series


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Find the name that is most similar to a mistyped one; None if none is similar."""
    by_lower = {each.lower(): each for each in names}
    found = difflib.get_close_matches(name[:999].lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[found[0]] if found else None


def shown(value: object) -> str:
    """Write a name or a cell in quotes; long ones are cut."""
    text = str(value)
    more = f"... ({len(text):,} characters)" if len(text) > LONGEST else ""
    text = text[:LONGEST].encode("utf-8", "backslashreplace").decode()  # half a surrogate pair
    return f"'{text}'{more}"


def quoted(names: Iterable[object], *, at_most: int = 8) -> str:
    """Write the first few names in quotes, for a message."""
    names = list(names)
    text = ", ".join(map(shown, names[:at_most]))
    return f"{text} and {len(names) - at_most} more" if len(names) > at_most else text


def rows_text(places: Collection[Any], *, at_most: int = 5) -> str:
    """Write the numbers of the first few rows of data; the places begin at 0, the numbers at 1."""
    numbers = ", ".join(str(place + 1) for place in list(places)[:at_most])
    more = f" and {len(places) - at_most} more" if len(places) > at_most else ""
    return f"data {'row' if len(places) == 1 else 'rows'} {numbers}{more}"


def unknown_column(role: str, name: str, names: Collection[str]) -> str:
    """Write a message on a name that no column has, with the nearest one and all names."""
    hint = f"; did you mean '{near}'?" if (near := nearest(name, names)) else "."
    there_are = f"There are {quoted(names, at_most=20)}" if names else "There is none"
    return f"there is no column {shown(name)} {role}{hint} {there_are}"


def refuse_duplicates(names: Iterable[str]) -> None:
    """Raise an error if two columns have the same name."""
    names, seen = list(names), dict[str, int]()
    for place, name in enumerate(names, start=1):
        if name in seen:
            is_data = any(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", each, re.I) for each in names)
            hint = ", or add a header line: the first line looks like data" if is_data else ""
            both = f"columns {seen[name]} and {place}"
            raise InputError(f"{both} have the same name {shown(name)}; rename one{hint}")
        seen[name] = place


def column_names(header: Iterable[object]) -> list[str]:
    """Return the cells of a header as names, which must differ; empty ones get a number."""
    names = [str(name).strip() or f"{UNTITLED}{place}" for place, name in enumerate(header)]
    refuse_duplicates(names)
    return names


@contextmanager
def intact(kind: str) -> Iterator[None]:
    """Convert any exception of a reader, which can be of any type, to an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the file is not a valid {kind}: {error}") from error


@contextmanager
def located(where: object) -> Iterator[None]:
    """Prefix error messages with the file or the data set."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
