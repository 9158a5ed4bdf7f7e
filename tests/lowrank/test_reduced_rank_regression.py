"""ReducedRankRegression: its optimum at every rank, weights, blocks, leave-one-out and searches."""

import numpy as np
import pytest
from low_rank_oracles import centre, objective
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_linnerud
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics import make_scorer, max_error, r2_score
from sklearn.model_selection import GridSearchCV, KFold

import discreg
from discreg import ReducedRankRegression, ReducedRankRegressionCV, load_model, save_model
from discreg.blocks.source import SequentialBlocks

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
    found = ReducedRankRegressionCV().fit(X, Y[:, 0])
    assert found.loo_predictions_.shape == found.predict(X).shape == (len(X),)


def test_transform_is_the_centred_projection_that_predicts():
    X, Y = problem()
    model = ReducedRankRegression(rank=2).fit(X, Y)
    projected = model.transform(X)
    np.testing.assert_allclose(projected, (X - X.mean(axis=0)) @ model.scalings_, atol=1e-10)
    np.testing.assert_allclose(projected @ model.directions_.T + Y.mean(axis=0), model.predict(X))
    names = model.get_feature_names_out().tolist()
    assert names == ["reducedrankregression0", "reducedrankregression1"]
    np.testing.assert_allclose(model.score(X, Y), r2_score(Y, model.predict(X)))


@pytest.mark.parametrize(("fit_intercept", "form"), [(True, np.asarray), (False, sparse.csr_array)])
def test_partial_fit_and_merge_equal_fit(fit_intercept, form):
    X, Y = problem()
    X, weights = np.where(np.abs(X) > 1, X, 0.0), weights_of(Y)
    model = ReducedRankRegression(rank=2, fit_intercept=fit_intercept)
    whole = clone(model).fit(X, Y, weights)
    parts = [slice(0, 15), slice(15, 16), slice(16, None)]
    streamed, other = clone(model), clone(model)
    for rows in parts[:2]:
        streamed.partial_fit(form(X[rows]), Y[rows], weights[rows])
    other.partial_fit(form(X[parts[2]]), Y[parts[2]], weights[parts[2]])
    merged = clone(streamed).partial_fit(form(X[:15]), Y[:15], weights[:15])
    merged.partial_fit(form(X[15:16]), Y[15:16], weights[15:16]).merge(other)
    streamed.partial_fit(form(X[parts[2]]), Y[parts[2]], weights[parts[2]])
    scale = np.abs(whole.coef_).max()
    for found in (streamed, merged):
        np.testing.assert_allclose(found.coef_, whole.coef_, atol=1e-6 * scale)
        np.testing.assert_allclose(found.predict(X), whole.predict(X), atol=1e-5)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_large_mean_of_the_targets_costs_no_digits_in_blocks(form):
    X, Y = problem()
    X = np.where(np.abs(X) > 1, X, 0.0)
    model, far = ReducedRankRegression(rank=2).fit(X, Y), ReducedRankRegression(rank=2)
    for rows in (slice(0, 15), slice(15, None)):
        far.partial_fit(form(X[rows]), Y[rows] + 1e7)
    np.testing.assert_allclose(far.coef_, model.coef_, atol=1e-6)


def test_blocks_of_a_memory_map_and_of_dask_equal_fit(tmp_path, monkeypatch):
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd

    X, Y = problem()
    weights = weights_of(Y)
    model = ReducedRankRegression(rank=2)
    whole = clone(model).fit(X, Y, weights)
    mapped = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=X.shape)
    mapped[:] = X
    monkeypatch.setattr("discreg.blocks.source.LARGEST_BLOCK", 500)
    frames = [dd.from_pandas(pd.DataFrame(each), npartitions=3) for each in (X, Y)]
    for frame in frames:
        frame.columns = [f"c{i}" for i in range(len(frame.columns))]
    for rows, y, s in (
        (mapped, Y, weights),
        (da.from_array(X, chunks=(11, 4)), da.from_array(Y, chunks=(7, 3)), weights),
        (*frames, weights),
    ):
        streamed = clone(model).fit(rows, y, s)
        assert_same(streamed, whole, atol=1e-6)
    flat = ReducedRankRegression().fit(da.from_array(X, chunks=9), da.from_array(Y[:, 0], chunks=9))
    lazy = flat.predict(da.from_array(X, chunks=(11, 4)))
    np.testing.assert_allclose(np.asarray(lazy), flat.predict(X))
    assert flat.predict(X).shape == (len(X),)


class Halves(SequentialBlocks):
    """Two blocks of rows that contain their targets."""

    def __init__(self, X, Y):
        super().__init__(X.shape[1], X.dtype, None)
        self.X, self.Y = X, Y

    def open_blocks(self, y, sample_weight, class_weight):
        return self

    def blocks(self):
        for rows in (slice(0, 25), slice(25, None)):
            yield self.X[rows], self.Y[rows], None


def test_a_source_of_blocks_equals_fit():
    X, Y = problem()
    for y in (Y, Y[:, 0]):
        model = ReducedRankRegression(rank=1).fit(Halves(X, y), None)
        assert_same(model, ReducedRankRegression(rank=1).fit(X, y))
        assert model.predict(X).shape == y.shape


def refits(model, X, Y, weights):
    """Predictions of each row by the model without it."""
    found = []
    for row in range(len(X)):
        rest = weights.copy()
        rest[np.all(X[row] == X, axis=1) & np.all(Y[row] == Y, axis=1)] = 0.0
        found.append(clone(model).fit(X, Y, rest).predict(X[[row]])[0])
    return np.array(found)


@pytest.mark.parametrize(
    ("shape", "weighted", "fit_intercept"),
    [("tall", True, True), ("wide", False, False), ("many targets", True, False)],
)
def test_leave_one_out_equals_refits(shape, weighted, fit_intercept):
    X, Y = problem(shape)
    weights = weights_of(Y) if weighted else np.ones(len(Y))
    for beta in (0.05, 5.0):
        for rank in range(1, min(X.shape[1], Y.shape[1]) + 1):
            search = ReducedRankRegressionCV(
                betas=[beta], ranks=[rank], fit_intercept=fit_intercept
            ).fit(X, Y, weights)
            model = ReducedRankRegression(beta=beta, rank=rank, fit_intercept=fit_intercept)
            expected = refits(model, X, Y, weights)
            np.testing.assert_allclose(search.loo_predictions_, expected, rtol=1e-9, atol=1e-9)
            kept = weights > 0
            score = r2_score(Y[kept], expected[kept], sample_weight=weights[kept])
            np.testing.assert_allclose(search.best_score_, score)


def test_leave_one_out_where_the_formula_fails():
    """Without a penalty a row may be alone in a direction; orthogonal targets have ties."""
    X, Y = problem("wide")
    lone = np.zeros((20, 3))
    lone[0, 0], lone[1:, 1:] = 1.0, np.random.default_rng(0).normal(size=(19, 2))
    tied = np.kron(np.eye(4), np.ones((5, 1)))
    for rows, targets, beta in (
        (X, Y, 0.0),
        (lone, Y[[0] * 20] * lone[:, :1], 0.0),
        (tied,) * 2 + (1.0,),
    ):
        for rank in (1, 2):
            search = ReducedRankRegressionCV(betas=[beta], ranks=[rank], scoring="r2").fit(
                rows, targets
            )
            model = ReducedRankRegression(beta=beta, rank=rank)
            expected = refits(model, rows, targets, np.ones(len(rows)))
            np.testing.assert_allclose(search.loo_predictions_, expected, atol=1e-7)


def test_one_search_gives_the_scores_of_separate_fits():
    X, Y = problem()
    grid = {"beta": [3.0, 0.1], "rank": [1, 2, 3, 4]}
    search = ReducedRankRegressionCV(betas=grid["beta"], cv=KFold(4)).fit(X, Y)
    slow = GridSearchCV(ReducedRankRegression(), grid, cv=KFold(4)).fit(X, Y)
    for name in ("mean_test_score", "split0_test_score", "std_test_score", "rank_test_score"):
        np.testing.assert_allclose(search.cv_results_[name], slow.cv_results_[name])
    assert search.best_params_ == slow.best_params_
    np.testing.assert_allclose(search.best_score_, slow.best_score_)
    np.testing.assert_allclose(search.predict(X), slow.predict(X))
    np.testing.assert_allclose(search.transform(X), slow.best_estimator_.transform(X))
    assert not hasattr(search, "loo_predictions_")
    ridge = RidgeCV([3.0, 0.1], scoring="neg_mean_squared_error").fit(X, Y)
    full = ReducedRankRegressionCV(
        betas=[3.0, 0.1], ranks=[4], scoring="neg_mean_squared_error"
    ).fit(X, Y)
    np.testing.assert_allclose(full.best_score_, ridge.best_score_)


def test_scorers_get_weights_if_they_take_them():
    X, Y = problem()
    weights = weights_of(Y)
    search = ReducedRankRegressionCV(scoring="neg_mean_absolute_error").fit(X, Y, weights)
    errors = np.abs(Y - search.loo_predictions_).mean(axis=1)
    np.testing.assert_allclose(search.best_score_, -np.average(errors, weights=weights))
    largest = make_scorer(max_error, greater_is_better=False)
    with pytest.warns(UserWarning, match="does not accept sample_weight"):
        ReducedRankRegressionCV(scoring=largest).fit(X, Y[:, 0], weights)


@pytest.mark.parametrize("rows", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", ["ReducedRankRegression", "ReducedRankRegressionCV"])
def test_model_files(tmp_path, name, rows):
    X, Y = problem()
    if name.endswith("CV"):
        rows = "fit"
    model = getattr(getattr(discreg, name)(), rows)(X, Y)
    save_model(model, tmp_path / "model.skops")
    read = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(read.predict(X), model.predict(X))
    np.testing.assert_array_equal(read.transform(X), model.transform(X))
    if rows == "partial_fit":
        assert_same(read.partial_fit(X, 2 * Y), model.partial_fit(X, 2 * Y))


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
    with pytest.raises(ValueError, match="each whole and from 1 to 4"):
        ReducedRankRegressionCV(ranks=[5]).fit(X, Y)
    with pytest.raises(ValueError, match="each not negative"):
        ReducedRankRegressionCV(betas=[-1.0]).fit(X, Y)
    model = ReducedRankRegression().partial_fit(X, Y)
    with pytest.raises(ValueError, match="the same number of targets"):
        model.partial_fit(X, Y[:, :2])
    with pytest.raises(ValueError, match="The other model was not fitted by partial_fit"):
        model.merge(ReducedRankRegression().fit(X, Y))
    with pytest.raises(ValueError, match="different features"):
        model.merge(ReducedRankRegression().partial_fit(X[:, :2], Y))
    with pytest.raises(TypeError, match="cannot be merged with a Ridge"):
        model.merge(Ridge())
    with pytest.warns(UserWarning, match="partial_fit starts a new model"):
        ReducedRankRegression().fit(X, Y).partial_fit(X, Y)


def test_a_reduced_rank_beats_ridge_where_the_signal_has_a_low_rank():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(560, 15))
        signal = X @ rng.normal(size=(15, 2)) @ rng.normal(size=(2, 20))
        Y = signal + 8 * rng.normal(size=signal.shape)
        search, full = (
            ReducedRankRegressionCV(ranks=ranks).fit(X[:60], Y[:60]) for ranks in (None, [15])
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
                    ReducedRankRegressionCV(betas=[0.0], scoring="neg_mean_squared_error"),
                    ReducedRankRegression(beta=0.0),
                )
            ]
            better += errors[0] < errors[1]
        assert better >= share * n_splits
