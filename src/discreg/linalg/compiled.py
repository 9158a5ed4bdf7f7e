"""The decorator of compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from numba import njit

__all__ = ["REORDER", "cache_folder", "compiled"]

Function = TypeVar("Function", bound=Callable[..., Any])

REORDER = frozenset({"reassoc", "contract", "nsz"})  # sums in any order use vector registers


def compiled(*, fastmath: Collection[str] = ()) -> Callable[[Function], Function]:
    """Compile a function with numba when it is first called, without the interpreter lock.

    The machine code is cached on disk. Where no cache folder can be written (an installation that
    is read-only, a user without a home folder), each process compiles it again.

    Parameters
    ----------
    fastmath : collection of str
        The floating-point rules of LLVM that may be relaxed. Division by zero gives an infinity or
        NaN, as in NumPy.

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
        except RuntimeError:  # numba found no folder that it may write
            loop = njit(**options)(function)
        return loop

    return decorate


def cache_folder() -> str | None:
    """The folder where numba keeps the compiled loops of this folder, or None."""
    statistics = getattr(compiled()(cache_folder), "stats", None)  # None under NUMBA_DISABLE_JIT
    return getattr(statistics, "cache_path", None)
