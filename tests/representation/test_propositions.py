"""What sections III and IV of the DRM paper prove about the model, on random problems."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import pairwise_kernels

from discreg import DRMClassifier
from discreg.representation._problem import Groups, KernelOperator

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*only one distinct row, which cannot be held out"),
    pytest.mark.filterwarnings("ignore:The held-out scores of .* are worse than chance"),
]

KERNELS = {
    "linear": {},
    "rbf": {"gamma": 0.3},
    "poly": {"gamma": 0.5, "degree": 3, "coef0": 1.0},
    "laplacian": {"gamma": 0.3},
}

sizes = st.lists(st.integers(1, 6), min_size=2, max_size=4)
seeds = st.integers(0, 2**32 - 1)
kernels = st.sampled_from(sorted(KERNELS))


def samples(sizes, seed, n_features=3):
    """Classes of the given sizes; half of the features are far from zero."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=(len(y), n_features)) + y[:, None] + 3 * (np.arange(n_features) % 2), y


def kernel_of(A, B, kernel):
    return pairwise_kernels(A, B, metric=kernel, **KERNELS[kernel])


def within_and_blocks(K, y):
    """H and B of (6)."""
    B = np.zeros_like(K)
    for c in np.unique(y):
        members = np.ix_(y == c, y == c)
        B[members] = K[members] / np.sum(y == c)
    return np.diag(np.diag(K)), B


def scatters(X, y, w):
    """S_w of (3), S_b and S_t, as they are written."""
    weighted = w[:, None] * X
    mean = weighted.mean(axis=0)
    within = between = 0.0
    for c in np.unique(y):
        own = weighted[y == c]
        own_mean = own.mean(axis=0)
        within += 0.5 * np.sum((own - own_mean) ** 2)
        between += 0.5 * len(own) * np.sum((own_mean - mean) ** 2)
    return within, between, 0.5 * np.sum((weighted - mean) ** 2)


# Scatters ------------------------------------------------------------------------------------


@given(sizes, seeds)
def test_total_scatter_is_within_plus_between(sizes, seed):
    """Proposition III.1."""
    X, y = samples(sizes, seed)
    w = np.random.default_rng(seed + 1).normal(size=len(y))
    within, between, total = scatters(X, y, w)
    assert within + between == pytest.approx(total, rel=1e-12)


@given(sizes, seeds)
def test_scatters_are_quadratic_forms_of_the_kernel(sizes, seed):
    """S_w = ½wᵀ(H − B)w and S_b = ½wᵀ(B − K/n)w, with (6) and (7)."""
    X, y = samples(sizes, seed)
    w = np.random.default_rng(seed + 1).normal(size=len(y))
    K = X @ X.T
    H, B = within_and_blocks(K, y)
    within, between, total = scatters(X, y, w)
    assert 0.5 * w @ (H - B) @ w == pytest.approx(within, abs=1e-12 * total)
    assert 0.5 * w @ (B - K / len(y)) @ w == pytest.approx(between, abs=1e-12 * total)


@given(sizes, seeds, kernels)
def test_within_class_scatter_is_positive_semidefinite(sizes, seed, kernel):
    """Proposition IV.1."""
    X, y = samples(sizes, seed)
    K = kernel_of(X, X, kernel)
    H, B = within_and_blocks(K, y)
    assert np.linalg.eigvalsh(H - B)[0] >= -1e-13 * len(y) * np.abs(K).max()


@given(sizes, seeds, kernels)
def test_between_class_scatter_is_positive_semidefinite(sizes, seed, kernel):
    """Proposition IV.2."""
    X, y = samples(sizes, seed)
    K = kernel_of(X, X, kernel)
    _, B = within_and_blocks(K, y)
    assert np.linalg.eigvalsh(B - K / len(y))[0] >= -1e-13 * len(y) * np.abs(K).max()


@given(sizes, seeds, kernels)
def test_a_class_of_one_sample_has_no_scatter_within(sizes, seed, kernel):
    X, y = samples([1, *sizes], seed)
    H, B = within_and_blocks(kernel_of(X, X, kernel), y)
    assert np.all((H - B)[0] == 0)


@given(sizes, seeds, kernels, st.floats(0, 10))
def test_operator_is_the_matrix_of_equation_9(sizes, seed, kernel, alpha):
    """Q = K + α(H − B), with sample weights that are one."""
    X, y = samples(sizes, seed)
    K = kernel_of(X, X, kernel)
    H, B = within_and_blocks(K, y)
    operator = KernelOperator(Groups.of(y, np.ones(len(y)), len(sizes)), K, alpha)
    expected = K + alpha * H - alpha * B
    np.testing.assert_allclose(
        operator.apply(np.eye(len(y))), expected, atol=1e-12 * np.abs(expected).max()
    )


# The shape of the penalty ----------------------------------------------------------------------


@settings(max_examples=5)
@given(sizes, seeds, st.sampled_from(["linear", "rbf"]), st.floats(0, 2), st.floats(0.05, 1))
def test_square_and_norm_have_the_same_minimisers(sizes, seed, kernel, alpha, beta):
    """Proposition IV.3 for (2, 2): the ridge solution w at β minimises with ‖w‖ at β‖w‖."""
    X, y = samples(sizes, seed)
    point = X[:1] + 0.3
    params = {"alpha": alpha, "kernel": kernel, "gamma": 0.3}
    params["probability"] = False
    w = DRMClassifier(beta=beta, **params).fit(X, y).representation(point)
    norm = np.linalg.norm(w)
    plain = DRMClassifier(
        beta=beta * norm, penalty=(2, 2, "identity"), tol=1e-14, max_iter=100_000, **params
    )
    np.testing.assert_allclose(plain.fit(X, y).representation(point), w, atol=1e-5 * norm)


@pytest.mark.parametrize(
    ("q", "r"), [(1, 1), (2, 1), (1, 2), (np.inf, 1), (2, np.inf), (np.inf, np.inf)]
)
def test_square_and_norm_have_the_same_minimisers_for_other_norms(q, r):
    """Proposition IV.3: half the square at β has the slope of the norm at β‖w‖."""
    X, y = samples([5, 4, 3], 0)
    point = X[:1] + 0.3
    params = {"alpha": 0.5, "kernel": "rbf", "gamma": 0.3, "tol": 1e-13, "max_iter": 100_000}
    params["probability"] = False
    square = DRMClassifier(beta=0.2, penalty=(q, r, "half_square"), **params).fit(X, y)
    w = square.representation(point)
    norm = np.linalg.norm([np.linalg.norm(w[0, y == c], ord=q) for c in range(3)], ord=r)
    plain = DRMClassifier(beta=0.2 * norm, penalty=(q, r, "identity"), **params).fit(X, y)
    np.testing.assert_allclose(plain.representation(point), w, atol=1e-5)


def test_a_larger_beta_gives_a_smaller_representation():
    """Along the set of minimisers the norm falls from that of least squares to zero."""
    X, y = samples([5, 4, 3], 0)
    norms = [
        np.linalg.norm(DRMClassifier(alpha=0.5, beta=beta).fit(X, y).representation(X[:1] + 0.3))
        for beta in np.logspace(-6, 6, 13)
    ]
    assert np.all(np.diff(norms) < 0)
    assert norms[-1] < 1e-5


# Special cases -------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_without_scatter_the_representation_is_kernel_ridge_regression(kernel):
    """Remark 1: at α = 0 the rows of M⁻¹K_x are KernelRidge's predictions of unit targets."""
    X, y = samples([6, 4, 1], 0)
    points = X[::3] + 0.2
    params = {"kernel": kernel, **KERNELS[kernel]}
    model = DRMClassifier(alpha=0, beta=0.3, solver="closed", **params).fit(X, y)
    ridge = KernelRidge(alpha=0.3, **params).fit(X, np.eye(len(y)))
    np.testing.assert_allclose(model.representation(points), ridge.predict(points), atol=1e-10)


def test_without_scatter_the_representation_is_ridge_regression_onto_the_samples():
    """Remark 1: at α = 0 a point is regressed on the training samples, which are the columns."""
    X, y = samples([6, 4, 1], 0, n_features=8)
    points = X[::3] + 0.2
    for solver in ("closed", "scatter"):
        model = DRMClassifier(alpha=0, beta=0.3, kernel="linear", solver=solver).fit(X, y)
        ridge = Ridge(alpha=0.3, fit_intercept=False).fit(X.T, points.T)
        np.testing.assert_allclose(model.representation(points), ridge.coef_, atol=1e-10)


def test_without_scatter_and_with_the_lasso_penalty_it_is_sparse_representation():
    """Remark 1: ½‖x − Aw‖² + β‖w‖₁."""
    X, y = samples([6, 4, 2], 0, n_features=8)
    point = X[0] + 0.2
    params = {"alpha": 0, "beta": 2.0, "kernel": "linear", "penalty": "lasso"}
    params |= {"tol": 1e-12, "max_iter": 100_000, "probability": False}
    model = DRMClassifier(**params).fit(X, y)
    w = cp.Variable(len(y))
    objective = 0.5 * cp.sum_squares(point - X.T @ w) + 2.0 * cp.norm1(w)
    cp.Problem(cp.Minimize(objective)).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    found = model.representation(point[None])[0]
    np.testing.assert_allclose(found, w.value, atol=1e-6)
    assert np.sum(found == 0) >= 4
    np.testing.assert_array_equal(found == 0, np.abs(w.value) < 1e-6)


def test_with_scatter_the_representation_minimises_equation_4():
    """½‖x − Aw‖² + αS_w(w) + ½β‖w‖² as it is written, without the kernel."""
    X, y = samples([5, 4, 1], 0)
    point = X[0] + 0.2
    w = cp.Variable(len(y))
    within = 0
    for c in range(3):
        own = cp.multiply(w[y == c][:, None], X[y == c])
        within += 0.5 * cp.sum_squares(own - cp.mean(own, axis=0, keepdims=True))
    objective = 0.5 * cp.sum_squares(point - X.T @ w) + 0.7 * within + 0.1 * cp.sum_squares(w)
    cp.Problem(cp.Minimize(objective)).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    for solver in ("closed", "scatter"):
        model = DRMClassifier(alpha=0.7, beta=0.2, kernel="linear", solver=solver).fit(X, y)
        np.testing.assert_allclose(model.representation(point[None])[0], w.value, atol=1e-6)
