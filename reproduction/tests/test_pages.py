"""The papers' studies as a page, as Markdown and in a terminal: all of it, and nothing else."""

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from study_results import blocks_of

from discreg_reproduction.pages import (
    Section,
    console_text,
    markdown,
    overall,
    summary_rows,
    write_page,
)
from discreg_reproduction.papers import PAPERS, studies
from discreg_reproduction.views.blocks import Agreement, Grid, Picture, Text

NAMES = ("drm/table7", "relsr/table1", "relsr/fig3", "odm/fig2")
HOSTILE = "<img src=x onerror=alert(1)> *not bold* | `code` $1$"


def section_of(name, *, n_missing=0, note="", **changes):
    study = studies()[name]
    n_fits = 3 * len(study.datasets) * len(study.methods)
    return Section(study, blocks_of(name, **changes), n_fits, n_missing, note)


def hostile_section():
    study = replace(studies()["relsr/fig3"], title=HOSTILE, choices=(HOSTILE,))
    svg = '<svg width="10pt"><text>drawn</text></svg>'
    blocks = (
        Text(HOSTILE),
        Grid(HOSTILE, (HOSTILE, "m"), ((HOSTILE, HOSTILE),)),
        Picture("picture", svg, HOSTILE, HOSTILE),
    )
    return Section(study, blocks, 1, 0, HOSTILE)


def plain(text):
    """Words with single spaces, as a reader sees them."""
    return " ".join(text.split())


class Page(HTMLParser):
    """Tags with their attributes, and the text that a reader sees."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self._open = [], [], []
        self.feed(text)
        assert self._open == []
        self.text = plain(" ".join(self.words))

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "img", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def sections():
    return [section_of(name) for name in NAMES]


@pytest.fixture(scope="module")
def page(sections, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, sections)
    assert [found.name for found in path.parent.iterdir()] == ["report.html"]
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def written(sections):
    return markdown(sections, images="images")


# The summary


def test_summary_counts_fits_and_values():
    near = Agreement(10, 8, 5, 7, 0.01, 2, 1)
    far = Agreement(4, 0, 0, 0, 0.2, 1, 0)
    first, second, third = (studies()[name] for name in ("drm/table2", "drm/table4", "drm/fig2"))
    rows = summary_rows(
        [
            Section(first, (near,), 20, 3, ""),
            Section(second, (far,), 5, 0, ""),
            Section(third, (), 7, 7, ""),
        ]
    )
    assert rows == (
        ("drm/table2", "17 of 20", "10", "5 of 8", "7 of 8"),
        ("drm/table4", "5 of 5", "4", "–", "–"),
        ("drm/fig2", "0 of 7", "–", "–", "–"),
        ("all", "22 of 32", "14", "5 of 8", "7 of 8"),
    )


def test_fits_that_studies_share_are_counted_once():
    near = Agreement(10, 8, 5, 7, 0.01, 2, 1)
    bars = Section(studies()["relsr/fig2"], (near,), 20, 3, "")
    ranks = Section(studies()["relsr/fig3"], (near,), 20, 3, "")
    assert summary_rows([bars, ranks]) == (
        ("relsr/fig2", "17 of 20", "10", "5 of 8", "7 of 8"),
        ("relsr/fig3", "shares relsr/fig2", "10", "5 of 8", "7 of 8"),
        ("all", "17 of 20", "10", "5 of 8", "7 of 8"),
    )
    assert overall([bars, ranks])[0].startswith("7 of 8 reported values")
    assert "17 of 20 fits are done. They are those of relsr/fig2." in plain(console_text(ranks))


def test_a_study_without_the_one_whose_fits_it_shows_counts_them():
    table = Section(studies()["relsr/table1"], (), 18, 0, "")
    ranks = Section(studies()["relsr/fig3"], (), 20, 3, "")
    assert [row[1] for row in summary_rows([table, ranks])] == ["18 of 18", "17 of 20", "35 of 38"]


def test_one_study_has_no_row_for_all(sections):
    assert [row[0] for row in summary_rows(sections[:1])] == ["drm/table7"]


def test_overall_sentence_counts_what_has_a_deviation():
    near = Section(studies()["drm/table2"], (Agreement(10, 8, 5, 7, 0.01, 2, 1),), 1, 0, "")
    assert overall([near, near])[0].startswith("14 of 16 reported values are reproduced within two")
    assert not any("come out" in sentence for sentence in overall([replace(near, blocks=())]))


# The page


def test_page_needs_nothing_from_elsewhere(page):
    assert not page.all("script")
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    images = page.all("img")
    assert len(images) == 2
    assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in images)
    assert all(image["alt"] for image in images)
    policy = [meta.get("content") for meta in page.all("meta") if "http-equiv" in meta]
    assert policy == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_contents_lead_to_every_study(page):
    links = [link["href"] for link in page.all("a")]
    assert links == [f"#{name.replace('/', '-')}" for name in NAMES]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert {link[1:] for link in links} <= set(ids)


def test_summary_comes_before_contents_and_studies(page):
    places = [page.text.index(words) for words in ("Summary", "Contents", NAMES[0] + ":")]
    assert places == sorted(places)


def test_page_has_every_block_and_choice(page, sections):
    for section in sections:
        assert section.study.title in page.text
        assert PAPERS[section.study.name.split("/")[0]] in page.text
        for choice in section.study.choices:
            assert plain(choice) in page.text
        for block in section.blocks:
            match block:
                case Grid():
                    cells = [cell for row in block.rows for cell in row]
                    assert all(plain(cell) in page.text for cell in cells)
                case Picture():
                    assert plain(block.caption) in page.text
                case _:
                    assert plain(block.text) in page.text


def test_pictures_in_the_page_are_the_drawn_ones(page, sections):
    drawn = [b.svg for section in sections for b in section.blocks if isinstance(b, Picture)]
    sources = [image["src"].split(",", 1)[1] for image in page.all("img")]
    assert [base64.b64decode(source).decode() for source in sources] == drawn


def test_only_wide_pictures_scroll(page):
    classes = [figure["class"] for figure in page.all("figure")]
    assert classes == ["card picture", "card picture wide"]  # ranks; panels


def test_tables_scroll_in_their_own_box(page):
    for place, (tag, _) in enumerate(page.tags):
        if tag == "table":
            assert page.tags[place - 1] == ("div", {"class": "card scroll"})


def test_page_escapes_everything(tmp_path):
    write_page(tmp_path / "page.html", [hostile_section()])
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [image["alt"] for image in page.all("img")] == [HOSTILE]
    assert page.text.count(HOSTILE) == 10


# Markdown


def test_markdown_has_the_studies_with_their_papers_in_order(written):
    text, _ = written
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert headings == ["Contents", *(f"{name}: {studies()[name].title}" for name in NAMES)]
    for name in NAMES:
        assert text.count(f'<a id="{name.replace("/", "-")}"></a>') == 1
        assert text.count(f"](#{name.replace('/', '-')})") == 1
        assert f"\n\n{PAPERS[name.split('/')[0]]}.\n\n" in text


def test_markdown_links_to_the_pictures_that_come_with_it(written):
    text, pictures = written
    links = re.findall(r"!\[[^]]+\]\(images/([^)]+)\.svg\)", text)
    assert links == list(pictures) == ["relsr-fig3-critical-difference", "odm-fig2-bars"]
    assert all(svg.startswith("<svg") for svg in pictures.values())


def test_markdown_tables_have_as_many_cells_in_every_row(written):
    text, _ = written
    tables = re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE)
    assert len(tables) == 5  # of summary, drm/table7 twice, relsr/table1 and odm/fig2
    for table in tables:
        assert len({row.count(" | ") for row in table.splitlines()}) == 1


def test_markdown_sets_theirs_beneath_ours(written):
    text, _ = written
    assert re.search(
        r"\| haberman \| 0\.\d{4} ± 0\.\d{4}<br>0\.4212 ± 0\.1451 \(.\d\.\dσ\) \|", text
    )


def test_markdown_lists_the_choices(written):
    text, _ = written
    for name in NAMES:
        for choice in studies()[name].choices:
            assert f"\n- {choice}\n" in text


def test_markdown_finds_nothing_in_names():
    text, _ = markdown([hostile_section()], images="images")
    assert "<img" not in text.replace("\\<img", "")
    assert not re.search(r"(?<!\\)\*not", text)
    rows = re.findall(r"^\| \\<img.*$", text, flags=re.MULTILINE)
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [3, 3]


# The terminal


def test_console_sets_ours_over_theirs_in_columns(sections):
    lines = console_text(sections[0]).splitlines()
    header = next(line for line in lines if line.startswith("data set"))
    assert header.split()[2] == "SVM(R)"
    ours = lines.index(next(line for line in lines if line.startswith("haberman")))
    assert re.match(r"haberman +0\.\d{4} ± 0\.\d{4} ", lines[ours])
    assert re.match(r" +0\.4212 ± 0\.1451 \(.\d\.\dσ\)", lines[ours + 1])


@pytest.mark.parametrize("width", [80, 120])
def test_console_keeps_to_the_width_and_shows_every_column(sections, width):
    text = console_text(sections[0], width=width)
    assert max(map(len, text.splitlines())) <= width
    headers = [line for line in text.splitlines() if line.startswith("data set")]
    columns = " ".join(word for header in headers for word in header.split()[2:] if word != "\\")
    assert columns == " ".join(2 * list(studies()["drm/table7"].methods))  # beside theirs; alone


def test_console_says_counts_choices_and_what_ran(sections):
    section = replace(sections[0], n_missing_fits=5, note="2 fits could not be made.")
    text = plain(console_text(section))
    (found,) = (block for block in section.blocks if isinstance(block, Agreement))
    assert found.text in text
    assert "400 of 405 fits are done. 2 fits could not be made." in text
    assert "All 405 fits are done." in console_text(sections[0])
    for choice in section.study.choices:
        assert f"- {plain(choice)}" in text


def test_console_names_the_pictures(sections):
    assert "\nodm-fig2-bars.svg: Mean seconds to fit" in console_text(sections[3])
