"""Algorithm 2: the closed form (14) with one Cholesky factorisation for all test points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from discreg.linalg.factorisation import EPS
from discreg.linalg.rows import row_dots
from discreg.linalg.types import Array

from ._problem import Groups

__all__ = [
    "ClosedForm",
    "class_residuals",
    "inverse_of_factor",
    "solve_factored",
    "system_matrix",
    "unit_cholesky",
]


def system_matrix(
    kernel: Array, groups: Groups, alpha: float, beta: float, totals: Array | None = None
) -> Array:
    """Compute M = K + D − αB in place of the kernel matrix K, with D = diag((α h + β) / s).

    B divides by `totals`, by default the total weights of the classes.
    """
    totals = groups.totals if totals is None else totals
    shrinkage = groups.shrinkage(kernel.diagonal(), alpha, beta)
    for rows, total in zip(groups.slices, totals, strict=True):
        kernel[rows, rows] *= 1 - alpha / total
    kernel[np.diag_indices_from(kernel)] += shrinkage
    return kernel


def unit_cholesky(matrix: Array) -> tuple[Array, Array, float]:
    """Scale a matrix to unit diagonal and compute its lower Cholesky factor in place.

    The scaling makes the condition number independent of the sample weights.

    Returns
    -------
    factor : ndarray of shape (n, n)
        In column order.
    scale : ndarray of shape (n,)
        Factors that scale the matrix to unit diagonal.
    rcond : float
        Reciprocal condition number; zero if the factorisation failed.
    """
    scale = 1 / np.sqrt(matrix.diagonal())
    matrix *= scale[:, None]
    matrix *= scale
    # LAPACK needs column order: passing the transpose of a symmetric matrix avoids a copy.
    norm = linalg.lapack.dlange("1", matrix.T)
    factor, failed = linalg.lapack.dpotrf(matrix.T, lower=1, clean=1, overwrite_a=1)
    rcond = 0.0 if failed else linalg.lapack.dpocon(factor, norm, uplo="L")[0]
    return factor, scale, rcond


def inverse_of_factor(factor: Array, scale: Array) -> Array:
    """Compute the inverse of a matrix from the result of `unit_cholesky`, in place."""
    inverse, _ = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    inverse = inverse.T
    inverse[np.diag_indices_from(inverse)] /= 2
    inverse += inverse.T
    inverse *= scale
    inverse *= scale[:, None]
    return np.asarray(inverse)


@dataclass(frozen=True)
class ClosedForm:
    """The Cholesky factor of M and the kernel blocks of the classes.

    Attributes
    ----------
    groups : Groups
    factor : ndarray of shape (n, n)
        Lower Cholesky factor of M at a unit diagonal, in column order.
    scale : ndarray of shape (n,)
        Factors that scale M to unit diagonal.
    blocks : list of ndarray
        Kernel matrix of each class.
    shrinkage : ndarray of shape (n,)
        The diagonal D.
    alpha : float
    """

    groups: Groups
    factor: Array
    scale: Array
    blocks: list[Array]
    shrinkage: Array
    alpha: float

    @classmethod
    def of(cls, kernel: Array, groups: Groups, alpha: float, beta: float) -> ClosedForm:
        """Copy the class blocks of the kernel matrix and overwrite it with the factor of M."""
        blocks = [kernel[rows, rows].copy() for rows in groups.slices]
        shrinkage = groups.shrinkage(kernel.diagonal(), alpha, beta)
        largest = float(kernel.diagonal().max())
        factor, scale, rcond = unit_cholesky(system_matrix(kernel, groups, alpha, beta))
        if not rcond > 10 * EPS:
            raise ValueError(
                "K + alpha (H - B) + beta I is numerically singular: beta is too small compared "
                f"with the largest kernel value {largest:.3g}. Use a larger beta, or scale the "
                "features, for example with sklearn.preprocessing.StandardScaler."
            )
        return cls(groups, factor, scale, blocks, shrinkage, alpha)

    def represent(self, K_x: Array) -> Array:
        """Compute representations v = M⁻¹K_x, one row per test point."""
        return solve_factored(self.factor, self.scale, K_x)

    def residuals(self, V: Array, K_x: Array) -> Array:
        """Compute δ of (11), one row per test point."""
        ratios = self.alpha / self.groups.totals
        return class_residuals(V, K_x, self.groups.slices, self.blocks, self.shrinkage, ratios)


def solve_factored(factor: Array, scale: Array, K_x: Array) -> Array:
    """Compute M⁻¹K_x from the result of `unit_cholesky`, one row per test point."""
    solution, _ = linalg.lapack.dpotrs(factor, (K_x * scale).T, lower=1, overwrite_b=1)
    return np.asarray(solution.T * scale)


def class_residuals(
    V: Array,
    K_x: Array,
    slices: Sequence[slice],
    blocks: Sequence[Array],
    shrinkage: Array,
    ratios: Array,
) -> Array:
    """Compute δ of (11) from the class blocks: the system gives Kv = K_x − Dv + αBv.

    `ratios` are α / n_i, with one number or one array (per test point) per class.
    """
    columns = []
    square = np.zeros(len(V))  # vᵀKv
    for rows, block, ratio in zip(slices, blocks, ratios, strict=True):
        own, point = V[:, rows], K_x[:, rows]
        within = row_dots(own @ block, own)
        shrunk = np.einsum("ij,ij,j->i", own, own, shrinkage[rows])
        along = row_dots(own, point)
        images = along - shrunk + ratio * within  # v_cᵀ(Kv)_c
        square += images
        columns.append(2 * (within - images - along))
    return np.stack(columns, axis=1) + square[:, None]
