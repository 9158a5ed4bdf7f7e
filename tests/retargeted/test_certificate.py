"""The reported gap bounds the true distance from the optimum, and closes at the optimum."""

import warnings

import numpy as np
import pytest
from oracles import MODELS
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from discreg import DLSRClassifier, GReLSRClassifier, ReLSRClassifier
from discreg.linalg.ridge import KernelRegression, centre_kernel, linear_regression
from discreg.retargeted._losses import DraggedTargets, FixedTargets, MarginTargets, balance
from discreg.retargeted._problem import Problem, Start, Step


def kernel_regression(kernel, weights, centre):
    mean = centre_kernel(kernel, weights) if centre else None
    return KernelRegression(kernel, weights, mean)


def make_problem(model, *, centre=True, dual=False, beta=0.5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(40) % 3
    X = rng.normal(size=(40, 4)) + rng.normal(size=(3, 4))[y]
    weights = rng.uniform(0.5, 2, size=40)
    if dual:
        regression = kernel_regression(X @ X.T, weights, centre)
    else:
        regression = linear_regression(X, weights, centre=centre)
    regression.at(beta)
    loss = {
        "lsr": lambda: FixedTargets(y, weights, 3),
        "dlsr": lambda: DraggedTargets(y, weights, 3),
        "relsr": lambda: MarginTargets(y, weights, 3),
        "grelsr": lambda: MarginTargets(y, weights, 3, 0.4),
    }[model]()
    return Problem(regression, loss)


def optimum(problem):
    from discreg.retargeted._solvers import minimise

    return minimise(problem, "newton", tol=1e-20, max_iter=200)


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_gap_bounds_the_true_gap_everywhere(model, centre, dual):
    """At random coefficients and on the way to the optimum the bound is never below the truth."""
    problem = make_problem(model, centre=centre, dual=dual)
    best = optimum(problem)
    least = best.objective_history[-1]
    rng = np.random.default_rng(1)
    for distance in (1.0, 1e-1, 1e-2, 1e-3):
        for _ in range(5):
            coef = best.coef + distance * rng.normal(size=best.coef.shape)
            offset = best.offset + distance * rng.normal(size=3) * centre
            point, gap = problem.certify_afresh(Start(coef, offset))
            truth = (point.objective - least) / point.objective
            assert truth <= gap * (1 + 1e-9) + 1e-13
            assert gap <= 1


@pytest.mark.parametrize("model", MODELS)
def test_gap_is_second_order(model):
    """Ten times closer to the optimum the gap is about a hundred times smaller."""
    problem = make_problem(model)
    best = optimum(problem)
    rng = np.random.default_rng(2)
    direction, shift = rng.normal(size=best.coef.shape), rng.normal(size=3)
    gaps = [
        problem.certify_afresh(Start(best.coef + t * direction, best.offset + t * shift))[1]
        for t in (1e-4, 1e-5)
    ]
    assert 50 < gaps[0] / gaps[1] < 200


@pytest.mark.parametrize("model", MODELS)
def test_balanced_residuals_are_feasible_in_the_dual(model):
    """Columns sum to zero, the signs and row sums of the conjugate's domain hold."""
    problem = make_problem(model)
    best = optimum(problem)
    loss = problem.loss
    rng = np.random.default_rng(3)
    step = 1e-3 * rng.normal(size=best.coef.shape)
    point = problem.point(best.coef + step, best.offset + np.array([1e-3, 0, -2e-3]))
    change, cost = balance(loss, point.at)
    balanced = point.at.residuals + change
    np.testing.assert_allclose(loss.weights @ balanced, 0, atol=1e-12)
    true = np.eye(3)[loss.y] == 1
    if model != "lsr":
        assert np.all(balanced[~true] >= 0)
    if model == "dlsr":
        assert np.all(balanced[true] <= 0)
    if model == "relsr":
        np.testing.assert_allclose(balanced.sum(axis=1), 0, atol=1e-12)
    if model == "grelsr":
        sums = np.bincount(loss.y, loss.weights * balanced.sum(axis=1))
        np.testing.assert_allclose(sums, 0, atol=1e-12)
    # The bound as it is derived: F minus the dual value at the balanced residuals.
    own = balanced[true]
    conjugate = loss.weights @ (np.sum(balanced**2, axis=1) + 2 * own)
    if model == "grelsr":
        conjugate += loss.weights @ balanced.sum(axis=1) ** 2 / loss.group_penalty
    weighted = loss.weights[:, None] * balanced
    pulled = problem.regression.gradient(weighted, weighted.sum(axis=0))
    dual = -conjugate - np.sum(pulled**2) / problem.regression.beta
    _, gap = problem.certify_afresh(Start(point.coef, point.offset))
    assert 0 < cost < 1e-3 * point.objective
    assert gap < 1
    assert gap == pytest.approx((point.objective - dual) / point.objective, rel=1e-6)


@pytest.mark.parametrize("model", ["relsr", "grelsr"])
def test_excess_that_cannot_flow_is_spread(model):
    """Far from the optimum residuals would change sign; the columns are balanced all the same."""
    loss = make_problem(model).loss
    rng = np.random.default_rng(0)
    ways = set()
    for size in (0.3, 1.0, 3.0):
        for _ in range(20):
            at = loss.evaluate(size * rng.normal(size=(40, 3)) + 2 * np.eye(3)[loss.y])
            ways.add(bool(loss.plan_balance(loss.balance_sums(at)).even.any()))
            change, cost = balance(loss, at)
            np.testing.assert_allclose(loss.weights @ (at.residuals + change), 0, atol=1e-12)
            np.testing.assert_allclose(change.sum(axis=1), 0, atol=1e-12)
            false = np.eye(3)[loss.y] == 0
            assert np.all((at.residuals + change)[false] >= 0)
            slack = at.targets[np.arange(40), loss.y][:, None] - 1 - at.targets
            price = np.sum(change**2, axis=1) + 2 * np.sum(change * slack * false, axis=1)
            assert cost == pytest.approx(loss.weights @ price)
    assert ways == {False, True}


def test_rows_in_any_layout_have_the_same_curvature():
    """Compiled for rows one after another, by blocks for other layouts."""
    problem = make_problem("relsr")
    best = optimum(problem)
    point = problem.point(1.1 * best.coef, best.offset)
    step = Step(best.coef - 0.1, best.offset + 0.2)
    expected = problem.curve(point, step)
    problem.regression.X = np.asfortranarray(problem.regression.X)
    gradient, inner = problem.curve(point, step)
    np.testing.assert_allclose(gradient.coef, expected[0].coef, rtol=1e-12)
    np.testing.assert_allclose(gradient.offset, expected[0].offset, rtol=1e-12, atol=1e-10)
    assert inner == pytest.approx(expected[1], rel=1e-12)


def test_thirty_alternations_are_not_the_optimum():
    """The papers' schedule leaves about 4 % on iris-like penalties and a multiple on small ones."""
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for beta, at_least, at_most in ((0.05, 0.003, 0.005), (0.001, 2.0, 2.7)):
        best = ReLSRClassifier(beta=beta).fit(X, y).objective_history_[-1]
        thirty = ReLSRClassifier(beta=beta, solver="alternating", max_iter=30, tol=0).fit(X, y)
        assert thirty.n_iter_ == 30
        assert at_least < thirty.objective_history_[-1] / best - 1 < at_most


@pytest.mark.parametrize("solver", ["newton", "alternating"])
@pytest.mark.parametrize("model", [DLSRClassifier, ReLSRClassifier, GReLSRClassifier])
def test_history_never_increases_and_gap_keeps_its_promise(model, solver):
    X, y = load_digits(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:600], y[:600]
    fitted = model(solver=solver, tol=1e-3, beta=0.3).fit(X, y)
    assert np.all(np.diff(fitted.objective_history_) <= 0)
    assert len(fitted.objective_history_) == fitted.n_iter_
    assert fitted.gap_ <= 1e-3
    best = model(beta=0.3, tol=1e-10).fit(X, y).objective_history_[-1]
    last = fitted.objective_history_[-1]
    assert (last - best) / last <= fitted.gap_ + 1e-12


def test_stopping_early_warns_with_the_gap():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    with pytest.warns(ConvergenceWarning, match=r"gap of .* after 3 iterations; tol is 1e-06"):
        fitted = ReLSRClassifier(solver="alternating", max_iter=3).fit(X, y)
    assert fitted.gap_ > 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ReLSRClassifier(solver="alternating", max_iter=3, tol=0).fit(X, y)


@pytest.mark.parametrize("model", [DLSRClassifier, ReLSRClassifier, GReLSRClassifier])
def test_gap_without_penalty_is_finite_and_small(model):
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    separable = model(beta=0).fit(X, y)
    assert 0 <= separable.gap_ <= 1e-6
    assert separable.score(X, y) == 1
    overlapping = model(beta=0).fit(X[:, :2], y)
    assert 0 <= overlapping.gap_ <= 1e-6
    assert overlapping.objective_history_[-1] > 1
