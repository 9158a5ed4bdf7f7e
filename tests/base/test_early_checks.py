"""What a search refuses before its first fit, and one rule for folds that lack a class."""

import warnings

import numpy as np
import pytest
from products import every_value
from searches import make_search
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import scale

from discreg import (
    DLSRClassifierCV,
    DRMClassifier,
    DRMClassifierCV,
    GReLSRClassifierCV,
    LDMClassifier,
    LDMClassifierCV,
    LRLRClassifierCV,
    LRRRClassifierCV,
    LSRClassifierCV,
    ODMClassifier,
    ODMClassifierCV,
    ReLSRClassifier,
    ReLSRClassifierCV,
    SLRRClassifier,
    SLRRClassifierCV,
)

SEARCHES = {
    LSRClassifierCV: {"betas": [1.0]},
    DLSRClassifierCV: {"betas": [1.0]},
    ReLSRClassifierCV: {"betas": [1.0]},
    GReLSRClassifierCV: {"betas": [1.0], "group_penalties": [1.0]},
    LRLRClassifierCV: {"ranks": [1, 2]},
    LRRRClassifierCV: {"betas": [1.0]},
    SLRRClassifierCV: {"betas": [1.0]},
    DRMClassifierCV: {"betas": [1.0], "alphas": [1.0], "kernel": "linear"},
    ODMClassifierCV: {"C1s": [10.0], "C2s": [10.0], "Ds": [0.1], "kernel": "linear", "tol": 1e-9},
    LDMClassifierCV: {"Cs": [10.0], "lambda1s": [1.0], "kernel": "linear", "tol": 1e-9},
}
WITH_KERNEL = [each for each in SEARCHES if each is not SLRRClassifierCV]


def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


def forbid_fits(monkeypatch, search):
    def fit(*_):
        raise AssertionError("A fit began.")

    for name in ("_held_out", "_leave_one_out"):
        monkeypatch.setattr(search, name, staticmethod(fit))


MISTAKES = [
    ({"scoring": "roc_auc"}, {}, "scoring='roc_auc' cannot be used"),
    ({"scoring": "excellence"}, {}, "scoring"),
    ({"cv": 1}, {}, "n_splits"),
    ({"cv": "five"}, {}, "cv"),
    ({"cv": [([0, 60, 120], [1000])]}, {}, "cv gives rows that X does not have"),
    ({"cv": GroupKFold(3)}, {"groups": [0, 1]}, "inconsistent numbers of samples"),
    ({"cv": GroupKFold(3)}, {}, "groups"),
    ({"n_jobs": "two"}, {}, "'n_jobs' parameter"),
    ({"verbose": -1}, {}, "'verbose' parameter"),
    ({"class_weight": {7: 1.0}}, {}, "class_weight"),
    ({"class_weight": "heavy"}, {}, "'class_weight' parameter"),
    ({}, {"sample_weight": -1.0}, "sample_weight"),
    ({}, {"y": [0, None, 1] * 50}, "y"),
    ({}, {"y": ["a", None, "b"] * 50}, "y"),
    ({}, {"y": np.linspace(0, 1, 150)}, "Unknown label type"),
]


@every_value(search=[*SEARCHES, *SEARCHES], mistake=MISTAKES)
def test_mistakes_are_named_before_the_first_fit(search, mistake, monkeypatch):
    params, arguments, message = mistake
    forbid_fits(monkeypatch, search)
    X, y = iris()
    with pytest.raises((ValueError, TypeError), match=message):
        make_search(search, **SEARCHES[search] | params).fit(**{"X": X, "y": y} | arguments)


KERNEL_MISTAKES = [
    ({"kernel": "poly", "degrees": [np.inf]}, "degrees must hold"),
    ({"kernel": "poly", "degrees": [10**400]}, "degrees must hold"),
    ({"kernel": "rbf", "gammas": [0.0]}, "gammas must hold"),
    ({"kernel": "rbf", "gammas": object()}, "gammas must hold"),
    ({"kernel": "rbf", "gammas": [None]}, "gammas must hold"),
    ({"kernel": "poly", "coef0": np.inf}, "'coef0' parameter"),
    ({"kernel": "flat"}, "'kernel' parameter"),
    ({"kernel_params": 3}, "'kernel_params' parameter"),
]


@every_value(search=WITH_KERNEL, mistake=KERNEL_MISTAKES)
def test_mistakes_in_the_kernel_are_named_before_the_first_fit(search, mistake, monkeypatch):
    params, message = mistake
    forbid_fits(monkeypatch, search)
    with pytest.raises(ValueError, match=message):
        make_search(search, **SEARCHES[search] | params).fit(*iris())


@pytest.mark.parametrize("search", [each for each in SEARCHES if each is not DRMClassifierCV])
def test_other_mistakes_are_named_before_the_first_fit(search, monkeypatch):
    forbid_fits(monkeypatch, search)
    X, y = iris()
    with pytest.raises(ValueError, match="'fit_intercept' parameter"):
        make_search(search, **SEARCHES[search], fit_intercept="no").fit(X, y)
    with pytest.raises(ValueError, match="'probability' parameter"):
        make_search(search, **SEARCHES[search], probability="no").fit(X, y)


OWN_MISTAKES = [
    (SLRRClassifierCV(SLRRClassifier(stopping="change")), "stopping='change' requires"),
    (GReLSRClassifierCV(group_penalties=[1e7]), "group_penalties must hold"),
    (DRMClassifierCV(DRMClassifier(reject_above=0.5, unknown_label=1)), "unknown_label must be"),
    (
        DRMClassifierCV(DRMClassifier(reject_above=0.5, unknown_label="new")),
        "unknown_label must be",
    ),
    (
        ODMClassifierCV(ODMClassifier(kernel="rbf", solver="svrg")),
        "solver='svrg' needs kernel='linear'",
    ),
    (
        LDMClassifierCV(LDMClassifier(kernel="rbf", solver="svrg")),
        "solver='svrg' needs kernel='linear'",
    ),
    (
        ODMClassifierCV(ODMClassifier(kernel="rbf", solver="newton")),
        "solver='newton' needs kernel='linear'",
    ),
    (ODMClassifierCV(ODMClassifier(random_state="a")), "seed"),
    (LDMClassifierCV(LDMClassifier(random_state="a")), "seed"),
    (DRMClassifierCV(DRMClassifier(random_state="a")), "seed"),
]


@pytest.mark.parametrize(("search", "message"), OWN_MISTAKES)
def test_mistakes_in_own_parameters_are_named_before_the_first_fit(search, message, monkeypatch):
    forbid_fits(monkeypatch, type(search))
    with pytest.raises(ValueError, match=message):
        search.fit(*iris())


@pytest.mark.parametrize("search", SEARCHES)
def test_a_fold_without_a_class_is_named_and_its_samples_count_as_errors(search):
    X, y = iris()
    labels = np.array(["a", "b", "c"])[y]
    third = np.flatnonzero(y == 2)
    folds = [(np.setdiff1d(np.arange(150), third), third), *StratifiedKFold(2).split(X, y)]
    tried = make_search(search, **SEARCHES[search], cv=folds)
    with pytest.warns(UserWarning, match=r"1 of 3 folds lack a class.*fold 0.*class 'c'") as caught:
        tried.fit(X, labels)
    assert [each.filename for each in caught] == [__file__]
    assert tried.cv_results_["split0_test_score"].max() == 0.0
    others = make_search(search, **SEARCHES[search], cv=folds[1:]).fit(X, labels)
    for number in (1, 2):
        np.testing.assert_array_equal(
            tried.cv_results_[f"split{number}_test_score"],
            others.cv_results_[f"split{number - 1}_test_score"],
        )


@every_value(search=SEARCHES, class_weight=[None, "balanced", {2: 2.0}])
def test_samples_of_weight_zero_are_as_absent_ones(search, class_weight):
    """Also where they leave the training part of a fold without a class."""
    X, y = iris()
    folds = list(StratifiedKFold(3).split(X, y))
    weights = np.ones(150)
    weights[folds[0][0][y[folds[0][0]] == 2]] = 0
    kept = np.flatnonzero(weights)
    place = np.full(150, -1)
    place[kept] = np.arange(len(kept))
    remaining = [tuple(place[part[weights[part] > 0]] for part in fold) for fold in folds]
    found = []
    for data, given, cv in (
        ((X, y), weights, folds),
        ((X[kept], y[kept]), None, remaining),
    ):
        tried = make_search(search, **SEARCHES[search], cv=cv, class_weight=class_weight)
        with pytest.warns(UserWarning, match="folds lack a class"):
            found.append(tried.fit(*data, sample_weight=given).cv_results_["mean_test_score"])
    np.testing.assert_allclose(*found)


def test_a_fold_with_one_class_is_refused_before_the_first_fit(monkeypatch):
    X, y = iris()
    for search, few in SEARCHES.items():
        forbid_fits(monkeypatch, search)
        with pytest.raises(ValueError, match=r"fold 1 cannot be fitted.*one class only"):
            make_search(search, **few, cv=[(np.arange(120), [140]), (np.arange(50), [140])]).fit(
                X, y
            )
        with pytest.raises(ValueError, match="test part of fold 0 has no sample"):
            make_search(search, **few, cv=[(np.arange(150), [])]).fit(X, y)


def test_no_fold_with_all_classes():
    X, y = iris()
    for search, few in SEARCHES.items():
        with pytest.warns(UserWarning, match="3 of 3 folds lack a class"):
            tried = make_search(search, **few, cv=KFold(3)).fit(X, y)
        assert tried.best_score_ == 0.0


def test_a_users_metric_sees_only_scores_of_fitted_models():
    X, y = iris()
    calls = []

    def scorer(model, scores, labels):
        calls.append(len(labels))
        return model.score(scores, labels)

    LSRClassifierCV(betas=[1.0, 0.1], cv=3, scoring=scorer).fit(X, y)
    assert len(calls) == 6
    undefined = make_scorer(lambda truth, guess: 1 / int(np.sum(truth != guess)))
    assert LSRClassifierCV(betas=[1.0], scoring=undefined).fit(X, y).best_score_ > 0


SLOW = {  # too few iterations, or a tolerance below rounding
    DLSRClassifierCV: {"betas": [1e-3, 1e-4], "max_iter": 1},
    ReLSRClassifierCV: {"betas": [1e-3, 1e-4], "max_iter": 1},
    GReLSRClassifierCV: {"betas": [1e-3, 1e-4], "group_penalties": [1.0], "max_iter": 1},
    SLRRClassifierCV: {"betas": [0.02], "ranks": [1, 2], "tol": 1e-12, "max_iter": 1},
    ODMClassifierCV: {"C1s": [10.0], "C2s": [10.0], "Ds": [0.1], "tol": 1e-12, "max_iter": 1}
    | {"kernel": "linear", "solver": "svrg"},
    LDMClassifierCV: {"Cs": [10.0], "lambda1s": [0.0, 10.0], "tol": 1e-30},
}


@pytest.mark.parametrize(
    ("method", "model"),
    [
        ("fit", ReLSRClassifier(beta=1e-4, max_iter=1)),
        ("fit", make_pipeline(ReLSRClassifier(beta=1e-4, max_iter=1))),
        ("fit", make_pipeline(LDMClassifier(tol=1e-30))),
        ("fit_transform", SLRRClassifier(beta=0.02, rank=1, tol=1e-12, max_iter=1)),
        ("fit", make_pipeline(SLRRClassifier(beta=0.02, rank=1, tol=1e-12, max_iter=1))),
        ("fit", make_pipeline(make_search(SLRRClassifierCV, **SLOW[SLRRClassifierCV]))),
        ("score", DRMClassifier(solver="gd", max_iter=1).fit(*iris())),
    ],
)
def test_the_convergence_warning_of_each_method_names_the_callers_line(method, model):
    with pytest.warns(ConvergenceWarning) as caught:
        getattr(model, method)(*iris())
    assert [each.filename for each in caught] == [__file__]


@every_value(search=SEARCHES, n_jobs=[2, None, None])
def test_at_most_one_convergence_warning_at_the_callers_line(search, n_jobs):
    X, y = iris()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make_search(search, **SLOW.get(search, SEARCHES[search]), cv=3, n_jobs=n_jobs).fit(X, y)
    assert [each.filename for each in caught] == [__file__] * (search in SLOW)
    for each in caught:
        assert "fits on held-out samples stopped before tol was reached" in str(each.message)


@pytest.mark.parametrize("cv", [None, 3])
def test_drm_solvers_that_do_not_fit_the_kernel_are_refused_before_the_first_fit(cv):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"^solver='scatter' requires a linear kernel"):
        DRMClassifierCV(DRMClassifier(solver="scatter", kernel="rbf"), cv=cv).fit(X, y)
    with pytest.raises(ValueError, match=r"^solver='closed' requires penalty='ridge'"):
        DRMClassifier(solver="closed", penalty="lasso").fit(X, y)
    search = DRMClassifierCV(
        DRMClassifier(solver="scatter", kernel="rbf", n_components=20),
        cv=cv,
        alphas=[1.0],
        betas=[1.0],
    )
    assert search.fit(X, y).score(X, y) > 0.9
