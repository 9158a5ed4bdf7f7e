"""ODM and LDM reach the optima of (7) and (5) that convex programming finds."""

import numpy as np
import pytest
from margin_oracles import (
    kernel_features,
    ldm_objective,
    ldm_optimum,
    odm_newton,
    odm_objective,
    odm_optimum,
    shares,
)
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVC, LinearSVC

from discreg import LDMClassifier, ODMClassifier
from discreg.margin import _ldm

ODM = {"C1": 8.0, "C2": 2.0, "D": 0.2}
LDM = {"C": 10.0, "lambda1": 0.5, "lambda2": 0.3}
# name: rows, features, kernel parameters of the estimator
SHAPES = {
    "linear, n > p": (50, 4, {"kernel": "linear"}),
    "linear, p > n": (20, 45, {"kernel": "linear"}),
    "rbf": (40, 5, {"kernel": "rbf", "gamma": 0.3}),
    "poly, rank < n": (40, 3, {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 0.7}),
    "precomputed": (40, 5, {"kernel": "precomputed"}),
}
every_shape = pytest.mark.parametrize("shape", SHAPES)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])
with_and_without_weights = pytest.mark.parametrize("weighted", [True, False])


def problem(shape):
    """X for the estimator, F with F Fᵀ its kernel matrix, K, labels ±1, and weights."""
    n, p, params = SHAPES[shape]
    rng = np.random.default_rng(len(shape))
    y = np.where(rng.permutation(n) % 5 < 3, 1.0, -1.0)
    X = rng.normal(size=(n, p))
    X[:, :2] += 0.6 * y[:, None]
    X[:, 0] += 0.5
    weights = rng.uniform(0.2, 3, size=n)
    if shape == "rbf":
        K = rbf_kernel(X, gamma=0.3)
    elif shape == "precomputed":
        X = K = laplacian_kernel(X, gamma=0.2)
    elif shape == "poly, rank < n":
        K = polynomial_kernel(X, gamma=0.5, degree=2, coef0=0.7)
    else:
        return X, X, X @ X.T, y, weights
    return X, kernel_features(K), K, y, weights


def coefficients(model, n_samples):
    """w with a feature space, θ of every training sample without."""
    if model.kernel == "linear":
        return model.coef_[0]
    theta = np.zeros(n_samples)
    theta[model.support_] = model.dual_coef_[0]
    return theta


def assert_optimal(model, objective, optimum, X, K, y, weights, params):
    assert optimum.gap <= 1e-9 * abs(optimum.objective)
    gram = model.kernel != "linear"
    coef, intercept = coefficients(model, len(y)), model.intercept_[0]
    reached = objective(K if gram else X, y, coef, intercept, weights=weights, gram=gram, **params)
    assert abs(reached - optimum.objective) <= 1e-7 * abs(optimum.objective)
    assert model.objective_ == pytest.approx(reached, rel=1e-9)
    assert isinstance(model.objective_, float)
    # what is solved to rounding has decisions better than the square root of the objective's error
    np.testing.assert_allclose(model.decision_function(X), optimum.decision, rtol=0, atol=1e-6)
    if not model.fit_intercept:
        np.testing.assert_array_equal(model.intercept_, [0.0])


# The oracles --------------------------------------------------------------------------------------


@every_shape
@pytest.mark.parametrize(("fit_intercept", "weighted"), [(True, True), (False, False)])
def test_oracles_agree_with_models_of_scikit_learn(shape, fit_intercept, weighted):
    """Ridge is ODM with D = 0 and C1 = C2; support vector machines are LDM without λ."""
    _, F, K, y, weights = problem(shape)
    weights = weights if weighted else None
    share = shares(y, weights)
    options = {"weights": weights, "fit_intercept": fit_intercept}
    odm = odm_optimum(F, y, C1=3.0, C2=3.0, D=0.0, **options)
    ridge = Ridge(alpha=1 / 6, fit_intercept=fit_intercept, solver="cholesky")
    ridge.fit(F, y, sample_weight=share)
    np.testing.assert_allclose(odm.decision, ridge.predict(F), atol=1e-9)
    ldm = ldm_optimum(F, y, C=10.0, lambda1=0.0, lambda2=0.0, **options)
    if fit_intercept:
        machine = SVC(kernel="precomputed", C=10.0, tol=1e-10)
        scores = machine.fit(K, y, sample_weight=share).decision_function(K)
    else:
        machine = LinearSVC(
            loss="hinge", C=10.0, fit_intercept=False, tol=1e-10, max_iter=1_000_000
        )
        scores = machine.fit(F, y, sample_weight=share).decision_function(F)
    np.testing.assert_allclose(ldm.decision, scores, atol=1e-6)
    for optimum in (odm, ldm):
        assert abs(optimum.gap) <= 1e-9 * optimum.objective


@every_shape
def test_newton_from_zero_finds_the_same_optimum_as_clarabel(shape):
    _, F, _, y, weights = problem(shape)
    one = odm_optimum(F, y, weights=weights, **ODM)
    other = odm_newton(F, y, weights=weights, **ODM)
    np.testing.assert_allclose(one.decision, other.decision, atol=1e-9)


# The estimators -----------------------------------------------------------------------------------


@every_shape
@pytest.mark.parametrize(("fit_intercept", "weighted"), [(True, True), (False, False)])
def test_odm_reaches_the_optimum(shape, fit_intercept, weighted):
    X, F, K, y, weights = problem(shape)
    weights = weights if weighted else None
    optimum = odm_optimum(F, y, weights=weights, fit_intercept=fit_intercept, **ODM)
    params = SHAPES[shape][2]
    linear_only = ["newton", "svrg"] if params["kernel"] == "linear" else []
    for solver in ["auto", "active_set", "dcd", *linear_only]:
        # svrg alone stops at tol, and decisions are as accurate as its square root.
        tol = 1e-16 if solver == "svrg" else 1e-10
        model = ODMClassifier(
            probability=False,
            **ODM,
            **params,
            solver=solver,
            fit_intercept=fit_intercept,
            tol=tol,
            random_state=0,
        )
        model.set_params(max_iter=20_000).fit(X, y, sample_weight=weights)
        assert model.solver_ == solver or solver == "auto"
        assert_optimal(model, odm_objective, optimum, X, K, y, weights, ODM)


@every_shape
@pytest.mark.parametrize(("fit_intercept", "weighted"), [(True, True), (False, False)])
def test_ldm_reaches_the_optimum(shape, fit_intercept, weighted):
    X, F, K, y, weights = problem(shape)
    weights = weights if weighted else None
    optimum = ldm_optimum(F, y, weights=weights, fit_intercept=fit_intercept, **LDM)
    for solver in ("auto", "active_set", "dcd"):
        model = LDMClassifier(
            probability=False,
            **LDM,
            **SHAPES[shape][2],
            solver=solver,
            fit_intercept=fit_intercept,
            tol=1e-10,
            random_state=0,
        )
        model.fit(X, y, sample_weight=weights)
        assert model.solver_ == solver or solver == "auto"
        assert_optimal(model, ldm_objective, optimum, X, K, y, weights, LDM)


@pytest.mark.parametrize(("shape", "weighted"), [("linear, p > n", False), ("rbf", True)])
@pytest.mark.parametrize(
    "params",
    [
        LDM,
        {"C": 0.01, "lambda1": 0.1, "lambda2": 0.0},
        {"C": 30.0, "lambda1": 30.0, "lambda2": 0.0},
        {"C": 1.0, "lambda1": 1.0, "lambda2": 10.0},
    ],
)
def test_ldm_reaches_the_optimum_without_factorisation(shape, weighted, params, monkeypatch):
    X, F, K, y, weights = problem(shape)
    weights = weights if weighted else None
    optimum = ldm_optimum(F, y, weights=weights, **params)
    monkeypatch.setattr(_ldm, "SMALL", 0)  # as if there were many samples
    monkeypatch.setattr(_ldm, "variance_gram", None)  # not needed
    monkeypatch.setattr(_ldm, "MOST_PASSES", 20_000)
    model = LDMClassifier(
        probability=False, **params, **SHAPES[shape][2], solver="dcd", random_state=0
    )
    model.set_params(tol=1e-14, max_iter=20_000).fit(X, y, sample_weight=weights)
    assert model.gap_ <= 1e-14
    assert_optimal(model, ldm_objective, optimum, X, K, y, weights, params)


@pytest.mark.parametrize(("shape", "fit_intercept"), [("linear, n > p", False), ("rbf", True)])
@pytest.mark.parametrize(
    "params",
    [
        {"C1": 1e-3, "C2": 1e-3, "D": 0.5},
        {"C1": 1000.0, "C2": 1.0, "D": 0.0},
        {"C1": 1.0, "C2": 1000.0, "D": 0.3},
        {"C1": 1000.0, "C2": 1000.0, "D": 0.9},
    ],
)
def test_odm_reaches_the_optimum_over_the_range_of_its_parameters(shape, fit_intercept, params):
    X, F, K, y, weights = problem(shape)
    optimum = odm_optimum(F, y, weights=weights, fit_intercept=fit_intercept, **params)
    model = ODMClassifier(
        probability=False, **params, **SHAPES[shape][2], fit_intercept=fit_intercept
    )
    model.fit(X, y, sample_weight=weights)
    assert_optimal(model, odm_objective, optimum, X, K, y, weights, params)


@pytest.mark.parametrize(("shape", "fit_intercept"), [("linear, n > p", False), ("rbf", True)])
@pytest.mark.parametrize(
    "params",
    [
        {"C": 0.01, "lambda1": 0.1, "lambda2": 0.0},
        {"C": 100.0, "lambda1": 0.0, "lambda2": 1.0},
        {"C": 100.0, "lambda1": 100.0, "lambda2": 0.0},
        {"C": 1.0, "lambda1": 1.0, "lambda2": 10.0},
    ],
)
def test_ldm_reaches_the_optimum_over_the_range_of_its_parameters(shape, fit_intercept, params):
    X, F, K, y, weights = problem(shape)
    optimum = ldm_optimum(F, y, weights=weights, fit_intercept=fit_intercept, **params)
    model = LDMClassifier(
        probability=False, **params, **SHAPES[shape][2], fit_intercept=fit_intercept
    )
    model.fit(X, y, sample_weight=weights)
    assert_optimal(model, ldm_objective, optimum, X, K, y, weights, params)


@pytest.mark.parametrize(
    "estimator", [ODMClassifier(probability=False, **ODM), LDMClassifier(probability=False, **LDM)]
)
@pytest.mark.parametrize(("kernel", "fit_intercept"), [("linear", True), ("rbf", False)])
def test_each_one_versus_rest_problem_is_its_binary_fit(estimator, kernel, fit_intercept):
    """With "balanced" the weights of the rows come from all classes, the same in every problem."""
    rng = np.random.default_rng(3)
    y = rng.permutation(np.repeat([0, 1, 2], [25, 10, 15]))
    X = rng.normal(size=(50, 4)) + np.eye(3, 4)[y]
    weights = rng.uniform(0.5, 2, size=50)
    params = {"kernel": kernel, "gamma": 0.2, "fit_intercept": fit_intercept}
    model = clone(estimator).set_params(**params, class_weight="balanced")
    model.fit(X, y, sample_weight=weights)
    scores = model.decision_function(X)
    assert scores.shape == (50, 3)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))
    counts = np.bincount(y, weights=weights)
    row_weights = weights * (weights.sum() / (3 * counts))[y]
    binary = clone(estimator).set_params(**params)
    gaps = []
    for k in range(3):
        binary.fit(X, y == k, sample_weight=row_weights)
        gaps.append(binary.gap_)
        np.testing.assert_allclose(scores[:, k], binary.decision_function(X), atol=1e-7)
        assert model.intercept_[k] == pytest.approx(binary.intercept_[0], abs=1e-7)
        assert model.objective_[k] == pytest.approx(binary.objective_, rel=1e-9)
        for name in ("mean", "variance", "minimum"):
            statistic = getattr(model.margins_, name)[k]
            assert statistic == pytest.approx(getattr(binary.margins_, name), abs=1e-7)
        if kernel == "linear":
            np.testing.assert_allclose(model.coef_[k], binary.coef_[0], atol=1e-7)
        if not fit_intercept:
            bound = model.loo_error_bound_[k]
            assert bound == pytest.approx(binary.loo_error_bound_, abs=1e-6)
    assert model.gap_ == pytest.approx(max(gaps), abs=1e-9)
    assert model.intercept_.shape == (3,)
    assert len(model.n_support_) == 3
