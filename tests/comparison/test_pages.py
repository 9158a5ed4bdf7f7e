"""What every page has in common: it escapes."""

import pytest
from jinja2 import UndefinedError

from discreg.comparison.pages import rendered

VALUES = {"heading": "<b>", "choices_heading": "", "overall": [], "summary_header": []}
LISTS = {"summary": [], "contents": [], "parts": []}


def test_values_are_escaped_and_the_style_is_not():
    page = rendered("reproduction.html", **VALUES, **LISTS)
    assert "<h1>&lt;b&gt;</h1>" in page
    assert 'font: 1rem/1.55 system-ui, -apple-system, "Segoe UI"' in page


def test_a_value_that_a_page_lacks_is_an_error():
    with pytest.raises(UndefinedError):
        rendered("reproduction.html", **VALUES)
