"""What every page has in common: templates that escape."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

__all__ = ["rendered"]


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
