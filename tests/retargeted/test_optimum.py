"""The four models reach the optimum of the papers' objectives, as convex programming finds it."""

import numpy as np
import pytest
from oracles import MODELS, convex_optimum
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from discreg import DLSRClassifier, GReLSRClassifier, LSRClassifier, ReLSRClassifier

GROUP_PENALTY = 0.7


def classifier(model, **params):
    classes = {
        "lsr": LSRClassifier,
        "dlsr": DLSRClassifier,
        "relsr": ReLSRClassifier,
        "grelsr": GReLSRClassifier,
    }
    if model == "grelsr":
        params = {"group_penalty": GROUP_PENALTY} | params
    return classes[model](probability=False, **params)


def problem(name):
    if name == "iris":
        X, y = load_iris(return_X_y=True)
    elif name == "wine":
        X, y = load_wine(return_X_y=True)
    else:
        rng = np.random.default_rng(7)
        y = np.arange(60) % 4
        X = rng.normal(size=(60, 5)) + rng.normal(size=(4, 5))[y]
    return StandardScaler().fit_transform(X), y


def same_up_to_shift(model, ours, theirs, tolerance):
    if model in ("relsr", "grelsr"):
        ours, theirs = ours - ours.mean(), theirs - theirs.mean()
    np.testing.assert_allclose(ours, theirs, atol=tolerance)


@pytest.mark.parametrize(("name", "weighted"), [("iris", False), ("wine", True), ("random", True)])
@pytest.mark.parametrize("model", MODELS)
def test_optimum_equals_convex_programming(model, name, weighted):
    X, y = problem(name)
    weights = np.random.default_rng(0).uniform(0.2, 3, size=len(y)) if weighted else None
    beta = 3.0
    fitted = classifier(model, beta=beta, scale_beta=False).fit(X, y, sample_weight=weights)
    optimum = convex_optimum(model, X, y, beta, weights=weights, group_penalty=GROUP_PENALTY)
    assert fitted.objective_history_[-1] == pytest.approx(optimum.objective, rel=1e-7)
    np.testing.assert_allclose(fitted.coef_, optimum.coef.T, atol=1e-5)
    same_up_to_shift(model, fitted.intercept_, optimum.intercept, 1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_optimum_without_intercept(model):
    X, y = problem("random")
    X = X + 0.3
    fitted = classifier(model, beta=1.0, scale_beta=False, fit_intercept=False).fit(X, y)
    optimum = convex_optimum(model, X, y, 1.0, group_penalty=GROUP_PENALTY, fit_intercept=False)
    assert fitted.objective_history_[-1] == pytest.approx(optimum.objective, rel=1e-7)
    np.testing.assert_allclose(fitted.coef_, optimum.coef.T, atol=1e-5)
    np.testing.assert_array_equal(fitted.intercept_, 0)


@pytest.mark.parametrize("model", MODELS)
def test_optimum_of_two_classes(model):
    X, y = problem("random")
    y = y % 2
    fitted = classifier(model, beta=1.0, scale_beta=False).fit(X, y)
    optimum = convex_optimum(model, X, y, 1.0, group_penalty=GROUP_PENALTY)
    assert fitted.objective_history_[-1] == pytest.approx(optimum.objective, rel=1e-7)
    np.testing.assert_allclose(fitted.coef_[0], optimum.coef[:, 1] - optimum.coef[:, 0], atol=1e-5)
    assert fitted.coef_.shape == (1, 5)
    assert fitted.intercept_.shape == (1,)
    np.testing.assert_allclose(
        fitted.intercept_[0], optimum.intercept[1] - optimum.intercept[0], atol=1e-5
    )


@pytest.mark.parametrize("model", MODELS)
def test_optimum_with_more_features_than_samples(model):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(24, 40)), np.arange(24) % 3
    fitted = classifier(model, beta=2.0, scale_beta=False).fit(X, y)
    optimum = convex_optimum(model, X, y, 2.0, group_penalty=GROUP_PENALTY)
    assert fitted.objective_history_[-1] == pytest.approx(optimum.objective, rel=1e-7)
    np.testing.assert_allclose(fitted.coef_, optimum.coef.T, atol=1e-5)


@pytest.mark.parametrize("model", ["dlsr", "relsr", "grelsr"])
def test_alternation_goes_to_the_same_optimum(model):
    X, y = problem("random")
    params = {"beta": 5.0, "scale_beta": False}
    newton = classifier(model, **params).fit(X, y)
    alternating = classifier(model, solver="alternating", tol=1e-13, max_iter=20000, **params).fit(
        X, y
    )
    assert alternating.solver_ == "alternating"
    assert alternating.n_iter_ > newton.n_iter_
    np.testing.assert_allclose(alternating.coef_, newton.coef_, atol=1e-6)
    same_up_to_shift(model, alternating.intercept_, newton.intercept_, 1e-6)


@pytest.mark.parametrize("beta", [0.0, 0.01, 1.0])
def test_optimal_objectives_are_ordered(beta):
    """LSR >= DLSR >= ReLSR and GReLSR >= ReLSR: each allows more targets than the one before."""
    for name in ("iris", "wine"):
        X, y = problem(name)
        value = {
            model: classifier(model, beta=beta).fit(X, y).objective_history_[-1] for model in MODELS
        }
        rounding = 1e-9 * value["lsr"]
        assert value["lsr"] >= value["dlsr"] - rounding
        assert value["dlsr"] >= value["relsr"] - rounding
        assert value["grelsr"] >= value["relsr"] - rounding


def test_grelsr_without_group_weight_is_relsr():
    X, y = problem("wine")
    relsr = ReLSRClassifier(probability=False).fit(X, y)
    grelsr = GReLSRClassifier(probability=False, group_penalty=0.0).fit(X, y)
    np.testing.assert_allclose(grelsr.coef_, relsr.coef_, atol=1e-12)
    np.testing.assert_allclose(grelsr.intercept_, relsr.intercept_, atol=1e-12)
    np.testing.assert_allclose(grelsr.targets_, relsr.targets_, atol=1e-12)


def test_relsr_with_zero_translations_is_dlsr():
    """(14) of GReLSR with a = 0 and the true class free to be dragged is DLSR's problem (4)."""
    import cvxpy as cp

    X, y = problem("random")
    true = np.eye(4)[y]
    sign = 2 * true - 1
    W, b = cp.Variable((5, 4)), cp.Variable((1, 4))
    dragging = cp.Variable((60, 4), nonneg=True)
    residuals = X @ W + np.ones((60, 1)) @ b - true - cp.multiply(sign, dragging)
    objective = cp.sum_squares(residuals) + 2.0 * cp.sum_squares(W)
    value = cp.Problem(cp.Minimize(objective)).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    fitted = DLSRClassifier(probability=False, beta=2.0, scale_beta=False).fit(X, y)
    assert fitted.objective_history_[-1] == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize("model", MODELS)
def test_targets_are_the_best_for_the_scores(model):
    from discreg.retargeted import retarget

    X, y = problem("wine")
    fitted = classifier(model).fit(X, y)
    scores = fitted.decision_function(X)
    expected = {
        "lsr": lambda: np.eye(3)[y],
        "dlsr": lambda: retarget(scores, y, rule="dlsr"),
        "relsr": lambda: retarget(scores, y),
        "grelsr": lambda: retarget(scores, y, group_penalty=GROUP_PENALTY, centres=fitted.centres_),
    }[model]()
    np.testing.assert_allclose(fitted.targets_, expected, atol=1e-8)
    if model == "grelsr":
        eliminated = retarget(scores, y, group_penalty=GROUP_PENALTY)
        np.testing.assert_allclose(fitted.targets_, eliminated, atol=1e-8)


def test_alternation_follows_the_papers_steps():
    """Algorithm 1 of ReLSR and the three steps of GReLSR, written as they are printed."""
    from discreg.retargeted import retarget

    X, y = problem("random")
    beta, n_iter = 2.0, 6
    n_samples, n_features = X.shape
    H = np.eye(n_samples) - 1 / n_samples
    U = np.linalg.solve(X.T @ H @ X + beta * np.eye(n_features), X.T @ H)
    for model in ("dlsr", "relsr", "grelsr"):
        T, centres = np.eye(4)[y], np.zeros(4)
        for _ in range(n_iter):
            W = U @ T
            b = (T - X @ W).mean(axis=0)
            R = X @ W + b
            if model == "dlsr":
                T = retarget(R, y, rule="dlsr")
            else:
                group_penalty = GROUP_PENALTY if model == "grelsr" else 0.0
                T = retarget(R, y, group_penalty=group_penalty, centres=centres)
            centres = np.bincount(y, T[np.arange(n_samples), y] - 1) / np.bincount(y)
        fitted = classifier(
            model, beta=beta, scale_beta=False, solver="alternating", max_iter=n_iter, tol=0
        ).fit(X, y)
        assert fitted.n_iter_ == n_iter
        np.testing.assert_allclose(fitted.coef_, W.T, atol=1e-12)
        same_up_to_shift(model, fitted.intercept_, b, 1e-12)


@pytest.mark.parametrize("group_penalty", [0.1, 10.0, 1e4])
def test_the_alternation_ends_with_the_targets_and_centres_of_its_objective(group_penalty):
    """Thirty alternations are far from the optimum, and all attributes are those of the last."""
    X, y = problem("wine")
    params = {"group_penalty": group_penalty, "beta": 0.5, "scale_beta": False}
    fitted = GReLSRClassifier(
        probability=False, solver="alternating", max_iter=30, tol=0, **params
    ).fit(X, y)
    own = fitted.targets_[np.arange(len(y)), y]
    objective = (
        np.sum((fitted.decision_function(X) - fitted.targets_) ** 2)
        + 0.5 * np.sum(fitted.coef_**2)
        + group_penalty * np.sum((own - 1 - fitted.centres_[y]) ** 2)
    )
    assert fitted.objective_history_[-1] == pytest.approx(objective, rel=1e-10)
    optimum = GReLSRClassifier(probability=False, **params).fit(X, y).objective_history_[-1]
    assert objective * (1 - fitted.gap_) <= optimum * (1 + 1e-9)


def test_centres_of_weighted_samples_are_those_of_copies():
    X, y = problem("wine")
    copies = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = GReLSRClassifier(probability=False).fit(X, y, sample_weight=copies)
    copied = GReLSRClassifier(probability=False).fit(
        np.repeat(X, copies, axis=0), np.repeat(y, copies)
    )
    np.testing.assert_allclose(weighted.centres_, copied.centres_, atol=1e-7)
