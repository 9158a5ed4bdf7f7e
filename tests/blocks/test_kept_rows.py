"""The rows that are held out are drawn by their values, whatever their order, blocks and copies."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from discreg.blocks.kept_rows import MOST_ROWS, keep_rows, kept_of_block
from discreg.blocks.source import Block

ONES = np.ones(3)


def rows(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, 4)), rng.integers(0, 3, n_rows)


def in_blocks(X, y, weights, step):
    parts = [slice(start, start + step) for start in range(0, len(y), step)]
    first, *others = (kept_of_block(Block(X[p], y[p], weights[p]), ONES) for p in parts)
    for other in others:
        first = first + other
    return first


def assert_same(one, other):
    for name in ("X", "y", "weights", "units"):
        assert_array_equal(getattr(one, name), getattr(other, name))


def test_few_rows_are_all_kept_in_their_order():
    X, y = rows(MOST_ROWS)
    kept = keep_rows(X, y, np.ones(len(y)), ONES)
    assert_array_equal(kept.places, np.arange(len(y)))
    assert_array_equal(kept.X, X)


def test_rows_of_weight_zero_are_not_kept():
    X, y = rows(50)
    copies = np.arange(50) % 2.0
    assert_array_equal(keep_rows(X, y, copies, ONES).places, np.arange(1, 50, 2))
    assert_array_equal(keep_rows(X, y, np.ones(50), np.array([1.0, 0, 1])).y == 1, False)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_draw_depends_neither_on_the_order_nor_on_blocks(dtype):
    X, y = rows(7_000)
    X, ones = X.astype(dtype), np.ones(len(y))
    kept = keep_rows(X, y, ones, ONES)
    assert len(kept) == MOST_ROWS
    order = np.random.default_rng(1).permutation(len(y))
    assert_same(kept, keep_rows(np.asfortranarray(X[order]), y[order], ones, ONES))
    for step in (500, 2_500):
        assert_same(kept, in_blocks(X, y, ones, step))
    assert_array_equal(X[kept.places], kept.X)


def test_sparse_rows_are_drawn_like_dense_ones():
    X, y = rows(3_000)
    X[np.abs(X) < 1] = 0
    dense = keep_rows(X, y, np.ones(3_000), ONES)
    kept = keep_rows(sparse.csr_array(X), y, np.ones(3_000), ONES)
    assert_array_equal(kept.places, dense.places)
    both = in_blocks(sparse.csr_array(X), y, np.ones(3_000), 1_000)
    assert_array_equal(both.X.toarray(), dense.X)


def test_a_row_of_weight_three_is_drawn_like_three_rows():
    X, y = rows(3_000)
    copies = np.arange(3_000) % 4
    weighted = keep_rows(X, y, copies.astype(float), ONES)
    repeated = np.repeat(np.arange(3_000), copies)
    assert_same(weighted, keep_rows(X[repeated], y[repeated], np.ones(len(repeated)), ONES))


def test_many_copies_of_few_rows_are_merged():
    """Rows that differ only in the label or in the unit of weight stay apart."""
    X, y = rows(60_000)
    X = (X > 0).astype(float)
    kept = keep_rows(X, y, np.ones(60_000), ONES)
    assert len(kept) == 16 * 3
    assert kept.weights.sum() == 60_000
    halves = keep_rows(X, y, np.where(X[:, 0] > 0, 0.5, 1.0), ONES)
    assert set(halves.units) == {0.5, 1.0}
    assert len(halves) == 16 * 3


def test_draw_is_a_fair_sample():
    """Discrete columns: the share of each value among the kept rows is that among all rows."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, 2, 50_000), rng.integers(0, 50, (50_000, 6)).T[0]])
    X = np.column_stack([X, rng.integers(0, 50, (50_000, 4))]).astype(float)
    kept = keep_rows(X, rng.integers(0, 3, 50_000), np.ones(50_000), ONES)
    assert len(kept) == MOST_ROWS
    assert kept.X[:, 0].mean() == pytest.approx(0.5, abs=0.05)
    assert_allclose(np.bincount(kept.y) / MOST_ROWS, 1 / 3, atol=0.05)


def test_one_unit_leaves_a_heavy_row_and_all_of_a_light_one():
    X, y = rows(4)
    y[:] = [0, 1, 2, 0]
    kept = keep_rows(X, y, np.array([3.0, 1.0, 0.25, 0.5]), np.array([2.0, 1.0, 4.0]))
    assert_array_equal(kept.weights, [6, 1, 1, 1])
    assert_array_equal(kept.units, [2, 1, 1, 1])
