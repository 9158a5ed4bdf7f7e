"""The searches of ODM and LDM are grid searches, from one kernel matrix for each width and fold."""

import numpy as np
import pytest
import searches
from margin_problems import three_classes, two_classes
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold

from discreg import (
    LDMClassifier,
    LDMClassifierCV,
    ODMClassifier,
    ODMClassifierCV,
    g_mean_score,
)
from discreg.linalg.fitted_kernel import FittedKernel

ODM = {"C1": [3.0, 300.0], "C2": [1.0, 30.0], "D": [0.0, 0.3]}
LDM = {"C": [3.0, 100.0], "lambda1": [1.0, 20.0], "lambda2": [0.0, 0.3]}
MODELS = {
    "odm": (ODMClassifierCV, ODMClassifier, ODM),
    "ldm": (LDMClassifierCV, LDMClassifier, LDM),
}
TIGHT = {"tol": 1e-9, "random_state": 0, "max_iter": 20_000}
every_search = pytest.mark.parametrize("name", MODELS)


def make_search(name, **params):
    """A search of eight settings for each kernel."""
    search, _, grid = MODELS[name]
    candidates = {f"{each}s": values for each, values in grid.items()}
    return searches.make_search(search, **candidates, **params)


def scores_by_setting(results):
    """Mean scores, found by their setting, whatever the order of the grid."""
    return {
        tuple(sorted(setting.items())): score
        for setting, score in zip(results["params"], results["mean_test_score"], strict=True)
    }


@every_search
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_the_search_is_a_grid_search(name, kernel):
    X, y = three_classes() if kernel == "linear" else two_classes()
    fit_intercept = kernel == "rbf"
    _, classifier, grid = MODELS[name]
    fixed = {"kernel": kernel, "fit_intercept": fit_intercept, **TIGHT}
    gammas = None
    if kernel == "rbf":
        gammas = [0.05, 0.5]
        grid = {**grid, "gamma": gammas}
    ours = make_search(name, gammas=gammas, cv=3, **fixed).fit(X, y)
    theirs = GridSearchCV(classifier(**fixed, probability=False), grid, cv=3).fit(X, y)
    expected = scores_by_setting(theirs.cv_results_)
    assert scores_by_setting(ours.cv_results_) == pytest.approx(expected, abs=1e-12)
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=1e-12)
    again = classifier(**fixed, **ours.best_params_).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), again.decision_function(X), atol=1e-9)
    np.testing.assert_array_equal(ours.predict(X), again.predict(X))


@every_search
def test_weights_reach_the_fits_and_the_scores(name):
    X, y = two_classes()
    weights = np.random.default_rng(0).integers(1, 4, size=len(y))
    copies = np.repeat(np.arange(len(y)), weights)
    folds = list(StratifiedKFold(3).split(X, y))
    folds_of_copies = [
        tuple(np.flatnonzero(np.isin(copies, part)) for part in fold) for fold in folds
    ]
    settings = {"gammas": [0.2], **TIGHT}
    weighted = make_search(name, **settings, cv=folds).fit(X, y, weights)
    copied = make_search(name, **settings, cv=folds_of_copies).fit(X[copies], y[copies])
    np.testing.assert_allclose(
        weighted.cv_results_["mean_test_score"], copied.cv_results_["mean_test_score"], atol=1e-12
    )


@every_search
def test_precomputed_kernels_and_sparse_rows_give_the_same_scores(name):
    X, y = two_classes()
    settings = {"cv": 3, "probability": False, **TIGHT}
    rbf = make_search(name, **settings, gammas=[0.3]).fit(X, y)
    precomputed = make_search(name, **settings, kernel="precomputed").fit(
        FittedKernel("rbf", 0.3)(X), y
    )
    of_sparse = make_search(name, **settings, gammas=[0.3]).fit(sparse.csr_array(X), y)
    for other in (precomputed, of_sparse):
        np.testing.assert_allclose(
            other.cv_results_["mean_test_score"], rbf.cv_results_["mean_test_score"], atol=1e-12
        )


@every_search
def test_any_scorer_and_splitter(name):
    X, y = two_classes()
    groups = np.arange(len(y)) % 7
    search = make_search(
        name, gammas=["scale", 1.0], cv=GroupKFold(3), scoring="roc_auc", random_state=0
    )
    search.fit(X, y, groups=groups)
    assert 0.5 < search.best_score_ <= 1
    assert len(search.cv_results_["params"]) == 16
    assert "split2_test_score" in search.cv_results_
    by_hand = make_search(name, gammas=["scale", 1.0], scoring="roc_auc", random_state=0)
    by_hand.set_params(cv=list(GroupKFold(3).split(X, y, groups))).fit(X, y)
    np.testing.assert_array_equal(
        by_hand.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"]
    )
    recall = make_scorer(recall_score)
    assert make_search(name, gammas=[0.1], scoring=recall).fit(X, y).best_score_ <= 1


@every_search
def test_the_geometric_mean_of_the_recalls_has_a_name(name):
    X, y = two_classes()
    named, given = (
        make_search(name, gammas=[0.1], cv=3, scoring=scoring, random_state=0).fit(X, y)
        for scoring in ("g_mean", make_scorer(g_mean_score))
    )
    assert named.best_score_ == given.best_score_
    assert named.best_params_ == given.best_params_


@every_search
def test_degrees_of_a_polynomial_kernel(name):
    X, y = two_classes()
    search = make_search(name, kernel="poly", degrees=[1, 2], gammas=[0.1], cv=3).fit(X, y)
    assert {setting["degree"] for setting in search.cv_results_["params"]} == {1, 2}
    assert search.best_estimator_.degree == search.best_params_["degree"]


@every_search
def test_one_kernel_matrix_for_each_width_and_fold(name, monkeypatch):
    X, y = two_classes()
    calls = []
    original = FittedKernel.training_matrix

    def counted(self, *args, **kwargs):
        calls.append(self.gamma)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(FittedKernel, "training_matrix", counted)
    make_search(name, gammas=[0.1, 1.0], cv=3, probability=False).fit(X, y)
    assert len(calls) == 2 * 3 + 1  # and one for the best setting on all samples


def test_parallel_folds_give_the_same():
    X, y = three_classes()
    one, two = (
        make_search("odm", gammas=[0.2], random_state=0, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (None, 2)
    )
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )


def test_progress_is_printed_only_when_asked_for(capsys):
    X, y = two_classes()
    make_search("odm", gammas=[0.1, 1.0], cv=2).fit(X, y)
    assert capsys.readouterr().out == ""
    make_search("odm", gammas=[0.1, 1.0], cv=2, verbose=1).fit(X, y)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("Round 1 of 1: ")


@every_search
def test_fits_that_stop_early_are_counted_in_one_warning(name):
    X, y = two_classes()
    search = make_search(name, kernel="linear", solver="svrg", cv=3, max_iter=1, tol=1e-9)
    with pytest.warns(ConvergenceWarning) as caught:
        search.fit(X, y)
    (warning,) = caught
    assert "of 24 fits on held-out samples stopped before tol" in str(warning.message)


def test_settings_of_ldm_without_a_minimum_get_no_score():
    X, y = two_classes()
    X, y = X[np.argsort(y)][10:], np.sort(y)[10:]  # classes of different sizes
    search = LDMClassifierCV(Cs=[1.0], lambda1s=[0.0, 1.0], lambda2s=[0.0, 1e3], gammas=[0.1], cv=3)
    with pytest.warns(FitFailedWarning, match=r"1 of 4 settings cannot be fitted.*no minimum"):
        search.fit(X, y)
    failed = [np.isnan(score) for score in search.cv_results_["mean_test_score"]]
    assert [
        (setting["lambda1"], setting["lambda2"])
        for setting, without in zip(search.cv_results_["params"], failed, strict=True)
        if without
    ] == [(0.0, 1e3)]
    assert np.isfinite(search.best_score_)


@pytest.mark.parametrize(
    ("name", "grid", "message"),
    [
        ("odm", {"C1s": [0.0, 1.0]}, "C1s must hold one or more finite numbers, each positive"),
        ("odm", {"C2s": []}, "C2s must hold"),
        ("odm", {"Ds": [1.0]}, "Ds must hold .* at least 0 and below 1"),
        ("odm", {"tol": -1}, "'tol' parameter of ODMClassifier "),
        ("ldm", {"Cs": [0.0]}, "Cs must hold one or more finite numbers, each positive"),
        ("ldm", {"lambda1s": [-1.0]}, "lambda1s must hold .* not negative"),
        ("ldm", {"lambda2s": [np.nan]}, "lambda2s must hold .* not negative"),
        ("ldm", {"gammas": [-1.0]}, "gammas must hold"),
        ("ldm", {"scoring": 3}, "'scoring' parameter"),
        ("ldm", {"solver": "newton"}, "'solver' parameter of LDMClassifier "),
    ],
)
def test_bad_candidates_are_named(name, grid, message):
    X, y = two_classes()
    with pytest.raises(ValueError, match=message):
        searches.make_search(MODELS[name][0], **grid).fit(X, y)


@every_search
def test_a_fold_without_a_class_is_named(name):
    X, y = two_classes(n=20)
    order = np.argsort(y)
    X, y = X[order], y[order]
    halves = [(np.flatnonzero(y == y[0]), np.flatnonzero(y == y[-1]))]
    with pytest.raises(ValueError, match=r"training part of fold 0 cannot be fitted.*one class"):
        make_search(name, cv=halves).fit(X, y)


@every_search
def test_default_grids_are_small_and_continued_at_their_edges(name, capsys):
    X, y = two_classes()
    search = searches.make_search(MODELS[name][0], verbose=1, random_state=0).fit(X, y)
    results = search.cv_results_
    given = ~results["beyond_grid"]
    assert given.sum() == 12
    continued = {"odm": "C1", "ldm": "lambda1"}[name]
    values = {each: results[f"param_{each}"] for each in (continued, "gamma")}
    best = results["params"].index(search.best_params_)
    edges = [
        each
        for each, tried in values.items()
        if tried[best] > 0 and tried[best] in (tried[given].min(), tried[given].max())
    ]
    assert len(edges) == 0 or results["beyond_grid"].any()
    first, *further = capsys.readouterr().out.splitlines()
    assert first.startswith("Round 1 of 1: 12 settings")
    assert all(line.startswith("Beyond the grid: ") and "best score" in line for line in further)
    assert bool(further) == results["beyond_grid"].any()


def test_a_huge_weight_of_the_variance_is_refused_by_name():
    X, y = two_classes(400)
    with pytest.raises(ValueError, match=r"overflows with lambda1=1e\+100. Lower lambda1"):
        LDMClassifierCV(Cs=[1.0], lambda1s=[1e100], lambda2s=[1.0], gammas=[0.3], cv=3).fit(X, y)
