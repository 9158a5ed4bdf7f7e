"""What ODM and LDM must equal, what must not change them, and what their attributes promise."""

import numpy as np
import pytest
from margin_problems import (
    close,
    every_case,
    every_kernel,
    every_model,
    make,
    new_points,
    three_classes,
    two_classes,
    with_and_without_intercept,
)
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.svm import SVC, LinearSVC

from discreg import LDMClassifier, ODMClassifier

# Special cases ------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [4, 70])
def test_ldm_without_lambdas_is_a_linear_support_vector_machine(p):
    X, y = two_classes(p=p)
    model = LDMClassifier(
        probability=False, C=10.0, lambda1=0.0, lambda2=0.0, kernel="linear", fit_intercept=False
    )
    svm = LinearSVC(
        loss="hinge", fit_intercept=False, C=10.0 / len(y), tol=1e-10, max_iter=1_000_000
    )
    close(model.fit(X, y).coef_, svm.fit(X, y).coef_, 1e-6)


@pytest.mark.parametrize(
    "params",
    [
        {"kernel": "linear"},
        {"kernel": "rbf", "gamma": "scale"},
        {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
    ],
)
def test_ldm_without_lambdas_is_a_support_vector_machine_with_intercept(params):
    X, y = two_classes()
    model = LDMClassifier(probability=False, C=10.0, lambda1=0.0, lambda2=0.0, **params).fit(X, y)
    svm = SVC(C=10.0 / len(y), tol=1e-10, **params).fit(X, y)
    points = new_points()
    close(model.decision_function(points), svm.decision_function(points), 1e-6)
    assert model.intercept_[0] == pytest.approx(svm.intercept_[0], abs=1e-6)
    np.testing.assert_array_equal(model.support_, np.sort(svm.support_))
    np.testing.assert_array_equal(model.n_support_, svm.n_support_)


@pytest.mark.parametrize(
    ("kernel", "weighted", "fit_intercept"),
    [("linear", True, True), ("linear", False, False), ("rbf", True, False), ("poly", True, True)],
)
def test_odm_of_one_cost_without_tolerance_is_ridge_regression(kernel, weighted, fit_intercept):
    """(6) is ½‖w‖² + (C/m) Σ s (f - y)²: (K + S⁻¹ m/2C) θ + b = y with Σ θ = 0, or b = 0."""
    X, y = two_classes()
    weights = np.random.default_rng(2).uniform(0.3, 2, size=50) if weighted else np.ones(50)
    C = 3.0
    params = {"kernel": kernel, "gamma": 0.4, "degree": 2, "coef0": 1.0}
    K = {
        "linear": X @ X.T,
        "rbf": rbf_kernel(X, gamma=0.4),
        "poly": polynomial_kernel(X, gamma=0.4, degree=2, coef0=1.0),
    }[kernel]
    system = np.ones((51, 51))
    system[:50, :50] = K + np.diag(weights.sum() / (2 * C * weights))
    system[50, 50] = 0.0
    theta, b = np.linalg.solve(system[:50, :50], y), 0.0
    if fit_intercept:
        *theta, b = np.linalg.solve(system, np.append(y, 0.0))
    for solver in ["dcd"] + ["newton", "svrg"] * (kernel == "linear"):
        model = ODMClassifier(
            probability=False,
            C1=C,
            C2=C,
            D=0.0,
            solver=solver,
            fit_intercept=fit_intercept,
            tol=1e-10,
            **params,
        )
        if solver == "svrg":
            model.set_params(tol=1e-18)
        model.set_params(random_state=0).fit(X, y, sample_weight=weights)
        close(model.decision_function(X), K @ theta + b)
        assert model.intercept_[0] == pytest.approx(b, abs=1e-7)


@every_model
@with_and_without_intercept
def test_linear_kernel_is_the_gram_matrix(name, fit_intercept):
    X, y = two_classes()
    points = new_points()
    linear = make(name, kernel="linear", fit_intercept=fit_intercept).fit(X, y)
    gram = make(name, kernel="precomputed", fit_intercept=fit_intercept).fit(X @ X.T, y)
    called = make(name, kernel=lambda a, b: a @ b, fit_intercept=fit_intercept).fit(X, y)
    close(gram.decision_function(points @ X.T), linear.decision_function(points))
    close(called.decision_function(points), linear.decision_function(points))
    assert gram.objective_ == pytest.approx(linear.objective_, rel=1e-9)
    assert not hasattr(gram, "coef_")
    assert not hasattr(gram, "support_vectors_")


# What must not change the answer ------------------------------------------------------------------


@every_case
def test_weights_are_copies(name, kernel, fit_intercept):
    """At default settings, gamma="scale" included."""
    X, y = two_classes() if fit_intercept else three_classes()
    class_weight = "balanced" if kernel == "rbf" else None
    weights = np.random.default_rng(4).integers(0, 4, size=len(y))
    model = make(name, kernel=kernel, fit_intercept=fit_intercept, class_weight=class_weight)
    weighted = clone(model).fit(X, y, sample_weight=weights)
    copied = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    points = new_points()
    close(weighted.decision_function(points), copied.decision_function(points))
    close(weighted.objective_, copied.objective_)
    for statistic in ("mean", "variance", "minimum"):
        close(getattr(weighted.margins_, statistic), getattr(copied.margins_, statistic))
    # Copies with z = 1 may share LDM's multiplier in any way.
    if not fit_intercept and name == "odm":
        close(weighted.loo_error_bound_, copied.loo_error_bound_)


@every_case
def test_rows_without_weight_are_as_if_removed(name, kernel, fit_intercept):
    """Also rows far away from all others."""
    X, y = two_classes()
    weights = np.random.default_rng(5).integers(0, 2, size=50).astype(float)
    weights[:2] = 0
    X[:2] = 1e3
    kept = weights > 0
    model = make(name, kernel=kernel, fit_intercept=fit_intercept)
    weighted = clone(model).fit(X, y, sample_weight=weights)
    removed = clone(model).fit(X[kept], y[kept])
    points = new_points()
    close(weighted.decision_function(points), removed.decision_function(points))
    np.testing.assert_array_equal(weighted.support_, np.flatnonzero(kept)[removed.support_])
    np.testing.assert_array_equal(weighted.n_support_, removed.n_support_)
    close(weighted.margins_.minimum, removed.margins_.minimum)


@every_case
def test_the_scale_of_the_weights_does_not_matter(name, kernel, fit_intercept):
    X, y = two_classes()
    weights = np.random.default_rng(4).uniform(size=50)
    points = new_points()
    one = make(name, kernel=kernel).fit(X, y, sample_weight=weights)
    other = make(name, kernel=kernel).fit(X, y, sample_weight=1000 * weights)
    close(other.decision_function(points), one.decision_function(points))


@every_case
def test_order_of_the_rows_does_not_matter(name, kernel, fit_intercept):
    X, y = two_classes()
    order = np.random.default_rng(6).permutation(50)
    points = new_points()
    one = make(name, kernel=kernel, fit_intercept=fit_intercept).fit(X, y)
    other = make(name, kernel=kernel, fit_intercept=fit_intercept).fit(X[order], y[order])
    close(other.decision_function(points), one.decision_function(points))
    np.testing.assert_array_equal(np.sort(order[other.support_]), one.support_)


@every_case
def test_exchanged_classes_negate_the_decision(name, kernel, fit_intercept):
    X, y = two_classes()
    points = new_points()
    one = make(name, kernel=kernel, fit_intercept=fit_intercept).fit(X, y)
    other = make(name, kernel=kernel, fit_intercept=fit_intercept).fit(X, -y)
    close(other.decision_function(points), -one.decision_function(points))


@every_case
def test_scaled_features_with_scaled_costs_give_the_same_scores(name, kernel, fit_intercept):
    """With tφ for φ, w/t has the same margins and 1/t² of the norm: divide all costs by t²."""
    X, y = two_classes()
    t = 5.0
    if kernel == "linear":
        data, scaled = X, t * X
    else:
        data = rbf_kernel(X, gamma=0.3)
        scaled = t**2 * data
        kernel = "precomputed"
    costs = ("C1", "C2") if name == "odm" else ("C", "lambda1", "lambda2")
    model = make(name, kernel=kernel, fit_intercept=fit_intercept)
    cheaper = {cost: value / t**2 for cost, value in model.get_params().items() if cost in costs}
    one = clone(model).fit(data, y)
    other = clone(model).set_params(**cheaper).fit(scaled, y)
    close(other.decision_function(scaled), one.decision_function(data))
    assert other.objective_ == pytest.approx(one.objective_ / t**2, rel=1e-8)


@every_model
@every_kernel
def test_shifted_features_do_not_matter_with_an_intercept(name, kernel):
    X, y = two_classes()
    points = new_points()
    one = make(name, kernel=kernel).fit(X, y)
    other = make(name, kernel=kernel).fit(X + 3.0, y)
    close(other.decision_function(points + 3.0), one.decision_function(points), 1e-6)


@every_case
def test_dense_is_sparse(name, kernel, fit_intercept):
    X, y = two_classes() if fit_intercept else three_classes()
    X[np.abs(X) < 0.5] = 0
    model = make(name, kernel=kernel, fit_intercept=fit_intercept)
    dense = clone(model).fit(X, y)
    thin = clone(model).fit(sparse.csr_array(X), y)
    points = new_points()
    close(thin.decision_function(sparse.csr_array(points)), dense.decision_function(points))
    close(thin.decision_function(points), dense.decision_function(points))
    np.testing.assert_array_equal(thin.support_, dense.support_)
    assert sparse.issparse(thin.support_vectors_)


@every_case
def test_single_precision_comes_in_and_goes_out(name, kernel, fit_intercept):
    X, y = two_classes()
    narrow = X.astype(np.float32)
    model = make(name, kernel=kernel, gamma=0.3, fit_intercept=fit_intercept)
    one = clone(model).fit(narrow, y)
    wide = clone(model).fit(narrow.astype(np.float64), y)
    points = new_points().astype(np.float32)
    scores = one.decision_function(points)
    assert scores.dtype == one.dual_coef_.dtype == one.intercept_.dtype == np.float32
    if kernel == "linear":
        assert one.coef_.dtype == np.float32
    assert wide.decision_function(points.astype(np.float64)).dtype == np.float64
    close(scores, wide.decision_function(points.astype(np.float64)), 1e-4)


@every_case
def test_the_ways_to_the_answer_do_not_change_it(name, kernel, fit_intercept):
    X, y = two_classes()
    points = new_points()
    model = make(name, kernel=kernel, fit_intercept=fit_intercept, solver="dcd")
    expected = clone(model).fit(X, y).decision_function(points)
    for params in (
        {"random_state": 7},
        {"tol": 0.1},
        {"solver": "auto"},
    ):
        other = clone(model).set_params(**params).fit(X, y)
        close(other.decision_function(points), expected)


@every_case
def test_warm_starts_end_where_cold_ones_do(name, kernel, fit_intercept):
    X, y = two_classes() if fit_intercept else three_classes()
    points = new_points()
    cost = "C1" if name == "odm" else "C"
    warm = make(name, kernel=kernel, warm_start=True).fit(X, y)
    for value in (100.0, 1.0):
        warm.set_params(**{cost: value}).fit(X, y)
        cold = make(name, kernel=kernel, **{cost: value}).fit(X, y)
        close(warm.decision_function(points), cold.decision_function(points))
    warm.fit(X[:40, :3], y[:40])  # other rows and features: nothing to start from
    cold.fit(X[:40, :3], y[:40])
    close(warm.decision_function(points[:, :3]), cold.decision_function(points[:, :3]))


# What attributes promise --------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_more_tolerance_does_not_keep_more_support_vectors(kernel):
    X, y = two_classes(n=60)
    counts = [
        len(make("odm", kernel=kernel, C1=1e3, C2=1e3, D=D).fit(X, y).support_)
        for D in (0.0, 0.1, 0.2, 0.4, 0.8)
    ]
    assert counts[0] >= 59
    assert all(np.diff(counts) <= 0)
    assert counts[-1] < 50


@every_model
@with_and_without_intercept
def test_multipliers_give_the_decision(name, fit_intercept):
    X, y = two_classes() if fit_intercept else three_classes()
    points = new_points()
    problems = 1 if fit_intercept else 3
    linear = make(name, kernel="linear", fit_intercept=fit_intercept).fit(X, y)
    close(linear.coef_, linear.dual_coef_ @ X[linear.support_], 1e-9)
    by_hand = points @ linear.coef_.T + linear.intercept_
    close(linear.decision_function(points).reshape(by_hand.shape), by_hand, 1e-12)
    rbf = make(name, kernel="rbf", gamma=0.3, fit_intercept=fit_intercept).fit(X, y)
    assert not hasattr(rbf, "coef_")
    by_hand = rbf_kernel(points, X[rbf.support_], gamma=0.3) @ rbf.dual_coef_.T + rbf.intercept_
    close(rbf.decision_function(points).reshape(by_hand.shape), by_hand, 1e-10)
    for model in (linear, rbf):
        assert model.dual_coef_.shape == (problems, len(model.support_))
        assert model.intercept_.shape == (problems,)
        assert np.all(np.diff(model.support_) > 0)
        assert np.all(np.any(model.dual_coef_ != 0, axis=0))
        np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
        counts = [np.sum(y[model.support_] == label) for label in model.classes_]
        np.testing.assert_array_equal(model.n_support_, counts)


@with_and_without_intercept
def test_multipliers_of_odm_are_those_of_the_optimality_conditions(fit_intercept):
    """θ_i = y_i a_i with a = 2 s (C1 ξ - C2 ε)/m; rows inside the tolerance have none."""
    X, y = two_classes()
    weights = np.random.default_rng(3).uniform(0.5, 2, size=50)
    model = make("odm", kernel="rbf", fit_intercept=fit_intercept).fit(X, y, sample_weight=weights)
    z = y * model.decision_function(X)
    low, high = np.maximum(0, 0.8 - z), np.maximum(0, z - 1.2)
    expected = y * 2 * weights / weights.sum() * (8.0 * low - 2.0 * high)
    theta = np.zeros(50)
    theta[model.support_] = model.dual_coef_[0]
    close(theta, expected, 1e-9)
    if fit_intercept:
        close(theta.sum(), 0.0, 1e-9)


@every_case
def test_margin_statistics_are_those_of_the_decision(name, kernel, fit_intercept):
    X, y = two_classes() if fit_intercept else three_classes()
    weights = np.random.default_rng(3).uniform(0.5, 2, size=50)
    weights[:3] = 0
    class_weight = {label: 1.0 + 0.5 * label**2 for label in np.unique(y)}
    model = make(name, kernel=kernel, class_weight=class_weight).fit(X, y, sample_weight=weights)
    share = weights * np.array([class_weight[label] for label in y])
    share /= share.sum()
    f = model.decision_function(X)
    if fit_intercept:
        assert isinstance(model.margins_.mean, float)
        z = (y * f)[:, None]
    else:
        z = np.where(y[:, None] == model.classes_, 1, -1) * f
    mean = share @ z
    close(model.margins_.mean, mean, 1e-9)
    close(model.margins_.variance, share @ (z - mean) ** 2, 1e-9)
    close(model.margins_.minimum, z[weights > 0].min(axis=0), 1e-9)
    assert model.margins_._fields == ("mean", "variance", "minimum")
