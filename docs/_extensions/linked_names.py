"""Link the public names of discreg in the text to their pages.

The text has plain code such as `ReLSRClassifier`, which GitHub shows as well.
"""

from __future__ import annotations

from inspect import ismodule
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import discreg


def pages() -> dict[str, str]:
    """Map names as they are written in the text to the full names of their pages."""
    public = {name: getattr(discreg, name) for name in discreg.__all__ if name != "__version__"}
    modules = [each for each in public.values() if ismodule(each)]
    found = {}
    for name, each in public.items():
        if each not in modules:
            found[name] = found[f"discreg.{name}"] = f"discreg.{name}"
    for module in modules:
        for name in module.__all__:
            inside = f"{module.__name__}.{name}"
            found[inside] = found.get(name, inside)
    return found


PAGES = pages()


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Make references of the code that is a public name, except on its own page."""
    own = app.env.docname.removeprefix("api/")
    for literal in list(doctree.findall(nodes.literal)):
        page = PAGES.get(literal.astext().removesuffix("()"))
        linked = isinstance(literal.parent, nodes.reference | addnodes.pending_xref | nodes.title)
        if page is None or page == own or linked:
            continue
        reference = addnodes.pending_xref(
            "",
            refdomain="py",
            reftype="obj",
            reftarget=page,
            refexplicit=True,
            refdoc=app.env.docname,
            refwarn=True,
        )
        literal.replace_self(reference)
        reference += literal


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
