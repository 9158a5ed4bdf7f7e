"""What every page has in common: templates that escape, and images inside the page."""

from __future__ import annotations

import base64

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

__all__ = ["image_source", "page_template"]


def page_template(name: str, package: str = "discreg.comparison") -> Template:
    """A template of a package, which can extend those of this one; all values are escaped."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("discreg.comparison")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def image_source(svg: str) -> str:
    """An SVG document as the address of an image."""
    encoded = base64.b64encode(svg.encode("utf-8")).decode()
    return f"data:image/svg+xml;base64,{encoded}"
