"""Explanations of a prediction: votes are those of the members, and contributions add up."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_wine, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from discreg import (
    AutoClassifier,
    DRMClassifier,
    LRRRClassifier,
    LSRClassifier,
    ODMClassifier,
    ReLSRClassifier,
)
from discreg.auto._contributions import contributions_of, keeps_rows
from discreg.auto._explanation import rows_to_keep
from discreg.base.calibration import Temperature

WITH_ROWS = [
    LSRClassifier(kernel="rbf", gamma=0.1),
    LSRClassifier(kernel="laplacian", gamma=0.05, fit_intercept=False),
    LRRRClassifier(kernel="rbf", gamma=0.1),
    ReLSRClassifier(kernel="laplacian", gamma=0.05),
    ODMClassifier(kernel="rbf", gamma=0.1),
    DRMClassifier(kernel="rbf", gamma=0.1),
    DRMClassifier(kernel="linear"),
    DRMClassifier(kernel="linear", solver="closed"),
]
WITHOUT_ROWS = [
    LSRClassifier(),
    ODMClassifier(kernel="linear"),
    LSRClassifier(kernel="rbf", gamma=0.1, n_components=20),
    DRMClassifier(kernel="rbf", gamma=0.1, n_components=20),
]


def standard(load):
    X, y = load(return_X_y=True)
    return scale(X)[::3], y[::3]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X, np.array(["barolo", "grignolino", "barbera"])[y]


@pytest.fixture(scope="module")
def model(wine):
    X, y = wine
    return AutoClassifier().fit(X[::2], y[::2])


def average_of(X, y, *classifiers):
    """An AutoClassifier with the given members in the place of those that it has chosen."""
    model = AutoClassifier(families=["LSR"]).fit(X, y)
    indices = np.searchsorted(model.classes_, y)
    members = [make_pipeline(StandardScaler(), each).fit(X, indices) for each in classifiers]
    model.estimators_, model.weights_ = members, np.array([0.75, 0.25])[-len(members) :]
    model.weights_ /= model.weights_.sum()
    model._temperatures = [Temperature(3.0), Temperature(5.0, spread=0.5)][: len(members)]
    model._rows = rows_to_keep(members, np.arange(len(y)), indices)
    return model


@pytest.fixture(scope="module")
def average():
    X, y = load_breast_cancer(return_X_y=True)
    members = (
        ReLSRClassifier(kernel="rbf", gamma=0.02, probability=False),
        LSRClassifier(kernel="laplacian", gamma=0.05, probability=False),
    )
    return average_of(X[::2], y[::2], *members), X[1::2]


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
@pytest.mark.parametrize("classifier", WITH_ROWS, ids=str)
def test_contributions_and_the_constant_add_up_to_the_score_difference(classifier, load):
    X, y = standard(load)
    weights = np.random.default_rng(0).integers(0, 3, size=len(y)).astype(float)
    classifier = classifier.set_params(probability=False).fit(X[1:], y[1:], weights[1:])
    assert keeps_rows(classifier)
    score = classifier.decision_function(X[:1])
    scores = score[0] if score.ndim > 1 else np.array([0.0, score[0]])
    for first, second in ((0, 1), (1, 0), (len(scores) - 1, 0)):
        found = contributions_of(classifier, X[:1], y[1:], first, second)
        total = found.values.sum() + found.constant
        assert total == pytest.approx(scores[first] - scores[second], rel=1e-8, abs=1e-9)
        assert not found.values[weights[1:][found.rows] == 0].any()


@pytest.mark.parametrize("classifier", WITHOUT_ROWS, ids=str)
def test_linear_and_approximated_kernels_keep_no_rows(classifier):
    X, y = standard(load_wine)
    assert not keeps_rows(classifier.set_params(probability=False).fit(X, y))


def test_a_row_without_its_coefficients_contributes_as_much_less():
    X, y = standard(load_wine)
    model = LSRClassifier(kernel="rbf", gamma=0.1, probability=False).fit(X[1:], y[1:])
    found = contributions_of(model, X[:1], y[1:], 0, 2)
    before = model.decision_function(X[:1])[0]
    model.dual_coef_[:, 7] = 0.0
    after = model.decision_function(X[:1])[0]
    place = int(np.flatnonzero(found.rows == model.support_[7])[0])
    lost = (before[0] - before[2]) - (after[0] - after[2])
    assert found.values[place] == pytest.approx(lost, rel=1e-8)


def test_the_explanation_repeats_the_prediction(model, wine):
    X, _ = wine
    for row in (1, 61, 141):
        found = model.explain_prediction(X[row])
        shares = model.predict_proba(X[[row]])[0]
        assert found.label == model.predict(X[[row]])[0]
        assert found.runner_up == model.classes_[np.argsort(shares)[-2]]
        assert list(found.probabilities) == model.classes_.tolist()
        np.testing.assert_allclose(list(found.probabilities.values()), shares)


def test_votes_are_those_of_the_members(average):
    model, X = average
    found = model.explain_prediction(X[3])
    assert [vote.weight for vote in found.votes] == model.weights_.tolist()
    for vote, member in zip(found.votes, model.estimators_, strict=True):
        assert vote.label == member.predict(X[[3]])[0]
    mean = model.weights_ @ [vote.probability for vote in found.votes]
    logs = model.decision_function(X[[3]])
    assert abs(np.log(mean / (1 - mean))) == pytest.approx(abs(logs[0]), rel=1e-8)


def test_contributions_of_an_average_add_up_to_the_mean_log_odds_of_the_members(average):
    model, X = average
    for x in X[:20]:
        found = model.explain_prediction(x)
        odds = [np.log(vote.probability / (1 - vote.probability)) for vote in found.votes]
        assert found.log_odds == pytest.approx(model.weights_ @ odds, rel=1e-6)
        assert found.contributions.sum() + found.rest == pytest.approx(found.log_odds)
        constant = 0.0
        for member, weight, temperature in zip(
            model.estimators_, model.weights_, model._temperatures, strict=True
        ):
            assert keeps_rows(member[-1])
            factor = temperature.factors(np.abs(member.decision_function([x])))[0]
            constant += weight * factor * member[-1].intercept_[0]
        assert found.rest == pytest.approx(constant if found.label == 1 else -constant, rel=1e-6)


def test_contributions_are_sorted_and_the_loudest_are_shown(average):
    model, X = average
    found = model.explain_prediction(X[0])
    assert (np.diff(found.contributions) <= 0).all()
    loudest = found.rows_for(3)
    assert [row.index for row in loudest] == found.row_indices[:3].tolist()
    assert [row.contribution for row in found.rows_against(2)] == sorted(found.contributions)[:2]
    assert len(found.rows_for(10**6)) + len(found.rows_against(10**6)) <= len(found.row_indices)
    for text in (str(found), found._repr_html_()):
        assert f"{loudest[0].contribution:+.3f}" in text
        assert "ReLSR, rbf kernel (gamma=0.02), standard scaling" in text


def test_rows_of_other_classes_have_no_part_in_a_representation(wine):
    X, y = wine
    drm = DRMClassifier(kernel="rbf", gamma=0.1, probability=False)
    found = average_of(X[::2], y[::2], drm).explain_prediction(X[1])
    assert set(found.row_labels) == {found.label, found.runner_up}
    assert found.rest == pytest.approx(0.0, abs=1e-9)


def test_a_member_without_rows_is_in_the_rest(wine):
    X, y = wine
    rbf = LSRClassifier(kernel="rbf", gamma=0.1, probability=False)
    linear = LSRClassifier(probability=False)
    model = average_of(X[::2], y[::2], rbf, linear)
    found = model.explain_prediction(X[1])
    first, second = (list(model.classes_).index(each) for each in (found.label, found.runner_up))
    (of_rbf,), (of_linear,) = (member.decision_function(X[[1]]) for member in model.estimators_)
    intercept = rbf.intercept_[first] - rbf.intercept_[second]
    own, other = (each[first] - each[second] for each in (of_rbf, of_linear))
    assert found.contributions.sum() == pytest.approx(0.75 * 3.0 * (own - intercept))
    damped = model._temperatures[1].factors(np.ptp(of_linear))
    assert found.rest == pytest.approx(0.75 * 3.0 * intercept + 0.25 * damped * other)


def test_a_sample_far_from_all_rows_is_decided_by_the_intercepts():
    X, y = make_blobs(60, centers=3, random_state=0)
    model = average_of(X, y, LSRClassifier(kernel="rbf", gamma=0.1, probability=False))
    found = model.explain_prediction(X[0] + 1e6)
    np.testing.assert_array_equal(found.contributions, 0.0)
    assert found.rest == found.log_odds
    assert len(found.row_indices) == len(y)
    assert "No contributions of training rows" not in str(found)


def test_near_rows_of_the_class_speak_for_it_in_separate_clusters():
    X, y = make_blobs(90, centers=[[-6, 0], [6, 0], [0, 9]], cluster_std=1.0, random_state=0)
    X_new, y_new = make_blobs(9, centers=[[-6, 0], [6, 0], [0, 9]], random_state=1)
    model = average_of(X, y, LSRClassifier(kernel="rbf", gamma=1.0, probability=False))
    for x, label in zip(X_new, y_new, strict=True):
        found = model.explain_prediction(x)
        assert found.label == label
        assert {row.label for row in found.rows_for(5)} == {label}
        distances = np.linalg.norm(X - x, axis=1)
        speaking = [row.index for row in found.rows_for(5)]
        assert distances[speaking].max() < np.median(distances[y != label])


def test_indices_are_those_of_the_rows_passed_to_fit(wine):
    X, y = wine
    X, y = X[::2], y[::2]
    x = X[3] + 0.01
    few = AutoClassifier().fit(X, y).explain_prediction(x)
    places = np.sort(np.random.default_rng(0).choice(3 * len(y), len(y), replace=False))
    padded, labels = np.full((3 * len(y), X.shape[1]), 1e3), np.resize(y, 3 * len(y))
    padded[places], labels[places] = X, y
    weights = np.zeros(3 * len(y))
    weights[places] = 1.0
    found = AutoClassifier().fit(padded, labels, weights).explain_prediction(x)
    np.testing.assert_array_equal(found.row_indices, places[few.row_indices])
    np.testing.assert_array_equal(found.row_labels, labels[found.row_indices])
    np.testing.assert_allclose(found.contributions, few.contributions, rtol=1e-6, atol=1e-9)


def test_a_row_of_any_kind_gives_the_same_explanation(model, wine):
    X, _ = wine
    expected = model.explain_prediction(X[[1]])
    for x in (X[1], X[1].tolist()):
        found = model.explain_prediction(x)
        np.testing.assert_array_equal(found.contributions, expected.contributions)


def test_a_row_of_a_data_frame_with_categories_is_explained(wine):
    X, y = wine
    frame = pd.DataFrame(X[:, :4], columns=["alcohol", "acid", "ash", "alkali"])
    frame["colour"] = pd.Categorical(np.where(X[:, 9] > 5, "dark", "light"))
    frame.loc[3, "ash"] = np.nan
    model = AutoClassifier(families=["LSR"]).fit(frame[::2], y[::2])
    expected = model.explain_prediction(frame.iloc[[3]])
    assert expected.label == model.predict(frame.iloc[[3]])[0]
    for x in (frame.iloc[3], pl.from_pandas(frame.iloc[[3]])):
        found = model.explain_prediction(x)
        assert found.probabilities == pytest.approx(expected.probabilities)
        np.testing.assert_allclose(found.contributions, expected.contributions)


def test_sparse_rows_are_explained(wine):
    X, y = wine
    model = AutoClassifier(families=["LSR"]).fit(sparse.csr_array(X[::6]), y[::6])
    found = model.explain_prediction(sparse.csr_array(X[[1]]))
    assert found.label == "barolo"
    assert found.contributions.sum() + found.rest == pytest.approx(found.log_odds)


def test_several_rows_are_refused(model, wine):
    with pytest.raises(ValueError, match=r"one sample; the shape of x is \(2, 13\)"):
        model.explain_prediction(wine[0][:2])
    with pytest.raises(NotFittedError):
        AutoClassifier().explain_prediction(wine[0][0])


def test_members_without_rows_are_said_to_have_no_contributions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    model = AutoClassifier(time_budget=20).fit(X, y)
    found = model.explain_prediction(X[0])
    assert not len(found.row_indices)
    assert found.rows_for() == found.rows_against() == []
    assert found.rest == found.log_odds
    assert "No contributions of training rows" in str(found)
    assert model._rows is None


def test_class_frequencies_are_explained_as_such():
    X = np.random.default_rng(3).normal(size=(60, 3))
    y = np.repeat(["<rare>", "usual", "usual"], 20)
    with pytest.warns(UserWarning, match="class frequencies are the prediction"):
        model = AutoClassifier().fit(X, y)
    found = model.explain_prediction(X[0])
    assert found.is_constant
    assert found.label == "usual"
    other = model.explain_prediction(X[1])
    assert found.probabilities == other.probabilities
    assert [vote.member for vote in found.votes] == ["class frequencies"]
    for text in (str(found), found._repr_html_()):
        assert "The class frequencies are the prediction, the same for all samples" in text
    assert "&lt;rare&gt;" in found._repr_html_()
    assert "<rare>" not in found._repr_html_()
