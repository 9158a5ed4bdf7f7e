"""A sample of weight k is k copies of it, in all that DRMClassifier does."""

import numpy as np
import pytest
from drm_kinds import KINDS, close, every_kind, exactly_held_out, new_points, wine

from discreg import DRMClassifier

# Weights ------------------------------------------------------------------------------------------


def copies_of(y, seed=0, lowest=0):
    """How often each sample is there; every class keeps some."""
    return np.random.default_rng(seed).integers(lowest, 4, size=len(y))


@every_kind
def test_weight_k_equals_k_copies(kind):
    X, y = wine()
    copies = copies_of(y)
    rows = np.repeat(np.arange(len(y)), copies)
    weighted = DRMClassifier(**KINDS[kind]).fit(X, y, sample_weight=copies)
    copied = DRMClassifier(**KINDS[kind]).fit(X[rows], y[rows])
    points = new_points()
    close(weighted.decision_function(points), copied.decision_function(points))
    np.testing.assert_array_equal(weighted.predict(points), copied.predict(points))
    summed = np.zeros((15, len(y)))
    np.add.at(summed.T, rows, copied.representation(points).T)
    close(weighted.representation(points), summed, 1e-6 if kind == "lasso" else 1e-8)


@every_kind
def test_weight_k_equals_k_copies_in_probabilities(kind):
    X, y = wine()
    copies = copies_of(y)
    rows = np.repeat(np.arange(len(y)), copies)
    params = {"random_state": 0} | KINDS[kind] | {"probability": True}
    weighted = DRMClassifier(**params).fit(X, y, sample_weight=copies)
    copied = DRMClassifier(**params).fit(X[rows], y[rows])
    points = new_points()
    close(weighted.held_out_decision_function_[rows], copied.held_out_decision_function_)
    assert weighted.inverse_temperature_ == pytest.approx(copied.inverse_temperature_, rel=1e-7)
    close(weighted.predict_proba(points), copied.predict_proba(points), 1e-7)


@exactly_held_out
def test_weight_k_equals_k_copies_with_class_weights(kind):
    X, y = wine()
    copies = copies_of(y, lowest=1)
    rows = np.repeat(np.arange(len(y)), copies)
    for class_weight in ("balanced", {0: 0.5, 2: 3.0}):
        params = {"class_weight": class_weight, **KINDS[kind]}
        weighted = DRMClassifier(**params).fit(X, y, sample_weight=copies)
        copied = DRMClassifier(**params).fit(X[rows], y[rows])
        close(weighted.decision_function(X), copied.decision_function(X))
        close(weighted.held_out_decision_function_[rows], copied.held_out_decision_function_)
        close(weighted.predict_proba(X), copied.predict_proba(X), 1e-7)


@every_kind
def test_class_weight_is_a_weight_of_its_samples(kind):
    X, y = wine()
    own = np.random.default_rng(1).uniform(0.5, 2, size=len(y))
    factors = np.array([0.5, 2.0, 3.0])
    by_class = DRMClassifier(class_weight=dict(enumerate(factors)), **KINDS[kind])
    by_class.fit(X, y, sample_weight=own)
    by_sample = DRMClassifier(**KINDS[kind]).fit(X, y, sample_weight=own * factors[y])
    points = new_points()
    np.testing.assert_array_equal(
        by_class.decision_function(points), by_sample.decision_function(points)
    )


def test_balanced_class_weight_counts_weighted_samples():
    X, y = wine()
    own = np.random.default_rng(1).uniform(0.5, 2, size=len(y))
    counts = np.bincount(y, weights=own)
    balanced = DRMClassifier(class_weight="balanced").fit(X, y, sample_weight=own)
    factors = dict(enumerate(own.sum() / (3 * counts)))
    by_hand = DRMClassifier(class_weight=factors).fit(X, y, sample_weight=own)
    close(balanced.decision_function(X), by_hand.decision_function(X), 1e-12)


@every_kind
def test_samples_without_weight_are_not_there(kind):
    X, y = wine()
    weights = np.ones(len(y))
    weights[:12] = 0
    X_with = X.copy()
    X_with[:12] *= 100
    whole = DRMClassifier(**KINDS[kind]).fit(X_with, y, sample_weight=weights)
    part = DRMClassifier(**KINDS[kind]).fit(X[12:], y[12:])
    points = new_points()
    close(whole.decision_function(points), part.decision_function(points))


def test_a_sample_without_weight_is_scored_by_the_model_that_has_not_seen_it():
    X, y = wine()
    weights = np.ones(len(y))
    weights[::9] = 0
    for params in (KINDS["closed"], KINDS["scatter"], KINDS["nystroem"]):
        model = DRMClassifier(probability=True, **params).fit(X, y, sample_weight=weights)
        unseen = weights == 0
        expected = model.decision_function(X[unseen])
        close(model.held_out_decision_function_[unseen], expected, 1e-12)
