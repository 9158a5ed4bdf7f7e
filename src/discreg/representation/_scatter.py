"""Linear DRM by scatter matrices, with a prediction time that does not depend on n.

With squared norms h, D = diag((α h + β) / s), ψ_i = X_iᵀ v_i the projection on class i, u = Σ ψ_i
and r = x − u, row block i of the system (14) reads D_i v_i = X_i (r + (α / n_i) ψ_i), so

    S_i = X_iᵀ D_i⁻¹ X_i,     P_i = (I − (α / n_i) S_i)⁻¹ S_i,
    r   = (I + Σ P_i)⁻¹ x,    ψ_i = P_i r,    v_i = D_i⁻¹ X_i (r + (α / n_i) ψ_i).

The S_i are sums over samples. For each class, δ of (11) is a quadratic form of x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from discreg.linalg.rows import batches, centred_gram, matmul, row_norms
from discreg.linalg.types import Array

from ._closed import inverse_of_factor, unit_cholesky
from ._problem import Groups

__all__ = [
    "LossOfPrecisionError",
    "ScatterForm",
    "class_maps",
    "class_scatters",
    "resolvent",
]

BATCH_BYTES = 8 << 20
PRECISE = 1e-9  # smallest reciprocal condition number at which residuals are accurate enough


class LossOfPrecisionError(ValueError):
    """The scatter form would lose precision that the kernel form keeps."""

    def __init__(self) -> None:
        super().__init__(
            "solver='scatter' loses precision: beta is too small compared with the squared "
            "features. Use a larger beta, solver='closed', or scale the features, for example with "
            "sklearn.preprocessing.StandardScaler."
        )


def class_scatters(X: Any, norms: Array, groups: Groups, alpha: float, beta: float) -> list[Array]:
    """Compute S_i of every class, for rows X in the order of the groups."""
    gains = 1 / groups.shrinkage(norms, alpha, beta)
    return [centred_gram(X[rows], gains[rows], None) for rows in groups.slices]


def class_maps(scatters: Sequence[Array], totals: Array, alpha: float) -> list[Array]:
    """Compute the symmetric P_i of every class from its scatter and its total weight."""
    maps = []
    for S, total in zip(scatters, totals, strict=True):
        factor, failed = linalg.lapack.dpotrf(_identity_minus(alpha / total, S), lower=1)
        if failed:
            raise LossOfPrecisionError
        maps.append(_symmetric(linalg.lapack.dpotrs(factor, S, lower=1)[0]))
    return maps


def resolvent(maps: Sequence[Array]) -> Array:
    """Compute R = (I + Σ P_i)⁻¹.

    Scaling to unit diagonal keeps precision if features have different scales.
    """
    total = np.sum(maps, axis=0)
    total[np.diag_indices_from(total)] += 1.0
    factor, scale, rcond = unit_cholesky(total)
    if not rcond >= PRECISE:
        raise LossOfPrecisionError
    return inverse_of_factor(factor, scale)


def decision_form(P: Array, R: Array) -> Array:
    """Compute the upper triangle T with δ_i = Σ (x T) ∘ x.

    δ_i = ‖u‖² + 2 ψ·(ψ − x − u) with ψ = P R x and u = (I − R) x.
    """
    C = P @ R
    U = -R
    U[np.diag_indices_from(U)] += 1.0
    shifted = C - U
    shifted[np.diag_indices_from(shifted)] -= 1.0
    form = U.T @ U + C.T @ shifted + shifted.T @ C
    return np.triu(form) + np.triu(form, 1)


@dataclass(frozen=True)
class ScatterForm:
    """A fitted linear DRM: matrices of shape (n_features, n_features) for predictions.

    Attributes
    ----------
    maps : list of ndarray of shape (n_features, n_features)
        P_i.
    resolvent : ndarray of shape (n_features, n_features)
        R.
    forms : list of ndarray of shape (n_features, n_features)
        The quadratic form of each class, as an upper triangle.
    alpha, beta : float
    scatters : list of ndarray of shape (n_features, n_features) or None
        S_i, as long as leave-one-out needs them.
    """

    maps: list[Array]
    resolvent: Array
    forms: list[Array]
    alpha: float
    beta: float
    scatters: Sequence[Array] | None = None

    @classmethod
    def of(cls, X: Any, groups: Groups, alpha: float, beta: float) -> ScatterForm:
        """Fit in one pass over the rows X, sorted by group."""
        scatters = class_scatters(X, row_norms(X), groups, alpha, beta)
        return cls.from_scatters(scatters, groups.totals, alpha, beta)

    @classmethod
    def from_scatters(
        cls, scatters: Sequence[Array], totals: Array, alpha: float, beta: float
    ) -> ScatterForm:
        """Fit from the scatter matrices and the total weights of the classes."""
        maps = class_maps(scatters, totals, alpha)
        R = resolvent(maps)
        return cls(maps, R, [decision_form(P, R) for P in maps], alpha, beta, scatters)

    def residuals(self, X: Any) -> Array:
        """Compute δ of (11) for the rows of X, one column per class."""
        n_points, n_features = X.shape
        delta = np.empty((n_points, len(self.forms)))
        for rows in batches(n_points, max(64, BATCH_BYTES // (8 * n_features))):
            block = X[rows]
            if sparse.issparse(block):
                block = block.astype(np.float64)
                for k, form in enumerate(self.forms):
                    delta[rows, k] = np.asarray(block.multiply(block @ form).sum(axis=1)).ravel()
                continue
            block = np.asarray(block, dtype=np.float64)
            for k, form in enumerate(self.forms):
                # A triangular product needs half of the multiplications.
                half = linalg.blas.dtrmm(1.0, form.T, block.T, lower=1)
                delta[rows, k] = np.einsum("ji,ij->i", half, block)
        return delta

    def represent(self, X: Any, X_fit: Any, groups: Groups) -> Array:
        """Compute the representations v of the rows of X by the training rows X_fit."""
        remaining = matmul(X, self.resolvent)
        gains = 1 / groups.shrinkage(row_norms(X_fit), self.alpha, self.beta)
        V = np.empty((X.shape[0], X_fit.shape[0]))
        for rows, total, P in zip(groups.slices, groups.totals, self.maps, strict=True):
            along = remaining + (self.alpha / total) * (remaining @ P)
            V[:, rows] = matmul(X_fit[rows], along.T).T * gains[rows]
        return V


def _identity_minus(factor: float, matrix: Array) -> Array:
    difference = -factor * matrix
    difference[np.diag_indices_from(difference)] += 1.0
    return difference


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2
