"""Formatting of numbers and lists for messages and reports."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Control characters, ends of lines, and marks that change the direction of text.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def capitalised(text: str) -> str:
    """Begin a sentence with a capital letter."""
    return text[:1].upper() + text[1:]


def listed(names: Sequence[str], limit: int | None = None) -> str:
    """Format names as "A, B and C"; names above the limit become "3 others"."""
    if limit is not None and len(names) > limit:
        names = [*names[: limit - 1], f"{len(names) - limit + 1} others"]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def printable(text: str) -> str:
    """Escape control characters, which could move the cursor or change what a terminal shows."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def number(value: float) -> str:
    """Format a score."""
    return f"{value:.3f}"


def percent(share: float) -> str:
    """Format a fraction as a percentage with a no-break space."""
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


def duration(seconds: float) -> str:
    """Format a time in milliseconds, seconds or minutes."""
    if seconds < 0.001:
        return f"{1e3 * seconds:.2f} ms"
    if seconds < 1:
        return f"{1e3 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
