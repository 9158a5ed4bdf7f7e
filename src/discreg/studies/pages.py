"""What every page has in common: templates that escape, and files that are whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

__all__ = ["rendered", "write_whole"]


def rendered(template: str, **values: Any) -> str:
    """A page of the package's templates; everything that is put into it is escaped."""
    environment = Environment(
        loader=PackageLoader("discreg.studies"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def write_whole(path: Path, text: str) -> None:
    """Write a file; a reader finds the old one or the new one, never a part."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8", errors="replace")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
