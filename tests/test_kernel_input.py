"""What kernels make of sparse matrices in every legal form, read-only arrays and huge values."""

import numpy as np
import pytest
from products import every_value
from scipy import sparse
from searches import make_search

from discreg import (
    DRMClassifier,
    LDMClassifier,
    LRRRClassifier,
    LSRClassifier,
    LSRClassifierCV,
    ODMClassifier,
    ReLSRClassifier,
)

MODELS = [
    LSRClassifier,
    ReLSRClassifier,
    LRRRClassifier,
    DRMClassifier,
    ODMClassifier,
    LDMClassifier,
]


def sparse_rows():
    random = np.random.default_rng(0)
    rows = (random.random((60, 8)) < 0.4) * random.random((60, 8))
    return sparse.csr_matrix(rows), (rows[:, 0] > 0.1) + (rows[:, 1] > 0.2)


def with_duplicates(rows):
    """The same matrix with every entry stored in two parts."""
    data = np.stack([0.25 * rows.data, 0.75 * rows.data], axis=1).ravel()
    return sparse.csr_matrix((data, rows.indices.repeat(2), 2 * rows.indptr), shape=rows.shape)


@every_value(model=[*MODELS, *MODELS], kernel=["linear", "rbf", "cosine", "laplacian", "poly"])
def test_duplicate_entries_of_a_sparse_matrix_add_up(model, kernel):
    rows, y = sparse_rows()
    split = with_duplicates(rows)
    parts = [split.data.copy(), split.indices.copy(), split.indptr.copy()]
    expected = model(kernel=kernel).fit(rows, y).decision_function(rows)
    found = model(kernel=kernel).fit(split, y).decision_function(split)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
    for before, after in zip(parts, (split.data, split.indices, split.indptr), strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("model", MODELS)
def test_indices_of_64_bits_and_read_only_arrays_are_accepted(model):
    rows, y = sparse_rows()
    large = rows.copy()
    large.indices, large.indptr = large.indices.astype(np.int64), large.indptr.astype(np.int64)
    laplacian = model(kernel="laplacian")
    expected = laplacian.fit(rows, y).predict(rows)
    np.testing.assert_array_equal(laplacian.fit(large, y).predict(large), expected)
    dense = rows.toarray()
    expected = model(kernel="chi2").fit(dense, y).predict(dense)
    dense.flags.writeable = False
    np.testing.assert_array_equal(model(kernel="chi2").fit(dense, y).predict(dense), expected)


@pytest.mark.parametrize("model", MODELS)
def test_a_value_whose_square_overflows_is_refused(model):
    rows, y = sparse_rows()
    X = rows.toarray()
    X[0, 0] = 1e160
    with pytest.raises(ValueError, match=r"infinite or undefined|overflow"):
        model(kernel="rbf").fit(X, y)


def make(model, **params):
    return make_search(model, **params) if model is LSRClassifierCV else model(**params)


@pytest.mark.parametrize("model", [*MODELS, LSRClassifierCV])
def test_tags_say_which_data_a_kernel_accepts(model):
    rows, y = sparse_rows()
    for kernel, accepts in (("rbf", True), ("linear", True), ("chi2", False)):
        tags = make(model, kernel=kernel).__sklearn_tags__().input_tags
        assert (tags.sparse, tags.positive_only) == (accepts, not accepts)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        make(model, kernel="chi2").fit(rows, y)
    with pytest.raises(ValueError, match="negative"):
        make(model, kernel="chi2").fit(rows.toarray() - 1, y)


@pytest.mark.parametrize("model", [*MODELS, LSRClassifierCV])
def test_parameters_of_a_kernel_function_are_refused_with_a_named_kernel(model):
    rows, y = sparse_rows()
    with pytest.raises(ValueError, match=r"kernel_params.*only for a callable kernel.*'rbf'"):
        make(model, kernel="rbf", kernel_params={"gamma": 3.0}).fit(rows, y)


@pytest.mark.parametrize("model", [*MODELS, LSRClassifierCV])
def test_integers_beyond_the_largest_float_are_refused_by_name(model):
    rows, y = sparse_rows()
    with pytest.raises(ValueError, match=r"'coef0' parameter of \w+ must be a float"):
        make(model, kernel="poly", coef0=10**400).fit(rows, y)
    name = "degrees" if model is LSRClassifierCV else "degree"
    with pytest.raises(ValueError, match=name):
        make(model, kernel="poly", **{name: 10**400}).fit(rows, y)
