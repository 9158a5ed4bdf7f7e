"""SLRR: the convex optimum, the paper's iteration, zeros, and the certificate at a lower rank."""

import warnings

import numpy as np
import pytest
from low_rank_oracles import (
    by_restarts,
    centre,
    indicators,
    paper_coefficients,
    paper_reweighting,
    paper_solution,
    scatters,
    score_scale,
    sparse_objective,
    sparse_optimum,
)
from scipy import linalg, sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from discreg import LRLRClassifier, LRRRClassifier, SLRRClassifier, SLRRClassifierCV


def data(name):
    if name == "wide":
        rng = np.random.default_rng(0)
        y = np.arange(45) % 5
        X = rng.normal(size=(45, 120))
        X[:, :8] += 2 * rng.normal(size=(5, 8))[y]
        return X, y
    X, y = {"iris": load_iris, "wine": load_wine, "digits": load_digits}[name](return_X_y=True)
    X, y = (X[::6, 10:40], y[::6]) if name == "digits" else (X, y)
    return StandardScaler().fit_transform(X[:, X.std(axis=0) > 0]), y


def largest_beta(X, y):
    """The penalty above which no feature is left."""
    return 2 * np.linalg.norm(centre(X).T @ indicators(y), axis=1).max()


@pytest.mark.parametrize(
    ("name", "beta", "weighted"),
    [("iris", 0.05, True), ("wine", 0.5, False), ("digits", 0.5, True), ("wide", 0.05, False)],
)
def test_full_rank_is_the_convex_optimum(name, beta, weighted):
    X, y = data(name)
    weights = np.random.default_rng(1).uniform(0.3, 2.0, len(y)) if weighted else None
    model = SLRRClassifier(beta=beta, tol=1e-9, probability=False).fit(X, y, weights)
    centred, Y = centre(X, weights), indicators(y, weights)
    least, W = sparse_optimum(centred, Y, beta, weights)
    found = paper_coefficients(model, y, weights)
    reached = sparse_objective(centred, Y, found, beta, weights)
    assert abs(reached / least - 1) < 1e-6
    assert model.objective_history_[-1] == pytest.approx(reached, rel=1e-9)
    assert model.gap_ <= 1e-9
    assert (reached - least) / reached <= model.gap_ + 1e-8
    np.testing.assert_allclose(centred @ found, centred @ W, atol=1e-4)


@pytest.mark.parametrize(
    ("n_classes", "seed", "fraction"), [(2, 0, 1e-6), (3, 1, 1e-2), (4, 0, 1e-4)]
)
def test_small_penalties_of_many_correlated_features_reach_the_tolerance(n_classes, seed, fraction):
    random = np.random.default_rng(seed)
    X = random.standard_normal((40, 10)) @ random.standard_normal((10, 200))
    X += 0.1 * random.standard_normal(X.shape)
    y = np.arange(40) % n_classes
    beta = fraction * largest_beta(X, y)
    model = SLRRClassifier(beta=beta, tol=1e-8, probability=False).fit(
        X, y
    )  # a warning would be an error
    assert model.gap_ <= 1e-8
    W = paper_coefficients(model, y)
    reached = sparse_objective(centre(X), indicators(y), W, beta)
    assert model.objective_history_[-1] == pytest.approx(reached, rel=1e-9)
    # Small problems are solved to rounding: no correlation with the residuals exceeds beta / 2.
    R = indicators(y) - indicators(y).mean(axis=0) - centre(X) @ W
    steepest = 2 * np.linalg.norm(centre(X).T @ R, axis=1).max()
    assert steepest <= beta * (1 + 1e-4)


@pytest.mark.parametrize("name", ["wine", "wide"])
def test_rows_are_exactly_zero_or_used(name):
    X, y = data(name)
    model = SLRRClassifier(beta=1.0).fit(X, y)
    norms = np.linalg.norm(paper_coefficients(model, y), axis=1)
    unused = np.setdiff1d(np.arange(X.shape[1]), model.selected_features_)
    assert 0 < len(model.selected_features_) < X.shape[1]
    np.testing.assert_array_equal(norms[unused], 0.0)
    assert norms[model.selected_features_].min() > 1e-6 * norms.max()
    # The optimality conditions: 2‖x_j'R‖ is β for the used features and less for the others.
    centred = centre(X)
    slopes = 2 * np.linalg.norm(
        centred.T @ (indicators(y) - centred @ paper_coefficients(model, y)), axis=1
    )
    np.testing.assert_allclose(slopes[model.selected_features_], 1.0, rtol=1e-3)
    assert slopes[unused].max() <= 1.0 + 1e-3


@pytest.mark.parametrize("rank", [2, 5, 9])
def test_reweighting_is_algorithm_3(rank):
    """Coefficients after each iteration; by n × n for more features than samples."""
    for name in ("digits", "wide"):
        X, y = data(name)
        if rank > y.max():
            continue
        iterates = paper_reweighting(centre(X), y, rank, 0.2, 4)
        for n_iter, expected in enumerate(iterates, start=1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = SLRRClassifier(
                    rank=rank,
                    beta=0.2,
                    solver="reweighted",
                    stopping="change",
                    tol=0,
                    max_iter=n_iter,
                ).fit(X, y)
            assert model.n_iter_ == n_iter
            np.testing.assert_allclose(paper_coefficients(model, y), expected, atol=1e-8)


@pytest.mark.parametrize("rank", [3, 9])
def test_theorem_5_reweighting_never_increases_the_objective(rank):
    X, y = data("digits")
    model = SLRRClassifier(
        rank=rank, beta=0.3, solver="reweighted", stopping="change", tol=1e-5, max_iter=200
    ).fit(X, y)
    history = model.objective_history_
    assert np.all(np.diff(history) <= 1e-12)
    assert history[-2] - history[-1] <= 1e-5 * history[-1]
    assert model.n_iter_ < 200


def test_theorem_4_subspace_of_a_regularised_lda():
    """The columns of W are those of LDA with S_t + λD, D of the rows of W itself."""
    X, y = data("wide")
    X = X[:, :30]
    beta, rank = 0.3, 3
    model = SLRRClassifier(rank=rank, beta=beta, tol=1e-10, max_iter=5000).fit(X, y)
    used = model.selected_features_
    X = centre(X)[:, used]
    D = np.diag(1 / (2 * np.linalg.norm(paper_coefficients(model, y)[used], axis=1)))
    total, between = scatters(X, y)
    _, vectors = linalg.eigh(between, total + beta * D)
    sines = np.sin(linalg.subspace_angles(model.scalings_[used], vectors[:, ::-1][:, :rank]))
    assert sines.max() < 1e-3
    expected, _ = paper_solution(X, y, rank, beta * D)
    np.testing.assert_allclose(paper_coefficients(model, y)[used], expected, atol=1e-4)


def test_lemma_2_full_rank_is_in_the_subspace_of_regularised_lda():
    X, y = data("wine")
    beta = 0.5
    model = SLRRClassifier(beta=beta, tol=1e-11).fit(X, y)
    used = model.selected_features_
    X = centre(X)[:, used]
    D = np.diag(1 / (2 * np.linalg.norm(paper_coefficients(model, y)[used], axis=1)))
    total, between = scatters(X, y)
    _, vectors = linalg.eigh(between, total + beta * D)
    sines = np.sin(linalg.subspace_angles(model.scalings_[used], vectors[:, ::-1][:, : y.max()]))
    assert sines.max() < 1e-5


@pytest.mark.parametrize("rank", [1, 3])
def test_lower_rank_is_not_worse_than_the_best_of_8_restarts(rank):
    X, y = data("wide")
    X, Y, beta = centre(X)[:, :40], indicators(y), 0.3
    model = SLRRClassifier(rank=rank, beta=beta).fit(X, y)
    least = by_restarts(X, Y, rank, beta, 8, np.random.default_rng(0), n_iter=100)
    assert model.objective_history_[-1] <= 1.01 * least
    assert np.linalg.matrix_rank(model.coef_, tol=1e-10) == rank


def test_a_local_minimum_is_left_by_other_starts():
    """The directions of full rank alone end 1.2 % above what random ones find here."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 6
    X = rng.normal(size=(60, 500))
    X[:, :12] += 2 * rng.normal(size=(6, 12))[y]
    X, Y = centre(X), indicators(y)
    beta = 0.4 * np.linalg.norm(X.T @ Y, axis=1).max()
    model = SLRRClassifier(rank=1, beta=beta).fit(X, y)
    assert model.objective_history_[-1] <= 1.01 * by_restarts(X, Y, 1, beta, 20, rng, n_iter=60)


def test_certificate_at_a_lower_rank():
    """Neither other coefficients for the directions nor other directions are better by more."""
    X, y = data("digits")
    rng = np.random.default_rng(0)
    Y, centred, beta = indicators(y), centre(X), 0.2
    model = SLRRClassifier(rank=4, beta=beta, tol=1e-7, max_iter=5000).fit(X, y)
    assert model.gap_ <= 1e-7
    A, V = model.scalings_ / score_scale(y), model.directions_
    value = sparse_objective(centred, Y, A @ V.T, beta)
    assert value == pytest.approx(model.objective_history_[-1], rel=1e-10)
    least, _ = sparse_optimum(centred, Y @ V, beta)
    best_for_directions = least + np.sum(Y**2) - np.sum((Y @ V) ** 2)
    assert value - best_for_directions <= 1e-7 * value + 1e-9
    for _ in range(50):
        turned, _ = np.linalg.qr(V + 0.1 * rng.normal(size=V.shape))
        turned *= np.sign(np.sum(turned * V, axis=0))
        assert sparse_objective(centred, Y, A @ turned.T, beta) >= value * (1 - 1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_certificate_counts_what_other_directions_would_gain(seed):
    """For directions drawn at random and the best coefficients for them."""
    X, y = data("wine")
    V, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 1)))
    Y, centred, beta = indicators(y), centre(X), 0.2
    model = SLRRClassifier(rank=1, beta=beta)
    problem = model._problem(model._prepare(X, y, None), 1, beta)
    A = problem.lasso(V, tol=1e-12, max_iter=200, start=None).coef
    value, gap = problem.certify(A, V)
    assert value == pytest.approx(sparse_objective(centred, Y, A @ V.T, beta), rel=1e-10)
    left, _, right = np.linalg.svd(Y.T @ centred @ A, full_matrices=False)
    gain = value - sparse_objective(centred, Y, A @ (left @ right).T, beta)
    assert gain > 1e-3 * value
    assert gap * value == pytest.approx(gain, rel=1e-6)


def test_both_solvers_agree():
    X, y = data("digits")
    for rank in (None, 4):
        exact = SLRRClassifier(rank=rank, beta=0.3, tol=1e-8, max_iter=5000).fit(X, y)
        paper = SLRRClassifier(
            rank=rank, beta=0.3, solver="reweighted", stopping="change", tol=1e-10, max_iter=5000
        ).fit(X, y)
        assert paper.objective_history_[-1] == pytest.approx(exact.objective_history_[-1], rel=2e-3)
        assert exact.objective_history_[-1] <= paper.objective_history_[-1] * (1 + 1e-4)


@pytest.mark.parametrize("name", ["wine", "wide"])
def test_sparse_equals_dense(name):
    X, y = data(name)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    for model in (SLRRClassifier(tol=1e-9), SLRRClassifier(solver="reweighted", max_iter=20)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            dense = model.fit(X, y).decision_function(X)
            other = type(model)(**model.get_params()).fit(sparse.csr_array(X), y)
        np.testing.assert_allclose(other.decision_function(X), dense, atol=1e-4)


@pytest.mark.parametrize(("rank", "tolerance"), [(None, 1e-8), (1, 1e-6)])
def test_weights_are_copies(rank, tolerance):
    """At a lower rank the certificate is of second order: 1e-14 leaves the scores at 1e-7."""
    X, y = data("wine")
    copies = np.random.default_rng(0).integers(1, 4, size=len(y))
    weighted = SLRRClassifier(rank=rank).fit(X, y, sample_weight=copies)
    repeated = SLRRClassifier(rank=rank).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(
        repeated.decision_function(X), weighted.decision_function(X), atol=tolerance
    )


def test_selects_features_in_a_pipeline():
    X, y = data("wide")
    selector = SelectFromModel(SLRRClassifier(beta=2.0), threshold=1e-10)
    model = make_pipeline(selector, LRRRClassifier(beta=1.0)).fit(X, y)
    chosen = np.flatnonzero(model[0].get_support())
    np.testing.assert_array_equal(chosen, model[0].estimator_.selected_features_)
    assert len(set(range(8)) & set(chosen)) >= 6
    assert len(chosen) < 30
    assert model.score(X, y) > 0.95


def test_warm_start_begins_where_the_last_fit_ended():
    X, y = data("digits")
    model = SLRRClassifier(rank=4, beta=0.1, tol=1e-6, warm_start=True, max_iter=2000)
    first = model.fit(X, y).n_iter_
    assert first > 2
    assert model.fit(X, y).n_iter_ == 1
    model.set_params(rank=5).fit(X[:, :20], y)  # another shape is no start, and no error
    assert model.n_features_in_ == 20
    for rank in (None, 2):
        model.set_params(rank=rank).fit(X[y < 5], y[y < 5])
        model.fit(X, y)
        cold = SLRRClassifier(rank=rank, beta=0.1, tol=1e-6, max_iter=2000).fit(X, y)
        assert model.objective_history_[-1] <= cold.objective_history_[-1] * 1.001


def test_warm_start_far_away_is_certified_too():
    """Residuals that point away from the targets prove nothing."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 80)) + rng.normal(size=(3, 80))[y]
    model = SLRRClassifier(beta=0.1, warm_start=True).fit(X, y)
    model.fit(1.9 * X, y)
    cold = SLRRClassifier(beta=0.1).fit(1.9 * X, y)
    assert model.gap_ <= 1e-4
    assert model.objective_history_[-1] == pytest.approx(cold.objective_history_[-1], rel=1e-4)


@pytest.mark.filterwarnings("ignore:All coefficients are zero:UserWarning")
@pytest.mark.parametrize("rank", [1, 2])
def test_just_below_the_largest_penalty_something_is_left(rank):
    """Also along a path that begins above it."""
    X, y = data("digits")
    model = SLRRClassifier(rank=rank, warm_start=True, tol=1e-8, probability=False)
    most = largest_beta(X, y)
    model.set_params(beta=2 * most).fit(X, y)
    assert len(model.selected_features_) == 0
    for fraction in (0.99, 0.5):
        model.set_params(beta=fraction * most).fit(X, y)
        cold = SLRRClassifier(rank=rank, beta=fraction * most, tol=1e-8, probability=False)
        cold.fit(X, y)
        assert len(model.selected_features_) > 0
        assert len(cold.selected_features_) > 0
        values = model.objective_history_[-1], cold.objective_history_[-1]
        assert values[0] == pytest.approx(values[1], rel=0.01)


def test_near_copies_of_features_end():
    X, y = data("iris")
    X = np.hstack([X, X + 1e-6 * np.random.default_rng(0).normal(size=X.shape)])
    for beta in (0.1, 1.0):
        assert SLRRClassifier(beta=beta).fit(X, y).gap_ <= 1e-4


@pytest.mark.parametrize("name", ["wine", "wide"])
@pytest.mark.parametrize("solver", ["alternating", "reweighted"])
def test_without_a_penalty_it_is_lrlr(solver, name):
    X, y = data(name)
    for rank in (None, 1):
        model = SLRRClassifier(beta=0, rank=rank, solver=solver).fit(X, y)
        expected = LRLRClassifier(rank=rank).fit(X, y)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-9)
        assert model.gap_ <= 1e-14


def test_zero_tolerance_ends_with_rounding():
    X, y = data("wine")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        for rank in (None, 1):
            model = SLRRClassifier(beta=0.3, rank=rank, tol=0, probability=False).fit(X, y)
            assert model.gap_ < 1e-13
            assert model.n_iter_ < 500


def test_early_stop_is_said():
    X, y = data("digits")
    with pytest.warns(ConvergenceWarning, match="relative gap of"):
        SLRRClassifier(rank=3, beta=0.01, tol=1e-10, max_iter=2).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="solver='alternating'"):
        SLRRClassifier(solver="reweighted", tol=1e-10, max_iter=2).fit(X, y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SLRRClassifier(beta=-0.1), "'beta' parameter"),
        (SLRRClassifier(rank=5), "largest rank is 2"),
        (SLRRClassifier(solver="newton"), "'solver' parameter"),
        (SLRRClassifier(stopping="change"), "requires solver='reweighted'"),
        (SLRRClassifier(tol=-1), "'tol' parameter"),
        (SLRRClassifier(max_iter=0), "'max_iter' parameter"),
    ],
)
def test_bad_parameters_are_named(model, message):
    X, y = data("iris")
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_constant_and_duplicated_features():
    X, y = data("wine")
    plain = SLRRClassifier(beta=0.3).fit(X, y)
    more = SLRRClassifier(beta=0.3).fit(np.hstack([X, np.full((len(X), 2), 3.0), X[:, :1]]), y)
    np.testing.assert_allclose(
        more.decision_function(np.hstack([X, np.full((len(X), 2), 3.0), X[:, :1]])),
        plain.decision_function(X),
        atol=1e-5,
    )
    assert not set(more.selected_features_) & {X.shape[1], X.shape[1] + 1}
    constant = SLRRClassifier(probability=False).fit(np.ones((9, 2)), np.arange(9) % 3)
    assert len(constant.selected_features_) == 0


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_extreme_units(scale):
    X, y = data("wine")
    plain = SLRRClassifier(rank=1, beta=0.3).fit(X, y)
    scaled = SLRRClassifier(rank=1, beta=0.3 * scale).fit(X * scale, y)
    np.testing.assert_allclose(
        scaled.decision_function(X * scale), plain.decision_function(X), atol=1e-6
    )
    np.testing.assert_array_equal(scaled.selected_features_, plain.selected_features_)


@pytest.mark.parametrize("rank", [None, 1])
@pytest.mark.parametrize(
    ("size", "beta"), [(1.0, 1e-16), (1e20, 1.0)], ids=["tiny beta", "huge features"]
)
def test_a_solver_that_rounding_stops_says_so(size, beta, rank):
    """The penalty is below the rounding errors: the fit is that without a penalty, and warns."""
    random = np.random.RandomState(0)
    X = random.randn(150, 8)
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1] + 0.3 * random.randn(150), [-0.5, 0.5])
    model = SLRRClassifier(rank=rank, beta=beta)
    with pytest.warns(ConvergenceWarning, match=r"Rounding errors prevent.*Standardise") as caught:
        model.fit(size * X, y)
    assert len(caught) == 1
    assert model.gap_ > model.tol
    unpenalised = SLRRClassifier(rank=rank, beta=0).fit(size * X, y)
    expected = unpenalised.decision_function(size * X)
    np.testing.assert_allclose(model.decision_function(size * X), expected, atol=1e-6)


def test_features_far_from_zero_without_an_intercept_do_not_hang():
    random = np.random.RandomState(0)
    X = random.randn(60, 5) + 1e8
    y = random.randint(3, size=60)
    search = SLRRClassifierCV(
        SLRRClassifier(fit_intercept=False, max_iter=100, probability=False),
        betas=[1.0],
        ranks=[2],
        cv=2,
    )
    with pytest.warns(ConvergenceWarning):
        search.fit(X, y)


def test_the_objective_counts_class_weights():
    """Rows have the weights of their classes; the targets 1/√n_j do not change."""
    X, y = load_iris(return_X_y=True)
    weights = np.array([3.0, 1.0, 0.5])[y]
    model = SLRRClassifier(beta=0.3, class_weight={0: 3.0, 1: 1.0, 2: 0.5}, tol=1e-10).fit(X, y)
    W = model.coef_.T / np.sqrt(len(y) / 3)
    Y = np.eye(3)[y] / np.sqrt(np.bincount(y))
    residuals = Y - (X - np.average(X, axis=0, weights=weights)) @ W
    objective = weights @ np.sum(residuals**2, axis=1) + 0.3 * np.linalg.norm(W, axis=1).sum()
    assert model.objective_history_[-1] == pytest.approx(objective, rel=1e-12)
