"""The penalty on the within-class scatter: optimum, invariances, held-out scores and searches."""

import warnings

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import convex_optimum
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import scale

from discreg import (
    LSRClassifier,
    LSRClassifierCV,
    ReLSRClassifier,
    ReLSRClassifierCV,
    penalty_path,
)

CLASSES = {"lsr": LSRClassifier, "relsr": ReLSRClassifier}
EVERY = [LSRClassifier, ReLSRClassifier]
SEARCHES = [LSRClassifierCV, ReLSRClassifierCV]
KEYS = ("params", "mean_test_score")
WEIGHTS = np.tile([1.0, 2.0, 0.4, 0.0, 1.7], 40)


def wine():
    X, y = load_wine(return_X_y=True)
    return scale(X)[::2], y[::2]


def small_iris():
    X, y = load_iris(return_X_y=True)
    return X[::4], y[::4]


def small_wide():
    rng = np.random.default_rng(0)
    y = np.arange(25) % 3
    return rng.normal(size=(25, 60)) + rng.normal(size=(3, 60))[y], y


def within_scatter(X, y, weights):
    means = [np.average(X[y == k], axis=0, weights=weights[y == k]) for k in np.unique(y)]
    deviations = X - np.array(means)[y]
    return deviations.T @ (weights[:, None] * deviations)


@pytest.mark.parametrize(("data", "fit_intercept"), [(wine, True), (small_wide, False)])
@pytest.mark.parametrize("model", CLASSES)
def test_optimum_equals_convex_programming(model, fit_intercept, data):
    X, y = data()
    weights = np.random.default_rng(0).uniform(0.2, 3, size=len(y))
    params = {"fit_intercept": fit_intercept, "within_class": 0.6}
    fitted = CLASSES[model](beta=2.0, scale_beta=False, **params).fit(X, y, sample_weight=weights)
    optimum = convex_optimum(model, X, y, 2.0, weights=weights, **params)
    assert fitted.objective_history_[-1] == pytest.approx(optimum.objective, rel=1e-7)
    assert_allclose(fitted.coef_, optimum.coef.T, atol=1e-5)
    assert 0 <= fitted.gap_ < 1e-12


@pytest.mark.parametrize("data", [wine, small_wide])
def test_lsr_is_ridge_regression_with_the_scatter_in_the_penalty(data):
    X, y = data()
    weights = np.random.default_rng(0).uniform(0.2, 3, size=len(y))
    fitted = LSRClassifier(beta=2.0, scale_beta=False, within_class=30.0).fit(X, y, weights)
    targets, share = np.eye(3)[y], weights / weights.sum()
    centred = X - share @ X
    penalty = 2.0 * np.eye(X.shape[1]) + 30.0 * within_scatter(X, y, weights)
    gram = centred.T @ (weights[:, None] * centred)
    coef = np.linalg.solve(gram + penalty, centred.T @ (weights[:, None] * targets))
    assert_allclose(fitted.coef_, coef.T, atol=1e-12)
    assert_allclose(fitted.intercept_, share @ targets - share @ X @ coef, atol=1e-12)


def test_gap_bounds_the_distance_from_the_optimum():
    X, y = wine()
    few = ReLSRClassifier(within_class=3.0, beta=1e-3, solver="alternating", max_iter=4, tol=0)
    best = clone(few).set_params(solver="newton", max_iter=1000).fit(X, y).objective_history_[-1]
    stopped = few.fit(X, y)
    excess = 1 - best / stopped.objective_history_[-1]
    assert 1e-9 < excess <= stopped.gap_ < 0.5


@pytest.mark.parametrize("model", EVERY)
def test_zero_is_the_limit_of_small_weights(model):
    X, y = wine()
    without, tiny = model().fit(X, y), model(within_class=1e-12).fit(X, y)
    assert_allclose(tiny.coef_, without.coef_, atol=1e-9)
    assert tiny.objective_history_[-1] == pytest.approx(without.objective_history_[-1], rel=1e-9)


@pytest.mark.parametrize("data", [wine, small_wide])
@pytest.mark.parametrize("model", EVERY)
def test_large_weights_make_the_scores_of_a_class_equal(model, data):
    X, y = data()
    spreads = []
    for within_class in (0.0, 1.0, 1e6):
        fitted = model(within_class=within_class, probability=False).fit(X, y)
        scores = fitted.decision_function(X)
        own = scores - np.array([scores[y == k].mean(axis=0) for k in range(3)])[y]
        spreads.append(np.sqrt(np.mean(own**2)))
    assert spreads[0] > spreads[1] > 100 * spreads[2]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("model", EVERY)
def test_one_value_means_the_same_for_any_units_and_weights(model, fit_intercept):
    X, y = wine()
    fixed = model(within_class=0.7, fit_intercept=fit_intercept, probability=False)
    expected = fixed.fit(X, y).decision_function(X)
    for factor, weight in ((1e3, None), (1.0, 7.0)):
        scaled = clone(fixed).fit(factor * X, y, sample_weight=weight)
        assert_allclose(scaled.decision_function(factor * X), expected, atol=1e-9)


@pytest.mark.parametrize("params", [{}, {"kernel": "rbf"}, {"class_weight": "balanced"}])
@pytest.mark.parametrize("model", EVERY)
def test_weights_are_copies(model, params):
    X, y = wine()
    copies = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = model(within_class=2.0, **params).fit(X, y, sample_weight=copies)
    copied = clone(weighted).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    assert_allclose(weighted.decision_function(X), copied.decision_function(X), atol=1e-8)
    assert weighted.inverse_temperature_ == pytest.approx(copied.inverse_temperature_, rel=1e-6)


@pytest.mark.parametrize("data", [wine, small_wide])
@pytest.mark.parametrize("model", EVERY)
def test_sparse_rows_and_a_precomputed_kernel_give_the_model_of_dense_rows(model, data):
    X, y = data()
    X = X * (np.random.default_rng(1).random(X.shape) < 0.5)
    fixed = model(within_class=2.0, scale_beta=False, beta=1.0)
    dense = clone(fixed).fit(X, y)
    from_sparse = clone(fixed).fit(sparse.csr_array(X), y)
    assert_allclose(from_sparse.coef_, dense.coef_, atol=1e-9)
    kernel = clone(fixed).set_params(kernel="precomputed").fit(X @ X.T, y)
    assert_allclose(kernel.decision_function(X @ X.T), dense.decision_function(X), atol=1e-8)
    expected = dense.held_out_decision_function_
    assert_allclose(from_sparse.held_out_decision_function_, expected, atol=1e-7)
    if model is LSRClassifier:  # five folds draw rows of a kernel matrix in another way
        assert_allclose(kernel.held_out_decision_function_, expected, atol=1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("model", EVERY)
def test_rows_in_blocks_give_the_model_of_rows_in_memory(model, fit_intercept):
    X, y = wine()
    fixed = model(within_class=2.0, fit_intercept=fit_intercept)
    expected = clone(fixed).fit(X, y, sample_weight=WEIGHTS[: len(y)])
    blocks = [da.from_array(each, chunks=40) for each in (X, y, WEIGHTS[: len(y)])]
    found = clone(fixed).fit(blocks[0], blocks[1], sample_weight=blocks[2])
    assert_allclose(found.coef_, expected.coef_, atol=1e-8)
    assert_allclose(found.intercept_, expected.intercept_, atol=1e-8)
    if model is LSRClassifier:  # others hold out five folds in memory, and one part in blocks
        assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_, rel=1e-6)
    assert found.gap_ <= 1e-6


def test_fewer_rows_than_features_in_blocks():
    X, y = small_wide()
    expected = ReLSRClassifier(within_class=2.0, beta=0.01).fit(X, y)
    found = clone(expected).fit(da.from_array(X, chunks=10), da.from_array(y, chunks=10))
    assert_allclose(found.coef_, expected.coef_, atol=1e-8)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_parts_give_the_model_of_all_rows(class_weight):
    X, y = wine()
    fixed = LSRClassifier(within_class=2.0, class_weight=class_weight)
    expected, found = clone(fixed).fit(X, y), clone(fixed)
    for part in range(3):
        found.partial_fit(X[part::3], y[part::3], classes=[0, 1, 2])
    assert_allclose(found.coef_, expected.coef_, atol=1e-12)
    assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_)


def test_path_of_penalties_in_blocks():
    X, y = wine()
    path = penalty_path(LSRClassifier(within_class=2.0), X, y, [1.0, 0.1], cv=4)
    again = LSRClassifier(within_class=2.0, beta=path.best_beta).fit(X, y)
    assert_allclose(path.best_estimator.coef_, again.coef_, atol=1e-10)


@pytest.mark.parametrize("model", EVERY)
def test_no_other_penalty(model):
    X, y = wine()
    fitted = model(beta=0.0, within_class=1.0).fit(X, y)
    near = model(beta=1e-9, within_class=1.0).fit(X, y)
    assert fitted.gap_ <= 1e-6
    assert_allclose(fitted.coef_, near.coef_, atol=1e-5)


@pytest.mark.parametrize("model", EVERY)
def test_single_precision(model):
    X, y = wine()
    exact = model(within_class=2.0).fit(X.astype(np.float32).astype(float), y)
    found = model(within_class=2.0).fit(X.astype(np.float32), y)
    assert found.coef_.dtype == np.float32
    assert_allclose(found.coef_, exact.coef_, atol=1e-5)
    assert found.gap_ < 1e-9


@pytest.mark.filterwarnings("ignore:The held-out scores of .* are worse than chance")
@pytest.mark.parametrize(
    ("data", "params"),
    [
        (small_iris, {}),
        (small_iris, {"fit_intercept": False}),
        (small_wide, {"class_weight": {0: 2.0, 1: 1.0, 2: 0.5}}),
        (small_wide, {"kernel": "rbf", "gamma": 0.3}),
    ],
)
def test_leave_one_out_of_lsr_equals_refits(data, params):
    X, y = data()
    weights = WEIGHTS[: len(y)]
    model = LSRClassifier(beta=1.0, scale_beta=False, within_class=5.0, **params)
    found = clone(model).fit(X, y, sample_weight=weights)
    assert found.held_out_by_ == "one row at a time"
    for i in np.flatnonzero(weights)[::2]:
        others = weights.copy()
        others[i] = 0.0
        refit = clone(model).set_params(probability=False).fit(X, y, sample_weight=others)
        expected = refit.decision_function(X[i : i + 1])[0]
        assert_allclose(found.held_out_decision_function_[i], expected, atol=1e-9)


@pytest.mark.parametrize("in_groups", [False, True])
@pytest.mark.parametrize(
    ("data", "params"),
    [
        (small_iris, {}),
        (small_wide, {"scale_beta": False}),
        (small_iris, {"kernel": "rbf", "gamma": 0.3, "fit_intercept": False}),
    ],
)
def test_searches_of_lsr_hold_out_exactly(data, in_groups, params):
    X, y = data()
    # The samples of a group are of different classes; one group is a whole class.
    groups = np.arange(len(y)) if not in_groups else np.where(y == 2, 0, np.arange(len(y)) // 4)
    groups = np.unique(groups, return_inverse=True)[1]
    settings = [{"within_class": w, "beta": b} for w in (5.0, 0.0) for b in (1.0, 0.1)]
    model = LSRClassifier(class_weight={0: 2.0, 1: 1.0, 2: 0.5}, probability=False, **params)
    if in_groups:
        path = LSRClassifierCV._leave_groups_out(clone(model), X, y, None, settings, groups)
    else:
        path = LSRClassifierCV._leave_one_out(clone(model), X, y, None, settings)
    for setting, held_out in zip(settings, path, strict=True):
        for group in np.unique(groups)[::3]:
            others = (groups != group).astype(float)
            if len(np.unique(y[others > 0])) < 3:
                continue
            refit = clone(model).set_params(**setting).fit(X[others > 0], y[others > 0])
            own = groups == group
            assert_allclose(held_out.scores[own], refit.decision_function(X[own]), atol=1e-9)


@pytest.mark.parametrize("model", EVERY)
def test_random_labels_cannot_be_predicted(model):
    """The scatter of all samples knows the label of the one that is held out."""
    X, y = np.random.default_rng(0).normal(size=(60, 200)), np.arange(60) % 4
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The held-out scores of .* are worse than chance")
        scores = model(within_class=10.0).fit(X, y).held_out_decision_function_
    assert np.mean(scores.argmax(axis=1) == y) < 0.5


@pytest.mark.parametrize("search", SEARCHES)
def test_searches_choose_it_together_with_beta(search):
    X, y = wine()
    grid = {"betas": [1.0, 0.01], "within_classes": [3.0, 0.0]}
    found = search(**grid).fit(X, y)
    settings = found.cv_results_["params"]
    pairs = [(3.0, 1.0), (3.0, 0.01), (0.0, 1.0), (0.0, 0.01)]
    assert [(each["within_class"], each["beta"]) for each in settings] == pairs
    assert found.best_estimator_.within_class == found.best_params_["within_class"]
    for place, (within_class, beta) in enumerate(pairs):
        alone = search(betas=[beta], within_classes=[within_class]).fit(X, y)
        assert found.cv_results_["mean_log_loss"][place] == pytest.approx(
            alone.cv_results_["mean_log_loss"][0], rel=0.1
        )
    assert "within_class" not in search(betas=[1.0]).fit(X, y).best_params_
    with pytest.raises(ValueError, match="within_classes must hold"):
        search(within_classes=[-1.0]).fit(X, y)


def test_more_samples_with_a_kernel():
    """More than 300 samples, for which dual coordinate descent is not used."""
    X, y = load_iris(return_X_y=True)
    X, y = np.vstack([X, X + 0.01, X - 0.01]), np.tile(y, 3)
    fitted = ReLSRClassifier(kernel="rbf", within_class=1.0, probability=False).fit(X, y)
    assert fitted.solver_ == "newton"
    search = ReLSRClassifierCV(
        ReLSRClassifier(kernel="rbf", probability=False),
        gammas=[1.0],
        betas=[0.1],
        within_classes=[1.0, 0.0],
    )
    assert search.fit(X, y).cv_results_["mean_test_score"].min() > 0.9


def test_what_it_cannot_be_combined_with():
    X, y = wine()
    with pytest.raises(ValueError, match="solver='dcd' needs within_class=0"):
        ReLSRClassifier(kernel="rbf", solver="dcd", within_class=1.0).fit(X, y)
    for model in EVERY:
        with pytest.raises(ValueError, match="within_class"):
            model(within_class=-1.0).fit(X, y)
