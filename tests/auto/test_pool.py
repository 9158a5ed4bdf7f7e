"""Least squares without a unit, the calibration and the pool are what their formulas say."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from discreg.auto import _pool
from discreg.auto._candidates import independence_p_value, kernel_kinds
from discreg.auto._least_squares import spectrum_of
from discreg.auto._pool import JudgedRows, fit_calibrator, fit_weights, gain_over_shares
from discreg.auto._samples import samples_of
from discreg.base.calibration import Temperature


def samples(n_rows=60, *, groups=False, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3))
    y = np.digitize(X[:, 0] + 0.5 * random.normal(size=n_rows), [-0.5, 0.5])
    weights = random.integers(1, 4, size=n_rows).astype(float)
    numbers = np.arange(n_rows) // 3 if groups else None
    return samples_of(X, y, weights, numbers, 3, np.zeros(X.shape[1], dtype=bool), 0)


def test_a_part_of_the_samples_keeps_the_shares_of_the_classes():
    given = samples(400)
    rows = np.flatnonzero((given.y > 0) | (np.arange(400) % 5 == 0))  # few of the first class
    part = given.take(rows)
    np.testing.assert_allclose(part.shares, given.shares)
    assert part.weights.sum() == pytest.approx(given.weights[rows].sum())
    np.testing.assert_array_equal(given.take(rows, keep_shares=False).weights, given.weights[rows])


@pytest.mark.parametrize("groups", [False, True])
def test_folds_are_made_of_whole_units(groups):
    given = samples(groups=groups)
    for train, test in [*given.folds, *given.plain_folds]:
        assert not set(given.units[train]) & set(given.units[test])


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("place", [0, 1, 3, 6])
def test_held_out_scores_are_those_of_refits(place, groups):
    given = samples(groups=groups)
    kind = kernel_kinds(given)[place]
    kernel, scaling = kind.options["kernel"], kind.options["scaling"]
    spectrum = spectrum_of(kernel, given, scaling, None)
    penalty = 1e-2 * spectrum.values.sum()
    found = spectrum.held_out(penalty)
    X = given.scaled(scaling)
    K = kernel(X)

    def scores_of(rows, new):
        """Solve the optimality conditions of weighted kernel ridge with an intercept."""
        n = len(rows)
        system = np.ones((n + 1, n + 1))
        system[n, n] = 0.0
        system[:n, :n] = K[np.ix_(rows, rows)] + penalty * np.diag(1 / given.weights[rows])
        targets = np.vstack([np.eye(3)[given.y[rows]], np.zeros(3)])
        found = np.linalg.solve(system, targets)
        return K[np.ix_(new, rows)] @ found[:n] + found[n]

    every = np.arange(len(given))
    np.testing.assert_allclose(spectrum.model(penalty)(X), scores_of(every, every), atol=1e-8)
    for k in range(0, len(given.judged), 7):
        row = given.judged[k]
        rest = np.flatnonzero(given.units != given.units[row])
        np.testing.assert_allclose(found[k], scores_of(rest, [row])[0], atol=1e-8)


@pytest.mark.parametrize("place", [1, 3])
def test_all_components_are_the_exact_kernel(place):
    given = samples()
    kind = kernel_kinds(given)[place]
    kernel, scaling = kind.options["kernel"], kind.options["scaling"]
    exact = spectrum_of(kernel, given, scaling, None)
    few = spectrum_of(kernel, given, scaling, len(given) - 1)
    penalty = 0.1 * exact.values.sum()
    X = given.scaled(scaling)
    difference = exact.model(penalty)(X) - few.model(penalty)(X)
    assert np.abs(difference).max() < 0.1
    left = few.held_out(penalty) - exact.held_out(penalty)
    assert np.abs(left).max() < 0.1


def judged(n_rows=150, n_classes=3, seed=0):
    random = np.random.default_rng(seed)
    y = random.integers(n_classes, size=n_rows)
    weights = random.uniform(0.5, 2, size=n_rows)
    shares = np.bincount(y, weights) / weights.sum()
    return JudgedRows(y, weights, np.arange(n_rows), shares), random


def test_the_calibration_minimises_its_objective():
    given, random = judged()
    logs = log_softmax(random.normal(size=(150, 3)) + np.eye(3)[given.y], axis=1)
    found = fit_calibrator(logs, given, Temperature(1.0))
    L = logs - logs.mean(axis=1, keepdims=True)
    rho = _pool.MATRIX_PENALTY / given.n_effective

    def objective(unknowns):
        W, b = unknowns[:9].reshape(3, 3), unknowns[9:]
        own = log_softmax(L @ W + b, axis=1)[np.arange(150), given.y]
        penalty = ((W - np.eye(3)) ** 2).sum() + b @ b
        return -(given.weights @ own) / given.weights.sum() + rho * penalty

    best = minimize(objective, np.r_[np.eye(3).ravel(), np.zeros(3)], tol=1e-12)
    unknowns = np.r_[found.matrix.ravel(), found.offset]
    assert objective(unknowns) == pytest.approx(best.fun, abs=1e-7)


def test_the_weights_of_a_pool_minimise_its_objective():
    given, random = judged()
    logs = [log_softmax(random.normal(size=(150, 3)) + k * np.eye(3)[given.y], axis=1)
            for k in (0.0, 0.5, 1.0, 1.0)]  # fmt: skip
    found = fit_weights(logs, given)
    penalty = _pool.POOL_PENALTY / given.n_effective

    def objective(w):
        own = log_softmax(np.tensordot(w, logs, 1), axis=1)[np.arange(150), given.y]
        return -(given.weights @ own) / given.weights.sum() + penalty * ((w - 0.25) ** 2).sum()

    best = minimize(objective, np.full(4, 0.25), bounds=[(0, None)] * 4, tol=1e-12)
    assert objective(found) == pytest.approx(best.fun, abs=1e-6)
    assert (found >= 0).all()


def test_a_pool_has_at_most_six_members():
    given, random = judged(600)
    logs = [log_softmax(random.normal(size=(600, 3)) + np.eye(3)[given.y], axis=1)
            for _ in range(9)]  # fmt: skip
    assert np.count_nonzero(fit_weights(logs, given)) == 6


def test_the_error_of_the_gain_counts_groups_and_not_rows():
    # Twelve groups of forty equal rows are as precise as twelve rows.
    random = np.random.default_rng(3)
    y, logit = np.resize([0, 1], 12), random.normal(size=12)
    logs = log_softmax(np.column_stack([-logit, logit]), axis=1)
    shares, of_rows = np.full(2, 0.5), (np.repeat(logs, 40, axis=0), np.repeat(y, 40))
    few = gain_over_shares(logs, JudgedRows(y, np.ones(12), np.arange(12), shares))
    groups = np.repeat(np.arange(12), 40)
    many = gain_over_shares(of_rows[0], JudgedRows(of_rows[1], np.ones(480), groups, shares))
    assert many == pytest.approx(few)
    assert few[0] == pytest.approx(np.mean(logs[np.arange(12), y]) + np.log(2))


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_p_values_are_uniform_for_independent_labels_and_small_for_others(groups, slope):
    random, found = np.random.default_rng(0), []
    for _ in range(60):
        numbers = np.arange(120) // 3 if groups else None
        X = random.normal(size=(120, 3))
        if groups:
            X = X[numbers] + 0.1 * random.normal(size=(120, 3))
        y = (slope * X[:, 0] + random.logistic(size=120) > 0).astype(int)
        if groups:
            y = y[3 * numbers]
        is_indicator = np.zeros(X.shape[1], dtype=bool)
        samples = samples_of(X, y, np.ones(120), numbers, 2, is_indicator, 0)
        found.append(independence_p_value(samples))
    share = np.mean(np.array(found) <= 0.25)
    assert share > 0.6 if slope else 0.1 < share < 0.4
