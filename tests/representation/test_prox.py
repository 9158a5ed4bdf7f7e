"""The proximal operators are exact for every q, r and ρ."""

from itertools import pairwise, product
from math import inf

import cvxpy as cp
import numpy as np
import pytest
from products import every_value

from discreg.representation._problem import Penalty, prox

PENALTIES = [
    Penalty(*triple) for triple in product((1, 2, inf), (1, 2, inf), ("identity", "half_square"))
]
STEPS = (0.01, 0.3, 1.5, 6.0)

every_penalty = pytest.mark.parametrize(
    "penalty", PENALTIES, ids=lambda penalty: f"{penalty.q}-{penalty.r}-{penalty.rho}"
)


def groups_of(*sizes):
    return [slice(*ends) for ends in pairwise(np.cumsum([0, *sizes]))]


def random_weights(n_samples, seed=0):
    return np.sqrt(np.random.default_rng(seed).uniform(0.2, 5.0, n_samples))


def convex_penalty(penalty, u, slices, c):
    """ρ(Ω(u)) as an expression of CVXPY."""
    scale = {1: c, 2: np.ones_like(c), inf: 1 / c}[penalty.q]
    norms = [cp.norm(cp.multiply(scale[rows], u[rows]), penalty.q) for rows in slices]
    norm = cp.norm(cp.hstack(norms), penalty.r)
    return cp.square(norm) / 2 if penalty.half_square else norm


def assert_optimal(V, U, step, penalty, slices, c, atol=1e-13):
    """(v − u) / step is a subgradient of ρ(Ω) at u, up to rounding.

    Identity: Ω°(v − u) ≤ step and ⟨u, v − u⟩ = step·Ω(u). Half-square: Ω°(v − u) = step·Ω(u) and
    ⟨u, v − u⟩ = step·Ω(u)².
    """
    cut = V - U
    norm = penalty.norm(U, slices, c)
    dual = penalty.dual_norm(cut, slices, c)
    inner = np.sum(U * cut, axis=1)
    # Rounding of v is the most that an exact u can be asked to match.
    size = 1 + (1 + step) * np.sum(V**2, axis=1)
    if penalty.half_square:
        assert np.all(np.abs(dual - step * norm) <= atol * size)
        assert np.all(np.abs(inner - step * norm**2) <= atol * size)
    else:
        assert np.all(dual <= step + atol * size)
        assert np.all(np.abs(inner - step * norm) <= atol * size)


@every_penalty
@pytest.mark.parametrize("weighted", [False, True])
def test_minimiser_of_convex_programming(penalty, weighted):
    slices = groups_of(3, 1, 4)
    V = np.random.default_rng(0).normal(size=(3, 8))
    c = random_weights(8) if weighted else None
    ones_or_c = np.ones(8) if c is None else c
    for v, step in zip(V, (0.1, 0.6, 1.5), strict=True):
        u = cp.Variable(8)
        value = step * convex_penalty(penalty, u, slices, ones_or_c)
        problem = cp.Problem(cp.Minimize(cp.sum_squares(u - v) / 2 + value))
        problem.solve(solver=cp.CLARABEL)
        ours = prox(v[None], step, penalty, slices, c)
        objective = np.sum((ours - v) ** 2) / 2 + step * penalty.value(ours, slices, c)[0]
        # What Clarabel reaches on all of them; the next test goes to rounding.
        assert objective == pytest.approx(problem.value, rel=1e-7)
        np.testing.assert_allclose(ours[0], u.value, atol=1e-4)


@every_penalty
@every_value(sizes=[(7,), (3, 1, 4), (1, 1, 1), (40, 5, 1, 60, 14)], weighted=[False, True, True])
def test_first_order_conditions(penalty, weighted, sizes):
    slices = groups_of(*sizes)
    V = np.random.default_rng(1).normal(size=(20, sum(sizes)))
    c = random_weights(sum(sizes)) if weighted else None
    for step in STEPS:
        assert_optimal(V, prox(V, step, penalty, slices, c), step, penalty, slices, c)


@every_penalty
def test_first_order_conditions_with_ties(penalty):
    slices = groups_of(3, 1, 4)
    V = np.random.default_rng(2).integers(-2, 3, size=(50, 8)).astype(float)
    for step in (0.5, 1.0, 2.0, 4.0):
        assert_optimal(V, prox(V, step, penalty, slices), step, penalty, slices, None)


@every_penalty
def test_sizes_far_apart(penalty):
    rng = np.random.default_rng(3)
    slices = groups_of(30, 1, 20)
    V = rng.normal(size=(20, 51)) * 10.0 ** rng.integers(-8, 3, size=(20, 51))
    for step in STEPS:
        U = prox(V, step, penalty, slices)
        assert_optimal(V, U, step, penalty, slices, None)


@pytest.mark.parametrize("step", [1e3, 1e6])
@every_penalty
def test_weights_far_apart(penalty, step):
    """Rounding must not hide the sample of the largest weight, on which the answer depends."""
    slices = groups_of(9, 4)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        c = 10.0 ** rng.integers(-12, 1, 13)
        V = c * rng.uniform(0.1, 1, (4, 13))
        U = prox(V, step, penalty, slices, c)
        dual = penalty.dual_norm(V - U, slices, c)
        if penalty.half_square:
            np.testing.assert_allclose(dual, step * penalty.norm(U, slices, c), rtol=1e-6)
        else:
            assert np.all(dual <= step * (1 + 1e-13))


@every_penalty
def test_zero_stays_zero(penalty):
    slices = groups_of(2, 1, 3)
    assert not prox(np.zeros((2, 6)), 0.7, penalty, slices).any()
    one_group = np.zeros((1, 6))
    one_group[0, :2] = 3.0, -1.0
    U = prox(one_group, 0.7, penalty, slices)
    assert not U[0, 2:].any()
    assert U[0, 0] > 0


@every_penalty
def test_no_step_changes_nothing(penalty):
    V = np.random.default_rng(4).normal(size=(2, 6))
    np.testing.assert_array_equal(prox(V, 0.0, penalty, groups_of(2, 1, 3)), V)


@every_penalty
def test_huge_step(penalty):
    """The identity has exact zeros from the dual norm on; the half-square shrinks as 1/step."""
    slices = groups_of(5, 1, 3)
    c = random_weights(9)
    V = np.random.default_rng(5).normal(size=(30, 9))
    if penalty.half_square:
        step = 1e6
        U = prox(V, step, penalty, slices, c)
        assert U.any(axis=1).all()
        assert np.all(penalty.norm(U, slices, c) <= penalty.dual_norm(V, slices, c) / step * 1.01)
    else:
        largest = penalty.dual_norm(V, slices, c)
        for v, dual in zip(V, largest, strict=True):
            assert not prox(v[None], dual * (1 + 1e-14), penalty, slices, c).any()
            assert prox(v[None], dual * (1 - 1e-8), penalty, slices, c).any()


@every_penalty
def test_rows_do_not_depend_on_each_other(penalty):
    slices = groups_of(4, 1, 3)
    V = np.random.default_rng(6).normal(size=(5, 8))
    together = prox(V, 0.4, penalty, slices)
    for v, u in zip(V, together, strict=True):
        np.testing.assert_array_equal(prox(v[None], 0.4, penalty, slices)[0], u)


@every_penalty
def test_groups_without_samples_do_not_count(penalty):
    V = np.random.default_rng(7).normal(size=(4, 7))
    with_empty = [slice(0, 0), slice(0, 3), slice(3, 3), slice(3, 7), slice(7, 7)]
    np.testing.assert_array_equal(
        prox(V, 0.5, penalty, with_empty), prox(V, 0.5, penalty, groups_of(3, 4))
    )


def test_closed_forms_of_the_named_penalties():
    slices = groups_of(2, 1)
    V = np.array([[3.0, -4.0, 0.5]])
    ridge = prox(V, 1.0, Penalty.of("ridge"), slices)
    np.testing.assert_allclose(ridge, V / 2, rtol=1e-15)
    lasso = prox(V, 1.0, Penalty.of("lasso"), slices)
    np.testing.assert_allclose(lasso, [[2.0, -3.0, 0.0]], rtol=1e-15)
    group_lasso = prox(V, 1.0, Penalty.of("group_lasso"), slices)
    np.testing.assert_allclose(group_lasso, [[2.4, -3.2, 0.0]], rtol=1e-15)
    # The threshold of the first class is its norm left, τ = (3 − τ)₊ + (4 − τ)₊ = 7/3.
    exclusive = prox(V, 1.0, Penalty.of("exclusive_lasso"), slices)
    np.testing.assert_allclose(exclusive, [[2 / 3, -5 / 3, 0.25]], rtol=1e-15)


@every_penalty
@pytest.mark.parametrize("weighted", [False, True])
def test_dual_norm_is_attained(penalty, weighted):
    """⟨u, z⟩ ≤ Ω(u) Ω°(z), with equality for the prox of z and what it cuts off."""
    slices = groups_of(3, 1, 4)
    c = random_weights(8) if weighted else None
    rng = np.random.default_rng(8)
    U, Z = rng.normal(size=(2, 200, 8))
    bound = penalty.norm(U, slices, c) * penalty.dual_norm(Z, slices, c)
    assert np.all(np.sum(U * Z, axis=1) <= bound * (1 + 1e-14))
    U = prox(Z, 0.5, penalty, slices, c)
    bound = penalty.norm(U, slices, c) * penalty.dual_norm(Z - U, slices, c)
    np.testing.assert_allclose(np.sum(U * (Z - U), axis=1), bound, rtol=1e-12)


def test_names_and_triples():
    assert Penalty.of("lasso") == Penalty(1, 1, "identity")
    assert Penalty.of((2, 1, "identity")) == Penalty.of("group_lasso")
    assert Penalty.of([1, 2, "half_square"]) == Penalty.of("exclusive_lasso")
    assert Penalty.of((2, 2, "half_square")).is_ridge
    assert not Penalty.of((2, 2, "identity")).is_ridge


@pytest.mark.parametrize("value", ["elastic_net", (1, 2), (3, 1, "identity"), (1, 1, "square"), 2])
def test_unknown_penalty(value):
    with pytest.raises(ValueError, match=r"exclusive_lasso.*\{1, 2, inf\}.*half_square.*; got"):
        Penalty.of(value)
