"""LDM with C = ∞: the smallest norm, variance and mean whose margins are all at least 1."""

import numpy as np
import pytest
from margin_oracles import kernel_features, ldm_optimum
from scipy import sparse
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from discreg import LDMClassifier, LDMClassifierCV, load_model, save_model

INF = float("inf")
LAMBDAS = [(0.0, 0.0), (1000.0, 0.0), (1.0, 0.5), (0.0, 0.3), (10.0, 5.0)]
every_lambda = pytest.mark.parametrize(("lambda1", "lambda2"), LAMBDAS)
both_intercepts = pytest.mark.parametrize("fit_intercept", [True, False])


def separable(n_samples=70):
    """Setosa against the others."""
    X, y = load_iris(return_X_y=True)
    chosen = np.random.default_rng(0).permutation(len(y))[:n_samples]
    return scale(X)[chosen], (y == 0).astype(int)[chosen]


def overlapping(n_samples=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 3))
    return X, (X[:, 0] + rng.normal(size=n_samples) > 0).astype(int)


@every_lambda
@both_intercepts
@pytest.mark.parametrize(
    ("kernel", "solver", "weighted"),
    [
        ("linear", "auto", True),
        ("linear", "active_set", False),
        ("rbf", "dcd", True),
        ("precomputed", "auto", False),
    ],
)
def test_the_optimum_is_that_of_convex_programming(
    kernel, solver, weighted, lambda1, lambda2, fit_intercept
):
    X, y = separable()
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    K = rbf_kernel(X, gamma=0.3)
    rows = K if kernel == "precomputed" else X
    params = {"lambda1": lambda1, "lambda2": lambda2}
    model = LDMClassifier(
        C=INF, kernel=kernel, gamma=0.3, fit_intercept=fit_intercept, solver=solver, **params
    )
    model.set_params(probability=False).fit(rows, y, weights)
    F, signs = (X if kernel == "linear" else kernel_features(K)), 2.0 * y - 1
    best = ldm_optimum(F, signs, C=INF, weights=weights, fit_intercept=fit_intercept, **params)
    unit = model.objective_ + lambda2 * model.margins_.mean
    assert abs(model.objective_ - best.objective) <= best.gap + (model.gap_ + 1e-8) * unit
    assert model.gap_ <= 1e-8
    margins = signs * model.decision_function(rows)
    assert margins.min() >= 1 - 1e-9
    np.testing.assert_allclose(margins, signs * best.decision, atol=1e-4)


@every_lambda
def test_it_is_the_limit_of_soft_margins(lambda1, lambda2):
    X, y = separable()
    params = {"kernel": "linear", "lambda1": lambda1, "lambda2": lambda2, "probability": False}
    hard = LDMClassifier(C=INF, **params).fit(X, y)
    soft = LDMClassifier(C=1e8, **params).fit(X, y)
    np.testing.assert_allclose(hard.coef_, soft.coef_, atol=1e-8 * np.abs(soft.coef_).max())


def test_without_lambdas_it_is_the_hard_margin_svm():
    X, y = separable()
    hard = LDMClassifier(C=INF, lambda1=0, kernel="linear", probability=False).fit(X, y)
    svm = SVC(C=1e10, kernel="linear", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(hard.coef_, svm.coef_, rtol=1e-6)
    np.testing.assert_allclose(hard.intercept_, svm.intercept_, rtol=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weights_are_copies(kernel):
    X, y = separable()
    copies = np.random.default_rng(2).integers(0, 4, len(y))
    model = LDMClassifier(C=INF, kernel=kernel, gamma=0.3, lambda1=5.0, lambda2=0.2)
    scores, shares = [], []
    for data in ((X, y, copies), (np.repeat(X, copies, axis=0), np.repeat(y, copies))):
        model.fit(*data)
        scores.append(model.decision_function(X))
        shares.append(model.predict_proba(X))
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-9)
    np.testing.assert_allclose(shares[0], shares[1], atol=1e-7)


@pytest.mark.parametrize(
    ("lambda1", "lambda2", "fit_intercept"),
    [(10.0, 0.0, True), (10.0, 3.0, True), (0.0, 0.0, False), (1000.0, 0.0, False)],
)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_held_out_scores_are_those_of_hard_margins_without_the_sample(
    kernel, lambda1, lambda2, fit_intercept
):
    X, y = separable(40)
    params = {"C": INF, "kernel": kernel, "gamma": 0.3, "fit_intercept": fit_intercept}
    model = LDMClassifier(lambda1=lambda1, lambda2=lambda2, **params).fit(X, y)
    share = 1 - 1 / len(y)  # lambda1/m and lambda2/m stay what they are
    refit = LDMClassifier(
        lambda1=share * lambda1, lambda2=share * lambda2, probability=False, **params
    )
    expected = []
    for left in range(len(y)):
        others = np.arange(len(y)) != left
        expected += refit.fit(X[others], y[others]).decision_function(X[[left]]).tolist()
    np.testing.assert_allclose(model.loo_decision_function_, expected, atol=1e-7)
    assert model.loo_is_exact_


@pytest.mark.parametrize(
    ("lambda1", "fit_intercept", "spread"), [(10.0, True, 0.0), (0.0, False, 2.0)]
)
def test_held_out_scores_where_other_multipliers_grow_without_the_sample(
    lambda1, fit_intercept, spread
):
    """No limit of a multiplier may be seen; weights below 1 are left out as a whole."""
    rng = np.random.default_rng(13)
    X = rng.normal(size=(14, 2))
    y = (X[:, 0] > 0).astype(int)
    X[:, 0] += 0.1 * (2 * y - 1)
    weights = 10 ** rng.uniform(-spread, 0, len(y))
    params = {"C": INF, "kernel": "linear", "fit_intercept": fit_intercept}
    model = LDMClassifier(lambda1=lambda1, **params).fit(X, y, weights)
    for left, found in enumerate(model.loo_decision_function_):
        others = np.arange(len(y)) != left
        share = weights[others].sum() / weights.sum()
        refit = LDMClassifier(lambda1=share * lambda1, probability=False, **params)
        refit.fit(X[others], y[others], weights[others])
        assert found == pytest.approx(refit.decision_function(X[[left]])[0], abs=1e-7)


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e6])
def test_the_bound_of_the_margin_does_not_depend_on_the_origin(offset):
    X, y = overlapping()
    model = LDMClassifier(C=INF, kernel="linear")
    with pytest.raises(ValueError, match=r"No hyperplane .* has a margin above"):
        model.fit(X + offset, y)


def test_sparse_rows_float32_and_model_files(tmp_path):
    X, y = separable()
    dense = LDMClassifier(C=INF, kernel="linear").fit(X, y)
    rows = LDMClassifier(C=INF, kernel="linear").fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(rows.coef_, dense.coef_, atol=1e-10)
    single = LDMClassifier(C=INF, kernel="linear").fit(X.astype(np.float32), y)
    assert single.coef_.dtype == np.float32
    assert single.gap_ <= 1e-5
    np.testing.assert_allclose(single.coef_, dense.coef_, rtol=1e-5)
    save_model(dense, tmp_path / "model.skops")
    assert load_model(tmp_path / "model.skops").C == INF


def test_every_class_has_a_hard_margin():
    X, y = load_wine(return_X_y=True)
    model = LDMClassifier(C=INF, kernel="linear").fit(scale(X), y)
    np.testing.assert_allclose(model.margins_.minimum, 1.0, rtol=1e-9)
    assert model.score(scale(X), y) == 1.0
    assert model.gap_ <= 1e-9


def test_many_samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 5))
    y = (X[:, 0] > 0).astype(int)
    X[:, 0] += 0.2 * (2 * y - 1)
    for params in ({"kernel": "linear"}, {"gamma": 0.1, "lambda1": 0.0}, {"n_components": 30}):
        model = LDMClassifier(C=INF, random_state=0, probability=False, **params).fit(X, y)
        assert model.gap_ <= 1e-3
        assert model.margins_.minimum >= 1 - 1e-9


def test_a_warm_start_leads_to_the_same_model():
    X, y = separable()
    warm = LDMClassifier(C=INF, lambda1=10.0, warm_start=True, gamma=0.3).fit(X, y)
    warm.set_params(lambda1=1.0).fit(X, y)
    cold = LDMClassifier(C=INF, lambda1=1.0, gamma=0.3).fit(X, y)
    np.testing.assert_allclose(warm.decision_function(X), cold.decision_function(X), atol=1e-8)


# Classes that cannot be separated -----------------------------------------------------------------


@both_intercepts
@pytest.mark.parametrize(("lambda1", "lambda2"), [(0.0, 0.0), (1000.0, 0.0), (1.0, 0.5)])
@pytest.mark.parametrize("solver", ["dcd", "active_set"])
def test_overlapping_classes_are_refused(solver, lambda1, lambda2, fit_intercept):
    X, y = overlapping()
    labels = np.array(["no", "yes"])[y]
    model = LDMClassifier(C=INF, kernel="linear", lambda1=lambda1, lambda2=lambda2, solver=solver)
    model.set_params(fit_intercept=fit_intercept)
    with pytest.raises(ValueError, match=r"C=inf needs classes .*'yes'.* use a finite C"):
        model.fit(X, labels)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_equal_samples_of_different_classes_are_refused(kernel):
    X, y = separable()
    X, y = np.vstack([X, X[:1]]), np.append(y, 1 - y[0])
    with pytest.raises(ValueError, match="C=inf needs classes that can be separated"):
        LDMClassifier(C=INF, kernel=kernel).fit(X, y)


def test_without_an_intercept_the_hyperplane_contains_the_origin():
    X, y = np.array([[1.0], [2.0], [5.0], [6.0]]), np.array([0, 0, 1, 1])
    model = LDMClassifier(C=INF, lambda1=0.0, kernel="linear", probability=False)
    np.testing.assert_allclose(model.fit(X, y).coef_, [[2 / 3]])
    with pytest.raises(ValueError, match="No hyperplane through the origin"):
        model.set_params(fit_intercept=False).fit(X, y)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5])
def test_a_small_margin_far_from_the_origin_is_found(offset):
    X, y = np.array([[0.0], [1.0], [1.01], [2.0]]) + offset, np.array([0, 0, 1, 1])
    model = LDMClassifier(C=INF, lambda1=0.0, kernel="linear", probability=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, [[200.0]], rtol=1e-6)


@pytest.mark.parametrize(("lambda1", "lambda2"), [(0.0, 0.0), (1.0, 0.0), (1e3, 0.0), (1e3, 0.5)])
@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
@pytest.mark.parametrize("distance", [1e-3, 1e-4, 1e-5])
def test_the_gap_bounds_the_error_of_small_margins(distance, kernel, lambda1, lambda2):
    X, y = np.array([[0.0], [1.0], [1.0 + distance], [2.0]]), np.array([0, 0, 1, 1])
    model = LDMClassifier(C=INF, lambda1=lambda1, lambda2=lambda2, kernel=kernel, random_state=0)
    model.set_params(probability=False).fit(X if kernel == "linear" else X @ X.T, y)
    gap, slope = X[2, 0] - X[1, 0], 2 / (X[2, 0] - X[1, 0])
    margins = slope * np.abs(X[:, 0] - 1 - gap / 2)
    best = slope**2 / 2 + lambda1 * margins.var() - lambda2 * margins.mean()
    rounding = 1e-9 if kernel == "linear" else 1e-15 / distance**2  # that of X @ X.T
    assert model.gap_ <= 1e-5
    assert best * (1 - rounding) <= model.objective_ <= best * (1 + model.gap_ + rounding)
    assert model.margins_.minimum == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
def test_margins_that_are_lost_to_rounding_are_refused(kernel, seed):
    X, y = np.array([[0.0], [1.0], [1.0 + 1e-7], [2.0]]), np.array([0, 0, 1, 1])
    model = LDMClassifier(C=INF, kernel=kernel, probability=False, random_state=seed)
    with pytest.raises(ValueError, match=r"No hyperplane .* has a margin above"):
        model.fit(X if kernel == "linear" else X @ X.T, y)


def test_a_margin_below_the_digits_of_float32_is_refused():
    X = np.array([[1e4], [1e4 + 1], [1e4 + 1 + 2**-10], [1e4 + 2]])
    y = np.array([0, 0, 1, 1])
    model = LDMClassifier(C=INF, lambda1=0.0, kernel="linear", probability=False)
    assert model.fit(X, y).margins_.minimum >= 1 - 1e-6
    with pytest.raises(ValueError, match=r"rounding the coefficients to float32 .* float64"):
        model.fit(X.astype(np.float32), y)


def test_the_class_that_overlaps_is_named():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="between class 1 and the others"):
        LDMClassifier(C=INF, kernel="linear").fit(scale(X), y)


def test_too_few_iterations_are_named():
    X, y = overlapping()
    model = LDMClassifier(C=INF, kernel="linear", solver="dcd", max_iter=1)
    with pytest.raises(ValueError, match=r"C=inf needs classes that can be separated"):
        model.fit(X, y)


def test_what_needs_a_finite_cost_says_so():
    X, y = separable()
    with pytest.raises(ValueError, match=r"C=inf .* needs a finite C"):
        LDMClassifier(C=INF, kernel="linear", solver="svrg").fit(X, y)
    with pytest.raises(ValueError, match="Cs must hold one or more finite numbers"):
        LDMClassifierCV(Cs=[1.0, INF]).fit(X, y)
    with pytest.raises(ValueError, match=r"'C' parameter .* in \(0, inf\]"):
        LDMClassifier(C=-INF).fit(X, y)
