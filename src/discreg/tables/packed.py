"""Names and types of many columns as arrays, of which a model file can hold thousands.

A model file describes every string of a list or dict in several lines of JSON, but an array of
strings by its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["pack", "unpack"]

LIST, DICT, RECORDS = "list", "dict", "records"


def pack(value: Any) -> Any:
    """Convert a list of strings, a dict of strings or a list of equal dicts to arrays.

    Anything else, and strings that an array would change, are returned as they are.
    """
    packed: tuple[Any, ...] = ()
    if isinstance(value, Mapping) and value:
        packed = DICT, np.array([*value.keys()]), np.array([*value.values()])
    elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        columns = {name: np.array([each.get(name) for each in value]) for name in value[0]}
        packed = RECORDS, columns
    elif isinstance(value, list) and value:
        packed = LIST, np.array(value)
    return packed if packed and _is_plain(packed) and unpack(packed) == value else value


def unpack(value: Any) -> Any:
    """Convert what `pack` returned to the value that it was."""
    if not isinstance(value, tuple):
        return value
    kind, *parts = value
    if kind == LIST:
        return parts[0].tolist()
    if kind == DICT:
        return dict(zip(*(part.tolist() for part in parts), strict=True))
    names, columns = parts[0].keys(), (column.tolist() for column in parts[0].values())
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _is_plain(packed: tuple[Any, ...]) -> bool:
    """Return whether all arrays are of strings or integers."""
    arrays = packed[1].values() if packed[0] == RECORDS else packed[1:]
    return all(array.dtype.kind in "Ui" and array.ndim == 1 for array in arrays)
