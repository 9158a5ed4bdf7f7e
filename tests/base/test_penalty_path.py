"""Errors of folds from moments equal those of refits, wherever the rows are."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import scale
from stream_problems import blocks_of, mapped

from discreg import LRRRClassifier, LSRClassifier, ReLSRClassifier
from discreg.base.penalty_path import penalty_path
from discreg.blocks.source import ArrayBlocks

BETAS = (100.0, 1.0, 0.01)
CV = 4
MODELS = [
    LSRClassifier(),
    LSRClassifier(fit_intercept=False, scale_beta=False),
    LRRRClassifier(),
    LRRRClassifier(rank=1),
]


def shuffled(load):
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return scale(X[order]), y[order]


def error_of_refit(model, X, y, weights, train, test):
    """Weighted mean square of scores minus targets, from a fit to the other folds."""
    fitted = clone(model).fit(X[train], y[train], weights[train])
    scores = fitted.decision_function(X[test]).reshape(test.sum(), -1)
    sizes = np.bincount(y[train], weights[train])
    targets = np.eye(len(sizes))
    if isinstance(model, LRRRClassifier):
        targets = targets / np.sqrt(sizes) - np.sqrt(sizes) / sizes.sum()
        targets *= np.sqrt(sizes.sum() / len(sizes))
    targets = targets[y[test]]
    if scores.shape[1] == 1:
        targets = targets[:, 1:] - targets[:, :1]
    return np.average(np.sum((scores - targets) ** 2, axis=1), weights=weights[test])


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
@pytest.mark.parametrize("weighted", [False, True])
def test_errors_are_those_of_refits(model, load, weighted):
    X, y = shuffled(load)
    weights = np.random.default_rng(1).integers(1, 4, len(y)) + 0.0 if weighted else np.ones(len(y))
    path = penalty_path(model, X, y, BETAS, cv=CV, sample_weight=weights)
    folds = np.arange(len(y)) % CV
    expected = [
        [
            error_of_refit(clone(model).set_params(beta=b), X, y, weights, folds != k, folds == k)
            for k in range(CV)
        ]
        for b in BETAS
    ]
    assert_allclose(path.errors, expected, rtol=1e-9)
    best = BETAS[np.mean(expected, axis=1).argmin()]
    assert path.best_beta == best
    full = clone(model).set_params(beta=best).fit(X, y, weights)
    assert_allclose(path.best_estimator.decision_function(X), full.decision_function(X), atol=1e-9)


def test_rows_anywhere_in_one_pass(tmp_path, monkeypatch):
    X, y = shuffled(load_iris)
    expected = penalty_path(LSRClassifier(), X, y, BETAS)
    lazy = da.from_array(X, chunks=(37, 4))
    forms = [(sparse.csr_array(X), y), (lazy, y), (lazy, da.from_array(y, chunks=50))]
    for rows, labels in forms:
        assert_allclose(penalty_path(LSRClassifier(), rows, labels, BETAS).errors, expected.errors)
    passes = []
    fold = ArrayBlocks.reduce
    monkeypatch.setattr(ArrayBlocks, "reduce", lambda *args: passes.append(args) or fold(*args))
    with blocks_of(11, X):
        found = penalty_path(LSRClassifier(), mapped(X, tmp_path), y, BETAS)
    assert_allclose(found.errors, expected.errors)
    assert len(passes) == 1


def test_balanced_classes_keep_their_weights_in_the_folds():
    X, y = shuffled(load_breast_cancer)
    sizes = np.bincount(y)
    given = dict(enumerate(len(y) / (2 * sizes)))
    one, other = (
        penalty_path(LSRClassifier(class_weight=each), X, y, BETAS) for each in ("balanced", given)
    )
    assert_allclose(one.errors, other.errors)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (ReLSRClassifier(), {}, "linear LSRClassifier and LRRRClassifier"),
        (LSRClassifier(kernel="rbf"), {}, "linear LSRClassifier and LRRRClassifier"),
        (LSRClassifier(), {"cv": 1}, "cv must be a whole number of folds, at least 2, got 1"),
        (LSRClassifier(), {"betas": (-1.0,)}, "beta"),
        (LSRClassifier(), {"betas": ()}, "betas must be a list of numbers"),
    ],
)
def test_bad_input(model, options, message):
    X, y = shuffled(load_iris)
    with pytest.raises(ValueError, match=message):
        penalty_path(model, X, y, **({"betas": BETAS} | options))


def test_a_fold_without_weight_is_refused():
    X, y = load_iris(return_X_y=True)
    weights = (np.arange(150) % 7 != 3).astype(float)
    for options in ({"cv": 151}, {"cv": 7, "sample_weight": weights}):
        with pytest.raises(ValueError, match=r"Fold \d+ of \d+ has no row of positive weight"):
            penalty_path(LSRClassifier(), X, y, [1.0], **options)


def test_a_class_in_one_fold_is_refused():
    X, y = shuffled(load_iris)
    y = np.where(np.arange(len(y)) % 5 == 0, 1, 0)
    with pytest.raises(ValueError, match="All rows of a class are in one of the 5 folds"):
        penalty_path(LSRClassifier(), X, y, BETAS)


@pytest.mark.parametrize("model", MODELS[::2], ids=repr)
def test_the_best_model_has_the_probabilities_of_a_fit(model):
    X, y = shuffled(load_iris)
    found = penalty_path(clone(model), X, y, BETAS, cv=CV)
    fitted = clone(model).set_params(beta=found.best_beta).fit(X, y)
    assert_allclose(found.best_estimator.predict_proba(X), fitted.predict_proba(X), atol=1e-7)
