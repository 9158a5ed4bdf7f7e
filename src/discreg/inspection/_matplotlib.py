"""matplotlib, imported only to draw."""

from __future__ import annotations

from typing import Any

__all__ = ["pyplot"]


def pyplot() -> Any:
    """matplotlib's pyplot, or an ImportError that says how to install it."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError(
            'The displays draw with matplotlib: pip install "discreg[plots]"'
        ) from error
    return plt
