"""DRM without whole groups of samples, against refits without each group."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import scale

from discreg import DRMClassifier, DRMClassifierCV
from discreg.representation import _leave_groups_out

SETTINGS = [
    {"alpha": alpha, "beta": beta} for alpha, beta in ((1e-3, 1.0), (1.0, 1e-2), (30.0, 0.1))
]
GROUPINGS = {
    "pairs of a class": lambda y, rng: np.arange(len(y)) // 2,
    "singles, pairs and triples": lambda y, rng: np.sort(rng.integers(0, len(y) // 2, len(y))),
    "several classes": lambda y, rng: rng.integers(0, 9, len(y)),
    "equal shares of all classes": lambda y, rng: np.arange(len(y)) % 8,
}


def wine(size=45):
    X, y = load_wine(return_X_y=True)
    rows = np.sort(np.random.default_rng(0).permutation(len(y))[:size])
    return scale(X)[rows], y[rows]


def assert_equals_refits(model, X, y, weights, groups):
    numbers = np.unique(groups, return_inverse=True)[1]
    path = DRMClassifierCV._leave_groups_out(clone(model), X, y, weights, SETTINGS, numbers)
    for setting, held_out in zip(SETTINGS, path, strict=True):
        scores = np.full((len(y), 3), np.nan)
        scores[held_out.rows] = held_out.scores
        used = np.isin(np.arange(len(y)), held_out.rows)
        for group in np.unique(groups):
            rest, own = groups != group, (groups == group) & used
            if not own.any():
                continue
            given = None if weights is None else weights[rest]
            refit = clone(model).set_params(**setting).fit(X[rest], y[rest], given)
            expected = refit.decision_function(X[own])
            np.testing.assert_allclose(scores[own], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("solver", ["closed", "scatter"])
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_it_equals_refits_without_each_group(grouping, solver):
    X, y = wine()
    groups = GROUPINGS[grouping](y, np.random.default_rng(1))
    model = DRMClassifier(kernel="linear", solver=solver, probability=False)
    assert_equals_refits(model, X, y, None, groups)
    if solver == "closed":
        model.set_params(kernel="rbf", gamma=0.05)
        assert_equals_refits(model, X, y, None, groups)


@pytest.mark.parametrize("solver", ["closed", "scatter"])
def test_weights_count_and_rows_without_weight_do_not(solver):
    X, y = wine()
    rng = np.random.default_rng(2)
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], len(y))
    share = {0: 1.0, 1: 2.0, 2: 0.5}
    model = DRMClassifier(kernel="linear", solver=solver, class_weight=share, probability=False)
    assert_equals_refits(model, X, y, weights, rng.integers(0, 15, len(y)))


def test_few_steps_or_refits_give_the_same(monkeypatch):
    X, y = wine()
    groups = np.arange(len(y)) // 2
    model = DRMClassifier(gamma=0.05, solver="closed", probability=False)
    refitted, refit = [], _leave_groups_out._refitted

    def counted(matrix, rows, K_x):
        refitted.append(len(rows))
        return refit(matrix, rows, K_x)

    monkeypatch.setattr(_leave_groups_out, "_refitted", counted)
    assert_equals_refits(model, X, y, None, groups)
    assert len(refitted) <= 23  # those of the largest alpha
    monkeypatch.setattr(_leave_groups_out, "MAX_STEPS", 1)
    assert_equals_refits(model, X, y, None, groups)
    assert len(refitted) >= 3 * 22


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_groups_of_one_sample_are_leave_one_out(kernel):
    X, y = wine()
    search = DRMClassifierCV(alphas=[0.1, 1.0], betas=[0.1, 1.0], kernel=kernel)
    alone = clone(search).fit(X, y)
    by_groups = clone(search).fit(X, y, groups=np.arange(len(y)))
    assert set(by_groups.cv_results_["held_out"]) == {"one group at a time"}
    np.testing.assert_allclose(
        by_groups.cv_results_["mean_log_loss"], alone.cv_results_["mean_log_loss"], rtol=1e-9
    )


def test_sparse_rows_and_precomputed_kernels():
    X, y = wine()
    X = np.where(X > 0, X, 0.0)
    groups = np.random.default_rng(0).integers(0, 20, len(y))
    search = DRMClassifierCV(alphas=[0.1], betas=[0.1], kernel="linear")
    expected = clone(search).fit(X, y, groups=groups).cv_results_["mean_log_loss"]
    found = clone(search).fit(sparse.csr_array(X), y, groups=groups).cv_results_["mean_log_loss"]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    search.set_params(kernel="precomputed").fit(X @ X.T, y, groups=groups)
    np.testing.assert_allclose(search.cv_results_["mean_log_loss"], expected, rtol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_a_class_within_one_group_is_never_predicted_without_it(kernel):
    X, y = load_iris(return_X_y=True)
    groups = np.where(y == 0, 0, np.arange(len(y)))
    groups[-1] = 0  # a sample of another class in this group
    settings = [{"alpha": 0.1, "beta": 0.1}]
    model = DRMClassifier(kernel=kernel, gamma=0.3, probability=False)
    numbers = np.unique(groups, return_inverse=True)[1]
    held_out = next(DRMClassifierCV._leave_groups_out(model, scale(X), y, None, settings, numbers))
    scores = held_out.scores[np.argsort(held_out.rows)]
    assert np.all(scores[groups == 0].argmax(axis=1) != 0)
    refit = clone(model).set_params(**settings[0]).fit(scale(X)[groups > 0], y[groups > 0])
    expected = refit.decision_function(scale(X)[groups == 0])  # of classes 1 and 2
    found = scores[groups == 0, 2] - scores[groups == 0, 1]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_copies_of_a_row_are_held_out_together():
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.normal(size=(60, 40)), 3, axis=0), np.repeat(np.arange(60) % 2, 3)
    search = DRMClassifierCV(alphas=[0.1], gammas=[1.0], betas=[1e-3])
    assert search.fit(X, y).best_score_ > 0.95
    assert search.fit(X, y, groups="duplicates").best_score_ < 0.6
    assert search.cv_results_["held_out"] == ["one group at a time"]
