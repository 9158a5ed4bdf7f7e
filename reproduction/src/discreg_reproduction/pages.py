"""Reports of the studies as HTML, as Markdown and as text for a terminal."""

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

from discreg.comparison.report.figures import image_source
from discreg.comparison.running.store import write_whole

from .claims import Claim
from .papers import PAPERS
from .protocol import Study
from .views.blocks import NOTHING, Agreement, Block, Grid, Picture

__all__ = [
    "Section",
    "console_text",
    "escaped",
    "findings",
    "findings_markdown",
    "markdown",
    "overall",
    "summary_rows",
    "write_page",
]

CHOICES_HEADING = "Details that the paper does not state, and our choices"
SUMMARY_HEADER = ("study", "fits done", "compared", "within one σ", "within two σ")
HEADINGS = {True: "Reproduced", False: "Not reproduced", None: "To keep in mind"}
SVG_WIDTH = re.compile(r'<svg[^>]* width="(?P<points>[\d.]+)pt"')
WIDE = 300.0  # points; a wider picture is not scaled down and can be scrolled


@dataclass(frozen=True)
class Section:
    """One study and its blocks."""

    study: Study
    blocks: tuple[Block, ...]
    n_fits: int  # number of fits on the available data sets
    n_missing_fits: int  # number of fits without a result
    note: str  # further notes on the run
    n_earlier_fits: int = 0  # number of finished fits that are those of an earlier run

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
        """Sentences on the finished fits and further notes."""
        n_done = self.n_fits - self.n_missing_fits
        done = f"{n_done} of {self.n_fits}" if self.n_missing_fits else f"All {self.n_fits}"
        shared = f"They are those of {self.study.shares}." if self.study.shares else ""
        return " ".join(filter(None, (f"{done} fits are done.", shared, self.note)))


def summary_rows(sections: Sequence[Section]) -> tuple[tuple[str, ...], ...]:
    """Build one row per study under `SUMMARY_HEADER`, and a total if there are several."""
    counted = _with_own_fits(sections)
    rows = []
    for section in sections:
        done = _done([section]) if section in counted else f"shares {section.study.shares}"
        rows.append((section.study.name, done, *_near([section])))
    if len(sections) > 1:
        rows.append(("all", _done(counted), *_near(counted)))
    return tuple(rows)


def overall(sections: Sequence[Section]) -> tuple[str, ...]:
    """Write sentences on all studies together."""
    _, n_judged, within_one, within_two = _totals(_with_own_fits(sections))
    counts = (
        f"{within_two} of {n_judged} reported values are reproduced within two of their standard "
        f"deviations, {within_one} within one."
    )
    meaning = (
        "σ is the standard deviation that the paper reports. There is no comparison for figures, "
        "and for lowrank/table2, whose printed numbers are not available as text."
    )
    chosen = (
        "Parameters are selected on training samples, except for the scaling in drm/table2 and "
        "drm/table7, which have a second table for that. Where the reported numbers decided "
        "between variants of an unclear protocol, the choices below the table say so; agreement "
        "is then not independent."
    )
    earlier = (
        "Of a method and a data set with more fits in an earlier run, the numbers are those of the "
        "earlier run; each section says which are of this one."
    )
    said = (counts if n_judged else "", meaning, chosen, earlier if _has_earlier(sections) else "")
    return tuple(filter(None, said))


def _has_earlier(sections: Sequence[Section]) -> bool:
    return any(section.n_earlier_fits for section in sections)


def _with_own_fits(sections: Sequence[Section]) -> list[Section]:
    """Select sections whose fits belong to no other section, so that fits are counted once."""
    there = {section.study.name for section in sections}
    return [section for section in sections if section.study.shares not in there]


def _done(sections: Sequence[Section]) -> str:
    n_fits = sum(section.n_fits for section in sections)
    done = f"{n_fits - sum(section.n_missing_fits for section in sections)} of {n_fits}"
    n_earlier = sum(section.n_earlier_fits for section in sections)
    return f"{done}, {n_earlier} earlier" if n_earlier else done


def _near(sections: Sequence[Section]) -> tuple[str, str, str]:
    """Format the numbers of compared values and of values within one and two deviations."""
    n_values, n_judged, *within = _totals(sections)
    one, two = (f"{near} of {n_judged}" if n_judged else NOTHING for near in within)
    return str(n_values or NOTHING), one, two


def _totals(sections: Sequence[Section]) -> list[int]:
    """Count compared values, those with a standard deviation, and those within one and two."""
    blocks = (block for section in sections for block in section.blocks)
    counts = [
        (block.n_values, block.n_judged, block.within_one, block.within_two)
        for block in blocks
        if isinstance(block, Agreement)
    ]
    return [sum(column) for column in zip((0, 0, 0, 0), *counts, strict=True)]


def findings(claims: Sequence[Claim]) -> list[tuple[str, list[str]]]:
    """Sort the claims by whether they hold here; without claims there are no lists."""
    by_verdict = {
        holds: [each.text for each in claims if each.holds is holds] for holds in HEADINGS
    }
    return [(HEADINGS[holds], texts) for holds, texts in by_verdict.items() if texts]


def findings_markdown(claims: Sequence[Claim]) -> str:
    """Write the lists of claims in Markdown."""
    lists = (
        "\n".join([f"**{heading}.**", "", *(f"- {escaped(text)}" for text in texts)])
        for heading, texts in findings(claims)
    )
    return "\n\n".join(lists)


def write_page(path: Path, sections: Sequence[Section], claims: Sequence[Claim] = ()) -> None:
    """Write the report as one HTML file that needs no network."""
    write_whole(path, _rendered("reproduction.html", sections, claims))


def markdown(
    sections: Sequence[Section], claims: Sequence[Claim] = (), *, images: str
) -> tuple[str, dict[str, str]]:
    """Write the studies in GitHub's Markdown; return the text and the linked pictures by name.

    Parameters
    ----------
    sections : sequence of Section
        The studies.
    claims : sequence of Claim
        What the results say about the papers' claims.
    images : str
        Directory of the pictures relative to the text, for links to ``{images}/{name}.svg``.
    """
    blocks = (block for section in sections for block in section.blocks)
    pictures = {block.name: block.svg for block in blocks if isinstance(block, Picture)}
    return _rendered("reproduction.md", sections, claims, images=images).strip() + "\n", pictures


def _rendered(name: str, sections: Sequence[Section], claims: Sequence[Claim], **more: str) -> str:
    papers = groupby(sections, key=lambda section: section.citation)
    return (
        _environment()
        .get_template(name)
        .render(
            heading="Reproduction of the papers' tables and figures",
            choices_heading=CHOICES_HEADING,
            overall=overall(sections),
            summary=Grid("", SUMMARY_HEADER, summary_rows(sections)),
            findings=findings(claims),
            findings_markdown=findings_markdown(claims),
            papers=[(citation, list(group)) for citation, group in papers],
            sections=sections,
            **more,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader(
            [PackageLoader(__package__), PackageLoader("discreg.comparison.report")]
        ),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "image_source": image_source,
        "is_wide": _is_wide,
        "escaped": escaped,
        "cell": lambda text: escaped(text).replace("|", "\\|").replace("\n", "<br>"),
    }
    return environment


def _is_wide(svg: str) -> bool:
    width = SVG_WIDTH.match(svg)
    return width is not None and float(width["points"]) > WIDE


def escaped(text: str) -> str:
    """Escape the special characters of Markdown."""
    return re.sub(r"([\\`*<$~])|(?<!\w)(_)|(_)(?!\w)", r"\\\g<0>", text)


def console_text(section: Section, *, width: int = 80) -> str:
    """Format the study as plain text of a given width."""
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
    """Format the table; columns that do not fit into the width follow below."""
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
    return str(frame.to_string(line_width=width))
