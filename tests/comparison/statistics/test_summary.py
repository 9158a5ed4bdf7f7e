"""The table of a comparison: one row per model."""

from dataclasses import replace

import numpy as np
import pytest
from comparison_evidence import evidence_of, predictions

from discreg.comparison.running.experiment import Key
from discreg.comparison.statistics.contrasts import correlated_t, correlated_t_test
from discreg.comparison.statistics.summary import summary_table


@pytest.fixture
def evidence():
    rng = np.random.default_rng(0)
    y = (np.arange(300) % 3 == 0).astype(int)
    accuracies = {"a": 0.74, "b": 0.9, "c": 0.82}
    return evidence_of(
        y,
        {name: predictions(y, each, rng) for name, each in accuracies.items()},
        seconds={"a": 1.0, "b": 2.0, "c": 3.0},
        params={"b": ["beta=1", "beta=2", "beta=2"]},
    )


def scores_of(evidence, model):
    chosen = evidence.results.query("model == @model and metric == 'accuracy'")
    return chosen["value"].to_numpy()


def test_table_begins_with_the_best(evidence):
    assert list(summary_table(evidence).index) == ["b", "c", "a", "majority"]


def test_scores_and_differences_have_corrected_intervals(evidence):
    row = summary_table(evidence).loc["c"]
    score = correlated_t(scores_of(evidence, "c"), 1 / 4)
    lead = correlated_t_test(scores_of(evidence, "c") - scores_of(evidence, "b"), 1 / 4)
    assert row["mean"] == pytest.approx(score.mean, rel=1e-12)
    assert (row["low"] + row["high"]) / 2 == pytest.approx(score.mean, rel=1e-12)
    assert row["high"] - row["mean"] == pytest.approx(score.half_width, rel=1e-12)
    assert row["difference"] == pytest.approx(lead.mean, rel=1e-12)
    assert row["difference_high"] - row["difference"] == pytest.approx(lead.half_width, rel=1e-12)
    probabilities = row[["p_better", "p_equivalent", "p_worse"]].astype(float)
    assert list(probabilities) == pytest.approx(
        [lead.above(0.01), lead.within(0.01), lead.below(-0.01)], rel=1e-12
    )


def test_the_best_is_equivalent_to_itself(evidence):
    row = summary_table(evidence).loc["b"]
    assert (row["difference"], row["p_better"], row["p_equivalent"], row["p_worse"]) == (0, 0, 1, 0)


def test_all_metrics_times_and_parameters_are_reported(evidence):
    table = summary_table(evidence)
    assert {"accuracy", "balanced_accuracy", "g_mean", "macro_f1"} <= set(table)
    assert table.loc["majority", "g_mean"] == 0
    assert list(table["fit_seconds"]) == [2, 3, 1, 1]
    assert table.loc["b", "parameters"] == "beta=2"
    assert (table["origin"] == "discreg").all()
    assert (table["n_scores"] == 10).all()


def test_models_that_are_not_judged_are_last_with_the_reason(evidence):
    results = evidence.results[
        ~((evidence.results["model"] == "b") & (evidence.results["fold"] == 4))
    ]
    failures = {Key("table", "b", 0, 4): "ValueError: no"}
    table = summary_table(replace(evidence, results=results, failures=failures))
    assert list(table.index) == ["c", "a", "majority", "b"]
    assert table.loc["b", "reason"] == "finished 8 of 10 folds: ValueError: no"
    assert np.isnan(table.loc["b", "mean"])
    assert (table["reason"][:3] == "").all()


def test_one_fold_has_no_interval(evidence):
    first = evidence.results.query("repeat == 0 and fold == 0")
    table = summary_table(replace(evidence, results=first))
    assert table["low"].isna().all()
    assert table["mean"].notna().all()


def test_intervals_of_accuracy_stay_between_0_and_1():
    y = np.arange(40) % 2
    evidence = evidence_of(y, {"a": predictions(y, 0.95, np.random.default_rng(0))})
    score = correlated_t(scores_of(evidence, "a"), 1 / 4)
    assert score.mean + score.half_width > 1
    assert summary_table(evidence).loc["a", "high"] == 1
