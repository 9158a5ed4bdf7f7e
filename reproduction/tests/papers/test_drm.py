"""The DRM paper's protocol: its grids and splits, and what its methods must agree with."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import SVC

from discreg import DRMClassifier, DRMClassifierCV
from discreg_reproduction.papers._drm_methods import (
    DRMSearch,
    EachScaling,
    HeldOutFolds,
    HeldOutSupport,
    IterationCounts,
    IterativeDRM,
    NearestNeighbours,
    NeighbourSearch,
    ObjectiveHistory,
    Search,
    SecondsOfAnExample,
    SomeTestSamples,
    some_rows,
)
from discreg_reproduction.papers.drm import (
    STUDIES,
    TEST_SIZES,
    every_other_person,
)
from discreg_reproduction.protocol import Part
from discreg_reproduction.registry import Dataset, entries

BY_NAME = {study.name: study for study in STUDIES}


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return Part(X[::2], y[::2]), Part(X[1::2], y[1::2])


@pytest.fixture(scope="module")
def large():
    """Scaled as for Table IV, with classes that linear DRM tells apart."""
    X, y = make_classification(900, 6, n_informative=5, n_redundant=0, random_state=0)
    X = MaxAbsScaler().fit_transform(X)
    return Part(X[:600], y[:600]), Part(X[600:], y[600:])


def test_every_table_and_figure_is_there_and_can_be_sent_to_a_process():
    assert list(BY_NAME) == [
        f"drm/{part}" for part in ("table2", "table4", "table7", "fig2", "fig3", "fig4")
    ]
    assert [study.name for study in pickle.loads(pickle.dumps(STUDIES))] == list(BY_NAME)


@pytest.mark.parametrize(
    ("table", "scoring"), [("drm/table2", "accuracy"), ("drm/table7", "g_mean")]
)
def test_grids_are_the_papers(table, scoring):
    chooser = {name: method.chooser for name, method in BY_NAME[table].methods.items()}
    decades = pytest.approx([0.001, 0.01, 0.1, 1, 10, 100, 1000])
    assert list(chooser["SVM(R)"].values) == decades
    assert chooser["SVM(P)"].values == (2, 3, 4, 5, 8, 10)
    assert chooser["KNN(E)"].values == chooser["KNN(C)"].values == (2, 3, 4, 5, 6, 7, 8)
    assert chooser["RF"].values == (10, 20, 30, 40)
    for name in ("DRM(R)", "DRM(P)"):
        search = chooser[name].search
        assert list(search.alphas) == list(search.betas) == decades
        assert search.scoring == scoring
    assert [1 / (2 * gamma) for gamma in chooser["DRM(R)"].search.gammas] == decades
    assert chooser["DRM(P)"].search.degrees == (2, 3, 4, 5, 8, 10)


def test_grid_of_the_large_data_is_the_papers():
    method = BY_NAME["drm/table4"].methods["DRM-GD"].method
    assert (min(method.alphas), max(method.alphas)) == pytest.approx((1e-6, 1e-1))
    assert (min(method.betas), max(method.betas)) == pytest.approx((1e-6, 1e8))
    assert method.n_search == 3000


def test_training_parts_have_the_sizes_of_table_1():
    sizes = {"lung_gordon": 137, "prostate_singh136": 103, "gcm": 150, "sun": 137, "nci9": 47}
    sizes |= {"ramaswamy": 154, "nakayama": 84, "yaleb_32x32": 1814, "pix_100x100": 80}
    sizes |= {"jaffe_26x26": 172, "yale_32x32": 135, "optdigits_1797": 1352, "pendigits": 1575}
    sizes |= {"semeion": 1279, "iris": 114, "wine": 135, "tic-tac-toe": 719}
    found = {name: entries()[name].shape[0] - TEST_SIZES[name] for name in sizes}
    assert found == sizes
    assert entries()["ar_100x26_32x32"].n_samples - TEST_SIZES["ar_100x26_32x32"] == 1050


def test_stratified_test_parts_have_every_class_in_proportion():
    y = np.repeat([0, 1, 2], 50)
    iris = Dataset("iris", np.zeros((150, 1)), y)
    splits = BY_NAME["drm/table2"].splits
    parts = [splits.rows(iris, repeat, 0) for repeat in range(5)]
    for train, test in parts:
        assert np.array_equal(np.bincount(y[test]), [12, 12, 12])
        assert np.array_equal(np.sort(np.r_[train, test]), np.arange(150))
    assert len({tuple(test) for _, test in parts}) == 5


def test_half_of_the_persons_of_ar_are_taken():
    y = np.repeat(np.arange(1, 101), 2)
    kept = every_other_person(Dataset("ar_100x26_32x32", np.arange(200.0)[:, None], y))
    assert np.array_equal(np.unique(kept.y), np.arange(1, 101, 2))  # 25 up to 50, the men
    assert np.array_equal(kept.X[:2, 0], [0, 1])
    assert len(kept.X) == 100
    other = Dataset("iris", np.zeros((3, 1)), np.arange(3))
    assert every_other_person(other) is other


@pytest.mark.parametrize(
    "model", [SVC(gamma=0.5), SVC(kernel="poly", gamma="auto", degree=2, coef0=0.0)]
)
def test_leave_one_out_of_svm_equals_refits(model):
    X, y = load_iris(return_X_y=True)
    train = Part(X[::3], y[::3])
    refits = cross_val_predict(model, *train, cv=LeaveOneOut())
    labels = HeldOutSupport(100, otherwise=HeldOutFolds()).labels(model, train, 0)
    assert np.array_equal(labels, refits)


def test_svm_of_many_samples_is_judged_by_folds(wine):
    model, train = SVC(gamma=1e-3), wine[0]
    few = HeldOutSupport(10, otherwise=HeldOutFolds())
    assert np.array_equal(few.labels(model, train, 3), HeldOutFolds().labels(model, train, 3))


def test_setting_that_cannot_be_fitted_is_left_out():
    X = np.array([[30.0], [60.0], [-30.0], [-60.0]])
    support = HeldOutSupport(10, otherwise=HeldOutFolds())
    model = SVC(kernel="poly", gamma="auto", coef0=0.0, max_iter=10)
    search = Search(model, "degree", (200, 1), support, "accuracy")
    train = Part(X, np.array([0, 0, 1, 1]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        chosen = search.chosen(train, 0)
    assert chosen.model.degree == 1
    assert any("Left out SVC(degree=200" in str(warning.message) for warning in caught)


def test_equally_frequent_neighbours_are_decided_by_the_nearest():
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["b", "a", "a", "b"])
    model = NearestNeighbours(n_neighbors=2).fit(X, y)
    assert model.predict([[0.1], [0.9]]).tolist() == ["b", "a"]
    assert model.set_params(n_neighbors=3).predict([[0.1]]).tolist() == ["a"]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_leave_one_out_of_neighbours_equals_refits_and_chooses(wine, metric):
    train, values = wine[0], (2, 3, 5)
    found = NearestNeighbours(metric=metric).fit(*train).leave_one_out(values)
    accuracies = []
    for value, labels in zip(values, found, strict=True):
        model = NearestNeighbours(n_neighbors=value, metric=metric)
        assert np.array_equal(labels, cross_val_predict(model, *train, cv=LeaveOneOut()))
        accuracies.append(np.mean(labels == train.y))
    chosen = NeighbourSearch(metric, values, "accuracy").chosen(train, 0)
    assert chosen.model.n_neighbors == values[int(np.argmax(accuracies))]
    assert chosen.score == max(accuracies)


def test_drm_search_takes_what_leave_one_out_takes(wine):
    train, test = wine[0], wine[1]
    search = DRMClassifierCV(alphas=[0.1, 1.0], betas=[0.01, 1.0], gammas=[1e-4, 1e-3])
    chosen = DRMSearch(search, at_most=1000).chosen(train, 0)
    search.fit(*train)
    assert chosen.score == search.best_score_
    assert np.array_equal(chosen.model.predict(test.X), search.predict(test.X))


def test_drm_search_leaves_out_degrees_beyond_floating_point_and_keeps_single_samples(wine):
    X, y = np.vstack([wine[0].X, 1e3 * np.eye(1, 13)]), np.r_[wine[0].y, 9]
    search = DRMClassifierCV(
        DRMClassifier(kernel="poly", probability=False),
        gammas=[1.0],
        degrees=(2, 200),
        alphas=[1.0],
    )
    with pytest.warns(FitFailedWarning, match="2 of 4 settings cannot be fitted"):
        chosen = DRMSearch(search, at_most=1000).chosen(Part(X, y), 0)
    assert chosen.model.degree == 2
    assert chosen.model.predict(X[-1:]).tolist() == [9]


def test_drawn_rows_have_no_class_of_one_sample():
    y = np.r_[np.zeros(60), np.ones(60), 2]
    assert np.array_equal(some_rows(y, 1000, 0), np.arange(120))
    drawn = some_rows(y, 50, 0)
    assert len(drawn) in (49, 50)
    assert np.isin([0, 1], y[drawn]).all()
    assert 2 not in y[drawn]


def test_each_scaling_is_scored_and_training_samples_decide(wine):
    train, test = wine
    chooser = NeighbourSearch("euclidean", (2, 3), "accuracy")
    outcome = EachScaling(chooser).run(train, test, 0)
    scaler = MaxAbsScaler().fit(train.X)
    scaled = Part(scaler.transform(train.X), train.y), Part(scaler.transform(test.X), test.y)
    for name, parts in {"plain": wine, "scaled": scaled}.items():
        model = chooser.chosen(parts[0], 0).model
        accuracy = np.mean(model.predict(parts[1].X) == test.y)
        assert outcome.values[f"accuracy[scaling={name}]"] == pytest.approx(accuracy)
    # Scaling helps on wine, and the training part tells so.
    assert outcome.values["accuracy"] == outcome.values["accuracy[scaling=scaled]"]
    assert outcome.values["accuracy"] > outcome.values["accuracy[scaling=plain]"]
    assert outcome.arrays["confusion"].sum() == len(test.y)


def test_forest_is_chosen_with_the_seed(wine):
    search = Search(RandomForestClassifier(), "n_estimators", (3, 5), HeldOutFolds(), "accuracy")
    forests = [search.chosen(wine[0], seed) for seed in (0, 0)]
    assert forests[0].score == forests[1].score
    labels = [forest.model.predict_proba(wine[1].X) for forest in forests]
    assert np.array_equal(*labels)


@pytest.mark.parametrize("solver", ["gd", "ppa", "apg"])
def test_iterations_predict_what_the_exact_solution_does(large, solver):
    train, test = large
    method = SomeTestSamples(IterativeDRM(solver, (0.01,), (10.0,), n_search=300), n_test=100)
    outcome = method.run(train, test, 4)
    judge = np.random.default_rng(4).permutation(300)[:100]
    exact = DRMClassifier(kernel="linear", alpha=0.01, beta=10.0).fit(*train)
    right = np.mean(exact.predict(test.X[judge]) == test.y[judge])
    assert outcome.values["accuracy"] == pytest.approx(right)
    assert (outcome.values["alpha"], outcome.values["beta"]) == (0.01, 10.0)


@pytest.mark.parametrize("solver", ["gd", "ppa", "apg"])
def test_history_ends_at_the_minimum(large, solver):
    train, test = large
    model = DRMClassifier(kernel="linear", solver=solver, alpha=1e-3, beta=100.0)
    outcome = ObjectiveHistory(model).run(train, test, 0)
    w = (
        DRMClassifier(kernel="linear", alpha=1e-3, beta=100.0)
        .fit(*train)
        .representation(test.X[:1])
    )
    minimum = -0.5 * w[0] @ (train.X @ test.X[0])  # of a quadratic at its minimiser
    history = outcome.arrays["history"]
    assert history[0] == 0
    assert len(history) == outcome.values["iterations"] + 1
    # Steps of at most 1e-5 leave w so near that the objective has more than eight digits.
    assert history[-1] == pytest.approx(minimum, rel=1e-6)


def test_a_larger_penalty_needs_fewer_iterations(large):
    """Theorem VI.3."""
    model = DRMClassifier(kernel="linear", solver="ppa", alpha=1e-3, beta=1.0)
    values = IterationCounts(model, betas=(1e2, 1e4), n_examples=5).run(*large, 0).values
    assert values["iterations[beta=100]"] > values["iterations[beta=10000]"] >= 1


def test_seconds_are_measured_for_the_sizes_that_there_are(large):
    model = DRMClassifier(kernel="linear", solver="gd", beta=1e3)
    values = SecondsOfAnExample(model, sizes=(100, 500, 1000), n_examples=3).run(*large, 0).values
    assert list(values) == ["seconds[n=100]", "seconds[n=500]"]
    assert min(values.values()) > 0


def test_all_methods_of_table_4_are_judged_by_the_same_samples():
    """The rate of the most frequent class is one number per data set."""
    methods = BY_NAME["drm/table4"].methods.values()
    assert {type(method) for method in methods} == {SomeTestSamples}
    assert {method.n_test for method in methods} == {1000}


def test_the_first_of_tied_settings_comes_first_in_the_grid(wine):
    """On easy data many settings have the same score; the log-loss prefers another."""
    grid = {"alphas": (1e-3, 1.0), "betas": (1e-3, 1.0, 1e3), "gammas": (1e-3, 1e-2)}
    search = DRMClassifierCV(DRMClassifier(probability=False, kernel="rbf"), **grid)
    fitted = clone(search).fit(*wine[0])
    tied = fitted.cv_results_["mean_test_score"] == fitted.best_score_
    first = fitted.cv_results_["params"][int(np.argmax(tied))]
    chosen = DRMSearch(search, at_most=1000, first_tie=True).chosen(wine[0], 0).model
    assert {name: getattr(chosen, name) for name in first} == first
    other = DRMSearch(search, at_most=1000).chosen(wine[0], 0).model
    assert {name: getattr(other, name) for name in first} == fitted.best_params_
