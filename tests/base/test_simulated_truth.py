"""Probabilities and held-out scores of every classifier on tables whose truth is known."""

import warnings

import numpy as np
import pytest
from every_classifier import MODELS, every_model, make
from numpy.testing import assert_allclose, assert_array_equal
from products import every_pair
from scipy.special import expit, softmax
from sklearn.metrics import roc_auc_score

from discreg import (
    DLSRClassifier,
    DRMClassifier,
    GReLSRClassifier,
    LDMClassifier,
    LRLRClassifier,
    LSRClassifier,
    ODMClassifier,
    ReLSRClassifier,
)

# Penalties of these models are relative to the sum of the weights.
RELATIVE = (
    LSRClassifier(),
    DLSRClassifier(),
    ReLSRClassifier(),
    GReLSRClassifier(),
    LRLRClassifier(),
    ODMClassifier(kernel="linear"),
    LDMClassifier(kernel="linear"),
)
relative = pytest.mark.parametrize("model", RELATIVE, ids=lambda model: type(model).__name__)


def unequal(n_rows, seed):
    """Four classes of unequal sizes."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n_rows, 5))
    shares = softmax(X[:, :4] + [0.8, 0.3, 0.0, -1.2], axis=1)
    return X, (random.random((n_rows, 1)) > shares.cumsum(axis=1)[:, :-1]).sum(axis=1)


def rare(n_rows, seed, logit=-3.6, n_features=5):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n_rows, n_features))
    return X, (random.random(n_rows) < expit(1.2 * X[:, 0] - X[:, 1] + logit)).astype(int)


def noise(n_rows=200, seed=0):
    random = np.random.default_rng(seed)
    return random.standard_normal((n_rows, 40)), random.permutation(np.arange(n_rows) % 2)


@every_pair(name=MODELS, class_weight=[None, "balanced"], draw=[unequal, rare])
def test_mean_probabilities_are_the_shares_of_the_classes(name, class_weight, draw):
    apart = []
    for seed in range(4):
        X, y = draw(300, seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The held-out scores")
            model = make(name, class_weight=class_weight).fit(X, y)
        shares = model.predict_proba(draw(2000, 100 + seed)[0])
        apart.append(shares.mean(axis=0) - np.bincount(y) / len(y))
    assert np.abs(np.mean(apart, axis=0)).max() < 0.03


@every_model
def test_scores_that_are_worse_than_chance_give_the_class_frequencies(name):
    # Each row has a neighbour in the other class, so that a model without it predicts that class.
    random = np.random.default_rng(0)
    X = np.repeat(random.standard_normal((30, 3)), 2, axis=0) + random.normal(0, 0.01, (60, 3))
    y = np.arange(60) % 2
    weights = np.where(y, 3.0, 1.0)
    model = make(name, **({"beta": 1e-4} if name == "SLRRClassifier" else {}))
    with pytest.warns(UserWarning, match=f"held-out scores of {name} are worse than chance"):
        model.fit(X, y, sample_weight=weights)
    assert_allclose(model.predict_proba(X), np.tile([0.25, 0.75], (60, 1)))


def test_a_model_that_memorises_a_rare_class_still_separates_it():
    X, y = rare(1500, 0, -5.2, 12)
    assert 0.01 < y.mean() < 0.04
    model = LDMClassifier(C=10, class_weight="balanced", gamma=0.07, lambda1=0, lambda2=0)
    X_new, y_new = rare(3000, 1, -5.2, 12)
    shares = model.fit(X, y).predict_proba(X_new)[:, 1]
    assert abs(shares.mean() - y.mean()) < 0.01
    assert shares.max() < 0.3  # held-out cases are hardly known
    assert roc_auc_score(y_new, shares) > 0.65


@pytest.mark.filterwarnings("ignore:The held-out scores")
@relative
def test_a_weighted_row_leaves_as_a_whole(model):
    X, y = noise()
    light = model.fit(X, y, sample_weight=np.ones(200)).held_out_decision_function_
    heavy = model.fit(X, y, sample_weight=np.full(200, 10.0)).held_out_decision_function_
    assert_allclose(heavy, light, rtol=1e-5, atol=1e-6)
    assert_array_equal(heavy > 0, light > 0)
    assert abs(np.mean((heavy > 0) == y) - 0.5) < 0.12  # three standard errors and a bit


@relative
def test_a_factor_of_all_weights_does_not_matter(model):
    X, y = unequal(150, 0)
    weights = np.random.default_rng(0).exponential(size=150)
    one = model.fit(X, y, sample_weight=weights).predict_proba(X)
    sets = model.predict_set(X)
    other = model.fit(X, y, sample_weight=7 * weights)
    assert_allclose(other.predict_proba(X), one, rtol=1e-4, atol=1e-6)
    assert_array_equal(other.predict_set(X), sets)


def test_a_kernel_does_not_memorise_heavy_rows():
    X, y = noise()
    for model in (DRMClassifier(), LSRClassifier(kernel="rbf")):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The held-out scores")
            model.fit(X, y, sample_weight=np.full(200, 10.0))
        held_out = model.held_out_decision_function_ > 0
        assert abs(np.mean(held_out == y) - 0.5) < 0.12
