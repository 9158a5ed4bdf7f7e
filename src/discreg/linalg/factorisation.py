"""Check and factorisation of positive semi-definite matrices of any rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

__all__ = ["pivoted_cholesky", "require_psd"]

EPS = float(np.finfo(np.float64).eps)


def require_psd(matrix: NDArray[np.float64], rounding: float, what: str, remedy: str) -> None:
    """Raise ValueError if a symmetric matrix has an eigenvalue below minus its rounding error.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
    rounding : float
        Relative precision of the entries.
    what, remedy : str
        Name of the matrix and advice for the error message.
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
        Positive semi-definite matrix; it is overwritten.

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
    rounding = 20 * size * EPS * float(matrix.diagonal().max())
    if rounding <= 0:
        return np.zeros((size, 0)), np.zeros(0, dtype=np.intp)
    factor, order, rank, _ = linalg.lapack.dpstrf(matrix.T, tol=rounding, lower=1, overwrite_a=1)
    order = order.astype(np.intp) - 1
    result = np.empty((size, rank))
    result[order] = np.tril(factor[:, :rank])
    return result, order[:rank]
