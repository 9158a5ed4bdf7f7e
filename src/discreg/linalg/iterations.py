"""How a solver reports its iterations to whoever watches a fit."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Report", "unreported"]

# Called with the number of further iterations as soon as they are done. Returns whether to stop;
# `report(0)` asks without reporting any.
Report = Callable[[int], bool]


def unreported(n_done: int) -> bool:
    """Report to nobody, and continue."""
    return False
