"""The report: what it says of a comparison, and names that are text and nothing else."""

import json
import re
from dataclasses import asdict, replace
from html.parser import HTMLParser

import numpy as np
import pytest
from report_findings import (
    COLUMNS,
    HOSTILE_NAMES,
    comparison_of,
    evidence_of,
    flagged,
    hostile,
    rare,
)

from discreg.comparison.predict import Evaluated
from discreg.comparison.report.checklist import checklist
from discreg.comparison.report.findings import Findings
from discreg.comparison.report.page import write_evaluation
from discreg.comparison.statistics.performance import measure, operating_points
from discreg.comparison.words import number


@pytest.fixture(scope="module")
def page_of(tmp_path_factory):
    def page(comparison):
        path = tmp_path_factory.mktemp("report") / "report.html"
        comparison.report(path)
        return path.read_text()

    return page


@pytest.fixture(scope="module")
def page(page_of):
    return page_of(rare())


class Text(HTMLParser):
    """Text of a page without scripts and styles, and its tags."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.parts, self._hidden = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._hidden = tag in ("script", "style")

    def handle_data(self, data):
        if not self._hidden:
            self.parts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.parts).split())


def test_the_verdict_is_three_sentences_and_every_number_has_an_interval(page):
    comparison, text = rare(), Text(page).text
    for sentence in comparison.verdict.sentences:
        assert sentence in text
    for each in measure(comparison.evidence.sample("Auto")):
        assert (
            f"{each.title} {number(each.value)} {number(each.low)} to {number(each.high)}" in text
        )
    for point in operating_points(comparison.evidence.sample("Auto")):
        assert f"{number(point.recall.low)} to {number(point.recall.high)}" in text


def test_sections_of_what_was_asked_for(page):
    text = Text(page).text
    for part in ("The test table", "By sex", "women: 500 rows", "Calibration", "Decision curve"):
        assert part in text
    assert "Correlated columns share their importance" in text
    assert "Labels follow the most probable class" in text


def test_a_red_flag_is_the_headline_and_no_number_is_expected(page_of):
    text = Text(page_of(flagged())).text
    assert "Do not use these scores" in text
    assert "rows of the same 'patient_id' were in training and test" in text
    assert "--groups patient_id" in text
    assert "Expect" not in text
    assert "log-loss" not in text.partition("Metric log-loss")[2]
    assert "How to describe" not in text
    assert "model.skops contains" not in text


def test_names_are_text_and_never_tags_scripts_or_templates(page_of):
    page = page_of(hostile())
    found = Text(page)
    assert not [tag for tag, attrs in found.tags if "onerror" in attrs]
    assert "script" not in [tag for tag, _ in found.tags]
    assert "\u202e" not in page
    assert "\x00" not in page
    for name in HOSTILE_NAMES[1:4]:
        assert name in found.text


def test_a_page_needs_no_network(page):
    addresses = re.findall(r"(?:src|href)=\"([^\"]*)", page)
    assert all(each.startswith("data:") for each in addresses)


@pytest.mark.parametrize("skills", [{}, {"Auto": 0.0}])
def test_a_comparison_without_a_recommendation_has_a_page(page_of, skills):
    text = Text(page_of(comparison_of(evidence_of(skills, shares=(1, 1, 1))))).text
    assert "Use Auto" not in text
    assert "data/rare.csv" in text


def test_the_checklist_has_every_item_and_leaves_blanks_to_the_author():
    comparison = rare()
    items = checklist(comparison.findings, comparison.evidence, comparison.verdict)
    assert [item.number for item in items] == [str(k) for k in range(1, 28)]
    assert all(item.answer or item.to_add for item in items)
    by_title = {item.title: item for item in items}
    assert "51.5 of them per candidate parameter" in by_title["Sample size"].answer
    assert "crp 212 (control 200, case 12)" in by_title["Missing data"].answer
    assert not by_title["Ethical approval"].answer


def test_the_checklist_recommends_no_model_where_the_verdict_does_not():
    comparison = flagged()
    text = repr(checklist(comparison.findings, comparison.evidence, comparison.verdict))
    assert "No model is recommended." in text
    assert "The recommended model is" not in text
    evidence = replace(comparison.evidence, weights=np.arange(400.0))
    text = repr(checklist(comparison.findings, evidence, comparison.verdict))
    assert "Rows have sample weights" in text


def test_findings_survive_json():
    findings = rare().findings
    again = Findings.from_dict(json.loads(json.dumps(asdict(findings), default=float)))
    assert again.columns == list(COLUMNS)
    assert again.test == findings.test
    assert again.subgroups == findings.subgroups


def test_the_page_of_an_evaluation_has_the_same_numbers(tmp_path):
    sample = rare().evidence.sample("Auto")
    write_evaluation(tmp_path / "page.html", Evaluated("Auto", "new.csv", sample, ("a note",)))
    text = Text((tmp_path / "page.html").read_text()).text
    for each in measure(sample):
        assert number(each.value) in text
    assert "a note" in text
