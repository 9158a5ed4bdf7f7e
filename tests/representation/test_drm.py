"""What a user of DRMClassifier relies on: decisions, weights, symmetries, features, rejection."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.preprocessing import StandardScaler

from discreg import DRMClassifier
from discreg.core import fitted_kernel, memory

SOLVERS = ["closed", "scatter", "gd", "ppa", "apg"]
TIGHT = {"tol": 1e-12, "max_iter": 100_000}
# One model of every kind; all have an answer to many digits.
KINDS = {
    "closed": {"kernel": "rbf", "solver": "closed"},
    "closed linear": {"kernel": "linear", "solver": "closed", "beta": 5.0},
    "scatter": {"kernel": "linear", "solver": "scatter", "beta": 5.0},
    "ppa": {"kernel": "rbf", "solver": "ppa", "beta": 5.0, **TIGHT},
    "ppa linear": {"kernel": "linear", "solver": "ppa", "beta": 90.0, **TIGHT},
    "lasso": {"kernel": "rbf", "penalty": "lasso", "beta": 0.05, **TIGHT},
    "nystroem": {"kernel": "rbf", "n_components": 30, "random_state": 0},
    "fourier": {
        "kernel": "rbf",
        "n_components": 30,
        "approximation": "fourier",
        "random_state": 0,
    },
}
every_kind = pytest.mark.parametrize("kind", KINDS)
# Held-out scores by exact leave-one-out; other penalties have random folds.
exactly_held_out = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lasso"])


def wine(n_samples=60):
    """A part of the wine data in random order, so that the classes are mixed."""
    X, y = load_wine(return_X_y=True)
    chosen = np.random.default_rng(0).permutation(len(y))[:n_samples]
    return StandardScaler().fit_transform(X)[chosen], y[chosen]


def new_points(n_points=15):
    X, _ = wine(178)
    return X[-n_points:] + 0.1


def two_classes():
    X, y = wine()
    return X, np.where(y == 2, 0, y)


def close(actual, expected, tolerance=1e-8):
    """Equal to so many digits of the largest entry."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


# Decisions -----------------------------------------------------------------------------------


@every_kind
def test_decision_is_the_negative_residual_and_the_smallest_residual_wins(kind):
    X, y = wine()
    model = DRMClassifier(**KINDS[kind]).fit(X, y)
    points = new_points()
    residuals = model.class_residuals(points)
    assert residuals.shape == (15, 3)
    np.testing.assert_array_equal(model.decision_function(points), -residuals)
    np.testing.assert_array_equal(model.predict(points), model.classes_[residuals.argmin(axis=1)])


@every_kind
def test_decision_for_two_classes_is_the_difference(kind):
    X, y = two_classes()
    model = DRMClassifier(**KINDS[kind]).fit(X, y)
    points = new_points()
    residuals = model.class_residuals(points)
    scores = model.decision_function(points)
    assert scores.shape == (15,)
    np.testing.assert_array_equal(scores, residuals[:, 0] - residuals[:, 1])
    np.testing.assert_array_equal(model.predict(points), (scores > 0).astype(int))


@every_kind
def test_representation_has_the_order_of_the_training_samples_and_gives_the_residuals(kind):
    """δ of (11) from the columns of each class; samples without weight have columns of zeros."""
    X, y = wine()
    weights = np.random.default_rng(0).integers(0, 3, size=len(y)).astype(float)
    model = DRMClassifier(**KINDS[kind]).fit(X, y, sample_weight=weights)
    points = new_points()
    W = model.representation(points)
    assert W.shape == (15, len(y))
    np.testing.assert_array_equal(W[:, weights == 0], 0)
    features = model._solver.training.features
    if features is not None:
        K, K_x = features(X) @ features(X).T, features(points) @ features(X).T
    elif model.kernel == "linear":
        K, K_x = X @ X.T, points @ X.T
    else:
        gamma = 1 / (X.shape[1] * np.cov(X.ravel(), aweights=np.repeat(weights, 13), ddof=0))
        K, K_x = rbf_kernel(X, gamma=gamma), rbf_kernel(points, X, gamma=gamma)
    residuals = model.class_residuals(points)
    expected = np.empty_like(residuals)
    for c in range(3):
        own, other = np.where(y == c, W, 0), np.where(y == c, 0, W)
        expected[:, c] = (
            np.sum(own @ K * own, axis=1)
            + np.sum(other @ K * other, axis=1)
            - 2 * np.sum(own * K_x, axis=1)
        )
    close(residuals, expected)


@every_kind
def test_training_samples_are_kept_in_order_of_their_class(kind):
    X, y = wine()
    weights = np.ones(len(y))
    weights[::7] = 0
    model = DRMClassifier(**KINDS[kind]).fit(X, y, sample_weight=weights)
    assert np.all(np.diff(y[model.fit_order_]) >= 0)
    assert set(model.fit_order_) == set(np.flatnonzero(weights))
    np.testing.assert_array_equal(model.X_fit_, X[model.fit_order_])


# Weights -------------------------------------------------------------------------------------


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


@exactly_held_out
def test_weight_k_equals_k_copies_in_probabilities(kind):
    X, y = wine()
    copies = copies_of(y)
    rows = np.repeat(np.arange(len(y)), copies)
    params = {"probability": True, **KINDS[kind]}
    weighted = DRMClassifier(**params).fit(X, y, sample_weight=copies)
    copied = DRMClassifier(**params).fit(X[rows], y[rows])
    points = new_points()
    close(weighted.loo_decision_function_[rows], copied.loo_decision_function_)
    assert weighted.inverse_temperature_ == pytest.approx(copied.inverse_temperature_, rel=1e-7)
    close(weighted.predict_proba(points), copied.predict_proba(points), 1e-7)


@exactly_held_out
def test_weight_k_equals_k_copies_with_class_weights(kind):
    X, y = wine()
    copies = copies_of(y, lowest=1)
    rows = np.repeat(np.arange(len(y)), copies)
    for class_weight in ("balanced", {0: 0.5, 2: 3.0}):
        params = {"probability": True, "class_weight": class_weight, **KINDS[kind]}
        weighted = DRMClassifier(**params).fit(X, y, sample_weight=copies)
        copied = DRMClassifier(**params).fit(X[rows], y[rows])
        close(weighted.decision_function(X), copied.decision_function(X))
        close(weighted.loo_decision_function_[rows], copied.loo_decision_function_)
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
        close(model.loo_decision_function_[unseen], expected, 1e-12)


# Symmetries ----------------------------------------------------------------------------------


@every_kind
def test_order_of_the_samples_does_not_matter(kind):
    X, y = wine()
    order = np.random.default_rng(0).permutation(len(y))
    one = DRMClassifier(**KINDS[kind]).fit(X, y)
    other = DRMClassifier(**KINDS[kind]).fit(X[order], y[order])
    points = new_points()
    close(other.decision_function(points), one.decision_function(points))
    close(
        other.representation(points),
        one.representation(points)[:, order],
        1e-6 if kind == "lasso" else 1e-8,
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("nystroem", "fourier")])
def test_order_of_the_features_does_not_matter(kind):
    X, y = wine()
    order = np.random.default_rng(0).permutation(X.shape[1])
    one = DRMClassifier(**KINDS[kind]).fit(X, y)
    other = DRMClassifier(**KINDS[kind]).fit(X[:, order], y)
    points = new_points()
    close(other.decision_function(points[:, order]), one.decision_function(points))


@every_kind
def test_names_of_the_classes_do_not_matter(kind):
    """Strings whose alphabetical order is not that of the numbers."""
    X, y = wine()
    names = np.array(["zinfandel", "airen", "merlot"])
    numbers = DRMClassifier(**KINDS[kind]).fit(X, y)
    strings = DRMClassifier(**KINDS[kind]).fit(X, names[y])
    assert list(strings.classes_) == sorted(names)
    points = new_points()
    np.testing.assert_array_equal(strings.predict(points), names[numbers.predict(points)])
    alphabetical = np.argsort(names)
    close(strings.decision_function(points), numbers.decision_function(points)[:, alphabetical])
    close(
        strings.representation(points),
        numbers.representation(points),
        1e-6 if kind == "lasso" else 1e-8,
    )


@pytest.mark.parametrize("factor", [1e-6, 0.3, 1e6])
@pytest.mark.parametrize(
    "params", [{}, {"penalty": "lasso", **TIGHT}, {"penalty": "exclusive_lasso", **TIGHT}]
)
def test_units_of_the_kernel_do_not_matter_when_beta_has_them(params, factor):
    """K → cK and β → cβ leave (9) the same up to a factor."""
    X, y = wine()
    K, K_x = rbf_kernel(X, gamma=0.1), rbf_kernel(new_points(), X, gamma=0.1)
    params = {"kernel": "precomputed", "alpha": 0.5, **params}
    one = DRMClassifier(beta=0.2, **params).fit(K, y)
    other = DRMClassifier(beta=0.2 * factor, **params).fit(factor * K, y)
    close(
        other.representation(factor * K_x),
        one.representation(K_x),
        1e-6 if TIGHT.items() <= params.items() else 1e-9,
    )
    close(other.decision_function(factor * K_x), factor * one.decision_function(K_x))


@pytest.mark.parametrize("solver", ["closed", "scatter"])
def test_rotation_of_the_features_does_not_matter(solver):
    X, y = wine()
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(13, 13)))
    params = {"kernel": "linear", "solver": solver}
    one = DRMClassifier(**params).fit(X, y)
    other = DRMClassifier(**params).fit(X @ rotation, y)
    points = new_points()
    close(other.representation(points @ rotation), one.representation(points))


@every_kind
def test_a_point_is_answered_alone_as_in_company(kind):
    X, y = wine()
    model = DRMClassifier(**KINDS[kind]).fit(X, y)
    points = new_points(5)
    together = model.decision_function(points)
    alone = np.vstack([model.decision_function(point[None]) for point in points])
    close(alone, together, 1e-10)


# Forms of the same data ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "container"),
    [
        *((solver, sparse.csr_array) for solver in SOLVERS),
        ("closed", sparse.csr_matrix),
        ("scatter", sparse.csc_matrix),
        ("ppa", sparse.csr_matrix),
        ("gd", sparse.csc_array),
    ],
)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_sparse_equals_dense(kernel, solver, container):
    if kernel == "rbf" and solver == "scatter":
        kernel = "poly"  # by features
    X, y = wine()
    X = np.where(X > 0.3, X, 0)
    points = np.where(new_points() > 0.3, new_points(), 0)
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(y))
    params = {"kernel": kernel, "solver": solver, "beta": 60.0, "probability": True, **TIGHT}
    if kernel == "poly":
        params |= {"n_components": 25, "random_state": 0}
    dense = DRMClassifier(**params).fit(X, y, sample_weight=weights)
    fitted = DRMClassifier(**params).fit(container(X), y, sample_weight=weights)
    close(fitted.decision_function(container(points)), dense.decision_function(points))
    close(fitted.representation(container(points)), dense.representation(points))
    close(fitted.predict_proba(container(points)), dense.predict_proba(points), 1e-7)
    close(fitted.loo_decision_function_, dense.loo_decision_function_)
    # Training and new data may come in different forms.
    close(fitted.decision_function(points), dense.decision_function(points))
    close(dense.decision_function(container(points)), dense.decision_function(points))


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
def test_sparse_equals_dense_in_features(approximation):
    X, y = wine()
    X = np.where(X > 0.3, X, 0)
    params = {"n_components": 25, "approximation": approximation, "random_state": 0}
    dense = DRMClassifier(**params).fit(X, y)
    fitted = DRMClassifier(**params).fit(sparse.csr_array(X), y)
    close(fitted.decision_function(sparse.csr_array(X)), dense.decision_function(X))


def test_sparse_data_are_never_densified():
    """A matrix whose dense form would take 40 GB is fitted."""
    X = sparse.random_array((1000, 5_000_000), density=1e-6, format="csr", rng=0)
    y = np.arange(1000) % 3
    model = DRMClassifier(kernel="linear").fit(X, y)
    assert model.solver_ == "closed"
    assert model.decision_function(X[:5]).shape == (5, 3)


@pytest.mark.parametrize(
    ("kernel", "solver"),
    [
        *((kernel, "closed") for kernel in ("linear", "rbf", "poly", "laplacian", "cosine")),
        ("linear", "scatter"),
        *(("rbf", solver) for solver in ("gd", "ppa", "apg")),
        *(("linear", solver) for solver in ("gd", "ppa", "apg")),
    ],
)
def test_named_kernel_equals_its_precomputed_matrix(kernel, solver):
    X, y = wine()
    weights = np.random.default_rng(0).integers(0, 3, size=len(y))
    named = {} if kernel == "cosine" else {"gamma": 0.05}
    matrix = pairwise_kernels(X, metric=kernel, filter_params=True, coef0=1, degree=3, **named)
    cross = pairwise_kernels(
        new_points(), X, metric=kernel, filter_params=True, coef0=1, degree=3, **named
    )
    params = {"solver": solver, "beta": 60.0, "probability": True, **TIGHT}
    one = DRMClassifier(kernel=kernel, **named, **params).fit(X, y, sample_weight=weights)
    if solver == "scatter":  # there are no features behind a matrix
        params["solver"] = "closed"
    other = DRMClassifier(kernel="precomputed", **params).fit(matrix, y, sample_weight=weights)
    close(other.decision_function(cross), one.decision_function(new_points()))
    close(other.representation(cross), one.representation(new_points()))
    close(other.loo_decision_function_, one.loo_decision_function_)
    close(other.predict_proba(cross), one.predict_proba(new_points()), 1e-7)
    np.testing.assert_array_equal(other.fit_order_, one.fit_order_)


def test_sparse_precomputed_kernel_equals_dense():
    X, y = wine()
    K = rbf_kernel(X)
    for solver in ("closed", "ppa"):
        params = {"kernel": "precomputed", "solver": solver, "beta": 0.5, **TIGHT}
        dense = DRMClassifier(**params).fit(K, y)
        fitted = DRMClassifier(**params).fit(sparse.csr_array(K), y)
        close(fitted.decision_function(sparse.csr_array(K)), dense.decision_function(K))


def test_callable_kernel_with_parameters():
    X, y = wine()

    def bump(a, b, width=1.0):
        return np.exp(-np.sum((a - b) ** 2) / width)

    params = {"probability": True, "reject_above": 0.8}
    called = DRMClassifier(kernel=bump, kernel_params={"width": 20.0}, **params).fit(X, y)
    named = DRMClassifier(kernel="rbf", gamma=0.05, **params).fit(X, y)
    points = np.vstack([new_points(), 100 + new_points()])
    close(called.decision_function(points), named.decision_function(points))
    np.testing.assert_array_equal(called.predict(points), named.predict(points))
    close(called.predict_proba(points), named.predict_proba(points))


@every_kind
def test_single_precision_stays_single_precision(kind):
    X, y = wine()
    # Single precision says when it cannot reach the tolerance of the others.
    params = KINDS[kind] | ({"tol": 1e-6} if "tol" in KINDS[kind] else {})
    points = new_points()
    double = DRMClassifier(probability=kind != "lasso", **params).fit(X, y)
    single = DRMClassifier(probability=kind != "lasso", **params).fit(X.astype(np.float32), y)
    outputs = ["decision_function", "class_residuals", "representation"]
    if kind != "lasso":
        outputs.append("predict_proba")
    for name in outputs:
        found = getattr(single, name)(points.astype(np.float32))
        assert found.dtype == np.float32
        if kind != "nystroem":  # rounding of the rows may draw others for the basis
            close(found, getattr(double, name)(points), 1e-3)
    assert single.X_fit_.dtype == np.float32


# Probabilities ---------------------------------------------------------------------------------


def test_probabilities_are_there_when_asked_for_only():
    X, y = wine()
    without = DRMClassifier().fit(X, y)
    assert not hasattr(without, "predict_proba")
    assert not hasattr(without, "loo_decision_function_")
    with_probability = DRMClassifier(probability=True).fit(X, y)
    assert hasattr(with_probability, "predict_proba")
    assert with_probability.inverse_temperature_ > 0
    np.testing.assert_array_equal(
        with_probability.decision_function(X), without.decision_function(X)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("data", [wine, two_classes])
@every_kind
def test_probabilities_sum_to_one_and_agree_with_predictions(kind, data, dtype):
    X, y = data()
    params = {"probability": True, "random_state": 0} | KINDS[kind]
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


def test_probabilities_are_the_softmax_of_the_residuals():
    X, y = wine()
    model = DRMClassifier(probability=True).fit(X, y)
    shares = np.exp(-model.inverse_temperature_ * model.class_residuals(new_points()))
    close(model.predict_proba(new_points()), shares / shares.sum(axis=1, keepdims=True), 1e-12)


@pytest.mark.parametrize("data", [wine, two_classes])
@pytest.mark.parametrize(
    "params",
    [
        {"kernel": "rbf", "gamma": 0.05},
        {"kernel": "linear", "solver": "scatter", "beta": 5.0},
        {"kernel": "linear", "solver": "closed", "beta": 5.0},
        {"kernel": "linear", "alpha": 2.0},
    ],
)
def test_held_out_scores_are_those_of_refits(params, data):
    X, y = data()
    X, y = X[:40], y[:40]
    model = DRMClassifier(probability=True, **params).fit(X, y)
    for k in range(len(y)):
        others = np.arange(len(y)) != k
        refit = DRMClassifier(**params).fit(X[others], y[others])
        expected = refit.decision_function(X[k : k + 1])[0]
        np.testing.assert_allclose(model.loo_decision_function_[k], expected, atol=1e-8)


def test_held_out_scores_of_fractional_weights_are_those_of_refits():
    """A unit of weight leaves; a sample that weighs less leaves as a whole."""
    X, y = wine(30)
    weights = np.random.default_rng(0).uniform(0.2, 3, size=len(y))
    for params in ({"kernel": "rbf", "gamma": 0.05}, {"kernel": "linear", "beta": 5.0}):
        model = DRMClassifier(probability=True, **params).fit(X, y, sample_weight=weights)
        for k in range(len(y)):
            left = weights.copy()
            left[k] = max(left[k] - 1, 0)
            refit = DRMClassifier(**params).fit(X, y, sample_weight=left)
            expected = refit.decision_function(X[k : k + 1])[0]
            np.testing.assert_allclose(model.loo_decision_function_[k], expected, atol=1e-8)


def test_held_out_scores_of_other_penalties_are_of_models_that_have_not_seen_the_sample():
    """A sample that contradicts all others is held out, so its own class does not explain it."""
    X, y = wine()
    own = X[y == 0][0]
    X, y = np.vstack([X, own]), np.r_[y, 1]  # a copy of a sample with another label
    params = {"penalty": "group_lasso", "max_iter": 5000, "random_state": 0}
    model = DRMClassifier(probability=True, **params).fit(X, y)
    assert model.loo_decision_function_.shape == (len(y), 3)
    assert model.loo_decision_function_[-1].argmax() != 1
    again = DRMClassifier(probability=True, **params).fit(X, y)
    np.testing.assert_array_equal(again.loo_decision_function_, model.loo_decision_function_)


# Features --------------------------------------------------------------------------------------


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
            n_components=n_components, approximation="fourier", random_state=0, solver="closed"
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
                        gamma=0.05, n_components=m, approximation="fourier", random_state=seed
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
    for approximation in ("nystroem", "fourier"):
        params = {"n_components": 10, "approximation": approximation}
        scores = [
            DRMClassifier(random_state=seed, **params).fit(X, y).decision_function(X)
            for seed in (0, 0, 1)
        ]
        np.testing.assert_array_equal(scores[0], scores[1])
        assert np.abs(scores[0] - scores[2]).max() > 1e-6
    plain = [DRMClassifier(random_state=seed).fit(X, y).decision_function(X) for seed in (0, 1)]
    np.testing.assert_array_equal(*plain)


# Rejection -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "features",
    [
        {},
        {"n_components": 40, "approximation": "nystroem"},
        {"n_components": 400, "approximation": "fourier"},
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


def test_unknown_label_is_of_the_kind_of_the_labels():
    X, y = wine()
    far = X[:3] + 100
    names = np.array(["a", "bb", "c"])
    assert list(DRMClassifier(reject_above=0.9).fit(X, names[y]).predict(far)) == ["unknown"] * 3
    objects = DRMClassifier(reject_above=0.9).fit(X, names.astype(object)[y])
    assert list(objects.predict(far)) == ["unknown"] * 3
    numbers = DRMClassifier(reject_above=0.9).fit(X, y).predict(far)
    assert numbers.dtype.kind == "i"
    assert list(numbers) == [-1] * 3
    chosen = DRMClassifier(reject_above=0.9, unknown_label="none of them").fit(X, names[y])
    assert list(chosen.predict(far)) == ["none of them"] * 3
    chosen = DRMClassifier(reject_above=0.9, unknown_label=99).fit(X, y)
    assert list(chosen.predict(far)) == [99] * 3


def test_unknown_label_is_kept_beside_labels_that_cannot_hold_it():
    """Unsigned and short integers: the label is what the user named."""
    X, y = wine()
    far = X[:3] + 100
    for dtype, label in ((np.uint8, None), (np.int8, 1000)):
        model = DRMClassifier(reject_above=0.9, unknown_label=label).fit(X, y.astype(dtype))
        assert list(model.predict(far)) == [-1 if label is None else label] * 3
        np.testing.assert_array_equal(model.predict(X), y)


@pytest.mark.parametrize(
    ("names", "label"),
    [
        ([-1, 0, 1], None),
        ([0, 1, 2], 2),
        ([0, 1, 2], "none"),
        (["a", "b", "unknown"], None),
        (["a", "b", "c"], "b"),
        (["a", "b", "c"], -1),
    ],
)
def test_unknown_label_that_is_a_class_or_of_another_kind_is_refused(names, label):
    X, y = wine()
    with pytest.raises(ValueError, match=r"unknown_label must be a .* none of them"):
        DRMClassifier(reject_above=0.9, unknown_label=label).fit(X, np.array(names)[y])


def test_an_unknown_label_that_is_a_class_does_no_harm_without_rejection():
    X, y = wine()
    assert DRMClassifier().fit(X, y - 1).score(X, y - 1) > 0.9


# scikit-learn's habits ---------------------------------------------------------------------------


@every_kind
def test_clone_and_pickle_predict_the_same(kind):
    X, y = wine()
    model = DRMClassifier(probability=kind != "lasso", **KINDS[kind]).fit(X, y)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(restored.representation(X), model.representation(X))
    assert clone(model).get_params() == model.get_params()
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_refit_leaves_nothing_behind():
    X, y = wine()
    model = DRMClassifier(probability=True, kernel="linear", solver="ppa", beta=5.0, max_iter=1000)
    model.fit(X, y)
    assert hasattr(model, "gap_")
    model.set_params(solver="auto", kernel="precomputed", probability=False, beta=0.1)
    model.fit(rbf_kernel(X), y)
    fresh = clone(model).fit(rbf_kernel(X), y)
    assert set(vars(model)) == set(vars(fresh))
    assert not {"X_fit_", "gap_", "objective_history_", "inverse_temperature_"} & set(vars(model))
    np.testing.assert_array_equal(
        model.decision_function(rbf_kernel(X)), fresh.decision_function(rbf_kernel(X))
    )


def test_pandas_names_of_features_are_kept():
    import pandas as pd

    X, y = wine()
    frame = pd.DataFrame(X, columns=[f"feature {i}" for i in range(13)])
    model = DRMClassifier().fit(frame, y)
    assert list(model.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


def test_training_data_are_not_changed():
    X, y = wine()
    K = rbf_kernel(X)
    kept_X, kept_K = X.copy(), K.copy()
    DRMClassifier(probability=True).fit(X, y).predict(X)
    DRMClassifier(kernel="precomputed", probability=True).fit(K, y).predict(K)
    np.testing.assert_array_equal(X, kept_X)
    np.testing.assert_array_equal(K, kept_K)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, "closed"),
        ({"kernel": "linear"}, "scatter"),
        ({"kernel": "poly"}, "closed"),
        ({"penalty": "lasso"}, "apg"),
        ({"kernel": "linear", "penalty": "group_lasso"}, "apg"),
        ({"penalty": (2, 2, "half_square")}, "closed"),
        ({"n_components": 20}, "scatter"),
        ({"solver": "gd"}, "gd"),
    ],
)
def test_auto_takes_the_form_that_suits_the_data(params, expected):
    X, y = wine()
    assert DRMClassifier(**params).fit(X, y).solver_ == expected


def test_auto_takes_the_kernel_form_for_many_features():
    """A prediction takes n² multiplications, or g p² in the features."""
    X, y = wine()
    wide = np.random.default_rng(0).normal(size=(60, 40))
    assert DRMClassifier(kernel="linear").fit(wide[:, :34], y).solver_ == "scatter"
    assert DRMClassifier(kernel="linear").fit(wide[:, :35], y).solver_ == "closed"


# Memory ------------------------------------------------------------------------------------------


def test_kernel_matrix_that_is_too_large_is_refused_with_the_number_of_features(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 50_000)
    monkeypatch.setattr(memory, "NEGLIGIBLE_BYTES", 0)
    X, y = wine()
    for params in ({}, {"solver": "ppa"}, {"kernel": "linear", "solver": "closed"}):
        with pytest.raises(MemoryError, match=r"60 x 60.*set n_components=52\."):
            DRMClassifier(**params).fit(X, y)
    with pytest.raises(MemoryError, match=r"held 2 times.*sklearn\.kernel_approximation"):
        DRMClassifier(kernel="precomputed").fit(rbf_kernel(X), y)
    assert DRMClassifier(n_components=20).fit(X, y).solver_ == "scatter"
    with pytest.raises(MemoryError, match=r"60 features of 60 samples.*Use fewer n_components"):
        DRMClassifier(n_components=60).fit(X, y)


def test_refusal_comes_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**9)
    X = np.random.default_rng(0).normal(size=(20_000, 3))
    tracemalloc.start()
    try:
        with pytest.raises(MemoryError, match=r"6\.4 GB.*1\.0 GB are free.*n_components="):
            DRMClassifier().fit(X, np.arange(20_000) % 2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20e6


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_closed_form_holds_two_arrays_of_the_size_of_the_kernel_matrix(kernel, monkeypatch):
    """The factor in place of the kernel matrix, and the blocks of the classes."""
    # Work arrays have a fixed size, which is small against a kernel matrix that is large.
    monkeypatch.setattr(fitted_kernel, "BATCH_BYTES", 1 << 20)
    n = 1500
    X = np.random.default_rng(0).normal(size=(n, 50))
    y = (np.arange(n) % 50 == 0).astype(int)  # one class is almost all
    model = DRMClassifier(kernel=kernel, solver="closed").fit(X[:100], y[:100])
    tracemalloc.start()
    try:
        model.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.3 * 8 * n**2
