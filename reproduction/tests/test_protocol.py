"""Methods of a study: tuned on the training part, judged by the other."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from discreg import LRRRClassifierCV
from discreg_reproduction.protocol import Part, Study, Sweep, Tuned
from discreg_reproduction.registry import Dataset
from discreg_reproduction.splits import RandomSplit

X, Y = make_classification(120, 6, n_informative=4, n_classes=3, random_state=0)
TRAIN, TEST = Part(X[:80], Y[:80]), Part(X[80:], Y[80:])
GRID = {"alpha": [0.01, 1.0, 100.0, 1e4]}


def alphas(rows):
    return {"alpha": [float(len(rows))]}


def test_parameters_are_chosen_by_folds_of_the_training_part():
    folds = StratifiedKFold(5, shuffle=True, random_state=3)
    expected = GridSearchCV(RidgeClassifier(), GRID, cv=folds).fit(*TRAIN)
    found = Tuned(RidgeClassifier(), GRID).fitted(TRAIN, seed=3)
    assert found.best_params_ == expected.best_params_
    outcome = Tuned(RidgeClassifier(), GRID).run(TRAIN, TEST, seed=3)
    assert outcome.values["accuracy"] == expected.score(*TEST)
    assert outcome.arrays["confusion"].sum() == 40


def test_a_grid_may_depend_on_the_training_samples():
    assert Tuned(RidgeClassifier(), alphas).fitted(TRAIN, 0).best_params_ == {"alpha": 80.0}


def test_a_classifier_that_searches_by_itself_is_given_the_grid_and_the_folds():
    found = Tuned(LRRRClassifierCV(), {"betas": (1.0, 10.0)}, n_folds=4).fitted(TRAIN, seed=2)
    assert found.betas == (1.0, 10.0)
    assert (found.cv.n_splits, found.cv.random_state) == (4, 2)


def test_chance_in_a_classifier_comes_from_the_seed():
    assert Tuned(LinearSVC(random_state=None)).fitted(TRAIN, seed=7).random_state == 7


def test_folds_of_the_choice_are_no_more_than_the_smallest_class_has_samples():
    rows = np.concatenate([np.flatnonzero(Y == 0)[:20], np.flatnonzero(Y == 1)[:3]])
    found = Tuned(RidgeClassifier(), GRID).fitted(Part(X[rows], Y[rows]), seed=0)
    assert found.n_splits_ == 3


def test_a_sweep_names_its_metrics_by_the_value():
    values = Sweep(RidgeClassifier(), "alpha", [0.5, 1e4]).run(TRAIN, TEST, seed=0).values
    for alpha in (0.5, 1e4):
        model = RidgeClassifier(alpha=alpha).fit(*TRAIN)
        assert values[f"accuracy[alpha={alpha:g}]"] == model.score(*TEST)


def test_the_scaler_learns_from_the_training_part_alone():
    study = Study("a/b", "", {}, {}, RandomSplit(1), scaler=StandardScaler())
    far = np.where(np.arange(120)[:, None] % 2, X, X + 1e3)
    data = Dataset("data", far, Y)
    train, test = study.parts(data, 0, 0)
    rows, _ = RandomSplit(1).rows(data, 0, 0)
    assert train.X.mean(axis=0) == pytest.approx(np.zeros(6), abs=1e-10)
    expected = StandardScaler().fit(far[rows]).transform(far[RandomSplit(1).rows(data, 0, 0)[1]])
    np.testing.assert_allclose(test.X, expected)
