"""Section 4.2 of the ODM paper: unbiased gradients, their descent, and the certificates of both."""

import cvxpy as cp
import numpy as np
import pytest
from products import every_value
from scipy import sparse

from discreg import LDMClassifier, ODMClassifier
from discreg.margin._dual import SolverOptions
from discreg.margin._losses import MarginLoss
from discreg.margin._problem import BinaryProblem, MarginSamples
from discreg.margin._svrg import _balance, svrg

ODM = {"C1": 5.0, "C2": 2.0, "D": 0.2}
LDM = {"C": 3.0, "lambda1": 0.7, "lambda2": 0.4}
LDM_KINDS = [LDM, {**LDM, "lambda1": 0.0}, {**LDM, "lambda2": 0.0}, {**LDM, "C": 30.0}]
both_intercepts = pytest.mark.parametrize("fit_intercept", [True, False])
both_weights = pytest.mark.parametrize("weighted", [True, False])


def problem(weighted=True, n_samples=60, n_features=5, seed=0):
    """Noisy labels of a linear rule; half of the features are far from zero, some entries are."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features)) + np.arange(n_features) % 2
    X[rng.random(X.shape) < 0.4] = 0.0
    y = np.where(X[:, 0] + X[:, 1] - 0.3 + rng.normal(size=n_samples) > 0, 1.0, -1.0)
    weights = rng.integers(1, 4, size=n_samples) / 2 if weighted else np.ones(n_samples)
    return X, y, weights


def margins_of(w, b, X, y):
    return y * (X @ w + b)


def odm_value(w, b, X, y, weights, *, C1, C2, D):
    """Objective (7)."""
    z = margins_of(w, b, X, y)
    losses = C1 * np.maximum(0, 1 - D - z) ** 2 + C2 * np.maximum(0, z - 1 - D) ** 2
    return 0.5 * w @ w + np.average(losses, weights=weights)


def ldm_value(w, b, X, y, weights, *, C, lambda1, lambda2):
    """Objective (5)."""
    z = margins_of(w, b, X, y)
    mean = np.average(z, weights=weights)
    variance = np.average((z - mean) ** 2, weights=weights)
    hinge = np.average(np.maximum(0, 1 - z), weights=weights)
    return 0.5 * w @ w + lambda1 * variance - lambda2 * mean + C * hinge


def ldm_unit(found, X, y, weights, parameters):
    """What LDM's gap is relative to: the objective's terms without their signs."""
    mean = np.average(margins_of(found.coef, found.intercept, X, y), weights=weights)
    value = ldm_value(found.coef, found.intercept, X, y, weights, **parameters)
    return value + parameters["lambda2"] * (mean + abs(mean))


def optimum(model, X, y, weights, fit_intercept, parameters):
    """Smallest value of objective (7) or (5) by an interior-point method."""
    shares = weights / weights.sum()
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    z = cp.multiply(y, X @ w + b)
    objective = 0.5 * cp.sum_squares(w)
    if model == "odm":
        C1, C2, D = parameters.values()
        objective += C1 * (shares @ cp.square(cp.pos(1 - D - z)))
        objective += C2 * (shares @ cp.square(cp.pos(z - 1 - D)))
    else:
        C, lambda1, lambda2 = parameters.values()
        mean = shares @ z
        objective += lambda1 * cp.sum_squares(cp.multiply(np.sqrt(shares), z - mean))
        objective += C * (shares @ cp.pos(1 - z)) - lambda2 * mean
    program = cp.Problem(cp.Minimize(objective), [] if fit_intercept else [b == 0])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return program.value


def run(
    model,
    X,
    y,
    weights,
    parameters,
    *,
    tol=1e-8,
    max_iter=300,
    fit_intercept=True,
    start=None,
    svrg_step=0.5,
):
    """The solver's answer."""
    samples = MarginSamples(X, weights, None, centred=fit_intercept)
    loss = getattr(MarginLoss, model)(**parameters)
    options = SolverOptions(tol, max_iter, seed=0, svrg_step=svrg_step)
    return svrg(BinaryProblem(samples, y, 1, loss, fit_intercept, "svrg", options, True, start))


def odm_sample_gradient(w, b, x_i, y_i, *, C1, C2, D):
    """Equation (24), and the derivative by the intercept: ODM's gradient from one sample."""
    margin = y_i * (x_i @ w + b)
    slope = 2 * C1 * min(margin - 1 + D, 0) + 2 * C2 * max(margin - 1 - D, 0)
    return w + slope * y_i * x_i, slope * y_i


def ldm_pair_gradient(w, b, x_i, y_i, x_j, y_j, *, C, lambda1, lambda2):
    """Equation (23), and the derivative by the intercept: LDM's gradient from a pair of samples."""
    margin, other = y_i * (x_i @ w + b), y_j * (x_j @ w + b)
    slope = 2 * lambda1 * (margin - other) - lambda2 - C * (margin < 1)
    return w + slope * y_i * x_i, slope * y_i


# Theorem 1 and Lemma 1 -----------------------------------------------------------------------


def random_point(seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=5), 0.3


@both_weights
def test_sample_gradient_of_odm_is_unbiased(weighted):
    X, y, weights = problem(weighted)
    w, b = random_point()
    shares = weights / weights.sum()
    gradients = [odm_sample_gradient(w, b, x, label, **ODM) for x, label in zip(X, y, strict=True)]
    C1, C2, D = ODM.values()
    z = margins_of(w, b, X, y)
    low, high = z < 1 - D, z > 1 + D
    slopes = 2 * C1 * (z + D - 1) * low + 2 * C2 * (z - D - 1) * high
    assert 0 < low.sum() < (low | high).sum() < len(z)
    mean = sum(p * g for p, (g, _) in zip(shares, gradients, strict=True))
    mean_b = sum(p * g for p, (_, g) in zip(shares, gradients, strict=True))
    np.testing.assert_allclose(mean, w + X.T @ (shares * slopes * y), rtol=0, atol=1e-12)
    np.testing.assert_allclose(mean_b, (shares * slopes) @ y, rtol=0, atol=1e-12)


@both_weights
def test_pair_gradient_of_ldm_is_unbiased(weighted):
    X, y, weights = problem(weighted)
    w, b = random_point()
    C, lambda1, lambda2 = LDM.values()
    P = np.diag(weights / weights.sum())
    p = P.diagonal()
    mean, mean_b = np.zeros_like(w), 0.0
    for i, j in np.ndindex(len(y), len(y)):
        gradient, gradient_b = ldm_pair_gradient(w, b, X[i], y[i], X[j], y[j], **LDM)
        mean += p[i] * p[j] * gradient
        mean_b += p[i] * p[j] * gradient_b
    # The paper's gradient of (21), whose matrix (mI − yyᵀ)/m² is P − Pyyᵀ P for shares P.
    A = np.column_stack([X, np.ones(len(y))])
    v = np.append(w, b)
    losing = (y * (A @ v) < 1) * y
    full = 2 * lambda1 * A.T @ (P - np.outer(P @ y, P @ y)) @ A @ v
    full += np.append(w, 0.0) - A.T @ P @ (lambda2 * y + C * losing)
    np.testing.assert_allclose(np.append(mean, mean_b), full, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("value", "parameters"), [(odm_value, ODM), (ldm_value, LDM)])
def test_mean_gradient_is_the_derivative_of_the_objective(value, parameters):
    X, y, weights = problem(n_samples=12)
    w, b = random_point()
    p = weights / weights.sum()
    mean = np.zeros(6)
    for i, j in np.ndindex(len(y), len(y)):
        if value is odm_value:
            gradient = odm_sample_gradient(w, b, X[i], y[i], **parameters)
        else:
            gradient = ldm_pair_gradient(w, b, X[i], y[i], X[j], y[j], **parameters)
        mean += p[i] * p[j] * np.append(*gradient)
    step = 1e-5
    for k, direction in enumerate(step * np.eye(6)):
        above = value(w + direction[:5], b + direction[5], X, y, weights, **parameters)
        below = value(w - direction[:5], b - direction[5], X, y, weights, **parameters)
        assert (above - below) / (2 * step) == pytest.approx(mean[k], abs=1e-8)


def test_lemma_1():
    rng = np.random.default_rng(0)
    X, root = rng.normal(size=(4, 7)), rng.normal(size=(7, 7))
    A = root @ root.T + np.eye(7)
    left = np.linalg.inv(np.eye(4) + X @ A @ X.T)
    right = np.eye(4) - X @ np.linalg.inv(np.linalg.inv(A) + X.T @ X) @ X.T
    np.testing.assert_allclose(left, right, rtol=0, atol=1e-12)


# The optimum ---------------------------------------------------------------------------------


@both_intercepts
@both_weights
def test_odm_reaches_the_optimum(weighted, fit_intercept):
    X, y, weights = problem(weighted)
    best = optimum("odm", X, y, weights, fit_intercept, ODM)
    found = run("odm", X, y, weights, ODM, fit_intercept=fit_intercept)
    value = odm_value(found.coef, found.intercept, X, y, weights, **ODM)
    assert found.gap <= 1e-8
    assert value == pytest.approx(best, rel=1e-6)
    assert fit_intercept or found.intercept == 0.0


@both_intercepts
@both_weights
@pytest.mark.parametrize("parameters", LDM_KINDS)
def test_ldm_comes_near_the_optimum(weighted, fit_intercept, parameters):
    X, y, weights = problem(weighted, n_samples=300)
    best = optimum("ldm", X, y, weights, fit_intercept, parameters)
    found = run("ldm", X, y, weights, parameters, tol=1e-3, fit_intercept=fit_intercept)
    value = ldm_value(found.coef, found.intercept, X, y, weights, **parameters)
    assert found.gap <= 1e-3
    assert -1e-9 <= value - best <= 1e-3 * ldm_unit(found, X, y, weights, parameters)


@pytest.mark.parametrize("solver", ["odm", "ldm"])
@both_intercepts
def test_gap_bounds_what_is_missing_and_decreases(solver, fit_intercept):
    X, y, weights = problem()
    parameters, value = {"odm": (ODM, odm_value), "ldm": (LDM, ldm_value)}[solver]
    best = optimum(solver, X, y, weights, fit_intercept, parameters)
    gaps = []
    for max_iter in (0, 1, 3, 10, 30):
        found = run(
            solver, X, y, weights, parameters, tol=0, max_iter=max_iter, fit_intercept=fit_intercept
        )
        reached = value(found.coef, found.intercept, X, y, weights, **parameters)
        unit = reached if solver == "odm" else ldm_unit(found, X, y, weights, LDM)
        assert -1e-9 <= reached - best <= found.gap * unit + 1e-9  # the optimum's own accuracy
        assert found.n_iter == max_iter
        gaps.append(found.gap)
    assert np.all(np.diff(gaps) < 0)


@pytest.mark.parametrize("seed", range(10))
def test_balanced_multipliers_of_ldm_are_feasible_in_the_dual(seed):
    _, y, weights = problem()
    rng = np.random.default_rng(seed)
    shares, C = weights / weights.sum(), 2.0
    margins, tilt = rng.normal(size=len(y)), rng.normal(size=len(y))
    multipliers = np.where(margins < 1, C, 0.0)
    assert _balance(multipliers, margins, y, shares, tilt, C) == 0
    assert np.all(multipliers >= 0)
    assert np.all(multipliers <= C * (1 + 1e-12))
    assert shares @ (y * (multipliers + tilt)) == pytest.approx(0, abs=1e-12)


def test_start_at_the_optimum_needs_no_epoch():
    X, y, weights = problem()
    found = run("odm", X, y, weights, ODM)
    again = run("odm", X, y, weights, ODM, start=(found.coef, found.intercept))
    assert again.n_iter == 0
    np.testing.assert_array_equal(again.coef, found.coef)


@pytest.mark.parametrize(("solver", "parameters"), [("odm", ODM), ("ldm", LDM)])
def test_huge_features_give_numbers(solver, parameters):
    X, y, weights = problem()
    found = run(solver, X * 1e8, y, weights, parameters, max_iter=5)
    assert np.isfinite([*found.coef, found.intercept, found.gap]).all()


# The intercept -------------------------------------------------------------------------------


def odm_intercept(scores, y, weights, guess):
    losses = MarginLoss.odm(**ODM).of_samples(weights)
    return guess + losses.intercept_step(y * (scores + guess), y)


@every_value(seed=range(10), guess=[0.0, -1e6, 1e6])
def test_intercept_of_odm_is_optimal(seed, guess):
    X, y, weights = problem(seed=seed)
    w = 3 * random_point(seed)[0]
    b = odm_intercept(X @ w, y, weights, guess)
    values = [odm_value(w, b + move, X, y, weights, **ODM) for move in (-1e-4, 0.0, 1e-4)]
    assert values[1] == min(values)


@every_value(seed=range(12), parameters=LDM_KINDS)
def test_intercept_of_ldm_is_optimal(seed, parameters):
    X, y, weights = problem(seed=seed)
    w = 3 * random_point(seed)[0]
    b = run("ldm", X, y, weights, parameters, max_iter=0, start=(w, 0.0)).intercept
    values = [ldm_value(w, b + move, X, y, weights, **parameters) for move in (-1e-4, 0.0, 1e-4)]
    assert values[1] <= min(values) + 1e-14 * abs(values[1])


# Lazy steps ----------------------------------------------------------------------------------


def eager_epoch(gradient, start, X, y, shares, smoothness, fit_intercept, is_pair):
    """An epoch of Algorithm 2 as it is written, with whole rows, in (w, b + w·mean)."""
    random = np.random.RandomState(0)
    size = random.randint(1, len(y) + 1)
    p = None if np.ptp(shares) == 0 else shares
    samples = random.choice(len(y), size=size, p=p)
    partners = random.choice(len(y), size=size, p=p) if is_pair else samples
    mean = shares @ X if fit_intercept else np.zeros(X.shape[1])
    rows = X - mean
    squares = np.sum(rows**2, axis=1)
    scale = shares @ squares if fit_intercept else 0.0
    step = 0.5 / (1 + smoothness * (squares.max() + scale))
    full, full_level = np.zeros(X.shape[1]), 0.0
    w, level = snapshot = start[0], start[1] + mean @ start[0]
    for i, j in np.ndindex(len(y), len(y)):
        part = gradient(*snapshot, rows[i], y[i], rows[j], y[j])
        full = full + shares[i] * shares[j] * part[0]
        full_level = full_level + shares[i] * shares[j] * part[1]
    for i, j in zip(samples, partners, strict=True):
        here = gradient(w, level, rows[i], y[i], rows[j], y[j])
        there = gradient(*snapshot, rows[i], y[i], rows[j], y[j])
        w = w - step * (here[0] - there[0] + full)
        level = level - scale * step * (here[1] - there[1] + full_level)
    return w


@both_intercepts
@both_weights
def test_lazy_steps_of_odm_equal_eager_ones(weighted, fit_intercept):
    X, y, weights = problem(weighted)
    shares = weights / weights.sum()
    w = 0.1 * random_point()[0]
    b = odm_intercept(X @ w, y, weights, 0.0) if fit_intercept else 0.0

    def gradient(w, b, x_i, y_i, x_j, y_j):
        return odm_sample_gradient(w, b, x_i, y_i, **ODM)

    options = {"fit_intercept": fit_intercept, "start": (w, b)}
    lazy = run("odm", X, y, weights, ODM, max_iter=1, **options)
    eager = eager_epoch(gradient, (w, b), X, y, shares, 2 * ODM["C1"], fit_intercept, False)
    np.testing.assert_allclose(lazy.coef, eager, rtol=0, atol=1e-12)


@both_weights
def test_lazy_steps_of_ldm_equal_eager_ones(weighted):
    X, y, weights = problem(weighted)
    w = 0.1 * random_point()[0]

    def gradient(w, b, *pair):
        return ldm_pair_gradient(w, 0.0, *pair, **LDM)

    lazy = run("ldm", X, y, weights, LDM, max_iter=1, fit_intercept=False, start=(w, 0.0))
    smoothness = 4 * LDM["lambda1"] + LDM["C"]
    eager = eager_epoch(gradient, (w, 0.0), X, y, weights / weights.sum(), smoothness, False, True)
    np.testing.assert_allclose(lazy.coef, eager, rtol=0, atol=1e-12)


@both_intercepts
@pytest.mark.parametrize(("solver", "parameters"), [("odm", ODM), ("ldm", LDM)])
def test_sparse_rows_give_what_dense_rows_give(solver, parameters, fit_intercept):
    X, y, weights = problem()
    options = {"tol": 0, "max_iter": 4, "fit_intercept": fit_intercept}
    dense = run(solver, X, y, weights, parameters, **options)
    rows = run(solver, sparse.csr_matrix(X), y, weights, parameters, **options)
    columns = run(solver, np.asfortranarray(X), y, weights, parameters, **options)
    np.testing.assert_allclose(rows.coef, dense.coef, rtol=0, atol=1e-12)
    np.testing.assert_allclose(columns.coef, dense.coef, rtol=0, atol=1e-12)
    assert rows.intercept == pytest.approx(dense.intercept, abs=1e-12)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_single_precision_rows_are_solved_in_double_precision(layout):
    X, y, weights = problem()
    single = X.astype(np.float32)
    found = run("odm", layout(single), y, weights, ODM)
    wide = run("odm", layout(single.astype(np.float64)), y, weights, ODM)
    assert found.coef.dtype == np.float64
    np.testing.assert_allclose(found.coef, wide.coef, rtol=0, atol=1e-12)


def test_long_epochs_do_not_underflow():
    """The common factor of the coefficients falls to 1e-100 within an epoch when steps are long."""
    X, y, weights = problem(n_samples=3000)
    weak = {"C1": 1e-2, "C2": 1e-2, "D": 0.0}
    found = run("odm", X, y, weights, weak, tol=1e-12)
    assert found.gap <= 1e-12


# The step size --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "small", "tol"),
    [(ODMClassifier, {}, 1e-6), (LDMClassifier, {"C": 3.0, "lambda1": 1.0}, 1e-2)],
)
@pytest.mark.parametrize("svrg_step", [0.1, 1.0])
def test_any_step_size_leads_to_the_optimum(estimator, small, tol, svrg_step):
    X, y, weights = problem(True)
    params = {"kernel": "linear", "probability": False, "random_state": 0, **small}
    exact = estimator(**params).fit(X, y, weights)
    stochastic = estimator(solver="svrg", svrg_step=svrg_step, tol=tol, max_iter=5000, **params)
    stochastic.fit(X, y, weights)
    assert stochastic.gap_ <= tol
    assert stochastic.objective_ == pytest.approx(exact.objective_, rel=tol)


def test_the_first_step_is_the_given_share_of_the_smoothness_bound():
    """One sample: an epoch of one step changes w by step / L times the gradient at zero."""
    X, y, weights = np.array([[2.0]]), np.array([1.0]), np.ones(1)
    smoothness = 1 + 2 * ODM["C1"] * 4.0
    gradient = -2 * ODM["C1"] * (1 - ODM["D"]) * 2.0
    assert ODM["C1"] >= ODM["C2"]
    for step in (0.1, 0.5):
        found = run("odm", X, y, weights, ODM, max_iter=1, svrg_step=step, fit_intercept=False)
        assert found.coef[0] == pytest.approx(-step / smoothness * gradient, rel=1e-12)


@pytest.mark.parametrize("svrg_step", [0, -0.5, 1.5, "auto"])
def test_step_sizes_that_cannot_converge_are_refused(svrg_step):
    X, y, _ = problem(False)
    for estimator in (ODMClassifier, LDMClassifier):
        with pytest.raises(ValueError, match=r"'svrg_step' parameter .* in \(0, 1\]"):
            estimator(kernel="linear", solver="svrg", svrg_step=svrg_step).fit(X, y)
