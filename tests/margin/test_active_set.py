"""The active set method: when it is taken, and that a small fit compiles nothing."""

import subprocess
import sys

import pytest
from margin_problems import make, three_classes, two_classes

from discreg import LDMClassifier, ODMClassifier

SMALL_FIT = """
import sys
import numpy as np
from discreg import LDMClassifier, ODMClassifier
X = np.random.RandomState(0).randn(60, 4)
for model in (LDMClassifier, ODMClassifier):
    model(kernel="precomputed").fit(X @ X.T, X[:, 0] > 0)
sys.exit("numba" in sys.modules)
"""


@pytest.mark.parametrize("name", ["odm", "ldm"])
@pytest.mark.parametrize("data", [two_classes, three_classes])
def test_a_small_kernel_problem_is_solved_by_an_active_set(name, data):
    X, y = data()
    model = make(name, kernel="rbf").fit(X, y)
    assert model.solver_ == "active_set"
    assert model.gap_ < 1e-9
    assert 1 <= model.n_iter_ <= model.max_iter


@pytest.mark.full
def test_a_small_fit_compiles_nothing():
    assert subprocess.run([sys.executable, "-c", SMALL_FIT]).returncode == 0


@pytest.mark.parametrize(
    "model", [ODMClassifier(probability=False, C1=1e4, C2=1e4), LDMClassifier(probability=False)]
)
def test_coordinate_descent_takes_over_after_too_many_systems(model):
    X, y = two_classes(n=100)
    model.set_params(solver="active_set").fit(X, y)
    assert model.solver_ == "active_set"
    assert model.n_iter_ > 1
    model.set_params(max_iter=1, tol=0).fit(X, y)
    assert model.solver_ == "dcd"


def test_many_samples_are_left_to_coordinate_descent():
    X, y = two_classes(n=400)
    assert ODMClassifier(probability=False).fit(X, y).solver_ == "dcd"
