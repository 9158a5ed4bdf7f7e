"""Section VI of the DRM paper: the closed form, and the iterations that reach it."""

import tracemalloc

import numpy as np
import pytest
from drm_problem import (
    ALGORITHMS,
    TIGHT,
    VARIANTS,
    Problem,
    every_variant,
    paper_matrix,
    paper_residuals,
    random_samples,
    start_of,
    wine,
)
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from discreg import DRMClassifier
from discreg.representation._iterative import Quadratic, iterate, largest_eigenvalue
from discreg.representation._problem import FeatureOperator, Groups, KernelOperator

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*only one distinct row, which cannot be held out"),
    pytest.mark.filterwarnings("ignore:The held-out scores of .* are worse than chance"),
]

# The closed form -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "beta", "alpha"), [("linear", 0.01, 3.0), ("rbf", 1.0, 0.01), ("rbf", 0.01, 0)]
)
def test_closed_form_is_that_of_the_paper(kernel, alpha, beta):
    """Algorithm 2: (14), then (11), then (12)."""
    X, y = random_samples([8, 5, 3, 1], 6)
    points = X[::2] + 0.4
    K, K_x = X @ X.T, points @ X.T
    if kernel == "rbf":
        K, K_x = rbf_kernel(X, gamma=0.2), rbf_kernel(points, X, gamma=0.2)
    model = DRMClassifier(alpha=alpha, beta=beta, kernel=kernel, gamma=0.2, solver="closed")
    model.fit(X, y)
    W = np.linalg.solve(paper_matrix(K, y, alpha, beta), K_x.T).T
    delta = np.array([paper_residuals(K, *pair) for pair in _pairs(K_x, y, W)])
    scale = np.abs(delta).max()
    np.testing.assert_allclose(model.representation(points), W, atol=1e-10 * np.abs(W).max())
    np.testing.assert_allclose(model.class_residuals(points), delta, atol=1e-10 * scale)
    np.testing.assert_array_equal(model.predict(points), delta.argmin(axis=1))


def _pairs(K_x, y, W):
    return [(k, y, w) for k, w in zip(K_x, W, strict=True)]


@pytest.mark.parametrize("solver", ["closed", "scatter"])
def test_residuals_are_distances_in_the_space_of_the_features(solver):
    """δ of section V is ‖x − ψ‖² + ‖ψ̄‖²; (11) leaves out ‖x‖²."""
    X, y = random_samples([8, 5, 3], 6)
    points = X[::2] + 0.4
    model = DRMClassifier(alpha=0.3, beta=0.5, kernel="linear", solver=solver).fit(X, y)
    W = model.representation(points)
    for c in range(3):
        own, other = W[:, y == c] @ X[y == c], W[:, y != c] @ X[y != c]
        distances = np.sum((points - own) ** 2, axis=1) + np.sum(other**2, axis=1)
        expected = distances - np.sum(points**2, axis=1)
        np.testing.assert_allclose(model.class_residuals(points)[:, c], expected, atol=1e-10)


# All algorithms solve the same problem -------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_features", [4, 40])
def test_all_algorithms_agree_with_the_linear_kernel(n_features, container):
    X, y = random_samples([14, 10, 5, 1], n_features)
    X = np.where(X > 0, X, 0)
    X, points = container(X), container(X[::3] + np.where(X[::3] > 1, 0.3, 0))
    params = {"alpha": 0.4, "beta": 20.0 * n_features, "kernel": "linear", **TIGHT}
    params["probability"] = False
    exact = DRMClassifier(solver="closed", **params).fit(X, y)
    W, delta = exact.representation(points), exact.class_residuals(points)
    others = [DRMClassifier(solver="scatter", **params)]
    others += [DRMClassifier(solver=a, backtracking=b, **params) for a, b in VARIANTS]
    for other in others:
        other.fit(X, y)
        np.testing.assert_allclose(other.representation(points), W, atol=1e-9)
        np.testing.assert_allclose(other.class_residuals(points), delta, atol=1e-9 * X.max() ** 2)


@pytest.mark.parametrize(
    ("copies", "alpha", "scale"), [(1, 1.0, 1e6), (3, 0.01, 1.0), (3, 1.0, 1e3)]
)
def test_linear_forms_agree_where_a_class_has_no_scatter_within(copies, alpha, scale):
    """A class of one sample or of equal ones, and features that are large against β.

    The system (14) is well-conditioned up to the scale of its diagonal, so the answer is known to
    many digits.
    """
    X, y = random_samples([30, 20, 1], 4)
    X, y = np.vstack([X, np.repeat(X[-1:], copies - 1, axis=0)]), np.r_[y, np.full(copies - 1, 2)]
    params = {"alpha": alpha, "kernel": "linear"}
    closed = DRMClassifier(solver="closed", **params).fit(scale * X, y)
    chosen = DRMClassifier(**params).fit(scale * X, y)
    expected = closed.class_residuals(scale * X) / scale**2
    found = chosen.class_residuals(scale * X) / scale**2
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@every_variant
@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed"])
def test_iterations_agree_with_the_closed_form(kernel, algorithm, backtracking):
    X, y = random_samples([9, 7, 4], 5)
    points = X[::2] + 0.2
    if kernel == "precomputed":
        points, X = rbf_kernel(points, X), rbf_kernel(X)
    params = {"alpha": 0.4, "beta": 0.5, "kernel": kernel, "degree": 2, **TIGHT}
    params["probability"] = False
    exact = DRMClassifier(solver="closed", **params).fit(X, y)
    model = DRMClassifier(solver=algorithm, backtracking=backtracking, **params).fit(X, y)
    W, delta = exact.representation(points), exact.class_residuals(points)
    np.testing.assert_allclose(model.representation(points), W, atol=1e-8)
    np.testing.assert_allclose(
        model.class_residuals(points), delta, rtol=1e-8, atol=1e-8 * np.abs(delta).max()
    )


@every_variant
def test_global_minimum_from_any_start(algorithm, backtracking):
    """Theorems VI.1, VI.2 and VI.4: "with any w⁽⁰⁾"."""
    problem = Problem()
    for seed in range(3):
        outcome = problem.iterate(
            algorithm, start=start_of(problem, seed), backtracking=backtracking
        )
        assert outcome.converged.all()
        assert problem.distance(outcome.coef).max() < 1e-8


@every_variant
def test_weighted_iterations_are_those_of_copies(algorithm, backtracking):
    """Not the limit alone: each iterate shares a coefficient evenly among the copies."""
    copies = np.random.default_rng(0).integers(1, 4, size=20)
    weighted = Problem(weights=copies)
    rows = np.repeat(np.arange(20), copies)
    K = weighted.operator.kernel[np.ix_(rows, rows)]
    groups = Groups.of(weighted.y[rows], np.ones(len(rows)), 4)
    copied = Quadratic(KernelOperator(groups, K, weighted.alpha), weighted.beta)
    params = {"tol": 1e-6, "backtracking": backtracking, "eigenvalue": 40.0, "max_iter": 100_000}
    one = weighted.iterate(algorithm, **params)
    other = iterate(copied, weighted.K_x[:, rows], weighted.k_xx, algorithm, **params)
    np.testing.assert_array_equal(one.n_iter, other.n_iter)
    summed = np.add.reduceat(other.coef, np.r_[0, np.cumsum(copies)[:-1]], axis=1)
    np.testing.assert_allclose(one.coef, summed, atol=1e-10)
    np.testing.assert_allclose(one.objective_history, other.objective_history, atol=1e-10)


# Batches and the stopping rule -----------------------------------------------------------------


@every_variant
def test_a_batch_gives_the_same_as_its_points_one_by_one(algorithm, backtracking):
    problem = Problem(weights=np.random.default_rng(0).uniform(0.3, 3, size=20))
    problem.K_x[1] *= 1e-3  # this point is done long before the others
    together = problem.iterate(algorithm, tol=1e-7, backtracking=backtracking)
    assert len(set(together.n_iter)) > 1
    for i in range(len(problem.K_x)):
        alone = problem.iterate(
            algorithm, tol=1e-7, backtracking=backtracking, rows=slice(i, i + 1)
        )
        assert alone.n_iter[0] == together.n_iter[i]
        np.testing.assert_allclose(together.coef[i], alone.coef[0], atol=1e-12)
        history = together.objective_history[:, i]
        np.testing.assert_allclose(
            history[: alone.n_iter[0] + 1], alone.objective_history[:, 0], atol=1e-12
        )
        assert np.all(history[alone.n_iter[0] :] == history[-1])


def test_points_that_are_done_leave_the_batch():
    problem = Problem()
    problem.K_x[1:] *= 1e-6
    sizes = []

    class Counting:
        groups = problem.operator.groups

        def apply(self, V):
            sizes.append(len(V))
            return problem.operator.apply(V)

    quadratic = Quadratic(Counting(), problem.beta)
    c = largest_eigenvalue(problem.operator)
    outcome = iterate(
        quadratic, problem.K_x, problem.k_xx, "ppa", eigenvalue=c, tol=1e-5, max_iter=1000
    )
    assert sizes[0] == len(problem.K_x)
    assert sizes[-1] == 1
    assert sizes.count(1) >= outcome.n_iter[0] - outcome.n_iter[1:].max()


@every_variant
def test_stopping_rule_is_the_length_of_the_last_step(algorithm, backtracking):
    """‖w⁽ᵗ⁺¹⁾ − w⁽ᵗ⁾‖ ≤ ε for the first time."""
    problem = Problem()
    tol = 1e-4
    outcome = problem.iterate(algorithm, tol=tol, backtracking=backtracking)
    path = problem.path(algorithm, outcome.n_iter.max(), backtracking=backtracking)
    for i, n_iter in enumerate(outcome.n_iter):
        steps = [np.linalg.norm(path[t + 1][i] - path[t][i]) for t in range(n_iter)]
        assert steps[-1] <= tol
        assert all(step > tol for step in steps[:-1])
        np.testing.assert_allclose(outcome.coef[i], path[n_iter][i], atol=1e-12)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_iteration_limit_is_kept_and_reported(algorithm):
    X, y = wine()
    model = DRMClassifier(solver=algorithm, tol=1e-12, max_iter=4).fit(X, y)
    outcome = model.convergence(X[:6])
    assert np.all(outcome.n_iter == 4)
    assert not outcome.converged.any()
    assert outcome.objective_history.shape == (5, 6)
    with pytest.warns(ConvergenceWarning, match=r"did not converge for 6 of 6 samples in 4 iter"):
        model.predict(X[:6])


# What is known of the iterations -----------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("max_iter", [1, 5, 30])
def test_gap_is_a_bound_of_what_is_left(algorithm, max_iter):
    """f(w) − f* ≤ gap · k(x, x) / 2."""
    problem = Problem(weights=np.random.default_rng(0).uniform(0.3, 3, size=20))
    outcome = problem.iterate(algorithm, tol=0, max_iter=max_iter)
    left = problem.objective(outcome.coef) - problem.objective(problem.optimum)
    assert np.all(left <= outcome.gap * problem.k_xx / 2 + 1e-14)
    assert np.all(outcome.gap > 0)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_attributes_of_fit_are_about_the_training_sample_of_the_largest_norm(algorithm, kernel):
    X, y = wine()
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(y))
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.1)
    data = K if kernel == "precomputed" else X
    model = DRMClassifier(
        alpha=0.2, beta=5.0, kernel=kernel, gamma=0.1, solver=algorithm, max_iter=2000
    ).fit(data, y, sample_weight=weights)
    groups = Groups.of(y, weights, 3)
    largest = groups.order[K.diagonal()[groups.order].argmax()]
    K_x, k_xx = K[largest], K[largest, largest]
    operator = KernelOperator(groups, K[np.ix_(groups.order, groups.order)], 0.2)
    system = operator.apply(np.eye(len(y))) + np.diag(5.0 / groups.weights)
    lowest = -0.5 * K_x[groups.order] @ np.linalg.solve(system, K_x[groups.order])
    history = model.objective_history_
    assert len(history) == model.n_iter_ + 1
    assert history[0] == 0
    assert -1e-12 * abs(lowest) <= history[-1] - lowest <= model.gap_ * k_xx / 2 + 1e-13 * k_xx


@pytest.mark.parametrize("penalty", ["lasso", "group_lasso", "exclusive_lasso"])
def test_penalties_report_their_iterations_too(penalty):
    X, y = wine()
    params = {"beta": 0.05, "tol": 1e-6, "max_iter": 5000, "probability": False}
    model = DRMClassifier(penalty=penalty, **params).fit(X, y)
    assert len(model.objective_history_) == model.n_iter_ + 1
    assert np.all(np.diff(model.objective_history_) <= 0)
    assert 0 <= model.gap_ <= 1e-6
    outcome = model.convergence(X[:5])
    assert outcome.converged.all()
    assert np.all(outcome.gap <= 1e-6)
    assert outcome.objective_history.shape == (outcome.n_iter.max() + 1, 5)


@pytest.mark.parametrize("solver", ["closed", "scatter"])
def test_solvers_that_do_not_iterate_have_nothing_to_report(solver):
    X, y = wine()
    model = DRMClassifier(kernel="linear", solver=solver).fit(X, y)
    assert model.n_iter_ == 1
    assert not hasattr(model, "objective_history_")
    assert not hasattr(model, "gap_")
    with pytest.raises(ValueError, match=r"does not iterate\. Use solver='gd'"):
        model.convergence(X)


# The linear kernel without its matrix -----------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_linear_operator_is_the_matrix_that_it_never_forms(container):
    """(21) to (23)."""
    X, y = random_samples([8, 5, 3, 1], 6)
    weights = np.random.default_rng(0).uniform(0.3, 3, size=17)
    groups = Groups.of(y, weights, 4)
    V = np.random.default_rng(1).normal(size=(3, 17))
    linear = FeatureOperator(groups, container(X), np.sum(X**2, axis=1), 0.7)
    kernel = KernelOperator(groups, X @ X.T, 0.7)
    np.testing.assert_allclose(linear.apply(V), kernel.apply(V), atol=1e-10)
    K_x = (X[:3] + 0.5) @ X.T
    np.testing.assert_allclose(linear.residuals(V, K_x), kernel.residuals(V, K_x), atol=1e-9)


@pytest.mark.parametrize("solver", ["scatter", *ALGORITHMS])
def test_memory_of_the_linear_kernel_does_not_grow_with_the_square_of_the_samples(solver):
    """20,000 samples: their kernel matrix would take 3.2 GB."""
    rng = np.random.default_rng(0)
    y = np.arange(20_000) % 4
    X = rng.normal(size=(20_000, 5)) + rng.normal(size=(4, 5))[y]
    model = DRMClassifier(
        kernel="linear", solver=solver, beta=1e4, max_iter=1000, probability=False
    )
    tracemalloc.start()
    try:
        model.fit(X, y).predict(X[:20])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.parametrize("penalty", ["lasso", "group_lasso", "exclusive_lasso"])
def test_penalties_reach_the_tolerance_by_default(penalty):
    X, y = wine()
    model = DRMClassifier(penalty=penalty, probability=False).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9  # a warning would fail


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_algorithms_of_the_paper_take_at_most_150_iterations_by_default():
    X, y = wine()
    model = DRMClassifier(solver="ppa", tol=0, probability=False).fit(X, y)
    assert model.n_iter_ == 150
