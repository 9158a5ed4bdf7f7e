"""A progress bar on the standard error stream, without dependencies."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["with_progress"]

Item = TypeVar("Item")
WIDTH = 40


def with_progress(items: Iterable[Item], total: int, shown: bool) -> Iterator[Item]:
    """Yield the items and, if it is to be shown, draw how many of them are done."""
    for done, item in enumerate(items, start=1):
        yield item
        if shown:
            filled = WIDTH * done // total
            end = "\n" if done == total else ""
            bar = "#" * filled + "." * (WIDTH - filled)
            print(f"\r[{bar}] {done}/{total}", end=end, file=sys.stderr, flush=True)
