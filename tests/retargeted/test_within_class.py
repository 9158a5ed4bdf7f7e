"""The penalty on the within-class scatter: optimum, invariances, held-out scores and searches."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import MODELS, convex_optimum
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import GridSearchCV, LeaveOneOut
from sklearn.preprocessing import scale

from discreg import (
    DLSRClassifier,
    DLSRClassifierCV,
    GReLSRClassifier,
    GReLSRClassifierCV,
    LSRClassifier,
    LSRClassifierCV,
    ReLSRClassifier,
    ReLSRClassifierCV,
    load_model,
    penalty_path,
    save_model,
)

CLASSES = {
    "lsr": LSRClassifier,
    "dlsr": DLSRClassifier,
    "relsr": ReLSRClassifier,
    "grelsr": GReLSRClassifier,
}
ITERATIVE = [DLSRClassifier, ReLSRClassifier, GReLSRClassifier]
EVERY = [LSRClassifier, *ITERATIVE]
SEARCHES = [LSRClassifierCV, DLSRClassifierCV, ReLSRClassifierCV, GReLSRClassifierCV]
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


@pytest.mark.parametrize("data", [wine, small_wide])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("model", MODELS)
def test_optimum_equals_convex_programming(model, fit_intercept, data):
    X, y = data()
    weights = np.random.default_rng(0).uniform(0.2, 3, size=len(y))
    params = {"fit_intercept": fit_intercept, "within_class": 0.6}
    fitted = CLASSES[model](beta=2.0, scale_beta=False, **params).fit(X, y, sample_weight=weights)
    optimum = convex_optimum(model, X, y, 2.0, weights=weights, group_penalty=0.1, **params)
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


@pytest.mark.parametrize("model", ITERATIVE)
def test_gap_bounds_the_distance_from_the_optimum(model):
    X, y = wine()
    few = model(within_class=3.0, beta=1e-3, solver="alternating", max_iter=4, tol=0)
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
        scores = model(within_class=within_class).fit(X, y).decision_function(X)
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
    for other in (from_sparse, kernel):
        assert_allclose(other.loo_decision_function_, dense.loo_decision_function_, atol=1e-7)


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
    assert exact.gap_ < found.gap_ < 1e-9


@pytest.mark.parametrize("model", ITERATIVE)
def test_a_rank_that_does_not_bind_has_no_effect(model):
    X, y = wine()
    full = model(within_class=2.0, beta=1.0).fit(X, y)
    limited = model(within_class=2.0, beta=1.0, rank=3, tol=1e-12, max_iter=10_000).fit(X, y)
    assert_allclose(limited.coef_, full.coef_, atol=1e-6)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"fit_intercept": False},
        {"class_weight": {0: 2.0, 1: 1.0, 2: 0.5}},
        {"kernel": "rbf", "gamma": 0.3},
    ],
    ids=str,
)
@pytest.mark.parametrize("within_class", [0.5, 50.0])
@pytest.mark.parametrize("data", [small_iris, small_wide])
def test_leave_one_out_of_lsr_equals_refits(data, within_class, params):
    X, y = data()
    weights = WEIGHTS[: len(y)]
    model = LSRClassifier(beta=1.0, scale_beta=False, within_class=within_class, **params)
    found = clone(model).fit(X, y, sample_weight=weights)
    assert found.loo_is_exact_
    for i in np.flatnonzero(weights):
        others = weights.copy()
        others[i] -= min(weights[i], 1.0)
        refit = clone(model).set_params(probability=False).fit(X, y, sample_weight=others)
        expected = refit.decision_function(X[i : i + 1])[0]
        assert_allclose(found.loo_decision_function_[i], expected, atol=1e-9)


@pytest.mark.parametrize(
    "params",
    [{}, {"scale_beta": False}, {"fit_intercept": False}, {"kernel": "rbf", "gamma": 0.3}],
    ids=str,
)
@pytest.mark.parametrize("in_groups", [False, True])
@pytest.mark.parametrize("data", [small_iris, small_wide])
def test_searches_of_lsr_hold_out_exactly(data, in_groups, params):
    X, y = data()
    # The samples of a group are of different classes; one group is a whole class.
    groups = np.arange(len(y)) if not in_groups else np.where(y == 2, 0, np.arange(len(y)) // 4)
    groups = np.unique(groups, return_inverse=True)[1]
    settings = [{"within_class": w, "beta": b} for w in (5.0, 0.3, 0.0) for b in (1.0, 0.1)]
    model = LSRClassifier(class_weight={0: 2.0, 1: 1.0, 2: 0.5}, probability=False, **params)
    if in_groups:
        path = LSRClassifierCV._leave_groups_out(clone(model), X, y, None, settings, groups)
    else:
        path = LSRClassifierCV._leave_one_out(clone(model), X, y, None, settings)
    for setting, held_out in zip(settings, path, strict=True):
        for group in np.unique(groups):
            others = (groups != group).astype(float)
            if len(np.unique(y[others > 0])) < 3:
                continue
            refit = clone(model).set_params(**setting).fit(X[others > 0], y[others > 0])
            own = groups == group
            assert_allclose(held_out.scores[own], refit.decision_function(X[own]), atol=1e-9)


@pytest.mark.parametrize("data", [wine, small_wide])
@pytest.mark.parametrize("params", [{}, {"kernel": "rbf", "gamma": 0.05}, {"rank": 2}], ids=str)
@pytest.mark.parametrize("model", ITERATIVE)
def test_held_out_scores_of_the_other_models_are_close_to_refits(model, params, data):
    """One Newton step, with the change of the scatter; with the scatter fixed it would be far."""
    X, y = data()
    fixed = model(within_class=5.0, scale_beta=False, beta=1.0, tol=1e-8, **params).fit(X, y)
    assert not fixed.loo_is_exact_
    found, rows = fixed.loo_decision_function_, range(0, len(y), 4)
    refits = np.array(
        [
            clone(fixed)
            .set_params(probability=False)
            .fit(np.delete(X, i, axis=0), np.delete(y, i))
            .decision_function(X[i : i + 1])[0]
            for i in rows
        ]
    )
    distances = np.abs(fixed.decision_function(X)[rows] - refits).max(axis=1)
    errors = np.abs(found[rows] - refits).max(axis=1)
    assert np.median(errors) < 0.02 * np.median(distances)
    assert_array_equal(found[rows].argmax(axis=1), refits.argmax(axis=1))


@pytest.mark.parametrize("model", EVERY)
def test_random_labels_cannot_be_predicted(model):
    """The scatter of all samples knows the label of the one that is held out."""
    X, y = np.random.default_rng(0).normal(size=(60, 200)), np.arange(60) % 4
    scores = model(within_class=10.0).fit(X, y).loo_decision_function_
    assert np.mean(scores.argmax(axis=1) == y) < 0.5


@pytest.mark.parametrize("model", ITERATIVE)
def test_held_out_scores_with_separate_classes(model, monkeypatch):
    X, y = wine()
    fixed = model(within_class=5.0, beta=0.1)
    expected = clone(fixed).fit(X, y).loo_decision_function_
    monkeypatch.setattr("discreg.retargeted._left_out.MOST_UNKNOWNS", 1)
    found = clone(fixed).fit(X, y).loo_decision_function_
    moves = np.abs(expected - fixed.fit(X, y).decision_function(X))
    assert_allclose(found, expected, atol=0.2 * moves.max())


@pytest.mark.parametrize("search", SEARCHES)
def test_searches_choose_it_together_with_beta(search):
    X, y = wine()
    grid = {"betas": [1.0, 0.01], "within_classes": [3.0, 0.0]}
    fixed = {"group_penalties": [0.1]} if search is GReLSRClassifierCV else {}
    found = search(**grid, **fixed).fit(X, y)
    settings = found.cv_results_["params"]
    pairs = [(3.0, 1.0), (3.0, 0.01), (0.0, 1.0), (0.0, 0.01)]
    assert [(each["within_class"], each["beta"]) for each in settings] == pairs
    assert found.best_estimator_.within_class == found.best_params_["within_class"]
    for place, (within_class, beta) in enumerate(pairs):
        alone = search(betas=[beta], within_classes=[within_class], **fixed).fit(X, y)
        assert found.cv_results_["mean_log_loss"][place] == pytest.approx(
            alone.cv_results_["mean_log_loss"][0], rel=0.1
        )
    assert "within_class" not in search(betas=[1.0], **fixed).fit(X, y).best_params_
    with pytest.raises(ValueError, match="within_classes must hold"):
        search(within_classes=[-1.0]).fit(X, y)


def test_search_of_lsr_equals_grid_search():
    X, y = small_iris()
    grid = {"within_class": [5.0, 0.5, 0.0], "beta": [1.0, 0.1]}
    ours = LSRClassifierCV(betas=grid["beta"], within_classes=grid["within_class"]).fit(X, y)
    theirs = GridSearchCV(LSRClassifier(), grid, cv=LeaveOneOut()).fit(X, y).cv_results_
    expected = {str(sorted(p.items())): s for p, s in zip(*map(theirs.get, KEYS), strict=True)}
    for params, score in zip(*map(ours.cv_results_.get, KEYS), strict=True):
        assert score == pytest.approx(expected[str(sorted(params.items()))])


def test_more_samples_with_a_kernel():
    """More than 300 samples, for which dual coordinate descent is not used."""
    X, y = load_iris(return_X_y=True)
    X, y = np.vstack([X, X + 0.01, X - 0.01]), np.tile(y, 3)
    fitted = ReLSRClassifier(kernel="rbf", within_class=1.0, probability=False).fit(X, y)
    assert fitted.solver_ == "newton"
    search = ReLSRClassifierCV(
        kernel="rbf", gammas=[1.0], betas=[0.1], within_classes=[1.0, 0.0], probability=False
    )
    assert search.fit(X, y).cv_results_["mean_test_score"].min() > 0.9


def test_what_it_cannot_be_combined_with():
    X, y = wine()
    for model in ITERATIVE:
        with pytest.raises(ValueError, match="penalty='l21' needs within_class=0"):
            model(penalty="l21", within_class=1.0).fit(X, y)
        with pytest.raises(ValueError, match="solver='dcd' needs within_class=0"):
            model(kernel="rbf", solver="dcd", within_class=1.0).fit(X, y)
        with pytest.raises(ValueError, match="within_class"):
            model(within_class=-1.0).fit(X, y)
    fitted = LSRClassifier(kernel="rbf", within_class=1.0).fit(X, y)
    with pytest.raises(ValueError, match="method='full' needs within_class=0"):
        fitted.predict_set(X, method="full")
    assert fitted.predict_set(X).any(axis=1).all()


@pytest.mark.parametrize("model", EVERY)
def test_model_files(model, tmp_path):
    X, y = wine()
    fitted = model(within_class=1.0).fit(X, y)
    save_model(fitted, tmp_path / "model.discreg")
    loaded = load_model(tmp_path / "model.discreg")
    assert loaded.within_class == 1.0
    assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
