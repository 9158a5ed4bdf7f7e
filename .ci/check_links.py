"""Check the links of a built site: every file and every anchor that its pages name must exist.

Run as ``python .ci/check_links.py folder``. Links to other sites are not followed.
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page and the anchors in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.links |= {found[name] for name in ("href", "src") if name in found}
        if "id" in found:
            self.anchors.add(found["id"])


@cache
def page_at(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def fault_of(link: str, page: Path, site: Path) -> str | None:
    """What is wrong with a link; None if nothing is, or if it leads to another site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = page
    if parts.path:
        target = (page.parent / unquote(parts.path)).resolve()
        if not target.is_relative_to(site):
            return "leads out of the site"
        if target.is_dir():
            target = target / "index.html"
    if not target.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and target.suffix == ".html" and anchor not in page_at(target).anchors:
        return "no such anchor"
    return None


def main(folder: str) -> int:
    site = Path(folder).resolve()
    templates = site / "_static"
    pages = sorted(set(site.rglob("*.html")) - set(templates.rglob("*.html")))
    n_links, faults = 0, []
    for page in pages:
        for link in sorted(page_at(page).links):
            n_links += 1
            fault = fault_of(link, page, site)
            if fault is not None:
                faults.append(f"{page.relative_to(site)}: {link}: {fault}")
    print(*faults, f"{n_links:,} links on {len(pages)} pages, {len(faults)} broken", sep="\n")
    return 1 if faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
