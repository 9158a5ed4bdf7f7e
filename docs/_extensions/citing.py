"""The directive ``papers``: what to cite, from CITATION.cff."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Papers(SphinxDirective):
    """A list of the papers of the models."""

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.srcdir).parent / "CITATION.cff"
        self.env.note_dependency(str(path))
        cited = yaml.safe_load(path.read_text(encoding="utf-8"))
        return [nodes.bullet_list("", *(self.item(each) for each in cited["references"]))]

    def item(self, paper: dict[str, Any]) -> nodes.list_item:
        names = ", ".join(
            f"{each['given-names']} {each['family-names']}" for each in paper["authors"]
        )
        address = f"https://doi.org/{paper['doi']}" if "doi" in paper else paper["url"]
        place = " ".join(paper.get("journal", paper.get("collection-title", "")).split())
        title = " ".join(paper["title"].split())
        text = nodes.paragraph()
        text += [
            nodes.strong("", " ".join(paper["notes"].split()).split(". ")[0]),
            nodes.Text(f": {names}. "),
            nodes.reference("", title, refuri=address, internal=False),
            nodes.Text(". "),
            nodes.emphasis("", place),
            nodes.Text(f", {paper['year']}."),
        ]
        return nodes.list_item("", text)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("papers", Papers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
