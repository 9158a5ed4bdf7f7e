"""The smallest penalty of SLRR at which all coefficients are zero."""

import warnings

import numpy as np
import pytest
from low_rank_oracles import centre, indicators, sparse_optimum
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from discreg import SLRRClassifier, SLRRClassifierCV, beta_max

NULL = pytest.mark.filterwarnings("ignore:All coefficients are zero:UserWarning")


def data(name):
    if name == "wide":
        rng = np.random.default_rng(0)
        y = np.arange(30) % 3
        X = rng.normal(size=(30, 60))
        X[:, :4] += rng.normal(size=(3, 4))[y]
        return X, y
    X, y = {"iris": load_iris, "wine": load_wine, "digits": load_digits}[name](return_X_y=True)
    X, y = X[::3], y[::3]
    if name == "wine":
        y = np.where(y == 2, 0, y)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize(
    ("name", "rank", "solver"),
    [("iris", None, "alternating"), ("wine", 1, "reweighted"), ("wide", 1, "alternating")],
)
def test_a_feature_is_used_just_below_it_and_none_from_it_on(name, rank, solver):
    X, y = data(name)
    largest = beta_max(X, y)
    params = {"rank": rank, "probability": False}
    below = SLRRClassifier(beta=0.999 * largest, tol=1e-9, **params).fit(X, y)
    assert len(below.selected_features_) >= 1
    for beta in (largest, 1.5 * largest):
        with pytest.warns(UserWarning, match=r"All coefficients are zero.*beta below") as caught:
            null = SLRRClassifier(beta=beta, solver=solver, **params).fit(X, y)
        assert len(caught) == 1
        assert f"{largest:.6g}" in str(caught[0].message)
        assert not null.coef_.any()
        assert null.gap_ <= 1e-12
        assert len(null.selected_features_) == 0
        assert np.ptp(null.decision_function(X), axis=0).max() == 0


@pytest.mark.parametrize(("name", "weighted"), [("iris", True), ("wine", False), ("wide", True)])
def test_an_interior_point_method_agrees(name, weighted):
    X, y = data(name)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighted else None
    largest = beta_max(X, y, sample_weight=weights)
    centred, Y = centre(X, weights), indicators(y, weights)
    sizes = [
        np.linalg.norm(sparse_optimum(centred, Y, factor * largest, weights)[1], axis=1).max()
        for factor in (0.95, 1.05)
    ]
    scale = np.abs(np.linalg.lstsq(centred, Y, rcond=None)[0]).max()
    assert sizes[0] > 1e-4 * scale
    assert sizes[1] < 1e-6 * scale


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 1: 0.5, 2: 1.0}])
def test_weights_are_copies(class_weight):
    X, y = data("iris")
    copies = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = beta_max(X, y, sample_weight=copies, class_weight=class_weight)
    repeated = beta_max(
        np.repeat(X, copies, axis=0), np.repeat(y, copies), class_weight=class_weight
    )
    assert weighted == pytest.approx(repeated, rel=1e-12)


@NULL
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_it_follows_the_parameters_of_the_fit(class_weight, fit_intercept):
    X, y = data("digits")
    X, y = X[y < 3] + 1, y[y < 3]
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    params = {"class_weight": class_weight, "fit_intercept": fit_intercept}
    largest = beta_max(X, y, sample_weight=weights, **params)
    for factor, used in ((0.999, True), (1.0, False)):
        model = SLRRClassifier(beta=factor * largest, tol=1e-9, probability=False, **params)
        assert bool(len(model.fit(X, y, weights).selected_features_)) == used


def test_sparse_rows_and_units():
    X, y = data("wine")
    X = np.where(np.abs(X) > 1, X, 0)
    assert beta_max(sparse.csr_array(X), y) == pytest.approx(beta_max(X, y), rel=1e-12)
    assert beta_max(10 * X, y) == pytest.approx(10 * beta_max(X, y), rel=1e-12)


def test_constant_features_need_no_penalty():
    X, y = np.ones((6, 2)), np.arange(6) % 2
    assert beta_max(X, y) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not SLRRClassifier(probability=False).fit(X, y).coef_.any()


@NULL
@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c"]])
@pytest.mark.parametrize("weights", [None, [9.0, 1.0, 2.0]])
def test_without_coefficients_the_largest_class_is_predicted(labels, weights):
    codes = np.repeat(np.arange(len(labels)), [10, 60, 20][: len(labels)])
    X, y = np.random.default_rng(0).normal(size=(len(codes), 3)), np.array(labels)[codes]
    given = None if weights is None else np.array(weights)[codes]
    null = SLRRClassifier(beta=2 * beta_max(X, y, sample_weight=given)).fit(X, y, given)
    shares = np.bincount(codes, given) / np.bincount(codes, given).sum()
    assert np.all(null.predict(X) == labels[shares.argmax()])
    np.testing.assert_allclose(null.predict_proba(X), np.tile(shares, (len(X), 1)), atol=0.02)
    scores = null.decision_function(X)
    odds = scores if len(labels) == 2 else scores[:, 1] - scores[:, 0]
    np.testing.assert_allclose(odds, np.log(shares[1] / shares[0]))


@NULL
@pytest.mark.parametrize(
    "params", [{"class_weight": "balanced"}, {"fit_intercept": False}], ids=["balanced", "origin"]
)
def test_without_coefficients_equal_classes_have_equal_scores(params):
    X, y = data("wine")
    null = SLRRClassifier(beta=2 * beta_max(X, y, **params), **params).fit(X, y)
    assert np.all(null.decision_function(X) == 0)
    shares = np.bincount(y) / len(y)
    np.testing.assert_allclose(null.predict_proba(X), np.tile(shares, (len(X), 1)), atol=1e-9)


@NULL
def test_a_search_scores_settings_without_coefficients_by_the_share_of_the_largest_class():
    X, y = data("wine")
    y = 1 - y  # the largest class is the second
    search = SLRRClassifierCV(SLRRClassifier(probability=False), betas=[2 * beta_max(X, y)]).fit(
        X, y
    )
    assert search.best_score_ == pytest.approx(np.bincount(y).max() / len(y), abs=1e-9)
    assert search.score(X, y) == pytest.approx(np.bincount(y).max() / len(y))


@NULL
def test_a_search_marks_settings_without_coefficients_and_does_not_choose_them():
    X, y = data("iris")
    largest = beta_max(X, y)
    betas = [10 * largest, 2 * largest, largest, 0.5 * largest, 0.01 * largest]
    search = SLRRClassifierCV(betas=betas, ranks=[1, 2]).fit(X, y)
    assert search.beta_max_ == largest
    expected = [setting["beta"] >= largest for setting in search.cv_results_["params"]]
    assert search.cv_results_["is_null"].tolist() == expected
    assert sum(expected) == 6
    null = search.cv_results_["mean_test_score"][search.cv_results_["is_null"]]
    assert len(set(null.tolist())) == 1
    assert search.best_params_["beta"] < largest


def test_a_search_without_useful_candidates_warns():
    X, y = data("iris")
    search = SLRRClassifierCV(SLRRClassifier(probability=False), betas=[2 * beta_max(X, y)])
    with pytest.warns(UserWarning, match="All coefficients are zero"):
        search.fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"fit_intercept": "yes"}, "fit_intercept"),
        ({"class_weight": "even"}, "class_weight"),
        ({"sample_weight": [-1.0] * 50}, "sample_weight"),
    ],
)
def test_refused_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        beta_max(*data("iris"), **params)
