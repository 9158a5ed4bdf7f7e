"""Numbers and lists in words."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["duration", "listed", "number", "p_value", "percent"]


def listed(names: Sequence[str], limit: int | None = None) -> str:
    """Names in a sentence: "A, B and C"; those over the limit are counted."""
    if limit is not None and len(names) > limit:
        names = [*names[: limit - 1], f"{len(names) - limit + 1} others"]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def number(value: float) -> str:
    """A score."""
    return f"{value:.3f}"


def percent(share: float) -> str:
    """A share of a hundred, not to be broken over two lines."""
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


def p_value(p: float) -> str:
    """A p-value, which is never 0."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 0.001:
        return f"{1e3 * seconds:.2f} ms"
    if seconds < 1:
        return f"{1e3 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
