"""Output directories and atomic writing of files."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from discreg.base.errors import InputError

__all__ = ["make_folder", "remove_drafts", "write_whole"]


def make_folder(path: Path) -> None:
    """Create a directory for results if it does not exist."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file. Give a directory for the output.")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The directory {path} cannot be created ({error.strerror}). Give another one for the "
            "output."
        ) from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically."""
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def remove_drafts(path: Path) -> None:
    """Remove drafts of a file that a killed process left."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.[0-9]*"):
        draft.unlink()
