"""The metric that decides, and the default decision rule."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, log_loss, make_scorer

from discreg.base.errors import InputError
from discreg.comparison.running.scoring import Scoring


def scoring(given=None, counts=(50, 50), **changes):
    classes = np.array(["ash", "beech", "cedar"])[: len(counts)]
    return Scoring(given, classes, np.array(counts), **changes)


def test_the_default_is_log_loss_for_common_and_rare_classes():
    for counts in ((50, 50), (990, 10), (30, 30, 2)):
        assert scoring(counts=counts).name == "log_loss"
    X = np.random.default_rng(0).normal(size=(80, 2))
    y = np.array(["ash", "beech"])[(X[:, 0] > 0).astype(int)]
    model = LogisticRegression().fit(X, y)
    assert scoring().scorer(model, X, y) == pytest.approx(-log_loss(y, model.predict_proba(X)))


@pytest.mark.parametrize(
    ("given", "counts", "threshold"),
    [
        (None, (50, 50), 0.5),
        (None, (90, 10), 0.1),
        (None, (40, 29), 29 / 69),
        ("accuracy", (90, 10), 0.5),
        ("balanced_accuracy", (60, 40), 0.4),
    ],
)
def test_a_rare_class_is_predicted_from_its_frequency_on(given, counts, threshold):
    rule = scoring(given, counts).rule
    assert rule.threshold == pytest.approx(threshold)
    assert rule.positive == 1


def test_several_classes_have_the_most_probable_label():
    rule = scoring(counts=(80, 15, 5)).rule
    shares = np.array([[0.4, 0.35, 0.25]])
    assert rule.labels(shares).tolist() == [0]
    assert rule.threshold is None


def test_the_positive_class_is_the_rarer_one_unless_another_is_named():
    assert scoring(counts=(20, 30)).positive == 0
    assert scoring(counts=(30, 20)).positive == 1
    assert scoring(counts=(20, 30), pos_label="beech").positive == 1
    assert scoring(counts=(20, 30, 40)).positive is None
    f1 = scoring("f1", (20, 30))
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.array(["ash", "beech"])[(X[:, 0] > 0.3).astype(int)]
    model = LogisticRegression().fit(X, y)
    assert f1.scorer(model, X, y) == pytest.approx(f1_score(y, model.predict(X), pos_label="ash"))


@pytest.mark.parametrize(
    ("given", "n_classes", "changes", "message"),
    [
        ("acuracy", 2, {}, "Did you mean accuracy"),
        ("r2", 2, {}, "it is of regression"),
        ("f1", 3, {}, "cannot be used"),
        ("average_precision", 3, {}, "two classes"),
        (accuracy_score, 2, {}, "make_scorer"),
        (7, 2, {}, "name of a metric or a scorer"),
        (None, 2, {"pos_label": "oak"}, "is no class"),
        (None, 3, {"pos_label": "ash"}, "two classes"),
    ],
)
def test_metrics_that_cannot_be_used_are_refused(given, n_classes, changes, message):
    bad = scoring(given, (20,) * n_classes, **changes)
    with pytest.raises(InputError, match=message):
        (bad.check(), bad.positive)


def test_own_scorers_are_called_with_the_model_and_the_rows():
    own = make_scorer(accuracy_score)
    found = scoring(own)
    found.check()
    X = np.array([[0.0], [1.0], [0.1], [0.9]])
    model = LogisticRegression().fit(X, ["ash", "beech", "ash", "beech"])
    assert found.of_model(model, X, np.array([0, 1, 0, 1]), None) == 1
