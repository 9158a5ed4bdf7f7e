"""Probabilities, features of kernels and rejection of DRMClassifier."""

import numpy as np
import pytest
from damped_scores import probabilities_by_definition
from drm_kinds import KINDS, TIGHT, close, new_points, two_classes, wine
from products import every_value
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels

from discreg import DRMClassifier

# Probabilities ------------------------------------------------------------------------------------


def test_probabilities_are_there_unless_they_are_refused():
    X, y = wine()
    without = DRMClassifier(probability=False).fit(X, y)
    assert not hasattr(without, "predict_proba")
    assert not hasattr(without, "held_out_decision_function_")
    with_probability = DRMClassifier().fit(X, y)
    assert hasattr(with_probability, "predict_proba")
    assert with_probability.inverse_temperature_ > 0
    np.testing.assert_array_equal(
        with_probability.decision_function(X), without.decision_function(X)
    )


@every_value(
    kind=[*KINDS, *KINDS], data=[wine, two_classes], dtype=[np.float32, np.float64, np.float64]
)
def test_probabilities_sum_to_one_and_agree_with_predictions(kind, data, dtype):
    X, y = data()
    params = {"random_state": 0} | KINDS[kind] | {"probability": True}
    params |= {"tol": 1e-6} if "tol" in params else {}
    model = DRMClassifier(**params).fit(X.astype(dtype), y)
    points = np.vstack([X, new_points(), 3 * new_points()]).astype(dtype)
    shares = model.predict_proba(points)
    assert np.all(shares >= 0)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(points))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_agree_with_predictions_at_ties(dtype):
    """Two classes that mirror each other, points on and almost on the axis between them."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(20, 2)) + np.array([2, 0])
    X = np.vstack([half, half * np.array([-1, 1])]).astype(dtype)
    y = np.repeat([0, 1], 20)
    points = np.column_stack([np.linspace(-1e-6, 1e-6, 41), np.linspace(-2, 2, 41)]).astype(dtype)
    for params in ({}, {"kernel": "linear"}, {"kernel": "linear", "solver": "closed"}):
        model = DRMClassifier(probability=True, **params).fit(X, y)
        found = model.predict_proba(points)
        np.testing.assert_array_equal(found.argmax(axis=1), model.predict(points))
        np.testing.assert_array_equal(model.decision_function(points) > 0, model.predict(points))


def test_probabilities_are_the_softmax_of_damped_residuals():
    X, y = wine()
    model = DRMClassifier(probability=True).fit(X, y)
    expected = probabilities_by_definition(model, -model.class_residuals(new_points()))
    close(model.predict_proba(new_points()), expected, 1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("data", [wine, two_classes])
@pytest.mark.parametrize(
    "params",
    [
        {"kernel": "rbf", "gamma": 0.05},
        {"kernel": "linear", "solver": "scatter", "beta": 5.0},
        {"kernel": "linear", "solver": "closed", "beta": 5.0},
        {"kernel": "linear", "alpha": 2.0},
        {"kernel": "linear", "solver": "gd", "beta": 5.0},
    ],
)
def test_held_out_scores_are_those_of_refits_without_the_row_and_its_copies(params, data, weighted):
    X, y = data()
    rows = np.r_[:40, :6, :3]
    X, y = X[rows], y[rows]
    weights = np.ones(len(y))
    params = dict(params)
    if weighted:
        weights = np.random.default_rng(0).uniform(0.2, 12, size=len(y))
        params["class_weight"] = {0: 0.4, 1: 3.0}
    model = DRMClassifier(**params).fit(X, y, weights)
    assert model.held_out_by_ == "one row at a time"
    if params.get("solver") == "gd":  # its held-out scores are those of the solution
        params["solver"] = "closed"
    for k in range(len(y)):
        left = np.where((rows == rows[k]) & (y == y[k]), 0.0, weights)
        refit = DRMClassifier(probability=False, **params).fit(X, y, left)
        expected = refit.decision_function(X[k : k + 1])[0]
        np.testing.assert_allclose(model.held_out_decision_function_[k], expected, atol=1e-8)


def test_held_out_scores_of_other_penalties_are_of_models_that_have_not_seen_the_sample():
    """A sample that contradicts all others is held out, so its own class does not explain it."""
    X, y = wine()
    own = X[y == 0][0]
    X, y = np.vstack([X, own]), np.r_[y, 1]  # a copy of a sample with another label
    params = {"penalty": "group_lasso", "max_iter": 5000, "random_state": 0}
    model = DRMClassifier(probability=True, **params).fit(X, y)
    assert model.held_out_decision_function_.shape == (len(y), 3)
    assert model.held_out_decision_function_[-1].argmax() != 1
    again = DRMClassifier(probability=True, **params).fit(X, y)
    np.testing.assert_array_equal(
        again.held_out_decision_function_, model.held_out_decision_function_
    )


# Features -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian", "linear"])
@pytest.mark.parametrize("n_components", [60, 1000])
def test_nystroem_features_of_all_samples_are_the_kernel_itself(n_components, kernel):
    X, y = wine()
    params = {"kernel": kernel, "gamma": 0.05, "alpha": 0.3, "beta": 1.0}
    exact = DRMClassifier(**params).fit(X, y)
    model = DRMClassifier(n_components=n_components, random_state=0, **params).fit(X, y)
    close(model.decision_function(new_points()), exact.decision_function(new_points()))
    close(model.representation(new_points()), exact.representation(new_points()))


def test_solvers_agree_in_features():
    """Proposition VI.3: Algorithms 3, 5 and 6 for any kernel by a factor of it."""
    X, y = wine()
    params = {"n_components": 15, "random_state": 0, "beta": 1.0, **TIGHT}
    expected = DRMClassifier(solver="scatter", **params).fit(X, y).representation(new_points())
    for solver in ("closed", "gd", "ppa", "apg"):
        model = DRMClassifier(solver=solver, **params).fit(X, y)
        close(model.representation(new_points()), expected)


def test_fourier_features_have_a_self_kernel_of_one():
    X, y = wine()
    for n_components in (1, 2, 7, 50):
        model = DRMClassifier(
            n_components=n_components,
            approximation="random_features",
            random_state=0,
            solver="closed",
        ).fit(X, y)
        features = model._solver.training.features(new_points())
        np.testing.assert_allclose(np.sum(features**2, axis=1), 1, rtol=1e-14)


def test_more_fourier_features_are_nearer_to_the_kernel():
    X, y = wine()
    exact = DRMClassifier(gamma=0.05).fit(X, y)
    expected = exact.decision_function(new_points())
    errors = [
        np.mean(
            [
                np.abs(
                    DRMClassifier(
                        gamma=0.05,
                        n_components=m,
                        approximation="random_features",
                        random_state=seed,
                    )
                    .fit(X, y)
                    .decision_function(new_points())
                    - expected
                ).mean()
                for seed in range(3)
            ]
        )
        for m in (20, 200, 2000)
    ]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_a_random_state_is_repeatable_and_counts_in_features_only():
    X, y = wine()
    for approximation in ("nystroem", "random_features"):
        params = {"n_components": 10, "approximation": approximation}
        scores = [
            DRMClassifier(random_state=seed, **params).fit(X, y).decision_function(X)
            for seed in (0, 0, 1)
        ]
        np.testing.assert_array_equal(scores[0], scores[1])
        assert np.abs(scores[0] - scores[2]).max() > 1e-6
    plain = [DRMClassifier(random_state=seed).fit(X, y).decision_function(X) for seed in (0, 1)]
    np.testing.assert_array_equal(*plain)


# Rejection ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "features",
    [
        {},
        {"n_components": 120, "approximation": "nystroem"},
        {"n_components": 400, "approximation": "random_features"},
    ],
)
def test_points_far_from_all_samples_are_unknown_and_training_samples_are_not(features):
    """With the RBF kernel nothing is like a point far away, whose relative residual is one."""
    X, y = wine()
    model = DRMClassifier(reject_above=0.9, random_state=0, **features).fit(X, y)
    plain = clone(model).set_params(reject_above=None).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    for distance in (10.0, 30.0, 1e3):
        assert np.all(model.predict(X[:5] + distance) == -1)


def test_relative_residual_decides_about_rejection():
    """The smallest ‖φ(x) − ψ‖² + ‖ψ̄‖² as a share of k(x, x)."""
    X, y = wine()
    points = np.vstack([X, 2 * new_points(), 4 * new_points()])
    for params in ({}, {"kernel": "linear"}, {"kernel": "poly"}):
        plain = DRMClassifier(**params).fit(X, y)
        scale = plain._solver.training.kernel.gamma
        norms = np.diag(
            pairwise_kernels(
                points,
                metric=plain.kernel,
                filter_params=True,
                gamma=scale if scale is not None else 1.0,
                degree=3,
                coef0=1,
            )
        )
        shares = (plain.class_residuals(points).min(axis=1) + norms) / norms
        for threshold in np.quantile(shares, [0.2, 0.5, 0.8]) * (1 + 1e-9):
            model = DRMClassifier(reject_above=threshold, **params).fit(X, y)
            np.testing.assert_array_equal(model.predict(points) == -1, shares > threshold)
