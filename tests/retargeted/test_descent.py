"""Dual coordinate descent solves the retargeted models with a kernel, with a certificate."""

import numpy as np
import pytest
from oracles import convex_optimum
from scipy import sparse
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from discreg import DLSRClassifier, GReLSRClassifier, ReLSRClassifier

MODELS = {
    "dlsr": DLSRClassifier(),
    "relsr": ReLSRClassifier(),
    "grelsr": GReLSRClassifier(group_penalty=0.7),
}


def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def model(name, **params):
    defaults = {"kernel": "rbf", "solver": "dcd", "beta": 0.1, "scale_beta": False}
    defaults["probability"] = False
    return MODELS[name].__class__(**MODELS[name].get_params() | defaults | params)


def objective_of(fitted, X, y):
    """Compute the objective of a fitted model with an RBF kernel and without sample weights."""
    K = rbf_kernel(X, fitted.X_fit_, gamma=fitted._kernel.gamma)
    square = np.vdot(fitted.dual_coef_.T, (K @ fitted.dual_coef_.T)[fitted.support_])
    at = fitted._loss().evaluate(fitted.decision_function(X), y, np.ones(len(y)))
    return at.value + fitted.beta * square


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_inner_products_as_kernel_give_the_linear_optimum(name, weighted, fit_intercept):
    X, y = wine()
    X = X[:, :6]
    weights = np.random.default_rng(0).uniform(0.2, 3, size=len(y)) if weighted else None
    optimum = convex_optimum(
        name, X, y, 2.0, weights=weights, group_penalty=0.7, fit_intercept=fit_intercept
    )
    fitted = model(
        name, kernel="precomputed", beta=2.0, tol=1e-10, fit_intercept=fit_intercept
    ).fit(X @ X.T, y, sample_weight=weights)
    assert fitted.solver_ == "dcd"
    assert fitted.gap_ <= 1e-10
    assert fitted.objective_history_[-1] == pytest.approx(optimum.objective, rel=1e-7)
    scores = X @ optimum.coef + optimum.intercept
    differences = fitted.decision_function(X @ X.T) - scores
    if name != "dlsr":  # adding a constant to all scores does not change the objective
        differences -= differences.mean()
    np.testing.assert_allclose(differences, 0, atol=1e-4)


@pytest.mark.parametrize("beta", [10.0, 0.1, 0.001])
@pytest.mark.parametrize("name", MODELS)
def test_newtons_method_finds_the_same_scores(name, beta):
    X, y = wine()
    descent = model(name, beta=beta, tol=1e-12).fit(X, y)
    newton = model(name, beta=beta, solver="newton").fit(X, y)
    assert newton.solver_ == "newton"
    np.testing.assert_allclose(descent.decision_function(X), newton.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("name", MODELS)
def test_the_gap_bounds_the_distance_from_the_minimum(name, tol):
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    minimum = model(name, tol=1e-12, max_iter=5000).fit(X, y).objective_history_[-1]
    fitted = model(name, tol=tol).fit(X, y)
    objective = objective_of(fitted, X, y)
    assert (objective - minimum) / objective <= fitted.gap_ <= tol
    assert fitted.gap_ > 1e-3 * tol


@pytest.mark.filterwarnings("ignore:.* stopped at a relative optimality gap")
@pytest.mark.parametrize("group_penalty", [0.01, 1.0, 100.0])
def test_the_gap_is_rigorous_after_any_number_of_sweeps(group_penalty):
    X, y = wine()
    params = {"group_penalty": group_penalty, "tol": 1e-12, "beta": 0.01}
    minimum = model("grelsr", max_iter=20_000, **params).fit(X, y).objective_history_[-1]
    for n_sweeps in (1, 2, 3, 5, 8, 12, 20):
        fitted = model("grelsr", max_iter=n_sweeps, **params).fit(X, y)
        objective = objective_of(fitted, X, y)
        assert (objective - minimum) / objective <= fitted.gap_


def test_an_indefinite_kernel_is_refused():
    X, y = wine()
    with pytest.raises(ValueError, match="not positive semi-definite"):
        model("dlsr", kernel="sigmoid", gamma=0.1, coef0=0).fit(X, y)


@pytest.mark.parametrize("name", MODELS)
def test_a_large_penalty_leaves_the_intercept(name):
    X, y = wine()
    heavy = model(name, beta=1e9).fit(X, y)
    constant = model(name).fit(np.ones_like(X), y)
    assert max(heavy.gap_, constant.gap_) <= 1e-6
    newton = model(name, beta=1e9, solver="newton").fit(X, y)
    for scores in (heavy.decision_function(X), constant.decision_function(np.ones_like(X))):
        np.testing.assert_allclose(scores, newton.decision_function(X), atol=1e-3)


def test_the_number_of_sweeps_is_limited():
    X, y = wine()
    with pytest.warns(ConvergenceWarning):
        one = model("relsr", max_iter=1).fit(X, y)
    assert one.n_iter_ == 1
    assert one.gap_ < 1


@pytest.mark.parametrize("name", ["dlsr", "relsr"])
def test_samples_without_loss_are_not_stored(name):
    X, y = load_digits(return_X_y=True)
    fitted = model(name, beta=1e-3).fit(X[:500], y[:500])
    assert len(fitted.support_) < 500
    assert fitted.X_fit_.shape == (len(fitted.support_), 64)
    assert fitted.dual_coef_.shape == (10, len(fitted.support_))
    targets = fitted.targets_[fitted.support_]
    residuals = fitted.decision_function(X[:500])[fitted.support_] - targets
    assert np.all(np.abs(residuals).max(axis=1) > 0)
    K = rbf_kernel(X[:500], gamma=fitted._kernel.gamma)
    precomputed = model(name, kernel="precomputed", beta=1e-3).fit(K, y[:500])
    np.testing.assert_array_equal(precomputed.predict(K), fitted.predict(X[:500]))


@pytest.mark.parametrize("name", MODELS)
def test_integer_weights_repeat_samples_and_zero_weights_remove_them(name):
    X, y = wine()
    weights = np.random.default_rng(1).integers(0, 3, size=len(y))
    copies = np.repeat(np.arange(len(y)), weights)
    options = {"tol": 1e-12, "max_iter": 5000, "gamma": 0.1}
    weighted = model(name, **options).fit(X, y, sample_weight=weights)
    repeated = model(name, **options).fit(X[copies], y[copies])
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-5
    )
    assert np.all(weights[weighted.support_] > 0)


@pytest.mark.parametrize("name", MODELS)
def test_a_warm_start_needs_fewer_sweeps(name):
    X, y = wine()
    warm = model(name, warm_start=True).fit(X, y)
    cold = warm.n_iter_
    np.testing.assert_array_less(warm.fit(X, y).n_iter_, cold)
    other_labels = np.roll(y, 50)
    again = warm.fit(X, other_labels).decision_function(X)
    np.testing.assert_allclose(
        again, model(name).fit(X, other_labels).decision_function(X), atol=0.02
    )


def test_polynomial_kernels_far_from_the_origin():
    rng = np.random.default_rng(0)
    X = rng.normal(30, 1, (400, 2))
    y = (X[:, 0] > X[:, 1]).astype(int)
    fitted = ReLSRClassifier(kernel="poly", degree=2).fit(X, y)
    assert fitted.solver_ == "dcd"
    assert fitted.score(X, y) > 0.95


def test_sparse_rows_give_the_model_of_dense_rows():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    dense = model("relsr", tol=1e-10, gamma=1e-3).fit(X, y)
    fitted = model("relsr", tol=1e-10, gamma=1e-3).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(
        fitted.decision_function(sparse.csr_array(X)), dense.decision_function(X), atol=1e-4
    )


@pytest.mark.parametrize(
    ("params", "needs"),
    [
        ({"kernel": "linear"}, "a kernel other than 'linear'."),
        ({"beta": 0.0}, "beta > 0."),
        ({"within_class": 1.0}, "within_class=0."),
    ],
)
def test_dcd_names_what_it_needs(params, needs):
    with pytest.raises(ValueError, match=f"solver='dcd' needs {needs} Use"):
        model("relsr", **params).fit(*wine())


def contradictions():
    """Every point has two labels, so that all samples have a loss."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(50, 3))
    return np.vstack([points, points]), rng.integers(0, 3, size=100)


@pytest.mark.parametrize("name", MODELS)
def test_descent_without_progress_stops_with_the_right_advice(name):
    X, y = contradictions()
    with pytest.warns(ConvergenceWarning, match="More iterations do not help. Use solver='newton'"):
        stopped = model(name, beta=1e-7).fit(X, y)
    assert stopped.n_iter_ < stopped.max_iter
    best = model(name, beta=1e-7, solver="newton").fit(X, y)
    minimum = best.objective_history_[-1]
    objective = stopped.objective_history_[-1]
    assert (objective - minimum) / objective <= stopped.gap_


def test_a_warm_start_after_another_solver_is_a_new_start():
    X, y = wine()
    newton = model("relsr", solver="newton", fit_intercept=False, warm_start=True).fit(X, y)
    cold = model("relsr", fit_intercept=False).fit(X, y)
    warm = newton.set_params(solver="dcd").fit(X, y)
    assert warm.n_iter_ == cold.n_iter_
    np.testing.assert_array_equal(warm.decision_function(X), cold.decision_function(X))
