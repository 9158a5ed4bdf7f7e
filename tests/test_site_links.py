"""The check of a built site finds the links that lead nowhere."""

import subprocess
import sys
from pathlib import Path

CHECK = Path(__file__).parents[1] / ".ci" / "check_links.py"
PAGE = '<h1 id="top"></h1><a href="{}">x</a><img src="{}">'


def broken(site, href, src="figure.png"):
    (site / "sub").mkdir(exist_ok=True)
    (site / "figure.png").touch()
    (site / "other.html").write_text('<p id="anchor é"></p>', encoding="utf-8")
    (site / "index.html").write_text(PAGE.format(href, src), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, CHECK, site], capture_output=True, text=True, encoding="utf-8"
    )
    lines = done.stdout.splitlines()[:-1]
    assert done.returncode == bool(lines)
    return lines


def test_links_that_lead_somewhere(tmp_path):
    for link in ("#top", "other.html", "other.html#anchor%20%C3%A9", "sub/../index.html?v=1#top"):
        assert not broken(tmp_path, link)
    for link in ("https://example.org/nothing#here", "mailto:a@example.org"):
        assert not broken(tmp_path, link)


def test_links_that_lead_nowhere(tmp_path):
    for link, fault in [
        ("#bottom", "no such anchor"),
        ("other.html#top", "no such anchor"),
        ("missing.html", "no such file"),
        ("sub/", "no such file"),
        ("../index.html", "leads out of the site"),
    ]:
        assert broken(tmp_path, link) == [f"index.html: {link}: {fault}"]
    assert broken(tmp_path, "#top", "missing.png") == ["index.html: missing.png: no such file"]


def test_a_folder_without_pages_is_no_site(tmp_path):
    done = subprocess.run([sys.executable, CHECK, tmp_path], capture_output=True)
    assert done.returncode == 1
