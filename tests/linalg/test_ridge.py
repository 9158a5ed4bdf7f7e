"""Both forms of the engine give ridge regression onto any targets, and the same eigenvalues."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

from discreg.linalg.fitted_kernel import centre_kernel
from discreg.linalg.ridge import KernelRegression, Regression, linear_regression


def data(n_samples, n_features, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features)) + 1
    return X, rng.normal(size=(n_samples, 2)), rng.uniform(0.5, 2, size=n_samples)


def fitted(regression, weighted_targets):
    """Coefficients of the regression onto targets that are already multiplied by the weights."""
    return regression.solve(regression.gradient(weighted_targets, weighted_targets.sum(axis=0)))


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("shape", [(30, 5), (12, 40), (20, 20)])
def test_regression_onto_targets_is_ridge(shape, centre):
    X, targets, weights = data(*shape)
    regression = linear_regression(X, weights, centre=centre)
    assert isinstance(regression, KernelRegression) == (shape[1] > shape[0])
    regression.at(0.7)
    shifted = targets - (weights @ targets / weights.sum() if centre else 0)
    coef = fitted(regression, weights[:, None] * shifted)
    features, mean_score = regression.predictor(coef)
    ridge = Ridge(alpha=0.7, fit_intercept=centre).fit(X, targets, sample_weight=weights)
    np.testing.assert_allclose(features.T, ridge.coef_, atol=1e-9)
    expected = ridge.predict(X) - (weights @ ridge.predict(X) / weights.sum() if centre else 0)
    np.testing.assert_allclose(regression.scores(coef, np.ones(2)) - 1, expected, atol=1e-9)
    np.testing.assert_allclose(X @ features - mean_score, expected, atol=1e-9)


def test_kernel_regression_is_kernel_ridge_without_intercept():
    X, targets, weights = data(25, 3)
    kernel = rbf_kernel(X, gamma=0.5)
    regression = KernelRegression(kernel.copy(), weights, None)
    regression.at(0.3)
    coef = fitted(regression, weights[:, None] * targets)
    samples, mean_score = regression.predictor(coef)
    ridge = KernelRidge(alpha=0.3, kernel="precomputed").fit(kernel, targets, sample_weight=weights)
    np.testing.assert_allclose(samples, ridge.dual_coef_, atol=1e-6)
    np.testing.assert_allclose(kernel @ samples, ridge.predict(kernel), atol=1e-9)
    np.testing.assert_array_equal(mean_score, 0)


def test_scale_is_the_papers_unit():
    X, _, weights = data(40, 6)
    centred = X - weights @ X / weights.sum()
    trace = np.sum(weights[:, None] * centred**2)
    assert linear_regression(X, weights, centre=True).scale == pytest.approx(trace / 6)
    wide = linear_regression(X[:5], weights[:5], centre=False)
    assert wide.scale == pytest.approx(np.sum(weights[:5, None] * X[:5] ** 2) / 6)
    kernel = X @ X.T
    mean = centre_kernel(kernel, weights)
    regression = KernelRegression(kernel, weights, mean)
    assert regression.scale == pytest.approx(trace / weights.sum())
    assert regression.size == 6


@pytest.mark.parametrize("centre", [False, True])
def test_eigenvectors_of_both_forms(centre):
    X, _, weights = data(15, 6)
    primal = Regression(X, weights, centre=centre)
    kernel = X @ X.T
    mean = centre_kernel(kernel, weights) if centre else None
    dual = KernelRegression(kernel, weights, mean)
    for regression in (primal, dual):
        values, blocks = regression.eigen()
        rows = np.vstack([block for _, block in blocks()])
        np.testing.assert_allclose(rows.T @ (weights[:, None] * rows), np.diag(values), atol=1e-9)
    np.testing.assert_allclose(primal.eigen()[0], dual.eigen()[0], atol=1e-9)


def test_centred_kernel_is_that_of_centred_features():
    X, _, weights = data(10, 4)
    kernel = X @ X.T
    mean = centre_kernel(kernel, weights)
    centre = weights @ X / weights.sum()
    np.testing.assert_allclose(kernel, (X - centre) @ (X - centre).T, atol=1e-12)
    np.testing.assert_allclose(mean, X @ centre, atol=1e-12)


@pytest.mark.parametrize("centre", [False, True])
def test_rows_of_weight_zero_do_not_change_the_solution_of_least_norm(centre):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, targets, weights = data(int(rng.integers(8, 40)), 60, seed)
        weights *= rng.choice([0, 1], size=len(X), p=[0.4, 0.6])
        weights[:2] = 1
        seen = weights > 0
        coefs = []
        for rows in (slice(None), seen):
            regression = linear_regression(X[rows], weights[rows], centre=centre)
            regression.at(0.0)
            coef = fitted(regression, weights[rows, None] * targets[rows])
            coefs.append(regression.predictor(coef)[0])
        np.testing.assert_allclose(*coefs, atol=1e-9)


def test_all_seen_rows_equal_leave_no_features():
    X, weights = np.ones((4, 9)), np.array([1.0, 1.0, 0.0, 0.0])
    X[2:, 0] = 5.0
    regression = linear_regression(X, weights, centre=True)
    assert regression.size == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_a_centred_kernel_has_one_feature_less_than_samples(weighted):
    """The errors of all its entries add up in the last pivot, which is zero without them."""
    X, _, weights = data(300, 20)
    weights = weights if weighted else np.ones(300)
    for gamma in np.linspace(0.02, 0.03, 8):
        kernel = rbf_kernel(X, gamma=gamma)
        mean = centre_kernel(kernel, weights)
        expected = kernel.copy()
        regression = KernelRegression(kernel, weights, mean)
        assert regression.size == 299
        np.testing.assert_allclose(regression.X @ regression.X.T, expected, atol=1e-10)
