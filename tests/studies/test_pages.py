"""What every page has in common: it escapes, and it is whole or not there."""

import pytest
from jinja2 import UndefinedError

from discreg.studies.pages import rendered, write_whole

VALUES = {"heading": "<b>", "choices_heading": "", "overall": [], "summary_header": []}
LISTS = {"summary": [], "contents": [], "parts": []}


def test_values_are_escaped_and_the_style_is_not():
    page = rendered("reproduction.html", **VALUES, **LISTS)
    assert "<h1>&lt;b&gt;</h1>" in page
    assert 'font: 1rem/1.55 system-ui, -apple-system, "Segoe UI"' in page


def test_a_value_that_a_page_lacks_is_an_error():
    with pytest.raises(UndefinedError):
        rendered("reproduction.html", **VALUES)


def test_a_file_is_replaced(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    write_whole(path, "new σ")
    assert path.read_text(encoding="utf-8") == "new σ"
    assert list(tmp_path.iterdir()) == [path]


def test_a_page_that_cannot_be_put_in_its_place_leaves_nothing(tmp_path):
    taken = tmp_path / "page.html"
    taken.mkdir()
    with pytest.raises(OSError, match=r"page\.html"):
        write_whole(taken, "new")
    assert list(tmp_path.iterdir()) == [taken]
