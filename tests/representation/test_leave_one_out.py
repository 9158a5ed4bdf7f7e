"""Leave-one-out of DRM against refits written from equations (5) to (14) of the paper."""

from itertools import product

import numpy as np
import pytest
from scipy import linalg
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import StandardScaler

from discreg.representation._closed import (
    ScatterForm,
    leave_one_out_residuals,
    scatter_residuals_without,
)
from discreg.representation._problem import Groups

LOADERS = {
    "wine": load_wine,
    "raw_wine": load_wine,  # nearly homogeneous classes: one direction has nearly all of K
    "iris": load_iris,
    "breast_cancer": load_breast_cancer,
}
ALPHAS = [0.0, 1.0, 1e3]
BETAS = [1e-3, 10.0]


def samples(name, size=36):
    """A few samples in order of their class."""
    if name == "random":  # classes down to two samples
        X = np.random.default_rng(0).normal(size=(12, 3))
        return X, np.repeat(np.arange(4), [2, 2, 3, 5])
    X, y = LOADERS[name](return_X_y=True)
    chosen = np.random.default_rng(1).permutation(len(y))[:size]
    chosen = chosen[np.argsort(y[chosen], kind="stable")]
    X, y = X[chosen], y[chosen]
    return (X if name == "raw_wine" else StandardScaler().fit_transform(X)), y


def drm_matrix(K, y, weights, alpha, beta):
    """K + αH − αB + βI, where a sample of weight s shares its coefficient among s copies."""
    H = np.diag(np.diag(K) / weights)
    B = np.zeros_like(K)
    for c in np.unique(y):
        members = np.ix_(y == c, y == c)
        B[members] = K[members] / weights[y == c].sum()
    return K + alpha * H - alpha * B + beta * np.diag(1 / weights)


def refit(K, y, weights, alpha, beta, K_x):
    """Equation (14), then (11); refined, because a plain solution has errors of 1e-9 itself."""
    K, K_x, weights = (array.astype(np.longdouble) for array in (K, K_x, weights))
    matrix = drm_matrix(K, y, weights, alpha, beta)
    factor = linalg.cho_factor(matrix.astype(float))
    w = np.zeros_like(K_x)
    for _ in range(3):
        w += linalg.cho_solve(factor, (K_x - matrix @ w).astype(float))
    residuals = []
    for c in range(y.max() + 1):
        own = np.where(y == c, w, 0.0)
        other = w - own
        residuals.append(own @ K @ own + other @ K @ other - 2 * own @ K_x)
    return residuals


def refits(K, y, weights, alpha, beta):
    """The model without each sample in turn."""
    rows = []
    for k in range(len(y)):
        kept = np.arange(len(y)) != k
        model = K[np.ix_(kept, kept)], y[kept], weights[kept], alpha, beta
        rows.append(refit(*model, K[kept, k]))
    return np.array(rows, dtype=float)


def leave_one_out(K, y, weights, alpha, beta):
    groups = Groups.of(y, weights, y.max() + 1)
    return leave_one_out_residuals(K, groups, alpha, beta, np.arange(len(y)))


def leave_one_out_in_features(X, y, weights, alpha, beta):
    groups = Groups.of(y, weights, y.max() + 1)
    form = ScatterForm.of(X, groups, alpha, beta)
    return scatter_residuals_without(form, groups.totals, X, y, weights)


def assert_equals_refits(K, y, weights, alpha, beta):
    if np.linalg.cond(drm_matrix(K, y, weights, alpha, beta)) > 1e8:
        return
    before = K.copy()
    actual = leave_one_out(K, y, weights, alpha, beta)
    expected = refits(K, y, weights, alpha, beta)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_array_equal(K, before)


KERNELS = ["rbf", "linear", "poly"]


def weights_of(weighting, y):
    if weighting == "any":
        return np.random.default_rng(2).uniform(0.1, 9, len(y))
    return np.array([0.25, 3.0, 1.5, 0.7])[y] if weighting == "per class" else np.ones(len(y))


@pytest.mark.parametrize(
    ("data", "kernel", "weighting"),
    [
        *product(["random"], KERNELS, ["any"]),
        ("wine", "rbf", "none"),
        ("raw_wine", "linear", "any"),
        ("iris", "linear", "per class"),
        ("breast_cancer", "rbf", "any"),
    ],
)
def test_it_equals_refits(data, kernel, weighting):
    X, y = samples(data)
    K = pairwise_kernels(X, metric=kernel)
    weights = weights_of(weighting, y)
    for alpha in ALPHAS:
        for beta in BETAS:
            assert_equals_refits(K, y, weights, alpha, beta)


@pytest.mark.parametrize(
    ("data", "weighting"),
    [("random", "any"), ("raw_wine", "any"), ("iris", "none"), ("breast_cancer", "per class")],
)
def test_it_equals_refits_in_features(data, weighting):
    X, y = samples(data)
    K, weights = X @ X.T, weights_of(weighting, y)
    for alpha in ALPHAS:
        for beta in BETAS:
            if np.linalg.cond(drm_matrix(K, y, weights, alpha, beta)) > 1e8:
                continue
            actual = leave_one_out_in_features(X, y, weights, alpha, beta)
            expected = refits(K, y, weights, alpha, beta)
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("off", [0.0, 1e-12, -1e-6, 1e-3, -1e-2, 10.0])
@pytest.mark.parametrize("size", [2, 9])
@pytest.mark.parametrize("far", [True, False])
def test_the_changed_block_may_be_singular(far, size, off):
    """A homogeneous class: M with α/(n_i − 1) for α/n_i is singular although no refit is."""
    rng = np.random.default_rng(5)
    beta = 0.2
    X = np.vstack([np.tile(rng.normal(size=3), (size, 1)), rng.normal(size=(9, 3)) + 100 * far])
    y = np.repeat([0, 1, 2], [size, 5, 4])
    K = pairwise_kernels(X, metric="rbf", gamma=0.2)
    ones = np.ones(len(y))

    def smallest(alpha):
        matrix = drm_matrix(K, y, ones, alpha, beta)
        matrix[:size, :size] -= alpha / (size * (size - 1)) * K[:size, :size]
        return np.linalg.eigvalsh(matrix)[0]

    critical = (size - 1) * (size + beta)
    if not far:  # the other classes take part
        low, high = 1e-9, critical
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if smallest(middle) > 0 else (low, middle)
        critical = low
    assert abs(smallest(critical)) < 1e-12 * size * critical
    alpha = critical * (1 + off)
    assert_equals_refits(K, y, ones, alpha, beta)
    if not far:
        return
    # In the features of a linear kernel the block of the class is singular at the same place.
    values, vectors = linalg.eigh(K)
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    actual = leave_one_out_in_features(features, y, ones, alpha, beta)
    expected = refits(features @ features.T, y, ones, alpha, beta)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_a_system_that_is_singular_to_rounding_is_refused():
    with pytest.raises(ValueError, match="larger beta"):
        leave_one_out(np.ones((4, 4)), np.array([0, 0, 1, 1]), np.ones(4), 0.0, 1e-30)


@pytest.mark.parametrize("equal", [False, True])
def test_some_samples_have_the_residuals_of_all(equal):
    random = np.random.default_rng(1)
    X, y = random.normal(size=(40, 3)), np.sort(random.integers(0, 3, size=40))
    K = np.exp(-0.2 * np.sum((X[:, None] - X) ** 2, axis=2))
    weights = np.full(40, 2.0) if equal else random.choice([0.5, 1.0, 2.5], size=40)
    kept = np.flatnonzero(random.random(40) < 0.4)
    expected = leave_one_out(K, y, weights, 0.5, 0.1)[kept]
    found = leave_one_out_residuals(K, Groups.of(y, weights, 3), 0.5, 0.1, kept)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)
