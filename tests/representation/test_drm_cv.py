"""Facts about DRM with its parameters chosen on held-out samples."""

import numpy as np
import pytest
from damped_scores import probabilities_by_definition
from scipy import sparse
from searches import make_search
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    log_loss,
    make_scorer,
)
from sklearn.model_selection import (
    GroupKFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.preprocessing import scale

from discreg import DRMClassifier, DRMClassifierCV, g_mean_score
from discreg.base.held_out import holdout_folds
from discreg.blocks.kept_rows import row_keys

ALPHAS, BETAS = (1.0, 0.01), (1.0, 0.01)


def wine():
    X, y = load_wine(return_X_y=True)
    return scale(X)[::2], y[::2]


def naive_leave_one_out(X, y, **params):
    """Decision values of refits, each without one sample."""
    model = DRMClassifier(probability=False, **params)
    return cross_val_predict(model, X, y, cv=LeaveOneOut(), method="decision_function")


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_scores_are_those_of_refits_without_each_sample(kernel):
    X, y = wine()
    model = DRMClassifierCV(
        DRMClassifier(kernel=kernel), alphas=ALPHAS, betas=BETAS, gammas=(0.1,), degrees=(2,)
    )
    model.fit(X, y)
    for setting, score in zip(
        model.cv_results_["params"], model.cv_results_["mean_test_score"], strict=True
    ):
        held_out = naive_leave_one_out(X, y, kernel=kernel, **setting)
        assert score == accuracy_score(y, held_out.argmax(axis=1))
    best = naive_leave_one_out(X, y, kernel=kernel, **model.best_params_)
    np.testing.assert_allclose(
        model.held_out_decision_function_, best, atol=1e-9 * np.abs(best).max(), rtol=0
    )


def test_ties_go_to_the_smaller_log_loss():
    X, y = load_iris(return_X_y=True)
    model = DRMClassifierCV(DRMClassifier(kernel="poly"), degrees=(2,)).fit(scale(X), y)
    results = model.cv_results_
    tied = results["mean_test_score"] == results["mean_test_score"].max()
    assert tied.sum() > 1
    chosen = results["params"].index(model.best_params_)
    assert results["mean_log_loss"][chosen] == results["mean_log_loss"][tied].min()


@pytest.mark.parametrize(
    ("scoring", "metric"),
    [
        ("balanced_accuracy", lambda y, P, labels: balanced_accuracy_score(y, labels)),
        ("neg_log_loss", lambda y, P, labels: -log_loss(y, P)),
        ("g_mean", lambda y, P, labels: g_mean_score(y, labels)),
        (make_scorer(balanced_accuracy_score), lambda y, P, k: balanced_accuracy_score(y, k)),
    ],
)
def test_any_scorer(scoring, metric):
    X, y = load_breast_cancer(return_X_y=True)
    X, y = scale(X)[:150], y[:150]
    model = DRMClassifierCV(alphas=(0.1,), betas=(0.1,), gammas=("scale",), scoring=scoring)
    model.fit(X, y)
    scores = model.held_out_decision_function_
    shares = probabilities_by_definition(model, scores)
    expected = metric(y, shares, (scores > 0).astype(int))
    assert model.best_score_ == pytest.approx(expected, rel=1e-9)


def test_g_mean_is_zero_where_a_class_is_missed():
    assert g_mean_score([0, 0, 1, 2], [0, 0, 1, 1]) == 0
    assert g_mean_score([0, 0, 1, 2], [0, 1, 1, 2]) == pytest.approx(0.5 ** (1 / 3))
    assert g_mean_score([0, 0, 1], [0, 1, 1], sample_weight=[3, 1, 1]) == pytest.approx(0.75**0.5)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize(
    "cv", [3, StratifiedKFold(4, shuffle=True, random_state=0), ShuffleSplit(3, random_state=1)]
)
def test_folds_are_refits(kernel, cv):
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    model = DRMClassifierCV(
        DRMClassifier(kernel=kernel), alphas=ALPHAS, betas=BETAS, gammas=(0.5,), cv=cv
    )
    results = model.fit(X, y).cv_results_
    folds = list((StratifiedKFold(3) if cv == 3 else cv).split(X, y))
    for number, (train, test) in enumerate(folds):
        for index, setting in enumerate(results["params"]):
            refit = DRMClassifier(kernel=kernel, probability=False, **setting)
            refit.fit(X[train], y[train])
            assert results[f"split{number}_test_score"][index] == refit.score(X[test], y[test])
    assert model.best_score_ == results["mean_test_score"].max()


def test_folds_need_not_cover_all_samples_in_features():
    X, y = make_classification(120, 6, n_informative=4, n_classes=3, random_state=0)
    cv = ShuffleSplit(3, train_size=50, test_size=20, random_state=0)
    model = DRMClassifierCV(DRMClassifier(kernel="linear"), alphas=(0.1,), betas=(0.1,), cv=cv).fit(
        X, y
    )
    for number, (train, test) in enumerate(cv.split(X, y)):
        refit = DRMClassifier(alpha=0.1, beta=0.1, kernel="linear").fit(X[train], y[train])
        assert model.cv_results_[f"split{number}_test_score"][0] == refit.score(X[test], y[test])


def test_groups_reach_the_splitter():
    X, y = wine()
    groups = np.arange(len(y)) % 5
    model = DRMClassifierCV(alphas=(0.1,), betas=(0.1,), gammas=(0.1,), cv=GroupKFold(5))
    model.fit(X, y, groups=groups)
    assert "split4_test_score" in model.cv_results_


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_weight_k_equals_k_copies(kernel, class_weight):
    X, y = wine()
    copies = np.random.default_rng(0).integers(0, 4, size=len(y))
    model = DRMClassifierCV(
        DRMClassifier(kernel=kernel, class_weight=class_weight),
        alphas=ALPHAS,
        betas=BETAS,
        gammas=(0.1,),
    )
    weighted = clone(model).fit(X, y, sample_weight=copies)
    copied = clone(model).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    assert weighted.best_params_ == copied.best_params_
    for name in ("mean_test_score", "mean_log_loss"):
        np.testing.assert_allclose(weighted.cv_results_[name], copied.cv_results_[name], rtol=1e-8)
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-8)


def test_sparse_equals_dense():
    X, y = wine()
    X = np.where(X > 0, X, 0)
    model = DRMClassifierCV(alphas=ALPHAS, betas=BETAS, gammas=(0.1,))
    dense = clone(model).fit(X, y)
    from_sparse = clone(model).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(
        dense.cv_results_["mean_log_loss"], from_sparse.cv_results_["mean_log_loss"], rtol=1e-9
    )


def test_precomputed_kernel_equals_linear_kernel():
    X, y = wine()
    model = DRMClassifierCV(
        DRMClassifier(kernel="linear", solver="closed"), alphas=ALPHAS, betas=BETAS
    ).fit(X, y)
    K = X @ X.T
    precomputed = DRMClassifierCV(
        DRMClassifier(kernel="precomputed"), alphas=ALPHAS, betas=BETAS
    ).fit(K, y)
    np.testing.assert_allclose(
        model.held_out_decision_function_, precomputed.held_out_decision_function_, atol=1e-9
    )
    np.testing.assert_array_equal(precomputed.predict(K), model.predict(X))


def test_probabilities_agree_with_predictions():
    X, y = wine()
    model = DRMClassifierCV(alphas=ALPHAS, betas=BETAS, gammas=(0.1, 1.0)).fit(X, y)
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))


def test_features_of_a_kernel_are_searched_too():
    X, y = wine()
    model = DRMClassifierCV(
        DRMClassifier(n_components=30, random_state=0),
        alphas=ALPHAS,
        betas=BETAS,
        gammas=(0.05, 0.1),
    ).fit(X, y)
    assert model.best_estimator_.solver_ == "scatter"
    refit = naive_leave_one_out  # the features depend on all samples, so refits are in features
    features = model.best_estimator_._solver.training.features(X)
    params = {name: model.best_params_[name] for name in ("alpha", "beta")}
    expected = refit(features, y, kernel="linear", **params)
    np.testing.assert_allclose(model.held_out_decision_function_, expected, atol=1e-9)


def test_widths_are_relative_to_the_data_by_default():
    X, y = wine()
    model = DRMClassifierCV(alphas=(0.1,), betas=(0.1,)).fit(X, y)
    scale_gamma = 1 / (X.shape[1] * X.var())
    given = model.cv_results_["param_gamma"][~model.cv_results_["beyond_grid"]]
    np.testing.assert_allclose(sorted(set(given)), scale_gamma * np.array([0.1, 0.3, 1, 3, 10]))


def test_progress_is_printed_when_asked_for(capsys):
    X, y = wine()
    model = DRMClassifierCV(alphas=ALPHAS, betas=BETAS, gammas=(0.1, 1.0))
    model.fit(X, y)
    assert capsys.readouterr().out == ""
    model.set_params(verbose=1).fit(X, y)
    assert capsys.readouterr().out.startswith("Round 1 of 1: 8 settings on 89 samples in ")


@pytest.mark.parametrize("cv", [None, 3])
def test_jobs_do_not_change_the_results(cv):
    X, y = wine()
    model = DRMClassifierCV(alphas=ALPHAS, betas=BETAS, gammas=(0.1, 1.0), cv=cv)
    alone = clone(model).fit(X, y).cv_results_
    together = clone(model).set_params(n_jobs=2).fit(X, y).cv_results_
    assert alone["params"] == together["params"]
    for name in ("mean_test_score", "mean_log_loss"):
        np.testing.assert_allclose(alone[name], together[name], rtol=1e-12)


def test_methods_are_lazy_on_dask():
    da = pytest.importorskip("dask.array")
    X, y = wine()
    model = DRMClassifierCV(alphas=ALPHAS, betas=BETAS, gammas=(0.1,)).fit(X, y)
    chunks = da.from_array(X, chunks=(30, X.shape[1]))
    for method in ("predict_proba", "decision_function", "predict"):
        found = getattr(model, method)(chunks)
        assert isinstance(found, da.Array)
        np.testing.assert_allclose(found.compute(), getattr(model, method)(X))


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"alphas": (-1.0,)}, "alphas"),
        ({"betas": (0.0,)}, "betas"),
        ({"betas": ()}, "betas"),
        ({"gammas": ("wide",)}, "gammas"),
        ({"gammas": (0.0,)}, "gammas"),
        ({"kernel": "poly", "degrees": (-2,)}, "degrees"),
        ({"scoring": 3}, "scoring"),
        ({"solver": "scatter"}, "scatter"),
        ({"penalty": "elastic"}, "penalty"),
        ({"penalty": (2, 1)}, "penalty"),
        ({"penalty": "lasso", "solver": "closed"}, "requires penalty='ridge'"),
    ],
)
def test_refused_parameters(params, named):
    X, y = wine()
    with pytest.raises(ValueError, match=named):
        make_search(DRMClassifierCV, **params).fit(X, y)


def test_a_class_that_a_given_fold_does_not_learn_is_named():
    X, y = wine()
    y = np.array(["one", "two", "three"])[y]
    y[:2] = "rare"
    without_it = [(np.arange(2, len(y)), np.array([0, 1]))]
    with pytest.warns(UserWarning, match=r"fold 0.*rare"):
        assert DRMClassifierCV(cv=without_it).fit(X, y).best_score_ == 0.0


def test_leave_one_out_equals_folds_of_one_sample_in_features():
    X, y = wine()
    params = {"alphas": (0.1,), "betas": (0.1,), "kernel": "linear"}
    by_folds = make_search(DRMClassifierCV, cv=LeaveOneOut(), **params).fit(X, y)
    assert by_folds.best_score_ == make_search(DRMClassifierCV, **params).fit(X, y).best_score_


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_folds_draw_features_and_balance_classes_as_refits_do(class_weight):
    X, y = wine()
    params = {"n_components": 20, "random_state": 0, "class_weight": class_weight}
    cv = StratifiedKFold(3)
    model = DRMClassifierCV(
        DRMClassifier(**params), alphas=(0.1,), betas=(0.1,), gammas=(0.1,), cv=cv
    ).fit(X, y)
    for number, (train, test) in enumerate(cv.split(X, y)):
        refit = DRMClassifier(alpha=0.1, beta=0.1, gamma=0.1, **params).fit(X[train], y[train])
        assert model.cv_results_[f"split{number}_test_score"][0] == refit.score(X[test], y[test])


@pytest.mark.parametrize("class_weight", [None, {0: 1.0, 1: 2.0, 2: 1.0}])
def test_probabilities_are_scored_on_folds_too(class_weight):
    X, y = wine()
    cv = StratifiedKFold(3)
    model = DRMClassifierCV(
        DRMClassifier(class_weight=class_weight),
        alphas=(0.1,),
        betas=(0.1,),
        gammas=(0.1,),
        scoring="neg_log_loss",
        cv=cv,
    ).fit(X, y)
    assert -np.log(3) < model.best_score_ < 0
    if class_weight is None:
        sizes = [len(test) for _, test in cv.split(X, y)]
        scores = [model.cv_results_[f"split{number}_test_score"][0] for number in range(3)]
        pooled = np.average(scores, weights=sizes)
        assert pooled == pytest.approx(-model.cv_results_["mean_log_loss"][0])


def test_folds_of_one_sample_share_their_temperature():
    X, y = wine()
    params = {"alphas": (0.1,), "betas": (0.1, 1.0), "gammas": (0.1,), "scoring": "accuracy"}
    one_by_one = DRMClassifierCV(cv=LeaveOneOut(), **params).fit(X, y)
    exact = DRMClassifierCV(**params).fit(X, y)
    np.testing.assert_allclose(
        one_by_one.cv_results_["mean_log_loss"], exact.cv_results_["mean_log_loss"], rtol=1e-6
    )


def test_a_split_that_leaves_samples_out_and_takes_some_twice_is_a_refit():
    X, y = wine()
    rng = np.random.RandomState(0)
    train, test = rng.choice(89, 60, replace=False), rng.choice(89, 29, replace=False)
    refit = DRMClassifier(alpha=0.1, beta=0.1, kernel="linear").fit(X[train], y[train])
    search = DRMClassifierCV(
        DRMClassifier(kernel="linear"), alphas=(0.1,), betas=(0.1,), cv=[(train, test)]
    )
    assert search.fit(X, y).best_score_ == refit.score(X[test], y[test])


@pytest.mark.parametrize(
    "params",
    [
        {"kernel": "poly", "degrees": (2, 2.5)},
        {"alphas": (0.0,), "betas": (1e-17, 1.0), "gammas": (1e-9,)},
        {"kernel": "linear", "solver": "scatter", "alphas": (0.0,), "betas": (1e-13, 1e3)},
    ],
)
@pytest.mark.parametrize("cv", [None, 3])
def test_settings_that_cannot_be_fitted_are_left_out(params, cv):
    X, y = wine()
    X = np.hstack([X, X])
    params = {"alphas": (0.1,), "betas": (0.1,), "probability": False, "cv": cv} | params
    with pytest.warns(FitFailedWarning, match="cannot be fitted"):
        model = make_search(DRMClassifierCV, **params).fit(X, y)
    scores = model.cv_results_["mean_test_score"]
    assert np.isnan(scores).any()
    assert model.best_score_ == np.nanmax(scores)
    assert model.cv_results_["rank_test_score"][np.isnan(scores)].min() > 1


def test_no_setting_that_can_be_fitted_is_an_error():
    X, y = wine()
    model = DRMClassifierCV(
        DRMClassifier(kernel="poly"), degrees=(2.5,), alphas=(0.1,), betas=(0.1,)
    )
    with pytest.raises(ValueError, match=r"None of the 1 settings.*lower gamma or degree"):
        model.fit(X, y)


def test_a_second_search_leaves_nothing_of_the_first():
    X, y = wine()
    model = DRMClassifierCV(
        DRMClassifier(kernel="linear", solver="ppa"), alphas=(1.0,), betas=(100.0,)
    ).fit(X, y)
    assert hasattr(model, "gap_")
    model.set_params(estimator__solver="auto").fit(X, y)
    assert not hasattr(model, "gap_")


def test_feature_names_reach_the_best_estimator():
    pd = pytest.importorskip("pandas")
    X, y = wine()
    frame = pd.DataFrame(X, columns=[f"feature {k}" for k in range(X.shape[1])])
    model = DRMClassifierCV(alphas=(0.1,), betas=(0.1,), gammas=(0.1,)).fit(frame, y)
    np.testing.assert_array_equal(model.best_estimator_.predict(frame), model.predict(frame))


def test_a_fold_that_cannot_be_scored_is_named():
    X, y = wine()
    model = DRMClassifierCV(alphas=(0.1,), betas=(0.1,), scoring="roc_auc_ovr", cv=LeaveOneOut())
    with pytest.raises(ValueError, match="fold 0 cannot be scored"):
        model.fit(X, y)


# Penalties without a closed form ---------------------------------------------------------------

OTHERS = ["lasso", "exclusive_lasso", (np.inf, 1, "identity")]
ENOUGH = {"tol": 1e-6, "max_iter": 20_000}


@pytest.mark.parametrize(
    ("penalty", "kernel", "container"),
    [
        ("lasso", "rbf", np.asarray),
        ("exclusive_lasso", "linear", sparse.csr_array),
        ((np.inf, 1, "identity"), "precomputed", np.asarray),
        ("group_lasso", "poly", sparse.csr_array),
    ],
)
def test_other_penalties_are_searched_by_five_folds_of_refits(penalty, kernel, container):
    X, y = wine()
    rows = container(X @ X.T if kernel == "precomputed" else X)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    params = {"penalty": penalty, "kernel": kernel, "class_weight": "balanced", **ENOUGH}
    model = DRMClassifierCV(
        DRMClassifier(**params),
        alphas=(1.0,),
        betas=(1.0, 0.3),
        gammas=(0.1,) if kernel in ("rbf", "poly") else None,
        degrees=(2,) if kernel == "poly" else None,
    )
    results = model.fit(rows, y, weights).cv_results_
    assert set(results["held_out"]) == {"5 folds"}
    keys = row_keys(rows, weights, hashed=kernel != "precomputed")
    folds = holdout_folds(keys, y, weights)
    for number, (train, test) in enumerate(folds):
        columns = train if kernel == "precomputed" else slice(None)
        for index, setting in enumerate(results["params"]):
            refit = DRMClassifier(probability=False, **params, **setting)
            refit.fit(rows[train][:, columns], y[train], weights[train])
            score = refit.score(rows[test][:, columns], y[test], weights[test])
            assert results[f"split{number}_test_score"][index] == pytest.approx(score)
    best = DRMClassifier(**params, **model.best_params_).fit(rows, y, weights)
    np.testing.assert_allclose(model.predict_proba(rows), best.predict_proba(rows), atol=1e-12)


def test_a_penalty_spelled_as_a_triple_is_the_named_one():
    X, y = wine()
    params = {"alphas": ALPHAS, "betas": BETAS, "gammas": (0.1,)}
    for name, triple in (
        ("ridge", (2, 2, "half_square")),
        ("group_lasso", (2, 1, "identity")),
    ):
        named = (
            DRMClassifierCV(DRMClassifier(penalty=name, **ENOUGH), **params).fit(X, y).cv_results_
        )
        spelled = (
            DRMClassifierCV(DRMClassifier(penalty=triple, **ENOUGH), **params).fit(X, y).cv_results_
        )
        np.testing.assert_array_equal(named["mean_test_score"], spelled["mean_test_score"])
        assert named["held_out"] == spelled["held_out"]


@pytest.mark.parametrize("penalty", ["ridge", "lasso"])
def test_groups_are_held_out_as_a_whole_in_folds(penalty):
    X, y = wine()
    groups = np.arange(len(y)) // 2
    model = DRMClassifierCV(
        DRMClassifier(penalty=penalty, **ENOUGH), alphas=(0.1,), betas=(0.1,), gammas=(0.1,)
    ).fit(X, y, groups=groups)
    assert set(model.cv_results_["held_out"]) == {"5 folds of whole groups"}


def test_searches_that_stop_early_warn_once():
    X, y = wine()
    model = DRMClassifierCV(
        DRMClassifier(penalty="lasso", max_iter=2, probability=False),
        alphas=(0.1,),
        betas=(1e-3,),
        gammas=(0.1,),
    )
    with pytest.warns(ConvergenceWarning, match="of 5 fits on held-out samples") as caught:
        model.fit(X, y)
    assert len(caught) == 1


@pytest.mark.parametrize("penalty", ["ridge", *OTHERS, (1, np.inf, "half_square")])
def test_penalties_on_a_part_of_the_samples_mean_the_same_as_on_all(penalty):
    """A third of the rows with these penalties is the model of three copies of each."""
    X, y = wine()
    params = {"penalty": penalty, "gamma": 0.1, "tol": 1e-10, "max_iter": 50_000}
    params["probability"] = False
    on_copies = DRMClassifier(alpha=0.3, beta=0.2, **params)
    on_copies.fit(np.repeat(X, 3, axis=0), np.repeat(y, 3))
    setting = DRMClassifierCV()._for_share(on_copies, {"alpha": 0.3, "beta": 0.2}, 1 / 3)
    once = DRMClassifier(**setting, **params).fit(X, y)
    expected = on_copies.class_residuals(X)
    np.testing.assert_allclose(once.class_residuals(X), expected, atol=1e-4)
