"""Scores of predictions equal their definitions."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_score

from discreg import LSRClassifier, LSRClassifierCV, g_mean_score
from discreg.base.metrics import METRICS, area_under_curve, counts, label_scores, metric

CLASSES = np.array(["a", "b", "c"])


@pytest.fixture
def labels():
    random = np.random.default_rng(0)
    y = random.choice(CLASSES, 200, p=[0.7, 0.2, 0.1])
    return y, np.where(random.random(200) < 0.6, y, random.choice(CLASSES, 200))


def test_they_equal_those_of_scikit_learn(labels):
    y, predicted = labels
    scores = label_scores(counts(y, predicted, CLASSES))
    assert scores["accuracy"] == pytest.approx(accuracy_score(y, predicted))
    assert scores["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, predicted))
    assert scores["macro_f1"] == pytest.approx(f1_score(y, predicted, average="macro"))
    assert scores["g_mean"] == pytest.approx(g_mean_score(y, predicted))


def test_a_class_without_test_samples_counts_for_nothing_unless_it_is_predicted():
    y = np.array(["a", "a", "b", "b"])
    right = label_scores(counts(y, y, CLASSES))
    assert set(right.values()) == {1}
    wrong = label_scores(counts(y, np.array(["a", "a", "b", "c"]), CLASSES))
    assert wrong["balanced_accuracy"] == 0.75
    assert wrong["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_a_class_that_is_never_found_makes_the_g_mean_zero():
    y = np.array(["a", "a", "b"])
    assert label_scores(counts(y, np.array(["a", "a", "a"]), CLASSES))["g_mean"] == 0


def test_a_stack_of_confusion_matrices_is_scored_at_once():
    stack = np.random.default_rng(0).integers(0, 4, size=(2, 50, 3, 3))
    stack[:, :20, 1] = 0  # a class without samples
    stack[1, 0] = 0
    for each in METRICS.values():
        if each.score is not None:
            found = each.score(stack)
            assert found.shape == (2, 50)
            expected = [[each.score(table) for table in tables] for tables in stack]
            np.testing.assert_allclose(found, expected, rtol=1e-14)
            assert np.isnan(found[1, 0])
            assert np.isnan(found).sum() == 1


def test_metrics_have_their_usual_names_and_directions():
    assert (metric("macro_f1").title, metric("area_under_curve").title) == (
        "macro F1",
        "area under curve",
    )
    better_low = {each.name for each in METRICS.values() if each.lower_is_better}
    assert better_low >= {"log_loss", "fit_seconds", "predict_seconds", "objective"}
    shares = {each.name for each in METRICS.values() if each.is_share}
    assert shares >= {"accuracy", "balanced_accuracy", "g_mean", "macro_f1"}
    assert not shares & better_low


def test_metrics_of_labels_are_scored_but_one_that_names_a_class(labels):
    scores = label_scores(counts(*labels, CLASSES))
    of_labels = {each.name for each in METRICS.values() if each.needs == "labels"}
    assert set(scores) == of_labels - {"rare_recall"}


def test_a_sample_of_weight_zero_counts_as_absent(labels):
    y, predicted = labels
    kept = y != "c"
    weighted = g_mean_score(y, predicted, sample_weight=kept.astype(float))
    assert weighted == pytest.approx(g_mean_score(y[kept], predicted[kept]))


@pytest.mark.parametrize("name", [each.name for each in METRICS.values() if each.score])
def test_a_metric_of_labels_is_a_scoring_of_searches(name):
    X, y = load_wine(return_X_y=True)
    search = LSRClassifierCV(betas=[1.0, 1e4], cv=3, scoring=name).fit(X, y)
    folds = StratifiedKFold(3).split(X, y)
    model = LSRClassifier(**search.best_params_)
    scores = [
        METRICS[name].of_labels(y[test], model.fit(X[train], y[train]).predict(X[test]))
        for train, test in folds
    ]
    assert search.best_score_ == pytest.approx(np.mean(scores))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_area_under_the_curve_equals_that_of_scikit_learn(weighted):
    random = np.random.default_rng(0)
    y = random.choice(["a", "b"], 60)
    values = random.normal(size=60).round(1)  # with ties
    weights = random.integers(0, 4, 60).astype(float) if weighted else None
    given = np.ones(60) if weights is None else weights
    found = float(area_under_curve(values, y == "b", given))
    expected = roc_auc_score(y == "b", values, sample_weight=weights)
    assert found == pytest.approx(expected, rel=1e-12)


def test_searches_by_auc_have_the_scores_of_scikit_learn():
    X, y = load_wine(return_X_y=True)
    X, y = X[y < 2, :3], y[y < 2]
    folds = list(StratifiedKFold(3).split(X, y))
    search = LSRClassifierCV(betas=[0.1, 10.0], cv=folds, scoring="roc_auc").fit(X, y)
    for place, setting in enumerate(search.cv_results_["params"]):
        model = LSRClassifier(**setting)
        scores = cross_val_score(model, X, y, cv=folds, scoring="roc_auc")
        assert search.cv_results_["mean_test_score"][place] == pytest.approx(scores.mean())


def test_scores_of_labels_are_shares():
    names = ["f1", "recall_macro", "precision_weighted", "jaccard", "accuracy", "roc_auc"]
    assert all(metric(name).is_share for name in names)
    assert not any(metric(name).is_share for name in ("matthews_corrcoef", "cost", "log_loss"))
