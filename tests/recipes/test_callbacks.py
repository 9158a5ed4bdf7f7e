"""The page on callbacks."""

import pytest
from recipe_pages import run_page

pytest.importorskip("sklearn.callback")


@pytest.mark.full
def test_the_callback_prints_the_rounds(capsys):
    page = run_page("callbacks")
    printed = capsys.readouterr().out
    assert "AutoClassifier - fit" in printed  # the progress bar
    assert "Kernels: " in printed  # the callback of the page
    assert page["auto"].score(page["X"], page["y"]) > 0.95
