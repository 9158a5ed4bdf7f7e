"""Held-out scores of DLSR, ReLSR and GReLSR, compared with refits."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification
from sklearn.preprocessing import scale

from discreg import (
    DLSRClassifier,
    GReLSRClassifier,
    GReLSRClassifierCV,
    ReLSRClassifier,
    ReLSRClassifierCV,
)
from discreg.retargeted import _active_rows, _left_out, _refits

MODELS = [DLSRClassifier, ReLSRClassifier, GReLSRClassifier]
WEIGHTS = np.tile([1.0, 2.0, 0.4, 0.0, 1.7], 40)


def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


def columns(scores):
    return np.column_stack([0 * scores, scores]) if scores.ndim == 1 else scores


def refitted(model, X, y, weights=None, rows=range(0, 150, 19)):
    """Scores of some rows from refits without a unit of their weight."""
    weights = np.ones(len(y)) if weights is None else weights
    rows = [i for i in rows if weights[i] > 0]
    scores = []
    for i in rows:
        others = weights.copy()
        others[i] -= min(weights[i], 1.0)
        again = clone(model).set_params(probability=False).fit(X, y, sample_weight=others)
        scores.append(columns(again.decision_function(X[i : i + 1]))[0])
    return np.array(rows), np.array(scores)


def relative_errors(model, X, y, **kwargs):
    """Median and mean error of held-out scores, relative to the distance from training scores."""
    found = model.fit(X, y)
    rows, scores = refitted(model, X, y, **kwargs)
    errors = np.abs(columns(found.loo_decision_function_)[rows] - scores).max(axis=1)
    distances = np.abs(columns(found.decision_function(X))[rows] - scores).max(axis=1)
    same = columns(found.loo_decision_function_)[rows].argmax(axis=1) == scores.argmax(axis=1)
    return np.median(errors) / distances.mean(), errors.mean() / distances.mean(), same.mean()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("beta", [0.2, 20.0])
@pytest.mark.parametrize(("n_classes", "fit_intercept"), [(2, True), (3, True), (3, False)])
def test_scores_of_small_data_equal_refits(model, beta, n_classes, fit_intercept):
    X, y = iris()
    X, y = X[y >= 3 - n_classes], y[y >= 3 - n_classes]
    weights, rows = WEIGHTS[: len(y)], range(0, len(y), 17)
    fixed = model(beta=beta, scale_beta=False, tol=1e-10, fit_intercept=fit_intercept)
    found = fixed.fit(X, y, sample_weight=weights)
    rows, scores = refitted(fixed, X, y, weights, rows)
    assert found.loo_is_exact_
    assert_allclose(columns(found.loo_decision_function_)[rows], scores, atol=1e-8)
    unseen = weights == 0
    assert_allclose(found.loo_decision_function_[unseen], found.decision_function(X)[unseen])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("beta", [0.01, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("solver", "atol"), [("newton", 1e-8), ("dcd", 1e-4)])
def test_scores_with_a_kernel_equal_refits(model, beta, fit_intercept, solver, atol):
    """A flexible kernel and a small penalty: without a row, many others change their pieces."""
    X, y = load_wine(return_X_y=True)
    X, y, weights = scale(X)[::2], y[::2], WEIGHTS[:89]
    fixed = model(kernel="rbf", gamma=0.1, beta=beta, scale_beta=False, tol=1e-13, solver=solver)
    fixed.set_params(fit_intercept=fit_intercept)
    found = fixed.fit(X, y, sample_weight=weights)
    rows, scores = refitted(fixed, X, y, weights, range(0, 89, 8))
    assert found.loo_is_exact_
    assert_allclose(found.loo_decision_function_[rows], scores, atol=atol)


def test_scores_of_wide_data_equal_refits():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 100)), np.arange(40) % 4
    X[np.arange(40), y] += 3
    for model in MODELS:
        fixed = model(beta=3.0, scale_beta=False, tol=1e-12)
        found = fixed.fit(X, y)
        rows, scores = refitted(fixed, X, y, rows=range(0, 40, 3))
        assert found.loo_is_exact_
        assert_allclose(found.loo_decision_function_[rows], scores, atol=1e-8)


@pytest.mark.parametrize("model", MODELS)
def test_refits_of_an_inexact_fit_are_not_called_exact(model):
    X, y = iris()
    rough = model(kernel="rbf", solver="dcd", tol=1e-4).fit(X, y)
    assert rough.loo_is_exact_ is False


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_that_determine_an_intercept(model, n_classes):
    """Two rows keep an intercept where it is; without one of them, further rows do."""
    y = np.arange(30) % n_classes
    X = 0.3 * np.random.default_rng(1).standard_normal((30, 2))
    X += 4.0 * np.column_stack([y == 1, y == 2])
    fixed = model(beta=3e-4, scale_beta=False, tol=1e-10)
    found = fixed.fit(X, y)
    rows, scores = refitted(fixed, X, y, rows=range(30))
    assert found.loo_is_exact_
    assert_allclose(columns(found.loo_decision_function_)[rows], scores, atol=1e-7)


@pytest.mark.parametrize("model", MODELS)
def test_class_weights_stay_the_same(model):
    X, y = iris()
    fixed = model(beta=2.0, scale_beta=False, tol=1e-10, class_weight={0: 0.5, 1: 1.0, 2: 3.0})
    found = fixed.fit(X, y)
    factors = np.array([0.5, 1.0, 3.0])[y]
    plain = clone(fixed).set_params(class_weight=None, probability=False)
    for i in (3, 70, 133, 149):
        others = factors.copy()
        others[i] = 0.0
        scores = plain.fit(X, y, sample_weight=others).decision_function(X[i : i + 1])[0]
        assert_allclose(found.loo_decision_function_[i], scores, atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_weights_are_copies(model):
    X, y = iris()
    weights = np.tile([1, 2, 3], 50)
    once = model().fit(X, y, sample_weight=weights)
    copies = np.repeat(np.arange(150), weights)
    each = model().fit(X[copies], y[copies])
    assert_allclose(once.loo_decision_function_[copies], each.loo_decision_function_, atol=1e-6)
    assert_allclose(once.inverse_temperature_, each.inverse_temperature_, rtol=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_sparse_and_single_precision(model):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16, y[:300]
    dense = model().fit(X, y).loo_decision_function_
    assert_allclose(model().fit(sparse.csr_array(X), y).loo_decision_function_, dense, atol=1e-9)
    single = model().fit(X.astype(np.float32), y).loo_decision_function_
    assert_allclose(single, dense, atol=1e-4)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "params",
    [
        {"kernel": "rbf", "beta": 0.1, "solver": "newton"},
        {"kernel": "rbf", "beta": 1.0, "solver": "newton", "fit_intercept": False},
        {"kernel": "rbf", "beta": 0.3, "solver": "dcd", "tol": 1e-12},
        {"beta": 30.0},
    ],
)
def test_one_step_is_close_to_refits(model, params, monkeypatch):
    monkeypatch.setattr(_refits, "MOST_WORK", 0)
    X, y = load_wine(return_X_y=True)
    fixed = model(**{"scale_beta": False, "tol": 1e-10, "gamma": 0.02} | params)
    median, mean, same = relative_errors(fixed, scale(X), y)
    assert median < 3e-3
    assert mean < 0.15
    assert same == 1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_forms_agree(model, fit_intercept, monkeypatch):
    """The Hessian and the kernel matrix of the active rows yield the same scores."""
    monkeypatch.setattr(_refits, "MOST_WORK", 0)
    X, y = load_digits(return_X_y=True)
    X, y, weights = X[:200] / 16, y[:200], WEIGHTS[:200] + 0.3
    params = {"beta": 5.0, "scale_beta": False, "fit_intercept": fit_intercept, "tol": 1e-13}

    def scores(X, **changes):
        found = model(**params | changes).fit(X, y, sample_weight=weights)
        return found.loo_decision_function_

    kernel = {"kernel": "precomputed", "n_components": None}
    dual = scores(X @ X.T, **kernel, solver="dcd")
    assert_allclose(scores(X @ X.T, **kernel, solver="newton"), dual, atol=1e-5)
    monkeypatch.setattr(_left_out, "MOST_PIECES", 0)
    assert_allclose(scores(X), dual, atol=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_separate_classes(model, monkeypatch):
    """With too many unknowns, the classes have systems of their own, which is close."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    found = [model(kernel=kernel).fit(X, y) for kernel in ("linear", "rbf")]
    monkeypatch.setattr(_left_out, "MOST_PIECES", 0)
    monkeypatch.setattr(_left_out, "MOST_UNKNOWNS", 0)
    monkeypatch.setattr(_active_rows, "MOST_PIECES", 200)
    for exact in found:
        apart = clone(exact).fit(X, y)
        distances = exact.loo_decision_function_ - exact.decision_function(X)
        errors = apart.loo_decision_function_ - exact.loo_decision_function_
        limit = 1e-9 if model is DLSRClassifier else 0.3
        assert np.abs(errors).mean() < limit * np.abs(distances).mean()


@pytest.mark.parametrize("model", [ReLSRClassifier, GReLSRClassifier])
def test_separate_classes_that_are_all_active(model, monkeypatch):
    """With a large penalty all classes of all rows are active, and separating them is exact."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    exact = model(beta=1e4).fit(X, y)
    monkeypatch.setattr(_left_out, "MOST_UNKNOWNS", 0)
    apart = model(beta=1e4).fit(X, y)
    distances = exact.loo_decision_function_ - exact.decision_function(X)
    errors = apart.loo_decision_function_ - exact.loo_decision_function_
    assert np.abs(errors).max() < 1e-9 * np.abs(distances).max()


@pytest.mark.parametrize("search", [ReLSRClassifierCV, GReLSRClassifierCV])
def test_settings_are_compared_by_close_scores(search):
    """A search separates the classes and fits less accurately; scores stay those of the model."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:600] / 16, y[:600]
    found = search(betas=[0.1]).fit(X, y)
    labels = found.best_estimator_.loo_decision_function_.argmax(axis=1)
    assert found.best_score_ == pytest.approx(np.mean(labels == y), abs=0.005)


@pytest.mark.parametrize("model", MODELS)
def test_fewer_rows_of_large_kernels(model, monkeypatch):
    X, y = load_digits(return_X_y=True)
    X, y = X[:500] / 16, y[:500]
    monkeypatch.setattr(_left_out, "MOST_PIECES", 20)
    monkeypatch.setattr(_left_out, "FEWER", 400)
    monkeypatch.setattr(_active_rows, "MOST_PIECES", 20)
    exact = model(kernel="rbf").fit(X, y)
    assert not hasattr(exact, "loo_decision_function_")
    monkeypatch.setattr(_left_out, "LARGEST_DUAL", 450)
    fewer = model(kernel="rbf").fit(X, y)
    assert_allclose(fewer.inverse_temperature_, exact.inverse_temperature_, rtol=0.2)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "params",
    [
        {"penalty": "l21", "beta": 20.0},
        {"penalty": "l21", "beta": 30.0, "rank": 1},
        {"rank": 1, "beta": 5.0},
    ],
)
def test_structured_coefficients(model, params):
    X, y = iris()
    fixed = model(scale_beta=False, tol=1e-8, max_iter=5000, **params)
    _, mean, same = relative_errors(fixed, X, y, rows=(0, 57, 70, 106, 133))
    assert mean < 0.15
    assert same == 1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n_rows", [150, 3000])
def test_rows_in_blocks(model, n_rows):
    X, y = make_classification(n_rows, 8, n_informative=5, n_classes=3, random_state=0)
    weights = 1.0 + np.arange(n_rows) % 3
    in_memory = model(tol=1e-10).fit(X, y, weights)
    chunks = (da.from_array(each, chunks=n_rows // 4) for each in (X, y, weights))
    in_blocks = model(tol=1e-10).fit(*chunks)
    assert in_blocks.loo_is_exact_ == in_memory.loo_is_exact_ == (n_rows == 150)
    assert_allclose(in_blocks.inverse_temperature_, in_memory.inverse_temperature_, rtol=1e-6)
    assert_allclose(in_blocks.predict_proba(X), in_memory.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_wide_data(model):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 200)), np.arange(60) % 3
    X[np.arange(60), y] += 5
    fixed = model(beta=100.0, scale_beta=False, tol=1e-10)
    median, mean, same = relative_errors(fixed, X, y, rows=range(0, 60, 5))
    assert median < 3e-3
    assert mean < 0.15
    assert same == 1


@pytest.mark.parametrize("model", MODELS)
def test_many_rows_from_some(model, monkeypatch):
    """The Hessian of some rows, with separate classes, is close to that of all rows."""
    X, y = make_classification(
        6000, 10, n_informative=8, n_classes=4, n_clusters_per_class=1, random_state=0
    )
    exact = model().fit(X, y)
    monkeypatch.setattr(_left_out, "MANY_ROWS", 0)
    monkeypatch.setattr(_left_out, "SHARE", 1e-6)
    quick = model().fit(X, y)
    assert quick.inverse_temperature_ != exact.inverse_temperature_
    assert_allclose(quick.inverse_temperature_, exact.inverse_temperature_, rtol=2e-3)


@pytest.mark.parametrize("model", [DLSRClassifier, ReLSRClassifier])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_without_loss_do_not_move(model, kernel):
    X, y = iris()
    found = model(beta=1e-3, kernel=kernel).fit(X, y)
    scores = found.decision_function(X)
    idle = np.abs(scores - found.targets_).max(axis=1) < 1e-12
    assert 10 < idle.sum() < 150
    assert_allclose(found.loo_decision_function_[idle], scores[idle], atol=1e-9)
    moves = np.abs(found.loo_decision_function_ - scores).max(axis=1)
    assert moves[~idle].min() > 1e-9


@pytest.mark.parametrize("model", MODELS)
def test_without_a_penalty(model):
    X, y = make_classification(120, 4, flip_y=0.2, random_state=0)
    fixed = model(beta=0, tol=1e-8)
    median, mean, same = relative_errors(fixed, X, y, rows=range(0, 120, 10))
    assert median < 3e-3
    assert mean < 0.1
    assert same == 1
