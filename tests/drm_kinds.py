"""Models of every kind, and data to try them on, for the tests of DRMClassifier."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

SOLVERS = ["closed", "scatter", "gd", "ppa", "apg"]
TIGHT = {"tol": 1e-12, "max_iter": 100_000}
# One model of every kind; all have an answer to many digits.
KINDS = {
    "closed": {"kernel": "rbf", "solver": "closed"},
    "closed linear": {"kernel": "linear", "solver": "closed", "beta": 5.0},
    "scatter": {"kernel": "linear", "solver": "scatter", "beta": 5.0},
    "ppa": {"kernel": "rbf", "solver": "ppa", "beta": 5.0, **TIGHT},
    "ppa linear": {"kernel": "linear", "solver": "ppa", "beta": 90.0, **TIGHT},
    "lasso": {"kernel": "rbf", "penalty": "lasso", "beta": 0.05, "probability": False, **TIGHT},
    "nystroem": {"kernel": "rbf", "n_components": 30, "random_state": 0},
    "fourier": {
        "kernel": "rbf",
        "n_components": 30,
        "approximation": "random_features",
        "random_state": 0,
    },
}
every_kind = pytest.mark.parametrize("kind", KINDS)
# Held-out scores by exact leave-one-out; other penalties have folds.
exactly_held_out = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lasso"])


def wine(n_samples=60):
    """A part of the wine data in random order, so that the classes are mixed."""
    X, y = load_wine(return_X_y=True)
    chosen = np.random.default_rng(0).permutation(len(y))[:n_samples]
    return StandardScaler().fit_transform(X)[chosen], y[chosen]


def new_points(n_points=15):
    X, _ = wine(178)
    return X[-n_points:] + 0.1


def two_classes():
    X, y = wine()
    return X, np.where(y == 2, 0, y)


def close(actual, expected, tolerance=1e-8):
    """Equal to so many digits of the largest entry."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())
