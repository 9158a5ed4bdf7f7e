"""Features whose inner products are the kernel, or near to it."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernel_approximation import NystroemMap, RandomFeatures, map_of_rows


def rows(n_rows=40, n_features=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_features))


def kernel_named(name, gamma=0.2):
    return FittedKernel(name, gamma, 2, 1.0, None)


def draw(X, n_components, name="nystroem", kernel="rbf", seed=0):
    random = np.random.RandomState(seed)
    return map_of_rows(name, kernel_named(kernel), X, n_components, random)


def gram(features, A, B):
    return features(A) @ features(B).T


# Nyström -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian", "linear", "cosine"])
def test_nystroem_features_are_exact_with_the_basis(kernel):
    """Between basis rows and any rows the inner products are the kernel."""
    X = rows()
    features = draw(X, 12, kernel=kernel)
    assert features.basis.shape == (12, 4)
    expected = pairwise_kernels(
        X, features.basis, metric=kernel, filter_params=True, gamma=0.2, degree=2, coef0=1
    )
    if kernel in ("rbf", "laplacian"):
        np.testing.assert_allclose(gram(features, X, features.basis), expected, atol=1e-9)
    on_basis = kernel_named(kernel)(features.basis)
    np.testing.assert_allclose(
        gram(features, features.basis, features.basis), on_basis, atol=1e-9 * on_basis.max()
    )


def test_nystroem_features_are_those_of_the_definition():
    """k(X, basis) k(basis, basis)⁻¹ k(basis, X)."""
    X = rows()
    features = draw(X, 12)
    inner = np.linalg.inv(rbf_kernel(features.basis, gamma=0.2))
    cross = rbf_kernel(X, features.basis, gamma=0.2)
    np.testing.assert_allclose(gram(features, X, X), cross @ inner @ cross.T, atol=1e-10)


def test_nystroem_features_of_all_rows_are_the_kernel():
    X = rows()
    for n_components in (40, 1000):
        features = draw(X, n_components)
        np.testing.assert_allclose(gram(features, X, X), rbf_kernel(X, gamma=0.2), atol=1e-10)


def test_nystroem_approximation_is_below_the_kernel_and_improves():
    """What is left out is positive semi-definite, and shrinks as rows join the basis."""
    X = rows()
    K = rbf_kernel(X, gamma=0.2)
    left = []
    for n_components in (3, 10, 20, 40):
        rest = K - gram(draw(X, n_components), X, X)
        assert np.linalg.eigvalsh(rest)[0] > -1e-10
        left.append(np.trace(rest))
    assert np.all(np.diff(left) < 0)


def test_nystroem_features_span_what_scikit_learn_spans():
    X = rows()
    features = draw(X, 12)
    reference = Nystroem(gamma=0.2, n_components=12, random_state=0).fit(features.basis)
    expected = reference.transform(X) @ reference.transform(X).T
    np.testing.assert_allclose(gram(features, X, X), expected, atol=1e-9)


@pytest.mark.parametrize("n_components", [5, 15])
def test_copies_and_order_of_the_rows_do_not_change_the_map(n_components):
    X = rows()
    one = draw(X, n_components)
    copies = np.random.default_rng(0).integers(1, 4, size=len(X))
    order = np.random.default_rng(1).permutation(copies.sum())
    other = draw(np.repeat(X, copies, axis=0)[order], n_components)
    np.testing.assert_array_equal(other.basis, one.basis)
    np.testing.assert_array_equal(other(X), one(X))


def test_copies_alone_do_not_fill_the_basis():
    X = np.repeat(rows(6), 20, axis=0)
    features = draw(X, 50)
    assert features.basis.shape == (6, 4)
    np.testing.assert_allclose(gram(features, X, X), rbf_kernel(X, gamma=0.2), atol=1e-10)


def test_directions_of_no_variation_are_left_out():
    X = rows()
    features = draw(X, 30, kernel="linear")
    assert features(X).shape == (40, 4)
    np.testing.assert_allclose(gram(features, X, X), X @ X.T, atol=1e-10)


def test_a_kernel_of_zeros_is_refused():
    with pytest.raises(ValueError, match=r"'linear' is zero on all 1 basis samples\. Choose"):
        draw(np.zeros((10, 3)), 5, kernel="linear")


# Random features ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_components", [1, 2, 9, 100])
def test_random_features_have_norm_one(n_components):
    X = 1e3 * rows()
    features = draw(X, n_components, "random_features")
    np.testing.assert_allclose(np.sum(features(X) ** 2, axis=1), 1, rtol=1e-14)
    assert features(X).shape[1] == max(2, 2 * (n_components // 2))


def test_random_features_do_not_change_with_a_shift():
    """The approximate kernel depends on differences of rows, as the RBF kernel does."""
    X = rows()
    features = draw(X, 20, "random_features")
    np.testing.assert_allclose(gram(features, X + 5, X + 5), gram(features, X, X), atol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_random_features_are_unbiased_with_the_variance_of_their_number(kernel):
    """The mean over many draws is the kernel; the error of one falls as 1 / √m."""
    X = rows(8)
    K = pairwise_kernels(X, metric=kernel, gamma=0.2)
    errors = {}
    for m in (10, 160):
        draws = [draw(X, m, "random_features", kernel, seed) for seed in range(300)]
        values = np.array([gram(features, X, X) for features in draws])
        spread = values.std(axis=0) / np.sqrt(300)
        off = ~np.eye(8, dtype=bool)
        assert np.abs((values.mean(axis=0) - K)[off] / spread[off]).max() < 4.5
        errors[m] = np.sqrt(np.mean((values - K)[:, off] ** 2))
    assert errors[10] / errors[160] == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("kernel", ["poly", "linear", "cosine"])
def test_random_features_are_for_kernels_with_a_fourier_transform(kernel):
    message = rf"kernel='laplacian' or 'rbf', not the kernel '{kernel}'\. Use approximation='nys"
    with pytest.raises(ValueError, match=message):
        draw(rows(), 10, "random_features", kernel=kernel)


# Both ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"), [("nystroem", NystroemMap), ("random_features", RandomFeatures)]
)
def test_sparse_rows_have_the_features_of_dense_ones(name, kind):
    X = np.where(rows() > 0, rows(), 0)
    dense, features = draw(X, 12, name), draw(sparse.csr_array(X), 12, name)
    assert isinstance(features, kind)
    np.testing.assert_allclose(features(sparse.csr_array(X)), dense(X), atol=1e-9)
    np.testing.assert_allclose(features(X), dense(X), atol=1e-9)


@pytest.mark.parametrize("name", ["nystroem", "random_features"])
def test_features_of_single_precision_rows_are_double(name):
    X = rows().astype(np.float32)
    features = draw(X, 12, name)
    assert features(X).dtype == np.float64
    np.testing.assert_allclose(features(X), features(X.astype(np.float64)), atol=1e-9)


@pytest.mark.parametrize("name", ["nystroem", "random_features"])
@pytest.mark.parametrize("n_rows", [1, 40])
def test_scores_are_features_times_coefficients(name, n_rows):
    features = draw(rows(), 12, name)
    coef = np.random.default_rng(0).normal(size=(3, features.n_components))
    new = rows(n_rows, seed=1)
    expected = features(new) @ coef.T + np.arange(3)
    np.testing.assert_allclose(features.scores(new, coef, np.arange(3.0)), expected, atol=1e-9)
    single = features.scores(new, coef.astype(np.float32), np.arange(3, dtype=np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=1e-5)
