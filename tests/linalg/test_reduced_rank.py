"""Coefficients of every rank: optimal, ordered, and with no direction lost."""

import numpy as np
import pytest

from discreg.linalg.ridge import rank_coefficients


def of_rank(ranked, rank):
    """The best coefficients of at most this rank."""
    return ranked.projected[:, :rank] @ ranked.directions[:, :rank].T


def regression(sizes, seed=0):
    """Moments, Gram matrix and solution of targets whose directions explain `sizes`."""
    rng = np.random.default_rng(seed)
    V, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    U, _ = np.linalg.qr(rng.normal(size=(6, 4)))
    scales = 10.0 ** rng.uniform(-1, 1, size=6)
    half = (U * np.sqrt(sizes)) @ V.T  # G^-½ times the moments
    return scales[:, None] ** 0.5 * half, np.diag(scales), half / scales[:, None] ** 0.5


def excess(gram, full, coef):
    return np.trace((full - coef).T @ gram @ (full - coef))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_what_a_rank_leaves_out_is_the_smallest(rank):
    sizes = np.array([0.1, 0.8, 0.3, 0.5])
    moments, gram, full = regression(sizes)
    ranked = rank_coefficients(full, moments)
    np.testing.assert_allclose(ranked.explained, np.sort(sizes)[::-1])
    assert excess(gram, full, of_rank(ranked, rank)) == pytest.approx(np.sort(sizes)[:-rank].sum())
    assert np.linalg.matrix_rank(of_rank(ranked, rank)) == rank


def test_small_directions_come_before_those_of_rounding():
    """An eigenvalue of 1e-11 beside 1 is real; that of the null direction is not."""
    moments, _, full = regression(np.array([1.0, 1e-11, 0.0, 0.5]))
    ranked = rank_coefficients(full, moments)
    third = of_rank(ranked, 3)
    np.testing.assert_allclose(third, full, atol=1e-9 * np.abs(full).max())
    small = np.linalg.norm(ranked.projected, axis=0)
    assert small[2] > 1e3 * small[3]


def test_ties_are_ordered_by_the_size_of_the_coefficients():
    moments, _, full = regression(np.array([1.0, 1.0, 1.0, 0.2]))
    sizes = np.linalg.norm(rank_coefficients(full, moments).projected, axis=0)
    assert sizes[0] < sizes[1] < sizes[2]
    turned = rank_coefficients(full, moments)
    inner = turned.projected[:, :3].T @ turned.projected[:, :3]
    np.testing.assert_allclose(inner, np.diag(np.diag(inner)), atol=1e-12)


def test_nothing_to_explain():
    ranked = rank_coefficients(np.zeros((3, 2)), np.zeros((3, 2)))
    np.testing.assert_array_equal(of_rank(ranked, 1), 0)
