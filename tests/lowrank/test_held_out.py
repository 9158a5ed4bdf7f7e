"""Held-out scores of the low-rank models at `fit`: they equal refits without a sample."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from discreg import LRLRClassifier, LRRRClassifier, SLRRClassifier
from discreg.linalg.kernel_approximation import hash_rows
from discreg.lowrank import _held_out_folds


def problem(name):
    if name == "two":
        X, y = load_iris(return_X_y=True)
        X, y = X[50:][::2], y[50:][::2]
    elif name == "wide":
        X, y = load_digits(n_class=4, return_X_y=True)
        return X[:50] / 16, y[:50]
    else:
        X, y = {"iris": load_iris, "wine": load_wine}[name](return_X_y=True)
        X, y = X[::3], y[::3]
    return scale(X), y


def columns(scores):
    return np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores


def refits(model, X, y, weights=None):
    """Scores of the samples, each from a fit without one unit of its weight."""
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    refit = clone(model).set_params(probability=False)
    scores = []
    for i in range(len(y)):
        left = weights.copy()
        left[i] -= min(weights[i], 1.0)
        rest = left > 0 if model.kernel == "linear" else slice(None)
        scores.append(refit.fit(X[rest], y[rest], left[rest]).decision_function(X[[i]])[0])
    return np.array(scores)


MODELS = [
    LRRRClassifier(beta=3.0),
    LRRRClassifier(beta=0.1, rank=1),
    LRRRClassifier(beta=1.0, rank=2, fit_intercept=False),
    LRLRClassifier(),
    LRLRClassifier(rank=1),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("name", ["iris", "wine", "two"])
def test_scores_are_those_of_refits(name, model):
    X, y = problem(name)
    if name == "two" and model.rank == 2:
        model = clone(model).set_params(rank=1)
    fitted = clone(model).fit(X, y)
    np.testing.assert_allclose(fitted.loo_decision_function_, refits(model, X, y), atol=1e-9)
    assert fitted.loo_is_exact_


@pytest.mark.parametrize("model", MODELS[:4], ids=str)
@pytest.mark.parametrize("class_weight", [None, {0: 3.0, 2: 0.5}])
def test_one_unit_of_the_weight_is_left_out(model, class_weight):
    X, y = problem("iris")
    weights = np.random.default_rng(0).choice([0.0, 0.4, 1.0, 2.0, 3.5], len(y))
    model = clone(model).set_params(class_weight=class_weight)
    expected = refits(model, X, y, weights)
    found = clone(model).fit(X, y, weights)
    np.testing.assert_allclose(found.loo_decision_function_, expected, atol=1e-9)
    in_rows = clone(model).fit(sparse.csr_array(X), y, weights)
    np.testing.assert_allclose(in_rows.loo_decision_function_, expected, atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed"])
@pytest.mark.parametrize("rank", [None, 1])
def test_kernels(kernel, rank):
    X, y = problem("iris")
    X = rbf_kernel(X, gamma=0.1) if kernel == "precomputed" else X
    model = LRRRClassifier(beta=0.1, rank=rank, kernel=kernel, gamma=0.1)
    found = clone(model).fit(X, y).loo_decision_function_
    np.testing.assert_allclose(found, refits(model, X, y), atol=1e-9)


@pytest.mark.parametrize("rank", [None, 2])
def test_more_features_than_samples(rank):
    X, y = problem("wide")
    model = LRRRClassifier(beta=1.0, rank=rank)
    found = clone(model).fit(X, y).loo_decision_function_
    np.testing.assert_allclose(found, refits(model, X, y), atol=1e-9)
    single = clone(model).fit(X.astype(np.float32), y).loo_decision_function_
    np.testing.assert_allclose(single, found, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "params",
    [{}, {"rank": 2}, {"rank": 1, "fit_intercept": False}, {"class_weight": {0: 3.0, 2: 0.5}}],
    ids=str,
)
def test_without_a_penalty_refits_have_least_norm(params, weighted):
    X, y = problem("wide")
    random = np.random.default_rng(0)
    X = X[:30] + random.normal(size=(30, 64)) / 4  # linearly independent: there are no residuals
    y, weights = y[:30], random.choice([0.0, 0.5, 1.0, 2.0], 30) if weighted else None
    model = LRLRClassifier(**params)
    fitted = clone(model).fit(X, y, weights)
    expected = refits(model, X, y, weights)
    np.testing.assert_allclose(fitted.loo_decision_function_, expected, atol=1e-9)
    assert fitted.loo_is_exact_
    assert fitted.inverse_temperature_ != 1.0


@pytest.mark.parametrize("rank", [None, 1])
def test_a_feature_of_one_sample_only(rank):
    X, y = problem("iris")
    X = np.column_stack([X, np.arange(len(y)) == 7])
    model = LRLRClassifier(rank=rank)
    found = clone(model).fit(X, y).loo_decision_function_
    np.testing.assert_allclose(found, refits(model, X, y), atol=1e-9)


@pytest.mark.parametrize("gamma", [0.02, 0.03, 0.04, 0.05])
def test_a_kernel_that_fits_all_samples(gamma):
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    model = LRLRClassifier(kernel="rbf", gamma=gamma)
    fitted = clone(model).fit(X, y)
    assert fitted.score(X, y) == 1
    for i in range(0, 178, 30):
        rest = np.arange(178) != i
        expected = clone(model).fit(X[rest], y[rest]).decision_function(X[[i]])[0]
        np.testing.assert_allclose(fitted.loo_decision_function_[i], expected, atol=1e-8)


def test_a_kernel_without_a_penalty():
    X, y = problem("iris")
    X, first = np.unique(X, axis=0, return_index=True)
    y = y[first]
    model = LRLRClassifier(kernel="rbf", gamma=10.0)
    found = clone(model).fit(X, y).loo_decision_function_
    np.testing.assert_allclose(found, refits(model, X, y), atol=1e-7)


@pytest.mark.parametrize("model", [LRRRClassifier(beta=1.0), LRLRClassifier(rank=1)], ids=str)
@pytest.mark.parametrize("params", [{}, {"kernel": "rbf", "gamma": 0.1, "n_components": 20}])
def test_blocks_and_parts_have_the_same_calibration(model, params, tmp_path):
    X, y = problem("wine")
    weights = np.random.default_rng(0).choice([0.0, 0.4, 1.0, 2.0], len(y))
    model = clone(model).set_params(**params, random_state=0)
    expected = clone(model).fit(X, y, weights)
    np.save(tmp_path / "X.npy", X)
    mapped = clone(model).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y, weights)
    parts, other = clone(model), clone(model)
    if not params:
        other.partial_fit(X[40:], y[40:], sample_weight=weights[40:], classes=np.unique(y))
        parts.partial_fit(X[:40], y[:40], sample_weight=weights[:40], classes=np.unique(y))
        parts.merge(other)
    else:  # the components are those of the first rows
        parts.partial_fit(X, y, sample_weight=weights, classes=np.unique(y))
    for found in (mapped, parts):
        assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_, rel=1e-6)
        assert found.loo_is_exact_
        np.testing.assert_array_equal(found.predict_set(X), expected.predict_set(X))


def test_of_many_rows_some_are_held_out():
    random = np.random.default_rng(0)
    X = random.normal(size=(2300, 3))
    y = (X @ [1.0, 2.0, 0.5] + random.normal(size=2300) > 0).astype(int) + (X[:, 0] > 1)
    model = LRRRClassifier(rank=1).fit(X, y)
    assert not hasattr(model, "loo_decision_function_")
    uninformed = np.log(3)
    assert 0 < -np.mean(model.predict_log_proba(X)[np.arange(2300), y]) < uninformed


def test_the_path_of_ranks_does_not_calibrate():
    X, y = problem("wine")
    assert not hasattr(LRRRClassifier().rank_path(X, y)._estimator, "inverse_temperature_")


def without_folds(model, X, y, weights):
    """Scores of SLRR for each of five folds of the distinct rows of each class, by refits."""
    hashes = hash_rows(X, 0)
    keys = sorted(set(zip(y.tolist(), hashes.tolist(), strict=True)))
    numbers = np.array([keys.index((k, h)) for k, h in zip(y.tolist(), hashes, strict=True)]) % 5
    scores = np.empty((len(y), len(set(y))))
    for number in range(5):
        test = numbers == number
        refit = clone(model).set_params(probability=False)
        refit.fit(X[~test], y[~test], weights[~test])
        scores[test] = columns(refit.decision_function(X[test]))
    return scores


@pytest.mark.parametrize("name", ["iris", "wine", "two", "wide"])
@pytest.mark.parametrize("params", [{}, {"fit_intercept": False, "class_weight": {2: 3.0}}])
def test_slrr_holds_out_five_folds(name, params):
    X, y = problem(name)
    random = np.random.default_rng(0)
    X, y = (np.concatenate([each, each[:5]]) for each in (X, y))  # equal rows share a fold
    weights = random.choice([0.4, 1.0, 2.0, 3.5], len(y))
    model = SLRRClassifier(beta=0.3, tol=1e-10, max_iter=5000).set_params(**params)
    fitted = clone(model).fit(X, y, weights)
    found = fitted.loo_decision_function_
    expected = without_folds(model, X, y, weights)
    expected = expected[:, 1] - expected[:, 0] if found.ndim == 1 else expected
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert not fitted.loo_is_exact_
    order = random.permutation(len(y))
    shuffled = clone(model).fit(X[order], y[order], weights[order])
    np.testing.assert_allclose(shuffled.loo_decision_function_, found[order], atol=1e-5)
    in_rows = clone(model).fit(sparse.csr_array(X), y, weights)
    np.testing.assert_allclose(in_rows.loo_decision_function_, found, atol=1e-5)


def test_slrr_at_a_lower_rank():
    X, y = problem("iris")
    model = SLRRClassifier(rank=1, beta=0.5, tol=1e-11)
    found = clone(model).fit(X, y).loo_decision_function_
    expected = without_folds(model, X, y, np.ones(len(y)))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_row_that_is_its_class_stays():
    X, y = problem("iris")
    X, y = X[y < 2], y[y < 2]
    X, y = np.concatenate([X, X[-2:] + 3]), np.concatenate([y, [2, 2]])
    assert len(SLRRClassifier(beta=0.1).fit(X, y)._calibrated.y) == len(y)
    X[-2] = X[-1]
    assert len(SLRRClassifier(beta=0.1).fit(X, y)._calibrated.y) == len(y) - 2


@pytest.mark.parametrize("params", [{"fit_intercept": True}, {"fit_intercept": False}, {"beta": 0}])
def test_of_many_rows_folds_are_subtracted_from_the_moments(params, monkeypatch, tmp_path):
    X, y = problem("wine")
    X = np.column_stack([X, 1.7 + 2.3 * (np.arange(len(y)) == 7)])  # constant without one row
    weights = np.random.default_rng(0).choice([0.0, 0.4, 1.0, 2.0], len(y))
    weights[7] = 3.3
    model = SLRRClassifier(beta=0.2, tol=1e-12).set_params(**params)
    expected = clone(model).fit(X, y, weights)
    np.save(tmp_path / "X.npy", X)
    blocks = clone(model).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y, weights)
    monkeypatch.setattr(_held_out_folds, "MOST_ROWS", 10)
    many = clone(model).fit(X, y, weights)
    in_rows = clone(model).fit(sparse.csr_array(X), y, weights)
    for found in (blocks, many, in_rows):
        assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_, rel=1e-6)
        np.testing.assert_array_equal(found.predict_set(X), expected.predict_set(X))
    for found in (many, in_rows):
        found, wanted = found.loo_decision_function_, expected.loo_decision_function_
        np.testing.assert_allclose(found, wanted, atol=1e-6)
