"""What every page has in common: it escapes."""

import pytest
from jinja2 import UndefinedError

from discreg.comparison.pages import page_template


def test_the_style_is_not_escaped():
    page = page_template("base.html").render()
    assert 'font: 1rem/1.55 system-ui, -apple-system, "Segoe UI"' in page


def test_a_value_that_a_page_lacks_is_an_error():
    with pytest.raises(UndefinedError):
        page_template("report.html").render()
