"""Thresholds for a wanted recall or precision reach it on held-out rows."""

from dataclasses import replace

import numpy as np
import pytest
from comparison_evidence import evidence_of
from sklearn.metrics import precision_score, recall_score

from discreg.base.errors import InputError
from discreg.comparison.statistics.thresholds import choose_threshold, recall_thresholds


def with_probabilities(n_rows=300, positive=1, **settings):
    rng = np.random.default_rng(0)
    y = (np.arange(n_rows) % 4 == 0).astype(int)
    scores = 1.5 * y + rng.standard_normal((2, n_rows))
    share = 1 / (1 + np.exp(1 - scores))
    shares = np.stack([1 - share, share], axis=-1)
    labels = (share > 0.5).astype(int)
    return evidence_of(
        y, {"one": labels}, probabilities={"one": shares}, positive=positive, **settings
    )


@pytest.mark.parametrize("recall", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("positive", [0, 1])
def test_largest_threshold_with_the_wanted_recall_is_chosen(recall, positive):
    evidence = with_probabilities(positive=positive)
    found = choose_threshold(evidence, "one", recall=recall)
    values = evidence.held_out["one"][0].probabilities[:, positive]
    truth, predicted = evidence.y == positive, values >= found.value
    assert found.recall == pytest.approx(recall_score(truth, predicted), rel=1e-12)
    assert found.precision == pytest.approx(precision_score(truth, predicted), rel=1e-12)
    assert recall_score(truth, values > found.value) < recall <= found.recall + 1e-12
    assert found.label == evidence.classes[positive]


def test_smallest_threshold_with_the_wanted_precision_is_chosen():
    evidence = with_probabilities()
    found = choose_threshold(evidence, "one", precision=0.8)
    values = evidence.held_out["one"][0].probabilities[:, 1]
    assert precision_score(evidence.y, values >= found.value) >= 0.8
    lower = [each for each in np.unique(values) if each < found.value]
    assert all(precision_score(evidence.y, values >= each) < 0.8 for each in lower)


def test_sample_weights_are_equivalent_to_repeating_rows():
    evidence = with_probabilities(80)
    weights = 1.0 + (np.arange(80) % 3 == 0)
    weighted = replace(evidence, weights=weights)
    found = choose_threshold(weighted, "one", recall=0.8)
    values = evidence.held_out["one"][0].probabilities[:, 1]
    predicted = values >= found.value
    expected = recall_score(evidence.y, predicted, sample_weight=weights)
    assert found.recall == pytest.approx(expected, rel=1e-12)


def test_decision_values_are_used_without_probabilities():
    evidence = with_probabilities()
    (held_out, _) = evidence.held_out["one"]
    values = np.log(held_out.probabilities[:, 1])
    changed = replace(held_out, probabilities=None, scores=values)
    evidence = replace(evidence, held_out={"one": [changed]})
    found = choose_threshold(evidence, "one", recall=0.9)
    assert found.response_method == "decision_function"
    assert np.mean(values[evidence.y == 1] >= found.value) == pytest.approx(found.recall)
    assert recall_thresholds(evidence, "one") == {}


def test_thresholds_stored_with_a_model_fall_as_the_recall_rises():
    evidence = with_probabilities()
    found = recall_thresholds(evidence, "one")
    assert list(found) == [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]
    assert sorted(found.values(), reverse=True) == list(found.values())
    assert found[0.9] == choose_threshold(evidence, "one", recall=0.9).value


def test_more_than_two_classes_have_no_threshold():
    y = np.arange(90) % 3
    evidence = evidence_of(y, {"one": np.array([y, y])})
    assert recall_thresholds(evidence, "one") == {}
    with pytest.raises(InputError, match="two classes; there are 3"):
        choose_threshold(evidence, "one", recall=0.9)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({}, "either recall or precision"),
        ({"recall": 0.9, "precision": 0.9}, "either recall or precision"),
        ({"recall": 1.5}, "recall must be above 0 and at most 1; got 1.5"),
        ({"precision": 0}, "precision must be above 0"),
    ],
)
def test_wishes_that_make_no_sense_are_refused(wanted, message):
    with pytest.raises(InputError, match=message):
        choose_threshold(with_probabilities(), "one", **wanted)


def test_a_precision_that_no_threshold_reaches_is_refused_with_the_highest():
    evidence = with_probabilities()
    (held_out, _) = evidence.held_out["one"]
    share = np.where(evidence.y == 1, 0.3, np.where(np.arange(300) < 150, 0.3, 0.1))
    flat = replace(held_out, probabilities=np.column_stack([1 - share, share]))
    evidence = replace(evidence, held_out={"one": [flat]})
    with pytest.raises(InputError, match=r"precision of 0\.9; the highest .* is 0\.4"):
        choose_threshold(evidence, "one", precision=0.9)
