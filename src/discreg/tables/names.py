"""Names of columns, and how messages write them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from discreg.base.errors import InputError

__all__ = [
    "MISSING",
    "UNTITLED",
    "default_names",
    "intact",
    "nearest",
    "quoted",
    "refuse_duplicates",
]

# Without "None", which is more often a category ("no garage") than a missing value.
MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "NULL", "null")
UNTITLED = "Unnamed: "  # pandas' name of a column without a name, followed by its position


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Find the name that is most similar to a mistyped one; None if none is similar."""
    by_lower = {each.lower(): each for each in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[found[0]] if found else None


def quoted(names: Iterable[object], *, at_most: int = 8) -> str:
    """Write the first few names in quotes, for a message."""
    names = list(names)
    shown = ", ".join(f"'{name}'" for name in names[:at_most])
    return f"{shown} and {len(names) - at_most} more" if len(names) > at_most else shown


def default_names(n_features: int) -> list[str]:
    """Return the names x1, x2, ... for columns without names."""
    return [f"x{place}" for place in range(1, n_features + 1)]


def refuse_duplicates(names: Collection[str]) -> None:
    """Raise an error if two columns have the same name."""
    seen: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name in seen:
            raise InputError(
                f"columns {seen[name]} and {place} have the same name '{name}'; rename one"
                f"{_no_header_hint(names)}"
            )
        seen[name] = place


def _no_header_hint(names: Iterable[str]) -> str:
    """Return a hint for a message if the names look like data."""
    numbers = [name for name in names if re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", name, re.I)]
    return ", or add a header line: the first line looks like data" if numbers else ""


@contextmanager
def intact(kind: str) -> Iterator[None]:
    """Convert any exception of a reader, which can be of any type, to an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the file is not a valid {kind}: {error}") from error
