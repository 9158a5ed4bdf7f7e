"""Bootstrap of held-out predictions: the best of many equal models is not called better."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from comparison_evidence import evidence_of, predictions
from numpy.testing import assert_allclose
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from discreg.comparison.statistics import resampling
from discreg.comparison.statistics.contrasts import Contrasts
from discreg.comparison.statistics.judged import judge
from discreg.comparison.statistics.resampling import resample_folds, resample_rows


@pytest.fixture
def few_samples(monkeypatch):
    monkeypatch.setattr(resampling, "N_SAMPLES", 120)


def equal_models(seed, n_models=8, n_rows=200, accuracy=0.7, n_repeats=2):
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 2
    named = {
        f"model {place}": predictions(y, accuracy, rng, n_repeats=n_repeats)
        for place in range(n_models)
    }
    return evidence_of(y, named, n_repeats=n_repeats, seed=seed)


def test_bias_of_the_best_of_equal_models_is_removed(few_samples):
    best, corrected = [], []
    for seed in range(40):
        contrasts = Contrasts(equal_models(seed))
        best.append(contrasts.means("accuracy")[contrasts.order[0]])
        corrected.append(best[-1] - contrasts.optimism())
    assert np.mean(best) > 0.73
    assert np.mean(corrected) == pytest.approx(0.7, abs=0.01)


def test_scores_of_folds_remove_most_of_the_bias_too(few_samples):
    """For metrics that cannot be computed from stored predictions."""
    left = []
    for seed in range(40):
        evidence = equal_models(seed)
        found = resample_folds(evidence, judge(evidence), "accuracy")
        left.append(found.whole[:-1].max() - found.optimism(range(8)))
    assert np.mean(left) == pytest.approx(0.7, abs=0.015)


def test_a_model_far_ahead_is_not_corrected(few_samples):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    named = {"good": predictions(y, 0.95, rng), "bad": predictions(y, 0.6, rng)}
    assert Contrasts(evidence_of(y, named)).optimism() == pytest.approx(0, abs=0.005)


def test_bootstrap_error_is_that_of_a_proportion():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    evidence = evidence_of(y, {"one": predictions(y, 0.8, rng, n_repeats=1)}, n_repeats=1)
    found = resample_rows(evidence, judge(evidence), "accuracy")
    accuracy = found.whole[0]
    expected = np.sqrt(accuracy * (1 - accuracy) / 400)
    assert found.standard_error(0) == pytest.approx(expected, rel=0.1)


def test_groups_are_drawn_together():
    """Rows of a group are equal, so that the error is that of as many rows as groups."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    right = predictions(y, 0.7, rng, n_repeats=1, same=1)
    y, groups, right = np.repeat(y, 10), np.repeat(np.arange(40), 10), np.repeat(right, 10, axis=1)
    evidence = evidence_of(y, {"one": right}, n_repeats=1, groups=groups)
    found = resample_rows(evidence, judge(evidence), "accuracy")
    accuracy = found.whole[0]
    expected = np.sqrt(accuracy * (1 - accuracy) / 40)
    assert found.standard_error(0) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["roc_auc", "average_precision", "log_loss", "brier"])
def test_scores_of_probabilities_are_those_of_scikit_learn(metric, weighted):
    rng = np.random.default_rng(0)
    weights = rng.integers(4, size=100).astype(float) if weighted else np.ones(100)
    y = (np.arange(100) % 3 == 0).astype(int)
    positive = np.round(rng.random((1, 100)) * 0.6 + 0.3 * y, 1)  # with ties
    shares = np.stack([1 - positive, positive], axis=-1)
    evidence = evidence_of(
        y,
        {"one": (positive > 0.5).astype(int)},
        n_repeats=1,
        probabilities={"one": shares, "majority": np.full((1, 100, 2), [0.7, 0.3])},
        positive=1,
        weights=weights if weighted else None,
    )
    found = resample_rows(evidence, judge(evidence), metric)
    folds = evidence.held_out["one"][0].folds

    def by_fold(score):
        parts = [folds == fold for fold in range(5)]
        return np.mean(
            [score(y[part], positive[0, part], sample_weight=weights[part]) for part in parts]
        )

    expected = {
        "roc_auc": lambda: by_fold(roc_auc_score),
        "average_precision": lambda: by_fold(average_precision_score),
        "log_loss": lambda: -log_loss(y, shares[0].clip(1e-16), sample_weight=weights),
        "brier": lambda: -np.average((positive[0] - y) ** 2, weights=weights),
    }[metric]()
    assert_allclose(found.whole[0], expected, rtol=1e-9)


def test_metrics_that_predictions_do_not_give_are_not_bootstrapped_by_rows():
    evidence = equal_models(0)
    assert resample_rows(evidence, judge(evidence), "matthews_corrcoef") is None


def test_sample_weights_are_equivalent_to_repeating_rows():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    labels = predictions(y, 0.7, rng, n_repeats=1)
    weights = np.where(np.arange(60) < 30, 2.0, 1.0)
    evidence = evidence_of(y, {"one": labels}, n_repeats=1, weights=weights)
    found = resample_rows(evidence, judge(evidence), "balanced_accuracy")
    copies = np.repeat(np.arange(60), weights.astype(int))
    expected = np.mean([np.mean(labels[0, copies][y[copies] == k] == k) for k in (0, 1)])
    assert found.whole[0] == pytest.approx(expected, rel=1e-12)


def ranked(n_classes, n_rows, scores_of):
    """Evidence of models with probabilities, and decision values that are not comparable."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    shares = {name: rng.dirichlet(np.ones(n_classes), size=(2, n_rows)) for name in scores_of}
    made = evidence_of(
        y,
        {name: each.argmax(axis=2) for name, each in shares.items()},
        probabilities=shares | {"majority": np.full((2, n_rows, n_classes), 1 / n_classes)},
        metric="roc_auc",
    )
    held_out = {
        name: [replace(each, scores=rng.normal(size=(n_rows, n_classes))) for each in entries]
        for name, entries in made.held_out.items()
    }
    rows = [
        (name, repeat, fold, "roc_auc", auc(y, entries[repeat], fold))
        for name, entries in held_out.items()
        for repeat in range(2)
        for fold in range(5)
    ]
    results = pd.concat([made.results, pd.DataFrame(rows, columns=made.results.columns)])
    return replace(made, held_out=held_out, results=results)


def auc(y, held_out, fold):
    rows = held_out.folds == fold
    return roc_auc_score(y[rows], held_out.probabilities[rows], multi_class="ovr")


def test_several_classes_are_ranked_by_probabilities_as_in_the_scores():
    evidence = ranked(3, 90, "ab")
    judged = judge(evidence)
    whole = resample_rows(evidence, judged, "roc_auc").whole
    assert_allclose(whole, judged.scores.mean(), rtol=1e-12)


def test_a_metric_that_few_rows_leave_undefined_is_corrected_by_folds(few_samples):
    evidence = ranked(24, 120, "abcdef")  # the rows that are not drawn lack a class in every fold
    contrasts = Contrasts(evidence)
    places = range(6)
    assert np.isnan(resample_rows(evidence, contrasts.judged, "roc_auc").optimism(places))
    by_folds = resample_folds(evidence, contrasts.judged, "roc_auc").optimism(places)
    assert contrasts.optimism() == by_folds > 0
