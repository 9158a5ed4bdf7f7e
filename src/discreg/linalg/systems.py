"""Linear systems: positive semi-definite ones of any rank, many small ones, conjugate gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from scipy import linalg

from .factorisation import EPS
from .rows import batches
from .types import Array

__all__ = [
    "PsdSolver",
    "conjugate_gradients",
    "psd_inverse",
    "psd_root",
    "psd_solver",
    "solve_each",
]

SMALL_SYSTEM = 256
MIRRORED = 128  # rows of a triangle that are copied at once


class PsdSolver(ABC):
    """A positive semi-definite matrix M of shape (m, m) that is factored, for B in its range.

    If M is singular, solutions are those of least norm, and M⁻¹ stands for the pseudo-inverse.
    """

    @abstractmethod
    def __call__(self, right: Array) -> Array:
        """Compute Z with MZ = B for B of shape (m, k)."""

    @abstractmethod
    def whiten(self, right: Array) -> Array:
        """Compute C of at most m rows with CᵀC = BᵀM⁻¹B for B of shape (m, k)."""


def psd_solver(matrix: Array) -> PsdSolver:
    """Factor a positive semi-definite matrix M, to solve MZ = B for B in its range.

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
    solve : PsdSolver
        Takes B of shape (m, k) and returns Z of shape (m, k).

    Examples
    --------
    >>> import numpy as np
    >>> solve = psd_solver(np.array([[2.0, 2.0], [2.0, 2.0]]))
    >>> solve(np.array([[4.0], [4.0]])).round(12).ravel()
    array([1., 1.])
    """
    solver = _factored(matrix)
    if isinstance(solver, _CholeskySolver) and len(matrix) <= SMALL_SYSTEM:
        # For small systems, products with the inverse of the factor are faster than a triangular
        # solve, whose threads wait for each other.
        return _RootSolver(solver.root())
    return solver


def psd_inverse(matrix: Array) -> Array:
    """Compute the inverse of a matrix as in `psd_solver`, which is overwritten."""
    return _factored(matrix).inverse()


def psd_root(matrix: Array) -> Array:
    """Compute R of at most m rows with RᵀR the inverse of a matrix as in `psd_solver`."""
    return _factored(matrix).root()


def _factored(matrix: Array) -> _CholeskySolver | _LeastNormSolver:
    if not len(matrix):
        return _LeastNormSolver(matrix, matrix)
    diagonal = matrix.diagonal()
    positive = diagonal > 0
    scale = np.where(positive, 1 / np.sqrt(np.where(positive, diagonal, 1.0)), 0.0)
    matrix *= scale[:, None]
    matrix *= scale
    factor = _cholesky(matrix) if positive.all() else None
    if factor is None:
        return _LeastNormSolver(*_least_norm_bases(matrix, scale))
    return _CholeskySolver(factor, scale)


class _RootSolver(PsdSolver):
    """Solver for R with RᵀR = M⁻¹."""

    def __init__(self, root: Array) -> None:
        self._root = root

    def __call__(self, right: Array) -> Array:
        return np.asarray(self._root.T @ (self._root @ right))

    def whiten(self, right: Array) -> Array:
        return np.asarray(self._root @ right)


class _CholeskySolver(PsdSolver):
    """Solver for the lower Cholesky factor L of DMD, where the diagonal matrix D scales M."""

    def __init__(self, factor: Array, scale: Array) -> None:
        self._factor, self._scale = factor, scale

    def __call__(self, right: Array) -> Array:
        column = self._scale[:, None]
        solved = linalg.cho_solve((self._factor, True), column * right, check_finite=False)
        return np.asarray(column * solved)

    def whiten(self, right: Array) -> Array:
        scaled = self._scale[:, None] * right
        return np.asarray(
            linalg.solve_triangular(
                self._factor, scaled, lower=True, overwrite_b=True, check_finite=False
            )
        )

    def root(self) -> Array:
        """Compute R with RᵀR = M⁻¹."""
        root, _ = linalg.lapack.dtrtri(np.tril(self._factor), lower=1)
        root *= self._scale
        return np.asarray(root)

    def inverse(self) -> Array:
        """Compute M⁻¹ in place of the factor."""
        inverse, _ = linalg.lapack.dpotri(self._factor, lower=1, overwrite_c=1)
        inverse *= self._scale[:, None]
        inverse *= self._scale
        for rows in batches(len(inverse), MIRRORED):  # only the lower triangle was computed
            inverse[: rows.start, rows] = inverse[rows, : rows.start].T
            corner = inverse[rows, rows]
            inverse[rows, rows] = np.tril(corner) + np.tril(corner, -1).T
        return np.asarray(inverse)


class _LeastNormSolver(PsdSolver):
    """Solver for B with MBBᵀM = M, and an orthonormal basis of the null space of M."""

    def __init__(self, basis: Array, null: Array) -> None:
        self._basis, self._null = basis, null

    def __call__(self, right: Array) -> Array:
        return self._without_null(self._basis @ self.whiten(right))

    def whiten(self, right: Array) -> Array:
        return np.asarray(self._basis.T @ right)

    def root(self) -> Array:
        """Compute R with RᵀR = M⁻¹."""
        return self._without_null(self._basis).T

    def inverse(self) -> Array:
        """Compute M⁻¹."""
        root = self.root()
        return np.asarray(root.T @ root)

    def _without_null(self, solution: Array) -> Array:
        return np.asarray(solution - self._null @ (self._null.T @ solution))


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


def _least_norm_bases(unit: Array, scale: Array) -> tuple[Array, Array]:
    """Compute B with MBBᵀM = M, and an orthonormal basis of the null space of M.

    `scale` has scaled M to a unit diagonal.
    """
    values, vectors = linalg.eigh(unit, check_finite=False)
    kept = values > 10 * len(unit) * EPS * values[-1]
    basis = scale[:, None] * (vectors[:, kept] / np.sqrt(values[kept]))
    # Null space in the original units: the solution of least norm is orthogonal to it.
    null = np.where(scale > 0, scale, 1.0)[:, None] * vectors[:, ~kept]
    if null.shape[1]:
        null, _ = linalg.qr(null, mode="economic", check_finite=False)
    return basis, null


def solve_each(matrices: Array, right: Array) -> Array:
    """Solve a system of equations for each row of `right`; NaN where its matrix is singular."""
    try:
        return np.asarray(np.linalg.solve(matrices, right[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:
        singular = np.linalg.det(matrices) == 0
        matrices = np.where(singular[:, None, None], np.nan, matrices)
        return np.asarray(np.linalg.solve(matrices, right[:, :, None])[:, :, 0])


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
