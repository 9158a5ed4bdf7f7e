"""Leave-one-out from one decomposition equals refits without the sample."""

import numpy as np
import pytest
from recorded_scores import Recorder
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import balanced_accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, LeaveOneOut
from sklearn.preprocessing import StandardScaler, scale

from discreg import LSRClassifier, LSRClassifierCV
from discreg.linalg.rows import one_hot
from discreg.retargeted._lsr import leave_one_out_scores

BETAS = [1.0, 0.1, 1e-3]


def small_iris():
    X, y = load_iris(return_X_y=True)
    return X[::4], y[::4]


def small_wide():
    rng = np.random.default_rng(0)
    y = np.arange(25) % 3
    return rng.normal(size=(25, 60)) + rng.normal(size=(3, 60))[y], y


def held_out(params, X, y, weights):
    model = LSRClassifier(**params)
    prepared = model._prepare(X, y, weights)
    return leave_one_out_scores(
        prepared.regression,
        one_hot(prepared.y, 3),
        BETAS,
        scale_beta=model.scale_beta,
    )


@pytest.mark.parametrize(
    ("data", "params"),
    [
        (small_iris, {}),
        (small_wide, {}),
        (small_wide, {"scale_beta": False}),
        (small_iris, {"fit_intercept": False}),
        (small_iris, {"class_weight": {0: 2.0, 1: 1.0, 2: 0.5}}),
        (small_iris, {"kernel": "rbf", "gamma": 0.3}),
        (small_wide, {"kernel": "rbf", "gamma": 0.3, "scale_beta": False}),
    ],
)
def test_equals_refits(data, params):
    X, y = data()
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0, 10.0], size=len(y))
    scores = held_out(params, X, y, weights)
    for index, beta in enumerate(BETAS):
        for i in range(0, len(y), 3):
            lowered = weights.copy()
            lowered[i] = 0.0
            refit = LSRClassifier(beta=beta, probability=False, **params)
            refit.fit(X, y, sample_weight=lowered)
            expected = refit.decision_function(X[i : i + 1])[0]
            np.testing.assert_allclose(scores[index, i], expected, atol=1e-9)


def test_sparse_equals_dense():
    X, y = small_iris()
    weights = np.ones(len(y))
    np.testing.assert_allclose(
        held_out({}, sparse.csr_array(X), y, weights), held_out({}, X, y, weights), atol=1e-10
    )


def test_search_equals_grid_search_with_leave_one_out():
    X, y = small_iris()
    fitted = LSRClassifierCV(betas=BETAS).fit(X, y)
    candidates = {"beta": sorted(BETAS, reverse=True)}
    grid = GridSearchCV(LSRClassifier(probability=False), candidates, cv=LeaveOneOut()).fit(X, y)
    np.testing.assert_allclose(
        fitted.cv_results_["mean_test_score"], grid.cv_results_["mean_test_score"], atol=1e-12
    )
    assert fitted.best_params_ == grid.best_params_
    assert fitted.best_score_ == pytest.approx(grid.best_score_)
    np.testing.assert_allclose(fitted.coef_, grid.best_estimator_.coef_, atol=1e-12)


def test_any_scorer_judges_the_held_out_scores():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    named = LSRClassifierCV(betas=BETAS, scoring="balanced_accuracy").fit(X, y)
    made = LSRClassifierCV(betas=BETAS, scoring=make_scorer(balanced_accuracy_score)).fit(X, y)
    assert named.best_score_ == made.best_score_

    def plain(estimator, X, y):
        return np.mean(estimator.predict(X) == y)

    called = LSRClassifierCV(betas=BETAS, scoring=plain, cv=5).fit(X, y)
    assert called.best_score_ == LSRClassifierCV(betas=BETAS, cv=5).fit(X, y).best_score_
    assert LSRClassifierCV(betas=BETAS, scoring=plain).fit(X, y).best_score_ > 0.95
    binary = LSRClassifierCV(betas=BETAS, scoring="roc_auc").fit(X, y == 0)
    assert 0.99 < binary.best_score_ <= 1


def test_weight_k_equals_k_copies():
    X, y = small_iris()
    copies = np.random.default_rng(0).integers(1, 4, size=len(y))
    weighted = LSRClassifierCV(betas=BETAS).fit(X, y, sample_weight=copies)
    copied = LSRClassifierCV(betas=BETAS).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(
        weighted.cv_results_["mean_test_score"], copied.cv_results_["mean_test_score"], atol=1e-12
    )
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-9)


@pytest.mark.parametrize("groups", [None, np.arange(38) % 9])
def test_leave_one_out_has_no_score_of_a_penalty_of_zero(groups):
    X, y = small_iris()
    with pytest.raises(ValueError, match=r"positive betas.*cv=5"):
        LSRClassifierCV(betas=[0.0]).fit(X, y, groups=groups)
    with pytest.warns(FitFailedWarning, match=r"1 of 2 settings.*positive betas"):
        assert LSRClassifierCV(betas=[1.0, 0.0]).fit(X, y, groups=groups).best_params_["beta"] == 1
    for folds in ({"cv": 5}, {"scoring": "roc_auc_ovr"}):
        scores = LSRClassifierCV(betas=[1.0, 0.0], **folds).fit(X, y).cv_results_
        assert np.isfinite(scores["mean_test_score"]).all()


def test_a_penalty_without_scores_leaves_the_others_theirs():
    X, y = small_wide()
    with pytest.warns(FitFailedWarning, match="1 of 2 settings cannot be fitted"):
        search = LSRClassifierCV(betas=[1.0, 1e-14]).fit(X, y)
    alone = LSRClassifierCV(betas=[1.0]).fit(X, y)
    assert search.best_score_ == alone.best_score_


@pytest.mark.parametrize(
    ("X", "y", "betas", "message"),
    [
        (np.array([[0.0], [1.0]]), [0, 1], BETAS, "Each class has only one distinct row"),
        (
            np.random.default_rng(0).normal(size=(10, 30)),
            np.arange(10) % 2,
            [1e-300],
            "do not determine",
        ),
    ],
    ids=["two samples", "no penalty"],
)
def test_leave_one_out_that_is_not_defined_is_refused(X, y, betas, message):
    with pytest.raises(ValueError, match=message):
        LSRClassifierCV(betas=betas).fit(X, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    "X",
    [np.full((20, 2), 0.1), np.zeros((20, 2)), np.full((20, 30), 0.1), 7 * np.eye(20)[:, :1]],
    ids=["constant", "zero", "wide constant", "one other sample"],
)
def test_constant_features_are_fitted_as_by_refits(X, fit_intercept):
    """Without features that differ, the intercept alone decides."""
    y = np.repeat(["a", "b", "c"], [10, 6, 4])
    recorder = Recorder()
    search = LSRClassifierCV(
        LSRClassifier(fit_intercept=fit_intercept, probability=False),
        betas=[1.0, 0.1],
        scoring=recorder,
    )
    search.fit(X, y, groups=np.arange(len(y)))
    for setting, found in zip(search.cv_results_["params"], recorder.seen, strict=True):
        for i in (0, 1, 11, 17):
            others = np.arange(len(y)) != i
            model = LSRClassifier(**setting, fit_intercept=fit_intercept, probability=False)
            model.fit(X[others], y[others])
            expected = model.decision_function(X[i : i + 1])[0]
            np.testing.assert_allclose(found[i], expected, atol=1e-10)


def test_an_outlier_that_hides_how_the_others_differ_is_not_taken_for_constant_features():
    X, y = load_iris(return_X_y=True)
    X = X[:, :1].copy()
    X[0] = 1e9
    with pytest.raises(ValueError, match="do not determine"):
        LSRClassifierCV(betas=[1.0]).fit(X, y)


@pytest.mark.parametrize(
    ("kernel", "fit_intercept", "scale_beta"),
    [("linear", True, True), ("linear", False, False), ("rbf", True, True), ("rbf", True, False)],
)
def test_groups_are_left_out_exactly(kernel, fit_intercept, scale_beta):
    """Scores equal those of refits without the group, also with weights of samples and classes."""
    X, y = load_wine(return_X_y=True)
    X, y = scale(X)[::2], y[::2]
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 25, len(y))
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], len(y))
    params = {"kernel": kernel, "fit_intercept": fit_intercept, "scale_beta": scale_beta}
    share = {0: 1.0, 1: 2.0, 2: 0.5}
    model = LSRClassifier(**params, gamma=0.05, class_weight=share, probability=False)
    numbers = np.unique(groups, return_inverse=True)[1]
    path = LSRClassifierCV._leave_groups_out(
        clone(model), X, y, weights, [{"beta": 1.0}, {"beta": 1e-3}], numbers
    )
    for beta, held_out in zip((1.0, 1e-3), path, strict=True):
        for group in np.unique(groups):
            rest, own = groups != group, groups == group
            refit = clone(model).set_params(beta=beta).fit(X[rest], y[rest], weights[rest])
            np.testing.assert_allclose(
                held_out.scores[own], refit.decision_function(X[own]), rtol=0, atol=1e-9
            )


def test_copies_of_a_row_are_held_out_together():
    """Random labels: with copies in training the model knows them."""
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.normal(size=(60, 40)), 3, axis=0), np.repeat(np.arange(60) % 2, 3)
    search = LSRClassifierCV(
        LSRClassifier(kernel="rbf", probability=False), gammas=[1.0], betas=[1e-3]
    )
    assert search.fit(X, y, groups=np.arange(len(y))).best_score_ > 0.95
    assert search.fit(X, y).best_score_ < 0.3
    assert search.cv_results_["held_out"] == ["one row at a time"]
    assert search.fit(X, y, groups="duplicates").best_score_ < 0.3
    assert search.cv_results_["held_out"] == ["one group at a time"]
    patients = search.fit(X, y, groups=np.repeat(np.arange(60), 3))
    assert patients.best_score_ == search.fit(X, y, groups="duplicates").best_score_
