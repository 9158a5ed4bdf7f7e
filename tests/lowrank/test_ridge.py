"""LRLR and LRRR: the paper's theorems, its own solution, and optimality at every rank."""

import numpy as np
import pytest
from low_rank_oracles import (
    centre,
    indicators,
    objective,
    paper_coefficients,
    paper_solution,
    scatters,
    score_scale,
)
from scipy import linalg, sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from discreg import LRLRClassifier, LRRRClassifier


def data(name):
    if name == "wide":
        rng = np.random.default_rng(0)
        y = np.arange(40) % 5
        return rng.normal(size=(40, 90)) + 2 * rng.normal(size=(5, 90))[y], y
    X, y = {"iris": load_iris, "wine": load_wine, "digits": load_digits}[name](return_X_y=True)
    X, y = (X[::4], y[::4]) if name == "digits" else (X, y)
    return StandardScaler().fit_transform(X[:, X.std(axis=0) > 0]), y


def angles(A, B):
    """Sines of the angles between two column spaces."""
    return np.sin(linalg.subspace_angles(A, B))


@pytest.mark.parametrize("beta", [0.3, 30.0])
@pytest.mark.parametrize("name", ["iris", "wine", "digits", "wide"])
def test_lrrr_is_the_papers_solution_at_every_rank(name, beta):
    """Algorithm 2, by generalised eigenvectors of d × d matrices."""
    X, y = data(name)
    centred = centre(X)
    for rank in range(1, min(y.max(), X.shape[1]) + 1):
        model = LRRRClassifier(rank=rank, beta=beta).fit(X, y)
        expected, _ = paper_solution(centred, y, rank, beta * np.eye(X.shape[1]))
        np.testing.assert_allclose(paper_coefficients(model, y), expected, atol=1e-9)
        assert np.linalg.matrix_rank(model.coef_) == rank
        np.testing.assert_allclose(model.coef_, model.directions_ @ model.scalings_.T)
        np.testing.assert_allclose(model.intercept_, -model.coef_ @ X.mean(axis=0), atol=1e-8)


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_lrlr_is_the_papers_solution_at_every_rank(name):
    """Algorithm 1, where the scatter is regular and the eigenvalues differ."""
    X, y = data(name)
    for rank in range(1, y.max() + 1):
        model = LRLRClassifier(rank=rank).fit(X, y)
        expected, _ = paper_solution(centre(X), y, rank, np.zeros((X.shape[1], X.shape[1])))
        np.testing.assert_allclose(paper_coefficients(model, y), expected, atol=1e-9)


@pytest.mark.parametrize("beta", [0.0, 0.5, 20.0])
@pytest.mark.parametrize("name", ["iris", "digits"])
def test_no_coefficients_of_the_rank_are_better(name, beta):
    """Alternating least squares over A and B from many starts finds nothing below."""
    X, y = data(name)
    X = centre(X)[:, :20]
    Y = indicators(y)
    rng = np.random.default_rng(0)
    ridge = X.T @ X + (beta + 1e-12) * np.eye(X.shape[1])
    for rank in {1, y.max() // 2 + 1}:
        model = LRRRClassifier(rank=rank, beta=beta).fit(X, y)
        reached = objective(X, Y, paper_coefficients(model, y), beta)
        for _ in range(5):
            B = rng.normal(size=(rank, Y.shape[1]))
            for _ in range(100):
                A = np.linalg.solve(ridge, X.T @ Y @ np.linalg.pinv(B))
                B = np.linalg.solve(A.T @ ridge @ A, A.T @ X.T @ Y)
            assert reached <= objective(X, Y, A @ B, beta) * (1 + 1e-10)


@pytest.mark.parametrize("name", ["iris", "wine", "digits"])
def test_theorem_1_subspace_of_lda(name):
    """LRLR projects onto the leading directions of linear discriminant analysis."""
    X, y = data(name)
    lda = LinearDiscriminantAnalysis(solver="svd").fit(X, y)
    ranks = {1, y.max() // 2 + 1, y.max()}
    for rank in ranks:
        model = LRLRClassifier(rank=rank).fit(X, y)
        assert angles(model.scalings_, lda.scalings_[:, :rank]).max() < 1e-6


@pytest.mark.parametrize("model", [LRLRClassifier, LRRRClassifier])
def test_theorem_2_centred_indicators_change_nothing(model):
    """The moments XᵀY that the solution depends on are the same, so is the optimum."""
    X, y = data("wine")
    fitted = model(rank=1).fit(X, y)
    beta = getattr(fitted, "beta", 0.0)
    centred, Y = centre(X), indicators(y)
    np.testing.assert_allclose(centred.T @ centre(Y), centred.T @ Y, atol=1e-12)
    full = np.linalg.solve(centred.T @ centred + beta * np.eye(X.shape[1]), centred.T @ centre(Y))
    _, V = np.linalg.eigh(centre(Y).T @ centred @ full)
    expected = full @ np.outer(V[:, -1], V[:, -1])
    np.testing.assert_allclose(paper_coefficients(fitted, y), expected, atol=1e-9)


@pytest.mark.parametrize("name", ["iris", "digits", "wide"])
def test_theorem_3_subspace_of_regularised_lda(name):
    """LRRR projects onto the leading eigenvectors of (S_t + βI)⁻¹S_b, in their order."""
    X, y = data(name)
    total, between = scatters(centre(X), y)
    for beta in (0.1, 10.0):
        values, vectors = linalg.eigh(between, total + beta * np.eye(X.shape[1]))
        for rank in {1, y.max()}:
            model = LRRRClassifier(rank=rank, beta=beta).fit(X, y)
            assert angles(model.scalings_, vectors[:, ::-1][:, :rank]).max() < 1e-6
            np.testing.assert_allclose(model.eigenvalues_, values[::-1][:rank], atol=1e-10)


@pytest.mark.parametrize("name", ["wine", "wide"])
def test_subspace_of_shrinkage_lda(name):
    """scikit-learn's shrunk covariance is S_w + βI up to a factor, and S_b is what S_t adds."""
    X, y = data(name)
    shrinkage = 0.1
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(X, y)
    total, between = scatters(centre(X), y)
    beta = shrinkage / (1 - shrinkage) * np.trace(total - between) / X.shape[1]
    model = LRRRClassifier(beta=beta).fit(X, y)
    assert angles(model.scalings_, (lda.coef_[1:] - lda.coef_[0]).T).max() < 1e-6


@pytest.mark.parametrize("name", ["iris", "digits"])
def test_lemma_1_full_rank_is_ridge_regression(name):
    """Ridge regression onto the indicators, whose columns are in regularised LDA's space."""
    X, y = data(name)
    beta = 3.0
    model = LRRRClassifier(beta=beta).fit(X, y)
    centred = centre(X)
    ridge = np.linalg.solve(
        centred.T @ centred + beta * np.eye(X.shape[1]), centred.T @ indicators(y)
    )
    np.testing.assert_allclose(paper_coefficients(model, y), ridge, atol=1e-9)
    _, subspace = paper_solution(centred, y, model.rank_, beta * np.eye(X.shape[1]))
    assert angles(ridge @ model.directions_, subspace).max() < 1e-6
    if name == "iris":  # classes of equal size: the targets of RidgeClassifier up to a scale
        peer = RidgeClassifier(alpha=beta).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), peer.predict(X))


def test_ties_are_broken_towards_the_least_norm():
    """All eigenvalues are 1 where the features can tell all samples apart: LRRR's limit."""
    X, y = data("wide")
    for rank in range(1, 5):
        model = LRLRClassifier(rank=rank).fit(X, y)
        np.testing.assert_allclose(model.eigenvalues_, 1.0)
        limit = LRRRClassifier(rank=rank, beta=1e-5).fit(X, y)
        np.testing.assert_allclose(model.coef_, limit.coef_, atol=1e-5 * np.abs(limit.coef_).max())


def test_singular_scatter_takes_the_pseudo_inverse():
    """Duplicated and constant features, and features of very different units."""
    X, y = data("wine")
    plain = LRLRClassifier(rank=1).fit(X, y)
    twice = LRLRClassifier(rank=1).fit(np.hstack([X, X, np.full((len(X), 1), 7.0)]), y)
    d = X.shape[1]
    np.testing.assert_allclose(twice.coef_[:, :d], plain.coef_ / 2, atol=1e-9)
    np.testing.assert_allclose(twice.coef_[:, d : 2 * d], plain.coef_ / 2, atol=1e-9)
    np.testing.assert_allclose(twice.coef_[:, -1], 0, atol=1e-12)
    units = 10.0 ** np.linspace(-6, 6, d)
    scaled = LRLRClassifier(rank=1).fit(X * units, y)
    np.testing.assert_allclose(scaled.coef_ * units, plain.coef_, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["wine", "wide"])
@pytest.mark.parametrize(
    "model", [LRLRClassifier(), LRLRClassifier(rank=2), LRRRClassifier(rank=2)]
)
def test_linear_kernel_is_linear(model, name):
    X, y = data(name)
    linear = model.fit(X, y)
    scores, projected = linear.decision_function(X), linear.transform(X)
    kernel = type(model)(**(model.get_params() | {"kernel": "precomputed"})).fit(X @ X.T, y)
    np.testing.assert_allclose(kernel.decision_function(X @ X.T), scores, atol=1e-7)
    np.testing.assert_allclose(np.abs(kernel.transform(X @ X.T)), np.abs(projected), atol=1e-7)


def test_kernel_versions_solve_the_dual_form():
    """W = Φᵀ(HKH + βI)⁻¹Y at full rank, the projection of it below."""
    X, y = data("iris")
    beta, gamma = 0.2, 0.3
    K = rbf_kernel(X, gamma=gamma)
    H = np.eye(len(X)) - 1 / len(X)
    Y = indicators(y)
    centred = H @ K @ H
    dual = np.linalg.solve(centred + beta * np.eye(len(X)), Y)
    _, V = np.linalg.eigh(Y.T @ centred @ dual)
    for rank in (1, 2):
        top = V[:, ::-1][:, :rank]
        model = LRRRClassifier(rank=rank, beta=beta, kernel="rbf", gamma=gamma).fit(X, y)
        expected = score_scale(y) * centred @ dual @ top @ top.T
        np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", ["wine", "wide"])
def test_sparse_equals_dense(name, fit_intercept):
    X, y = data(name)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    for model in (LRLRClassifier(fit_intercept=fit_intercept), LRRRClassifier(rank=2)):
        dense = model.fit(X, y).decision_function(X)
        for kind in (sparse.csr_array, sparse.csr_matrix):
            other = type(model)(**model.get_params()).fit(kind(X), y)
            np.testing.assert_allclose(other.decision_function(kind(X)), dense, atol=1e-8)
            np.testing.assert_allclose(other.transform(kind(X)), other.transform(X), atol=1e-8)


def test_without_centring_the_rank_is_that_of_the_classes():
    X, y = data("wine")
    model = LRRRClassifier(beta=1.0, fit_intercept=False).fit(X + 1, y)
    assert model.rank_ == 3
    np.testing.assert_array_equal(model.intercept_, 0)
    expected, _ = paper_solution(X + 1, y, 3, np.eye(X.shape[1]))
    np.testing.assert_allclose(paper_coefficients(model, y), expected, atol=1e-9)
    with pytest.raises(ValueError, match="largest rank is 3"):
        LRRRClassifier(fit_intercept=False, rank=4).fit(X, y)


@pytest.mark.parametrize("model", [LRLRClassifier(rank=1), LRRRClassifier(rank=2, beta=0.5)])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 0.5}])
def test_weights_are_copies(model, class_weight):
    X, y = data("wine")
    model.set_params(class_weight=class_weight)
    copies = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = model.fit(X, y, sample_weight=copies)
    scores = weighted.decision_function(X)
    repeated = type(model)(**model.get_params()).fit(
        np.repeat(X, copies, axis=0), np.repeat(y, copies)
    )
    np.testing.assert_allclose(repeated.decision_function(X), scores, rtol=1e-7, atol=1e-10)


def test_weights_are_copies_on_wide_data():
    X, y = data("wide")
    copies = np.random.default_rng(1).integers(1, 4, size=len(y))
    for model in (LRLRClassifier(), LRRRClassifier(rank=2)):
        weighted = model.fit(X, y, sample_weight=copies).decision_function(X)
        repeated = type(model)(**model.get_params()).fit(
            np.repeat(X, copies, axis=0), np.repeat(y, copies)
        )
        np.testing.assert_allclose(repeated.decision_function(X), weighted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("class_weight", [None, {"b": 3.0}])
@pytest.mark.parametrize("name", ["digits", "wide"])
def test_rank_path_is_every_fit(name, class_weight):
    """Coefficients, intercepts, scores, labels and accuracies of all ranks from one fit."""
    X, y = data(name)
    labels = np.array(list("abcdefghij"))[y]
    model = LRRRClassifier(beta=2.0, rank=2, class_weight=class_weight)
    path = model.rank_path(X[::2], labels[::2])
    np.testing.assert_array_equal(path.ranks, np.arange(1, y.max() + 1))
    scores, predicted = path.decision_function(X), path.predict(X)
    accuracies = path.score(X, labels)
    for rank in path.ranks:
        model.set_params(rank=rank).fit(X[::2], labels[::2])
        np.testing.assert_allclose(path.coef(rank), model.coef_, atol=1e-12)
        np.testing.assert_allclose(path.intercept(rank), model.intercept_, atol=1e-12)
        np.testing.assert_allclose(scores[rank - 1], model.decision_function(X), atol=1e-10)
        np.testing.assert_array_equal(predicted[rank - 1], model.predict(X))
        assert accuracies[rank - 1] == model.score(X, labels)
    weights = np.arange(len(y))
    np.testing.assert_allclose(
        path.score(X, labels, sample_weight=weights)[0],
        np.average(predicted[0] == labels, weights=weights),
    )
    with pytest.raises(ValueError, match="rank must be one of"):
        path.coef(len(path.ranks) + 1)


def test_two_classes_have_one_direction():
    X, y = data("wine")
    X, y = X[y < 2], np.array(["no", "yes"])[y[y < 2]]
    model = LRRRClassifier().fit(X, y)
    assert model.coef_.shape == (1, X.shape[1])
    assert model.decision_function(X).shape == (len(X),)
    np.testing.assert_allclose(
        model.decision_function(X), model.transform(X)[:, 0] * np.diff(model.directions_[:, 0])
    )
    with pytest.raises(ValueError, match="largest rank is 1"):
        LRRRClassifier(rank=2).fit(X, y)


def test_transform_keeps_the_type_and_names_its_columns():
    X, y = data("iris")
    model = LRRRClassifier(rank=2).fit(X.astype(np.float32), y)
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    assert model.coef_.dtype == model.scalings_.dtype == np.float32
    frame = LRRRClassifier(rank=2).set_output(transform="pandas").fit(X, y).transform(X)
    assert list(frame.columns) == ["lrrrclassifier0", "lrrrclassifier1"]
    projected = model.transform(X)
    np.testing.assert_allclose(projected.mean(axis=0), 0, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LRRRClassifier(rank=0), "'rank' parameter"),
        (LRRRClassifier(rank=1.5), "'rank' parameter"),
        (LRRRClassifier(rank=3), "largest rank is 2"),
        (LRLRClassifier(rank=3, kernel="rbf"), "largest rank is 2"),
        (LRRRClassifier(beta=-1), "'beta' parameter"),
        (LRRRClassifier(beta=np.nan), "'beta' parameter"),
        (LRRRClassifier(kernel="unknown"), "'kernel' parameter"),
    ],
)
def test_bad_parameters_are_named(model, message):
    X, y = data("iris")
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_rank_is_bounded_by_the_features_too():
    X, y = data("digits")
    with pytest.raises(ValueError, match="3 features the largest rank is 3"):
        LRRRClassifier(rank=4).fit(X[:, 10:13], y)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_extreme_units(scale):
    """The projection of LRLR does not depend on units; LRRR's penalty has the units of X²."""
    X, y = data("wine")
    plain = LRLRClassifier(rank=1).fit(X, y).decision_function(X)
    np.testing.assert_allclose(
        LRLRClassifier(rank=1).fit(X * scale, y).decision_function(X * scale), plain, atol=1e-8
    )
    plain = LRRRClassifier(rank=1, beta=2.0).fit(X, y).decision_function(X)
    scaled = LRRRClassifier(rank=1, beta=2.0 * scale**2).fit(X * scale, y)
    np.testing.assert_allclose(scaled.decision_function(X * scale), plain, atol=1e-8)


def test_constant_features_only():
    X, y = np.ones((12, 3)), np.arange(12) % 3
    for model in (LRLRClassifier(), LRRRClassifier(rank=1)):
        scores = model.set_params(probability=False).fit(X, y).decision_function(X)
        np.testing.assert_array_equal(scores, 0)


@pytest.mark.parametrize("model", [LRLRClassifier, LRRRClassifier])
def test_heavier_classes_win_more_often(model):
    """The say of class weights in the decision; equal weights have none."""
    X, y = data("iris")
    X = X[:, :2]
    predicted = [
        np.mean(model(class_weight={1: weight}).fit(X, y).predict(X) == 1)
        for weight in (0.1, 1, 10)
    ]
    assert predicted[0] < predicted[1] < predicted[2]
    plain = model().fit(X, y).decision_function(X)
    equal = model(class_weight=dict.fromkeys(range(3), 1.0)).fit(X, y).decision_function(X)
    np.testing.assert_allclose(equal, plain, atol=1e-12)
