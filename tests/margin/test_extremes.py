"""Fits with very large or small features, weights and penalties: right, or refused in words."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from discreg import LDMClassifier, LSRClassifier, ODMClassifier

every_model = pytest.mark.parametrize("model", [ODMClassifier, LDMClassifier])
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


def two_classes(n_samples=120, n_features=4, seed=0):
    random = np.random.RandomState(seed)
    X = random.randn(n_samples, n_features)
    return X, (X[:, 0] + 0.5 * random.randn(n_samples) > 0).astype(int)


@every_model
@with_and_without_intercept
@pytest.mark.parametrize("mean", [30, 100, 1000, 10_000])
def test_polynomial_kernel_of_features_far_from_zero(model, fit_intercept, mean):
    random = np.random.RandomState(0)
    X, X_test = random.normal(mean, 1, (100, 2)), random.normal(mean, 1, (1000, 2))
    fitted = model(probability=False, kernel="poly", fit_intercept=fit_intercept).fit(
        X, X[:, 0] > X[:, 1]
    )
    assert fitted.gap_ <= 1e-3
    assert fitted.score(X, X[:, 0] > X[:, 1]) >= 0.98
    assert fitted.score(X_test, X_test[:, 0] > X_test[:, 1]) >= 0.95


@with_and_without_intercept
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_integer_weights_of_ldm_are_copies_to_rounding(kernel, fit_intercept):
    X, y = two_classes(60)
    weights = np.random.RandomState(1).randint(0, 4, 60)
    model = LDMClassifier(
        probability=False, kernel=kernel, gamma=0.3, fit_intercept=fit_intercept, random_state=0
    )
    weighted = model.fit(X, y, sample_weight=weights).decision_function(X)
    copied = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).decision_function(X)
    np.testing.assert_allclose(weighted, copied, rtol=0, atol=1e-9)


@pytest.mark.parametrize("model", [ODMClassifier, LDMClassifier, LSRClassifier])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "cosine", "laplacian"])
def test_features_whose_squares_underflow_are_refused(model, kernel):
    X, y = two_classes()
    with pytest.raises(ValueError, match=r"underflow.*Scale the features"):
        model(probability=False, kernel=kernel).fit(X * 1e-170, y)


@every_model
def test_scores_that_overflow_are_refused(model):
    X, y = two_classes()
    fitted = model(probability=False, kernel="poly").fit(X, y)
    with pytest.raises(ValueError, match=r"overflow.*Scale the features as in training"):
        fitted.predict(X * 1e120)


@pytest.mark.parametrize(
    ("model", "params"),
    [(ODMClassifier, {"C1": 30.0, "C2": 10.0}), (LDMClassifier, {"C": 30.0, "lambda1": 3.0})],
)
@with_and_without_intercept
def test_svrg_reports_its_own_result(model, params, fit_intercept):
    """More epochs give another solution with a smaller gap; a gap above tol gives a warning."""
    X, y = two_classes()
    params |= {"kernel": "linear", "fit_intercept": fit_intercept, "random_state": 0}
    best = model(probability=False, **params).fit(X, y)
    gaps = []
    for max_iter in (1, 3, 6):
        short = model(
            probability=False, **params, solver="svrg", svrg_step=0.5, tol=1e-25, max_iter=max_iter
        )
        with pytest.warns(
            ConvergenceWarning, match=f"after {max_iter} iterations of solver='svrg'"
        ):
            short.fit(X, y)
        assert (short.solver_, short.n_iter_) == ("svrg", max_iter)
        assert short.objective_ > best.objective_
        assert short.objective_ - best.objective_ <= 1.001 * short.gap_ * short.objective_
        gaps.append(short.gap_)
    assert gaps[0] > gaps[1] > gaps[2] > 0


@every_model
def test_a_fit_that_rounding_ends_says_so(model):
    X, y = two_classes()
    params = {
        ODMClassifier: {"C1": 1e90, "C2": 1e90, "kernel": "linear", "solver": "newton"},
        LDMClassifier: {"C": 1e90, "solver": "dcd", "random_state": 0},
    }[model]
    for tol in (0, 1e-3):
        fitted = model(probability=False, tol=tol, max_iter=100_000, **params)
        with pytest.warns(ConvergenceWarning, match=r"Rounding errors prevent.*Scale the features"):
            fitted.fit(X, y)
        assert fitted.n_iter_ < 100_000
        assert 1e-3 < fitted.gap_ <= 1


@pytest.mark.parametrize(
    ("model", "solver"),
    [
        (ODMClassifier, "dcd"),
        (ODMClassifier, "newton"),
        (ODMClassifier, "svrg"),
        (LDMClassifier, "dcd"),
        (LDMClassifier, "svrg"),
    ],
)
@with_and_without_intercept
def test_a_fit_that_max_iter_ends_says_so(model, solver, fit_intercept):
    X, y = two_classes(1_100)
    kernel = "rbf" if solver == "dcd" else "linear"
    params = {"kernel": kernel, "fit_intercept": fit_intercept, "solver": solver}
    short = model(probability=False, **params, tol=1e-12, max_iter=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="after 2 iterations.*ncrease max_iter or tol"):
        short.fit(X, y)


def random_problem(seed):
    """A model, rows, labels and weights, with scales and penalties of all sizes."""
    random = np.random.RandomState(seed)
    n_samples = random.randint(8, 40)
    X = random.randn(n_samples, random.randint(1, 6)) * 10.0 ** random.uniform(-140, 140)
    y = np.arange(n_samples) % random.randint(2, 4)
    weights = [None, 10.0 ** random.uniform(-90, 90, n_samples)][random.randint(2)]
    kernel = str(random.choice(["linear", "rbf", "poly", "cosine"]))
    params = {
        "kernel": kernel,
        "fit_intercept": bool(random.randint(2)),
        "tol": float(random.choice([0, 1e-3])),
        "max_iter": int(random.choice([1, 100])),
        "random_state": 0,
    }
    costs = 10.0 ** random.uniform(-100, 100, 3)
    if random.randint(2):
        solvers = ["auto", "dcd", *["newton", "svrg"] * (kernel == "linear")]
        params |= {"C1": costs[0], "C2": costs[1], "solver": str(random.choice(solvers))}
        return ODMClassifier(**params), X, y, weights
    solvers = ["auto", "dcd", *["svrg"] * (kernel == "linear")]
    params |= {"C": costs[0], "lambda1": costs[1], "solver": str(random.choice(solvers))}
    return LDMClassifier(**params), X, y, weights


def test_extreme_fits_are_finite_or_refused_without_warnings_of_numpy():
    refused = []
    for seed in range(60):
        model, X, y, weights = random_problem(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # all others are errors
            warnings.filterwarnings("ignore", "Class.* only one distinct row", UserWarning)
            warnings.filterwarnings("ignore", ".*have no held-out scores", UserWarning)
            warnings.filterwarnings("ignore", "The held-out scores .* worse than", UserWarning)
            try:
                scores = model.fit(X, y, sample_weight=weights).decision_function(X)
            except ValueError as error:
                refused.append(str(error).lower())
                continue
        assert np.isfinite(scores).all()
        assert np.isfinite(model.predict_proba(X)).all()
        assert 0 <= model.gap_ < np.inf
    assert len(refused) < 30
    assert all("scale the features" in message for message in refused)
