"""Data frames of pandas and polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_pandas", "is_frame", "one_column"]


def is_frame(X: object) -> bool:
    """Return whether X is a data frame of pandas or polars."""
    return any(
        base.__name__ == "DataFrame" and base.__module__.split(".")[0] in ("pandas", "polars")
        for base in type(X).__mro__
    )


def as_pandas(X: Any) -> pd.DataFrame:
    """Return a frame of pandas with strings as column names and the positions of rows as index.

    An index of integers is kept: in part of a table, it holds the positions in the whole table.
    """
    import pandas as pd

    from .formats import refuse_duplicates

    names = [str(name) for name in X.columns]
    refuse_duplicates(names)
    if not isinstance(X, pd.DataFrame):
        columns = (_polars_column(column) for column in X.iter_columns())
        return pd.DataFrame(dict(zip(names, columns, strict=True)), index=range(len(X)))
    has_positions = pd.api.types.is_integer_dtype(X.index)
    frame = X.copy(deep=False) if has_positions else X.reset_index(drop=True)
    frame.columns = pd.Index(names, dtype=object)
    return frame


def _polars_column(column: Any) -> pd.Series:
    """Convert a column of polars; for a whole frame, polars would need pyarrow."""
    import pandas as pd

    if column.dtype.base_type().__name__ in ("Categorical", "Enum"):
        return pd.Series(pd.Categorical(column.to_list()))
    return pd.Series(column.to_list() if column.dtype.is_nested() else column.to_numpy())


def one_column(values: Any, what: str) -> pd.Series:
    """Convert an array, a list or a column of a frame to a Series with the positions as index."""
    import pandas as pd

    from discreg.base.errors import InputError

    if is_frame(values):
        values = as_pandas(values)
        shape, values = values.shape, values.iloc[:, 0] if values.shape[1] else values
    elif type(values).__module__.split(".")[0] == "polars":
        values = _polars_column(values)
        shape = values.shape
    else:
        values = values if isinstance(values, pd.Series | pd.Categorical) else _array(values)
        shape = values.shape
        values = values[:, 0] if shape[1:] == (1,) else values
    if shape[1:] not in ((), (1,)) or not shape:
        raise InputError(f"{what} must be one column of values, not an array of shape {shape}")
    return pd.Series(values).reset_index(drop=True)


def _array(values: Any) -> Any:
    """Convert a list to an array in which numbers beside strings stay numbers."""
    import numpy as np

    array = np.asarray(values)
    is_mixed = array.dtype.kind in "US" and not all(isinstance(each, str) for each in values)
    return np.array(values, dtype=object) if is_mixed else array
