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
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from discreg import LDMClassifier, ODMClassifier
from discreg.margin import _coordinate_descent, _working_set
from discreg.margin._problem import MarginSamples

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
    assert model.gap_ > 10 * exact.gap_
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
def test_rounding_of_a_kernel_matrix_is_smaller_than_the_gap(name, penalty):
    """With more than 1,000 samples the matrix may be in single precision."""
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
    assert error <= min(model.gap_, 5e-6)


@with_and_without_intercept
def test_gap_of_newton_is_nearly_attained_if_the_losses_weigh_little(fit_intercept):
    """The objective is then almost ½‖w‖² plus a linear function, for which the bound is exact."""
    X, y = two_classes()
    params = {"C1": 1e-4, "C2": 1e-4, "D": 0.2}
    best = odm_optimum(X, y, fit_intercept=fit_intercept, **params).objective
    model = ODMClassifier(**params, kernel="linear", solver="newton", fit_intercept=fit_intercept)
    model, warned = fit_quietly(model.set_params(max_iter=1, tol=1e-9), X, y)
    reached = odm_objective(X, y, model.coef_[0], model.intercept_[0], **params)
    assert_certified(model, warned, reached, best)
    assert warned
    assert model.gap_ == pytest.approx((reached - best) / reached, rel=0.01)


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
        **params, kernel="linear", solver=solver, fit_intercept=fit_intercept, random_state=0
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


@every_model
@with_and_without_intercept
def test_kernel_rows_on_demand_agree_with_the_whole_matrix(name, fit_intercept):
    """1010 rows, of which one MB holds some 130: strong convexity bounds |Δf| by √(2 gap P)."""
    X, y = wide_sparse()
    X = X[:, :30].toarray() + np.random.default_rng(1).normal(size=(1010, 30)) / 3
    params = {"gamma": 0.1, "fit_intercept": fit_intercept, "tol": 1e-7, "random_state": 0}
    whole = make(name, **params).fit(X, y)
    assert whole.gap_ <= 1e-7
    bound = 2 * np.sqrt(2 * whole.tol * abs(whole.objective_))
    for other in ({"cache_size": 1}, {"shrinking": False}, {"selection": "cyclic"}):
        model = make(name, **params, **other).fit(X, y)
        assert model.gap_ <= 1e-7
        assert model.objective_ == pytest.approx(whole.objective_, rel=2e-7)
        difference = model.decision_function(X) - whole.decision_function(X)
        # k(x, x) = 1; the intercept is not in the norm, so compare apart from it
        difference -= model.intercept_[0] - whole.intercept_[0]
        assert np.abs(difference).max() <= bound


def noisy_circle(n_samples):
    random = np.random.default_rng(5)
    X = random.standard_normal((n_samples, 4))
    noise = 0.3 * random.standard_normal(n_samples)
    return X, np.where(X[:, 0] ** 2 + X[:, 1] + noise > 0.7, 1, -1)


def exact_objective(model, X, y):
    """Objective (7) of a fitted model, with the kernel matrix in double precision."""
    theta = np.zeros(len(y))
    theta[model.support_] = model.dual_coef_[0]
    gamma = model.gamma if model.gamma != "scale" else 1 / (X.shape[1] * X.var())
    parameters = {name: getattr(model, name) for name in ("C1", "C2", "D")}
    K = rbf_kernel(X, gamma=gamma)
    return odm_objective(K, y, theta, model.intercept_[0], gram=True, **parameters)


@pytest.mark.full
@with_and_without_intercept
def test_a_kernel_matrix_in_single_precision_moves_the_optimum_by_less_than_the_gap(fit_intercept):
    X, y = noisy_circle(1_500)
    coarse = ODMClassifier(fit_intercept=fit_intercept, tol=1e-4, random_state=0).fit(X, y)
    fine = ODMClassifier(fit_intercept=fit_intercept, tol=1e-9, random_state=0).fit(X, y)
    best, reached = exact_objective(fine, X, y), exact_objective(coarse, X, y)
    assert coarse.gap_ <= 1e-4
    assert (1 - 1e-9) * best <= reached <= (1 + 1e-4) * best
    assert coarse.objective_ == pytest.approx(reached, rel=1e-5)  # rounding of its scores


def test_on_a_kernel_matrix_the_intercept_is_found_along_with_the_multipliers(monkeypatch):
    X, y = noisy_circle(1_500)
    monkeypatch.setattr(_coordinate_descent, "_enclose", None)  # not needed
    model = ODMClassifier(tol=1e-6, random_state=0).fit(X, y)
    assert model.gap_ <= 1e-6
    assert abs(model.dual_coef_.sum()) <= 1e-12 * np.abs(model.dual_coef_).sum()


def wide_strip(n_samples):
    """Two classes with a wide gap between them, so that most margins are free."""
    random = np.random.default_rng(6)
    X = random.standard_normal((n_samples, 4))
    X[:, 0] += np.sign(X[:, 0])
    return X, np.where(X[:, 0] > 0, "right", "left")


@pytest.mark.parametrize("selection", ["random", "cyclic"])
@with_and_without_intercept
def test_working_sets_lead_to_the_optimum_of_all_samples(fit_intercept, selection, monkeypatch):
    X, y = wide_strip(1_500)
    weights = np.random.default_rng(7).integers(0, 3, len(y))
    params = {"D": 0.5, "fit_intercept": fit_intercept, "random_state": 0}
    monkeypatch.setattr(MarginSamples, "gram", None)  # not needed
    model = ODMClassifier(**params, tol=1e-4, selection=selection).fit(X, y, weights)
    monkeypatch.undo()
    best = ODMClassifier(**params, tol=1e-9).fit(X, y, weights)
    assert model.gap_ <= 1e-4
    assert (1 - 1e-6) * best.objective_ <= model.objective_ <= (1 + 1e-4) * best.objective_
    assert len(model.support_) < 0.6 * np.count_nonzero(weights)
    assert_allclose(model.decision_function(X), best.decision_function(X), atol=0.02)


def test_a_first_working_set_without_the_rare_class_is_mended(monkeypatch):
    X, y = wide_strip(1_500)
    kept = np.flatnonzero((y == "left") | (np.cumsum(y == "right") <= 5))
    X, y = X[kept], y[kept]
    assert len(y) > 700
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    X += 0.01 * np.random.default_rng(8).standard_normal(X.shape)
    common = np.flatnonzero(y == "left")
    monkeypatch.setattr(_working_set, "_first_working_set", lambda *_: common[:50])
    found = ODMClassifier(tol=1e-4, random_state=0).fit(X, y)
    best = ODMClassifier(tol=1e-9, random_state=0).fit(X, y)
    assert found.gap_ <= 1e-4
    assert found.objective_ == pytest.approx(best.objective_, rel=1.01e-4)


def test_a_working_set_that_does_not_fit_into_the_cache_is_left_to_single_rows():
    X, y = wide_strip(1_500)
    model = ODMClassifier(D=0.5, tol=1e-3, random_state=0)
    small = clone(model).set_params(cache_size=0.2).fit(X, y)
    assert small.gap_ <= 1e-3
    assert small.objective_ == pytest.approx(model.fit(X, y).objective_, rel=2e-3)


def test_features_too_far_apart_for_single_precision_keep_double():
    X, y = noisy_circle(1_200)
    X[0] = 3e4  # with it the others would lose all but two digits of their distances
    model = ODMClassifier(gamma=0.25, tol=1e-4, random_state=0).fit(X, y)
    assert model.objective_ == pytest.approx(exact_objective(model, X, y), rel=1e-10)


def test_ldm_without_lambdas_on_many_rows_is_within_its_gap_of_the_support_vector_machine():
    X, y = wide_sparse()
    X = X[:, :30].toarray() + np.random.default_rng(1).normal(size=(1010, 30)) / 3
    params = {"C": 1000.0, "lambda1": 0.0, "lambda2": 0.0}
    svm = SVC(gamma=0.1, C=1000.0 / 1010, tol=1e-9).fit(X, y)
    K = rbf_kernel(X, gamma=0.1)
    theta = np.zeros(1010)
    theta[svm.support_] = svm.dual_coef_[0]
    best = ldm_objective(K, y, theta, svm.intercept_[0], gram=True, **params)
    model = LDMClassifier(**params, gamma=0.1, random_state=0)
    for max_iter in (1, 5, 1000):
        model, warned = fit_quietly(model.set_params(max_iter=max_iter), X, y)
        theta = np.zeros(1010)
        theta[model.support_] = model.dual_coef_[0]
        reached = ldm_objective(K, y, theta, model.intercept_[0], gram=True, **params)
        assert reached >= best * (1 - 1e-8)
        assert_certified(model, warned, reached, best)
    assert not warned


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6])  # the first two in single precision
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
    best = LDMClassifier(**params, gamma=0.3, solver="active_set", tol=1e-9).fit(X, y, weights)
    K = rbf_kernel(X, gamma=0.3)
    rounding = 1e-6 if tol > 1e-4 else 1e-9
    for max_iter in (2, 1000):
        model = LDMClassifier(**params, gamma=0.3, tol=tol, max_iter=max_iter, random_state=0)
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
    warm = LDMClassifier(warm_start=True, tol=1e-5, random_state=0).fit(X, y)
    first = warm.n_iter_
    assert warm.fit(X, y).n_iter_ < first / 2
    warm.set_params(C=800.0).fit(X, y)
    cold = LDMClassifier(C=800.0, tol=1e-5, random_state=0).fit(X, y)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-5)


# Bounds on the leave-one-out error ----------------------------------------------------------------

BOUND_CASES = [(0.3, 3, "linear"), (1.5, 3, "linear"), (0.3, 40, "linear"), (0.8, 3, "rbf")]


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
    model = ODMClassifier(**params, kernel=kernel, gamma=0.4, fit_intercept=False).fit(X, y)
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
    model = LDMClassifier(**params, kernel=kernel, gamma=0.4, fit_intercept=False).fit(X, y)
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
