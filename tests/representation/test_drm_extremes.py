"""Extreme data, weights and parameters have finite scores or a clear refusal, and no warning."""

from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from discreg import DRMClassifier

PENALTIES = [*product((1, 2, inf), (1, 2, inf), ("identity", "half_square"))]
RIDGE = (2, 2, "half_square")
SOLVERS = ["auto", "closed", "scatter", "gd", "ppa", "apg"]
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*only one distinct row, which cannot be held out"),
    pytest.mark.filterwarnings("ignore:.*have no held-out scores"),
    pytest.mark.filterwarnings("ignore:The held-out scores of .* are worse than chance"),
]


def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


def random_data(rng):
    """Few samples with duplicates, constant features, classes of one sample and any scale."""
    n_classes = rng.integers(2, 4)
    y = np.r_[np.arange(n_classes), rng.integers(0, n_classes, rng.integers(2, 36))]
    if rng.random() < 0.3:
        y[n_classes:] = 0
    X = rng.normal(size=(len(y), rng.integers(1, 6))) + rng.choice([0, 1]) * y[:, None]
    if rng.random() < 0.3:
        X[:, 0] = rng.choice([0, 3])
    if rng.random() < 0.3:
        X[:, -1] = X[:, 0]
    if rng.random() < 0.3:
        X[len(y) // 2 :] = X[: len(y) - len(y) // 2]
    X *= 10.0 ** rng.choice([-170, -160, -100, -10, 0, 0, 0, 10, 50, 77, 100, 150])
    if rng.random() < 0.3:
        X = np.clip(X, -1e30, 1e30).astype(np.float32)
    weights = rng.choice([np.ones(len(y)), rng.uniform(0.1, 5, len(y)), rng.integers(0, 4, len(y))])
    weights = weights * 10.0 ** rng.choice([-300, -90, -4, 0, 0, 0, 15, 90])
    if rng.random() < 0.2:
        weights = weights * 10.0 ** rng.integers(-30, 0, len(y))
    return X, y, weights


def random_params(rng):
    ridge = rng.random() < 0.4
    solver = str(rng.choice(SOLVERS)) if ridge else "auto"
    params = {
        "kernel": str(rng.choice(["linear", "linear", "rbf", "poly", "cosine", "laplacian"])),
        "penalty": "ridge" if ridge else PENALTIES[rng.integers(len(PENALTIES))],
        "solver": solver,
        "alpha": float(rng.choice([0, 0.1, 1, 1e3, 1e12])),
        "beta": float(rng.choice([1e-12, 1e-2, 1, 1e12])),
        "gamma": ["scale", "auto", 1e-100, 1e100][rng.integers(4)],
        "degree": float(rng.choice([1, 3, 2.5, 10])),
        "coef0": float(rng.choice([0, 1, -1])),
        "max_iter": int(rng.choice([1, 20, 150])),
        "tol": float(rng.choice([0, 1e-5])),
        "backtracking": solver == "apg" and bool(rng.random() < 0.5),
        "probability": bool(rng.random() < 0.4),
        "random_state": 0,
    }
    if rng.random() < 0.2:
        params["n_components"] = int(rng.choice([1, 3, 20]))
    return params


def finite_or_refused(model, X, y, weights):
    """Whether the fit and all predictions are finite; otherwise one of them was refused."""
    try:
        model.fit(X, y, weights)
        scores = model.decision_function(X)
        labels = model.predict(X)
        found = [scores, model.class_residuals(X), model.representation(X)]
        if model.probability:
            found += [model.predict_proba(X), getattr(model, "held_out_decision_function_", 0.0)]
        if hasattr(model, "gap_"):
            found += [model.gap_, model.objective_history_]
    except ValueError:
        return False
    assert all(np.all(np.isfinite(each)) for each in found)
    winners = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
    np.testing.assert_array_equal(model.classes_[winners.astype(int)], labels)
    return True


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_random_extremes_have_finite_scores_or_a_refusal(seed):
    rng = np.random.default_rng(seed)
    data = random_data(rng)
    finite_or_refused(DRMClassifier(**random_params(rng)), *data)


@pytest.mark.parametrize("solver", ["closed", "scatter", "apg"])
@pytest.mark.parametrize(("scale", "weight"), [(1.0, 1e90), (1e-170, 1.0), (1e50, 1e50)])
def test_extremes_of_every_solver(solver, scale, weight):
    X, y = iris()
    model = DRMClassifier(kernel="linear", solver=solver, probability=True)
    finite_or_refused(model, scale * X, y, np.full(len(y), weight))


@pytest.mark.parametrize("penalty", [p for p in PENALTIES if p != RIDGE], ids=str)
def test_every_penalty_has_an_answer_with_small_weights(penalty):
    X, y = iris()
    model = DRMClassifier(penalty=penalty, probability=False)
    assert finite_or_refused(model, X[::3], y[::3], np.full(50, 1e-15))


def test_undefined_values_of_a_kernel_are_refused_by_its_name():
    """A negative number has no power of 2.5."""
    X, y = iris()
    model = DRMClassifier(
        kernel="poly", degree=2.5, coef0=-1.0, n_components=1, solver="apg", random_state=0
    )
    with pytest.raises(ValueError, match="'poly' gives infinite or undefined values"):
        model.fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_residuals_beyond_single_precision_are_refused(n_classes):
    X, y = iris()
    X = (1e25 * X[y < n_classes]).astype(np.float32)
    model = DRMClassifier(kernel="linear").fit(X, y[y < n_classes])
    for method in (model.decision_function, model.class_residuals):
        with pytest.raises(ValueError, match="overflow"):
            method(X)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_single_precision_does_not_tie_scores(n_classes):
    """Scores of points almost between the classes differ by less than single precision has."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(20, 2)) + np.array([2, 0])
    far = rng.normal(size=(10, 2)) + np.array([0, 9])
    X = np.vstack([half, half * np.array([-1, 1]), far, far * np.array([-1, 1])])
    y = np.repeat([1, 0, 2], 20)
    X, y = X[y < n_classes].astype(np.float32), y[y < n_classes]
    points = np.column_stack([np.linspace(-1e-9, 1e-9, 41), np.linspace(-2, 2, 41)])
    points = points.astype(np.float32)
    for kernel in ("linear", "poly", "rbf"):
        model = DRMClassifier(kernel=kernel, gamma=0.5, probability=True).fit(X, y)
        scores = model.decision_function(points)
        assert scores.dtype == np.float32
        winners = (scores > 0).astype(int) if n_classes == 2 else scores.argmax(axis=1)
        np.testing.assert_array_equal(winners, model.predict(points))
        np.testing.assert_array_equal(model.class_residuals(points).argmin(axis=1), winners)
        np.testing.assert_array_equal(model.predict_proba(points).argmax(axis=1), winners)
