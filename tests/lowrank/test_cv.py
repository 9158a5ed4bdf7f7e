"""The searches of the low-rank family: held-out scores that refits confirm, and the choice."""

import warnings

import numpy as np
import pytest
from recorded_scores import Recorder
from searches import make_search
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.preprocessing import scale

from discreg import (
    LRLRClassifier,
    LRLRClassifierCV,
    LRRRClassifier,
    LRRRClassifierCV,
    SLRRClassifier,
    SLRRClassifierCV,
    beta_max,
    g_mean_score,
)

BETAS = (30.0, 1.0, 0.05)


def problem(name):
    if name == "wide":
        rng = np.random.default_rng(0)
        y = np.arange(32) % 4
        return rng.normal(size=(32, 60)) + 0.7 * rng.normal(size=(4, 60))[y], y
    X, y = {"iris": load_iris, "wine": load_wine, "digits": load_digits}[name](return_X_y=True)
    step = {"iris": 3, "wine": 3, "digits": 23}[name]
    return scale(X)[::step], y[::step]


def refits(X, y, weights, beta, rank, **params):
    """Decision values of each sample by the model fitted without it."""
    scores = []
    for i in range(len(y)):
        left = np.ones(len(y)) if weights is None else weights.astype(float)
        left[i] = 0.0
        rest = slice(None) if "kernel" in params else left > 0
        model = LRRRClassifier(beta=beta, rank=rank, probability=False, **params)
        model.fit(X[rest], y[rest], sample_weight=left[rest])
        scores.append(model.decision_function(X[i : i + 1])[0])
    return np.array(scores)


@pytest.mark.parametrize(
    ("name", "fit_intercept"),
    [
        ("iris", True),
        ("wide", False),
    ],
)
def test_leave_one_out_equals_refits_at_every_rank(name, fit_intercept):
    X, y = problem(name)
    recorder = Recorder()
    search = LRRRClassifierCV(
        LRRRClassifier(fit_intercept=fit_intercept), betas=BETAS, scoring=recorder
    ).fit(X, y)
    for setting, seen in zip(search.cv_results_["params"], recorder.seen, strict=True):
        expected = refits(X, y, None, **setting, fit_intercept=fit_intercept)
        np.testing.assert_allclose(seen, expected, atol=1e-8)


def test_leave_one_out_leaves_out_the_whole_weight():
    class_weight = {0: 3.0, 2: 0.5}
    X, y = problem("wine")
    weights = np.random.default_rng(0).integers(1, 4, size=len(y)).astype(float)
    weights[0] = 0.5
    recorder = Recorder()
    search = LRRRClassifierCV(
        LRRRClassifier(class_weight=class_weight), betas=BETAS, scoring=recorder
    )
    search.fit(X, y, sample_weight=weights)
    for setting, seen in zip(search.cv_results_["params"], recorder.seen, strict=True):
        expected = refits(X, y, weights, **setting, class_weight=class_weight)
        np.testing.assert_allclose(seen, expected, atol=1e-8)


def test_leave_one_out_with_a_kernel():
    X, y = problem("iris")
    recorder = Recorder()
    search = LRRRClassifierCV(
        LRRRClassifier(kernel="rbf"), betas=[1.0, 0.05], scoring=recorder, gammas=[0.2]
    )
    search.fit(X, y)
    for setting, seen in zip(search.cv_results_["params"], recorder.seen, strict=True):
        expected = refits(X, y, None, **setting, kernel="rbf")
        np.testing.assert_allclose(seen, expected, atol=1e-8)


def test_weights_are_copies_in_the_choice():
    X, y = problem("wine")
    copies = np.random.default_rng(0).integers(1, 4, size=len(y))
    weighted = LRRRClassifierCV(betas=BETAS).fit(X, y, sample_weight=copies)
    repeated = LRRRClassifierCV(betas=BETAS).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(
        weighted.cv_results_["mean_test_score"], repeated.cv_results_["mean_test_score"]
    )
    assert weighted.best_params_ == repeated.best_params_


def test_default_penalties_begin_at_half_of_the_one_that_leaves_no_feature():
    X, y = problem("wine")
    settings = SLRRClassifierCV(ranks=[1], cv=2).fit(X, y).cv_results_["params"]
    assert 2 * max(setting["beta"] for setting in settings) == pytest.approx(beta_max(X, y))


def scores_by_setting(search):
    return {
        frozenset(setting.items()): score
        for setting, score in zip(
            search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
        )
    }


@pytest.mark.parametrize(
    ("model", "kernel", "gammas"),
    [
        ("LRLR", "linear", None),
        ("LRLR", "poly", None),
        ("LRRR", "rbf", None),
        ("LRRR", "poly", ["scale", 0.01]),
        ("LRRR", "precomputed", None),
    ],
)
def test_folds_equal_grid_search(model, kernel, gammas):
    X, y = problem("digits")
    X = X @ X.T if kernel == "precomputed" else X
    ranks, cv = [1, 3, 9], StratifiedKFold(3)
    params, grid = {"ranks": ranks}, {"rank": ranks}
    if model == "LRRR":
        params["betas"] = grid["beta"] = BETAS
    scale = 1 / (X.shape[1] * X.var())
    tried = [width * scale for width in (0.1, 0.3, 1, 3, 10)] if kernel == "rbf" else None
    if gammas is not None:
        tried = [scale, 0.01]
    if kernel == "poly":
        params["degrees"] = grid["degree"] = [2]
    search_class, classifier = {
        "LRLR": (LRLRClassifierCV, LRLRClassifier),
        "LRRR": (LRRRClassifierCV, LRRRClassifier),
    }[model]
    search = make_search(search_class, kernel=kernel, gammas=gammas, cv=cv, **params).fit(X, y)
    if tried is not None:
        # The variance of X is rounded differently by another BLAS: compare at the same widths.
        grid["gamma"] = sorted({setting["gamma"] for setting in search.cv_results_["params"]})
        np.testing.assert_allclose(grid["gamma"], sorted(tried), rtol=1e-13)
    expected = GridSearchCV(classifier(kernel=kernel, probability=False), grid, cv=cv).fit(X, y)
    ours, theirs = scores_by_setting(search), scores_by_setting(expected)
    assert ours.keys() == theirs.keys()
    for setting, score in ours.items():
        assert score == pytest.approx(theirs[setting])
    assert search.best_score_ == pytest.approx(expected.best_score_)


def test_lrlr_weights_are_equivalent_to_repeating_rows():
    X, y = problem("wine")
    rng = np.random.default_rng(0)
    copies = rng.integers(1, 4, size=len(y))
    place = np.repeat(np.arange(len(y)), copies)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    repeated_folds = [
        tuple(np.flatnonzero(np.isin(place, part)) for part in fold) for fold in folds
    ]
    weighted = LRLRClassifierCV(cv=folds).fit(X, y, sample_weight=copies)
    repeated = LRLRClassifierCV(cv=repeated_folds).fit(X[place], y[place])
    np.testing.assert_allclose(
        weighted.cv_results_["mean_test_score"], repeated.cv_results_["mean_test_score"]
    )
    assert weighted.best_params_ == repeated.best_params_
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8, atol=1e-10)


def test_lrlr_takes_leave_one_out_and_the_lowest_of_equal_ranks():
    X, y = problem("wine")
    search = LRLRClassifierCV().fit(X, y)
    assert search.cv_results_["params"] == [{"rank": 1}, {"rank": 2}]
    assert set(search.cv_results_["held_out"]) == {"one row at a time"}
    means = search.cv_results_["mean_test_score"]
    assert search.best_params_ == {"rank": int(np.argmax(means)) + 1}
    again = LRLRClassifier(**search.best_params_).fit(X, y)
    np.testing.assert_array_equal(search.transform(X), again.transform(X))
    np.testing.assert_array_equal(search.predict(X), again.predict(X))
    assert list(search.get_feature_names_out()) == [
        f"lrlrclassifiercv{k}" for k in range(search.rank_)
    ]


@pytest.mark.parametrize("search_class", [LRLRClassifierCV, LRRRClassifierCV, SLRRClassifierCV])
def test_g_mean_is_a_scoring(search_class):
    X, y = problem("wine")
    cv = StratifiedKFold(3)
    search = make_search(search_class, ranks=[1], scoring="g_mean", cv=cv, probability=False).fit(
        X, y
    )
    model = search.best_estimator_
    scores = []
    for train, test in cv.split(X, y):
        refit = clone(model).set_params(probability=False).fit(X[train], y[train])
        scores.append(g_mean_score(y[test], refit.predict(X[test])))
    assert search.best_score_ == pytest.approx(np.mean(scores))


@pytest.mark.parametrize("search_class", [LRLRClassifierCV, LRRRClassifierCV, SLRRClassifierCV])
def test_methods_are_lazy_on_dask(search_class):
    da = pytest.importorskip("dask.array")
    X, y = problem("wine")
    search = make_search(search_class, ranks=[1, 2], probability=False).fit(X, y)
    chunks = da.from_array(X, chunks=(20, X.shape[1]))
    for method in ("transform", "decision_function", "predict"):
        found = getattr(search, method)(chunks)
        assert isinstance(found, da.Array)
        np.testing.assert_allclose(found.compute(), getattr(search, method)(X))


def test_progress_is_printed_when_asked_for(capsys):
    X, y = problem("wine")
    LRLRClassifierCV(cv=3).fit(X, y)
    assert capsys.readouterr().out == ""
    LRLRClassifierCV(cv=3, verbose=1).fit(X, y)
    assert capsys.readouterr().out.startswith("Round 1 of 1: 2 settings on ")


def test_slrr_folds_equal_grid_search():
    X, y = problem("wine")
    betas, ranks = [1.0, 0.3], [1, 2]
    search = SLRRClassifierCV(
        SLRRClassifier(tol=1e-8, probability=False), betas=betas, ranks=ranks, cv=3
    ).fit(X, y)
    model, cv = SLRRClassifier(tol=1e-8, probability=False), StratifiedKFold(3)
    grid = GridSearchCV(model, {"beta": betas, "rank": ranks}, cv=cv).fit(X, y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], grid.cv_results_["mean_test_score"]
    )
    assert search.cv_results_["params"] == grid.cv_results_["params"]
    np.testing.assert_allclose(search.coef_, search.best_estimator_.coef_)
    np.testing.assert_array_equal(
        search.selected_features_, search.best_estimator_.selected_features_
    )


def test_slrr_defaults_are_in_the_units_of_the_data():
    X, y = problem("wine")
    search = SLRRClassifierCV(SLRRClassifier(probability=False), cv=3)
    plain, scaled = clone(search).fit(X, y), clone(search).fit(1000 * X, y)
    assert scaled.best_params_["beta"] == pytest.approx(1000 * plain.best_params_["beta"])
    assert scaled.best_score_ == plain.best_score_
    assert set(plain.cv_results_["param_rank"]) == {1, 2}


@pytest.mark.parametrize("seed", range(3))
def test_a_vanishing_penalty_is_a_failed_setting_or_a_score(seed, capfd):
    """Coefficients of 1e300 and more overflow, without a word of LAPACK on the terminal."""
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 3, size=(5, 5)).astype(float), rng.permutation([0, 1, 0, 1, 0])
    search = LRRRClassifierCV(LRRRClassifier(probability=False), betas=[1e-300, 1.0], ranks=[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        search.fit(X, y)
    assert np.isfinite(search.decision_function(X)).all()
    assert capfd.readouterr() == ("", "")


def test_the_best_setting_is_simple_and_fitted():
    X, y = problem("iris")
    search = LRRRClassifierCV(betas=BETAS).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert search.best_score_ == scores.max()
    first = int(np.argmax(scores))
    assert search.best_params_ == search.cv_results_["params"][first]
    assert search.rank_ == search.best_params_["rank"]
    again = LRRRClassifier(**search.best_params_).fit(X, y)
    np.testing.assert_allclose(search.decision_function(X), again.decision_function(X))
    np.testing.assert_allclose(search.transform(X), again.transform(X))
    frame = LRRRClassifierCV(betas=BETAS).set_output(transform="pandas").fit(X, y).transform(X)
    assert frame.shape == (len(X), search.rank_)


def test_a_fold_without_a_class():
    """Its largest rank is lower; higher ones are as good as that."""
    X, y = problem("iris")
    order = np.argsort(y, kind="stable")
    with pytest.warns(UserWarning, match="3 of 3 folds lack a class"):
        search = LRRRClassifierCV(betas=[1.0], cv=KFold(3)).fit(X[order], y[order])
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], 0.0)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (LRRRClassifierCV(betas=[-1.0]), "betas must hold"),
        (LRRRClassifierCV(betas=[]), "betas must hold"),
        (LRRRClassifierCV(ranks=[0, 1]), "from 1 to 2"),
        (LRRRClassifierCV(ranks=[3]), "from 1 to 2"),
        (LRRRClassifierCV(ranks=[1.5]), "from 1 to 2"),
        (LRRRClassifierCV(scoring=3), "'scoring' parameter"),
        (LRRRClassifierCV(LRRRClassifier(fit_intercept="yes")), "'fit_intercept' parameter"),
        (LRRRClassifierCV(LRRRClassifier(kernel="rbf"), gammas="x"), "gammas must hold"),
        (LRLRClassifierCV(ranks=[3]), "from 1 to 2"),
        (LRLRClassifierCV(verbose=-1), "'verbose' parameter"),
        (LRLRClassifierCV(LRLRClassifier(kernel="poly"), degrees=[-1]), "degrees must hold"),
        (SLRRClassifierCV(betas="many"), "betas must hold"),
        (SLRRClassifierCV(SLRRClassifier(solver="newton")), "'solver' parameter"),
    ],
)
def test_bad_parameters_are_named(search, message):
    X, y = problem("iris")
    with pytest.raises(ValueError, match=message):
        search.fit(X, y)


def test_early_stops_are_counted():
    X, y = problem("digits")
    with pytest.warns(ConvergenceWarning) as caught:
        SLRRClassifierCV(SLRRClassifier(tol=1e-9, max_iter=2), betas=[0.01], ranks=[3], cv=2).fit(
            X, y
        )
    assert len(caught) == 1
    assert "2 of 2 fits on held-out samples stopped" in str(caught[0].message)


def test_leave_one_out_equals_refits_in_any_unit():
    """Penalties far above and far below the scatter lose no digits."""
    X, y = problem("wine")
    recorder = Recorder()
    X *= 1e-6
    search = LRRRClassifierCV(betas=[1e5, 1.0], scoring=recorder).fit(X, y)
    for setting, seen in zip(search.cv_results_["params"], recorder.seen, strict=True):
        expected = refits(X, y, None, **setting)
        np.testing.assert_allclose(seen, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())


def test_leave_one_out_of_vanishing_penalties_equals_refits():
    """Without a penalty, more features than samples fit the targets exactly."""
    X, y = problem("wide")
    weights = np.random.default_rng(0).choice([0.5, 1.0, 2.0], len(y))
    recorder = Recorder()
    search = LRRRClassifierCV(betas=[1.0, 1e-12, 0.0], ranks=[1, 3], scoring=recorder)
    search.fit(X, y, weights)
    for setting, seen in zip(search.cv_results_["params"], recorder.seen, strict=True):
        expected = refits(X, y, weights, **setting)
        np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["iris", "wide"])
def test_leave_one_out_of_lrlr_equals_refits(name):
    X, y = problem(name)
    recorder = Recorder()
    LRLRClassifierCV(scoring=recorder).fit(X, y)
    for rank, seen in enumerate(recorder.seen, start=1):
        np.testing.assert_allclose(seen, refits(X, y, None, 0.0, rank), rtol=0, atol=1e-9)


@pytest.mark.parametrize("search", [LRLRClassifierCV(), LRRRClassifierCV(betas=BETAS)], ids=str)
def test_groups_are_held_out_in_folds(search):
    X, y = problem("wine")
    search.fit(X, y, groups=np.arange(len(y)) // 3)
    assert set(search.cv_results_["held_out"]) == {"5 folds of whole groups"}
    assert search.held_out_by_ == "5 folds of whole groups"


def test_lrlr_with_a_kernel_takes_folds():
    X, y = problem("iris")
    search = LRLRClassifierCV(LRLRClassifier(kernel="rbf")).fit(X, y)
    assert set(search.cv_results_["held_out"]) == {"5 folds"}
    assert search.best_score_ > 0.8
