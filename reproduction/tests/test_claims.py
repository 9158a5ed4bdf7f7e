"""Sentences on the papers' claims: they follow from the stored results, and so does the page."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from discreg_reproduction.claims import CLAIMS, claims_of
from discreg_reproduction.pages import (
    Section,
    escaped,
    findings_markdown,
    overall,
    summary_rows,
)
from discreg_reproduction.papers import studies
from discreg_reproduction.stored import NotStored, StoredScores, origin

DOCS = Path(__file__).parents[1] / "docs"
STORED = StoredScores.read(DOCS / "results.csv")
PAGE = (DOCS / "results.md").read_text(encoding="utf-8")


def section(name):
    """The study with its agreement and its numbers of fits, as they are stored."""
    agreement = STORED.agreement(name)
    fits, done, earlier = (
        int(STORED.of_study(name, each)) for each in ("fits", "fits_done", "fits_earlier")
    )
    blocks = (agreement,) if agreement else ()
    return Section(studies()[name], blocks, fits, fits - done, "", earlier)


class Recorder(StoredScores):
    """Stored scores that remember which of them were asked for."""

    def __init__(self, by_place):
        super().__init__(by_place)
        object.__setattr__(self, "asked", set())

    def score(self, *place):
        self.asked.add(place)
        return super().score(*place)

    def at_values(self, study, dataset, method, metric):
        found = super().at_values(study, dataset, method, metric)
        self.asked |= {
            place
            for place in self.by_place
            if place[:3] == (study, dataset, method) and place[3].startswith(f"{metric}[")
        }
        return found


def test_the_page_has_the_sentences_of_the_stored_results():
    assert findings_markdown(claims_of(STORED)) in PAGE


def test_the_summary_of_the_page_is_that_of_the_stored_results():
    sections = [section(name) for name in studies()]
    for sentence in overall(sections):
        assert sentence in PAGE
    for row in summary_rows(sections):
        assert f"| {' | '.join(row)} |" in PAGE


@pytest.mark.parametrize("name", studies())
def test_the_page_says_which_numbers_are_of_an_earlier_run(name):
    """The section of a study says what is its own, or that all is, from the stored results."""
    text = PAGE[PAGE.index(f"\n## {name}: ") :].split("<a id=", 1)[0]
    said = origin(STORED, name)
    assert ("earlier run" in text) == bool(said)
    assert escaped(said) in text


def is_stored(claim):
    try:
        claim(STORED)
    except NotStored:
        return False
    return True


@pytest.mark.parametrize("claim", list(filter(is_stored, CLAIMS)), ids=lambda claim: claim.__name__)
def test_other_numbers_give_other_sentences(claim):
    """Sentences change with the numbers that they ask for: here these are in the reverse order."""
    recorder = Recorder(STORED.by_place)
    before = claim(recorder)
    assert recorder.asked
    moved = StoredScores(
        {
            place: replace(score, mean=-1 - score.mean) if place in recorder.asked else score
            for place, score in STORED.by_place.items()
        }
    )
    assert claim(moved).text != before.text


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
def test_without_its_numbers_a_claim_is_left_out(claim):
    with pytest.raises(NotStored):
        claim(StoredScores())


def test_a_count_on_the_page_follows_its_data_set():
    """A DRM is the best on Pendigits; with lower scores it is the best on one data set fewer."""
    places = [
        ("drm/table2", "Pendigits", method, "accuracy[scaling=best]")
        for method in ("DRM(R)", "DRM(P)")
    ]
    lower = {place: replace(STORED.score(*place), mean=0.5) for place in places}
    before, after = (
        next(each.text for each in claims_of(scores) if "(drm/table2)" in each.text)
        for scores in (STORED, STORED.updated(lower))
    )
    count = re.compile(r"one of the best on (\d+) of")
    assert int(count.search(after)[1]) == int(count.search(before)[1]) - 1


def test_a_claim_changes_its_list_with_its_numbers():
    """ODM^L below LIBLINEAR's time on every data set would reproduce odm/fig2."""
    faster = {
        ("odm/fig2", dataset, "ODM^L", "fit_seconds"): replace(
            STORED.score("odm/fig2", dataset, "ODM^L", "fit_seconds"), mean=1e-3
        )
        for dataset in STORED.datasets("odm/fig2", "ODM^L", "fit_seconds")
    }
    for scores, holds in ((STORED, False), (STORED.updated(faster), True)):
        (found,) = (each for each in claims_of(scores) if "(odm/fig2)" in each.text)
        assert found.holds is holds


def test_stored_scores_are_read_as_they_were_written(tmp_path):
    STORED.write(tmp_path / "results.csv")
    assert StoredScores.read(tmp_path / "results.csv").by_place.keys() == STORED.by_place.keys()
    assert (tmp_path / "results.csv").read_text() == (DOCS / "results.csv").read_text()
