"""Theorems VI.1 to VI.4 of the DRM paper: how fast the iterations are, and their constant."""

from itertools import pairwise

import numpy as np
import pytest
from drm_problem import ALGORITHMS, Problem, random_samples, start_of, wine
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from discreg import DRMClassifier
from discreg.representation._iterative import Quadratic, iterate, largest_eigenvalue
from discreg.representation._problem import FeatureOperator, Groups, KernelOperator

# Rates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["gd", "ppa"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_objective_never_rises(kernel, algorithm):
    """Theorems VI.1 and VI.2."""
    X, y = wine()
    params = {"beta": 1.0, "max_iter": 500, "probability": False}
    model = DRMClassifier(kernel=kernel, solver=algorithm, **params).fit(X, y)
    history = model.convergence(X[::5]).objective_history
    assert len(history) > 5
    rounding = 1e-13 * np.abs(history).max()
    assert np.diff(history, axis=0).max() <= rounding
    assert np.diff(model.objective_history_).max() <= rounding


@pytest.mark.parametrize("algorithm", ["gd", "ppa"])
def test_objective_never_rises_from_any_start(algorithm):
    problem = Problem()
    history = problem.iterate(algorithm, start=start_of(problem)).objective_history
    np.testing.assert_allclose(history[0], problem.objective(start_of(problem)), rtol=1e-10)
    assert np.diff(history, axis=0).max() <= 1e-13 * np.abs(history).max()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_objective_history_is_equation_13(algorithm):
    problem = Problem(weights=np.random.default_rng(0).uniform(0.3, 3, size=20))
    path = problem.path(algorithm, 12)
    history = problem.iterate(algorithm, tol=0, max_iter=12).objective_history
    for t, W in enumerate(path):
        np.testing.assert_allclose(history[t], problem.objective(W), atol=1e-12)


def test_gradient_descent_searches_the_line_exactly():
    """(16): after a step the new gradient is orthogonal to the old one."""
    problem = Problem()
    path = problem.path("gd", 6, start=start_of(problem))
    gradients = [problem.quadratic.curved(W) - problem.K_x for W in path]
    for old, new in pairwise(gradients):
        cosines = np.sum(old * new, axis=1)
        cosines /= np.linalg.norm(old, axis=1) * np.linalg.norm(new, axis=1)
        assert np.abs(cosines).max() < 1e-7


def test_proximal_point_follows_equation_18():
    problem = Problem()
    c = largest_eigenvalue(problem.operator)
    path = problem.path("ppa", 6, start=start_of(problem))
    for old, new in pairwise(path):
        expected = (problem.K_x - old @ problem.Q + c * old) / (problem.beta + c)
        np.testing.assert_allclose(new, expected, atol=1e-12)


def test_proximal_point_contracts_at_the_rate_of_theorem_3():
    """Each iteration brings w nearer to w* by (c − σ_min) / (c + β) at least."""
    for seed in range(3):
        problem = Problem(seed=seed)
        c = largest_eigenvalue(problem.operator)
        rate = (c - problem.spectrum[0]) / (c + problem.beta)
        path = problem.path("ppa", 40, start=start_of(problem))
        distances = np.array([problem.distance(W) for W in path])
        assert np.all(distances[1:] <= rate * distances[:-1] * (1 + 1e-10))


@pytest.mark.parametrize("epsilon", [1e-2, 1e-5, 1e-8])
def test_proximal_point_needs_no_more_iterations_than_theorem_3_allows(epsilon):
    """The bound is for ‖w − w*‖ ≤ ε.

    One more iteration shows it to the rule on consecutive iterates, because a step from there is no
    longer than the distance that is left.
    """
    problem = Problem()
    c = largest_eigenvalue(problem.operator)
    start = start_of(problem)
    outcome = problem.iterate("ppa", tol=epsilon, start=start)
    growth = np.log((c + problem.beta) / (c - problem.spectrum[0]))
    bound = np.ceil(np.log(problem.distance(start) / epsilon) / growth) + 1
    assert outcome.converged.all()
    assert np.all(outcome.n_iter <= bound)


@pytest.mark.parametrize("backtracking", [False, True])
def test_accelerated_error_falls_with_the_square_of_the_iterations(backtracking):
    """Theorem VI.4: f(w⁽ᵗ⁾) − f* ≤ 2b‖w⁽⁰⁾ − w*‖² / (t + 1)² for every t.

    With backtracking the last bound b is at most η = 2 times the Lipschitz constant.
    """
    problem = Problem(beta=1e-3)
    c = largest_eigenvalue(problem.operator)
    start = start_of(problem)
    outcome = problem.iterate("apg", tol=0, max_iter=300, start=start, backtracking=backtracking)
    errors = outcome.objective_history - problem.objective(problem.optimum)
    t = np.arange(len(errors))[1:, None]
    b = (2 if backtracking else 1) * (c + problem.beta)
    bound = 2 * b * problem.distance(start) ** 2 / (t + 1) ** 2
    assert np.all(errors[1:] <= bound + 1e-12)
    assert np.all(errors >= -1e-12)


def test_acceleration_is_faster_where_the_condition_is_poor():
    """What section VI-E is for."""
    problem = Problem(alpha=0, beta=1e-4)
    lowest = problem.objective(problem.optimum)
    left = {
        algorithm: problem.iterate(algorithm, tol=0, max_iter=200).objective_history[-1] - lowest
        for algorithm in ("ppa", "apg")
    }
    assert np.all(left["apg"] < left["ppa"] / 10)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_step_solves_a_problem_without_curvature(algorithm):
    """With K = 0 only βI is left: the first step is exact and the second finds no change."""
    groups = Groups.of(np.array([0, 0, 0, 1, 1, 1]), np.ones(6), 2)
    problem = Quadratic(KernelOperator(groups, np.zeros((6, 6)), 0.5), 0.3)
    K_x = np.random.default_rng(0).normal(size=(2, 6))
    outcome = iterate(problem, K_x, np.ones(2), algorithm, eigenvalue=0.0, tol=1e-9, max_iter=9)
    np.testing.assert_allclose(outcome.coef, K_x / 0.3, rtol=1e-12)
    assert np.all(outcome.n_iter == 2)


# Lanczos -------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.1, 10.0]),
    st.booleans(),
)
def test_bound_of_the_largest_eigenvalue_is_never_below_it(sizes, n_features, seed, alpha, linear):
    X, y = random_samples(sizes, n_features, seed)
    weights = np.random.default_rng(seed).uniform(0.2, 4, size=len(y))
    groups = Groups.of(y, weights, len(sizes))
    if linear:
        operator = FeatureOperator(groups, X, np.sum(X**2, axis=1), alpha)
    else:
        operator = KernelOperator(groups, rbf_kernel(X), alpha)
    root = np.sqrt(weights)
    largest = np.linalg.eigvalsh(root[:, None] * operator.apply(np.eye(len(y))) * root)[-1]
    bound = largest_eigenvalue(operator)
    assert bound >= largest * (1 - 1e-14)
    assert bound <= 1.01 * largest


def test_bound_of_the_largest_eigenvalue_is_not_below_it_where_two_are_close():
    """Where Lanczos' method may stop at the second largest."""
    rng = np.random.default_rng(0)
    for difference in np.logspace(-6, -2, 60):
        vectors, _ = np.linalg.qr(rng.normal(size=(40, 40)))
        spectrum = np.r_[1 + difference, 1, rng.uniform(0, 1, size=38)]
        groups = Groups.of(np.repeat([0, 1], 20), np.ones(40), 2)
        operator = KernelOperator(groups, (vectors * spectrum) @ vectors.T, 0.0)
        assert largest_eigenvalue(operator) >= (1 + difference) * (1 - 1e-14)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize(("alpha", "weight"), [(1000.0, 1.0), (0.1, 1e-4), (1000.0, 1e15)])
def test_bound_where_many_eigenvalues_are_close_to_the_largest(alpha, weight, linear):
    """Lanczos' method does not separate them in a few steps."""
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    groups = Groups.of(y, np.full(len(y), weight), 3)
    if linear:
        operator = FeatureOperator(groups, X, np.sum(X**2, axis=1), alpha)
    else:
        operator = KernelOperator(groups, rbf_kernel(X, gamma=0.25), alpha)
    largest = np.linalg.eigvalsh(weight * operator.apply(np.eye(len(y))))[-1]
    bound = largest_eigenvalue(operator)
    assert largest * (1 - 1e-14) <= bound <= 1.02 * largest


@pytest.mark.parametrize("solver", ["ppa", "apg"])
def test_close_eigenvalues_are_no_reason_to_fail(solver):
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    params = {"tol": 1e-12, "max_iter": 50_000, "probability": False}
    iterated = DRMClassifier(alpha=1000.0, solver=solver, **params).fit(X, y)
    closed = DRMClassifier(alpha=1000.0).fit(X, y)
    np.testing.assert_allclose(
        iterated.decision_function(X), closed.decision_function(X), rtol=1e-5
    )


def test_small_weights_are_no_reason_to_fail():
    X, y = load_iris(return_X_y=True)
    model = DRMClassifier(penalty="lasso").fit(scale(X), y, np.full(len(y), 1e-4))
    assert model.gap_ <= model.tol


@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
def test_a_kernel_of_zeros_has_no_curvature(kernel):
    X, y = np.zeros((6, 6)), np.repeat([0, 1], 3)
    for solver in ALGORITHMS:
        model = DRMClassifier(kernel=kernel, solver=solver, probability=False).fit(X, y)
        np.testing.assert_array_equal(model.representation(X), 0)
