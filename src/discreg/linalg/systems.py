"""Linear systems of positive semi-definite matrices.

`psd_solver`, `psd_inverse` and `psd_root` factor a matrix. `conjugate_gradients` solves a system
that is given by its matrix products.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from discreg.linalg.types import Array

from .factorisation import EPS
from .rows import batches

__all__ = [
    "Solve",
    "conjugate_gradients",
    "psd_inverse",
    "psd_root",
    "psd_solver",
    "solve_each",
]

SMALL_SYSTEM = 256
MIRRORED = 128  # rows of a triangle that are copied at once
Solve = Callable[[Array], Array]


def psd_solver(matrix: Array) -> Solve:
    """Return a solver of ``matrix @ Z = B`` for B in the range of a positive semi-definite matrix.

    The matrix is first scaled to a unit diagonal, so that the test for singularity does not depend
    on the units of the features. A well-conditioned matrix is factored by Cholesky. Otherwise,
    eigenvalues of the scaled matrix below its rounding error count as zero, and the solver returns
    the solution of least norm, which is the pseudo-inverse times B.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        Positive semi-definite matrix; it is overwritten.

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
    factor, scale = _scaled_cholesky(matrix)
    if factor is None:
        return _least_norm_solver(matrix, scale)
    column = scale[:, None]
    if len(matrix) <= SMALL_SYSTEM:
        # For small systems, products with the inverse of the factor are faster than a triangular
        # solve, whose threads wait for each other.
        inverse, _ = linalg.lapack.dtrtri(np.tril(factor), lower=1)
        inverse *= scale
        return lambda rhs: inverse.T @ (inverse @ rhs)
    return lambda rhs: column * linalg.cho_solve((factor, True), column * rhs, check_finite=False)


def psd_inverse(matrix: Array) -> Array:
    """Compute the inverse of a positive semi-definite matrix, which is overwritten.

    If it is singular up to rounding, the product with B in its range is the solution of least norm.
    """
    if not len(matrix):
        return matrix
    factor, scale = _scaled_cholesky(matrix)
    if factor is None:
        root = _least_norm_root(matrix, scale)
        return np.asarray(root.T @ root)
    inverse, _ = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    inverse *= scale[:, None]
    inverse *= scale
    for rows in batches(len(inverse), MIRRORED):  # only the lower triangle was computed
        inverse[: rows.start, rows] = inverse[rows, : rows.start].T
        corner = inverse[rows, rows]
        inverse[rows, rows] = np.tril(corner) + np.tril(corner, -1).T
    return np.asarray(inverse)


def psd_root(matrix: Array) -> Array:
    """Compute B for which BᵀB is the inverse of a matrix as in `psd_inverse`."""
    if not len(matrix):
        return matrix
    factor, scale = _scaled_cholesky(matrix)
    if factor is None:
        return _least_norm_root(matrix, scale)
    root, _ = linalg.lapack.dtrtri(np.tril(factor), lower=1)
    root *= scale
    return np.asarray(root)


def solve_each(matrices: Array, right: Array) -> Array:
    """Solve a system of equations for each row of `right`; NaN where its matrix is singular."""
    try:
        return np.asarray(np.linalg.solve(matrices, right[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:
        singular = np.linalg.det(matrices) == 0
        matrices = np.where(singular[:, None, None], np.nan, matrices)
        return np.asarray(np.linalg.solve(matrices, right[:, :, None])[:, :, 0])


def _scaled_cholesky(matrix: Array) -> tuple[Array | None, Array]:
    """Scale a matrix to a unit diagonal and factor it in place; return the factor and the scale.

    The factor is None if the matrix is singular up to rounding.
    """
    diagonal = matrix.diagonal()
    positive = diagonal > 0
    scale = np.where(positive, 1 / np.sqrt(np.where(positive, diagonal, 1.0)), 0.0)
    matrix *= scale[:, None]
    matrix *= scale
    return _cholesky(matrix) if positive.all() else None, scale


def _cholesky(unit: Array) -> Array | None:
    """Factor a matrix of unit diagonal in place; return its lower factor, or None if singular.

    If the matrix is singular up to rounding, its entries are restored.
    """
    size = len(unit)
    norm = linalg.lapack.dlange("1", unit.T)
    # unit.T has LAPACK's column order: its lower triangle is overwritten, the upper one is kept.
    factor, failed = linalg.lapack.dpotrf(unit.T, lower=1, clean=0, overwrite_a=1)
    if not failed:
        reciprocal_condition, _ = linalg.lapack.dpocon(factor, norm, uplo="L")
        if reciprocal_condition > 10 * size * EPS:
            return np.asarray(factor)
    below = np.tril(unit, -1)
    unit[...] = below + below.T
    unit[np.diag_indices(size)] = 1.0
    return None


def _least_norm_basis(unit: Array, scale: Array) -> tuple[Array, Array]:
    """Compute a basis of the range of the matrix that `scale` has scaled, and of its null space."""
    values, vectors = linalg.eigh(unit, check_finite=False)
    kept = values > 10 * len(unit) * EPS * values[-1]
    basis = scale[:, None] * (vectors[:, kept] / np.sqrt(values[kept]))
    # Null space in the original units: the solution of least norm is orthogonal to it.
    null = np.where(scale > 0, scale, 1.0)[:, None] * vectors[:, ~kept]
    if null.shape[1]:
        null, _ = linalg.qr(null, mode="economic", check_finite=False)
    return basis, null


def _least_norm_root(unit: Array, scale: Array) -> Array:
    basis, null = _least_norm_basis(unit, scale)
    return np.asarray((basis - null @ (null.T @ basis)).T)


def _least_norm_solver(unit: Array, scale: Array) -> Solve:
    """Return a solver of least norm for the matrix that `scale` has scaled to a unit diagonal."""
    basis, null = _least_norm_basis(unit, scale)

    def solve(rhs: Array) -> Array:
        solution = basis @ (basis.T @ rhs)
        return np.asarray(solution - null @ (null.T @ solution))

    return solve


def conjugate_gradients(
    matvec: Callable[[Array], Array],
    rhs: Array,
    preconditioner: Callable[[Array], Array],
    *,
    tol: float,
    max_iter: int,
) -> Array:
    r"""Minimise :math:`\tfrac12 \langle z, Az\rangle - \langle b, z\rangle`, starting from zero.

    For a symmetric positive semi-definite A this solves Az = b. Arrays of any shape are
    treated as vectors.

    Parameters
    ----------
    matvec : callable
        ``matvec(z)`` computes Az.
    rhs : ndarray
        Right-hand side b.
    preconditioner : callable
        ``preconditioner(r)`` computes :math:`M^{-1}r` for a positive definite M that resembles A.
    tol : float
        Stop once the residual :math:`r = b - Az` has
        :math:`\langle r, M^{-1}r\rangle \le tol^2 \langle b, M^{-1}b\rangle`.
    max_iter : int
        Maximum number of products with A.

    Returns
    -------
    z : ndarray
        Approximate solution. The iteration stops early at a direction without curvature.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> z = conjugate_gradients(A.__matmul__, np.array([3.0, 4.0]), np.copy, tol=1e-12, max_iter=5)
    >>> z.round(12)
    array([1., 1.])
    """
    solution, residual = np.zeros_like(rhs), rhs
    direction = preconditioner(residual)
    energy = float(np.vdot(residual, direction))
    enough = tol**2 * energy
    for _ in range(max_iter):
        image = matvec(direction)
        curvature = float(np.vdot(direction, image))
        if curvature <= 0 or energy <= 0:
            break
        length = energy / curvature
        solution = solution + length * direction
        residual = residual - length * image
        preconditioned = preconditioner(residual)
        energy, previous = float(np.vdot(residual, preconditioned)), energy
        if energy <= enough:
            break
        direction = preconditioned + energy / previous * direction
    return solution
