"""Linear ODM on rows in blocks: the optimum of the rows in memory, certified, in few passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from discreg import LDMClassifier, ODMClassifier
from discreg.blocks.source import ArrayBlocks
from discreg.margin._losses import MarginLoss

SMALL_MEMORY = 4096 / (1 << 20)  # megabytes: blocks of 4 kB
OF_SAMPLES = ("support_", "n_support_", "dual_coef_", "support_vectors_")


class CountedSource(ArrayBlocks):
    """A source that knows how often it was read."""

    passes = 0

    def reduce(self, statistic: Any, *args: Any) -> Any:
        self.passes += 1
        return super().reduce(statistic, *args)


def rows(n_classes: int, n: int = 300, noise: float = 0.7) -> tuple[Any, Any]:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 5)) * [1, 2, 1, 0.5, 3]
    X[:, 3] += 0.5 * X[:, 0]
    scores = X[:, 0] - 0.5 * X[:, 1] + noise * rng.normal(size=n)
    return X, np.digitize(scores, [0.4] if n_classes == 2 else [-0.5, 1.0])


def linear(**params: Any) -> ODMClassifier:
    return ODMClassifier(**{"kernel": "linear", "tol": 1e-12, "probability": False, **params})


def fit_blocks(
    model: ODMClassifier, X: Any, y: Any, weights: Any = None, block_bytes: int = 4096
) -> tuple[ODMClassifier, int]:
    """Fit to blocks of any kind, and how often the rows were read."""
    source = CountedSource(X, y, weights, model.class_weight, block_bytes=block_bytes)
    model._fit_source(source)
    return model, source.passes


def mapped(X: Any, folder: Any) -> Any:
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def assert_same(one: ODMClassifier, other: ODMClassifier, tolerance: float) -> None:
    close = {"rtol": tolerance, "atol": tolerance}
    assert_allclose(one.coef_, other.coef_, **close)
    assert_allclose(one.intercept_, other.intercept_, **close)
    assert_allclose(one.objective_, other.objective_, **close)
    assert_allclose(np.array(one.margins_), np.array(other.margins_), **close)
    assert np.array_equal(one.classes_, other.classes_)


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_blocks_have_the_optimum_of_all_rows(
    n_classes: int, weighted: bool, fit_intercept: bool, sparse_rows: bool
) -> None:
    X, y = rows(n_classes)
    weights = None
    if weighted:
        weights = np.random.default_rng(0).uniform(0, 3, len(y))
        weights[::5] = 0.0
        X[::5] *= 100  # what weighs nothing has no margin either
    if sparse_rows:
        X = sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    params = {"fit_intercept": fit_intercept, "class_weight": "balanced" if weighted else None}
    whole = linear(**params).fit(X, y, weights)
    blocks, _ = fit_blocks(linear(**params), X, y, weights)
    assert_same(blocks, whole, 1e-9)
    assert blocks.gap_ <= 1e-12


def test_weights_of_the_classes_count_among_the_samples() -> None:
    X, y = rows(3)
    params = {"class_weight": {0: 0.5, 1: 4.0, 2: 3.0}}
    blocks, _ = fit_blocks(linear(**params), X, y)
    assert_same(blocks, linear(**params).fit(X, y), 1e-9)


@pytest.mark.parametrize("block_bytes", [40, 1000, 1 << 20])
def test_size_of_the_blocks_does_not_matter(block_bytes: int) -> None:
    X, y = rows(3)
    blocks, _ = fit_blocks(linear(), X, y, block_bytes=block_bytes)
    assert_same(blocks, linear().fit(X, y), 1e-9)


def test_entries_of_sparse_rows_given_twice_add_up() -> None:
    X, y = rows(2)
    once = sparse.csr_array(X)
    indptr = 2 * once.indptr
    halves = np.repeat(once.data / 2, 2), np.repeat(once.indices, 2), indptr
    twice = sparse.csr_array(halves, shape=X.shape)
    blocks, n_passes = fit_blocks(linear(), twice, y, block_bytes=1 << 20)
    expected, n_expected = fit_blocks(linear(), once, y, block_bytes=1 << 20)
    assert_same(blocks, expected, 1e-9)
    assert n_passes == n_expected


@pytest.mark.parametrize("n_classes", [2, 3])
def test_single_precision_is_enough_for_its_rows(n_classes: int) -> None:
    X, y = rows(n_classes)
    X = X.astype(np.float32)
    blocks, _ = fit_blocks(linear(), X, y)
    assert blocks.coef_.dtype == blocks.intercept_.dtype == np.float32
    assert_same(blocks, linear().fit(X, y), 1e-4)
    # Gradients are in double precision: what is certified is the optimum itself.
    assert blocks.gap_ <= 1e-12


def test_collinear_rows_in_single_precision_reach_the_optimum() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    X = np.hstack([X, X + 1e-4 * rng.normal(size=X.shape)]).astype(np.float32)
    # Products of rows in single precision alone do not tell where the minimum is.
    source = CountedSource(X, y, None, None, block_bytes=4096)
    blocks = linear(C1=1e10, C2=1e10)
    blocks._fit_source(source, np.float64)  # the type of the coefficients
    assert blocks.gap_ <= 1e-12
    assert source.passes <= 15
    whole = linear(C1=1e10, C2=1e10).fit(X.astype(np.float64), y)
    assert_allclose(blocks.objective_, whole.objective_, rtol=1e-11)


def test_rows_far_from_the_origin_lose_no_digits() -> None:
    X, y = rows(2)
    far = X + 1e6
    near = far - 1e6  # what the rounding of the sum has left
    blocks, _ = fit_blocks(linear(), far, y)
    whole = linear().fit(near, y)
    assert_allclose(blocks.coef_, whole.coef_, rtol=1e-9, atol=1e-9)
    assert_allclose(blocks.objective_, whole.objective_, rtol=1e-12)
    assert_allclose(np.array(blocks.margins_), np.array(whole.margins_), rtol=1e-9)
    assert_allclose(blocks.intercept_, whole.intercept_ - 1e6 * whole.coef_.sum(), rtol=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("max_iter", [1, 2, 3])
@pytest.mark.parametrize("costs", [(1000.0, 100.0), (0.01, 1e4), (1e5, 1.0)])
def test_gap_bounds_the_distance_from_the_optimum(
    costs: tuple[float, float], max_iter: int, fit_intercept: bool
) -> None:
    X, y = rows(2)
    X = np.exp(X)
    params = {"C1": costs[0], "C2": costs[1], "fit_intercept": fit_intercept, "tol": 0}
    best = linear(**params).fit(X, y)
    stopped, _ = fit_blocks(linear(max_iter=max_iter, **params), X, y)
    assert stopped.n_iter_ <= max_iter
    excess = 1 - best.objective_ / stopped.objective_
    assert -1e-14 <= excess <= stopped.gap_ + 1e-14
    assert stopped.gap_ <= 1


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_gap_is_that_of_the_best_scaled_multipliers(fit_intercept: bool) -> None:
    X, y = rows(2)
    model, _ = fit_blocks(linear(max_iter=2, tol=0, fit_intercept=fit_intercept), X, y)
    signs = 2.0 * y - 1
    losses = MarginLoss.odm(1000.0, 100.0, 0.2).of_samples(np.ones(len(y)))
    multipliers = losses.multipliers(signs * model.decision_function(X))
    if fit_intercept:  # as large on both sides
        for side in (signs * multipliers > 0, signs * multipliers < 0):
            multipliers[side] /= np.abs(multipliers[side]).sum()
        assert abs(signs @ multipliers) < 1e-12

    at_one = np.ones(len(y))

    def negative_dual(t: float) -> float:
        pulled = X.T @ (signs * t * multipliers)
        conjugate = losses.gaps(t * multipliers, at_one) - t * multipliers  # ℓ(1) is zero
        return float(0.5 * pulled @ pulled + conjugate.sum())

    dual = -minimize_scalar(negative_dual, options={"xtol": 1e-12}).fun
    assert model.gap_ > 1e-9
    assert_allclose(model.gap_, 1 - dual / model.objective_, rtol=1e-5)


def test_few_passes_lead_to_a_small_gap() -> None:
    X, y = rows(3, n=3000, noise=4.0)
    model, n_passes = fit_blocks(linear(tol=1e-4), X, y, block_bytes=1 << 16)
    assert model.gap_ <= 1e-4
    # One for the moments, one at zero, then one per step for all classes together.
    assert n_passes == 2 + model.n_iter_ <= 20


def test_steps_that_would_overshoot_are_shortened() -> None:
    # Margins above the band cost a million times more than those below: the model of the first
    # step, at margins of zero, does not know of them.
    X, y = rows(2)
    params = {"C1": 0.1, "C2": 1e5, "D": 0.0, "tol": 1e-10}
    model, n_passes = fit_blocks(linear(**params), np.exp(X), y)
    assert 2 + model.n_iter_ < n_passes <= 60
    assert model.gap_ <= 1e-10
    assert_same(model, linear(**params).fit(np.exp(X), y), 1e-5)


def test_memory_map_of_many_blocks_is_streamed(tmp_path: Any) -> None:
    X, y = rows(3)
    whole = linear().fit(X, y)
    with config_context(working_memory=SMALL_MEMORY):
        blocks = linear().fit(mapped(X, tmp_path), y)
    assert_same(blocks, whole, 1e-9)
    assert blocks.solver_ == "newton"
    assert blocks.n_features_in_ == X.shape[1]
    assert not any(hasattr(blocks, name) for name in OF_SAMPLES)
    assert_allclose(blocks.decision_function(X), whole.decision_function(X), atol=1e-9)
    assert np.array_equal(blocks.predict(X), whole.predict(X))


def test_gap_includes_the_rounding_of_coefficients_stored_in_single_precision(
    tmp_path: Any,
) -> None:
    X, y = rows(2)
    X = (X + 100.0).astype(np.float32)
    with config_context(working_memory=SMALL_MEMORY):
        model = linear(tol=0).fit(mapped(X, tmp_path), y)
    exact = linear(tol=0).fit(X.astype(np.float64), y)
    coef, wide = model.coef_[0].astype(np.float64), X.astype(np.float64)
    margins = np.where(y == model.classes_[1], 1, -1) * (wide @ coef + float(model.intercept_[0]))
    short = np.maximum(1 - model.D - margins, 0)
    beyond = np.maximum(margins - 1 - model.D, 0)
    losses = np.mean(model.C1 * short**2 + model.C2 * beyond**2)
    objective = 0.5 * coef @ coef + losses
    gap = (objective - exact.objective_) / objective
    assert 1e-14 < gap <= model.gap_ <= 20 * gap


def test_nothing_is_left_of_an_earlier_fit_in_memory(tmp_path: Any) -> None:
    X, y = rows(2)
    model = ODMClassifier(fit_intercept=False, warm_start=True).fit(X, y)
    assert all(hasattr(model, name) for name in (*OF_SAMPLES, "loo_error_bound_"))
    model.set_params(kernel="linear")
    with config_context(working_memory=SMALL_MEMORY):
        model.fit(mapped(X, tmp_path), y)
    assert not any(hasattr(model, name) for name in (*OF_SAMPLES, "loo_error_bound_"))
    assert_allclose(model.decision_function(X), X @ model.coef_[0])
    assert_allclose(model.fit(X, y).dual_coef_ @ model.support_vectors_, model.coef_)


@pytest.mark.parametrize(
    "model",
    [LDMClassifier(kernel="linear"), ODMClassifier(), linear(solver="dcd"), linear(solver="svrg")],
    ids=["ldm", "rbf", "dcd", "svrg"],
)
def test_other_models_bring_a_memory_map_into_memory(model: Any, tmp_path: Any) -> None:
    X, y = rows(2)
    with config_context(working_memory=SMALL_MEMORY):
        assert hasattr(model.fit(mapped(X, tmp_path), y), "support_")


def test_wide_memory_map_is_brought_into_memory_by_auto(tmp_path: Any) -> None:
    X = np.random.default_rng(0).normal(size=(20, 60))
    y = np.arange(20) % 2
    with config_context(working_memory=SMALL_MEMORY):
        assert linear().fit(mapped(X, tmp_path), y).solver_ == "dcd"
        newton = linear(solver="newton").fit(mapped(X, tmp_path), y)
    assert not hasattr(newton, "support_")
    assert_allclose(newton.coef_, linear(solver="dcd").fit(X, y).coef_, atol=1e-9)


def test_interrupted_fit_warns(tmp_path: Any) -> None:
    X, y = rows(2)
    with (
        config_context(working_memory=SMALL_MEMORY),
        pytest.warns(ConvergenceWarning, match=r"after 1 iterations of solver='newton'.*max_iter"),
    ):
        linear(max_iter=1).fit(mapped(X, tmp_path), y)


def test_warm_start_begins_at_the_previous_fit(tmp_path: Any) -> None:
    X, y = rows(3)
    model = linear(warm_start=True)
    with config_context(working_memory=SMALL_MEMORY):
        first = model.fit(mapped(X, tmp_path), y).coef_
        assert model.n_iter_ > 1
        assert model.fit(mapped(X, tmp_path), y).n_iter_ == 0
        assert_allclose(model.coef_, first)
        model.set_params(C1=1100.0).fit(mapped(X, tmp_path), y)
        assert_allclose(model.coef_, linear(C1=1100.0).fit(X, y).coef_, atol=1e-9)
        for labels in ((y > 0).astype(int), y):  # other numbers of classes: from the beginning
            expected = linear(C1=1100.0).fit(X, labels).coef_
            assert_allclose(model.fit(mapped(X, tmp_path), labels).coef_, expected, atol=1e-9)


def test_numbers_that_are_missing_or_overflow_are_refused(tmp_path: Any) -> None:
    X, y = rows(2)
    X[200, 1] = np.nan
    with config_context(working_memory=SMALL_MEMORY):
        with pytest.raises(ValueError, match="contains NaN"):
            linear().fit(mapped(X, tmp_path), y)
        X[200, 1] = 1e200
        with pytest.raises(ValueError, match="squares of the features overflow"):
            linear().fit(mapped(X, tmp_path), y)


def test_dask_collection_is_fitted_by_its_chunks() -> None:
    da = pytest.importorskip("dask.array")
    X, y = rows(3)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    lazy = da.from_array(X, chunks=(70, 2))
    assert_same(linear().fit(lazy, y, weights), linear().fit(X, y, weights), 1e-9)


@pytest.mark.parametrize(
    ("model", "instead"),
    [
        (LDMClassifier(), r"ODMClassifier with kernel='linear' or n_components"),
        (ODMClassifier(n_components=None), "kernel='linear'"),
        (linear(solver="dcd"), "solver='newton'"),
        (linear(), "solver='newton'"),
    ],
    ids=["ldm", "rbf", "dcd", "wide"],
)
def test_dask_collection_is_refused_by_what_needs_memory(model: Any, instead: str) -> None:
    da = pytest.importorskip("dask.array")
    X = da.from_array(np.random.default_rng(0).normal(size=(20, 60)), chunks=(5, 60))
    with pytest.raises(ValueError, match=instead):
        model.fit(X, np.arange(20) % 2)
