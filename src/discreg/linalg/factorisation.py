"""Positive semi-definite matrices of any rank: checks, factorisations and linear systems."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from .types import Array, Indices

EPS = float(np.finfo(np.float64).eps)
SMALL_NEGATIVE = 1e-5  # scikit-learn's tolerance in KernelPCA
LARGEST_NOISE = 0.01  # of the centred matrix; more means that rounding has replaced the differences


def eigen_driver(matrix: Array) -> str:
    """Return the driver of `scipy.linalg.eigh`; "evd" of SciPy 1.11 fails for one value."""
    return "evd" if len(matrix) > 1 else "evr"


def clip_negative_eigenvalues(matrix: Array, norm: float, what: str, remedy: str) -> None:
    """Set the eigenvalues of a symmetric matrix to zero that rounding made negative, in place.

    Positive eigenvalues of this size, up to twice that of the most negative one, are rounding
    errors as well: they are also set to zero. If no eigenvalue is below minus the error of double
    precision, the matrix does not change.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
    norm : float
        Frobenius norm of the matrix before it was centred.
    what, remedy : str
        Name of the matrix and advice for the error message.

    Raises
    ------
    ValueError
        If an eigenvalue is below -1e-5 times `norm`, or below -0.01 times the largest eigenvalue.
    """
    allowed = 1e-14 * len(matrix) * float(np.abs(matrix.diagonal()).max())
    shifted = matrix.copy()
    shifted[np.diag_indices_from(shifted)] += allowed + np.finfo(float).tiny
    _, failed = linalg.lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)
    if not failed:
        return
    values, vectors = linalg.eigh(matrix, check_finite=False)
    smallest, largest = float(values[0]), float(values[-1])
    if smallest >= -allowed:
        return
    if smallest < -min(SMALL_NEGATIVE * norm, LARGEST_NOISE * largest):
        raise ValueError(
            f"{what} is not positive semi-definite: its smallest eigenvalue is {smallest:.3g}. Its "
            f"largest is {largest:.3g}. {remedy}"
        )
    kept = values > max(-2 * smallest, 10 * EPS * norm)
    vectors = vectors[:, kept] * np.sqrt(values[kept])
    np.matmul(vectors, vectors.T, out=matrix)


def _rounding_of(size: int, largest: float) -> float:
    """Return the size of pivots and eigenvalues that rounding makes of zeros."""
    return 20 * size * EPS * largest


def pivoted_cholesky(matrix: Array, largest: float | None = None) -> tuple[Array, Indices]:
    """Factor a positive semi-definite matrix of any rank: ``matrix = L @ L.T``.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        Positive semi-definite matrix; it is overwritten.
    largest : float, optional
        Largest entry of the matrix before it was centred, whose rounding errors it has; by default
        that of the matrix.

    Returns
    -------
    factor : ndarray of shape (m, rank)
        L; the error of the product is below the rounding error of the matrix.
    pivots : ndarray of shape (rank,)
        Indices of the rows of L that form a lower triangular matrix.

    Examples
    --------
    >>> import numpy as np
    >>> factor, pivots = pivoted_cholesky(np.array([[1.0, 2.0], [2.0, 4.0]]))
    >>> factor.ravel(), pivots
    (array([1., 2.]), array([1]))
    """
    size = len(matrix)
    largest = float(matrix.diagonal().max()) if largest is None else largest
    rounding = _rounding_of(size, largest)
    if rounding <= 0:
        return np.zeros((size, 0)), np.zeros(0, dtype=np.intp)
    factor, order, rank, _ = linalg.lapack.dpstrf(matrix.T, tol=rounding, lower=1, overwrite_a=1)
    order = order.astype(np.intp) - 1
    result = np.empty((size, rank))
    result[order] = np.tril(factor[:, :rank])
    return result, order[:rank]


def cholesky_features(
    kernel: Array, seen: NDArray[np.bool_], largest: float
) -> tuple[Array, Indices]:
    """Factor a kernel matrix by `pivoted_cholesky`, within the span of the samples that are seen.

    Of the others, the rows of the factor describe only the parts in this span.
    """
    if seen.all():
        return pivoted_cholesky(kernel, largest)
    rows = np.flatnonzero(seen)
    of_seen, pivots = pivoted_cholesky(kernel[np.ix_(rows, rows)], largest)
    factor = np.empty((len(kernel), len(pivots)))
    factor[seen] = of_seen
    if len(pivots):
        factor[~seen] = linalg.solve_triangular(
            of_seen[pivots], kernel[np.ix_(rows[pivots], ~seen)], lower=True, check_finite=False
        ).T
    return factor, rows[pivots]


def eigh(gram: Array) -> tuple[Array, Array]:
    """Compute all eigenvalues and eigenvectors by the faster method, divide and conquer."""
    driver = eigen_driver(gram)
    values, vectors = linalg.eigh(gram, driver=driver, check_finite=False)
    return np.asarray(values), np.asarray(vectors)


def eigen_features(kernel: Array, weights: Array, largest: float) -> tuple[Array, Array]:
    """Compute the positive eigenvalues of S^½KS^½, and the features of all samples along them."""
    roots = np.sqrt(weights)
    seen = roots > 0
    inner = kernel if seen.all() else kernel[np.ix_(seen, seen)]
    values, vectors = eigh(inner * roots[seen] * roots[seen, None])
    kept = values > _rounding_of(len(kernel), largest) * weights.max()
    values, vectors = values[kept], vectors[:, kept]
    if seen.all():
        return values, vectors * np.sqrt(values) / roots[:, None]
    return values, kernel[:, seen] @ (roots[seen, None] * vectors / np.sqrt(values))


class PsdSolver:
    """A positive semi-definite matrix M of shape (m, m) that is factored, for B in its range.

    If M is singular, solutions are those of least norm, and M⁻¹ stands for the pseudo-inverse.

    Parameters
    ----------
    factor : ndarray of shape (m, m)
        Lower Cholesky factor of DMD.
    scale : ndarray of shape (m,)
        Diagonal of D.
    """

    def __init__(self, factor: Array, scale: Array) -> None:
        self._factor, self._scale = factor, scale[:, None]

    def __call__(self, right: Array) -> Array:
        """Compute Z with MZ = B for B of shape (m, k)."""
        solved, _ = linalg.lapack.dpotrs(self._factor, self._scale * right, lower=1)
        return np.asarray(self._scale * solved)

    def whiten(self, right: Array) -> Array:
        """Compute C of at most m rows with CᵀC = BᵀM⁻¹B for B of shape (m, k)."""
        scaled = self._scale * right
        return np.asarray(
            linalg.solve_triangular(self._factor, scaled, lower=True, check_finite=False)
        )


class _LeastNormSolver(PsdSolver):
    """A singular M, from R with MRRᵀM = M and an orthonormal basis of the null space."""

    def __init__(self, root: Array, null: Array) -> None:
        self._root, self._null = root, null

    def __call__(self, right: Array) -> Array:
        solution = self._root @ self.whiten(right)
        return np.asarray(solution - self._null @ (self._null.T @ solution))

    def whiten(self, right: Array) -> Array:
        return np.asarray(self._root.T @ right)


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
    if not len(matrix):
        return _LeastNormSolver(matrix, matrix)
    diagonal = matrix.diagonal()
    positive = diagonal > 0
    scale = np.where(positive, 1 / np.sqrt(np.where(positive, diagonal, 1.0)), 0.0)
    matrix *= scale[:, None]
    matrix *= scale
    factor = _cholesky(matrix) if positive.all() else None
    return _least_norm(matrix, scale) if factor is None else PsdSolver(factor, scale)


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


def _least_norm(unit: Array, scale: Array) -> PsdSolver:
    """Factor a singular M, which `scale` has scaled to a unit diagonal, by its eigenvectors."""
    values, vectors = eigh(unit)
    kept = values > 10 * len(unit) * EPS * values[-1]
    root = scale[:, None] * (vectors[:, kept] / np.sqrt(values[kept]))
    # Null space in the original units: the solution of least norm is orthogonal to it.
    null = np.where(scale > 0, scale, 1.0)[:, None] * vectors[:, ~kept]
    if null.shape[1]:
        null, _ = linalg.qr(null, mode="economic", check_finite=False)
    return _LeastNormSolver(root, null)


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
