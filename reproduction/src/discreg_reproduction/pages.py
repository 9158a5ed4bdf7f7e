"""The papers' studies laid out: as a page, as Markdown and for a terminal."""

from __future__ import annotations

import base64
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from discreg.comparison.files import write_whole

from .papers import PAPERS
from .protocol import Study
from .views.blocks import Agreement, Block, Grid, Picture, Text

__all__ = [
    "SUMMARY_HEADER",
    "Section",
    "console_text",
    "markdown",
    "overall",
    "summary_rows",
    "write_page",
]

HEADING = "The papers' tables and figures, run again"
CHOICES_HEADING = "What the paper leaves open, and what is taken here"
SUMMARY_HEADER = ("study", "fits done", "compared", "within one σ", "within two σ")
NOTHING = "–"
SVG_WIDTH = re.compile(r'<svg[^>]* width="(?P<points>[\d.]+)pt"')
WIDE = 300.0  # points: a picture that is wider keeps its size and scrolls
CONSOLE_WIDTH = 80
GAP = "  "


@dataclass(frozen=True)
class Section:
    """One study and what is shown of it."""

    study: Study
    blocks: tuple[Block, ...]
    n_fits: int  # that the study has on the data sets that are to be had
    n_missing_fits: int  # of them without a result
    note: str  # what else a reader must know of the run
    shares: str | None = None  # the study whose fits these are


@dataclass(frozen=True)
class ImagePicture:
    """A picture as a page holds it."""

    source: str
    alt: str
    caption: str
    wide: bool


# What all forms share


def summary_rows(sections: Sequence[Section]) -> tuple[tuple[str, ...], ...]:
    """A row for each study under `SUMMARY_HEADER`, and one for all where there are several."""
    counted = _with_own_fits(sections)
    rows = [
        (
            section.study.name,
            _done([section]) if section in counted else f"shares {section.shares}",
            *_counts(_agreements([section])),
        )
        for section in sections
    ]
    if len(sections) > 1:
        rows.append(("all", _done(counted), *_counts(_agreements(counted))))
    return tuple(rows)


def _with_own_fits(sections: Sequence[Section]) -> list[Section]:
    """Those whose fits no other of them has, so that every fit is counted once."""
    there = {section.study.name for section in sections}
    return [section for section in sections if section.shares not in there]


def _done(sections: Sequence[Section]) -> str:
    n_fits = sum(section.n_fits for section in sections)
    return f"{n_fits - sum(section.n_missing_fits for section in sections)} of {n_fits}"


def overall(sections: Sequence[Section]) -> tuple[str, ...]:
    """Sentences on all studies together."""
    found = _agreements(_with_own_fits(sections))
    n_judged = sum(one.n_judged for one in found)
    sentences = []
    if n_judged:
        within_one = sum(one.within_one for one in found)
        within_two = sum(one.within_two for one in found)
        sentences.append(
            f"{within_two} of {n_judged} reported values come out within two of their standard "
            f"deviations, {within_one} within one."
        )
    sentences.append(
        "σ is the standard deviation that the paper reports. Ours stand alone where a "
        "paper only draws, and in lowrank/table2, whose printed numbers are not to be had as text."
    )
    return tuple(sentences)


def _agreements(sections: Sequence[Section]) -> list[Agreement]:
    blocks = (block for section in sections for block in section.blocks)
    return [block for block in blocks if isinstance(block, Agreement)]


def _counts(found: Sequence[Agreement]) -> tuple[str, str, str]:
    """Values compared, and of those with a standard deviation how many are near."""
    if not found:
        return NOTHING, NOTHING, NOTHING
    n_values = sum(one.n_values for one in found)
    n_judged = sum(one.n_judged for one in found)
    if not n_judged:
        return str(n_values), NOTHING, NOTHING
    within_one = sum(one.within_one for one in found)
    within_two = sum(one.within_two for one in found)
    return str(n_values), f"{within_one} of {n_judged}", f"{within_two} of {n_judged}"


def _heading(study: Study) -> str:
    return f"{study.name}: {study.title}"


def _citation(study: Study) -> str:
    return PAPERS[study.name.split("/")[0]]


def _anchor(study: Study) -> str:
    return study.name.replace("/", "-")


def _ran(section: Section) -> str:
    """How much of the study there is, and what else must be known."""
    done = _done([section]) if section.n_missing_fits else f"All {section.n_fits}"
    shared = f"They are those of {section.shares}." if section.shares else ""
    said = (f"{done} fits of this run are done.", shared, section.note)
    return " ".join(filter(None, said))


def _by_paper(sections: Sequence[Section]) -> dict[str, list[Study]]:
    papers: dict[str, list[Study]] = {}
    for section in sections:
        papers.setdefault(_citation(section.study), []).append(section.study)
    return papers


# The page


def write_page(path: Path, sections: Sequence[Section]) -> None:
    """Write the page: one HTML file that needs no network."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(__package__), PackageLoader("discreg.comparison")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("reproduction.html").render(
        heading=HEADING,
        choices_heading=CHOICES_HEADING,
        overall=overall(sections),
        summary_header=SUMMARY_HEADER,
        summary=summary_rows(sections),
        contents=[
            (citation, [(_anchor(study), _heading(study)) for study in studies])
            for citation, studies in _by_paper(sections).items()
        ],
        parts=[_part(section) for section in sections],
    )
    write_whole(path, page)


def _part(section: Section) -> dict[str, Any]:
    study = section.study
    return {
        "anchor": _anchor(study),
        "heading": _heading(study),
        "citation": _citation(study),
        "ran": _ran(section),
        "blocks": [(type(block).__name__, _placed(block)) for block in section.blocks],
        "choices": study.choices,
    }


def _placed(block: Block) -> Block | ImagePicture:
    """The block as the page takes it: pictures inside it."""
    if not isinstance(block, Picture):
        return block
    encoded = base64.b64encode(block.svg.encode("utf-8")).decode()
    source = f"data:image/svg+xml;base64,{encoded}"
    width = SVG_WIDTH.match(block.svg)
    wide = width is not None and float(width["points"]) > WIDE
    return ImagePicture(source, block.alt, block.caption, wide)


# Markdown


def markdown(sections: Sequence[Section], *, images: str) -> tuple[str, dict[str, str]]:
    """The studies in GitHub's Markdown, and the pictures that it links to by name.

    Parameters
    ----------
    sections : sequence of Section
        The studies.
    images : str
        Folder of the pictures, seen from the text: each is ``{images}/{name}.svg`` there.
    """
    lines = [f"# {HEADING}", *overall(sections)]
    lines.append(_markdown_table(SUMMARY_HEADER, summary_rows(sections)))
    lines.append("\n".join(_markdown_contents(sections)))
    for section in sections:
        lines += _markdown_section(section, images)
    pictures = {
        block.name: block.svg
        for section in sections
        for block in section.blocks
        if isinstance(block, Picture)
    }
    return "\n\n".join(lines) + "\n", pictures


def _markdown_contents(sections: Sequence[Section]) -> Iterator[str]:
    for citation, studies in _by_paper(sections).items():
        yield f"- {_escaped(citation)}"
        for study in studies:
            yield f"  - [{_escaped(_heading(study))}](#{_anchor(study)})"


def _markdown_section(section: Section, images: str) -> Iterator[str]:
    study = section.study
    yield f'<a id="{_anchor(study)}"></a>'
    yield f"## {_escaped(_heading(study))}"
    yield f"{_escaped(_citation(study))}."
    yield _escaped(_ran(section))
    for block in section.blocks:
        match block:
            case Grid():
                yield _escaped(block.caption)
                yield _markdown_table(block.header, block.rows)
            case Picture():
                yield f"![{_escaped(block.alt)}]({images}/{block.name}.svg)"
                yield _escaped(block.caption)
            case Text() | Agreement():
                yield _escaped(block.text)
    if study.choices:
        yield f"<details><summary>{CHOICES_HEADING}</summary>"
        yield "\n".join(f"- {_escaped(choice)}" for choice in study.choices)
        yield "</details>"


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        safe = (_escaped(cell).replace("|", "\\|").replace("\n", "<br>") for cell in cells)
        return f"| {' | '.join(safe)} |"

    marks = ["---", *(["---:"] * (len(header) - 1))]
    return "\n".join([line(header), f"| {' | '.join(marks)} |", *map(line, rows)])


def _escaped(text: str) -> str:
    """Text in which Markdown finds nothing of its own."""
    return re.sub(r"([\\`*<$~])|(?<!\w)(_)|(_)(?!\w)", r"\\\g<0>", text)


# The terminal


def console_text(section: Section, *, width: int = CONSOLE_WIDTH) -> str:
    """The study as plain text of a width: tables in columns, sentences beneath them."""
    study = section.study

    def paragraph(text: str, first: str = "") -> str:
        return textwrap.fill(
            text,
            width,
            initial_indent=first,
            subsequent_indent=" " * len(first),
            break_long_words=False,
            break_on_hyphens=False,
        )

    parts = [f"{paragraph(_heading(study))}\n{paragraph(_citation(study))}"]
    parts.append(paragraph(_ran(section)))
    for block in section.blocks:
        match block:
            case Grid():
                parts += [paragraph(block.caption), *_aligned(block, width)]
            case Picture():
                parts.append(paragraph(f"{block.name}.svg: {block.caption}"))
            case Text() | Agreement():
                parts.append(paragraph(block.text))
    if study.choices:
        choices = (paragraph(choice, "- ") for choice in study.choices)
        parts.append("\n".join([f"{CHOICES_HEADING}:", *choices]))
    return "\n\n".join(parts) + "\n"


def _aligned(grid: Grid, width: int) -> Iterator[str]:
    """The table in columns; those that the width has no room for come after, named again."""
    lines = [_lines_of(row) for row in (grid.header, *grid.rows)]
    widths = [
        max(len(cells[column]) for block in lines for cells in block)
        for column in range(len(grid.header))
    ]
    columns = list(range(1, len(grid.header)))
    while columns:
        shown, used = [0], widths[0]
        while columns and (len(shown) == 1 or used + len(GAP) + widths[columns[0]] <= width):
            used += len(GAP) + widths[columns[0]]
            shown.append(columns.pop(0))
        yield "\n".join(
            GAP.join(cells[column].ljust(widths[column]) for column in shown).rstrip()
            for block in lines
            for cells in block
        )


def _lines_of(row: Sequence[str]) -> list[tuple[str, ...]]:
    """The lines of a row whose cells may have several."""
    return list(zip_longest(*(cell.split("\n") for cell in row), fillvalue=""))
