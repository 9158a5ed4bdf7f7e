"""The models of a comparison: which there are, by which names, for which data."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import discreg
from discreg.base.errors import InputError
from discreg.comparison.candidates.models import plan_models
from discreg.comparison.candidates.registry import CANDIDATES, FAST, named
from discreg.comparison.candidates.tuning import TuningPlan
from discreg.comparison.running.folds import RowFacts
from discreg.comparison.running.scoring import Scoring

BY_NAME = {candidate.name: candidate for candidate in CANDIDATES}
DEFAULT = {"Auto", "ReLSR", "DRM", "ODM", "LRRR", "Logistic", "LDA", "SVC", "KNN"}
DEFAULT |= {"RandomForest", "ExtraTrees", "HistGB"}
# The others differ from these in the estimator only, or are tested where they are at home.
QUICK = ["ReLSR", "LRRR", "SVC", "LinearSVC", "KNN", "Logistic", "LDA", "ExtraTrees"]


def plan(n_rows=100, **options):
    return plan_models(n_rows, **options)


def names_of(models):
    return [model.name for model in models.compared]


def tuning(n_rows=90, n_classes=2):
    scoring = Scoring(None, np.arange(n_classes), np.full(n_classes, n_rows // n_classes))
    return TuningPlan(n_rows, n_classes, scoring.for_search, scoring.scorer)


def test_every_model_of_discreg_is_a_candidate_and_some_are_defaults():
    own = {name.removesuffix("Classifier") for name in discreg.__all__ if name.endswith("sifier")}
    assert own <= {*BY_NAME}
    assert {*names_of(plan())} - {"CatBoost", "LightGBM"} == DEFAULT | {"majority"}
    assert {*FAST} < DEFAULT


def test_names_in_any_case_order_and_number_give_the_same_candidates():
    assert named(["knn", "LSR", "lsr"]) == ["KNN", "LSR"]
    assert names_of(plan(candidates="lsr, KNN")) == names_of(plan(candidates=["KNN", "LSR"]))
    assert "LDA" not in names_of(plan(exclude="lda"))
    assert names_of(plan(candidates=["LSR"])) == ["LSR", "majority"]


def test_an_unknown_name_is_refused_with_the_nearest_and_all():
    for option in ("candidates", "exclude"):
        with pytest.raises(InputError, match=r"no model 'ReLRS'\. Did you mean ReLSR\?") as refusal:
            plan(**{option: ["LSR", "ReLRS"]})
        assert all(name in str(refusal.value) for name in BY_NAME)


def test_own_estimators_are_compared_under_their_names():
    tuned = GridSearchCV(LogisticRegression(), {"C": [1, 10]})
    models = plan(candidates=["LSR", tuned, make_pipeline(StandardScaler(), DummyClassifier())])
    assert names_of(models) == ["LSR", "GridSearchCV", "DummyClassifier", "majority"]
    assert [each.origin for each in models.compared] == ["discreg", "own", "own", "scikit-learn"]
    assert names_of(plan(candidates={"mine": tuned})) == ["mine", "majority"]
    two = plan(candidates=["sklearn.naive_bayes:GaussianNB", LogisticRegression()])
    assert names_of(two) == ["GaussianNB", "LogisticRegression", "majority"]
    same = plan(candidates=[LogisticRegression(), LogisticRegression(C=2)])
    assert names_of(same) == ["LogisticRegression", "LogisticRegression 2", "majority"]
    assert len({each.key for each in same.compared}) == 3


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([LogisticRegression], "is a class"),
        ([LinearRegression()], "is a regressor"),
        ([42], "is not an estimator"),
        (["os:system"], "is not an estimator"),
        (["os:no_such"], "cannot be imported"),
        (["shutil:rmtree"], "cannot be imported: .* missing 1 required"),
        (["os;rm:x"], "not written as package"),
        ({"majority": LogisticRegression()}, "another name"),
        (["LSR"], "nothing to compare"),
    ],
)
def test_what_is_no_model_is_refused(candidates, message):
    with pytest.raises(InputError, match=message):
        plan(candidates=candidates, exclude="LSR" if candidates == ["LSR"] else None)


def test_what_does_not_fit_the_data_is_left_out_or_limited_with_a_sentence():
    large = plan(200_000)
    assert {"SVC", "KNN"} == {*large.left_out}
    limited = {each.name for each in large.compared if each.is_limited}
    assert {"DRM", "ODM", "RandomForest"} <= limited
    assert all(any(note.startswith(name) for note in large.notes) for name in limited)
    assert {"KNN", "LDA"} <= {*plan(has_weights=True).left_out}
    assert {"LDA", "HistGB"} <= {*plan(is_sparse=True).left_out}


@pytest.mark.parametrize("name", QUICK)
def test_every_candidate_has_probabilities_and_takes_what_it_says(name):
    candidate = BY_NAME[name]
    chance = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = chance.normal(size=(90, 3)) + y[:, None]
    groups = np.arange(90) // 3
    (model, _) = plan(90, candidates=[name]).compared
    X = X if candidate.is_dense else sparse.csr_array(X)
    made = model.make(tuning(n_classes=3))
    weights = np.ones(90) if candidate.has_weights else None
    arguments = model.fit_arguments(made, RowFacts(y, groups), weights)
    assert "groups" in arguments
    assert ("sample_weight" in arguments) == candidate.has_weights
    shares = made.fit(X, y, **arguments).predict_proba(X)
    assert shares.shape == (90, 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-9)
    assert (shares.argmax(axis=1) == y).mean() > 0.5


def test_own_models_without_probabilities_are_calibrated_on_held_out_rows():
    chance = np.random.default_rng(0)
    X = chance.normal(size=(400, 3))
    y = (chance.random(400) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    (model, _) = plan(candidates=[RidgeClassifier()]).compared
    shares = model.make(tuning()).fit(X, y).predict_proba(X)[:, 1]
    truth = 1 / (1 + np.exp(-X[:, 0]))
    assert np.abs(shares - truth).mean() < 0.07
