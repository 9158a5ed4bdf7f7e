"""Held-out groups of LRRR and LRLR have the scores of refits without them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

from discreg import LRLRClassifier, LRLRClassifierCV, LRRRClassifier, LRRRClassifierCV


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("class_weight", [None, {0: 1.0, 1: 2.0, 2: 0.5}])
@pytest.mark.parametrize("ranks", ["several", "largest"])  # the latter needs no directions
def test_groups_are_left_out_exactly(kernel, fit_intercept, class_weight, ranks):
    X, y = load_wine(return_X_y=True)
    X, y = scale(X)[::2], y[::2]
    rng = np.random.default_rng(0)
    groups = np.unique(rng.integers(0, 25, len(y)), return_inverse=True)[1]
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], len(y))
    params = {"kernel": kernel, "gamma": 0.05, "fit_intercept": fit_intercept}
    model = LRRRClassifier(**params, class_weight=class_weight, probability=False)
    tried = (1, 2) if ranks == "several" else (3 - fit_intercept,)
    settings = [{"beta": beta, "rank": rank} for beta in (100.0, 0.1) for rank in tried]
    path = LRRRClassifierCV._leave_groups_out(clone(model), X, y, weights, settings, groups)
    for setting, held_out in zip(settings, path, strict=True):
        for group in np.unique(groups):
            rest, own = groups != group, groups == group
            refit = clone(model).set_params(**setting).fit(X[rest], y[rest], weights[rest])
            expected = refit.decision_function(X[own])
            np.testing.assert_allclose(held_out.scores[own], expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("class_weight", [None, {0: 1.0, 1: 2.0, 2: 0.5}])
@pytest.mark.parametrize("rank", [1, 2])
def test_a_sample_is_a_group_of_one(class_weight, rank):
    X, y = load_wine(return_X_y=True)
    X, y = scale(X)[::2], y[::2]
    model = LRRRClassifier(kernel="rbf", gamma=0.05, class_weight=class_weight, probability=False)
    settings = [{"beta": beta, "rank": rank} for beta in (100.0, 0.1)]
    one_by_one = LRRRClassifierCV._leave_one_out(clone(model), X, y, None, settings)
    groups = np.arange(len(y))
    by_group = LRRRClassifierCV._leave_groups_out(clone(model), X, y, None, settings, groups)
    for one, group in zip(one_by_one, by_group, strict=True):
        np.testing.assert_allclose(one.scores, group.scores, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_features", [13, 40, 200])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_groups_without_a_penalty(n_features, fit_intercept):
    """With 40 features the other samples determine the scores of some groups only."""
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    X, y = np.hstack([scale(X)[::4], rng.normal(size=(45, 187))])[:, :n_features], y[::4]
    groups = np.unique(np.minimum(rng.integers(0, 20, len(y)), 12), return_inverse=True)[1]
    weights = rng.choice([0.5, 1.0, 3.0], len(y))
    model = LRLRClassifier(fit_intercept=fit_intercept, probability=False)
    settings = [{"rank": 1}, {"rank": 2}]
    path = LRLRClassifierCV._leave_groups_out(clone(model), X, y, weights, settings, groups)
    for setting, held_out in zip(settings, path, strict=True):
        for group in np.unique(groups):
            rest, own = groups != group, groups == group
            refit = clone(model).set_params(**setting).fit(X[rest], y[rest], weights[rest])
            expected = refit.decision_function(X[own])
            np.testing.assert_allclose(held_out.scores[own], expected, rtol=1e-8, atol=1e-9)


def test_a_class_that_leaves_with_its_group_is_never_predicted():
    X, y = load_wine(return_X_y=True)
    groups = np.where(y == 2, 0, 1 + np.arange(len(y)) % 30)
    settings = [{"beta": 1.0, "rank": 2}]
    model = LRRRClassifier(probability=False)
    (held_out,) = LRRRClassifierCV._leave_groups_out(model, scale(X), y, None, settings, groups)
    assert np.isfinite(held_out.scores).all()
    assert not np.any(held_out.scores[y == 2].argmax(axis=1) == 2)
