"""Pages of files outside of the documentation's folder, and links to such files.

``outside_pages`` maps the name of a page to a file of the repository. The pages are written before
each build; git ignores them. Links are written for readers of the files: relative paths in the
repository. A link to a file that has a page becomes a link to the page, one to an example a link to
its page in the gallery, and any other a link to the repository.

A table of contents is written as a comment, which web views of the repository do not show:
``<!-- toctree``, the options and pages of Sphinx's directive, and ``-->``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
BLANK_END = re.compile(r"\n\n```$")  # doctest needs a blank line there, readers do not
ANCHOR = re.compile(r"^<a id=\"([\w-]+)\"></a>$", re.MULTILINE)
TOCTREE = re.compile(r"^<!-- toctree\n(.*?)^-->$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)(\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")


def root_of(app: Sphinx) -> Path:
    return Path(app.srcdir).parent


def page_of(app: Sphinx, path: Path) -> str | None:
    """Return the file of the page that shows a file of the repository, relative to the sources."""
    inside = path.relative_to(root_of(app)).as_posix()
    for name, shown in app.config.outside_pages.items():
        if shown == inside:
            return f"{name}.md"
    folder, gallery = app.config.outside_examples
    if path.suffix == ".py" and inside == f"{folder}/{path.name}":
        return f"{gallery}/{path.stem}.rst"
    if path.is_relative_to(app.srcdir) and path.is_file():
        return path.relative_to(app.srcdir).as_posix()
    return None


def with_one_title(text: str) -> str:
    """Turn the second title of a page, and what follows, into sections below the first."""
    if not text.startswith("# "):
        return text
    first, mark, others = text.partition("\n# ")
    return first + re.sub(r"^#", "##", mark + others, flags=re.MULTILINE)


def relinked(app: Sphinx, text: str, source: Path, docname: str) -> str:
    """Return Markdown of a file with links that hold on its page."""
    folder = Path(app.srcdir, docname).parent

    def link(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        place, mark, anchor = target.partition("#")
        path = Path(os.path.normpath(source.parent / place))
        if "://" in target or not place or not path.exists():
            return match[0]
        page = None if image else page_of(app, path)
        if image or page is not None:
            to = path if image else Path(app.srcdir, str(page))
            return f"{image}{words}({Path(os.path.relpath(to, folder)).as_posix()}{mark}{anchor})"
        kind = "tree" if path.is_dir() else "blob"
        inside = path.relative_to(root_of(app)).as_posix()
        return f"{words}({app.config.outside_repository}/{kind}/main/{inside}{mark}{anchor})"

    # Code has no links, but a link's text may have code.
    code = iter(BLANK_END.sub("\n```", piece) for piece in CODE.findall(text))
    hidden = with_one_title(LINK.sub(link, CODE.sub("\0", text)))
    return re.sub("\0", lambda _: next(code), hidden)


def write_pages(app: Sphinx) -> None:
    """Write the pages of files outside; one that has not changed keeps its time."""
    for docname, inside in app.config.outside_pages.items():
        source, page = root_of(app) / inside, Path(app.srcdir, f"{docname}.md")
        text = relinked(app, source.read_text(encoding="utf-8"), source, docname)
        text = ANCHOR.sub(r"(\1)=", text)
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")


def relink_page(app: Sphinx, docname: str, source: list[str]) -> None:
    path = Path(app.srcdir, f"{docname}.md")
    if path.exists() and docname not in app.config.outside_pages:
        text = TOCTREE.sub(r"```{toctree}\n\1```", source[0])
        source[0] = relinked(app, text, path, docname)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("outside_pages", {}, "env", dict)
    app.add_config_value("outside_examples", ("examples", "gallery"), "env", tuple)
    app.add_config_value("outside_repository", "", "env", str)
    app.connect("builder-inited", write_pages)
    app.connect("source-read", relink_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
