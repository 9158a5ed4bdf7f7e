"""The models of a comparison: which there are, by which names, for which data."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import discreg
from discreg.base.errors import InputError
from discreg.comparison.candidates.models import AFFORDABLE, plan_models
from discreg.comparison.candidates.registry import CANDIDATES, FAST, named
from discreg.comparison.candidates.tuning import Shape, TuningPlan
from discreg.comparison.protocol.folds import RowFacts
from discreg.comparison.protocol.scoring import Scoring

PEERS = {"Ridge", "LinearSVC", "SVC", "Logistic", "KNN", "RandomForest", "HistGB", "LDA"}
BY_NAME = {candidate.name: candidate for candidate in CANDIDATES}
SMALL = Shape(100, 6, 2)


def scoring(given=None):
    return Scoring(given, np.array(["a", "b"]), np.array([50, 50]))


def names_of(models):
    return [model.name for model in models.compared]


def plan(shape=SMALL, given=None, n_fits=10, **options):
    return plan_models(shape, scoring(given), n_fits=n_fits, **options)


def test_every_model_of_discreg_and_every_peer_is_a_candidate_once():
    own = {name.removesuffix("Classifier") for name in discreg.__all__ if name.endswith("sifier")}
    assert {*BY_NAME} == own | PEERS
    assert len(BY_NAME) == len(CANDIDATES)
    assert {*FAST} < {*BY_NAME}


def test_the_majority_class_is_always_compared():
    assert names_of(plan(candidates=["LSR"])) == ["LSR", "majority"]


def test_names_in_any_case_order_and_number_give_the_same_candidates():
    assert named(["knn", "LSR", "lsr"]) == ["KNN", "LSR"]
    assert names_of(plan(candidates=["KNN", "lsr"])) == ["LSR", "KNN", "majority"]
    assert names_of(plan(candidates="knn, lsr")) == ["LSR", "KNN", "majority"]
    assert names_of(plan(exclude="lda")) == [
        *(name for name in BY_NAME if name != "LDA"),
        "majority",
    ]


def test_an_unknown_name_is_refused_with_the_nearest_and_all():
    for option in ("candidates", "exclude"):
        with pytest.raises(InputError, match=r"no model 'ReLRS'\. Did you mean ReLSR\?") as refusal:
            plan(**{option: ["LSR", "ReLRS"]})
        assert all(name in str(refusal.value) for name in BY_NAME)


def test_own_estimators_are_compared_under_their_names():
    tuned = GridSearchCV(LogisticRegression(), {"C": [1, 10]})
    models = plan(candidates=["LSR", tuned, make_pipeline(StandardScaler(), DummyClassifier())])
    assert names_of(models) == ["LSR", "GridSearchCV", "DummyClassifier", "majority"]
    assert [model.contender.origin for model in models.compared] == [
        "discreg",
        "own",
        "own",
        "scikit-learn",
    ]
    assert names_of(plan(candidates={"mine": tuned})) == ["mine", "majority"]
    assert names_of(plan(candidates=["sklearn.svm:SVC", "sklearn.svm:NuSVC"])) == [
        "SVC",
        "NuSVC",
        "majority",
    ]


def test_models_of_the_same_name_are_all_compared():
    listed = ["sklearn.svm:SVC", "sklearn.svm._classes:SVC", "SVC"]
    assert names_of(plan(candidates=listed)) == ["SVC", "SVC 2", "SVC 3", "majority"]
    with pytest.raises(InputError, match="name of the baseline"):
        plan(candidates={"majority": LogisticRegression()})


def test_one_pipeline_is_one_candidate():
    pipeline = make_pipeline(StandardScaler(), DummyClassifier())
    assert names_of(plan(candidates=pipeline)) == ["DummyClassifier", "majority"]


def test_the_key_of_an_own_estimator_tells_its_parameters_apart():
    keys = [
        plan(candidates={"mine": estimator}).compared[0].key
        for estimator in (
            LogisticRegression(),
            LogisticRegression(),
            LogisticRegression(C=2),
            make_pipeline(StandardScaler(), LogisticRegression()),
            make_pipeline(StandardScaler(), LogisticRegression(C=2)),
        )
    ]
    assert keys[0] == keys[1]
    assert len({*keys}) == 4


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([LogisticRegression], "LogisticRegression is a class"),
        ([3], "is not an estimator"),
        ([LinearRegression()], "LinearRegression is a regressor"),
        ([make_pipeline(StandardScaler(), LinearRegression())], "is a regressor"),
        (["nowhere:model"], "cannot be imported"),
        (["sklearn.svm:nothing"], "cannot be imported"),
    ],
)
def test_what_is_no_estimator_is_refused(candidates, message):
    with pytest.raises(InputError, match=message):
        plan(candidates=candidates)


def test_every_model_is_affordable_on_a_small_table():
    assert plan().left_out == {}
    assert plan().notes == ()


@pytest.mark.parametrize(
    ("shape", "left_out"),
    [(Shape(48, 5_000, 2), {"LDA"}), (Shape(133_333, 20, 3), {"SVC", "KNN"})],
)
def test_what_cannot_finish_is_left_out_or_limited_with_a_sentence(shape, left_out):
    n_fits = 10 if shape.n_rows < 1000 else 3
    models = plan(shape, n_fits=n_fits)
    assert {*models.left_out} == left_out
    assert all("would take about" in reason for reason in models.left_out.values())
    shares = {name: BY_NAME[name].share for name in BY_NAME} | {"majority": 1}
    assert all(
        model.seconds <= shares[model.name] * AFFORDABLE / n_fits for model in models.compared
    )
    limited = [model for model in models.compared if model.variant]
    assert len(limited) == len(models.notes)
    assert all(model.key != model.name for model in limited)
    if shape.n_rows > 1000:
        assert {"DRM", "ODM", "RandomForest"} <= {model.name for model in limited}


def test_models_without_weights_or_probabilities_are_left_out_where_these_are_needed():
    assert {*plan(has_weights=True).left_out} == {"KNN", "LDA"}
    assert {*plan(given="neg_log_loss").left_out} == {"Ridge", "LinearSVC", "SVC"}
    assert {*plan(Shape(100, 6, 2, is_sparse=True)).left_out} == {"SLRR", "HistGB", "LDA"}


def test_a_comparison_of_nothing_is_refused():
    sparse_shape = Shape(100, 6, 2, is_sparse=True)
    with pytest.raises(InputError, match="HistGB is left out: it does not support sparse data"):
        plan(sparse_shape, candidates=["HistGB"])
    with pytest.raises(InputError, match="nothing to compare"):
        plan(candidates=["LSR"], exclude=["LSR"])


def data(n_rows=60, n_columns=6):
    chance = np.random.default_rng(0)
    y = np.arange(n_rows) % 2
    return chance.normal(size=(n_rows, n_columns)) + y[:, None] * np.eye(n_columns)[0], y


def search(shape=SMALL, weights=(None,)):
    judge = Scoring("balanced_accuracy", np.array([0, 1]), np.array([30, 30]))
    return TuningPlan(shape, judge.for_search, judge.scorer, weights)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [name for name in BY_NAME if not BY_NAME[name].is_dense])
def test_a_candidate_takes_sparse_data(name):
    X, y = data()
    X = sparse.csr_array(np.where(np.abs(X) > 0.7, X, 0))
    for variant in BY_NAME[name].variants[:1]:
        model = variant.make(search(Shape(60, 6, 2, is_sparse=True))).fit(X, y)
        assert model.predict(X).shape == y.shape


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:No candidate predicts")
@pytest.mark.parametrize("name", BY_NAME)
def test_a_candidate_takes_groups_weights_and_class_weights_if_it_says_so(name):
    X, y = data()
    (model,) = [each for each in plan(candidates=[name]).compared if each.name == name]
    made = model.make(search(weights=(None, "balanced")))
    weights = np.linspace(0.5, 2, 60) if BY_NAME[name].has_weights else None
    facts = RowFacts(y, np.arange(60) // 4)
    arguments = model.fit_arguments(made, facts, weights)
    assert "groups" in arguments
    fitted = made.fit(X, y, **arguments)
    assert fitted.score(X, y) > 0.5
    assert hasattr(fitted, "predict_proba") == BY_NAME[name].has_probabilities


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_ranks_to_choose_from_are_those_that_tell_classes_apart(n_classes):
    model = BY_NAME["LRLR"].variants[0].make(search(Shape(100, 6, n_classes)))
    assert set(model.search.ranks) == {2: {1}, 3: {1, 2}, 10: {1, 5, 9}}[n_classes]
