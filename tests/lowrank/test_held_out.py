"""Held-out scores of the low-rank models at `fit`: they equal refits without a sample."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from discreg import LRLRClassifier, LRRRClassifier, SLRRClassifier
from discreg.lowrank import _newton_steps


def problem(name):
    if name == "two":
        X, y = load_iris(return_X_y=True)
        X, y = X[50:][::2], y[50:][::2]
    elif name == "wide":
        X, y = load_digits(n_class=4, return_X_y=True)
        return X[:50] / 16, y[:50]
    else:
        X, y = {"iris": load_iris, "wine": load_wine}[name](return_X_y=True)
        X, y = X[::3], y[::3]
    return scale(X), y


def columns(scores):
    return np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores


def refits(model, X, y, weights=None):
    """Scores of the samples, each from a fit without one unit of its weight."""
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    refit = clone(model).set_params(probability=False)
    scores = []
    for i in range(len(y)):
        left = weights.copy()
        left[i] -= min(weights[i], 1.0)
        scores.append(refit.fit(X, y, left).decision_function(X[[i]])[0])
    return np.array(scores)


MODELS = [
    LRRRClassifier(beta=3.0),
    LRRRClassifier(beta=0.1, rank=1),
    LRRRClassifier(beta=1.0, rank=2, fit_intercept=False),
    LRLRClassifier(),
    LRLRClassifier(rank=1),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("name", ["iris", "wine", "two"])
def test_scores_are_those_of_refits(name, model):
    X, y = problem(name)
    if name == "two" and model.rank == 2:
        model = clone(model).set_params(rank=1)
    fitted = clone(model).fit(X, y)
    np.testing.assert_allclose(fitted.loo_decision_function_, refits(model, X, y), atol=1e-9)
    assert fitted.loo_is_exact_


@pytest.mark.parametrize("model", MODELS[:4], ids=str)
@pytest.mark.parametrize("class_weight", [None, {0: 3.0, 2: 0.5}])
def test_one_unit_of_the_weight_is_left_out(model, class_weight):
    X, y = problem("iris")
    weights = np.random.default_rng(0).choice([0.0, 0.4, 1.0, 2.0, 3.5], len(y))
    model = clone(model).set_params(class_weight=class_weight)
    expected = refits(model, X, y, weights)
    found = clone(model).fit(X, y, weights)
    np.testing.assert_allclose(found.loo_decision_function_, expected, atol=1e-9)
    in_rows = clone(model).fit(sparse.csr_array(X), y, weights)
    np.testing.assert_allclose(in_rows.loo_decision_function_, expected, atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed"])
@pytest.mark.parametrize("rank", [None, 1])
def test_kernels(kernel, rank):
    X, y = problem("iris")
    X = rbf_kernel(X, gamma=0.1) if kernel == "precomputed" else X
    model = LRRRClassifier(beta=0.1, rank=rank, kernel=kernel, gamma=0.1)
    found = clone(model).fit(X, y).loo_decision_function_
    np.testing.assert_allclose(found, refits(model, X, y), atol=1e-9)


@pytest.mark.parametrize("rank", [None, 2])
def test_more_features_than_samples(rank):
    X, y = problem("wide")
    model = LRRRClassifier(beta=1.0, rank=rank)
    found = clone(model).fit(X, y).loo_decision_function_
    np.testing.assert_allclose(found, refits(model, X, y), atol=1e-9)
    single = clone(model).fit(X.astype(np.float32), y).loo_decision_function_
    np.testing.assert_allclose(single, found, atol=1e-5)


def test_without_a_penalty_the_other_samples_may_not_determine_a_score():
    X, y = problem("wide")
    model = LRLRClassifier().fit(X, y)
    assert not hasattr(model, "loo_decision_function_")
    assert model.inverse_temperature_ == 1.0
    assert model.predict_set(X).all()  # nothing is known of new samples
    # The other copy of a row determines its score, unless directions are tied.
    twice = np.full(len(y), 2.0)
    found = LRLRClassifier().fit(X, y, twice).loo_decision_function_
    np.testing.assert_allclose(found, refits(LRLRClassifier(), X, y, twice), atol=1e-7)
    assert not hasattr(LRLRClassifier(rank=1).fit(X, y, twice), "loo_decision_function_")


@pytest.mark.parametrize("model", [LRRRClassifier(beta=1.0), LRLRClassifier(rank=1)], ids=str)
@pytest.mark.parametrize("params", [{}, {"kernel": "rbf", "gamma": 0.1, "n_components": 20}])
def test_blocks_and_parts_have_the_same_calibration(model, params, tmp_path):
    X, y = problem("wine")
    weights = np.random.default_rng(0).choice([0.0, 0.4, 1.0, 2.0], len(y))
    model = clone(model).set_params(**params, random_state=0)
    expected = clone(model).fit(X, y, weights)
    np.save(tmp_path / "X.npy", X)
    mapped = clone(model).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y, weights)
    parts, other = clone(model), clone(model)
    if not params:
        other.partial_fit(X[40:], y[40:], sample_weight=weights[40:], classes=np.unique(y))
        parts.partial_fit(X[:40], y[:40], sample_weight=weights[:40], classes=np.unique(y))
        parts.merge(other)
    else:  # the components are those of the first rows
        parts.partial_fit(X, y, sample_weight=weights, classes=np.unique(y))
    for found in (mapped, parts):
        assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_, rel=1e-6)
        assert found.loo_is_exact_
        np.testing.assert_array_equal(found.predict_set(X), expected.predict_set(X))


def test_of_many_rows_some_are_held_out():
    random = np.random.default_rng(0)
    X = random.normal(size=(2300, 3))
    y = (X @ [1.0, 2.0, 0.5] + random.normal(size=2300) > 0).astype(int) + (X[:, 0] > 1)
    model = LRRRClassifier(rank=1).fit(X, y)
    assert not hasattr(model, "loo_decision_function_")
    uninformed = np.log(3)
    assert 0 < -np.mean(model.predict_log_proba(X)[np.arange(2300), y]) < uninformed


def test_the_path_of_ranks_does_not_calibrate():
    X, y = problem("wine")
    assert not hasattr(LRRRClassifier().rank_path(X, y)._estimator, "inverse_temperature_")


def relative_error(found, expected, training):
    """Median error, relative to the distance of the training scores."""
    found, expected, training = columns(found), columns(expected), columns(training)
    errors = np.abs(found - expected).max(axis=1)
    distances = np.abs(training - expected).max(axis=1)
    return np.median(errors) / np.median(distances)


@pytest.mark.parametrize("name", ["iris", "wine", "two"])
@pytest.mark.parametrize("params", [{}, {"beta": 0.05, "fit_intercept": False}], ids=str)
def test_newton_steps_of_slrr_are_close_to_refits(name, params):
    X, y = problem(name)
    model = SLRRClassifier(tol=1e-9).set_params(**params)
    fitted, expected = clone(model).fit(X, y), refits(model, X, y)
    found = fitted.loo_decision_function_
    assert not fitted.loo_is_exact_
    assert relative_error(found, expected, fitted.decision_function(X)) < 1e-3
    assert np.mean(columns(found).argmax(axis=1) == columns(expected).argmax(axis=1)) > 0.99


def test_slrr_at_a_lower_rank():
    X, y = problem("iris")
    model = SLRRClassifier(rank=1, beta=0.5, tol=1e-9)
    fitted, expected = clone(model).fit(X, y), refits(model, X, y)
    found = fitted.loo_decision_function_
    assert relative_error(found, expected, fitted.decision_function(X)) < 3e-3
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_slrr_without_a_penalty_is_exact(fit_intercept):
    X, y = problem("wine")
    model = SLRRClassifier(beta=0.0, fit_intercept=fit_intercept)
    found = clone(model).fit(X, y).loo_decision_function_
    np.testing.assert_allclose(found, refits(model, X, y), atol=1e-9)


@pytest.mark.parametrize("class_weight", [None, {0: 3.0, 2: 0.5}])
def test_slrr_leaves_out_one_unit_of_the_weight(class_weight):
    X, y = problem("iris")
    weights = np.random.default_rng(0).choice([0.0, 0.4, 1.0, 2.0, 3.5], len(y))
    model = SLRRClassifier(class_weight=class_weight, beta=0.05, tol=1e-10)
    expected = refits(model, X, y, weights)
    found = clone(model).fit(X, y, weights).loo_decision_function_
    np.testing.assert_allclose(found, expected, atol=1e-4)
    in_rows = clone(model).fit(sparse.csr_array(X), y, weights).loo_decision_function_
    np.testing.assert_allclose(in_rows, found, atol=1e-6)


def test_slrr_on_rows_in_blocks(tmp_path):
    X, y = problem("wine")
    expected = SLRRClassifier(tol=1e-9).fit(X, y)
    np.save(tmp_path / "X.npy", X)
    found = SLRRClassifier(tol=1e-9).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_, rel=1e-4)
    np.testing.assert_array_equal(found.predict_set(X), expected.predict_set(X))


@pytest.mark.parametrize("rank", [None, 1])
def test_slrr_with_many_unknowns_takes_conjugate_gradients(rank, monkeypatch):
    X, y = problem("iris")
    model = SLRRClassifier(rank=rank, beta=0.5, tol=1e-9)
    expected = clone(model).fit(X, y).loo_decision_function_
    monkeypatch.setattr(_newton_steps, "MOST_UNKNOWNS", 0)
    found = clone(model).fit(X, y).loo_decision_function_
    np.testing.assert_allclose(found, expected, atol=1e-3)
    monkeypatch.setattr(_newton_steps, "FEW_ROWS", 30)
    monkeypatch.setattr(_newton_steps, "WORK", 0)
    few = clone(model).fit(X, y)
    assert len(few._calibrated.y) == 30
    assert not hasattr(few, "loo_decision_function_")
