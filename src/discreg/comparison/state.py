"""The state of a comparison as JSON: data classes, data frames and arrays, without pickle."""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg.base.errors import InputError

from .candidates import contender
from .flags import flag
from .report import findings
from .running.experiment import Key
from .statistics import evidence, verdict

__all__ = ["from_json", "to_json"]

# Classes by name: data classes of these modules.
CLASSES = {
    name: each
    for module in (contender, evidence, findings, flag, verdict)
    for name, each in vars(module).items()
    if isinstance(each, type) and is_dataclass(each)
}


def to_json(value: Any) -> str:
    """Write data classes of a comparison and what they contain as JSON."""
    return json.dumps(_Encoder().encoded(value))


def from_json(text: str) -> Any:
    """Read what `to_json` has written."""
    try:
        return _Decoder().decoded(json.loads(text))
    except (ValueError, KeyError, IndexError, TypeError, zlib.error) as error:
        raise InputError(
            f"The state of the comparison cannot be read ({error}). It is damaged, or another "
            "version of discreg has written it."
        ) from error


class _Encoder:
    """Convert objects to JSON; data classes and frames that occur twice are written once."""

    def __init__(self) -> None:
        self._written: dict[int, int] = {}

    def encoded(self, value: Any) -> Any:
        match value:
            case np.generic():
                return value.item()
            case None | bool() | int() | float() | str():
                return value
            case np.ndarray():
                return _packed(value)
            case Key():
                return {"key": list(value)}
            case Mapping():
                pairs = [[self.encoded(key), self.encoded(each)] for key, each in value.items()]
                return {"pairs": pairs}
            case tuple():
                return {"tuple": [self.encoded(each) for each in value]}
            case list():
                return [self.encoded(each) for each in value]
        if id(value) in self._written:
            return {"same": self._written[id(value)]}
        entry = self._frame(value) if isinstance(value, pd.DataFrame) else self._fields(value)
        self._written[id(value)] = len(self._written)
        return entry

    def _frame(self, frame: pd.DataFrame) -> dict[str, Any]:
        index = None if isinstance(frame.index, pd.RangeIndex) else list(frame.index)
        return {
            "frame": [_packed(frame[name].to_numpy()) for name in frame],
            "columns": [str(name) for name in frame],
            "index": index,
            "index_name": frame.index.name,
        }

    def _fields(self, value: Any) -> dict[str, Any]:
        name = type(value).__name__
        if name not in CLASSES:
            raise TypeError(f"{name} cannot be written as JSON.")
        content = {each.name: self.encoded(getattr(value, each.name)) for each in fields(value)}
        return {"class": name, "fields": content}


class _Decoder:
    """Convert JSON to the objects that were written."""

    def __init__(self) -> None:
        self._read: list[Any] = []

    def decoded(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decoded(each) for each in value]
        if not isinstance(value, dict):
            return value
        match value:
            case {"array": text}:
                return _unpacked(text)
            case {"objects": items}:
                return np.array(items, dtype=object)
            case {"key": parts}:
                return Key(*parts)
            case {"pairs": pairs}:
                return {self.decoded(key): self.decoded(each) for key, each in pairs}
            case {"tuple": items}:
                return tuple(self.decoded(each) for each in items)
            case {"same": place}:
                return self._read[place]
            case {"frame": columns, "columns": names, "index": index, "index_name": name}:
                content = {
                    key: self.decoded(each) for key, each in zip(names, columns, strict=True)
                }
                kept = None if index is None else pd.Index(index, name=name)
                # Strings are read as objects; pandas 3 has a type of its own for them.
                entry = pd.DataFrame(content, index=kept).infer_objects()
            case {"class": name, "fields": content}:
                found = {key: self.decoded(each) for key, each in content.items()}
                entry = CLASSES[name](**found)
            case _:
                raise ValueError(f"unknown entry {', '.join(value)}")
        self._read.append(entry)
        return entry


def _packed(array: NDArray[Any]) -> dict[str, Any]:
    """Write an array as text; strings and other objects become a list."""
    if array.dtype == object:
        return {"objects": array.tolist()}
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return {"array": base64.b64encode(zlib.compress(buffer.getvalue(), 1)).decode()}


def _unpacked(text: str) -> NDArray[Any]:
    content = zlib.decompress(base64.b64decode(text))
    return np.asarray(np.load(io.BytesIO(content), allow_pickle=False))
