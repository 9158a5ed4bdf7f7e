"""Thresholds, calibration, net benefit and subgroups of held-out probabilities."""

from dataclasses import replace

import numpy as np
import pytest
from report_findings import evidence_of
from sklearn.linear_model import LogisticRegression

from discreg.base.errors import InputError
from discreg.comparison.statistics.performance import (
    calibration,
    decision_curve,
    measure,
    operating_points,
    rule_for,
    subgroups,
)
from discreg.tables.classifier import Rule


@pytest.fixture(scope="module")
def sample():
    return evidence_of({"A": 1.0}, shares=(0.8, 0.2), n=600).sample("A")


def test_every_wanted_recall_is_reached_by_the_largest_threshold(sample):
    p, is_case = sample.probabilities[:, sample.positive], sample.y == sample.positive
    for point in operating_points(sample):
        called = p >= point.threshold
        assert point.recall.value == (called & is_case).sum() / is_case.sum() >= point.wanted
        assert point.precision.value == pytest.approx(is_case[called].mean())
        assert point.alarms.hits == called.sum()
        larger = p[p < point.threshold].max(), p[p > point.threshold].min()
        assert (p[is_case] > larger[1]).mean() < point.wanted
        assert point.recall.low < point.recall.value


def test_a_wanted_precision_is_reached_with_the_largest_recall(sample):
    p, is_case = sample.probabilities[:, sample.positive], sample.y == sample.positive
    rule = rule_for(sample, precision=0.6)
    called = p >= rule.threshold
    assert is_case[called].mean() >= 0.6
    for threshold in np.unique(p):
        other = p >= threshold
        assert is_case[other].mean() < 0.6 or other.sum() <= called.sum()
    with pytest.raises(InputError, match="two classes"):
        rule_for(evidence_of({"A": 1.0}, shares=(1, 1, 1)).sample("A"), recall=0.5)


def test_labels_everywhere_follow_the_rule(sample):
    for rule in (Rule(positive=1), rule_for(sample, recall=0.9)):
        follows = replace(sample, rule=rule)
        numbers = {each.title: each for each in measure(follows)}
        matrix = follows.confusion
        assert numbers["recall"].value == pytest.approx(matrix[1, 1] / matrix[1].sum())
        assert numbers["precision"].value == pytest.approx(matrix[1, 1] / matrix[:, 1].sum())
        assert numbers["specificity"].value == pytest.approx(matrix[0, 0] / matrix[0].sum())
        assert numbers["NPV"].value == pytest.approx(matrix[0, 0] / matrix[:, 0].sum())
        assert numbers["accuracy"].value == follows.score("accuracy")


def test_rules_are_weights_of_the_classes():
    shares = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.34, 0.33, 0.33]])
    assert Rule().labels(shares).tolist() == [0, 2, 0]
    assert Rule("costs", (1.0, 5.0, 1.0)).labels(shares).tolist() == [1, 1, 1]
    rule = Rule.from_threshold("recall", 0.3, 1)
    assert rule.threshold == pytest.approx(0.3)
    pairs = np.array([[0.69, 0.31], [0.71, 0.29]])
    assert rule.labels(pairs).tolist() == [1, 0]


def test_slope_and_intercept_are_those_of_logistic_regression(sample):
    p = sample.probabilities[:, sample.positive]
    logits, hit = np.log(p / (1 - p)), sample.y == sample.positive
    exact = LogisticRegression(C=np.inf, tol=1e-10).fit(logits[:, None], hit)
    found = calibration(sample)
    assert found.slope.value == pytest.approx(exact.coef_.item(), rel=1e-4)
    assert found.slope.low < 1 < found.slope.high
    assert found.intercept.low < 0 < found.intercept.high
    # Without a slope, the intercept makes mean probability and fraction equal.
    shifted = 1 / (1 + np.exp(-logits - found.intercept.value))
    assert shifted.mean() == pytest.approx(hit.mean(), abs=1e-8)
    assert found.n_rows.sum() == 600


def test_calibration_of_extreme_or_single_outcomes_has_no_false_slope():
    evidence = evidence_of({"A": 1.0}, n=50)
    certain = np.eye(2)[evidence.y]
    sample = evidence.sample("A")
    perfect = replace(sample, probabilities=certain)
    assert np.isnan(calibration(perfect).slope.value)


def test_net_benefit_is_true_alarms_less_the_price_of_false_ones(sample):
    curve, p = decision_curve(sample), sample.probabilities[:, sample.positive]
    is_case = sample.y == sample.positive
    for t, benefit, everyone in zip(*(each[1::20] for each in curve), strict=True):
        called = p >= t
        price = t / (1 - t)
        expected = (called & is_case).mean() - price * (called & ~is_case).mean()
        assert benefit == pytest.approx(expected)
        assert everyone == pytest.approx(is_case.mean() - price * (~is_case).mean())


def test_subgroups_are_values_or_quartiles_and_the_rows_of_each(sample):
    values = np.array(["a", "b", None], dtype=object)[np.arange(600) % 3]
    parts = subgroups(sample, values)
    assert [(name, n) for name, n, _ in parts] == [("a", 200), ("b", 200), ("missing", 200)]
    here = sample.select(np.arange(600) % 3 == 0)
    assert parts[0][2] == measure(here)
    assert len(subgroups(sample, np.arange(600.0))) == 4
