"""Importing much in little time."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

__all__ = ["import_aside", "import_largest", "no_collection"]

LARGEST = ("numpy", "pandas", "scipy.stats", "sklearn.base")


@contextmanager
def no_collection() -> Iterator[None]:
    """Import without a search for garbage, then or later: it would take long and find none."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # before the next object sets off a search through all that was imported
        gc.enable()


def import_largest() -> None:
    """Import the largest modules, where few calls are open, before others ask for them deep down.

    There a loop's calls may begin at the end of a piece of the interpreter's stack, and every one
    of them then maps and unmaps the next piece (Python 3.11): a tenth of the time of all imports.
    """
    for name in LARGEST:
        import_module(name)


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
