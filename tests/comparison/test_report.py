"""The page of a comparison: what it says, in which order, and that it is safe to open."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from report_findings import MODELS, findings_of, results_of

from discreg.comparison.experiment import Key
from discreg.comparison.report import write_report

HOSTILE = "<img src=x onerror=alert(1)>\"'&<script>alert(2)</script>"


class Page(HTMLParser):
    """Tags with their attributes, headings and the text that a reader sees."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.headings, self.words, self._open = [], [], [], []
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split()).replace("\N{NO-BREAK SPACE}", " ")

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "img", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.words.append(data)
        if self._open and self._open[-1] in ("h1", "h2"):
            self.headings.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def written(tmp_path):
    def write(**changes):
        path = tmp_path / "report.html"
        write_report(path, findings_of(**{"models": MODELS[:6]} | changes))
        return path.read_text(encoding="utf-8")

    return write


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, findings_of())
    return Page(path.read_text(encoding="utf-8"))


def test_parts_come_in_the_order_of_a_reader(page):
    assert page.headings == [
        "Which classifier to use for tumours.csv",
        "Ranking",
        "Which differences are significant",
        "Plots",
        "The data",
        "How the models were compared",
        "Failures and warnings",
        "Use the model",
        "Versions",
    ]
    assert page.text.index("Use GReLSRClassifierCV") < page.text.index("Ranking")


def test_page_needs_nothing_from_elsewhere(page):
    assert not page.all("script")
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in page.all("img"))
    policy = [meta.get("content") for meta in page.all("meta") if "http-equiv" in meta]
    assert policy == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_every_image_and_table_has_words(page):
    assert len(page.all("img")) == 6
    assert all(image["alt"] for image in page.all("img"))
    assert len(page.all("table")) == len(page.all("caption")) == 3


def test_tie_names_the_quickest_and_no_winner(page):
    assert (
        "GReLSRClassifierCV has the highest mean accuracy, but LSRClassifierCV, DLSRClassifierCV, "
        "ReLSRClassifierCV and 5 others are not significantly worse on these 10 folds; "
        "LSRClassifierCV was the fastest of them to fit."
    ) in page.text
    assert "is significant on" not in page.text
    assert page.text.count("not significantly worse") == 9  # the sentence and eight rows


def test_clear_winner_is_called_one(written):
    results = results_of(MODELS[:3])
    results.loc[(results["model"] == MODELS[2]) & (results["metric"] == "accuracy"), "value"] += 0.2
    page = Page(written(results=results))
    assert f"Use {MODELS[2]}" in page.text
    assert "is significant on these 10 folds" in page.text
    assert "not significantly worse on" not in page.text


def test_majority_rate_is_beside_every_accuracy(page):
    rate = 124 / (30 + 77 + 124)
    assert page.text.count(f"majority {rate:.3f}") == len(MODELS)
    assert f"Always predicting the most frequent class has accuracy {rate:.3f}." in page.text


def test_model_no_better_than_the_majority_is_said_to_be(written):
    page = Page(written(class_counts={"rare": 5, "frequent": 95}))
    assert "the accuracy of GReLSRClassifierCV" in page.text
    assert "is not significantly higher on these folds" in page.text


def test_scores_that_a_model_does_not_have_are_dashes(written):
    page = written()
    cells = re.findall(r'data-title="log-loss">([^<]*)<', page)
    assert [cell.strip() == "–" for cell in cells].count(True) == 2
    assert len(cells) == 6


def test_score_of_some_folds_says_so(written):
    results = results_of(MODELS[:3])
    of_loss = results[(results["metric"] == "log_loss") & (results["model"] == MODELS[1])]
    results.loc[of_loss.index[:4], "value"] = np.nan
    assert "6 of 10 folds" in Page(written(results=results)).text


def test_ranking_metric_comes_first(written):
    page = written(metric="log_loss")
    titles = re.findall(r'<th scope="col">([^<]*)</th>', page)
    assert titles[1:4] == ["log‑loss", "95\N{NO-BREAK SPACE}% interval", "accuracy"]
    text = Page(page).text
    assert "lowest mean log-loss" in text


def test_any_metric_can_rank(written):
    results = results_of(MODELS[:3])
    results["metric"] = results["metric"].replace("macro_f1", "area_under_curve")
    page = written(results=results, metric="area_under_curve")
    titles = re.findall(r'<th scope="col">([^<]*)</th>', page)
    assert titles[1:4] == ["area under curve", "95\N{NO-BREAK SPACE}% interval", "accuracy"]


def test_intervals_stay_within_what_is_possible(written):
    results = results_of(MODELS[:2])
    results.loc[results["metric"] == "accuracy", "value"] = np.tile([0.97, 1.0], 10)
    page = Page(written(results=results))
    assert re.search(r"interval from 0\.9\d\d to 1\.000", page.text)


def test_everything_a_person_wrote_is_escaped(written):
    models = (HOSTILE, *MODELS[1:6])
    text = written(
        models=models,
        name=HOSTILE,
        labels=(HOSTILE, "b", "c"),
        notes=(HOSTILE,),
        judged_by=(HOSTILE,),
        incomplete=HOSTILE,
        failures={Key("table", HOSTILE, 0, 0): HOSTILE},
        warnings={Key("table", HOSTILE, 0, 0): [HOSTILE]},
        model_file=HOSTILE,
        usage=HOSTILE,
        versions={HOSTILE: HOSTILE},
    )
    page = Page(text)
    assert not page.all("script")
    assert not any("onerror" in attributes for _, attributes in page.tags)
    assert page.text.count("onerror=alert(1)") > 12


def test_the_style_is_not_escaped(written):
    assert 'font: 1rem/1.55 system-ui, -apple-system, "Segoe UI"' in written()


def test_unfinished_run_says_so_before_the_answer(written):
    page = Page(written(incomplete="Stopped by the time budget of 60 s."))
    assert page.text.index("Stopped by the time budget") < page.text.index("Use ")


def test_failed_model_is_not_ranked_and_its_reason_is_told(written):
    results = results_of(MODELS[:6])
    failed = (results["model"] == MODELS[0]) & (results["repeat"] == 1)
    key = Key("table", MODELS[0], 1, 0)
    page = Page(written(results=results[~failed], failures={key: "MemoryError: 9 GB\nat x"}))
    assert f"Use {MODELS[0]}" not in page.text
    assert f"{MODELS[0]} not ranked: finished 5 of 10 folds: MemoryError: 9 GB" in page.text
    assert "Failures (1)" in page.text


def test_equal_warnings_are_told_once(page):
    assert page.text.count("Variables are collinear.") == 1
    assert "Warnings (3)" in page.text


def test_no_failures_and_no_warnings_are_told(written):
    assert "Failures and warnings None." in Page(written(warnings={})).text


def test_plots_need_their_arrays(written):
    flat = {MODELS[0]: np.array([3.0, 3.0]), MODELS[1]: np.array([3.0])}
    page = Page(written(confusion={}, margins={}, rank_scores={}, histories=flat))
    assert len(page.all("img")) == 2


@pytest.mark.parametrize("n_folds", [1, 2])
def test_few_folds_and_one_model_make_a_page(written, n_folds):
    results = results_of(MODELS[:1], n_folds=n_folds)
    page = Page(written(results=results, confusion={}, margins={}, rank_scores={}, histories={}))
    assert "is the only model that finished every fold" in page.text
    assert not re.search(r"\bnan\b", page.text)


def test_nothing_finished_recommends_nothing(written):
    results = results_of(MODELS[:2])
    results["value"] = np.nan
    page = Page(written(results=results, model_file=None))
    assert "No model can be recommended" in page.text
    assert not re.search(r"\bnan\b", page.text)
    assert not page.all("img")


def test_many_classes_are_numbered_as_on_the_axes(written):
    labels = tuple(f"kind {place}" for place in range(40))
    page = Page(written(labels=labels))
    assert "40 kind 39" in page.text
    assert "class numbers" in page.text


def test_most_frequent_mistakes_are_told(written):
    counts = np.array([[50, 7, 0], [0, 40, 2], [0, 0, 9]])
    page = Page(written(confusion=dict.fromkeys(MODELS, counts)))
    assert "malignant predicted as benign: 7 of 57 benign predicted as unsure: 2 of 42" in page.text
    assert "99 of 108 held-out predictions are correct" in page.text


def test_page_of_a_large_comparison_is_small(written):
    margins = {model: np.random.default_rng(0).normal(size=100_000) for model in MODELS}
    labels = tuple(f"kind {place}" for place in range(100))
    page = written(models=MODELS, labels=labels, margins=margins)
    assert len(page.encode()) < 1_000_000


def test_page_that_cannot_be_made_leaves_the_old_one(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="no metric 'recall'"):
        write_report(path, findings_of(metric="recall"))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_page_that_cannot_be_put_in_place_leaves_no_draft(tmp_path):
    path = tmp_path / "report.html"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        write_report(path, findings_of())
    assert list(tmp_path.iterdir()) == [path]


def test_new_page_replaces_the_old_one(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report(path, findings_of())
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [path]
