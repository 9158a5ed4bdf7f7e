"""The studies as an HTML page, as Markdown and as text for a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby, zip_longest
from pathlib import Path

import pandas as pd
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

from discreg.comparison.figures import image_source
from discreg.comparison.files import write_whole

from .papers import PAPERS
from .protocol import Study
from .views.blocks import NOTHING, Agreement, Block, Grid, Picture

__all__ = ["Section", "console_text", "markdown", "overall", "summary_rows", "write_page"]

CHOICES_HEADING = "What the paper leaves open, and what is taken here"
SUMMARY_HEADER = ("study", "fits done", "compared", "within one σ", "within two σ")
SVG_WIDTH = re.compile(r'<svg[^>]* width="(?P<points>[\d.]+)pt"')
WIDE = 300.0  # points: a picture that is wider keeps its size and scrolls


@dataclass(frozen=True)
class Section:
    """One study and what is shown of it."""

    study: Study
    blocks: tuple[Block, ...]
    n_fits: int  # of the study on the data sets that are available
    n_missing_fits: int  # of them without a result
    note: str  # what else a reader must know of the run

    @property
    def heading(self) -> str:
        return f"{self.study.name}: {self.study.title}"

    @property
    def citation(self) -> str:
        return PAPERS[self.study.name.split("/")[0]]

    @property
    def anchor(self) -> str:
        return self.study.name.replace("/", "-")

    @property
    def ran(self) -> str:
        """How much of the study there is, and what else must be known."""
        done = _done([self]) if self.n_missing_fits else f"All {self.n_fits}"
        shared = f"They are those of {self.study.shares}." if self.study.shares else ""
        return " ".join(filter(None, (f"{done} fits of this run are done.", shared, self.note)))


def summary_rows(sections: Sequence[Section]) -> tuple[tuple[str, ...], ...]:
    """A row for each study under `SUMMARY_HEADER`, and one for all where there are several."""
    counted = _with_own_fits(sections)
    rows = []
    for section in sections:
        done = _done([section]) if section in counted else f"shares {section.study.shares}"
        rows.append((section.study.name, done, *_near([section])))
    if len(sections) > 1:
        rows.append(("all", _done(counted), *_near(counted)))
    return tuple(rows)


def overall(sections: Sequence[Section]) -> tuple[str, ...]:
    """Sentences on all studies together."""
    _, n_judged, within_one, within_two = _totals(_with_own_fits(sections))
    counts = (
        f"{within_two} of {n_judged} reported values come out within two of their standard "
        f"deviations, {within_one} within one."
    )
    meaning = (
        "σ is the standard deviation that the paper reports. Ours stand alone where a "
        "paper only draws, and in lowrank/table2, whose printed numbers are not available as text."
    )
    return (counts, meaning) if n_judged else (meaning,)


def _with_own_fits(sections: Sequence[Section]) -> list[Section]:
    """Those whose fits no other of them has, so that every fit is counted once."""
    there = {section.study.name for section in sections}
    return [section for section in sections if section.study.shares not in there]


def _done(sections: Sequence[Section]) -> str:
    n_fits = sum(section.n_fits for section in sections)
    return f"{n_fits - sum(section.n_missing_fits for section in sections)} of {n_fits}"


def _near(sections: Sequence[Section]) -> tuple[str, str, str]:
    """Values compared, and of those with a standard deviation how many are near."""
    n_values, n_judged, *within = _totals(sections)
    one, two = (f"{near} of {n_judged}" if n_judged else NOTHING for near in within)
    return str(n_values or NOTHING), one, two


def _totals(sections: Sequence[Section]) -> list[int]:
    """Values compared, those with a standard deviation, and those within one and two of it."""
    blocks = (block for section in sections for block in section.blocks)
    counts = [
        (block.n_values, block.n_judged, block.within_one, block.within_two)
        for block in blocks
        if isinstance(block, Agreement)
    ]
    return [sum(column) for column in zip((0, 0, 0, 0), *counts, strict=True)]


def write_page(path: Path, sections: Sequence[Section]) -> None:
    """Write the page: one HTML file that needs no network."""
    write_whole(path, _rendered("reproduction.html", sections))


def markdown(sections: Sequence[Section], *, images: str) -> tuple[str, dict[str, str]]:
    """The studies in GitHub's Markdown, and the pictures that it links to by name.

    Parameters
    ----------
    sections : sequence of Section
        The studies.
    images : str
        Folder of the pictures, seen from the text: each is ``{images}/{name}.svg`` there.
    """
    blocks = (block for section in sections for block in section.blocks)
    pictures = {block.name: block.svg for block in blocks if isinstance(block, Picture)}
    return _rendered("reproduction.md", sections, images=images).strip() + "\n", pictures


def _rendered(name: str, sections: Sequence[Section], **more: str) -> str:
    papers = groupby(sections, key=lambda section: section.citation)
    return (
        _environment()
        .get_template(name)
        .render(
            heading="The papers' tables and figures, run again",
            choices_heading=CHOICES_HEADING,
            overall=overall(sections),
            summary=Grid("", SUMMARY_HEADER, summary_rows(sections)),
            papers=[(citation, list(group)) for citation, group in papers],
            sections=sections,
            **more,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(__package__), PackageLoader("discreg.comparison")]),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "image_source": image_source,
        "is_wide": _is_wide,
        "escaped": _escaped,
        "cell": lambda text: _escaped(text).replace("|", "\\|").replace("\n", "<br>"),
    }
    return environment


def _is_wide(svg: str) -> bool:
    width = SVG_WIDTH.match(svg)
    return width is not None and float(width["points"]) > WIDE


def _escaped(text: str) -> str:
    """Text in which Markdown finds nothing of its own."""
    return re.sub(r"([\\`*<$~])|(?<!\w)(_)|(_)(?!\w)", r"\\\g<0>", text)


def console_text(section: Section, *, width: int = 80) -> str:
    """The study as plain text of a width: tables in columns, sentences beneath them."""
    fill = partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)
    parts = [f"{fill(section.heading)}\n{fill(section.citation)}", fill(section.ran)]
    for block in section.blocks:
        match block:
            case Grid():
                parts += [fill(block.caption), _aligned(block, width)]
            case Picture():
                parts.append(fill(f"{block.name}.svg: {block.caption}"))
            case _:
                parts.append(fill(block.text))
    if section.study.choices:
        choices = (
            fill(choice, initial_indent="- ", subsequent_indent="  ")
            for choice in section.study.choices
        )
        parts.append("\n".join([f"{CHOICES_HEADING}:", *choices]))
    return "\n\n".join(parts) + "\n"


def _aligned(grid: Grid, width: int) -> str:
    """The table in columns; those that the width has no room for come after."""
    lines = [
        line
        for row in grid.rows
        for line in zip_longest(*(cell.split("\n") for cell in row), fillvalue="")
    ]
    frame = pd.DataFrame(
        [line[1:] for line in lines],
        index=[line[0] for line in lines],
        columns=pd.Index(grid.header[1:], name=grid.header[0]),
    )
    return frame.to_string(line_width=width)
