"""Metrics of held-out predictions: none is defined without the rows that it needs."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    f1_score,
    log_loss,
    make_scorer,
    roc_auc_score,
)

from discreg import g_mean_score
from discreg.base.errors import InputError
from discreg.comparison.protocol.scoring import Predictions, Scoring


def problem(n_classes=2, n_rows=80):
    chance = np.random.default_rng(n_classes)
    y = chance.integers(0, n_classes, n_rows)
    X = chance.normal(size=(n_rows, 3)) + y[:, None]
    classes = np.array(["ash", "beech", "cedar"])[:n_classes]
    return X, y, classes, LogisticRegression().fit(X, classes[y])


def scored(scoring, X, y, model, weights=None):
    probabilities = model.predict_proba(X)
    labels = np.searchsorted(scoring.classes, model.predict(X))
    scores = model.decision_function(X)
    return scoring.of_fold(model, X, y, Predictions(labels, probabilities, scores), weights)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_those_of_scikit_learn(n_classes, weighted):
    X, y, classes, model = problem(n_classes)
    weights = np.random.default_rng(0).random(len(y)) if weighted else None
    scoring = Scoring(None, classes, np.bincount(y))
    values = scored(scoring, X, y, model, weights)
    truth, labels, shares = classes[y], model.predict(X), model.predict_proba(X)
    given = {"sample_weight": weights}
    expected = {
        "accuracy": model.score(X, truth, weights),
        "balanced_accuracy": balanced_accuracy_score(truth, labels, **given),
        "g_mean": g_mean_score(truth, labels, **given),
        "macro_f1": f1_score(truth, labels, average="macro", **given),
        "log_loss": log_loss(truth, shares, **given),
    }
    rarest = np.bincount(y).argmin()
    if n_classes == 2:
        expected["brier"] = brier_score_loss(y, shares[:, 1], **given)
        expected["roc_auc"] = roc_auc_score(y, shares[:, 1], **given)
        expected["average_precision"] = average_precision_score(
            y == rarest, shares[:, rarest], **given
        )
    else:
        expected["brier"] = np.average(((shares - np.eye(3)[y]) ** 2).sum(axis=1), weights=weights)
        expected["roc_auc"] = np.mean(
            [roc_auc_score(y == k, shares[:, k], **given) for k in range(3)]
        )
    assert {name: values[name] for name in expected} == pytest.approx(expected, rel=1e-9)
    here = y == rarest
    recall = np.average(
        labels[here] == truth[here], weights=None if weights is None else weights[here]
    )
    assert values["rare_recall"] == pytest.approx(recall)


def test_a_fold_without_a_class_defines_no_metric_that_needs_it():
    X, y, classes, model = problem()
    scoring = Scoring("f1", classes, np.array([50, 30]))
    only = y == 0
    values = scored(scoring, X[only], y[only], model)
    undefined = {"balanced_accuracy", "g_mean", "macro_f1", "rare_recall", "roc_auc"}
    undefined |= {"average_precision", "f1"}
    assert {name for name, value in values.items() if np.isnan(value)} == undefined
    assert {"accuracy", "log_loss", "brier"} <= values.keys()


def test_a_repeat_has_metrics_of_labels_and_never_those_of_ranks():
    X, y, classes, model = problem()
    scoring = Scoring("f1", classes, np.array([50, 30]))
    labels = np.searchsorted(classes, model.predict(X))
    values = scoring.of_repeat(y, Predictions(labels, model.predict_proba(X)), None)
    assert values.keys() == {"balanced_accuracy", "g_mean", "macro_f1", "rare_recall", "f1"}
    assert values["f1"] == pytest.approx(f1_score(y, labels, pos_label=1))
    by_rank = Scoring("roc_auc", classes, np.array([50, 30]))
    assert "roc_auc" not in by_rank.of_repeat(y, Predictions(labels, model.predict_proba(X)), None)


@pytest.mark.parametrize(
    ("counts", "name"),
    [((50, 50), "accuracy"), ((19, 81), "balanced_accuracy"), ((29, 40), "balanced_accuracy")],
)
def test_a_rare_class_makes_balanced_accuracy_the_default(counts, name):
    assert Scoring(None, np.array(["a", "b"]), np.array(counts)).name == name


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "scoring", ["accuracy", "balanced_accuracy", "g_mean", "f1_macro", "neg_log_loss", "roc_auc"]
)
def test_a_scorer_agrees_with_the_metric_of_its_name(scoring, n_classes):
    X, y, classes, model = problem(n_classes)
    judge = Scoring(scoring, classes, np.bincount(y))
    judge.check()
    value = scored(judge, X, y, model)[judge.name]
    sign = -1 if judge.name == "log_loss" else 1
    assert judge.scorer(model, X, classes[y]) == pytest.approx(sign * value, rel=1e-6)


def test_the_positive_class_is_the_rarer_one_unless_another_is_named():
    X, y, classes, model = problem()
    counts = np.array([30, 50])
    for pos_label, expected in ((None, "ash"), ("beech", "beech")):
        judge = Scoring("recall", classes, counts, pos_label)
        value = scored(judge, X, y, model)["recall"]
        here = classes[y] == expected
        assert value == pytest.approx((model.predict(X)[here] == expected).mean())


def test_a_callable_is_called_with_the_rows():
    X, y, classes, model = problem()

    def cost(estimator, rows, labels):
        return -float((rows[:, 0] * (estimator.predict(rows) != labels)).sum())

    judge = Scoring(cost, classes, np.bincount(y))
    judge.check()
    assert judge.name == "cost"
    assert scored(judge, X, y, model)["cost"] == cost(model, X, classes[y])


@pytest.mark.parametrize("name", ["accuracy", "loss"])
def test_a_callable_with_the_name_of_a_metric_is_called(name):
    X, y, classes, model = problem()

    def own(estimator, rows, labels):
        return 7.0

    own.__name__ = name
    judge = Scoring(own, classes, np.bincount(y))
    values = scored(judge, X, y, model)
    assert values[judge.name] == 7
    assert values["accuracy"] < 7


@pytest.mark.parametrize(
    ("scoring", "n_classes", "pos_label", "message"),
    [
        (f1_score, 2, None, r"make_scorer\(f1_score\)"),
        (5, 2, None, "not 5"),
        ("balanced_acuracy", 2, None, r"Did you mean balanced_accuracy\?"),
        ("average_precision", 3, None, "two classes"),
        ("f1", 3, None, "cannot be used"),
        ("f1", 3, "ash", "two classes"),
        ("f1", 2, "oak", "they are 'ash', 'beech'"),
        ("r2", 2, None, "cannot be used"),
        ("loss", 2, None, "no metric 'loss'. (Did you mean log_loss|scoring)"),
    ],
)
def test_metrics_that_cannot_be_used_are_refused(scoring, n_classes, pos_label, message):
    _, y, classes, _ = problem(n_classes)
    with pytest.raises(InputError, match=message):
        Scoring(scoring, classes, np.bincount(y), pos_label).check()


def test_metrics_of_probabilities_need_them():
    classes, counts = np.array(["a", "b"]), np.array([5, 5])
    assert Scoring("neg_log_loss", classes, counts).needs_probabilities
    assert not Scoring("roc_auc", classes, counts).needs_probabilities
    own = make_scorer(lambda y, p: 0.0, response_method="predict_proba")
    assert Scoring(own, classes, counts).needs_probabilities
