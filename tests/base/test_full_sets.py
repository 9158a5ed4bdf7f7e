"""Full conformal prediction equals refits, and its sets contain the true class often enough."""

import numpy as np
import pytest
from damped_scores import probabilities_by_definition
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from discreg import DRMClassifier, LRLRClassifier, LRRRClassifier, LSRClassifier

MODELS = [
    LSRClassifier(kernel="rbf", gamma=0.2, beta=0.5, scale_beta=False),
    LSRClassifier(kernel="poly", gamma=0.2, beta=2.0, scale_beta=False, fit_intercept=False),
    LRRRClassifier(kernel="rbf", gamma=0.2, beta=0.3),
    LRRRClassifier(kernel="rbf", gamma=0.2, beta=0.3, rank=1),
    LRRRClassifier(kernel="poly", gamma=0.2, beta=0.3, rank=2, fit_intercept=False),
    DRMClassifier(gamma=0.2),
    DRMClassifier(kernel="linear", solver="closed", alpha=1.0, beta=2.0),
]


def data(n_classes=3):
    X, y = load_iris(return_X_y=True)
    X, y = scale(X)[::3], y[::3]
    X, y = X[y >= 3 - n_classes], y[y >= 3 - n_classes] - (3 - n_classes)
    rows = np.random.default_rng(1).permutation(len(y))
    X = X + 0.5 * np.random.default_rng(0).normal(size=X.shape)
    return X[rows[6:]], y[rows[6:]], X[rows[:6]]


def by_refits(model, X, y, weights, points, level, class_conditional):
    """Sets from fits to the training samples and a new one, with leave-one-out of each fit."""
    fitted = clone(model).fit(X, y, weights)
    factors = model.class_weight or {}
    importance = weights * np.array([factors.get(label, 1.0) for label in y.tolist()])
    sets = np.zeros((len(points), len(fitted.classes_)), dtype=bool)
    for i, x in enumerate(points):
        for k, label in enumerate(fitted.classes_.tolist()):
            larger = clone(model).fit(
                np.vstack([X, x]), np.append(y, label), np.append(weights, 1.0)
            )
            shares = probabilities_by_definition(fitted, larger.loo_decision_function_, importance)
            scores = 1 - shares[np.arange(len(y) + 1), np.append(y, label)]
            same = np.append(y, label) == label if class_conditional else np.full(len(y) + 1, True)
            given = np.append(importance, factors.get(label, 1.0)) * same
            smaller = given[:-1][scores[:-1] < scores[-1] - 1e-9].sum()
            sets[i, k] = smaller < level * given.sum() * (1 - 1e-12)
    return sets


@pytest.mark.parametrize("class_conditional", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_sets_are_those_of_refits(model, class_conditional):
    X, y, points = data()
    options = {"class_conditional": class_conditional, "allow_empty": True}
    fitted = clone(model).fit(X, y)
    sizes = []
    for level in (0.3, 0.6, 0.9):
        found = fitted.predict_set(points, level, method="full", **options)
        expected = by_refits(model, X, y, np.ones(len(y)), points, level, class_conditional)
        np.testing.assert_array_equal(found, expected)
        sizes.append(found.sum())
    assert sizes[0] <= sizes[1] <= sizes[2]
    assert sizes[1] > 0


@pytest.mark.parametrize("model", MODELS[::2], ids=str)
def test_sets_with_weights(model):
    X, y, points = data()
    weights = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.0], len(y))
    model = clone(model).set_params(class_weight={0: 2.0, 2: 0.5})
    fitted = clone(model).fit(X, y, weights)
    for level in (0.4, 0.8):
        found = fitted.predict_set(points, level, method="full", allow_empty=True)
        expected = by_refits(model, X, y, weights, points, level, class_conditional=False)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("model", [MODELS[0], MODELS[2], MODELS[5]], ids=str)
def test_two_classes_and_sparse_rows(model):
    X, y, points = data(n_classes=2)
    found = clone(model).fit(X, y).predict_set(points, 0.7, method="full", allow_empty=True)
    expected = by_refits(model, X, y, np.ones(len(y)), points, 0.7, class_conditional=False)
    np.testing.assert_array_equal(found, expected)
    in_rows = clone(model).fit(sparse.csr_array(X), y)
    in_rows = in_rows.predict_set(sparse.csr_array(points), 0.7, method="full", allow_empty=True)
    np.testing.assert_array_equal(in_rows, expected)


@pytest.mark.parametrize("model", [MODELS[0], MODELS[3], MODELS[5]], ids=str)
def test_sets_contain_the_true_class_often_enough(model):
    """Over 25 samples of 30 rows, with ten new rows each."""
    random, inside = np.random.default_rng(0), []
    for _ in range(25):
        X = random.normal(size=(40, 2))
        y = (X[:, 0] + random.normal(size=40) > 0).astype(int)
        y = np.where(random.random(40) < 0.2, 2, y)
        y[:6] = [0, 0, 1, 1, 2, 2]
        fitted = clone(model).fit(X[:30], y[:30])
        sets = fitted.predict_set(X[30:], 0.8, method="full", allow_empty=True)
        inside.extend(sets[np.arange(10), y[30:]])
    assert 0.75 < np.mean(inside) < 0.9
    filled = fitted.predict_set(X[30:], 0.3, method="full")
    sets = fitted.predict_set(X[30:], 0.3, method="full", allow_empty=True)
    assert filled.any(axis=1).all()
    assert not sets.any(axis=1).all()
    np.testing.assert_array_equal(filled[sets.any(axis=1)] >= sets[sets.any(axis=1)], True)


@pytest.mark.parametrize(
    "model",
    [
        LSRClassifier(),
        LSRClassifier(kernel="rbf", n_components=10, random_state=0),
        LSRClassifier(kernel="precomputed"),
        DRMClassifier(n_components=10, random_state=0),
        DRMClassifier(penalty="lasso", max_iter=1000),
        LRLRClassifier(kernel="rbf"),
    ],
    ids=str,
)
def test_models_without_training_samples_say_so(model):
    X, y, points = data()
    if model.kernel == "precomputed":
        X, points = X @ X.T, points @ X.T
    fitted = model.fit(X, y)
    assert fitted.predict_set(points).shape == (6, 3)
    with pytest.raises(ValueError, match="with an exact kernel of the rows, such as"):
        fitted.predict_set(points, method="full")
