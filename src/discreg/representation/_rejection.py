"""The label of rejected samples."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_rejection", "unknown_label"]

INT64 = np.dtype(np.int64)
NUMBERS = (int, float, np.integer, np.floating, np.bool_)
TIMES: dict[str, tuple[type, ...]] = {"M": (np.datetime64, date), "m": (np.timedelta64, timedelta)}


def check_rejection(estimator: Any, classes: NDArray[Any]) -> None:
    """Raise ValueError if samples cannot be rejected as `reject_above` and `unknown_label` ask."""
    if estimator.reject_above is None:
        return
    if estimator.kernel == "precomputed":
        raise ValueError(
            "reject_above needs k(x, x) of new samples, which a precomputed kernel matrix does not "
            "contain. Use reject_above=None or another kernel."
        )
    unknown_label(estimator.unknown_label, classes)


def unknown_label(given: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the label of rejected samples, in a dtype that also holds the labels in y."""
    what, find = {
        "i": ("an integer", _integer),
        "u": ("an integer", _integer),
        "b": ("an integer", _integer),
        "f": ("a number", _float),
        "M": ("a date or time", _time),
        "m": ("a time difference", _time),
    }.get(classes.dtype.kind, ("a string", _string))
    label = find(given, classes)
    if label is None or _is_one_of(label, classes):
        raise ValueError(
            f"unknown_label must be {what} of the type of the labels in y ({classes.dtype}), and "
            f"must not be one of them; got {given!r}."
        )
    return label


def _is_one_of(label: NDArray[Any], classes: NDArray[Any]) -> bool:
    if label.dtype.kind in "mM" and np.isnat(label):
        return bool(np.isnat(classes).any())
    return bool(np.any(classes == label))


def _first_free(candidates: Iterable[Any], classes: NDArray[Any]) -> Any:
    """Return the first candidate that is no label."""
    labels = set(classes.tolist())
    return next(candidate for candidate in candidates if candidate not in labels)


def _integer(given: Any, classes: NDArray[Any]) -> NDArray[Any] | None:
    """By default the first of -1, -2, ... that is no label; of 0, 1, ... if none of them fits."""
    lowest, highest = int(classes.min()), int(classes.max())
    if given is None:
        candidates = count(-1, -1) if highest <= np.iinfo(INT64).max else count()
        given = _first_free(candidates, classes)
    is_number = isinstance(given, NUMBERS) and not isinstance(given, np.timedelta64)
    if not is_number or (isinstance(given, float | np.floating) and not given.is_integer()):
        return None
    number = int(given)
    for dtype in (classes.dtype, INT64):
        if dtype.kind == "b":
            continue
        limits = np.iinfo(dtype)
        if limits.min <= min(number, lowest) and max(number, highest) <= limits.max:
            return np.array(number, dtype=dtype)
    return None


def _float(given: Any, classes: NDArray[Any]) -> NDArray[Any] | None:
    """By default the first of -1, -2, ... that is no label."""
    if given is None:
        given = _first_free(count(-1, -1), classes)
    if not isinstance(given, NUMBERS) or isinstance(given, np.timedelta64):
        return None
    label = np.array(float(given))
    with np.errstate(over="ignore"):
        narrow = label.astype(classes.dtype)
    return narrow if np.isnan(label) or narrow == label else label


def _time(given: Any, classes: NDArray[Any]) -> NDArray[Any] | None:
    """By default NaT, "not a time"."""
    kind = classes.dtype.kind
    if given is None:
        return np.array("NaT", dtype=classes.dtype)
    if not isinstance(given, TIMES[kind]):
        return None
    label = np.array(given, dtype=f"{kind}8")
    for dtype in (classes.dtype, np.promote_types(classes.dtype, label.dtype)):
        held = label.astype(dtype)
        back = classes.astype(dtype).astype(classes.dtype)
        if np.isnat(label) or (held == label and np.array_equal(back, classes, equal_nan=True)):
            return held
    return None


def _string(given: Any, classes: NDArray[Any]) -> NDArray[Any] | None:
    """By default "unknown", or the first of "unknown_2", ... that is no label."""
    if given is None:
        names = (f"unknown_{number}" if number > 1 else "unknown" for number in count(1))
        given = _first_free(names, classes)
    if not isinstance(given, str):
        return None
    return np.array(given, dtype=classes.dtype if classes.dtype.kind == "O" else None)
