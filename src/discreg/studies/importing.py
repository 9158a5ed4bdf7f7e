"""Importing much in little time."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

__all__ = ["import_aside", "no_collection"]


@contextmanager
def no_collection() -> Iterator[None]:
    """Import without a search for garbage, which would take a sixth of the time and find none."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def import_aside(*names: str) -> None:
    """Import modules in a thread; who needs one that cannot be imported gets the error then."""

    def imported() -> None:
        for name in names:
            with suppress(Exception):
                import_module(name)

    threading.Thread(target=imported, name="discreg imports", daemon=True).start()
