"""The page of a real comparison in a browser: it loads alone and fits a phone.

Collected only where Chromium and playwright are installed.
"""

import pytest
from cli_runs import odd_frame, run
from conftest import CHROMIUM
from playwright.sync_api import sync_playwright

PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def page_of_a_comparison(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    odd_frame().to_csv(folder / "odd.csv", index=False)
    options = ("--candidates", "DLSR,LRLR,Logistic", "--n-jobs", 1)
    output = folder / "out"
    assert run("compare", folder / "odd.csv", "--target", "kind", "--output", output, *options) == 0
    return output / "report.html"


@pytest.mark.full
def test_the_page_loads_alone_and_fits_a_phone(page_of_a_comparison):
    asked, complaints = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport=PHONE)
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(page_of_a_comparison.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
        total = page.evaluate("document.documentElement.scrollWidth")
        text = page.inner_text("body")
        browser.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith("data:")] == [page_of_a_comparison.as_uri()]
    assert all(width > 0 for width in widths)
    assert total <= PHONE["width"]
    assert "<b>ill</b>" in text
    assert "load_model" in text
