"""The page of a comparison in a browser: it loads alone, fits, is readable, and can be sorted.

Collected only where Chromium and playwright are installed.
"""

import pytest
from conftest import CHROMIUM
from playwright.sync_api import sync_playwright
from report_findings import hostile, nothing_learned, rare, ten_classes

from discreg.comparison.report.page import write_report

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PAGES = {"rare": rare, "ten": ten_classes, "nothing": nothing_learned, "hostile": hostile}
WIDTHS = (390, 768, 1280)
# Text with less contrast to its background than WCAG's level AA asks for. Cells of the confusion
# matrix have a translucent layer between background and text.
LOW_CONTRAST = """() => {
    const parse = colour => {
        const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
        return [r, g, b, a];
    };
    const over = ([r, g, b, a], below) =>
        [r, g, b].map((value, place) => a * value + (1 - a) * below[place]);
    const backgroundOf = element => {
        const layers = [];
        for (let each = element; each; each = each.parentElement) {
            const tint = each.tagName === 'TD' && each.querySelector(':scope > i');
            if (tint) {
                const style = getComputedStyle(tint), colour = parse(style.backgroundColor);
                layers.push([...colour.slice(0, 3), colour[3] * Number(style.opacity)]);
            }
            layers.push(parse(getComputedStyle(each).backgroundColor));
        }
        return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255]);
    };
    const luminance = colour => {
        const [r, g, b] = colour.map(value => {
            const part = value / 255;
            return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.getClientRects().length) continue;
        if (element.closest('script, style, .unseen')) continue;
        const style = getComputedStyle(element), below = backgroundOf(element);
        const ink = parse(element.closest('svg') ? style.fill : style.color);
        const [light, dark] = [luminance(over(ink, below)), luminance(below)].sort((a, b) => b - a);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        const ratio = (light + 0.05) / (dark + 0.05);
        if (ratio < (isLarge ? 3 : 4.5)) {
            found.push(`${ratio.toFixed(2)} ${element.className}: ${walker.currentNode.data}`);
        }
    }
    return found;
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, findings in PAGES.items():
        write_report(folder / f"{name}.html", findings())
    return folder


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, folder):
    """A function that opens a page with all its parts; it keeps requests and complaints."""
    contexts = []

    def opened(name, scheme="light", width=1280, **options):
        viewport = {"width": width, "height": 900}
        context = browser.new_context(viewport=viewport, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.requested, page.complaints = [], []
        page.on("request", lambda request: page.requested.append(request.url))
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.goto((folder / f"{name}.html").as_uri())
        if options.get("java_script_enabled", True):
            page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page_loads_alone_fits_and_has_enough_contrast(open_page, name, scheme, width):
    page = open_page(name, scheme, width)
    assert page.complaints == []
    asked = [url for url in page.requested if not url.startswith("data:")]
    assert asked == [page.url]
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(LOW_CONTRAST) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_off(open_page, name, width):
    cut = open_page(name, width=width).evaluate(
        """[...document.querySelectorAll('body *')].filter(part =>
            part.getBoundingClientRect().right > innerWidth + 0.5 && !part.closest('.wide, pre')
        ).map(part => part.outerHTML.slice(0, 80))"""
    )
    assert cut == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_usual_table_needs_no_scrolling_in_its_box(open_page, width):
    scrolled = open_page("rare", width=width).evaluate(
        """[...document.querySelectorAll('.wide')].filter(box => box.scrollWidth > box.clientWidth)
        .map(box => box.innerText.slice(0, 60))"""
    )
    allowed = 1 if width == 390 else 0  # the table of all tests
    assert len(scrolled) <= allowed


# Sorting


def models(page):
    return page.locator(".ranking tbody tr").evaluate_all(
        "rows => rows.map(row => row.querySelector('th').dataset.value)"
    )


def focused(page, title):
    """Press Tab until the button of a column has the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText").startswith(title):
            return
    raise AssertionError(f"Tab does not reach {title}")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_ranking_is_sorted_by_keyboard(open_page, key, width):
    page = open_page("ten", width=width)
    table = ten_classes().table
    judged = table[table["reason"] == ""]
    by_time = list(judged.sort_values("fit_seconds", kind="stable").index)
    page.locator("h1").click()
    focused(page, "fit")
    page.keyboard.press(key)
    assert models(page)[: len(judged)] == by_time
    assert models(page)[len(judged) :] == ["LRRR", "SVC"]
    page.keyboard.press(key)
    assert models(page)[: len(judged)] == by_time[::-1]
    assert models(page)[len(judged) :] == ["LRRR", "SVC"]


def test_the_order_is_announced(open_page):
    page = open_page("rare")
    sorted_by = ".ranking th[aria-sort]"
    assert page.locator(sorted_by).get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="model").click()
    assert page.locator(sorted_by).get_attribute("data-sort") == "model"
    assert page.locator(sorted_by).get_attribute("aria-sort") == "ascending"
    assert models(page) == sorted(models(page), key=str.lower)
    page.get_by_role("button", name="balanced accuracy").click()
    assert models(page) == list(rare().table.index)


def test_the_focus_is_visible(open_page):
    page = open_page("rare")
    focused(page, "model")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_page_works_without_its_script(open_page):
    page = open_page("rare", java_script_enabled=False)
    assert page.get_by_role("button").count() == 0
    assert page.get_by_text("recommended", exact=True).is_visible()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_ranking_is_a_table_for_screen_readers(open_page, width):
    page = open_page("ten", width=width)
    table = page.get_by_role("table").first
    assert table.get_by_role("rowheader").count() == len(ten_classes().table)
    assert table.get_by_role("columnheader").count() >= 9


# Colours


def test_colours_follow_the_scheme(open_page):
    def brightness(scheme, part):
        page = open_page("rare", scheme)
        colour = page.evaluate(f"getComputedStyle(document.body).{part}")
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))

    assert brightness("light", "backgroundColor") > 600 > 200 > brightness("light", "color")
    assert brightness("dark", "color") > 600 > 200 > brightness("dark", "backgroundColor")


def test_words_in_plots_follow_the_scheme(open_page):
    """The ink of the first plot, drawn on a canvas: darker than grey on light, else lighter."""
    mean_ink = """async () => {
        const image = document.images[0], canvas = document.createElement('canvas');
        canvas.width = 2 * image.naturalWidth; canvas.height = 2 * image.naturalHeight;
        const context = canvas.getContext('2d');
        context.drawImage(image, 0, 0, canvas.width, canvas.height);
        const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
        let sum = 0, count = 0;
        for (let place = 0; place < pixels.length; place += 4) {
            const [red, green, blue, alpha] = pixels.slice(place, place + 4);
            const grey = Math.max(red, green, blue) - Math.min(red, green, blue) < 30;
            if (alpha > 200 && grey) { sum += red; count += 1; }
        }
        return sum / count;
    }"""
    assert open_page("rare", "light").evaluate(mean_ink) < 100
    assert open_page("rare", "dark").evaluate(mean_ink) > 160
