"""The report in a browser: it loads alone, fits and is readable.

Collected only where Chromium and playwright are installed.
"""

from conftest import CHROMIUM
from playwright.sync_api import sync_playwright
from report_findings import rare

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run"]
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


def test_the_report_fits_and_is_readable(tmp_path):
    path = tmp_path / "report.html"
    rare().report(path)
    troubles = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for width in (390, 768, 1280):
            for scheme in ("light", "dark"):
                size = {"width": width, "height": 900}
                page = browser.new_page(viewport=size, color_scheme=scheme)
                page.on("console", lambda message: troubles.append(message.text))
                page.on("request", lambda request: troubles.append(request.url))
                page.goto(path.as_uri())
                assert page.evaluate("document.documentElement.scrollWidth") == width
                assert page.evaluate(LOW_CONTRAST) == []
        browser.close()
    assert [each for each in troubles if not each.startswith(("file:", "data:"))] == []
