"""The size of the scores: it does not depend on the number of samples, and stacking can use it."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import scale

from discreg import (
    LRLRClassifier,
    LRLRClassifierCV,
    LRRRClassifier,
    LRRRClassifierCV,
    SLRRClassifier,
    SLRRClassifierCV,
)

# The penalties that are as strong for each number of samples, in the units of the objectives.
MODELS = {
    "LRLR": lambda n: LRLRClassifier(),
    "LRRR": lambda n: LRRRClassifier(beta=0.01 * n),
    "SLRR": lambda n: SLRRClassifier(beta=0.05 * np.sqrt(n), tol=1e-8),
}


@pytest.mark.parametrize("name", MODELS)
def test_repeated_rows_have_the_same_scores(name):
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    once = MODELS[name](len(y)).fit(X, y)
    often = MODELS[name](30 * len(y)).fit(np.repeat(X, 30, axis=0), np.repeat(y, 30))
    np.testing.assert_allclose(
        often.decision_function(X), once.decision_function(X), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(often.transform(X), once.transform(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_the_largest_score_stays_as_samples_are_added(name):
    X, y = make_classification(
        10_000, n_features=10, n_informative=6, n_classes=4, flip_y=0, random_state=0
    )
    largest = [
        np.abs(MODELS[name](n).fit(X[:n], y[:n]).decision_function(X[:200])).max()
        for n in (400, 10_000)
    ]
    assert largest[1] == pytest.approx(largest[0], rel=0.25)


def test_classes_of_equal_size_are_regressed_onto_their_indicators():
    X, y = load_iris(return_X_y=True)
    centred = LinearRegression().fit(X, np.eye(3)[y]).predict(X) - 1 / 3
    np.testing.assert_allclose(LRLRClassifier().fit(X, y).decision_function(X), centred, atol=1e-9)
    both = y < 2
    ridge = RidgeClassifier(alpha=1.0).fit(X[both], y[both])
    ours = LRRRClassifier(beta=1.0).fit(X[both], y[both])
    np.testing.assert_allclose(ours.decision_function(X), ridge.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("model", [LRLRClassifier(), LRRRClassifier(), SLRRClassifier()])
def test_scores_are_products_with_the_fitted_attributes(model):
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    for class_weight in (None, {0: 3.0}):
        model.set_params(class_weight=class_weight).fit(X, y)
        scores = model.decision_function(X)
        np.testing.assert_allclose(scores, X @ model.coef_.T + model.intercept_, atol=1e-12)
        shift = scores - model.transform(X) @ model.directions_.T
        np.testing.assert_allclose(shift, np.tile(shift[0], (len(X), 1)), atol=1e-12)
        assert np.abs(shift).max() < 1e-12 or class_weight is not None


def test_stacking_can_use_the_scores():
    X, y = load_breast_cancer(return_X_y=True)

    def accuracy(model):
        stacked = StackingClassifier([("model", model)], LogisticRegression(), cv=3)
        return cross_val_score(stacked, X, y, cv=3).mean()

    assert accuracy(LRLRClassifier()) > 0.93
    assert accuracy(LRRRClassifierCV(betas=[1.0])) > 0.93


def test_class_weights_do_not_change_the_targets_as_sample_weights_do():
    """The same factors give other models, as the documentation says."""
    X, y = load_wine(return_X_y=True)
    factors = {0: 1.0, 1: 5.0, 2: 1.0}
    by_class = LRLRClassifier(class_weight=factors).fit(X, y)
    by_sample = LRLRClassifier().fit(X, y, sample_weight=np.vectorize(factors.get)(y))
    assert np.abs(by_class.decision_function(X) - by_sample.decision_function(X)).max() > 0.1
    for model in (LRLRClassifier, LRRRClassifier, SLRRClassifier):
        assert "they do not change Y" in model.__doc__


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize(
    "search",
    [
        LRLRClassifierCV(LRLRClassifier(), ranks=[2]),
        LRRRClassifierCV(LRRRClassifier(), ranks=[2], betas=[1.0]),
        SLRRClassifierCV(SLRRClassifier(tol=1e-10), ranks=[2], betas=[0.5]),
    ],
    ids=["LRLR", "LRRR", "SLRR"],
)
def test_held_out_scores_are_those_of_refits(search, class_weight):
    X, y = load_wine(return_X_y=True)
    X, folds, seen = scale(X), StratifiedKFold(3), []

    def scorer(model, scores, labels):
        seen.append(model.decision_function(scores))
        return model.score(scores, labels)

    search.set_params(cv=folds, scoring=scorer, estimator__class_weight=class_weight).fit(X, y)
    for found, (train, test) in zip(seen, folds.split(X, y), strict=True):
        refit = clone(search.best_estimator_).fit(X[train], y[train])
        np.testing.assert_allclose(found, refit.decision_function(X[test]), atol=1e-6)
