"""The page of a comparison: what it says, in which order, and that it is safe to open."""

import base64
import hashlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from report_findings import (
    COLUMNS,
    HOSTILE_NAMES,
    METHODS,
    hostile,
    nothing_learned,
    rare,
    ten_classes,
)

from discreg.comparison.flags.flag import Flag
from discreg.comparison.report.page import write_report
from discreg.comparison.running.experiment import Key

UNCLOSED = ("meta", "link", "img", "br", "line", "circle")


class Page(HTMLParser):
    """Tags with their attributes, headings, scripts and the text that a reader sees."""

    def __init__(self, findings, path):
        super().__init__()
        self.tags, self.headings, self.words, self.scripts = [], [], [], []
        self._open = []
        write_report(path, findings)
        assert [found.name for found in path.parent.iterdir()] == [path.name]
        self.feed(path.read_text(encoding="utf-8"))
        self.text = " ".join(" ".join(self.words).split()).replace("\N{NO-BREAK SPACE}", " ")

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in UNCLOSED:
            self._open.append(tag)
        if tag == "h2":
            self.headings.append("")

    def handle_endtag(self, tag):
        if tag not in UNCLOSED:
            assert self._open.pop() == tag

    def handle_data(self, data):
        if "script" in self._open:
            self.scripts.append(data)
        elif "style" not in self._open:
            self.words.append(data)
        if self._open and self._open[-1] == "h2":
            self.headings[-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    def classes(self, tag):
        return [attributes.get("class", "") for attributes in self.all(tag)]


@pytest.fixture
def written(tmp_path):
    return lambda findings: Page(findings, tmp_path / "report.html")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return Page(rare(), tmp_path_factory.mktemp("report") / "report.html")


def test_parts_come_in_the_order_of_a_reader(page):
    recommended = rare().verdict.recommended
    assert page.headings == [
        "Ranking",
        f"The recommended model: {recommended}",
        "The table",
        "Use the model",
        "How to describe this comparison",
        "Details",
    ]
    words = ("data/rare.csv", f"Use {recommended}", rare().verdict.sentence, "Ranking")
    places = [page.text.index(each) for each in words]
    assert places == sorted(places)


def test_the_title_has_target_file_date_metric_folds_and_command(page):
    findings = rare()
    for text in (
        findings.target,
        findings.source,
        findings.date,
        findings.metric_title,
        findings.folds,
        findings.command,
        "2,134 rows, 5 features, 2 classes",
    ):
        assert text in page.text


def test_page_needs_nothing_from_elsewhere(page):
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in page.all("img"))
    assert all(image["alt"] for image in page.all("img"))
    assert page.all("script") == [{}]


def test_only_the_script_of_the_page_may_run(page):
    (policy,) = [meta["content"] for meta in page.all("meta") if "http-equiv" in meta]
    (script,) = page.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )


def test_the_score_to_expect_stands_beside_the_measured_one_and_the_baseline(page):
    estimate, baseline = rare().verdict.estimate, rare().verdict.baseline
    assert f"{estimate.corrected:.3f} {estimate.low:.3f} to {estimate.high:.3f}" in page.text
    n_models = len(rare().evidence.contenders) - 1  # without the majority class
    assert f"Measured: {estimate.mean:.3f}, the best of {n_models} models." in page.text
    assert f"balanced accuracy of the majority class {baseline:.3f}" in page.text


def test_the_confusion_matrix_has_names_and_every_row_once(page):
    findings = rare()
    held = findings.evidence.held_out[findings.verdict.recommended][0]
    right = int((held.labels == findings.evidence.y).sum())
    assert f"{right:,} of 2,134 held-out predictions are correct, one prediction per row" in (
        page.text
    )
    assert "predicted as true class control case control" in page.text


def test_the_calibration_of_balanced_models_is_explained(page):
    selected = rare().table.loc[rare().verdict.recommended, "parameters"]
    assert "class_weight=balanced" in selected
    assert "Balanced class weights raise the probabilities of rare classes." in page.text


def test_every_column_is_listed_with_its_treatment(page):
    for column in COLUMNS:
        assert f"{column.name} {column.kind}" in page.text
        assert column.treatment in page.text


def test_methods_and_versions_are_there(page):
    assert METHODS in page.text
    assert "scikit-learn 1.9.0" in page.text


def test_plots_of_two_classes(page):
    alternatives = [image["alt"] for image in page.all("img")]
    begins = ["ROC curve", "Precision-recall", "Calibration", "Permutation importance", "Held-out"]
    begins += ["balanced accuracy of 12 models", "Mean ranks", "Cumulative distribution"]
    assert len(alternatives) == len(begins)
    assert all(a.startswith(b) for a, b in zip(alternatives, begins, strict=True))


def test_many_classes_have_a_threshold_for_none(written):
    page = written(ten_classes())
    assert "Thresholds for" not in page.text
    assert "ROC curves" in page.text
    assert "Not judged: its fits exceeded 60 s" in page.text
    assert "LRRR and SVC were not judged" in page.text


def test_nothing_is_recommended_if_nothing_beats_the_majority_class(written):
    page = written(nothing_learned())
    assert "Nothing beats the majority class" in page.text
    assert page.headings[1] == (
        f"The best mean, which is not recommended: {nothing_learned().verdict.best}"
    )
    assert "recommended" not in page.classes("tr")
    assert "Use the model" not in page.headings


@pytest.fixture(scope="module")
def full_page(tmp_path_factory):
    """A page with flags, warnings, wrong rows and a model that keeps rows."""
    flags = [
        Flag("free text", "Column note is free text."),
        Flag("repeating identifier", "Column patient_id repeats.", "danger", ("patient_id",)),
    ]
    warned = {Key("rare", "LDA", 0, fold): ["Variables are collinear."] for fold in range(3)}
    full = replace(
        rare(),
        evidence=replace(rare().evidence, warnings=warned),
        flags=flags,
        incomplete="3 fits are missing.",
        keeps_rows=True,
        show_rows=True,
    )
    return Page(full, tmp_path_factory.mktemp("full") / "report.html")


def test_dangers_come_before_notes_and_after_the_verdict(full_page):
    texts = ("3 fits are missing.", "Column patient_id repeats.", "Column note is free text.")
    places = [full_page.text.index(text) for text in (rare().verdict.sentence, *texts, "Ranking")]
    assert places == sorted(places)
    assert [each for each in full_page.classes("li") if each] == ["danger", "danger"]


def test_a_model_file_with_training_rows_is_marked(page, full_page):
    words = "The model file contains training rows."
    assert words in full_page.text
    assert words not in page.text


def test_single_rows_are_shown_only_if_wanted(page, full_page):
    words = "Wrong predictions with the highest probabilities"
    assert words in full_page.text
    assert words not in page.text


def test_failures_and_warnings_are_counted_by_message(full_page):
    assert "Warnings (3)" in full_page.text
    assert "LDA , 3 fits: Variables are collinear." in full_page.text


def test_a_page_of_little_evidence_has_neither_plots_of_the_model_nor_intervals(written):
    unknown = ["low", "high", "difference_low", "difference_high"]
    unknown += ["p_better", "p_equivalent", "p_worse"]
    table = rare().table.copy()
    table[unknown] = np.nan
    evidence = replace(rare().evidence, held_out={})
    page = written(
        replace(rare(), table=table, evidence=evidence, importance=None, learning_curve=None)
    )
    assert page.headings[1] == "The table"
    assert len(page.all("img")) == 2  # scores and ranks
    assert "nan" not in page.text.lower().split()


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    return Page(hostile(), tmp_path_factory.mktemp("hostile") / "report.html")


def test_names_are_text_and_never_tags_scripts_or_templates(hostile_page):
    assert hostile_page.all("script") == [{}]
    assert not hostile_page.all("b")
    assert all(image["src"].startswith("data:") for image in hostile_page.all("img"))
    for name in HOSTILE_NAMES[:4]:
        assert name in hostile_page.text


def test_control_characters_do_not_change_the_direction_of_text(hostile_page):
    assert "\u202e" not in hostile_page.text
    assert "\x00" not in hostile_page.text
    assert "c\\u202ed" in hostile_page.text
