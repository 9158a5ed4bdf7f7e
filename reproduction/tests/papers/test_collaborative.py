"""Collaborative representation is its closed formula."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import Ridge
from sklearn.preprocessing import scale

from discreg_reproduction.papers._collaborative import CollaborativeClassifier


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("beta", [1e-3, 1.0])
def test_predictions_are_those_of_ridge_regression_on_the_samples(beta):
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    X_train, y_train, X_test = X[::2], y[::2], X[1::2]
    expected = []
    for query in unit(X_test):
        weights = Ridge(alpha=beta, fit_intercept=False).fit(unit(X_train).T, query).coef_
        residuals = []
        for k in np.unique(y_train):
            share = weights[y_train == k] @ unit(X_train)[y_train == k]
            residuals.append(np.linalg.norm(query - share) / np.linalg.norm(weights[y_train == k]))
        expected.append(np.argmin(residuals))
    predicted = CollaborativeClassifier(beta=beta).fit(X_train, y_train).predict(X_test)
    np.testing.assert_array_equal(predicted, expected)


def test_the_length_of_a_sample_does_not_matter():
    chance = np.random.default_rng(0)
    X, y = chance.normal(size=(30, 5)), np.array(["a", "b", "c"])[np.arange(30) % 3]
    lengths = chance.uniform(0.1, 10, size=(30, 1))
    queries = chance.normal(size=(20, 5))
    plain = CollaborativeClassifier().fit(X, y).predict(queries)
    scaled = CollaborativeClassifier().fit(lengths * X, y).predict(3 * queries)
    np.testing.assert_array_equal(plain, scaled)


def test_a_sample_of_zeros_gets_some_class():
    X, y = np.eye(3), np.array([0, 1, 2])
    assert CollaborativeClassifier().fit(X, y).predict(np.zeros((1, 3)))[0] in y
