"""A fit is easy to follow: few files, and CONTRIBUTING.md names the files."""

import re
import sys
from functools import partial
from pathlib import Path

from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

import discreg
from discreg import ReLSRClassifier

PACKAGE = Path(discreg.__file__).parent
GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"


def files_on_the_way(call):
    """Files of the package with a function that the call runs."""
    files = set()

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in path.parents:
            files.add(path.relative_to(PACKAGE).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return files


def test_a_fit_on_an_array_visits_the_files_of_the_guide():
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    section = GUIDE.read_text(encoding="utf-8").split("## The way of a fit")[1].split("\n## ")[0]
    parts = section.split("With `probability=True`")
    assert len(parts) == 2
    named = set()
    for part, probability, most in zip(parts, (False, True), (14, 22), strict=True):
        rows = [row for row in part.splitlines() if row.startswith("|")]
        named |= {name for row in rows for name in re.findall(r"`(\w+/\w+\.py)`", row)}
        model = ReLSRClassifier(probability=probability)
        model.fit(X, y)  # imports
        assert files_on_the_way(partial(model.fit, X, y)) == named
        assert len(named) <= most
