"""What a user of DRMClassifier relies on: decisions, symmetries, forms of data, habits, memory."""

import pickle
import tracemalloc

import numpy as np
import pytest
from drm_kinds import (
    KINDS,
    SOLVERS,
    TIGHT,
    close,
    every_kind,
    new_points,
    two_classes,
    wine,
)
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from discreg import DRMClassifier
from discreg.linalg import fitted_kernel, resources

# Decisions ----------------------------------------------------------------------------------------


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


# Symmetries ---------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("params", "factor"),
    [
        ({}, 1e-6),
        ({"penalty": "lasso", **TIGHT}, 1e6),
        ({"penalty": "exclusive_lasso", **TIGHT}, 1e-6),
    ],
)
def test_units_of_the_kernel_do_not_matter_when_beta_has_them(params, factor):
    """K → cK and β → cβ leave (9) the same up to a factor."""
    X, y = wine()
    K, K_x = rbf_kernel(X, gamma=0.1), rbf_kernel(new_points(), X, gamma=0.1)
    params = {"kernel": "precomputed", "alpha": 0.5, "probability": False, **params}
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


# Forms of the same data ---------------------------------------------------------------------------


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
    close(fitted.held_out_decision_function_, dense.held_out_decision_function_)
    # Training and new data may come in different forms.
    close(fitted.decision_function(points), dense.decision_function(points))
    close(dense.decision_function(container(points)), dense.decision_function(points))


@pytest.mark.parametrize("approximation", ["nystroem", "random_features"])
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
    model = DRMClassifier(kernel="linear", probability=False).fit(X, y)
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
    close(other.held_out_decision_function_, one.held_out_decision_function_)
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
    double = DRMClassifier(**params).fit(X, y)
    single = DRMClassifier(**params).fit(X.astype(np.float32), y)
    outputs = ["decision_function", "class_residuals", "representation"]
    if kind != "lasso":
        outputs.append("predict_proba")
    for name in outputs:
        found = getattr(single, name)(points.astype(np.float32))
        assert found.dtype == np.float32
        if kind != "nystroem":  # rounding of the rows may draw others for the basis
            close(found, getattr(double, name)(points), 1e-3)
    assert single.X_fit_.dtype == np.float32


# scikit-learn's habits ----------------------------------------------------------------------------


@every_kind
def test_clone_and_pickle_predict_the_same(kind):
    X, y = wine()
    model = DRMClassifier(**KINDS[kind]).fit(X, y)
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
    assert DRMClassifier(probability=False, **params).fit(X, y).solver_ == expected


def test_auto_takes_the_kernel_form_for_many_features():
    """A prediction takes n² multiplications, or g p² in the features."""
    X, y = wine()
    wide = np.random.default_rng(0).normal(size=(60, 40))
    model = DRMClassifier(kernel="linear", probability=False)
    assert model.fit(wide[:, :34], y).solver_ == "scatter"
    assert model.fit(wide[:, :35], y).solver_ == "closed"


# Memory -------------------------------------------------------------------------------------------


def test_kernel_matrix_that_is_too_large_is_refused_with_the_number_of_features(monkeypatch):
    monkeypatch.setattr(resources, "available_bytes", lambda: 50_000)
    monkeypatch.setattr(resources, "NEGLIGIBLE_BYTES", 0)
    X, y = wine()
    for params in ({}, {"solver": "ppa"}):
        with pytest.raises(MemoryError, match=r"60 x 60.*set n_components=52\."):
            DRMClassifier(**params).fit(X, y)
    with pytest.raises(MemoryError, match=r"60 x 60.*Fit on at most \d+ samples\.$"):
        DRMClassifier(kernel="linear", solver="closed").fit(X, y)
    with pytest.raises(MemoryError, match=r"held 2 times.*Fit on at most \d+ samples\.$"):
        DRMClassifier(kernel="precomputed").fit(rbf_kernel(X), y)
    assert DRMClassifier(n_components=20).fit(X, y).solver_ == "scatter"
    with pytest.raises(MemoryError, match=r"60 components of 60 samples.*Use fewer n_components"):
        DRMClassifier(n_components=60).fit(X, y)


def test_refusal_comes_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr(resources, "available_bytes", lambda: 10**9)
    X = np.random.default_rng(0).normal(size=(20_000, 3))
    tracemalloc.start()
    try:
        with pytest.raises(MemoryError, match=r"6\.4 GB.*1\.0 GB are free.*n_components="):
            DRMClassifier(n_components=None).fit(X, np.arange(20_000) % 2)
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
    model = DRMClassifier(kernel=kernel, solver="closed", probability=False)
    model.fit(X[:100], y[:100])
    tracemalloc.start()
    try:
        model.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.3 * 8 * n**2
