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
    """Import without a search for garbage, then or later: it would take long and find none."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # before the next object sets off a search through all that was imported
        gc.enable()


def import_aside(*names: str) -> threading.Thread:
    """Import modules in a thread; who needs one that cannot be imported gets the error then.

    Join it before another thread imports: two that import modules which need each other may find
    them half there.
    """

    def imported() -> None:
        for name in names:
            with suppress(Exception):
                import_module(name)

    thread = threading.Thread(target=imported, name="discreg imports", daemon=True)
    thread.start()
    return thread
