"""The rows that are held out are drawn by their values, whatever their order, blocks and copies."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from discreg.blocks import kept_rows
from discreg.blocks.kept_rows import MOST_ROWS, kept_of_block, row_keys
from discreg.blocks.source import Block

ONES = np.ones(3)


def keep(X, y, weights):
    return kept_rows.keep_rows(X, row_keys(X, weights), y, weights)


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
    for name in ("X", "y", "weights"):
        assert_array_equal(getattr(one, name), getattr(other, name))


def test_few_rows_are_all_kept():
    X, y = rows(MOST_ROWS)
    kept = keep(X, y, np.ones(len(y)))
    assert_array_equal(kept.X[kept.numbers], X)
    assert_array_equal(kept.places[kept.numbers], np.arange(len(y)))
    some = kept.take(np.arange(0, len(y), 2))
    has = some.numbers >= 0
    assert_array_equal(some.X[some.numbers[has]], X[has])
    assert np.count_nonzero(has) == len(some)


def test_rows_of_weight_zero_are_not_kept():
    X, y = rows(50)
    copies = np.arange(50) % 2.0
    kept = keep(X, y, copies)
    assert_array_equal(np.sort(kept.places), np.arange(1, 50, 2))
    assert_array_equal(kept.numbers < 0, copies == 0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_draw_depends_neither_on_the_order_nor_on_blocks(dtype):
    X, y = rows(7_000)
    X, ones = X.astype(dtype), np.ones(len(y))
    kept = keep(X, y, ones)
    assert len(kept) == MOST_ROWS
    order = np.random.default_rng(1).permutation(len(y))
    assert_same(kept, keep(np.asfortranarray(X[order]), y[order], ones))
    for step in (500, 2_500):
        assert_same(kept, in_blocks(X, y, ones, step))
    assert_array_equal(X[kept.places], kept.X)


def test_sparse_rows_are_drawn_like_dense_ones():
    X, y = rows(3_000)
    X[np.abs(X) < 1] = 0
    dense = keep(X, y, np.ones(3_000))
    kept = keep(sparse.csr_array(X), y, np.ones(3_000))
    assert_array_equal(kept.places, dense.places)
    both = in_blocks(sparse.csr_array(X), y, np.ones(3_000), 1_000)
    assert_array_equal(both.X.toarray(), dense.X)


def test_a_row_of_weight_three_is_drawn_like_three_rows():
    X, y = rows(3_000)
    copies = np.arange(3_000) % 4
    weighted = keep(X, y, copies.astype(float))
    repeated = np.repeat(np.arange(3_000), copies)
    assert_same(weighted, keep(X[repeated], y[repeated], np.ones(len(repeated))))


def test_many_copies_of_few_rows_are_merged():
    """Rows that differ only in the label stay apart."""
    X, y = rows(60_000)
    X = (X > 0).astype(float)
    kept = keep(X, y, np.ones(60_000))
    assert len(kept) == 16 * 3
    assert kept.weights.sum() == 60_000


def test_draw_is_a_fair_sample():
    """Discrete columns: the share of each value among the kept rows is that among all rows."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, 2, 50_000), rng.integers(0, 50, (50_000, 6)).T[0]])
    X = np.column_stack([X, rng.integers(0, 50, (50_000, 4))]).astype(float)
    kept = keep(X, rng.integers(0, 3, 50_000), np.ones(50_000))
    assert len(kept) == MOST_ROWS
    assert kept.X[:, 0].mean() == pytest.approx(0.5, abs=0.05)
    assert_allclose(np.bincount(kept.y) / MOST_ROWS, 1 / 3, atol=0.05)
