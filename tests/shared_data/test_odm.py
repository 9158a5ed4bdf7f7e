"""ODM and LDM on data sets of their paper: what comes out there, and that all solvers agree."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import minmax_scale

from discreg import LDMClassifier, ODMClassifier


def mean_accuracy(model, data, n_splits=8):
    """Accuracy on random halves, features in [0, 1], as in the paper."""
    X, y = minmax_scale(data.X), data.y
    halves = (train_test_split(X, y, test_size=0.5, random_state=seed) for seed in range(n_splits))
    return np.mean([model.fit(X, y).score(X2, y2) for X, X2, y, y2 in halves])


@pytest.mark.parametrize(
    ("name", "table2", "table3"), [("diabetes", 0.671, 0.777), ("fourclass", 0.723, 1.000)]
)
def test_tables_2_and_3_come_out_without_an_intercept_only(load_data, name, table2, table3):
    data = load_data(f"odm/{name}")
    params = {"C1": 1024, "C2": 256, "D": 0.1}
    bare = mean_accuracy(ODMClassifier(**params, kernel="linear", fit_intercept=False), data)
    whole = mean_accuracy(ODMClassifier(**params, kernel="linear"), data)
    assert bare == pytest.approx(table2, abs=0.02)
    assert whole > table2 + 0.04
    rbf = ODMClassifier(**params, fit_intercept=False, gamma=10.0 if name == "fourclass" else 1.0)
    assert mean_accuracy(rbf, data) == pytest.approx(table3, abs=0.02)


def test_ldm_without_an_intercept_is_at_its_table(load_data):
    model = LDMClassifier(C=100, lambda1=2**-4, lambda2=2**-4, kernel="linear", fit_intercept=False)
    assert mean_accuracy(model, load_data("odm/fourclass")) == pytest.approx(0.723, abs=0.02)


@pytest.mark.parametrize("name", ["a9a", pytest.param("w8a", marks=pytest.mark.full)])
def test_solvers_of_linear_odm_agree_on_many_rows(load_data, name):
    X, y = load_data(f"large/{name}")
    objectives = {}
    for solver in ("newton", "dcd", "svrg"):
        model = ODMClassifier(kernel="linear", C1=100, C2=50, solver=solver, random_state=0)
        model.set_params(tol=1e-12, max_iter=20_000).fit(X, y)
        assert model.gap_ <= 1e-12
        objectives[solver] = model.objective_
    assert objectives["dcd"] == pytest.approx(objectives["newton"], rel=1e-10)
    assert objectives["svrg"] == pytest.approx(objectives["newton"], rel=1e-10)


def test_more_features_than_samples_in_a_sparse_matrix(load_data):
    X, y = load_data("large/farm-ads")
    model = ODMClassifier(kernel="linear", C1=100, C2=50, random_state=0).fit(X, y)
    assert sparse.issparse(model.support_vectors_)
    assert model.solver_ == "dcd"
    assert model.gap_ <= 1e-3
    by_newton = ODMClassifier(kernel="linear", C1=100, C2=50, solver="newton").fit(X, y)
    assert model.objective_ <= by_newton.objective_ * (1 + 2e-3)
    assert np.mean(model.predict(X) == by_newton.predict(X)) > 0.99
