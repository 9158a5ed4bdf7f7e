"""Estimators of scikit-learn, MAPIE, crepes and skore accept every classifier; sets agree."""

import numpy as np
import pytest
from crepes import ConformalClassifier
from damped_scores import probabilities_by_definition
from every_classifier import MODELS, every_estimator, every_model, make
from mapie.classification import CrossConformalClassifier, SplitConformalClassifier
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.semi_supervised import SelfTrainingClassifier


def samples(n_samples=240, n_classes=3, seed=0):
    return make_classification(
        n_samples,
        6,
        n_informative=4,
        n_classes=n_classes,
        n_clusters_per_class=1,
        flip_y=0.2,
        random_state=seed,
    )


class Given(ClassifierMixin, BaseEstimator):
    """Classifier whose input are the probabilities."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return self.classes_[X.argmax(axis=1)]


def held_out_probabilities(model, y):
    low_rank = type(model).__name__ in ("LRLRClassifier", "LRRRClassifier", "SLRRClassifier")
    shares = np.bincount(y) / len(y) if low_rank else 1.0  # which these models do not know
    scores = model.held_out_decision_function_
    return probabilities_by_definition(model, scores, shares=shares)


@every_model
@pytest.mark.parametrize("level", [0.7, 0.9])
def test_sets_are_those_of_conformal_libraries_from_held_out_probabilities(name, level):
    X, y = samples()
    model = make(name).fit(X[:100], y[:100])
    held_out, shares = held_out_probabilities(model, y[:100]), model.predict_proba(X[100:])
    ours = model.predict_set(X[100:], level, allow_empty=True)
    assert 0.5 < ours.sum(axis=1).mean() < 3
    scores = 1 - held_out[np.arange(100), y[:100]]
    crepes = ConformalClassifier().fit(scores)
    found = crepes.predict_set(1 - shares, confidence=level, smoothing=False)
    assert_array_equal(found, ours)
    mapie = SplitConformalClassifier(Given().fit(held_out, y[:100]), level, prefit=True)
    sets = mapie.conformalize(held_out, y[:100]).predict_set(shares)[1][:, :, 0]
    assert_array_equal(sets, ours)


@every_model
def test_class_conditional_sets_are_those_within_each_class(name):
    X, y = samples()
    model = make(name).fit(X[:100], y[:100])
    held_out, shares = held_out_probabilities(model, y[:100]), model.predict_proba(X[100:])
    ours = model.predict_set(X[100:], 0.8, class_conditional=True, allow_empty=True)
    for k in range(3):
        crepes = ConformalClassifier().fit(1 - held_out[y[:100] == k, k])
        values = crepes.predict_p(1 - shares[:, [k]], smoothing=False)[:, 0]
        assert_array_equal(values > 1 - 0.8, ours[:, k])


def test_sets_of_all_rows_are_smaller_than_of_a_split():
    """Half of the rows for calibration leaves half of them for the model."""
    sizes, covered = [], []
    for seed in range(6):
        X, y = samples(360, seed=seed)
        model = make("ReLSRClassifier").fit(X[:60], y[:60])
        half = make("ReLSRClassifier").fit(X[:30], y[:30])
        split = SplitConformalClassifier(half, 0.9, prefit=True).conformalize(X[30:60], y[30:60])
        both = model.predict_set(X[60:], allow_empty=True), split.predict_set(X[60:])[1][:, :, 0]
        sizes.append([sets.sum(axis=1).mean() for sets in both])
        covered.append([sets[np.arange(300), y[60:]].mean() for sets in both])
    ours, others = np.mean(sizes, axis=0)
    assert ours < others
    assert np.all(np.mean(covered, axis=0) > 0.86)


@every_estimator
def test_conformal_libraries_accept_every_classifier(name):
    X, y = samples()
    split = SplitConformalClassifier(make(name).fit(X[:80], y[:80]), 0.9, prefit=True)
    sets = split.conformalize(X[80:160], y[80:160]).predict_set(X[160:])[1]
    assert sets[np.arange(80), y[160:], 0].mean() > 0.8
    if name in MODELS:
        cross = CrossConformalClassifier(make(name), 0.9, cv=3)
        sets = cross.fit_conformalize(X[:120], y[:120]).predict_set(X[160:])[1]
        assert sets[np.arange(80), y[160:], 0].mean() > 0.8


@every_estimator
def test_reports_show_probabilities(name):
    skore = pytest.importorskip("skore")
    X, y = samples()
    data = {"X_train": X[:120], "y_train": y[:120], "X_test": X[120:], "y_test": y[120:]}
    report = skore.EstimatorReport(make(name), **data)
    fitted = make(name).fit(X[:120], y[:120])
    expected = log_loss(y[120:], fitted.predict_proba(X[120:]))
    assert_allclose(report.metrics.log_loss(), expected, rtol=1e-6)
    assert set(report.metrics.roc_auc()) == {0, 1, 2}


@every_estimator
def test_estimators_of_scikit_learn_accept_every_classifier(name):
    X, y = samples(90, n_classes=2)
    model = make(name)
    unlabelled = np.where(np.arange(90) % 3 == 0, -1, y)
    taught = SelfTrainingClassifier(clone(model)).fit(X, unlabelled)
    assert taught.predict_proba(X).shape == (90, 2)
    pair = [("one", clone(model)), ("two", LogisticRegression())]
    assert VotingClassifier(pair, voting="soft").fit(X, y).score(X, y) > 0.6
    if name in MODELS:
        assert StackingClassifier(pair, cv=3).fit(X, y).score(X, y) > 0.6
        tuned = TunedThresholdClassifierCV(clone(model), response_method="predict_proba", cv=3)
        assert tuned.fit(X, y).score(X, y) > 0.5
