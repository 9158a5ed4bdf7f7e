"""Solvers and factors of positive semi-definite matrices of any rank and scaling."""

import numpy as np
import pytest

from discreg.linalg.factorisation import (
    clip_negative_eigenvalues,
    pivoted_cholesky,
    psd_solver,
)


def gram(size, rank, seed=0):
    rows = np.random.default_rng(seed).normal(size=(rank, size))
    return rows.T @ rows


@pytest.mark.parametrize("rank", [3, 7, 12])
def test_solution_is_the_pseudo_inverse_on_the_range(rank):
    matrix = gram(7, rank)
    rhs = matrix @ np.random.default_rng(1).normal(size=(7, 2))
    expected = np.linalg.pinv(matrix, rcond=1e-10, hermitian=True) @ rhs
    np.testing.assert_allclose(psd_solver(matrix.copy())(rhs), expected, atol=1e-9)


def test_full_rank_does_not_depend_on_the_units():
    matrix = gram(5, 20)
    units = np.logspace(-9, 9, 5)
    scaled = matrix * units[:, None] * units
    rhs = np.random.default_rng(2).normal(size=(5, 2))
    solution = psd_solver(scaled)(rhs * units[:, None]) * units[:, None]
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, rhs), rtol=1e-9)


def test_singular_matrices_of_mixed_units_have_a_least_norm_solution():
    rows = np.random.default_rng(3).normal(size=(20, 3))
    rows = np.hstack([rows * [1e6, 1.0, 1e-3], rows[:, :1] * 1e6, np.zeros((20, 1))])
    matrix = rows.T @ rows
    solution = psd_solver(matrix.copy())(matrix @ np.ones((5, 1)))
    # Columns 0 and 3 are the same feature and share its coefficient; column 4 is nothing.
    np.testing.assert_allclose(solution.ravel(), [1, 1, 1, 1, 0], atol=1e-6)


@pytest.mark.parametrize(("size", "rank"), [(7, 3), (7, 7), (300, 400)])
def test_inverse_root_and_whitened_rows_agree_on_the_range(size, rank):
    matrix = gram(size, rank)
    rhs = matrix @ np.random.default_rng(1).normal(size=(size, 2))
    solve = psd_solver(matrix.copy())
    solution, whitened = solve(rhs), solve.whiten(rhs)
    np.testing.assert_allclose(whitened.T @ whitened, rhs.T @ solution, rtol=1e-9)


def test_nothing_to_solve():
    assert psd_solver(np.zeros((0, 0)))(np.zeros((0, 2))).shape == (0, 2)
    np.testing.assert_array_equal(psd_solver(np.zeros((3, 3)))(np.zeros((3, 2))), 0)


@pytest.mark.parametrize("rank", [0, 1, 4, 9])
def test_factor_has_the_rank_of_the_matrix(rank):
    matrix = gram(9, rank) if rank else np.zeros((9, 9))
    factor, pivots = pivoted_cholesky(matrix.copy())
    assert factor.shape == (9, rank)
    np.testing.assert_allclose(factor @ factor.T, matrix, atol=1e-12 * 9)
    triangle = factor[pivots]
    np.testing.assert_array_equal(triangle, np.tril(triangle))
    assert np.all(np.diag(triangle) > 0)


def clip(matrix, norm=None):
    norm = np.linalg.norm(matrix) if norm is None else norm
    clip_negative_eigenvalues(matrix, norm, "It", "Mend it.")
    return matrix


def test_indefinite_matrices_are_refused_with_their_smallest_eigenvalue():
    matrix = gram(6, 4)
    np.testing.assert_array_equal(clip(matrix.copy()), matrix)
    with pytest.raises(
        ValueError, match=r"^It is not positive.*eigenvalue is -0\.1\. .*Mend it\.$"
    ):
        clip(matrix - 0.1 * np.eye(6))
    with pytest.raises(ValueError, match="-1"):
        clip(np.array([[0.0, 1.0], [1.0, 0.0]]))
    with pytest.raises(ValueError, match="-2"):
        clip(-2.0 * np.eye(3))


def test_eigenvalues_that_rounding_made_negative_become_zero():
    exact = gram(40, 5)
    noise = 1e-7 * np.random.default_rng(4).normal(size=exact.shape)
    given = exact + noise + noise.T
    below = -np.linalg.eigvalsh(given)[0]
    clipped = clip(given.copy())
    values = np.linalg.eigvalsh(clipped)
    assert below > 1e-6
    assert np.sum(values > 1e-12) == 5
    assert values[0] > -1e-12
    assert np.linalg.norm(clipped - given, 2) <= 2 * below


def test_negative_eigenvalues_are_compared_with_the_matrix_as_given():
    """Centring leaves a small matrix with the rounding errors of a large one."""
    matrix = np.diag([1.0, 1.0, 0.0, -1e-4])
    assert np.linalg.eigvalsh(clip(matrix.copy(), norm=1e3))[0] >= 0
    with pytest.raises(ValueError, match=r"-0\.0001"):
        clip(matrix.copy())
    with pytest.raises(ValueError, match=r"-0\.1"):  # more rounding error than variation
        clip(np.diag([1.0, 1.0, 0.0, -0.1]), norm=1e9)
