"""The ranking of a report: one line per model, on an axis that all intervals fit on."""

from dataclasses import replace

import numpy as np
import pytest
from report_findings import MODELS, ten_classes

from discreg.comparison.report.ranking import Axis, ranking_of, signed


@pytest.fixture(scope="module")
def findings():
    return ten_classes()


@pytest.fixture(scope="module")
def ranking(findings):
    return ranking_of(findings)


def test_every_model_has_one_line_and_the_best_is_first(findings, ranking):
    assert {row.model for row in ranking.rows} == {*MODELS, "LRRR", "SVC"}
    assert len(ranking.rows) == len(MODELS) + 2
    scores = [row.score.value for row in ranking.rows if not row.reason]
    assert scores == sorted(scores, reverse=True)
    assert ranking.rows[0].model == findings.verdict.best
    assert ranking.rows[0].difference.text == "best mean"


def test_models_that_are_not_judged_are_last_with_the_reason(ranking):
    assert [(row.model, row.reason) for row in ranking.rows[-2:]] == [
        ("LRRR", "one tuned fit of 5,000 columns would take about 40 minutes"),
        ("SVC", "its fits exceeded 60 s"),
    ]
    assert all(row.kind == "unjudged" for row in ranking.rows[-2:])


def test_intervals_and_the_baseline_are_on_the_axis(findings, ranking):
    places = [place for row in ranking.rows if row.range for place in row.range]
    places += [ranking.baseline[0], *(place for place, _ in ranking.axis.ticks)]
    assert min(places) >= 0
    assert max(places) <= 100
    assert ranking.baseline[1] == f"majority {findings.verdict.baseline:.3f}"


def test_a_dot_is_where_its_label_says(ranking):
    (first, low), *_, (last, high) = ranking.axis.ticks
    for row in ranking.rows:
        if row.range:
            expected = np.interp(row.score.value, [float(low), float(high)], [first, last])
            if float(low) <= row.score.value <= float(high):
                assert row.range[1] == pytest.approx(expected, abs=0.02)


def test_one_model_is_recommended_and_origins_are_known(findings, ranking):
    (recommended,) = [row for row in ranking.rows if row.kind == "recommended"]
    assert recommended.model == findings.verdict.recommended
    assert {row.model: row.origin for row in ranking.rows if row.model in MODELS} == {
        model: origin for model, (origin, _) in MODELS.items()
    }
    assert ranking.origins == ["discreg", "scikit-learn"]


def test_the_rarest_class_is_named_in_its_column(ranking):
    titles = [header.title for header in ranking.headers]
    assert titles == ["AUC", "recall of Iris setosa ×…", "Brier", "fit", "predict"]
    assert [header.first for header in ranking.headers] == [
        "descending",
        "descending",
        "ascending",
        "ascending",
        "ascending",
    ]


def test_the_chosen_metric_is_not_shown_twice(findings):
    by_auc = replace(findings, evidence=replace(findings.evidence, metric="roc_auc"))
    assert "AUC" not in [header.title for header in ranking_of(by_auc).headers]


def test_a_metric_without_values_is_not_shown(findings):
    without = replace(findings, table=findings.table.assign(brier=np.nan))
    assert "Brier" not in [header.title for header in ranking_of(without).headers]


def test_probabilities_are_never_one(ranking):
    texts = [row.against_best.text for row in ranking.rows]
    assert not any(text.endswith("1.00") for text in texts)
    assert "worse >\N{NO-BREAK SPACE}0.99" in texts


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.95), (0.93, 0.94), (-3.0, 250.0), (0, 1e-4)])
def test_an_axis_has_a_few_distinct_labels_inside(low, high):
    axis = Axis(low, high)
    labels = [label for _, label in axis.ticks]
    assert 2 <= len(labels) == len(set(labels)) <= 6
    for place, label in axis.ticks:
        assert 0 <= place <= 100
        assert axis.place(float(label)) == pytest.approx(place, abs=0.1)


def test_differences_have_a_sign():
    assert [signed(value) for value in (0.0123, -0.0123, 0.0001, -0.0001)] == [
        "+0.012",
        "\N{MINUS SIGN}0.012",
        "0.000",
        "0.000",
    ]
