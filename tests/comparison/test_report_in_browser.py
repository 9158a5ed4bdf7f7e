"""The page of a comparison in a browser: it loads alone, fits a phone and follows its colours.

Collected only where Chromium and playwright are installed.
"""

import pytest
from conftest import CHROMIUM
from playwright.sync_api import sync_playwright
from report_findings import MODELS, findings_of, results_of

from discreg.comparison.experiment import Key
from discreg.comparison.report import write_report

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
HOSTILE = "<img src=x onerror=console.error('run')>" + "x" * 200
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1200, "height": 900}


def pages_of(folder):
    """A page of the usual, and one of everything that is too long, too many or hostile."""
    results = results_of(MODELS)
    failed = (results["model"] == MODELS[3]) & (results["repeat"] == 1)
    failure = {Key("table", MODELS[3], 1, 0): "MemoryError: " + "9" * 300}
    extreme = findings_of(
        results=results[~failed],
        name=HOSTILE,
        labels=(HOSTILE, *(f"kind {place} 种" for place in range(99))),
        notes=(HOSTILE,),
        incomplete=HOSTILE,
        failures=failure,
        usage="model = " + "x" * 300,
    )
    write_report(folder / "usual.html", findings_of())
    write_report(folder / "extreme.html", extreme)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return pages_of(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, folder):
    """A function that opens a page; it keeps what the page asked for and complained of."""
    contexts = []

    def opened(name, scheme="light", viewport=PHONE):
        context = browser.new_context(viewport=viewport, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.requested, page.complaints = [], []
        page.on("request", lambda request: page.requested.append(request.url))
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.goto((folder / name).as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["usual.html", "extreme.html"])
def test_page_loads_alone_and_fits(open_page, name, scheme, viewport):
    page = open_page(name, scheme, viewport)
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert page.complaints == []
    asked = [url for url in page.requested if not url.startswith("data:")]
    assert asked == [page.url]
    widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
    assert len(widths) == 6
    assert min(widths) > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


@pytest.mark.parametrize("name", ["usual.html", "extreme.html"])
def test_nothing_on_a_phone_is_cut_off(open_page, name):
    cut = open_page(name).evaluate(
        """[...document.querySelectorAll('body *')].filter(part =>
            part.getBoundingClientRect().right > innerWidth && !part.closest('.scroll, pre')
        ).map(part => part.outerHTML.slice(0, 80))"""
    )
    assert cut == []


def test_colours_follow_the_scheme(open_page):
    def brightness(scheme, part):
        page = open_page("usual.html", scheme)
        colour = page.evaluate(f"getComputedStyle(document.body).{part}")
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))

    assert brightness("light", "backgroundColor") > 600 > 200 > brightness("light", "color")
    assert brightness("dark", "color") > 600 > 200 > brightness("dark", "backgroundColor")


def test_words_in_plots_follow_the_scheme(open_page):
    """The ink of the first plot, drawn on a canvas: darker than grey on light, else lighter."""
    mean_ink = """async () => {
        const image = document.images[0], canvas = document.createElement('canvas');
        canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
        const context = canvas.getContext('2d');
        context.drawImage(image, 0, 0);
        const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
        let sum = 0, count = 0;
        for (let place = 0; place < pixels.length; place += 4) {
            const [red, green, blue, alpha] = pixels.slice(place, place + 4);
            const grey = Math.max(red, green, blue) - Math.min(red, green, blue) < 30;
            if (alpha > 200 && grey) { sum += red; count += 1; }
        }
        return sum / count;
    }"""
    assert open_page("usual.html", "light").evaluate(mean_ink) < 100
    assert open_page("usual.html", "dark").evaluate(mean_ink) > 160
