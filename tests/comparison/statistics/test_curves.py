"""Held-out predictions as counts and curves: every row once, thresholds that reach the recall."""

import numpy as np
import pandas as pd
import pytest
from report_findings import evidence_of
from sklearn.metrics import precision_score, recall_score, roc_auc_score

from discreg.comparison.statistics.curves import (
    calibration,
    class_scores,
    confusion,
    margins,
    one_prediction_per_row,
    precision_recall_curves,
    roc_curves,
)
from discreg.comparison.statistics.evidence import Evidence, HeldOutPredictions
from discreg.comparison.statistics.thresholds import operating_points


def small(y, held, *, positive=None, weights=None):
    n_classes = int(max(y)) + 1
    return Evidence(
        metric="accuracy",
        classes=np.array([f"c{place}" for place in range(n_classes)]),
        y=np.asarray(y),
        weights=weights,
        positive=positive,
        rarest=0,
        n_folds=2,
        n_repeats=1,
        test_to_train=1.0,
        contenders={},
        results=pd.DataFrame(columns=["model", "repeat", "fold", "metric", "value"]),
        held_out={"m": [held]},
    )


def binary(scores, y, folds=None, weights=None):
    scores = np.asarray(scores, dtype=float)
    held = HeldOutPredictions(
        rows=np.arange(len(y)),
        folds=np.zeros(len(y), dtype=int) if folds is None else np.asarray(folds),
        labels=(scores > 0.5).astype(int),
        probabilities=np.column_stack([1 - scores, scores]),
    )
    return small(y, held, positive=1, weights=weights), held


@pytest.fixture(scope="module")
def rare():
    return evidence_of()


def test_every_row_is_counted_once(rare):
    held = one_prediction_per_row(rare, "DRM")
    matrix = confusion(rare, held)
    assert matrix.sum() == len(rare.y)
    assert matrix.sum(axis=1).tolist() == np.bincount(rare.y).tolist()


def test_the_repeat_with_the_most_rows_is_taken(rare):
    part = HeldOutPredictions(rows=np.arange(5), folds=np.zeros(5, int), labels=np.zeros(5, int))
    whole = HeldOutPredictions(rows=np.arange(9), folds=np.zeros(9, int), labels=np.zeros(9, int))
    evidence = small([0, 1] * 5, part)
    evidence.held_out["m"].append(whole)
    assert one_prediction_per_row(evidence, "m") is whole
    assert one_prediction_per_row(evidence, "other") is None


def test_precision_and_recall_are_those_of_scikit_learn(rare):
    held = one_prediction_per_row(rare, "DRM")
    for place, scores in enumerate(class_scores(rare, held)):
        assert scores.precision == precision_score(rare.y, held.labels, pos_label=place)
        assert scores.recall == recall_score(rare.y, held.labels, pos_label=place)


def test_auc_is_the_mean_over_the_folds_and_not_pooled():
    # Scores separate the classes within each fold, but have different scales in the folds.
    evidence, held = binary([0.1, 0.2, 0.6, 0.9], [0, 1, 0, 1], folds=[0, 0, 1, 1])
    assert class_scores(evidence, held)[1].auc == 1.0
    assert roc_auc_score(evidence.y, held.probabilities[:, 1]) < 1


def test_a_class_that_is_never_predicted_has_no_precision():
    held = HeldOutPredictions(rows=np.arange(4), folds=np.zeros(4, int), labels=np.zeros(4, int))
    first, second = class_scores(small([0, 0, 1, 1], held), held)
    assert (first.precision, first.recall) == (0.5, 1.0)
    assert np.isnan(second.precision)
    assert second.recall == 0.0
    assert np.isnan(first.auc)


def test_folds_without_the_class_have_no_curve():
    evidence, held = binary([0.1, 0.2, 0.6, 0.9], [0, 0, 0, 1], folds=[0, 0, 1, 1])
    assert len(roc_curves(evidence, held, 1).folds) == 1
    assert len(precision_recall_curves(evidence, held, 1).folds) == 1


@pytest.mark.parametrize("curves", [roc_curves, precision_recall_curves])
def test_without_scores_there_is_no_curve(curves):
    held = HeldOutPredictions(rows=np.arange(4), folds=np.zeros(4, int), labels=np.zeros(4, int))
    assert curves(small([0, 0, 1, 1], held), held, 1) is None
    assert operating_points(small([0, 0, 1, 1], held), held, 1) == []


def test_decision_values_order_both_classes():
    held = HeldOutPredictions(
        rows=np.arange(4),
        folds=np.zeros(4, int),
        labels=np.array([0, 0, 1, 1]),
        scores=np.array([-2.0, -1.0, 1.0, 2.0]),
    )
    first, second = class_scores(small([0, 0, 1, 1], held), held)
    assert first.auc == second.auc == 1.0


def test_thresholds_reach_the_wanted_recall_and_no_larger_one_does(rare):
    held = one_prediction_per_row(rare, "DRM")
    scores, is_case = held.probabilities[:, 1], rare.y == 1
    for point in operating_points(rare, held, 1):
        chosen = scores >= point.threshold
        assert point.recall == pytest.approx(chosen[is_case].mean())
        assert point.recall >= point.wanted
        assert point.precision == pytest.approx(is_case[chosen].mean())
        assert point.false_positive_rate == pytest.approx(chosen[~is_case].mean())
        assert point.n_predicted == chosen.sum()
        assert (scores[is_case] > point.threshold).mean() < point.wanted


def test_rows_of_equal_score_are_on_the_same_side_of_a_threshold():
    evidence, held = binary([0.5, 0.5, 0.5, 0.1], [1, 0, 1, 0])
    assert {point.n_predicted for point in operating_points(evidence, held, 1)} == {3}


def test_weights_are_equivalent_to_repeated_rows():
    scores, y, weights = [0.9, 0.7, 0.6, 0.4, 0.2], [1, 0, 1, 1, 0], np.array([1, 2, 1, 3, 1])
    weighted, held = binary(scores, y, weights=weights.astype(float))
    repeated, again = binary(np.repeat(scores, weights), np.repeat(y, weights))
    for one, other in zip(
        operating_points(weighted, held, 1), operating_points(repeated, again, 1), strict=True
    ):
        assert one[:5] == pytest.approx(other[:5])
    assert class_scores(weighted, held)[1].auc == pytest.approx(
        class_scores(repeated, again)[1].auc
    )


def test_calibration_groups_cover_all_rows(rare):
    held = one_prediction_per_row(rare, "Logistic")
    groups = calibration(rare, held)
    assert groups.n_rows.sum() == len(rare.y)
    assert (groups.observed * groups.n_rows).sum() == pytest.approx((rare.y == 1).sum())
    assert (groups.low <= groups.observed).all()
    assert (groups.observed <= groups.high).all()
    assert (np.diff(groups.predicted) > 0).all()


def test_equal_probabilities_are_one_group(rare):
    held = one_prediction_per_row(rare, "majority")
    groups = calibration(rare, held)
    assert groups.n_rows.tolist() == [len(rare.y)]
    assert groups.predicted == pytest.approx(groups.observed)


def test_calibration_of_many_classes_is_that_of_the_predicted_class():
    held = HeldOutPredictions(
        rows=np.arange(3),
        folds=np.zeros(3, int),
        labels=np.array([0, 1, 2]),
        probabilities=np.array([[0.5, 0.3, 0.2], [0.1, 0.7, 0.2], [0.0, 0.1, 0.9]]),
    )
    groups = calibration(small([0, 1, 0], held), held)
    assert groups.predicted.tolist() == [0.5, 0.7, 0.9]
    assert groups.observed.tolist() == [1, 1, 0]


def test_wilson_interval_of_no_case_in_ten():
    evidence, held = binary([0.2] * 10 + [0.9] * 90, [0] * 10 + [1] * 90)
    assert calibration(evidence, held).high[0] == pytest.approx(0.2775, abs=1e-4)


def test_margins_are_negative_where_the_highest_score_is_wrong(rare):
    held = one_prediction_per_row(rare, "DRM")
    wrong = held.probabilities.argmax(axis=1) != rare.y
    assert ((margins(rare, held) < 0) == wrong).all()


def test_margins_of_decision_values():
    held = HeldOutPredictions(
        rows=np.array([2, 0]),
        folds=np.zeros(2, int),
        labels=np.zeros(2, int),
        scores=np.array([3.0, -1.0]),
    )
    assert margins(small([1, 0, 0], held), held).tolist() == [-3.0, -1.0]
