"""Checks and factorisations of positive semi-definite matrices of any rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from .types import Array, Indices

__all__ = [
    "EPS",
    "cholesky_features",
    "clip_negative_eigenvalues",
    "eigen_features",
    "eigh",
    "pivoted_cholesky",
]

EPS = float(np.finfo(np.float64).eps)
SMALL_NEGATIVE = 1e-5  # scikit-learn's tolerance in KernelPCA
LARGEST_NOISE = 0.01  # of the centred matrix; more means that rounding has replaced the differences


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
    driver = "evd" if len(gram) > 1 else "evr"  # SciPy 1.11 fails for one value
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
