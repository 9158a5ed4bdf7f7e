"""Conjugate gradients solve positive semi-definite systems of vectors and matrices."""

import numpy as np
import pytest

from discreg.linalg.factorisation import conjugate_gradients


def system(seed=0, size=12, rank=12):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(size, rank))
    ridge = np.eye(size) if rank == size else 0
    return factor @ factor.T + ridge, rng.normal(size=(size, 3))


def test_solves_for_a_matrix_of_right_hand_sides():
    A, B = system()
    Z = conjugate_gradients(
        lambda Z: A @ Z, B, lambda R: R / A.diagonal()[:, None], tol=1e-13, max_iter=500
    )
    np.testing.assert_allclose(A @ Z, B, atol=1e-9)


def test_the_inverse_as_preconditioner_takes_one_step():
    A, B = system()
    products = []

    def matvec(Z):
        products.append(Z)
        return A @ Z

    Z = conjugate_gradients(matvec, B, lambda R: np.linalg.solve(A, R), tol=1e-6, max_iter=50)
    assert len(products) == 1
    np.testing.assert_allclose(A @ Z, B, atol=1e-9)


def test_stops_at_the_accuracy_that_was_asked_for():
    A, B = system()
    residuals = []
    for tol in (1e-1, 1e-4):
        Z = conjugate_gradients(lambda Z: A @ Z, B, np.copy, tol=tol, max_iter=500)
        residuals.append(np.linalg.norm(B - A @ Z) / np.linalg.norm(B))
        assert residuals[-1] <= tol * (1 + 1e-9)
    assert residuals[1] < residuals[0]


def test_singular_but_consistent_systems_are_solved():
    A, B = system(rank=5)
    B = A @ B
    Z = conjugate_gradients(lambda Z: A @ Z, B, np.copy, tol=1e-10, max_iter=200)
    np.testing.assert_allclose(A @ Z, B, atol=1e-6)


@pytest.mark.parametrize("zero", ["matrix", "right-hand side"])
def test_zero_has_the_solution_zero(zero):
    A, B = system()
    A, B = (0 * A, B) if zero == "matrix" else (A, 0 * B)
    np.testing.assert_array_equal(
        conjugate_gradients(lambda Z: A @ Z, B, np.copy, tol=1e-6, max_iter=9), 0
    )
