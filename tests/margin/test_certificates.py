"""The gap that a fit reports bounds its distance to the optimum, and the theorems bound errors."""

import warnings

import numpy as np
import pytest
from margin_oracles import (
    kernel_features,
    ldm_hessian,
    ldm_objective,
    ldm_optimum,
    odm_newton,
    odm_objective,
    odm_optimum,
)
from margin_problems import (
    LDM,
    ODM,
    every_model,
    make,
    two_classes,
    with_and_without_intercept,
)
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from discreg import LDMClassifier, ODMClassifier

# The certificate ----------------------------------------------------------------------------------


def fit_quietly(model, X, y, **params):
    """The fitted model, and whether it said that it stopped early."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, **params)
    assert all(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert all("gap" in str(w.message) for w in caught)
    return model, bool(caught)


def assert_certified(model, warned, reached, best):
    """``gap_`` bounds the relative distance to the optimum; above tol there is a warning."""
    assert reached - best <= (model.gap_ + 1e-12) * abs(reached)
    assert model.gap_ >= 0
    assert warned == (model.gap_ > model.tol)


@pytest.mark.parametrize("solver", ["dcd", "newton", "svrg"])
@with_and_without_intercept
@pytest.mark.parametrize("max_iter", [1, 3, 1000])
def test_gap_bounds_the_distance_to_the_optimum_of_odm(solver, fit_intercept, max_iter):
    X, y = two_classes()
    best = odm_optimum(X, y, fit_intercept=fit_intercept, **ODM).objective
    model = make("odm", kernel="linear", solver=solver, fit_intercept=fit_intercept, random_state=0)
    model, warned = fit_quietly(model.set_params(max_iter=max_iter), X, y)
    reached = odm_objective(X, y, model.coef_[0], model.intercept_[0], **ODM)
    assert_certified(model, warned, reached, best)
    assert not warned or max_iter < 1000


@every_model
@with_and_without_intercept
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_gap_in_single_precision_is_that_of_the_stored_coefficients(name, fit_intercept, kernel):
    X, y = two_classes()
    X = (X + 100.0 * (kernel == "linear")).astype(np.float32)
    gamma = "scale" if kernel == "linear" else 0.3
    model = make(name, kernel=kernel, gamma=gamma, fit_intercept=fit_intercept, tol=0)
    exact = clone(model).fit(X.astype(np.float64), y)
    model.fit(X, y)
    rounding = model.objective_ - exact.objective_
    unit = model.objective_ + (LDM["lambda2"] * model.margins_.mean if name == "ldm" else 0.0)
    assert model.gap_ == pytest.approx(rounding / unit, rel=1e-2, abs=1e-14)
    assert model.gap_ > exact.gap_
    objective = odm_objective if name == "odm" else ldm_objective
    params = ODM if name == "odm" else LDM
    intercept = float(model.intercept_[0])
    if kernel == "linear":
        reached = objective(X.astype(float), y, model.coef_[0].astype(float), intercept, **params)
    else:
        theta = np.zeros(len(y))
        theta[model.support_] = model.dual_coef_[0]
        gram = exact._kernel(X.astype(float))
        reached = objective(gram, y, theta, intercept, gram=True, **params)
    assert model.objective_ == pytest.approx(reached, rel=1e-12)


@every_model
@pytest.mark.parametrize("penalty", [1e2, 1e6])
def test_the_objective_is_that_of_the_coefficients(name, penalty):
    X, y = two_classes(n=1_100)
    params = {"C1": penalty, "C2": penalty, "D": 0.2}
    if name == "ldm":
        params = {"C": penalty, "lambda1": 1.0, "lambda2": 0.3}
    model = make(name, gamma=0.3, tol=1e-2, random_state=0, **params).fit(X, y)
    theta = np.zeros(len(y))
    theta[model.support_] = model.dual_coef_[0]
    objective = odm_objective if name == "odm" else ldm_objective
    reached = objective(model._kernel(X), y, theta, model.intercept_[0], gram=True, **params)
    error = abs(reached - model.objective_) / abs(reached)
    assert error <= 1e-9


@pytest.mark.parametrize("solver", ["dcd", "svrg"])
@with_and_without_intercept
@pytest.mark.parametrize("max_iter", [1, 3, 1000])
def test_gap_bounds_the_distance_to_the_optimum_of_ldm(solver, fit_intercept, max_iter):
    X, y = two_classes()
    best = ldm_optimum(X, y, fit_intercept=fit_intercept, **LDM).objective
    model = make("ldm", kernel="linear", solver=solver, fit_intercept=fit_intercept, random_state=0)
    model, warned = fit_quietly(model.set_params(max_iter=max_iter), X, y)
    reached = ldm_objective(X, y, model.coef_[0], model.intercept_[0], **LDM)
    assert_certified(model, warned, reached, best)
    assert not warned or max_iter < 1000 or solver == "svrg"


def wide_sparse():
    """More than a thousand rows and features: too large for an exact finish."""
    rng = np.random.default_rng(0)
    dense = np.where(rng.random(size=(1010, 1020)) < 0.01, rng.random(size=(1010, 1020)), 0)
    X = sparse.csr_array(dense)
    y = np.where(X @ rng.normal(size=1020) + 0.3 * rng.normal(size=1010) > 0.1, 1, -1)
    return X, y


@pytest.mark.parametrize("solver", ["dcd", "newton", "svrg"])
@with_and_without_intercept
def test_gap_of_odm_that_stopped_early_on_many_rows_and_features(solver, fit_intercept):
    X, y = wide_sparse()
    params = {"C1": 300.0, "C2": 100.0, "D": 0.1}
    best = odm_newton(X.toarray(), y, fit_intercept=fit_intercept, **params)
    assert best.gap <= 1e-9 * best.objective
    model = ODMClassifier(
        probability=False,
        **params,
        kernel="linear",
        solver=solver,
        fit_intercept=fit_intercept,
        random_state=0,
    )
    for tol, max_iter in ((1e-3, 1), (1e-3, 4), (1e-3, 1000), (1e-7, 1000)):
        model.set_params(tol=tol, max_iter=max_iter)
        if solver == "svrg" and tol < 1e-3:
            continue
        model, warned = fit_quietly(model, X, y)
        coef, intercept = model.coef_[0], model.intercept_[0]
        reached = odm_objective(X, y, coef, intercept, **params)
        assert model.objective_ == pytest.approx(reached, rel=1e-9)
        assert_certified(model, warned, reached, best.objective)
        assert warned or max_iter > 1
        assert not warned or max_iter < 1000


def noisy_circle(n_samples):
    random = np.random.default_rng(5)
    X = random.standard_normal((n_samples, 4))
    noise = 0.3 * random.standard_normal(n_samples)
    return X, np.where(X[:, 0] ** 2 + X[:, 1] + noise > 0.7, 1, -1)


def test_on_a_kernel_matrix_the_intercept_is_found_along_with_the_multipliers():
    X, y = noisy_circle(1_500)
    model = ODMClassifier(probability=False, tol=1e-6, random_state=0).fit(X, y)
    assert model.gap_ <= 1e-6
    assert abs(model.dual_coef_.sum()) <= 1e-12 * np.abs(model.dual_coef_).sum()


def test_ldm_without_lambdas_on_many_rows_is_within_its_gap_of_the_support_vector_machine():
    X, y = wide_sparse()
    X = X[:, :30].toarray() + np.random.default_rng(1).normal(size=(1010, 30)) / 3
    params = {"C": 1000.0, "lambda1": 0.0, "lambda2": 0.0}
    svm = SVC(gamma=0.1, C=1000.0 / 1010, tol=1e-9).fit(X, y)
    K = rbf_kernel(X, gamma=0.1)
    theta = np.zeros(1010)
    theta[svm.support_] = svm.dual_coef_[0]
    best = ldm_objective(K, y, theta, svm.intercept_[0], gram=True, **params)
    model = LDMClassifier(probability=False, **params, gamma=0.1, random_state=0)
    for max_iter in (1, 5, 1000):
        model, warned = fit_quietly(model.set_params(max_iter=max_iter), X, y)
        theta = np.zeros(1010)
        theta[model.support_] = model.dual_coef_[0]
        reached = ldm_objective(K, y, theta, model.intercept_[0], gram=True, **params)
        assert reached >= best * (1 - 1e-8)
        assert_certified(model, warned, reached, best)
    assert not warned


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize(
    "params",
    [
        {"C": 1000.0, "lambda1": 1000.0, "lambda2": 0.0},
        {"C": 10.0, "lambda1": 0.5, "lambda2": 0.3},
        {"C": 1000.0, "lambda1": 1e5, "lambda2": 0.0},  # needs the factorisation
    ],
)
def test_ldm_on_many_rows_is_within_its_gap_of_the_optimum(params, tol):
    X, y = noisy_circle(1_100)
    weights = np.random.default_rng(7).integers(1, 4, len(y))
    best = LDMClassifier(probability=False, **params, gamma=0.3, solver="active_set", tol=1e-9).fit(
        X, y, weights
    )
    K = rbf_kernel(X, gamma=0.3)
    rounding = 1e-9
    for max_iter in (2, 1000):
        model = LDMClassifier(
            probability=False, **params, gamma=0.3, tol=tol, max_iter=max_iter, random_state=0
        )
        model, warned = fit_quietly(model, X, y, sample_weight=weights)
        theta, intercept = model.dual_coef_[0], model.intercept_[0]
        reached = ldm_objective(K, y, theta, intercept, gram=True, weights=weights, **params)
        assert model.objective_ == pytest.approx(reached, rel=rounding)
        assert reached >= best.objective_ * (1 - 1e-9)
        assert reached - best.objective_ <= (model.gap_ + rounding) * reached
        assert warned == (model.gap_ > tol)
        assert model.n_iter_ <= max_iter
        assert abs(theta.sum()) <= 1e-9 * np.abs(theta).sum()
    assert not warned


def test_ldm_on_many_rows_continues_from_the_previous_fit():
    X, y = noisy_circle(1_100)
    warm = LDMClassifier(probability=False, warm_start=True, tol=1e-5, random_state=0).fit(X, y)
    first = warm.n_iter_
    assert warm.fit(X, y).n_iter_ < first / 2
    warm.set_params(C=800.0).fit(X, y)
    cold = LDMClassifier(probability=False, C=800.0, tol=1e-5, random_state=0).fit(X, y)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-5)


# Bounds on the leave-one-out error ----------------------------------------------------------------

BOUND_CASES = [(0.3, 40, "linear"), (0.8, 3, "rbf")]


def bound_problem(apart, p, kernel):
    X, y = two_classes(n=25, p=p, seed=p, apart=apart)
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.4)
    return X, y, K, kernel_features(K)


@pytest.mark.parametrize(("apart", "p", "kernel"), BOUND_CASES)
@pytest.mark.parametrize(
    "params",
    [
        {"C1": 1.0, "C2": 1.0, "D": 0.0},
        {"C1": 5.0, "C2": 2.0, "D": 0.3},
        {"C1": 30.0, "C2": 100.0, "D": 0.7},
    ],
)
def test_bound_of_theorem_3_holds_for_the_leave_one_out_error(apart, p, kernel, params):
    """Refits without a row keep C/m. The bound is (32) with no negative terms, or less."""
    X, y, K, F = bound_problem(apart, p, kernel)
    m = len(y)
    smaller = {**params, "C1": params["C1"] * (m - 1) / m, "C2": params["C2"] * (m - 1) / m}
    errors = 0
    for i in range(m):
        rest = np.arange(m) != i
        coef = odm_newton(F[rest], y[rest], fit_intercept=False, **smaller).coef
        errors += y[i] * (F[i] @ coef) <= 0
    model = ODMClassifier(
        probability=False, **params, kernel=kernel, gamma=0.4, fit_intercept=False
    ).fit(X, y)
    a = odm_optimum(F, y, fit_intercept=False, **params).multipliers
    D, cost = params["D"], np.where(a > 0, params["C1"], params["C2"])
    terms = np.abs(a) * (np.diag(K) + m / (2 * cost)) + np.sign(a) * D
    assert isinstance(model.loo_error_bound_, float)
    assert errors / m <= model.loo_error_bound_ + 1e-9
    assert model.loo_error_bound_ <= np.maximum(0, terms).sum() / m + 1e-7


@pytest.mark.parametrize(("apart", "p", "kernel"), BOUND_CASES)
@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"C": 1.0, "lambda1": 0.0, "lambda2": 0.0}, marks=pytest.mark.full),
        {"C": 10.0, "lambda1": 0.5, "lambda2": 0.3},
        pytest.param({"C": 100.0, "lambda1": 10.0, "lambda2": 1.0}, marks=pytest.mark.full),
    ],
)
def test_bound_of_theorem_2_holds_without_the_multiplier_of_a_row(apart, p, kernel, params):
    """α_i = 0: the row has no hinge loss, but stays in mean and variance. (31), or less."""
    X, y, K, F = bound_problem(apart, p, kernel)
    m = len(y)
    errors = 0
    for i in range(m):
        hinged = np.arange(m) != i
        left = ldm_optimum(F, y, fit_intercept=False, hinged=hinged, **params)
        errors += y[i] * left.decision[i] < -1e-7
    model = LDMClassifier(
        probability=False, **params, kernel=kernel, gamma=0.4, fit_intercept=False
    ).fit(X, y)
    alpha = ldm_optimum(F, y, fit_intercept=False, **params).multipliers
    h = np.diag(ldm_hessian(K, y, lambda1=params["lambda1"]))
    top = params["C"] / m
    terms = np.where(alpha >= top * (1 - 1e-9), 1.0, alpha * h)
    assert isinstance(model.loo_error_bound_, float)
    assert errors / m <= model.loo_error_bound_ + 1e-9
    assert model.loo_error_bound_ <= terms.sum() / m + 1e-7


@every_model
def test_no_bound_with_an_intercept(name):
    X, y = two_classes()
    model = make(name, fit_intercept=False).fit(X, y)
    assert model.loo_error_bound_ > 0
    assert not hasattr(model.set_params(fit_intercept=True).fit(X, y), "loo_error_bound_")
