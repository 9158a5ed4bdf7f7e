"""Held-out scores of the low-rank models at `fit`: they equal refits without a row or a fold."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from discreg import LRLRClassifier, LRRRClassifier, SLRRClassifier
from discreg.linalg.rows import hash_rows


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
    """Scores of the samples, each from a fit without the rows of its class that are equal to it."""
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    refit = clone(model).set_params(probability=False)
    scores = []
    for i in range(len(y)):
        equal = np.all(X[i] == X, axis=1) & (y == y[i])
        left = np.where(equal & (weights[i] > 0), 0.0, weights)
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
    np.testing.assert_allclose(fitted.held_out_decision_function_, refits(model, X, y), atol=1e-9)
    assert fitted.held_out_by_ == "one row at a time"


@pytest.mark.parametrize("model", MODELS[:4], ids=str)
@pytest.mark.parametrize("class_weight", [None, {0: 3.0, 2: 0.5}])
def test_rows_leave_with_their_copies_and_all_of_their_weight(model, class_weight):
    X, y = problem("iris")
    X, y = (np.concatenate([each, each[:9]]) for each in (X, y))
    weights = np.random.default_rng(0).choice([0.0, 0.4, 1.0, 2.0, 30.0], len(y))
    model = clone(model).set_params(class_weight=class_weight)
    expected = refits(model, X, y, weights)
    found = clone(model).fit(X, y, weights)
    np.testing.assert_allclose(found.held_out_decision_function_, expected, atol=1e-9)
    in_rows = clone(model).fit(sparse.csr_array(X), y, weights)
    np.testing.assert_allclose(in_rows.held_out_decision_function_, expected, atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed"])
@pytest.mark.parametrize("rank", [None, 1])
def test_kernels(kernel, rank):
    X, y = problem("iris")
    X = rbf_kernel(X, gamma=0.1) if kernel == "precomputed" else X
    model = LRRRClassifier(beta=0.1, rank=rank, kernel=kernel, gamma=0.1)
    found = clone(model).fit(X, y).held_out_decision_function_
    np.testing.assert_allclose(found, refits(model, X, y), atol=1e-9)


@pytest.mark.parametrize("rank", [None, 2])
def test_more_features_than_samples(rank):
    X, y = problem("wide")
    model = LRRRClassifier(beta=1.0, rank=rank)
    found = clone(model).fit(X, y).held_out_decision_function_
    np.testing.assert_allclose(found, refits(model, X, y), atol=1e-9)
    single = clone(model).fit(X.astype(np.float32), y).held_out_decision_function_
    np.testing.assert_allclose(single, found, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The held-out scores of LRLR.* are worse than chance")
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
    np.testing.assert_allclose(fitted.held_out_decision_function_, expected, atol=1e-9)
    assert fitted.held_out_by_ == "one row at a time"
    assert fitted.inverse_temperature_ != 1.0


@pytest.mark.parametrize("rank", [None, 1])
def test_a_feature_of_one_sample_only(rank):
    X, y = problem("iris")
    X = np.column_stack([X, np.arange(len(y)) == 7])
    model = LRLRClassifier(rank=rank)
    found = clone(model).fit(X, y).held_out_decision_function_
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
        np.testing.assert_allclose(fitted.held_out_decision_function_[i], expected, atol=1e-8)


def test_a_kernel_without_a_penalty():
    X, y = problem("iris")
    X, first = np.unique(X, axis=0, return_index=True)
    y = y[first]
    model = LRLRClassifier(kernel="rbf", gamma=10.0)
    found = clone(model).fit(X, y).held_out_decision_function_
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
        assert found.held_out_by_ == "one row at a time"
        np.testing.assert_array_equal(found.predict_set(X), expected.predict_set(X))


def test_of_many_rows_some_are_held_out():
    random = np.random.default_rng(0)
    X = random.normal(size=(2300, 3))
    y = (X @ [1.0, 2.0, 0.5] + random.normal(size=2300) > 0).astype(int) + (X[:, 0] > 1)
    model = LRRRClassifier(rank=1).fit(X, y)
    assert not hasattr(model, "held_out_decision_function_")
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
    found = fitted.held_out_decision_function_
    expected = without_folds(model, X, y, weights)
    expected = expected[:, 1] - expected[:, 0] if found.ndim == 1 else expected
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert fitted.held_out_by_ == "5 folds"
    order = random.permutation(len(y))
    shuffled = clone(model).fit(X[order], y[order], weights[order])
    np.testing.assert_allclose(shuffled.held_out_decision_function_, found[order], atol=1e-5)
    in_rows = clone(model).fit(sparse.csr_array(X), y, weights)
    np.testing.assert_allclose(in_rows.held_out_decision_function_, found, atol=1e-5)


def test_slrr_at_a_lower_rank():
    X, y = problem("iris")
    model = SLRRClassifier(rank=1, beta=0.5, tol=1e-11)
    found = clone(model).fit(X, y).held_out_decision_function_
    expected = without_folds(model, X, y, np.ones(len(y)))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_row_that_is_its_class_stays():
    X, y = problem("iris")
    X, y = X[y < 2], y[y < 2]
    X, y = np.concatenate([X, X[-2:] + 3]), np.concatenate([y, [2, 2]])
    assert len(SLRRClassifier(beta=0.1).fit(X, y)._calibrated.y) == len(y)
    X[-2] = X[-1]
    with pytest.warns(UserWarning, match="Class 2 has only one distinct row"):
        fitted = SLRRClassifier(beta=0.1).fit(X, y)
    assert len(fitted._calibrated.y) == len(y) - 2


@pytest.mark.parametrize("rank", [None, 1])
def test_an_ill_conditioned_kernel_without_a_penalty_takes_folds(rank):
    """Rounding errors of leave-one-out would be larger than the scores."""
    X, y = load_iris(return_X_y=True)
    fitted = LRLRClassifier(kernel="rbf", rank=rank).fit(X, y)
    assert fitted.held_out_by_ == "5 folds"
    assert np.isfinite(fitted.predict_proba(X)).all()


@pytest.mark.parametrize("noise", [1e-5, 1e-7])
def test_scores_are_those_of_refits_or_unknown(noise):
    """Nearly equal features of few rows: the closed form judges only what it determines."""
    X, y = problem("iris")
    random = np.random.default_rng(0)
    X = np.hstack([X, X[:, :1] + noise * random.normal(size=(len(y), 60))])
    model = LRLRClassifier(rank=1)
    fitted = clone(model).fit(X, y)
    if fitted.held_out_by_ == "one row at a time":
        found = fitted.held_out_decision_function_
        np.testing.assert_allclose(found, refits(model, X, y), atol=1e-4)
    else:
        assert fitted.held_out_by_ == "5 folds"


THREE = [LRLRClassifier(), LRRRClassifier(), SLRRClassifier(beta=0.1)]


@pytest.mark.parametrize("model", THREE, ids=["LRLR", "LRRR", "SLRR"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_the_mean_probability_of_a_rare_class_is_its_share(model, class_weight):
    random = np.random.default_rng(0)
    y = (random.random(4000) < 0.05).astype(int)
    X = random.normal(size=(4000, 5)) + y[:, None]
    model = clone(model).set_params(class_weight=class_weight).fit(X[:1500], y[:1500])
    assert model.predict_proba(X[1500:])[:, 1].mean() == pytest.approx(0.05, abs=0.03)
    assert model.class_offsets_[1] < model.class_offsets_[0]


@pytest.mark.parametrize("model", THREE, ids=["LRLR", "LRRR", "SLRR"])
def test_weights_are_repeated_rows_in_probabilities(model):
    X, y = problem("iris")
    copies = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = clone(model).fit(X, y, copies)
    repeated = clone(model).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(
        weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-5, atol=1e-7
    )
    assert weighted.held_out_by_ == repeated.held_out_by_


def test_the_scale_of_weights_does_not_matter_without_a_penalty():
    X, y = problem("wine")
    once, often = LRLRClassifier().fit(X, y), LRLRClassifier().fit(X, y, np.full(len(y), 10.0))
    found, expected = (each.held_out_decision_function_ for each in (often, once))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(often.predict_proba(X), once.predict_proba(X), atol=1e-9)


def test_slrr_in_blocks_holds_out_a_part():
    da = pytest.importorskip("dask.array")
    X, y = load_digits(n_class=3, return_X_y=True)
    X = scale(X)
    blocks = SLRRClassifier().fit(da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100))
    assert blocks.held_out_by_ == f"{len(y) // 5} rows"
    in_memory = SLRRClassifier(probability=False).fit(X, y)
    np.testing.assert_allclose(blocks.coef_, in_memory.coef_, atol=1e-3)
    assert -np.mean(blocks.predict_log_proba(X)[np.arange(len(y)), y]) < 0.05


def test_folds_of_slrr_start_from_the_solution(monkeypatch):
    X, y = problem("wine")
    starts, solve = [], SLRRClassifier._solve

    def recorded(self, problem, prepared, start, **params):
        starts.append(start)
        return solve(self, problem, prepared, start, **params)

    monkeypatch.setattr(SLRRClassifier, "_solve", recorded)
    SLRRClassifier().fit(X, y)
    assert starts[0] is None
    assert len(starts) == 6
    assert all(start is starts[1] is not None for start in starts[1:])
