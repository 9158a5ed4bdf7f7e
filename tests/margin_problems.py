"""Small problems for ODM and LDM, and both models at parameters for which every term matters."""

import numpy as np
import pytest
from sklearn.base import clone

from discreg import LDMClassifier, ODMClassifier

ODM = {"C1": 8.0, "C2": 2.0, "D": 0.2}
LDM = {"C": 10.0, "lambda1": 0.5, "lambda2": 0.3}
MODELS = {
    "odm": ODMClassifier(**ODM, probability=False),
    "ldm": LDMClassifier(**LDM, probability=False),
}
every_model = pytest.mark.parametrize("name", MODELS)
every_kernel = pytest.mark.parametrize("kernel", ["linear", "rbf"])
# Every model with every kernel, with and without an intercept, in four cases instead of eight.
every_case = pytest.mark.parametrize(
    ("name", "kernel", "fit_intercept"),
    [
        ("odm", "linear", True),
        ("odm", "rbf", False),
        ("ldm", "linear", False),
        ("ldm", "rbf", True),
    ],
)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


def make(name, **params):
    return clone(MODELS[name]).set_params(**params)


def two_classes(n=50, p=4, seed=0, apart=0.6):
    """Overlapping classes of labels -1 and 1, three to two."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.permutation(n) % 5 < 3, 1, -1)
    X = rng.normal(size=(n, p))
    X[:, :2] += apart * y[:, None]
    X[:, 0] += 0.5
    return X, y


def three_classes(seed=1):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([0, 1, 2], [22, 12, 16]))
    return rng.normal(size=(50, 4)) + np.eye(3, 4)[y], y


def new_points():
    return np.random.default_rng(9).normal(size=(20, 4))


def close(one, other, atol=1e-7):
    np.testing.assert_allclose(one, other, rtol=0, atol=atol)
