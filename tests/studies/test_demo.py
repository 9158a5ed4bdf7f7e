"""The demonstration: the models it shows, the table, and what it calls noise."""

import numpy as np
import pytest
from scipy.stats import ttest_rel
from sklearn.datasets import load_iris
from sklearn.svm import LinearSVC

import discreg
from discreg import ReLSRClassifier
from discreg.studies.demo import (
    BASELINE,
    MODELS,
    Result,
    below_the_best,
    evaluate,
    report,
    run,
    verdict,
)


def result(name, accuracy, **changes):
    accuracy = np.asarray(accuracy, dtype=float)
    facts = {"fit_seconds": np.full(len(accuracy), 0.01), "gap": None, "n_unconverged": 0}
    return Result(name, accuracy, accuracy, **(facts | changes))


def folds(mean, seed=0):
    return mean + 0.01 * np.random.default_rng(seed).standard_normal(10)


@pytest.mark.parametrize("dataset", ["wine", "breast_cancer"])
def test_every_model_has_a_row_and_the_majority_class_one_beside_it(dataset):
    _, table, *_ = run(dataset).split("\n\n")
    _, _, *rows = table.splitlines()
    names = [*(type(model).__name__ for model in MODELS), BASELINE]
    for row, name in zip(rows, names, strict=True):
        assert row.startswith(f"{name} ")


def test_no_classifier_of_the_package_is_missing():
    shown = {type(model).__name__ for model in MODELS}
    assert shown >= {name for name in discreg.__all__ if name.endswith("Classifier")}


def test_models_meet_the_same_folds_and_keep_their_certificate():
    X, y = load_iris(return_X_y=True)
    ours, again, peer = (evaluate(m, X, y) for m in (*[ReLSRClassifier()] * 2, LinearSVC()))
    np.testing.assert_array_equal(ours.accuracy, again.accuracy)
    assert 0 <= ours.gap <= 1e-6
    assert peer.gap is None


def test_fits_that_do_not_converge_are_counted_and_reported():
    X, y = load_iris(return_X_y=True)
    stopped = evaluate(ReLSRClassifier(max_iter=2), X, y)
    assert stopped.n_unconverged == len(stopped.accuracy)
    assert "ReLSRClassifier did not converge in 10 of 10 fits." in " ".join(
        verdict([stopped, result("other", folds(0.5))]).split()
    )


def test_columns_are_aligned():
    table = report(
        [result("short", folds(0.9), gap=1e-9), result("a much longer name", [1.0] * 10)]
    )
    lines = table.split("\n\n")[0].splitlines()
    assert len({len(line) for line in lines}) == 1


def test_a_clear_difference_is_beyond_noise_and_a_small_one_is_not():
    results = [
        result("best", folds(0.95)),
        result("close", folds(0.945, seed=1)),
        result("far", folds(0.80, seed=2)),
    ]
    best, below = below_the_best(results)
    assert best.name == "best"
    assert below == ["far"]
    sentence = " ".join(verdict(results).split())
    assert "best has the highest mean accuracy" in sentence
    assert "over close is within noise" in sentence
    assert "over far is beyond noise" in sentence


def test_equal_models_share_the_first_place():
    accuracy = folds(0.9)
    sentence = " ".join(verdict([result("one", accuracy), result("two", accuracy[::-1])]).split())
    assert sentence.startswith("one and two share the highest mean accuracy; no model is below")


def test_the_same_lead_in_every_fold_is_beyond_noise():
    accuracy = np.full(10, 0.5)
    _, below = below_the_best([result("one", accuracy + 0.25), result("two", accuracy)])
    assert below == ["two"]


def test_overlapping_folds_make_a_lead_less_certain():
    lead = 0.01 + 0.009 * np.array([1, -1] * 5)
    one, two = 0.9 + lead, np.full(10, 0.9)
    assert ttest_rel(one, two).pvalue < 0.01
    _, below = below_the_best([result("one", one), result("two", two)])
    assert below == []
