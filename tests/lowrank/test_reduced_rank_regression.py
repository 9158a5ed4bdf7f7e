"""ReducedRankRegression: its optimum at every rank, and weights."""

import numpy as np
import pytest
from low_rank_oracles import centre, objective
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_linnerud
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV

from discreg import ReducedRankRegression, load_model, save_model

SHAPES = {"tall": (40, 6, 4), "wide": (18, 30, 4), "many targets": (30, 3, 5)}


def problem(shape="tall", seed=0):
    """Features and targets with means, of which two directions matter."""
    n, p, q = SHAPES[shape]
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + 2.0
    Y = X @ rng.normal(size=(p, 2)) @ rng.normal(size=(2, q)) + 2 * rng.normal(size=(n, q)) - 3.0
    return X, Y


def weights_of(Y, seed=1):
    """Weights of which some are zero, some below one and some large."""
    return np.random.default_rng(seed).choice([0.0, 0.4, 1.0, 2.5, 3.0], size=len(Y))


def augmented_svd(X, Y, beta, rank):
    """The optimum by an SVD of the fit of rows to which √β times the identity is appended."""
    p, q = X.shape[1], Y.shape[1]
    rows, targets = np.vstack([X, np.sqrt(beta) * np.eye(p)]), np.vstack([Y, np.zeros((p, q))])
    full = np.linalg.lstsq(rows, targets, rcond=None)[0]
    V = np.linalg.svd(rows @ full)[2][:rank].T
    return full @ V @ V.T


def alternating_least_squares(X, Y, beta, rank, seed):
    """A B by least squares for A and B in turn; a penalty on AB, with B orthonormal."""
    B = np.linalg.qr(np.random.default_rng(seed).normal(size=(Y.shape[1], rank)))[0].T
    for _ in range(500):
        A = np.linalg.solve(X.T @ X + beta * np.eye(X.shape[1]), X.T @ Y @ B.T)
        left, _, right = np.linalg.svd(A.T @ X.T @ Y, full_matrices=False)
        B = left @ right
    return A @ B


def assert_same(model, other, rtol=1e-9, atol=1e-9):
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=rtol, atol=atol)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=rtol, atol=atol)
    np.testing.assert_allclose(model.scalings_, other.scalings_, rtol=rtol, atol=atol)
    np.testing.assert_allclose(model.directions_, other.directions_, rtol=rtol, atol=atol)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_full_rank_is_the_ridge_of_scikit_learn(shape, fit_intercept):
    X, Y = problem(shape)
    weights = weights_of(Y)
    model = ReducedRankRegression(beta=0.7, fit_intercept=fit_intercept).fit(X, Y, weights)
    ridge = Ridge(0.7, fit_intercept=fit_intercept).fit(X, Y, weights)
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-10)
    np.testing.assert_allclose(model.predict(X), ridge.predict(X), atol=1e-10)
    assert model.coef_.shape == (Y.shape[1], X.shape[1])


@pytest.mark.parametrize("shape", SHAPES)
def test_every_rank_is_the_optimum_of_the_augmented_problem(shape):
    X, Y = problem(shape)
    for rank in range(1, min(X.shape[1], Y.shape[1]) + 1):
        model = ReducedRankRegression(rank=rank, beta=0.7).fit(X, Y)
        expected = augmented_svd(centre(X), centre(Y), 0.7, rank)
        np.testing.assert_allclose(model.coef_.T, expected, atol=1e-9)
        np.testing.assert_allclose(model.intercept_, Y.mean(axis=0) - X.mean(axis=0) @ expected)
        np.testing.assert_allclose(model.coef_, model.directions_ @ model.scalings_.T, atol=1e-12)
        assert np.linalg.matrix_rank(model.coef_, tol=1e-9) == rank == model.rank_


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_no_start_of_alternating_least_squares_is_better(shape):
    X, Y = map(centre, problem(shape))
    model = ReducedRankRegression(rank=2, beta=0.7).fit(X, Y)
    best = min(
        objective(X, Y, alternating_least_squares(X, Y, 0.7, 2, seed), 0.7) for seed in range(5)
    )
    reached = objective(X, Y, model.coef_.T, 0.7)
    np.testing.assert_allclose(reached, best, rtol=1e-9)


def test_without_a_penalty_it_is_the_regression_of_least_norm():
    for shape in SHAPES:
        X, Y = problem(shape)
        expected = np.linalg.lstsq(centre(X), centre(Y), rcond=None)[0]
        model = ReducedRankRegression(beta=0.0).fit(X, Y)
        np.testing.assert_allclose(model.coef_.T, expected, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_are_equivalent_to_repeating_rows(shape):
    X, Y = problem(shape)
    copies = np.random.default_rng(2).integers(0, 4, len(Y))
    model = ReducedRankRegression(rank=2, beta=2.0)
    weighted = clone(model).fit(X, Y, copies)
    assert_same(weighted, model.fit(np.repeat(X, copies, axis=0), np.repeat(Y, copies, axis=0)))


def test_the_wide_form_equals_the_tall_form():
    """Rows of weight zero are enough to change the form."""
    X, Y = problem("wide")
    model = ReducedRankRegression(rank=2, beta=0.7)
    wide = clone(model).fit(X, Y)
    zeros = np.zeros(len(X))
    tall = model.fit(np.vstack([X, X]), np.vstack([Y, 7 * Y]), np.append(zeros + 1, zeros))
    assert_same(wide, tall)


@pytest.mark.parametrize("shape", SHAPES)
def test_sparse_rows_equal_dense_rows(shape):
    X, Y = problem(shape)
    X = np.where(np.abs(X) > 2, X, 0.0)
    model = ReducedRankRegression(rank=2)
    dense = clone(model).fit(X, Y)
    scattered = model.fit(sparse.csr_array(X), Y)
    assert_same(scattered, dense)
    np.testing.assert_allclose(scattered.predict(sparse.csr_array(X)), scattered.predict(X))
    np.testing.assert_allclose(scattered.transform(sparse.csr_array(X)), scattered.transform(X))


def test_float32_stays_float32():
    X, Y = problem()
    model = ReducedRankRegression(rank=2).fit(X.astype(np.float32), Y)
    exact = clone(model).fit(X, Y)
    for found in (model.coef_, model.intercept_, model.scalings_, model.directions_):
        assert found.dtype == np.float32
    assert model.predict(X.astype(np.float32)).dtype == np.float32
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-4)


def test_one_target_may_be_flat():
    X, Y = problem()
    flat, column = (ReducedRankRegression().fit(X, y) for y in (Y[:, 0], Y[:, :1]))
    assert flat.predict(X).shape == (len(X),)
    assert column.predict(X).shape == (len(X), 1)
    np.testing.assert_allclose(flat.predict(X), Ridge().fit(X, Y[:, 0]).predict(X))
    assert flat.coef_.shape == (1, X.shape[1])
    assert flat.transform(X).shape == (len(X), 1)


def test_transform_is_the_centred_projection_that_predicts():
    X, Y = problem()
    model = ReducedRankRegression(rank=2).fit(X, Y)
    projected = model.transform(X)
    np.testing.assert_allclose(projected, (X - X.mean(axis=0)) @ model.scalings_, atol=1e-10)
    np.testing.assert_allclose(projected @ model.directions_.T + Y.mean(axis=0), model.predict(X))
    names = model.get_feature_names_out().tolist()
    assert names == ["reducedrankregression0", "reducedrankregression1"]
    np.testing.assert_allclose(model.score(X, Y), r2_score(Y, model.predict(X)))


def test_model_files(tmp_path):
    X, Y = problem()
    model = ReducedRankRegression().fit(X, Y)
    save_model(model, tmp_path / "model.skops")
    read = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(read.predict(X), model.predict(X))
    np.testing.assert_array_equal(read.transform(X), model.transform(X))


def test_errors_say_what_to_do():
    X, Y = problem()
    fit = ReducedRankRegression().fit
    with pytest.raises(ValueError, match="rank=5 is too large: with 4 targets and 6 features"):
        ReducedRankRegression(rank=5).fit(X, Y)
    with pytest.raises(ValueError, match=r"y is a sparse matrix. Pass y.toarray()"):
        fit(X, sparse.csr_array(Y))
    with pytest.raises(ValueError, match="All rows have weight zero"):
        fit(X, Y, np.zeros(len(Y)))
    with pytest.raises(ValueError, match="squares of the features overflow"):
        fit(1e200 * X, Y)
    with pytest.raises(ValueError, match="squares of the targets overflow"):
        fit(X, 1e200 * Y)
    with pytest.raises(ValueError, match="ReducedRankRegression needs rows in memory"):
        fit(OutOfCore(), Y)


class OutOfCore:
    def open_blocks(self, y, sample_weight, class_weight):
        raise AssertionError("its blocks are not opened")


def search_of(ranks, betas):
    grid = {"rank": list(ranks), "beta": list(betas)}
    return GridSearchCV(ReducedRankRegression(), grid, scoring="neg_mean_squared_error")


def test_a_reduced_rank_beats_ridge_where_the_signal_has_a_low_rank():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(560, 15))
        signal = X @ rng.normal(size=(15, 2)) @ rng.normal(size=(2, 20))
        Y = signal + 8 * rng.normal(size=signal.shape)
        search, full = (
            search_of(ranks, np.geomspace(0.1, 1000, 5)).fit(X[:60], Y[:60])
            for ranks in (range(1, 6), [15])
        )
        errors = [np.mean((signal[60:] - each.predict(X[60:])) ** 2) for each in (search, full)]
        assert errors[0] < 0.7 * errors[1]


def test_a_reduced_rank_beats_least_squares_on_real_targets():
    """The right halves of digits from their left halves, and measurements of 20 athletes.

    On rows that neither model has seen. Ridge with a selected penalty is as good as a reduced rank
    there.
    """
    pixels = load_digits().images
    digits = tuple(
        pixels[:, :, part].reshape(len(pixels), -1) for part in (slice(0, 4), slice(4, 8))
    )
    athletes = load_linnerud(return_X_y=True)
    for (X, Y), n_train, n_splits, share in ((digits, 60, 3, 1.0), (athletes, 15, 20, 0.75)):
        better = 0
        for seed in range(n_splits):
            order = np.random.default_rng(seed).permutation(len(X))
            train, test = order[:n_train], order[n_train:]
            errors = [
                np.mean((Y[test] - each.fit(X[train], Y[train]).predict(X[test])) ** 2)
                for each in (
                    search_of(range(1, min(X.shape[1], Y.shape[1]) + 1), [0.0]),
                    ReducedRankRegression(beta=0.0),
                )
            ]
            better += errors[0] < errors[1]
        assert better >= share * n_splits
