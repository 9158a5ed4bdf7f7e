"""Symmetric positive semi-definite systems, solved whatever their rank and scaling."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

__all__ = ["pivoted_cholesky", "psd_solver", "require_psd"]

Solve = Callable[[NDArray[np.float64]], NDArray[np.float64]]
EPS = float(np.finfo(np.float64).eps)
SMALL = 256


def psd_solver(matrix: NDArray[np.float64]) -> Solve:
    """Solver of ``matrix @ Z = B`` for B in the range of a positive semi-definite matrix.

    The matrix is brought to a unit diagonal first, so that what counts as singular does not
    depend on the units of the features. Well-conditioned: one Cholesky factorisation.
    Otherwise: eigenvalues of the unit-diagonal matrix below its rounding error count as zero and
    the solution of least norm is returned, which is the pseudo-inverse times B.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        It is overwritten.

    Returns
    -------
    solve : callable
        Takes B of shape (m, k) and returns Z of shape (m, k).

    Examples
    --------
    >>> import numpy as np
    >>> solve = psd_solver(np.array([[2.0, 2.0], [2.0, 2.0]]))
    >>> solve(np.array([[4.0], [4.0]])).round(12).ravel()
    array([1., 1.])
    """
    if not len(matrix):
        return lambda rhs: rhs
    diagonal = matrix.diagonal()
    positive = diagonal > 0
    scale = np.where(positive, 1 / np.sqrt(np.where(positive, diagonal, 1.0)), 0.0)
    matrix *= scale[:, None]
    matrix *= scale
    factor = _cholesky(matrix) if positive.all() else None
    if factor is None:
        return _least_norm_solver(matrix, scale)
    column = scale[:, None]
    if len(matrix) <= SMALL:
        # Products with the inverse of the factor: the threads of a triangular solve would wait for
        # each other longer than this takes.
        inverse, _ = linalg.lapack.dtrtri(np.tril(factor), lower=1)
        inverse *= scale
        return lambda rhs: inverse.T @ (inverse @ rhs)
    return lambda rhs: column * linalg.cho_solve((factor, True), column * rhs, check_finite=False)


def _cholesky(unit: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Lower factor of a matrix of unit diagonal, in its memory; None when it is singular.

    When it is singular to rounding the matrix is handed back as it was.
    """
    size = len(unit)
    norm = linalg.lapack.dlange("1", unit.T)
    # unit.T has LAPACK's column order: its lower triangle is overwritten, its upper stays.
    factor, failed = linalg.lapack.dpotrf(unit.T, lower=1, clean=0, overwrite_a=1)
    if not failed:
        reciprocal_condition, _ = linalg.lapack.dpocon(factor, norm, uplo="L")
        if reciprocal_condition > 10 * size * EPS:
            return factor
    below = np.tril(unit, -1)
    unit[...] = below + below.T
    unit[np.diag_indices(size)] = 1.0
    return None


def _least_norm_solver(unit: NDArray[np.float64], scale: NDArray[np.float64]) -> Solve:
    """Pseudo-inverse, on its range, of the matrix that `scale` brought to a unit diagonal."""
    values, vectors = linalg.eigh(unit, check_finite=False)
    kept = values > 10 * len(unit) * EPS * values[-1]
    basis = scale[:, None] * (vectors[:, kept] / np.sqrt(values[kept]))
    # The null space in the original units: the solution of least norm has no part in it.
    null = np.where(scale > 0, scale, 1.0)[:, None] * vectors[:, ~kept]
    if null.shape[1]:
        null, _ = linalg.qr(null, mode="economic", check_finite=False)

    def solve(rhs: NDArray[np.float64]) -> NDArray[np.float64]:
        solution = basis @ (basis.T @ rhs)
        return solution - null @ (null.T @ solution)

    return solve


def require_psd(matrix: NDArray[np.float64], rounding: float, what: str, remedy: str) -> None:
    """Raise ValueError when a symmetric matrix has an eigenvalue below its rounding error.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
    rounding : float
        Relative precision of the entries.
    what, remedy : str
        What the matrix is and what to do about it, for the message.
    """
    allowed = 10 * len(matrix) * rounding * max(float(np.abs(matrix.diagonal()).max()), 0.0)
    shifted = matrix.copy()
    shifted[np.diag_indices_from(shifted)] += allowed + np.finfo(float).tiny
    _, failed = linalg.lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        smallest = linalg.eigvalsh(matrix, subset_by_index=[0, 0], check_finite=False)[0]
        if smallest < -allowed:
            raise ValueError(
                f"{what} is not positive semi-definite: its smallest eigenvalue is "
                f"{smallest:.3g}. {remedy}"
            )


def pivoted_cholesky(
    matrix: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Factor a positive semi-definite matrix of any rank: ``matrix = L @ L.T``.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        It is overwritten.

    Returns
    -------
    factor : ndarray of shape (m, rank)
        L; what is left out of the product is below the rounding error of the matrix.
    pivots : ndarray of shape (rank,)
        Rows of L that form a lower triangular matrix.

    Examples
    --------
    >>> import numpy as np
    >>> factor, pivots = pivoted_cholesky(np.array([[1.0, 2.0], [2.0, 4.0]]))
    >>> factor.ravel(), pivots
    (array([1., 2.]), array([1]))
    """
    size = len(matrix)
    rounding = 20 * size * EPS * float(matrix.diagonal().max())
    if rounding <= 0:
        return np.zeros((size, 0)), np.zeros(0, dtype=np.intp)
    factor, order, rank, _ = linalg.lapack.dpstrf(matrix.T, tol=rounding, lower=1, overwrite_a=1)
    order = order.astype(np.intp) - 1
    result = np.empty((size, rank))
    result[order] = np.tril(factor[:, :rank])
    return result, order[:rank]
