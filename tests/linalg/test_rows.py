"""AddableTuple over blocks of rows equal the whole products, for every input that fit accepts."""

import numpy as np
import pytest
from scipy import sparse

from discreg.linalg import rows


@pytest.fixture(params=["float64", "float32", "fortran", "read-only", "csr"])
def X(request):
    values = np.random.default_rng(0).normal(size=(500, 6)) + 2
    if request.param == "float32":
        return values.astype(np.float32)
    if request.param == "fortran":
        return np.asfortranarray(values)
    if request.param == "csr":
        return sparse.csr_array(np.where(values > 2, values, 0))
    values.flags.writeable = request.param != "read-only"
    return values


def dense(X):
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_sums_equal_whole_products(X, block_bytes, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_BYTES", block_bytes)
    rng = np.random.default_rng(1)
    weights, coef, residuals = (
        rng.uniform(size=500),
        rng.normal(size=(6, 3)),
        rng.normal(size=(500, 3)),
    )
    whole = dense(X)
    mean = np.average(whole, axis=0, weights=weights)
    np.testing.assert_allclose(rows.weighted_mean(X, weights), mean, rtol=1e-13)
    np.testing.assert_allclose(rows.matmul(X, coef), whole @ coef, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows.rmatmul(X, residuals), whole.T @ residuals, atol=1e-11)
    for centre in (None, mean):
        centred = whole if centre is None else whole - mean
        expected = centred.T @ (weights[:, None] * centred)
        np.testing.assert_allclose(rows.centred_gram(X, weights, centre), expected, rtol=1e-11)
        squares = rows.column_squares(X, weights, centre)
        np.testing.assert_allclose(squares, expected.diagonal(), rtol=1e-11)


def test_centring_does_not_cancel_far_from_the_origin():
    near = np.random.default_rng(0).normal(size=(2000, 4))
    near -= near.mean(axis=0)
    weights = np.ones(2000)
    far = near + 1e6
    gram = rows.centred_gram(far, weights, rows.weighted_mean(far, weights))
    np.testing.assert_allclose(gram, near.T @ near, rtol=1e-8, atol=1e-6)


def test_float32_is_accumulated_in_float64():
    X = np.full((100_000, 1), 0.1, dtype=np.float32)
    total = rows.rmatmul(X, np.ones((100_000, 1)))
    assert total[0, 0] == pytest.approx(100_000 * float(np.float32(0.1)), rel=1e-13)


def test_constant_features_leave_no_rounding_behind():
    X = np.column_stack([np.full(300, 0.1), np.arange(300.0)])
    for container in (np.asarray, sparse.csr_array):
        matrix = container(X)
        gram = rows.centred_gram(matrix, np.ones(300), rows.weighted_mean(matrix, np.ones(300)))
        np.testing.assert_array_equal(gram[0], 0)
        assert gram[1, 1] > 0


@pytest.mark.parametrize("as_sparse", [False, True])
def test_copies_are_not_distinct_rows(as_sparse):
    distinct = np.random.default_rng(0).standard_normal((40, 7))
    X = distinct[np.random.default_rng(1).permutation(np.arange(4000) % 40)]
    if as_sparse:
        X = sparse.csr_array(X)
    assert rows.has_distinct_rows(X, 40)
    assert not rows.has_distinct_rows(X, 41)
