"""What every page has in common: templates that escape."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

__all__ = ["rendered", "template"]


def rendered(name: str, **values: Any) -> str:
    """A page of the package's templates; everything that is put into it is escaped."""
    return template(name).render(**values)


@cache
def template(name: str) -> Template:
    """A template, made ready when it is first asked for."""
    environment = Environment(
        loader=PackageLoader("discreg.comparison"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
