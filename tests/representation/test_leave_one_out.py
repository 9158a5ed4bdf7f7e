"""Leave-one-out of DRM against refits written from equations (5) to (14) of the paper."""

from itertools import product

import numpy as np
import pytest
from scipy import linalg
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import StandardScaler

from discreg.representation import _leave_one_out
from discreg.representation._closed import ClosedForm
from discreg.representation._leave_one_out import leave_one_out_residuals
from discreg.representation._problem import Groups
from discreg.representation._rank_one_updates import scatter_residuals_without
from discreg.representation._scatter import class_scatters

LOADERS = {
    "wine": load_wine,
    "raw_wine": load_wine,  # nearly homogeneous classes: one direction has nearly all of K
    "iris": load_iris,
    "breast_cancer": load_breast_cancer,
}
ALPHAS = [0.0, 1e-3, 1.0, 1e3]
BETAS = [1e-3, 1.0, 1e3]


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


def refits(K, y, weights, alpha, beta, units):
    """The model without one unit of each sample in turn."""
    rows = []
    for k, unit in enumerate(units):
        left = weights - unit * (np.arange(len(y)) == k)
        kept = left > 0
        model = K[np.ix_(kept, kept)], y[kept], left[kept], alpha, beta
        rows.append(refit(*model, K[kept, k]))
    return np.array(rows, dtype=float)


def assert_equals_refits(K, y, weights, alpha, beta, units):
    if np.linalg.cond(drm_matrix(K, y, weights, alpha, beta)) > 1e8:
        return
    groups = Groups.of(y, weights, y.max() + 1)
    before = K.copy()
    actual = leave_one_out_residuals(K, groups, alpha, beta, units)
    expected = refits(K, y, weights, alpha, beta, units)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_array_equal(K, before)


KERNELS = ["rbf", "linear", "poly"]
WEIGHTINGS = ["none", "integer", "fractional", "per class"]


@pytest.mark.parametrize(
    ("data", "kernel", "weighting"),
    [
        *product(["random"], KERNELS, WEIGHTINGS),
        *product(LOADERS, ["rbf", "linear"], ["per class"]),
    ],
)
def test_it_equals_refits(data, kernel, weighting):
    X, y = samples(data)
    K = pairwise_kernels(X, metric=kernel)
    rng = np.random.default_rng(2)
    units = np.ones(len(y))
    weights = units.copy()
    if weighting == "integer":
        weights = rng.integers(1, 5, len(y)).astype(float)
    elif weighting == "fractional":
        units = weights = rng.uniform(0.1, 0.9, len(y))
    elif weighting == "per class":
        units = np.array([0.25, 3.0, 1.5, 0.7])[y]
        weights = units * rng.integers(1, 3, len(y))
    for alpha in ALPHAS:
        for beta in BETAS:
            assert_equals_refits(K, y, weights, alpha, beta, units)


@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_units_may_be_any_part_of_the_weights(scale):
    X, y = samples("wine")
    K = pairwise_kernels(X, metric="rbf")
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.5, 4, len(y))
    units = scale * weights * rng.uniform(0.5, 1, len(y))
    for alpha in ALPHAS:
        assert_equals_refits(K, y, weights, alpha, 0.1, units)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_weight_is_a_number_of_copies(alpha):
    X, y = samples("iris", size=20)
    copies = np.random.default_rng(4).integers(1, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), copies)
    K = pairwise_kernels(X, metric="rbf")
    ones = np.ones(len(repeated))
    of_copies = leave_one_out_residuals(
        K[np.ix_(repeated, repeated)], Groups.of(y[repeated], ones, 3), alpha, 0.5, ones
    )
    of_weights = leave_one_out_residuals(
        K, Groups.of(y, copies.astype(float), 3), alpha, 0.5, np.ones(len(y))
    )
    expected = refits(K[np.ix_(repeated, repeated)], y[repeated], ones, alpha, 0.5, ones)
    atol = 1e-9 * np.abs(expected).max()
    np.testing.assert_allclose(of_copies, expected, rtol=0, atol=atol)
    np.testing.assert_allclose(of_weights[repeated], expected, rtol=0, atol=atol)


def test_a_single_sample_of_two_units_stays_with_one():
    X, y = samples("random")
    kept = np.arange(len(y)) != 0
    y, weights = y[kept], np.where(y[kept] == 0, 2.0, 1.0)
    K = pairwise_kernels(X[kept], metric="rbf")
    assert_equals_refits(K, y, weights, 1.0, 0.1, np.ones(len(y)))


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
    assert_equals_refits(K, y, ones, critical * (1 + off), beta, ones)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_both_ways_to_solve_within_a_class_agree(monkeypatch, alpha):
    X, y = samples("breast_cancer")
    K = pairwise_kernels(X, metric="rbf")
    problem = K, Groups.of(y, np.ones(len(y)), 2), alpha, 0.1, np.ones(len(y))
    shared = leave_one_out_residuals(*problem)
    monkeypatch.setattr(_leave_one_out, "_shared_solution", lambda *_: None)
    spectral = leave_one_out_residuals(*problem)
    np.testing.assert_allclose(spectral, shared, rtol=0, atol=1e-11 * np.abs(shared).max())


def test_a_system_that_is_singular_to_rounding_is_refused():
    K = np.ones((4, 4))
    groups = Groups.of(np.array([0, 0, 1, 1]), np.ones(4), 2)
    with pytest.raises(ValueError, match="larger beta"):
        leave_one_out_residuals(K, groups, 0.0, 1e-30, np.ones(4))


def test_a_sample_that_is_its_class_counts_as_an_error():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(12, 3)), np.array([0] * 5 + [1] * 6 + [2])
    K = X @ X.T
    groups, ones = Groups.of(y, np.ones(12), 3), np.ones(12)
    found = leave_one_out_residuals(K, groups, 0.3, 0.1, ones)
    remaining, vanishing = groups.without(np.arange(12), ones)
    scatters = class_scatters(X, np.sum(X**2, axis=1), groups, 0.3, 0.1)
    in_features = scatter_residuals_without(
        X, y, ones, remaining, scatters, groups.totals, 0.3, 0.1
    )
    np.testing.assert_array_equal(vanishing, y == 2)
    assert found[-1].argmax() == 2
    np.testing.assert_allclose(in_features[:-1], found[:-1], rtol=1e-9)
    np.testing.assert_allclose(in_features[-1, :2], found[-1, :2], rtol=1e-9)
    # The other classes explain the sample as if it had never been there.
    others = y < 2
    form = ClosedForm.of(K[np.ix_(others, others)], Groups.of(y[others], ones[others], 2), 0.3, 0.1)
    K_x = K[-1:, others]
    expected = form.residuals(form.represent(K_x), K_x)
    np.testing.assert_allclose(found[-1, :2], expected[0], rtol=1e-9)


@pytest.mark.parametrize("fractional", [False, True])
def test_some_samples_have_the_residuals_of_all(fractional):
    random = np.random.default_rng(1)
    X, y = random.normal(size=(40, 3)), np.sort(random.integers(0, 3, size=40))
    K = np.exp(-0.2 * np.sum((X[:, None] - X) ** 2, axis=2))
    weights = random.choice([0.5, 1.0, 2.5] if fractional else [1.0, 2.0], size=40)
    groups, units = Groups.of(y, weights, 3), np.minimum(weights, 1.0)
    kept = np.flatnonzero(random.random(40) < 0.4)
    expected = leave_one_out_residuals(K, groups, 0.5, 0.1, units)[kept]
    found = leave_one_out_residuals(K, groups, 0.5, 0.1, units[kept], kept)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)
