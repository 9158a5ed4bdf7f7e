"""ReLSR with a capped loss: local optima, brute force, invariances, held-out scores, searches."""

from itertools import product

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import convex_optimum
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import scale

from discreg import ReLSRClassifier, ReLSRClassifierCV, load_model, save_model
from discreg.retargeted import retarget

BETA, CAP = 0.5, 0.8
WAYS = [
    {},
    {"solver": "alternating", "tol": 1e-12, "max_iter": 10_000},
    {"fit_intercept": False},
    {"kernel": "rbf", "gamma": 0.1, "beta": 1.0},
    {"kernel": "rbf", "gamma": 0.1, "beta": 1.0, "solver": "dcd", "tol": 1e-10},
    {"class_weight": "balanced"},
    {"kernel": "rbf", "gamma": 0.1, "beta": 1.0, "n_components": 20, "random_state": 0},
]


def tiny(seed, n_samples=9):
    """Three overlapping classes in the plane with two wrong labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % 3
    X = rng.normal(size=(n_samples, 2)) * 0.5 + np.array([[0, 2], [2, 0], [-2, -1]])[y]
    y[:2] = (y[:2] + 1) % 3
    return X, y


def noisy_wine(share=0.3):
    X, y = load_wine(return_X_y=True)
    X, y = scale(X)[::2], y[::2]
    rng = np.random.default_rng(0)
    is_wrong = rng.random(len(y)) < share
    return X, np.where(is_wrong, (y + rng.integers(1, 3, len(y))) % 3, y), is_wrong


def plain(**params):
    return ReLSRClassifier(**({"beta": BETA, "scale_beta": False, "probability": False} | params))


def row_losses(model, X, y):
    scores = model.decision_function(X)
    return np.sum((scores - retarget(scores, y)) ** 2, axis=1)


def objective(model, X, y, weights=1.0):
    """The capped objective of a linear model of three classes with an absolute penalty."""
    losses = np.minimum(row_losses(model, X, y), model.loss_cap)
    return np.sum(weights * losses) + model.beta * np.sum(model.coef_**2)


def brute_force(X, y, cap):
    """The smallest objective over all sets of capped samples that leave samples of each class."""
    best = np.inf
    for capped in product((False, True), repeat=len(y)):
        kept = ~np.array(capped)
        if cap * sum(capped) < best and len(np.unique(y[kept])) == len(np.unique(y)):
            fit = plain().fit(X[kept], y[kept])
            best = min(best, fit.objective_history_[-1] + cap * sum(capped))
    return best


def test_the_last_convex_problem_is_solved():
    X, y = tiny(0, 15)
    model = plain(loss_cap=CAP).fit(X, y)
    kept = ~model.capped_
    assert 0 < model.capped_.sum() < len(y)
    best = convex_optimum("relsr", X[kept], y[kept], BETA)
    found = objective(model, X, y)
    assert_allclose(found, best.objective + CAP * np.sum(~kept), rtol=1e-7)
    assert_allclose(model.objective_history_[-1], found, rtol=1e-12)
    assert model.gap_ <= 1e-10
    assert_array_equal(row_losses(model, X, y) > CAP, model.capped_)


def test_the_result_is_a_local_minimum():
    X, y = tiny(1, 15)
    model = plain(loss_cap=CAP).fit(X, y)
    least, rng = objective(model, X, y), np.random.default_rng(0)
    for size in (1e-4, 1e-3, 1e-2):
        for _ in range(20):
            moved = clone(model).fit(X, y)
            moved.coef_ = moved.coef_ + size * rng.normal(size=moved.coef_.shape)
            moved.intercept_ = moved.intercept_ + size * rng.normal(size=3)
            assert objective(moved, X, y) > least


def test_the_objective_is_never_below_brute_force_and_sometimes_equal():
    """Two labels of ten are wrong; all sets of capped samples are tried.

    The result is a local minimum, which is the global one in some cases.
    """
    reached = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = np.arange(10) % 2
        X = rng.normal(size=(10, 2)) + 3 * np.eye(2)[y]
        y[:2] = 1 - y[:2]
        found = plain(loss_cap=1.0).fit(X, y).objective_history_[-1]
        best = brute_force(X, y, 1.0)
        assert found >= best * (1 - 1e-9)
        reached.append(found <= best * (1 + 1e-9))
    assert any(reached)


@pytest.mark.parametrize("params", WAYS)
def test_the_objective_decreases_until_the_set_repeats(params):
    X, y, _ = noisy_wine()
    model = ReLSRClassifier(loss_cap=0.25, probability=False, **params).fit(X, y)
    history = model.objective_history_
    assert model.n_iter_ == len(history) > 1
    assert np.all(np.diff(history) < 0)
    assert model.gap_ <= 1e-6
    assert_array_equal(row_losses(model, X, y) > 0.25, model.capped_)
    # The convex problem without the capped samples, with the same absolute penalty.
    if "n_components" not in params:
        of_all = np.ones(len(y))
        if "class_weight" in params:
            of_all = (len(y) / (3 * np.bincount(y)))[y]
        weights = np.where(model.capped_, 0.0, of_all)
        refit = clone(model).set_params(loss_cap=None, class_weight=None)
        units = [unit_of(model, X, each) for each in (of_all, weights)]
        refit.set_params(beta=model.beta * units[0] / units[1]).fit(X, y, sample_weight=weights)
        assert_allclose(model.decision_function(X), refit.decision_function(X), atol=2e-5)


def unit_of(model, X, weights):
    """The unit of a relative penalty."""
    if model.kernel == "linear":
        mean = np.average(X, axis=0, weights=weights) * model.fit_intercept
        return np.sum(weights @ (X - mean) ** 2) / X.shape[1]
    K = np.exp(-model.gamma * np.sum((X[:, None] - X) ** 2, axis=2))
    share = weights / weights.sum()
    return share @ np.diag(K) - share @ K @ share


def test_a_large_cap_is_the_convex_problem():
    X, y, _ = noisy_wine()
    for params in ({}, {"kernel": "rbf"}):
        model = ReLSRClassifier(loss_cap=1e3, **params).fit(X, y)
        convex = ReLSRClassifier(**params).fit(X, y)
        assert_array_equal(model.decision_function(X), convex.decision_function(X))
        assert not model.capped_.any()
        assert model.n_iter_ == 1
        assert_allclose(model.loo_decision_function_, convex.loo_decision_function_, atol=1e-9)
        assert not model.loo_is_exact_
        assert not hasattr(convex, "capped_")


@pytest.mark.parametrize("params", [{}, {"kernel": "rbf", "gamma": 0.1, "beta": 1.0}])
def test_weights_are_equivalent_to_repeated_rows(params):
    X, y, _ = noisy_wine()
    copies = np.arange(len(y)) % 3
    model = ReLSRClassifier(loss_cap=0.25, **params)
    weighted = clone(model).fit(X, y, sample_weight=copies)
    rows = np.repeat(np.arange(len(y)), copies)
    repeated = clone(model).fit(X[rows], y[rows])
    assert_array_equal(weighted.capped_[rows], repeated.capped_)
    assert weighted.capped_.any()
    assert not weighted.capped_[copies == 0].any()
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-8)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    assert_allclose(weighted.objective_history_, repeated.objective_history_, rtol=1e-9)


def test_capped_samples_have_wrong_labels():
    """Of 30 % wrong labels nine of ten are found; three of four capped samples have one."""
    rng = np.random.default_rng(0)
    true = np.arange(300) % 3
    X = rng.normal(size=(300, 5)) + 3 * np.eye(3, 5)[true]
    is_wrong = rng.random(300) < 0.3
    y = np.where(is_wrong, (true + rng.integers(1, 3, 300)) % 3, true)
    model = ReLSRClassifier(loss_cap=0.5, probability=False).fit(X, y)
    found = (model.capped_ & is_wrong).sum()
    assert found >= 0.9 * is_wrong.sum()
    assert found >= 0.75 * model.capped_.sum()
    assert model.score(X, true) >= ReLSRClassifier(probability=False).fit(X, y).score(X, true)


def test_no_class_is_capped_as_a_whole():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 3
    model = plain(beta=100.0, loss_cap=1e-3).fit(X, y)
    assert np.all(row_losses(model, X, y) > 1e-3)
    assert not model.capped_.any()
    # A class of two samples among those of others: both exceed the cap, and neither is capped.
    X, y, _ = noisy_wine()
    X, y = np.vstack([X, X[:2]]), np.append(y, [3, 3])
    model = ReLSRClassifier(loss_cap=0.5, beta=1.0, probability=False).fit(X, y)
    assert np.all(row_losses(model, X, y)[-2:] > 0.5)
    assert not model.capped_[-2:].any()
    assert_array_equal(row_losses(model, X, y)[:-2] > 0.5, model.capped_[:-2])
    assert model.capped_.any()
    assert np.all(np.diff(model.objective_history_) < 0)


@pytest.mark.parametrize(
    ("params", "atol"),
    [
        ({}, 1e-6),
        ({"kernel": "rbf", "gamma": 0.1, "beta": 1.0}, 1e-6),
        ({"kernel": "rbf", "gamma": 0.1, "beta": 1.0, "solver": "dcd", "tol": 1e-10}, 1e-4),
    ],
)
def test_held_out_scores(params, atol):
    X, y, _ = noisy_wine()
    model = ReLSRClassifier(loss_cap=0.25, scale_beta=False, **params).fit(X, y)
    held_out, scores = model.loo_decision_function_, model.decision_function(X)
    assert not model.loo_is_exact_
    capped = model.capped_
    assert capped.any()
    assert_allclose(held_out[capped], scores[capped], atol=1e-12)
    rows = np.flatnonzero(~capped & (np.abs(held_out - scores).max(axis=1) > 1e-3))[:4]
    assert len(rows)
    for row in rows:  # refits of the last convex problem
        weights = np.where(capped, 0.0, 1.0)
        weights[row] = 0.0
        refit = clone(model).set_params(loss_cap=None, probability=False)
        refit.fit(X, y, sample_weight=weights)
        assert_allclose(refit.decision_function(X[row : row + 1])[0], held_out[row], atol=atol)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_sparse_and_float32():
    X, y, _ = noisy_wine()
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    model = ReLSRClassifier(loss_cap=0.5).fit(X, y)
    from_sparse = clone(model).fit(sparse.csr_array(X), y)
    assert_array_equal(from_sparse.capped_, model.capped_)
    assert_allclose(from_sparse.decision_function(X), model.decision_function(X), atol=1e-8)
    single = clone(model).fit(X.astype(np.float32), y)
    assert single.coef_.dtype == np.float32
    assert_array_equal(single.capped_, model.capped_)
    assert_allclose(
        single.decision_function(X.astype(np.float32)), model.decision_function(X), atol=1e-4
    )


def test_two_classes_and_wide_data():
    X, y, _ = noisy_wine()
    binary = y < 1
    model = ReLSRClassifier(loss_cap=0.5).fit(X, binary)
    assert 0 < model.capped_.sum() < len(y)
    # With two classes the loss is half the squared violation of the margin.
    margins = np.where(binary, 1, -1) * model.decision_function(X)
    assert_array_equal(np.maximum(1 - margins, 0) ** 2 / 2 > 0.5, model.capped_)
    wide = np.hstack([X, np.random.default_rng(0).normal(size=(len(y), 100))])
    model = ReLSRClassifier(loss_cap=0.25, beta=10.0).fit(wide, y)
    assert model.capped_.any()
    assert model.gap_ < 1e-6
    assert np.all(np.diff(model.objective_history_) < 0)


def test_a_warm_start_and_a_fit_without_cap_afterwards():
    X, y, _ = noisy_wine()
    model = ReLSRClassifier(loss_cap=0.5, warm_start=True).fit(X, y)
    before, capped = model.decision_function(X), model.capped_
    assert_allclose(model.fit(X, y).decision_function(X), before, atol=1e-8)
    assert_array_equal(model.capped_, capped)
    assert not hasattr(model.set_params(loss_cap=None).fit(X, y), "capped_")


def test_model_files(tmp_path):
    X, y, _ = noisy_wine()
    model = ReLSRClassifier(loss_cap=0.5).fit(X, y)
    save_model(model, tmp_path / "model.dreg")
    loaded = load_model(tmp_path / "model.dreg")
    assert_array_equal(loaded.capped_, model.capped_)
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "params", [{"penalty": "l21"}, {"rank": 1}, {"within_class": 1.0}], ids=str
)
def test_options_that_need_the_convex_problem_are_refused(params):
    X, y = tiny(0)
    with pytest.raises(ValueError, match=r"loss_cap needs .*loss_cap=None"):
        ReLSRClassifier(loss_cap=0.5, **params).fit(X, y)


@pytest.mark.parametrize("cap", [0, -1.0, np.inf, np.nan, "1", True])
def test_the_cap_is_positive_and_finite(cap):
    X, y = tiny(0)
    with pytest.raises((ValueError, TypeError), match="loss_cap"):
        ReLSRClassifier(loss_cap=cap).fit(X, y)


def test_dask_is_refused_and_memory_maps_are_read(tmp_path):
    X, y, _ = noisy_wine()
    model = ReLSRClassifier(loss_cap=0.5).fit(X, y)
    np.save(tmp_path / "X.npy", X)
    mapped = clone(model).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    assert_array_equal(mapped.coef_, model.coef_)
    with pytest.raises(ValueError, match="loss_cap needs the rows in memory"):
        model.fit(da.from_array(X), da.from_array(y))


def test_a_search_compares_caps_in_folds():
    X, y, _ = noisy_wine()
    search = ReLSRClassifierCV(betas=[1.0, 0.1], loss_caps=[0.5, None]).fit(X, y)
    results = search.cv_results_
    assert set(results["held_out"]) == {"5 folds"}
    assert sorted(search.best_params_) == ["beta", "loss_cap"]
    assert {(each["beta"], each["loss_cap"]) for each in results["params"]} == set(
        product((1.0, 0.1), (0.5, None))
    )
    for params, score in zip(results["params"], results["mean_test_score"], strict=True):
        model = ReLSRClassifier(probability=False, **params)
        assert_allclose(cross_val_score(model, X, y, cv=5).mean(), score, atol=0.012)
    best = ReLSRClassifier(**search.best_params_).fit(X, y)
    assert_allclose(search.decision_function(X), best.decision_function(X), atol=1e-8)
    without = ReLSRClassifierCV(betas=[1.0, 0.1]).fit(X, y)
    assert set(without.cv_results_["held_out"]) == {"one sample at a time"}
    assert "param_loss_cap" not in without.cv_results_


@pytest.mark.parametrize("caps", [[], [0.0], [np.inf], ["a"], -1.0])
def test_candidates_are_positive_or_none(caps):
    X, y, _ = noisy_wine()
    with pytest.raises(ValueError, match="loss_caps must hold"):
        ReLSRClassifierCV(loss_caps=caps).fit(X, y)
