"""The search of ODM is a grid search, from one kernel matrix a width and fold."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.preprocessing import scale

from discreg import ODMClassifier, ODMClassifierCV
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernels import kernel_matrix

GRID = {"C1": [3.0, 300.0], "C2": [1.0, 30.0], "D": [0.0, 0.3]}
PLURALS = {"C1s": GRID["C1"], "C2s": GRID["C2"], "Ds": GRID["D"]}
TIGHT = {"tol": 1e-9, "random_state": 0}


def two_classes(n_samples=90):
    return make_classification(n_samples, 6, n_informative=4, flip_y=0.1, random_state=3)


def three_classes():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    return scale(X)[::2], names[y[::2]]


def scores_by_setting(results):
    """Mean scores, found by their setting, whatever the order of the grid."""
    return {
        tuple(sorted(setting.items())): score
        for setting, score in zip(results["params"], results["mean_test_score"], strict=True)
    }


@pytest.mark.parametrize("data", [two_classes, three_classes])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_the_search_is_a_grid_search(data, fit_intercept, kernel):
    X, y = data()
    fixed = {"kernel": kernel, "fit_intercept": fit_intercept, **TIGHT}
    grid, gammas = dict(GRID), None
    if kernel == "rbf":
        grid["gamma"] = gammas = [0.05, 0.5]
    ours = ODMClassifierCV(**PLURALS, gammas=gammas, cv=3, **fixed).fit(X, y)
    theirs = GridSearchCV(ODMClassifier(**fixed), grid, cv=3).fit(X, y)
    expected = scores_by_setting(theirs.cv_results_)
    assert scores_by_setting(ours.cv_results_) == pytest.approx(expected, abs=1e-12)
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=1e-12)
    again = ODMClassifier(**fixed, **ours.best_params_).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), again.decision_function(X), atol=1e-9)
    np.testing.assert_array_equal(ours.predict(X), again.predict(X))


def test_weights_reach_the_fits_and_the_scores():
    X, y = two_classes()
    weights = np.random.default_rng(0).integers(1, 4, size=len(y))
    copies = np.repeat(np.arange(len(y)), weights)
    folds = list(StratifiedKFold(3).split(X, y))
    folds_of_copies = [
        tuple(np.flatnonzero(np.isin(copies, part)) for part in fold) for fold in folds
    ]
    settings = {**PLURALS, "gammas": [0.2], **TIGHT}
    weighted = ODMClassifierCV(**settings, cv=folds).fit(X, y, weights)
    copied = ODMClassifierCV(**settings, cv=folds_of_copies).fit(X[copies], y[copies])
    np.testing.assert_allclose(
        weighted.cv_results_["mean_test_score"], copied.cv_results_["mean_test_score"], atol=1e-12
    )
    assert weighted.best_params_ == copied.best_params_
    np.testing.assert_allclose(
        weighted.decision_function(X), copied.decision_function(X), atol=1e-7
    )


def test_precomputed_kernels_and_sparse_rows_give_the_same_scores():
    X, y = two_classes()
    settings = {**PLURALS, "cv": 3, **TIGHT}
    rbf = ODMClassifierCV(**settings, gammas=[0.3]).fit(X, y)
    precomputed = ODMClassifierCV(**settings, kernel="precomputed").fit(
        kernel_matrix(X, kernel="rbf", gamma=0.3), y
    )
    of_sparse = ODMClassifierCV(**settings, gammas=[0.3]).fit(sparse.csr_array(X), y)
    for other in (precomputed, of_sparse):
        np.testing.assert_allclose(
            other.cv_results_["mean_test_score"], rbf.cv_results_["mean_test_score"], atol=1e-12
        )


def test_any_scorer_and_splitter():
    X, y = two_classes()
    groups = np.arange(len(y)) % 7
    search = ODMClassifierCV(**PLURALS, gammas=["scale", 1.0], cv=GroupKFold(3), scoring="roc_auc")
    search.fit(X, y, groups=groups)
    assert 0.5 < search.best_score_ <= 1
    assert len(search.cv_results_["params"]) == 16
    assert "split2_test_score" in search.cv_results_
    recall = make_scorer(recall_score)
    assert ODMClassifierCV(**PLURALS, gammas=[0.1], scoring=recall).fit(X, y).best_score_ <= 1


def test_one_kernel_matrix_for_each_width_and_fold(monkeypatch):
    X, y = two_classes()
    calls = []
    original = FittedKernel.training_matrix

    def counted(self, *args, **kwargs):
        calls.append(self.gamma)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(FittedKernel, "training_matrix", counted)
    ODMClassifierCV(**PLURALS, gammas=[0.1, 1.0], cv=3).fit(X, y)
    assert len(calls) == 2 * 3 + 1  # and one for the best setting on all samples


def test_parallel_folds_give_the_same():
    X, y = three_classes()
    one, two = (
        ODMClassifierCV(**PLURALS, gammas=[0.2], random_state=0, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (None, 2)
    )
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"C1s": [0.0, 1.0]}, "C1s must hold one or more finite numbers, each positive"),
        ({"C2s": []}, "C2s must hold"),
        ({"Ds": [1.0]}, "Ds must hold .* at least 0 and below 1"),
        ({"gammas": [-1.0]}, "gammas must hold"),
        ({"tol": -1}, "'tol' parameter of ODMClassifierCV"),
        ({"scoring": 3}, "'scoring' parameter"),
    ],
)
def test_bad_candidates_are_named(grid, message):
    X, y = two_classes()
    with pytest.raises(ValueError, match=message):
        ODMClassifierCV(**grid).fit(X, y)


def test_a_fold_without_a_class_is_named():
    X, y = two_classes(20)
    y = np.sort(y)
    halves = [(np.flatnonzero(y == 0), np.flatnonzero(y == 1))]
    with pytest.raises(ValueError, match=r"training part of fold 0 cannot be fitted.*one class"):
        ODMClassifierCV(**PLURALS, cv=halves).fit(X, y)
