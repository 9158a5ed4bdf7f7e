"""Penalised representations are optimal to their duality gap, for every q, r and ρ."""

from itertools import product
from math import inf

import cvxpy as cp
import numpy as np
import pytest

from discreg.representation._iterative import solve_penalised
from discreg.representation._problem import FeatureOperator, Groups, KernelOperator, Penalty

PENALTIES = [
    Penalty(*triple) for triple in product((1, 2, inf), (1, 2, inf), ("identity", "half_square"))
]

every_penalty = pytest.mark.parametrize(
    "penalty", PENALTIES, ids=lambda penalty: f"{penalty.q}-{penalty.r}-{penalty.rho}"
)


def rbf(A, B):
    return np.exp(-((A[:, None] - B) ** 2).sum(axis=2) / 4)


class Problem:
    """15 samples of three classes, one of them small, and four points to represent."""

    def __init__(self, alpha=0.5, weights=None, seed=0):
        rng = np.random.default_rng(seed)
        self.y = np.repeat([0, 1, 2], [7, 6, 2])
        self.X = rng.normal(size=(15, 3)) + self.y[:, None]
        self.points = rng.normal(size=(4, 3)) + 1
        self.weights = np.ones(15) if weights is None else np.asarray(weights, dtype=float)
        self.alpha = alpha
        self.operator = KernelOperator(
            Groups.of(self.y, self.weights, 3), rbf(self.X, self.X), alpha
        )
        self.K_x = rbf(self.points, self.X)
        self.k_xx = np.ones(4)

    @property
    def Q(self):
        return self.operator.apply(np.eye(15))

    @property
    def lipschitz(self):
        root = np.sqrt(self.weights)
        return np.linalg.eigvalsh(root[:, None] * self.Q * root)[-1] * (1 + 1e-10)

    def solve(self, beta, penalty, tol=1e-9, max_iter=20_000):
        return solve_penalised(
            self.operator,
            self.K_x,
            self.k_xx,
            beta,
            penalty,
            tol=tol,
            max_iter=max_iter,
            lipschitz=self.lipschitz,
        )

    def penalty_value(self, penalty, v, norm):
        """ρ(Ω(v)) as the definition has it, for vectors or (`norm` = cp.norm) expressions."""
        s = self.weights
        scale = {1: np.ones(15), 2: s**-0.5, inf: 1 / s}[penalty.q]
        scaled = cp.multiply(scale, v) if norm is cp.norm else scale * v
        norms = [norm(scaled[self.y == k], penalty.q) for k in range(3)]
        total = norm(cp.hstack(norms) if norm is cp.norm else np.array(norms), penalty.r)
        return total**2 / 2 if penalty.half_square else total

    def objective(self, beta, penalty, v, K_x):
        value = self.penalty_value(penalty, v, np.linalg.norm)
        return v @ self.Q @ v / 2 - K_x @ v + beta * value

    def optimum(self, beta, penalty, K_x):
        """The least objective, by convex programming."""
        v = cp.Variable(15)
        factor = np.linalg.cholesky(self.Q + 1e-15 * np.eye(15))
        value = self.penalty_value(penalty, v, cp.norm)
        objective = cp.sum_squares(factor.T @ v) / 2 - K_x @ v + beta * value
        problem = cp.Problem(cp.Minimize(objective))
        problem.solve(solver=cp.CLARABEL)
        return problem.value


@every_penalty
@pytest.mark.parametrize("weighted", [False, True])
def test_objective_of_convex_programming(penalty, weighted):
    weights = np.random.default_rng(1).uniform(0.3, 3.0, 15) if weighted else None
    problem = Problem(weights=weights)
    beta = 0.1
    exact = problem.solve(beta, penalty)
    rough = problem.solve(beta, penalty, tol=1e-2)
    assert np.all(exact.gap <= 1e-9)
    for i, K_x in enumerate(problem.K_x):
        optimum = problem.optimum(beta, penalty, K_x)
        # 1e-6 is what Clarabel reaches on all of them.
        assert problem.objective(beta, penalty, exact.coef[i], K_x) == pytest.approx(
            optimum, rel=1e-6
        )
        excess = problem.objective(beta, penalty, rough.coef[i], K_x) - optimum
        assert excess / (problem.k_xx[i] / 2) <= rough.gap[i] + 1e-7
        assert rough.gap[i] <= 1e-2


@every_penalty
def test_gap_bounds_the_distance_on_the_way(penalty):
    problem = Problem()
    exact = problem.solve(0.05, penalty, tol=1e-11)
    best = exact.objective_history[-1]
    for max_iter in (0, 1, 3, 10, 30):
        rough = problem.solve(0.05, penalty, tol=0.0, max_iter=max_iter)
        for v, K_x, gap, least in zip(rough.coef, problem.K_x, rough.gap, best, strict=True):
            excess = problem.objective(0.05, penalty, v, K_x) - least
            assert -1e-11 <= excess <= 0.5 * gap + 1e-15


@every_penalty
def test_weights_are_copies(penalty):
    weights = np.random.default_rng(2).integers(1, 4, size=15)
    weighted = Problem(weights=weights)
    copies = np.repeat(np.arange(15), weights)
    groups = Groups.of(weighted.y[copies], np.ones(len(copies)), 3)
    kernel = rbf(weighted.X[copies], weighted.X[copies])
    repeated = solve_penalised(
        KernelOperator(groups, kernel, weighted.alpha),
        weighted.K_x[:, copies],
        weighted.k_xx,
        0.1,
        penalty,
        tol=1e-11,
        max_iter=20_000,
        lipschitz=weighted.lipschitz,
    )
    ours = weighted.solve(0.1, penalty, tol=1e-11)
    for i, K_x in enumerate(weighted.K_x):
        summed = np.bincount(copies, weights=repeated.coef[i])
        # Two objectives, each within half its gap of the optimum.
        assert weighted.objective(0.1, penalty, ours.coef[i], K_x) == pytest.approx(
            weighted.objective(0.1, penalty, summed, K_x), abs=2e-11
        )
        # Q is positive definite, so the minimiser is known to the root of the gap.
        np.testing.assert_allclose(ours.coef[i], summed, atol=1e-4)


def test_lasso_without_discrimination():
    """α = 0: the optimality conditions of the lasso, |b − Kv| ≤ β with equality where v ≠ 0."""
    problem = Problem(alpha=0.0)
    beta = 0.1
    coef = problem.solve(beta, Penalty.of("lasso"), tol=1e-13).coef
    slope = problem.K_x - coef @ problem.operator.kernel
    assert (coef == 0).any()
    assert np.all(np.abs(slope) <= beta + 1e-6)
    np.testing.assert_allclose(slope[coef != 0], beta * np.sign(coef[coef != 0]), atol=1e-6)
    for v, K_x in zip(coef, problem.K_x, strict=True):
        assert problem.objective(beta, Penalty.of("lasso"), v, K_x) == pytest.approx(
            problem.optimum(beta, Penalty.of("lasso"), K_x), rel=1e-6
        )


@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_is_a_linear_system(weighted):
    """Equation (12) of the paper, and d = (αh + β)/s with weights."""
    weights = np.random.default_rng(3).uniform(0.3, 3.0, 15) if weighted else None
    problem = Problem(weights=weights)
    ridge = problem.solve(0.2, Penalty.of("ridge"), tol=1e-15)
    system = problem.Q + np.diag(0.2 / problem.weights)
    np.testing.assert_allclose(ridge.coef, np.linalg.solve(system, problem.K_x.T).T, atol=1e-7)


@every_penalty
def test_history_falls_and_ends_with_the_solution(penalty):
    problem = Problem()
    solution = problem.solve(0.05, penalty, tol=1e-6)
    history = np.array(solution.objective_history)
    assert len(history) == solution.n_iter.max() + 1
    assert not history[0].any()
    assert np.all(np.diff(history, axis=0) <= 0)
    for i, (v, K_x) in enumerate(zip(solution.coef, problem.K_x, strict=True)):
        np.testing.assert_array_equal(history[solution.n_iter[i] :, i], history[-1, i])
        objective = problem.objective(0.05, penalty, v, K_x)
        assert -1e-12 <= objective - history[-1, i] <= 0.5 * solution.gap[i]


@every_penalty
def test_rate_of_acceleration(penalty):
    """After k steps the objective is within 2L‖u*‖²/(k + 1)²; without momentum it is not."""
    problem = Problem(alpha=0.0)
    exact = problem.solve(0.01, penalty, tol=1e-8)
    history = np.array(exact.objective_history)
    k = np.arange(len(history))[:, None]
    rate = 2 * problem.lipschitz * np.sum(exact.coef**2, axis=1) / (k + 1) ** 2
    assert np.all(history - history[-1] <= rate)


@every_penalty
def test_points_do_not_depend_on_the_batch(penalty):
    problem = Problem()
    together = problem.solve(0.1, penalty, tol=1e-6)
    problem.K_x, problem.k_xx = problem.K_x[1:2], problem.k_xx[1:2]
    alone = problem.solve(0.1, penalty, tol=1e-6)
    np.testing.assert_allclose(alone.coef[0], together.coef[1], rtol=1e-6, atol=1e-9)


@every_penalty
def test_zero_is_optimal_from_the_dual_norm_on(penalty):
    problem = Problem()
    slices = problem.operator.groups.slices
    beta = penalty.dual_norm(problem.K_x, slices).max() * (1 + 1e-12)
    solution = problem.solve(beta, penalty, tol=1e-12)
    if penalty.half_square:
        assert solution.coef.any(axis=1).all()
    else:
        assert not solution.coef.any()
        assert not solution.n_iter.any()


@every_penalty
def test_linear_operator_gives_the_same(penalty):
    problem = Problem()
    groups = problem.operator.groups
    norms = np.sum(problem.X**2, axis=1)
    problem.K_x, problem.k_xx = problem.points @ problem.X.T, np.sum(problem.points**2, axis=1)
    problem.operator = KernelOperator(groups, problem.X @ problem.X.T, problem.alpha)
    by_kernel = problem.solve(0.3, penalty, tol=1e-10)
    problem.operator = FeatureOperator(groups, problem.X, norms, problem.alpha)
    by_rows = problem.solve(0.3, penalty, tol=1e-10)
    np.testing.assert_allclose(by_rows.coef, by_kernel.coef, atol=1e-5)
