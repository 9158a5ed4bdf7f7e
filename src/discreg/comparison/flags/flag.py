"""A fact about a table or a comparison that a reader must know before using a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Flag"]


@dataclass(frozen=True)
class Flag:
    """A warning that is printed, stored and shown at the top of the report.

    Attributes
    ----------
    kind : str
        Short name, such as "repeating identifier", "predicts the target", "duplicates",
        "time order", "free text", "rare class", "not judged".
    text : str
        One or two sentences: what was found, and what to do.
    level : {"danger", "note"}
        "danger" where the scores of the comparison are wrong if the reader does nothing.
    columns : tuple of str
        Columns that it is about.
    """

    kind: str
    text: str
    level: Literal["danger", "note"] = "note"
    columns: tuple[str, ...] = ()
