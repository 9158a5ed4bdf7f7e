"""The searches give what GridSearchCV gives, from less work."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from threading import Barrier

import numpy as np
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.metrics import accuracy_score, brier_score_loss, make_scorer, roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.preprocessing import StandardScaler

import discreg
from discreg import (
    DLSRClassifier,
    DLSRClassifierCV,
    DRMClassifierCV,
    GReLSRClassifier,
    GReLSRClassifierCV,
    LDMClassifierCV,
    LRLRClassifierCV,
    LRRRClassifier,
    LRRRClassifierCV,
    LSRClassifier,
    LSRClassifierCV,
    ODMClassifierCV,
    ReLSRClassifier,
    ReLSRClassifierCV,
    SLRRClassifier,
    SLRRClassifierCV,
)
from discreg.base.trials import HeldOut, beyond

BETAS = [1.0, 0.1, 0.01]
SEARCHES = [LSRClassifierCV, DLSRClassifierCV, ReLSRClassifierCV, GReLSRClassifierCV]


def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X)[:, :4], y


def model_of(search):
    return getattr(discreg, search.__name__.removesuffix("CV"))


def candidates(search, estimator=None, **params):
    grid = {"group_penalties": [1.0, 0.0]} if search is GReLSRClassifierCV else {}
    return search(estimator, betas=BETAS, cv=StratifiedKFold(4), **grid, **params)


@pytest.mark.parametrize("scoring", [None, "f1_macro"])
@pytest.mark.parametrize("search", SEARCHES)
def test_equals_grid_search(search, scoring):
    X, y = wine()
    fitted = candidates(search, scoring=scoring).fit(X, y)
    grid = {"beta": BETAS}
    if search is GReLSRClassifierCV:
        grid["group_penalty"] = [1.0, 0.0]
    expected = GridSearchCV(model_of(search)(), grid, cv=StratifiedKFold(4), scoring=scoring)
    expected.fit(X, y)
    theirs = {
        tuple(sorted(params.items())): row
        for params, row in zip(
            expected.cv_results_["params"],
            np.transpose([expected.cv_results_[f"split{i}_test_score"] for i in range(4)]),
            strict=True,
        )
    }
    for row, params in enumerate(fitted.cv_results_["params"]):
        ours = [fitted.cv_results_[f"split{i}_test_score"][row] for i in range(4)]
        np.testing.assert_allclose(ours, theirs[tuple(sorted(params.items()))], atol=1e-12)
    assert fitted.best_score_ == pytest.approx(expected.best_score_)
    assert (
        fitted.cv_results_["rank_test_score"][
            fitted.cv_results_["params"].index(fitted.best_params_)
        ]
        == 1
    )
    assert set(fitted.cv_results_) >= {
        "params",
        "param_beta",
        "mean_test_score",
        "std_test_score",
        "rank_test_score",
        "mean_fit_time",
    }


@pytest.mark.parametrize("search", SEARCHES)
def test_best_setting_is_refitted_on_all_samples(search):
    X, y = wine()
    fitted = candidates(search).fit(X, y)
    refit = model_of(search)(**fitted.best_params_).fit(X, y)
    np.testing.assert_allclose(fitted.coef_, refit.coef_, atol=1e-10)
    np.testing.assert_array_equal(fitted.predict(X), refit.predict(X))
    np.testing.assert_array_equal(fitted.classes_, refit.classes_)
    assert fitted.gap_ <= 1e-6


def test_equally_good_settings_go_to_the_smallest_log_loss():
    X, y = wine()
    equal = make_scorer(lambda *_: 1.0)
    fitted = LSRClassifierCV(betas=[1e-3, 0.1, 1e3], scoring=equal).fit(X, y)
    losses = LSRClassifierCV(betas=[1e-3, 0.1, 1e3], scoring="neg_log_loss").fit(X, y)
    assert fitted.best_params_ == losses.best_params_
    assert len(set(losses.cv_results_["mean_log_loss"])) == 3
    assert losses.best_score_ == pytest.approx(-losses.cv_results_["mean_log_loss"].min())


def test_groups_precomputed_kernels_sparse_data_and_jobs():
    X, y = wine()
    groups = np.arange(len(y)) % 6
    by_group = ReLSRClassifierCV(betas=BETAS, cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert "split2_test_score" in by_group.cv_results_
    named = candidates(ReLSRClassifierCV, ReLSRClassifier(kernel="rbf"), gammas=[0.2]).fit(X, y)
    kernel = rbf_kernel(X, gamma=0.2)
    precomputed = candidates(ReLSRClassifierCV, ReLSRClassifier(kernel="precomputed")).fit(
        kernel, y
    )
    np.testing.assert_allclose(
        precomputed.cv_results_["mean_test_score"], named.cv_results_["mean_test_score"]
    )
    np.testing.assert_array_equal(precomputed.predict(kernel), named.predict(X))
    dense = candidates(ReLSRClassifierCV).fit(X, y)
    other = candidates(ReLSRClassifierCV, n_jobs=2).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(
        other.cv_results_["mean_test_score"], dense.cv_results_["mean_test_score"]
    )


def test_held_out_scores_count_weights():
    """A fold's samples of weight zero do not count, in the fit and in the score."""
    X, y = wine()
    weights = np.ones(len(y))
    weights[::7] = 0
    kept = weights > 0
    folds = list(StratifiedKFold(3).split(X, y))
    position = np.cumsum(kept) - 1
    kept_folds = [
        (position[train[kept[train]]], position[test[kept[test]]]) for train, test in folds
    ]
    weighted = ReLSRClassifierCV(betas=BETAS, cv=folds).fit(X, y, sample_weight=weights)
    without = ReLSRClassifierCV(betas=BETAS, cv=kept_folds).fit(X[kept], y[kept])
    np.testing.assert_allclose(
        weighted.cv_results_["mean_test_score"], without.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"betas": []}, r"betas must hold one or more finite numbers.*got \[\]"),
        ({"betas": [-1.0, 1.0]}, "each not negative"),
        ({"betas": [np.nan]}, "finite numbers"),
        ({"betas": ["a"]}, "betas must hold"),
        ({"betas": [[1.0, 2.0]]}, "betas must hold"),
        ({"scoring": "roc_auc"}, "multi_class must be"),
        ({"scoring": 3}, "'scoring'"),
        ({"n_jobs": 1.5}, "'n_jobs'"),
        ({"scoring": lambda *_: np.nan}, "scorer returned nan"),
        ({"estimator": ReLSRClassifier(tol=-1.0)}, "'tol'"),
        ({"cv": [(np.arange(50), np.arange(50, 178))]}, "fold 0 cannot be fitted.*one class only"),
    ],
)
def test_mistakes_are_named(params, message):
    X, y = wine()
    with pytest.raises(ValueError, match=message):
        ReLSRClassifierCV(**({"betas": BETAS} | params)).fit(X, y)


@pytest.mark.parametrize("search", SEARCHES)
def test_scorer_without_weights_is_told_so(search):
    X, y = wine()
    scorer = make_scorer(lambda truth, guess: float(np.mean(truth == guess)))
    with pytest.warns(UserWarning, match="does not accept sample_weight") as caught:
        fitted = candidates(search, scoring=scorer).fit(X, y, sample_weight=np.full(len(y), 1.5))
    assert [each.filename for each in caught] == [__file__]
    plain = candidates(search).fit(X, y, sample_weight=np.full(len(y), 1.5))
    assert fitted.best_score_ == pytest.approx(plain.best_score_)


def small(search, **params):
    """A search of any family over few settings, with these parameters of the model."""
    few = {
        LRLRClassifierCV: {"ranks": [1]},
        GReLSRClassifierCV: {"betas": [1.0], "group_penalties": [1.0]},
        DRMClassifierCV: {"betas": [1.0], "alphas": [1.0]},
        ODMClassifierCV: {"C1s": [10.0], "C2s": [10.0], "Ds": [0.1]},
        LDMClassifierCV: {"Cs": [10.0], "lambda1s": [1.0]},
    }
    if search in (ODMClassifierCV, LDMClassifierCV, DRMClassifierCV):
        params = {"random_state": 0} | params
    return search(model_of(search)(**params), **few.get(search, {"betas": [1.0]}))


LEAVE_ONE_OUT = [LSRClassifierCV, LRRRClassifierCV, DRMClassifierCV]
BY_FOLDS = [
    *SEARCHES,
    LRLRClassifierCV,
    LRRRClassifierCV,
    SLRRClassifierCV,
    ODMClassifierCV,
    LDMClassifierCV,
    DRMClassifierCV,
]


@pytest.mark.parametrize("search", BY_FOLDS)
def test_every_search_has_probabilities_to_score(search):
    X, y = wine()
    assert small(search).set_params(scoring="neg_log_loss").fit(X, y).best_score_ < 0


@pytest.mark.parametrize("scoring", ["roc_auc", "average_precision"])
def test_scorers_that_rank_samples_use_five_folds(scoring):
    """The model without a sample favours the other class: a constant model would have AUC 0."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(20):
        X, y = rng.normal(size=(60, 5)), rng.permutation(np.arange(60) % 2)
        search = LSRClassifierCV(betas=[10.0], scoring=scoring).fit(X, y)
        assert "split4_test_score" in search.cv_results_
        found.append(search.best_score_)
    if scoring == "roc_auc":
        assert np.mean(found) == pytest.approx(0.5, abs=0.03)


def test_many_samples_are_searched_in_rounds(capsys):
    """All settings on a third of the samples, the best on all; the choice is as good."""
    X, y = make_classification(
        1_200, 10, n_informative=6, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    search = LSRClassifierCV(LSRClassifier(kernel="rbf"), verbose=1).fit(X, y)
    results = search.cv_results_
    assert set(results["n_samples"]) == {400, 1_200}
    assert results["n_samples"][results["rank_test_score"] == 1][0] == 1_200
    last = results["n_samples"] == 1_200
    assert np.all(results["rank_test_score"][last].max() < results["rank_test_score"][~last])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("Round 1 of 2: ")
    assert "settings on 400 samples in" in lines[0]
    assert "best score" in lines[1]


@pytest.mark.parametrize("search", BY_FOLDS)
def test_fold_without_weight_is_refused(search):
    X, y = wine()
    train, test = next(StratifiedKFold(3).split(X, y))
    weights = np.ones(len(y))
    weights[test] = 0
    with pytest.raises(ValueError, match="has no sample of positive weight"):
        small(search).set_params(cv=[(train, test)]).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("search", BY_FOLDS)
def test_groups_are_held_out_as_a_whole(search):
    X, y = wine()
    groups = np.arange(len(y)) % 7
    model = small(search)
    fitted = model.fit(X, y, groups=groups)
    (how,) = set(fitted.cv_results_["held_out"])
    assert how in ("one group at a time", "5 folds of whole groups")
    if how == "5 folds of whole groups":
        folds = list(StratifiedGroupKFold(5).split(X, y, groups))
        assert fitted.best_score_ == clone(model).set_params(cv=folds).fit(X, y).best_score_


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("rows", "groups must be labels or 'duplicates', got 'rows'"),
        (np.zeros(178), "groups has only one group"),
        (np.arange(9), "inconsistent numbers of samples"),
        (
            np.arange(178).reshape(-1, 1),
            r"one-dimensional, got the shape \(178, 1\)",
        ),
        ([np.nan, *range(177)], "groups has missing values"),
        (["a", np.nan] * 89, "groups has missing values"),
        ([None, *range(177)], "groups has missing values"),
        (["a", 1] * 89, "groups has labels of different types"),
    ],
)
def test_wrong_groups_are_named(groups, message):
    X, y = wine()
    with pytest.raises(ValueError, match=message):
        LSRClassifierCV().fit(X, y, groups=groups)


@pytest.mark.parametrize("search", [each for each in BY_FOLDS if each is not SLRRClassifierCV])
def test_a_kernel_that_cannot_be_computed_is_left_out_of_the_choice(search):
    X, y = wine()
    tried = small(search, kernel="poly").set_params(gammas=[1.0], degrees=[2, 800])
    with pytest.warns(FitFailedWarning, match="settings cannot be fitted.*gives infinite"):
        fitted = tried.fit(X, y)
    assert fitted.best_params_["degree"] == 2
    failed = np.isnan(fitted.cv_results_["mean_test_score"])
    assert [params["degree"] == 800 for params in fitted.cv_results_["params"]] == failed.tolist()


@pytest.mark.parametrize("search", LEAVE_ONE_OUT)
def test_a_memory_map_is_searched_as_an_array(search, tmp_path):
    X, y = wine()
    rows = np.tile(X, (1, 400))  # more than one block of one megabyte
    np.save(tmp_path / "X.npy", rows)
    expected = small(search, kernel="linear").fit(rows, y)
    with config_context(working_memory=1):
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        found = small(search, kernel="linear").fit(mapped, y)
    assert found.best_score_ == expected.best_score_


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_one_convergence_warning_at_the_callers_line(backend):
    X, y = wine()
    search = candidates(ReLSRClassifierCV, ReLSRClassifier(max_iter=1))
    with (
        parallel_config(backend=backend, n_jobs=2),
        pytest.warns(ConvergenceWarning, match="12 of 12 fits on held-out samples") as caught,
    ):
        search.fit(X, y)
    assert [each.filename for each in caught] == [__file__]


@pytest.mark.parametrize("search", [each for each in BY_FOLDS if each is not SLRRClassifierCV])
def test_a_precomputed_kernel_must_be_square(search):
    X, y = wine()
    with pytest.raises(ValueError, match="must be a square matrix of the training samples"):
        small(search, kernel="precomputed").fit(X, y)


def test_no_folds_are_refused():
    X, y = wine()
    with pytest.raises(ValueError, match="gives no splits"):
        small(ReLSRClassifierCV).set_params(cv=[]).fit(X, y)


def test_searches_in_threads_keep_the_warnings_of_others(monkeypatch):
    """Each search counts its own fits, and afterwards warnings are shown as before."""
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    both, fit = Barrier(2), discreg.ReLSRClassifier.fit

    def fit_at_the_same_time(self, *data):
        both.wait(60)
        fit(self, *data)
        both.wait(60)
        return self

    def search(max_iter):
        model = ReLSRClassifierCV(
            ReLSRClassifier(max_iter=max_iter, solver="alternating"),
            betas=[1e-3],
            cv=2,
        )
        return model.fit(X, y)

    monkeypatch.setattr(discreg.ReLSRClassifier, "fit", fit_at_the_same_time)

    filters = list(warnings.filters)
    with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("always")
        within = list(warnings.filters)
        list(pool.map(search, [2, 3]))
        assert warnings.filters == within
        warnings.warn("mine", UserWarning, stacklevel=1)
    assert warnings.filters == filters
    texts = [str(each.message) for each in caught if each.category is ConvergenceWarning]
    assert len(texts) == 2
    for n_iter in (2, 3):
        assert sum(f"after {n_iter} iterations" in text for text in texts) == 1
    assert [str(each.message) for each in caught if each.category is UserWarning] == ["mine"]


def test_default_grid_is_continued_where_the_best_setting_is_at_its_edge():
    """Many samples of two classes that only a small penalty separates."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(300, 4)), 0.01 * rng.normal(size=300)])
    y = (X[:, 4] > 0).astype(int)
    search = LSRClassifierCV().fit(X, y)
    results = search.cv_results_
    assert results["beyond_grid"].any()
    assert search.best_params_["beta"] < min(search.betas)
    edge = results["mean_test_score"][~results["beyond_grid"]].max()
    assert search.best_score_ > edge
    assert clone(search).fit(X, y).best_params_ == search.best_params_
    given = LSRClassifierCV(betas=list(search.betas)).fit(X, y)
    assert not given.cv_results_["beyond_grid"].any()


def test_settings_that_stay_in_a_round_keep_their_scores():
    """LRRR computes all ranks of a penalty at once; the later round asks for some of them."""
    X, y = make_classification(
        930, 12, n_informative=8, n_classes=5, n_clusters_per_class=1, random_state=0
    )
    search = LRRRClassifierCV(betas=[1e3, 10.0, 0.1]).fit(X, y)
    results = search.cv_results_
    assert set(results["n_samples"]) == {308, 930}
    for k in np.flatnonzero(results["n_samples"] == 930):
        params = results["params"][k]
        one = LRRRClassifierCV(betas=[params["beta"]], ranks=[params["rank"]]).fit(X, y)
        assert one.best_score_ == pytest.approx(results["mean_test_score"][k])


def test_a_grid_that_begins_at_zero_is_continued_only_upwards():
    tried = [{"lambda1": value} for value in (0.0, 1e3, 1e4)]
    assert beyond(tried, {"lambda1": 1e4}, ["lambda1"]) == [{"lambda1": 1e5}]
    assert beyond(tried, {"lambda1": 0.0}, ["lambda1"]) == []
    assert beyond(tried, {"lambda1": 1e3}, ["lambda1"]) == []


def test_sparse_low_rank_grid_is_continued_only_to_smaller_penalties():
    """Beyond the largest default penalty, all coefficients would be zero."""
    tried = [{"beta": value, "rank": 2} for value in (0.5, 0.2, 0.1)]
    assert SLRRClassifierCV._beyond(tried, tried[0], ["beta"]) == []
    (further,) = SLRRClassifierCV._beyond(tried, tried[-1], ["beta"])
    assert further == {"beta": pytest.approx(0.05), "rank": 2}


class FailsBeyondGrid(LSRClassifierCV):
    """Search whose smallest default penalty is the best and whose smaller ones cannot be fitted."""

    @staticmethod
    def _leave_one_out(classifier, X, y, sample_weight, penalties):
        for setting in penalties:
            right = np.eye(3)[y]
            if setting["beta"] > 1e-3:
                right[0] = right[0, ::-1]
            elif setting["beta"] < 1e-3:
                yield HeldOut.failed("beta is too small")
                continue
            yield HeldOut(right, np.unique(y))


def test_settings_beyond_the_grid_that_cannot_be_fitted_are_not_chosen_and_cause_no_warning():
    X, y = wine()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = FailsBeyondGrid().fit(X, y)
    results = search.cv_results_
    assert np.isnan(results["mean_test_score"][results["beyond_grid"]]).tolist() == [True]
    assert search.best_params_ == {"beta": 1e-3}


@pytest.mark.parametrize("search", LEAVE_ONE_OUT)
def test_one_group_of_positive_weight_is_refused(search):
    X, y = wine()
    weights = np.ones(len(y))
    weights[::2] = 0
    with pytest.raises(ValueError, match="only one group of positive weight"):
        small(search).fit(X, y, sample_weight=weights, groups=np.arange(len(y)) % 2)


@pytest.mark.parametrize("search", [DLSRClassifierCV, ReLSRClassifierCV, GReLSRClassifierCV])
def test_equal_rows_count_as_often_as_they_occur(search):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    copies = np.where(y == (X[:, 0] > 0), 60, 10)  # most rows are easy
    repeated = np.repeat(X, copies, axis=0), np.repeat(y, copies)
    assert len(repeated[1]) > 2_000
    weighted = small(search).fit(X, y, sample_weight=copies)
    unweighted = make_scorer(lambda truth, guess: float(np.mean(truth == guess)))
    for scoring in ("accuracy", unweighted):
        found = small(search).set_params(scoring=scoring).fit(*repeated)
        assert found.best_score_ == pytest.approx(weighted.best_score_)
        losses = [each.cv_results_["mean_log_loss"] for each in (found, weighted)]
        np.testing.assert_allclose(*losses, rtol=1e-3)


def with_rare_class(n_rare):
    """Two classes far from each other, and a third one with few samples among the first."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40 + n_rare, 2))
    X[20:40] += 30
    return X, np.repeat([0, 1, 7], [20, 20, n_rare])


@pytest.mark.filterwarnings("ignore:.*only one distinct row", "ignore:The least populated class")
@pytest.mark.parametrize("n_rare", [1, 3])
@pytest.mark.parametrize("scoring", ["neg_log_loss", "neg_brier_score"])
@pytest.mark.parametrize("search", BY_FOLDS)
def test_losses_are_defined_with_a_rare_class(search, scoring, n_rare):
    if scoring == "neg_brier_score" and "labels" not in signature(brier_score_loss).parameters:
        pytest.skip("This scikit-learn has no Brier score of several classes.")
    fitted = small(search).set_params(scoring=scoring).fit(*with_rare_class(n_rare))
    assert -5 < fitted.best_score_ < 0


def test_probabilities_of_a_class_that_a_fold_does_not_learn_are_zero():
    X, y = with_rare_class(3)
    rare = np.arange(40, 43)
    folds = [(np.arange(40), rare)]
    with pytest.warns(UserWarning, match="lack a class"):
        search = LSRClassifierCV(betas=[1.0], cv=folds, scoring="neg_log_loss").fit(X, y)
    assert search.best_score_ == pytest.approx(np.log(np.finfo(float).eps))


@pytest.mark.parametrize("scoring", [None, "balanced_accuracy"])
@pytest.mark.parametrize("search", BY_FOLDS)
def test_a_sample_without_which_its_class_would_vanish_is_not_held_out(search, scoring):
    X, y = with_rare_class(1)
    tried = small(search).set_params(scoring=scoring)
    if search is LRLRClassifierCV:
        tried.set_params(ranks=[2])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tried.fit(X, y)
    (text,) = (str(each.message) for each in caught)
    assert "Class 7 has only one distinct row, which cannot be held out. The settings are" in text
    assert "probabilities" in text
    assert tried.best_score_ == 1.0


def test_a_class_in_one_group_is_not_held_out():
    X, y = with_rare_class(5)
    groups = np.append(np.arange(40) % 4, [9] * 5)
    for search in (LSRClassifierCV, LRRRClassifierCV, ReLSRClassifierCV):
        with pytest.warns(UserWarning, match="Class 7 has only one group") as caught:
            assert small(search).fit(X, y, groups=groups).best_score_ == 1.0
        assert len(caught) == 1


@pytest.mark.parametrize(
    ("scoring", "by_folds"),
    [
        (make_scorer(lambda y, p: roc_auc_score(y, p), response_method="predict_proba"), True),
        (lambda model, X, y: roc_auc_score(y, model.decision_function(X)), True),
        ("roc_auc", True),
        ("neg_log_loss", False),
        ("neg_brier_score", False),
        ("f1", False),
        (make_scorer(accuracy_score), False),
        (make_scorer(lambda y, labels: float(np.mean(y == labels))), False),
    ],
)
def test_only_scorers_of_labels_or_known_losses_use_leave_one_out(scoring, by_folds):
    X, y = wine()
    results = LSRClassifierCV(betas=[1.0], scoring=scoring).fit(X, (y > 0).astype(int)).cv_results_
    assert results["held_out"] == ["5 folds" if by_folds else "one row at a time"]


@pytest.mark.parametrize(
    ("search", "penalty"),
    [
        (LSRClassifierCV(), {"beta": 0.3}),
        (LSRClassifierCV(LSRClassifier(scale_beta=False)), {"beta": 3.0}),
        (LSRClassifierCV(LSRClassifier(kernel="rbf")), {"beta": 0.3}),
        (LSRClassifierCV(LSRClassifier(kernel="rbf", scale_beta=False)), {"beta": 3.0}),
        (
            LSRClassifierCV(
                LSRClassifier(kernel="rbf", n_components=20, approximation="random_features")
            ),
            {"beta": 0.3},
        ),
        (ReLSRClassifierCV(), {"beta": 0.3}),
        (ReLSRClassifierCV(ReLSRClassifier(kernel="rbf")), {"beta": 0.3}),
        (DLSRClassifierCV(DLSRClassifier(kernel="rbf")), {"beta": 0.3}),
        (GReLSRClassifierCV(GReLSRClassifier(kernel="rbf")), {"beta": 0.3, "group_penalty": 0.1}),
        (LRRRClassifierCV(LRRRClassifier(kernel="rbf")), {"beta": 3.0, "rank": 2}),
        (SLRRClassifierCV(SLRRClassifier(tol=1e-9)), {"beta": 0.5, "rank": 2}),
    ],
    ids=str,
)
def test_penalties_for_a_part_of_the_samples_give_the_same_model(search, penalty):
    """The samples are a third of samples that are all repeated three times."""
    X, y = wine()
    plain = search._unfitted().set_params(probability=False)
    if hasattr(plain, "gamma"):
        plain.set_params(gamma=0.1, random_state=0)
    whole = clone(plain).set_params(**penalty).fit(np.tile(X, (3, 1)), np.tile(y, 3))
    part = clone(plain).set_params(**search._for_share(plain, penalty, 1 / 3)).fit(X, y)
    np.testing.assert_allclose(part.decision_function(X), whole.decision_function(X), atol=1e-3)


def test_progress_names_the_best_setting(capsys):
    X, y = wine()
    equal = make_scorer(lambda *_: 1.0)
    search = LSRClassifierCV(betas=[1e3, 0.1, 1e-3], scoring=equal, verbose=1).fit(X, y)
    assert f"best score 1 with {search.best_params_}" in capsys.readouterr().out
    LSRClassifierCV(betas=[1.0], verbose=1).fit(X, y)
    assert "1 setting on 178 samples" in capsys.readouterr().out
