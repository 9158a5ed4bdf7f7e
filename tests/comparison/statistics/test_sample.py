"""Numbers of held-out probabilities: those of scikit-learn, and intervals that cover the truth."""

from dataclasses import replace

import numpy as np
import pytest
from report_findings import evidence_of
from scipy.stats import binomtest
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    log_loss,
    roc_auc_score,
)

from discreg.comparison.statistics.sample import Sample, corrected_scale, wilson
from discreg.tables.classifier import Rule


def sample_of(n_classes=2, n=200, seed=0, **changes):
    chance = np.random.default_rng(seed)
    shares = chance.dirichlet(np.ones(n_classes), n)
    y = (chance.random((n, 1)) > shares.cumsum(axis=1)[:, :-1]).sum(axis=1)
    settings = {
        "classes": np.arange(n_classes),
        "y": y,
        "probabilities": shares,
        "rule": Rule(positive=1 if n_classes == 2 else None),
        "rows": np.arange(n),
    }
    return Sample(**settings | changes)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_scikit_learn(n_classes, weighted):
    weights = np.random.default_rng(1).random(200) if weighted else None
    sample = sample_of(n_classes, weights=weights)
    y, shares, given = sample.y, sample.probabilities, {"sample_weight": weights}
    labels = shares.argmax(axis=1)
    expected = {
        "log_loss": log_loss(y, shares, **given),
        "accuracy": accuracy_score(y, labels, **given),
        "balanced_accuracy": balanced_accuracy_score(y, labels, **given),
    }
    if n_classes == 2:
        expected["brier"] = brier_score_loss(y, shares[:, 1], **given)
        expected["roc_auc"] = roc_auc_score(y, shares[:, 1], **given)
        expected["average_precision"] = average_precision_score(y, shares[:, 1], **given)
    else:
        each = [roc_auc_score(y == k, shares[:, k], **given) for k in range(3)]
        expected["roc_auc"] = np.mean(each)
    for name, value in expected.items():
        assert sample.score(name) == pytest.approx(value, rel=1e-9), name


def test_the_area_compares_rows_of_the_same_fold():
    sample = sample_of(n=60)
    folds = np.arange(60) % 3
    won, pairs = 0.0, 0
    p = sample.probabilities[:, 1]
    for fold in range(3):
        ones = p[(folds == fold) & (sample.y == 1)]
        zeros = p[(folds == fold) & (sample.y == 0)]
        won += (ones[:, None] > zeros).sum()
        pairs += ones.size * zeros.size
    assert sample_of(n=60, folds=folds).score("roc_auc") == pytest.approx(won / pairs)


def test_weights_are_equivalent_to_repeating_rows():
    sample = sample_of(n=50)
    times = np.random.default_rng(2).integers(1, 4, 50)
    rows = np.repeat(np.arange(50), times)
    repeated = Sample(
        classes=sample.classes,
        y=sample.y[rows],
        probabilities=sample.probabilities[rows],
        rule=sample.rule,
        rows=rows,
    )
    weighted = sample_of(n=50, weights=times.astype(float))
    for name in ("log_loss", "roc_auc", "average_precision", "accuracy"):
        assert weighted.score(name) == pytest.approx(repeated.score(name))


def test_intervals_of_proportions_are_those_of_wilson():
    for hits, n in ((0, 20), (7, 20), (20, 20)):
        found = binomtest(hits, n).proportion_ci(method="wilson")
        np.testing.assert_allclose(wilson(hits / n, n), (found.low, found.high), atol=1e-12)


def test_rows_of_a_group_count_less_in_proportions_and_intervals():
    groups = np.repeat(np.arange(20), 10)
    alone = sample_of()
    together = sample_of(groups=groups, y=np.repeat(np.arange(20) % 2, 10))
    hits, among = together.y == 1, np.ones(200, dtype=bool)
    grouped, single = together.proportion(hits, among), alone.proportion(hits, among)
    assert (grouped.hits, grouped.total) == (100, 200)
    assert grouped.high - grouped.low > 2 * (single.high - single.low)
    np.testing.assert_allclose(grouped[1:3], wilson(0.5, 20), rtol=0.01)


def test_no_interval_has_zero_width_and_shares_stay_between_0_and_1():
    y = np.arange(60) % 2
    certain = sample_of(n=60, y=y, probabilities=np.eye(2)[y])
    for name in ("accuracy", "balanced_accuracy", "roc_auc"):
        value, low, high = certain.interval(name)
        assert value == 1 == high
        assert 0.8 < low < 1
    for name in ("log_loss", "brier"):  # no row says how far other rows are from 0
        value, low, high = certain.interval(name)
        assert value == 0
        assert np.isnan([low, high]).all()


def test_the_interval_of_the_log_loss_covers_its_expected_value():
    covered = 0
    for seed in range(60):
        chance = np.random.default_rng(seed)
        p = chance.uniform(0.1, 0.9, 150)
        y = (chance.random(150) < p).astype(int)
        shares = np.column_stack([1 - p, p])
        interval = sample_of(n=150, y=y, probabilities=shares).interval("log_loss")
        p_new = np.linspace(0.1, 0.9, 2001)
        truth = -(p_new * np.log(p_new) + (1 - p_new) * np.log(1 - p_new)).mean()
        covered += interval.low <= truth <= interval.high
    assert binomtest(covered, 60, 0.95).pvalue > 0.001


def test_the_standard_error_over_folds_is_corrected_for_overlap():
    scale, df = corrected_scale([1.0, 2.0, 3.0, np.nan], 0.25)
    assert (scale, df) == (pytest.approx(np.sqrt(1 / 3 + 0.25)), 2)
    assert corrected_scale([1.0, 2.0], 0.25) == (0.0, 0)


def test_a_nearly_constant_model_has_an_interval_of_the_rows():
    evidence = evidence_of({"A": 1e-6}, shares=(0.7, 0.3), n=200)
    order = np.argsort(evidence.y, kind="stable")
    folds = np.empty(200, dtype=int)
    folds[order] = np.arange(200) % 10  # stratified: the folds hardly differ
    sample = evidence.sample("A").select(np.ones(200, dtype=bool))
    stratified = replace(sample, folds=folds)
    low, high = stratified.interval("log_loss")[1:]
    by_rows = 1.96 * stratified.losses["log_loss"].std() / np.sqrt(200)
    assert high - low > 2 * by_rows


def test_a_metric_without_rows_of_a_class_has_no_interval():
    interval = replace(sample_of(n=30), y=np.zeros(30, dtype=int)).interval("roc_auc")
    assert np.isnan(interval).all()
