"""Numeric features of dates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["date_parts"]


def date_parts(
    dates: NDArray[np.datetime64], first_day: float = 0.0
) -> dict[str, NDArray[np.float64]]:
    """Return year, month, weekday, hour and elapsed days of dates; NaN where one is missing.

    Days are counted from `first_day`, which is itself counted from the beginning of 1970.
    """
    days = _count(dates, "us") / 86_400e6
    parts = {
        "year": _count(dates, "Y") + 1970,
        "month": _count(dates, "M") % 12 + 1,
        "weekday": (np.floor(days) + 3) % 7,  # January 1st, 1970 was a Thursday
        "hour": days % 1 * 24,
        "days": days - first_day,
    }
    missing = np.isnat(dates)
    return {name: np.where(missing, np.nan, part) for name, part in parts.items()}


def _count(dates: NDArray[np.datetime64], unit: str) -> NDArray[np.float64]:
    """Return the number of whole units since the beginning of 1970."""
    return dates.astype(f"datetime64[{unit}]").astype(np.int64).astype(np.float64)
