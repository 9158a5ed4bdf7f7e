"""What a person did that a study cannot work with."""

from __future__ import annotations

__all__ = ["StudyError"]


class StudyError(Exception):
    """A mistake in a call or a file; its message says what to do and is shown without traceback."""
