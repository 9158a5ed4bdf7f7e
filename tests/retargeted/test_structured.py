"""Rank and row-sparsity of the retargeted models: the convex optimum, and stationary points."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from discreg import DLSRClassifier, GReLSRClassifier, ReLSRClassifier
from discreg.retargeted import retarget

MODELS = [DLSRClassifier, ReLSRClassifier, GReLSRClassifier]


def problem(name):
    if name == "wide":
        rng = np.random.default_rng(0)
        y = np.arange(30) % 3
        X = rng.normal(size=(30, 50))
        X[:, :5] += 2 * rng.normal(size=(3, 5))[y]
        return X, y
    X, y = {"iris": load_iris, "wine": load_wine, "digits": load_digits}[name](return_X_y=True)
    return (scale(X[::9, 10:40]), y[::9]) if name == "digits" else (scale(X), y)


def least_squares(model, X, y, W, b, beta, weights):
    """The objective for given coefficients, its targets by the public target rule."""
    scores = X @ W + b
    if isinstance(model, DLSRClassifier):
        targets = retarget(scores, y, rule="dlsr")
        extra = 0.0
    else:
        group_penalty = getattr(model, "group_penalty", 0.0)
        targets = retarget(scores, y, group_penalty=group_penalty, sample_weight=weights)
        moved = targets[np.arange(len(y)), y] - 1
        means = np.bincount(y, weights * moved) / np.bincount(y, weights)
        extra = group_penalty * weights @ (moved - means[y]) ** 2
    return weights @ np.sum((scores - targets) ** 2, axis=1) + extra


def sparse_optimum(model, X, y, beta, weights, fit_intercept):
    """The least objective with a penalty on row norms, by an interior-point method."""
    n_samples, n_classes = len(y), y.max() + 1
    W, b = cp.Variable((X.shape[1], n_classes)), cp.Variable((1, n_classes))
    T, centres = cp.Variable((n_samples, n_classes)), cp.Variable(n_classes)
    true = np.eye(n_classes)[y]
    false = np.nonzero(true == 0)
    own = cp.sum(cp.multiply(true, T), axis=1)
    constraints = [] if fit_intercept else [b == 0]
    if isinstance(model, DLSRClassifier):
        constraints += [own >= 1, T[false] <= 0]
    else:
        margins = cp.reshape(own, (n_samples, 1), order="C") - T
        constraints += [margins[false] >= 1]
    root = np.sqrt(weights)
    residuals = cp.multiply(root[:, None], X @ W + np.ones((n_samples, 1)) @ b - T)
    value = cp.sum_squares(residuals) + beta * cp.sum(cp.norm(W, 2, axis=1))
    if isinstance(model, GReLSRClassifier):
        spread = cp.multiply(root, own - 1 - true @ centres)
        value += model.group_penalty * cp.sum_squares(spread)
    program = cp.Problem(cp.Minimize(value), constraints)
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return program.value


def raw(model):
    """Coefficients with one column per class, and intercepts."""
    return model.coef_.T, model.intercept_


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", ["iris", pytest.param("wine", marks=pytest.mark.full), "wide"])
@pytest.mark.parametrize("kind", MODELS)
def test_l21_reaches_the_convex_optimum(kind, name, fit_intercept, weighted):
    X, y = problem(name)
    weights = np.ones(len(y))
    if weighted:
        weights = np.random.default_rng(0).uniform(0.3, 2.0, len(y))
    beta = 3.0
    model = kind(
        penalty="l21", beta=beta, scale_beta=False, fit_intercept=fit_intercept, tol=1e-8
    ).fit(X, y, sample_weight=weights)
    W, b = raw(model)
    value = least_squares(model, X, y, W, b, beta, weights)
    value += beta * np.linalg.norm(W, axis=1).sum()
    least = sparse_optimum(model, X, y, beta, weights, fit_intercept)
    assert value == pytest.approx(least, rel=1e-6)
    assert model.gap_ <= 1e-8
    assert model.objective_history_[-1] == pytest.approx(value, rel=1e-8)
    assert np.all(np.diff(model.objective_history_) <= 0)
    assert model.solver_ == "alternating"


@pytest.mark.parametrize("kind", MODELS)
def test_l21_gap_is_rigorous_on_the_way(kind):
    """Stopped early, the reported gap is never below the true one."""
    X, y = problem("wine")
    least = kind(penalty="l21", beta=0.05, tol=1e-9).fit(X, y).objective_history_[-1]
    for max_iter in (1, 2, 4, 8):
        with pytest.warns(ConvergenceWarning, match="relative optimality gap"):
            model = kind(penalty="l21", beta=0.05, tol=1e-12, max_iter=max_iter).fit(X, y)
        W, b = raw(model)
        unit = np.sqrt(len(y) * np.sum((X - X.mean(axis=0)) ** 2) / X.shape[1])
        value = least_squares(model, X, y, W, b, 0.0, np.ones(len(y)))
        value += 0.05 * unit * np.linalg.norm(W, axis=1).sum()
        assert (value - least) / value <= model.gap_ + 1e-9
        assert model.gap_ <= 1


def test_l21_leaves_out_features():
    X, y = problem("wide")
    model = ReLSRClassifier(penalty="l21", beta=0.3).fit(X, y)
    used = np.flatnonzero(model.coef_.any(axis=0))
    assert 0 < len(used) < 15
    assert set(used) & set(range(5))
    none = ReLSRClassifier(penalty="l21", beta=1e3).fit(X, y)
    np.testing.assert_array_equal(none.coef_, 0)


@pytest.mark.parametrize("kind", MODELS)
def test_rank_is_kept_and_stationary(kind):
    """Regression of that rank onto the learnt targets gives the coefficients back."""
    X, y = problem("digits")
    beta, rank = 5.0, 4
    model = kind(rank=rank, beta=beta, scale_beta=False, tol=1e-10, max_iter=5000).fit(X, y)
    W, _ = raw(model)
    assert np.linalg.matrix_rank(W, tol=1e-8) == rank
    assert model.gap_ <= 1e-10
    assert np.all(np.diff(model.objective_history_) <= 0)
    centred = X - X.mean(axis=0)
    full = np.linalg.solve(
        centred.T @ centred + beta * np.eye(X.shape[1]), centred.T @ model.targets_
    )
    _, V = np.linalg.eigh(model.targets_.T @ centred @ full)
    top = V[:, ::-1][:, :rank]
    np.testing.assert_allclose(W, full @ top @ top.T, atol=1e-4)
    value = least_squares(model, X, y, *raw(model), beta, np.ones(len(y))) + beta * np.sum(W**2)
    assert value == pytest.approx(model.objective_history_[-1], rel=1e-8)


@pytest.mark.parametrize("kind", MODELS)
def test_rank_costs_and_the_largest_is_free(kind):
    X, y = problem("digits")
    free = kind(tol=1e-9).fit(X, y).objective_history_[-1]
    values = [
        kind(rank=rank, tol=1e-9, max_iter=5000).fit(X, y).objective_history_[-1]
        for rank in (2, 5, 9)
    ]
    assert values[0] > values[1] > values[2] >= free * (1 - 1e-9)
    model = kind(rank=10, tol=1e-9, max_iter=5000).fit(X, y)
    assert model.objective_history_[-1] == pytest.approx(free, rel=1e-7)


@pytest.mark.parametrize("params", [{}, {"penalty": "l21"}])
@pytest.mark.parametrize("kind", MODELS)
def test_the_largest_rank_is_the_number_of_classes(kind, params):
    X, y = problem("iris")
    X, y = X[y < 2], y[y < 2]
    free = kind(tol=1e-9, **params).fit(X, y)
    model = kind(rank=2, tol=1e-9, **params).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), free.decision_function(X), atol=1e-4)
    with pytest.raises(ValueError, match="largest rank of these data is 2"):
        kind(rank=3, **params).fit(X, y)


@pytest.mark.parametrize("kind", MODELS)
def test_rank_and_few_features_together(kind):
    X, y = problem("digits")
    model = kind(penalty="l21", rank=3, beta=0.1, tol=1e-6, max_iter=5000).fit(X, y)
    assert np.linalg.matrix_rank(model.coef_, tol=1e-8) == 3
    assert 0 < np.count_nonzero(model.coef_.any(axis=0)) < X.shape[1]
    assert model.gap_ <= 1e-6
    assert np.all(np.diff(model.objective_history_) <= 0)
    full = kind(penalty="l21", beta=0.1).fit(X, y)
    assert model.objective_history_[-1] > full.objective_history_[-1]


def test_rank_with_a_kernel_equals_rank_of_its_features():
    X, y = problem("wine")
    linear = ReLSRClassifier(rank=1, beta=2.0, scale_beta=False, tol=1e-10, max_iter=5000)
    kernel = ReLSRClassifier(**(linear.get_params() | {"kernel": "precomputed"}))
    scores = linear.fit(X, y).decision_function(X)
    np.testing.assert_allclose(kernel.fit(X @ X.T, y).decision_function(X @ X.T), scores, atol=1e-4)


@pytest.mark.parametrize("name", ["wine", "wide"])
def test_sparse_equals_dense(name):
    X, y = problem(name)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    for params in ({"penalty": "l21"}, {"rank": 1}):
        dense = ReLSRClassifier(**params, tol=1e-9, max_iter=5000).fit(X, y)
        other = ReLSRClassifier(**params, tol=1e-9, max_iter=5000).fit(sparse.csr_array(X), y)
        np.testing.assert_allclose(
            other.decision_function(X), dense.decision_function(X), atol=1e-3
        )


@pytest.mark.parametrize("params", [{"penalty": "l21"}, {"rank": 1}])
@pytest.mark.parametrize("kind", MODELS)
def test_weights_are_copies(kind, params):
    X, y = problem("wine")
    copies = np.random.default_rng(0).integers(1, 4, size=len(y))
    weighted = kind(**params).fit(X, y, sample_weight=copies)
    repeated = kind(**params).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(
        repeated.decision_function(X), weighted.decision_function(X), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"penalty": "l1"}, "'penalty' parameter"),
        ({"penalty": "l21", "kernel": "rbf"}, "kernel='linear'"),
        ({"penalty": "l21", "solver": "newton"}, "solver='auto'"),
        ({"rank": 1, "solver": "newton"}, "solver='auto'"),
        ({"penalty": "l21", "beta": 0}, "needs beta > 0"),
        ({"rank": 0}, "'rank' parameter"),
        ({"rank": 4}, "largest rank of these data is 3"),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, y = problem("iris")
    with pytest.raises(ValueError, match=message):
        ReLSRClassifier(**params).fit(X, y)


@pytest.mark.parametrize("params", [{"penalty": "l21"}, {"rank": 1}])
def test_zero_tolerance_ends_with_rounding(params):
    X, y = problem("iris")
    model = ReLSRClassifier(**params, tol=0, max_iter=5000).fit(X, y)
    assert model.gap_ < 1e-10
    assert model.n_iter_ < 5000


@pytest.mark.parametrize("params", [{}, {"penalty": "l21"}])
def test_warm_start_of_a_higher_rank_is_no_start(params):
    X, y = problem("digits")
    for kind in MODELS:
        model = kind(warm_start=True, **params).fit(X, y)
        model.set_params(rank=2).fit(X, y)
        assert np.linalg.matrix_rank(model.coef_, tol=1e-8) == 2
        cold = kind(rank=2, **params).fit(X, y)
        assert model.objective_history_[-1] == pytest.approx(cold.objective_history_[-1], rel=0.02)


def test_warm_start_goes_on():
    X, y = problem("digits")
    model = ReLSRClassifier(penalty="l21", warm_start=True).fit(X, y)
    assert model.n_iter_ > 3
    assert model.fit(X, y).n_iter_ <= 2
