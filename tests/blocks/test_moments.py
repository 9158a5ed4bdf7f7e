"""Moments of blocks add up to the moments of all rows, whatever the blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from discreg.blocks.moments import Moments, block_moments, class_scatters, moments_by_group
from discreg.blocks.source import Block

N_CLASSES = 3


def block(n_rows=100, n_features=4, seed=0, dtype=np.float64, mean=0.0):
    random = np.random.default_rng(seed)
    X = (random.standard_normal((n_rows, n_features)) + mean).astype(dtype)
    return Block(X, random.integers(N_CLASSES, size=n_rows), random.integers(0, 3, n_rows) + 0.5)


def part(whole, rows):
    return Block(whole.X[rows], whole.y[rows], whole.weights[rows])


def exact(whole):
    """The same in extended precision, by the definition."""
    X = whole.X.astype(np.longdouble)
    weights = whole.weights.astype(np.longdouble)
    members = [weights * (whole.y == k) for k in range(N_CLASSES)]
    totals = np.array([each.sum() for each in members])
    means = np.array([each @ X / max(each.sum(), 1) for each in members])
    centred = X - weights @ X / weights.sum()
    scatter = (weights[:, None] * centred).T @ centred
    return totals.astype(float), means.astype(float), scatter.astype(float)


def assert_exact(moments, whole, rtol=1e-12):
    totals, means, scatter = exact(whole)
    assert_allclose(moments.weights, totals, rtol=1e-14)
    assert_allclose(moments.means, means, rtol=1e-13, atol=1e-13)
    assert_allclose(moments.scatter, scatter, atol=rtol * np.trace(scatter))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 100), max_size=6), st.integers(0, 1000), st.booleans())
def test_any_blocks_in_any_order(cuts, seed, is_sparse):
    whole = block(seed=seed)
    if is_sparse:
        whole = whole._replace(X=sparse.csr_array(np.where(whole.X > 0.3, whole.X, 0.0)))
    parts = np.split(np.random.default_rng(seed).permutation(100), sorted(cuts))
    total = None
    for rows in parts:
        some = block_moments(part(whole, rows), N_CLASSES)
        total = some if total is None else total + some
    dense = whole._replace(X=whole.X.toarray()) if is_sparse else whole
    assert_exact(total, dense)


def test_small_blocks_and_threads_change_nothing():
    whole = block(n_rows=30_000, n_features=60, seed=1)
    assert_exact(block_moments(whole, N_CLASSES), whole)


@pytest.mark.parametrize("mean", [1e6, 1e8])
def test_no_digits_are_lost_far_from_the_origin(mean):
    whole = block(n_rows=5_000, mean=mean)
    halves = slice(0, 2_000), slice(2_000, None)
    one, other = (block_moments(part(whole, rows), N_CLASSES) for rows in halves)
    rounding = 1e-15 * mean  # of the means, relative to a standard deviation of one
    assert_exact(one + other, whole, rtol=max(rounding, 1e-12))


def test_class_means_lose_no_digits_far_from_the_origin():
    chance = np.random.default_rng(0)
    n_rows, y = 30_000, np.arange(30_000) % 3
    X = chance.normal(size=(n_rows, 4)) + 1e7
    found = block_moments(Block(X, y, np.ones(n_rows)), 3).means
    exact = [X[y == k].astype(np.longdouble).mean(axis=0) for k in range(3)]
    assert np.abs(found - np.array(exact, dtype=np.float64)).max() <= 2 * np.spacing(1e7)


def test_blocks_with_means_far_apart():
    """Sorted rows: every block is centred at its own mean."""
    parts = [block(seed=k, mean=1e6 * k) for k in range(3)]
    whole = Block(*(np.concatenate(each) for each in zip(*(p[:3] for p in parts), strict=True)))
    total = sum(
        (block_moments(p, N_CLASSES) for p in parts[1:]), block_moments(parts[0], N_CLASSES)
    )
    assert_exact(total, whole)


def test_single_precision_is_added_up_in_double():
    """A million rows: sums of the squares in single precision would stop growing."""
    X = np.ones((1_000_000, 2), dtype=np.float32)
    X[::2] = -1
    whole = Block(X, np.zeros(len(X), dtype=np.intp), np.ones(len(X)))
    moments = block_moments(whole, N_CLASSES)
    assert_allclose(moments.scatter, 1e6 * np.ones((2, 2)), rtol=1e-6)
    assert_allclose(moments.means[0], 0, atol=1e-12)


def test_rows_in_any_layout():
    whole = block(n_rows=500)
    expected = block_moments(whole, N_CLASSES)
    read_only = whole.X.copy()
    read_only.flags.writeable = False
    for X in (np.asfortranarray(whole.X), whole.X[:, ::-1][:, ::-1], read_only):
        found = block_moments(whole._replace(X=X), N_CLASSES)
        assert_allclose(found.scatter, expected.scatter, rtol=1e-13)


def test_groups_add_up_to_all_rows():
    whole = block()
    folds = np.arange(100) % 4
    parts = moments_by_group(whole, folds, 4, N_CLASSES)
    assert_exact(parts[0] + parts[1] + parts[2] + parts[3], whole)


def test_weights_scale_moments():
    whole = block()
    doubled = block_moments(whole._replace(weights=2 * whole.weights), N_CLASSES)
    scaled = block_moments(whole, N_CLASSES).scaled(2.0)
    assert_allclose(scaled.scatter, doubled.scatter, rtol=1e-13)
    assert_allclose(scaled.weights, doubled.weights)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_rows", [1, 50, 20_000])
def test_class_scatters_by_the_definition(layout, n_rows):
    whole = block(n_rows=n_rows, n_features=5)
    gains = whole.weights / (0.3 * (whole.X**2).sum(axis=1) + 0.7)
    expected = [
        (whole.X[whole.y == k].T * gains[whole.y == k]) @ whole.X[whole.y == k]
        for k in range(N_CLASSES)
    ]
    found = class_scatters(whole._replace(X=layout(whole.X)), N_CLASSES, 0.3, 0.7)
    assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


def test_a_sparse_feature_that_only_seems_constant_is_refused():
    X = np.full((50, 2), 1e9)
    X[:, 1] = np.arange(50)
    X[0, 0] += 1e-5
    whole = Block(sparse.csr_array(X), np.zeros(50, dtype=np.intp), np.ones(50))
    moments = block_moments(whole, 1)
    with pytest.raises(ValueError, match="varies by less than the rounding of its mean"):
        moments.gram(centre=True)
    # Neither block varies on its own, in this order or the other.
    for halves in ((slice(0, 1), slice(1, None)), (slice(1, None), slice(0, 1))):
        first, second = (block_moments(part(whole, rows), 1) for rows in halves)
        with pytest.raises(ValueError, match="varies by less than the rounding of its mean"):
            (first + second).gram(centre=True)
    X[0, 0] = 1e9
    constant = block_moments(whole._replace(X=sparse.csr_array(X)), 1)
    assert constant.gram(centre=True)[0, 0] == 0.0


def test_no_rows_have_no_moments():
    none = block(n_rows=0)
    moments = block_moments(none, N_CLASSES)
    assert isinstance(moments, Moments)
    assert moments.total == 0
    whole = block()
    assert_exact(moments + block_moments(whole, N_CLASSES), whole)
