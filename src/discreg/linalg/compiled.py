"""Decorator that compiles loops with numba."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

REORDER = frozenset({"reassoc", "contract", "nsz"})  # reordered sums can be vectorised


def compiled(*, fastmath: Collection[str] = ()) -> Callable[[Function], Function]:
    """Compile a function with numba at its first call; it runs without the interpreter lock.

    The machine code is cached on disk. If no cache folder is writable (a read-only installation, a
    user without a home folder), each process compiles the function again.

    Parameters
    ----------
    fastmath : collection of str
        Fast-math flags of LLVM. Division by zero gives infinity or NaN, as in NumPy.

    Returns
    -------
    decorator : callable
    """
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": set(fastmath),
    }

    def decorate(function: Function) -> Function:
        try:
            loop: Function = njit(cache=True, **options)(function)
        except RuntimeError:  # numba found no writable cache folder
            loop = njit(**options)(function)
        return loop

    return decorate


def cache_folder() -> str | None:
    """Return the folder where numba caches the loops of `discreg.linalg`, or None."""
    statistics = getattr(compiled()(cache_folder), "stats", None)  # None under NUMBA_DISABLE_JIT
    return getattr(statistics, "cache_path", None)
