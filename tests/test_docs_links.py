"""Relative links in the documentation point to files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "reproduction/README.md",
    *(
        page
        for folder in (".", "tutorials", "how_to", "recipes")
        for page in sorted(ROOT.glob(f"docs/{folder}/*.md"))
    ),
    *sorted(ROOT.glob("reproduction/docs/*.md")),
]
TARGET = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_point_to_files(page):
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    targets = [markdown or html for markdown, html in TARGET.findall(text)]
    paths = [target.split("#")[0] for target in targets if "://" not in target]
    assert [path for path in paths if not (page.parent / path).exists()] == []
