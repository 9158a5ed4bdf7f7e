"""Exact leave-one-out of DRM in the features (see `_scatter`).

It takes as long as predicting the samples. Removing a unit of weight u of sample x in class i
changes n_i to n_i − u and one entry of D_i. The first change is the same for all samples of a class
with the same u: with ν = α / (n_i − u),

    J = (I − ν S_i)⁻¹,   P̃ = J S_i,   R̃ = (I + Σ_{j≠i} P_j + P̃)⁻¹.

The second change has rank one: with z = J x and τ = (α h + β) / u + ν xᵀz,

    P_i' = P̃ − z zᵀ / τ,   R' = R̃ + R̃z zᵀR̃ / (τ − zᵀR̃z).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.utils import gen_batches

from discreg.linalg.rows import row_dots, row_norms
from discreg.linalg.types import Array, Indices

from ._leave_one_out import indefinite_inverse
from ._scatter import BATCH_BYTES, class_maps, resolvent

__all__ = ["refitted_residuals", "scatter_residuals_without"]

# Largest growth of an inverse with n_i − u; beyond it, each sample of the class is refitted.
LARGEST_GROWTH = 1e4


def scatter_residuals_without(
    X: Any,
    y: Indices,
    units: Array,
    remaining: Array,
    scatters: Sequence[Array],
    totals: Array,
    alpha: float,
    beta: float,
    maps: Sequence[Array] | None = None,
) -> Array:
    """Compute the leave-one-out residuals δ of some training samples in the features.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_kept, n_features)
        Rows that are left out.
    y : ndarray of shape (n_kept,)
        Their class indices.
    units : ndarray of shape (n_kept,)
        Their weight that is left out: at most one unit of sample weight.
    remaining : ndarray of shape (n_kept,)
        n_i − u, the weight of their class without it.
    scatters : sequence of ndarray of shape (n_features, n_features)
        S_i of all training samples.
    totals : ndarray of shape (n_classes,)
        n_i.
    alpha, beta : float
    maps : sequence of ndarray of shape (n_features, n_features), optional
        P_i of all training samples, if they are known.

    Returns
    -------
    residuals : ndarray of shape (n_kept, n_classes)
    """
    shrinkage = alpha * row_norms(X) + beta  # α h + β
    if maps is None:
        maps = class_maps(scatters, totals, alpha)
        resolvent(maps)  # raises LossOfPrecisionError
    lost = shrinkage / units
    delta = np.empty((X.shape[0], len(totals)))
    size = max(64, BATCH_BYTES // (8 * X.shape[1]))
    for own, scatter in enumerate(scatters):
        members = np.flatnonzero(y == own)
        for unit in np.unique(units[members]):
            rows = members[units[members] == unit]
            nu = alpha / remaining[rows[0]]
            natural = float(shrinkage[members].max()) / beta  # bound of ‖J‖ for n_i
            shared = _shared_inverses(scatter, maps, own, nu, natural)
            for batch in gen_batches(len(rows), size):
                some = rows[batch]
                block = X[some]
                block = np.asarray(
                    block.toarray() if sparse.issparse(block) else block, dtype=np.float64
                )
                if shared is None:
                    for x, row in zip(block, some, strict=True):
                        without = scatter - np.outer(x, x / lost[row])
                        changed = list(maps)
                        changed[own] = class_maps([without], np.ones(1), nu)[0]
                        delta[row] = refitted_residuals(x[None], changed)[0]
                else:
                    delta[some] = _updated(block, lost[some], maps, own, nu, *shared)
    return delta


def _shared_inverses(
    scatter: Array, maps: Sequence[Array], own: int, nu: float, natural: float
) -> tuple[Array, Array, Array] | None:
    """Compute J, P̃ and R̃ for samples with the same u; None if they are nearly singular.

    The matrices can be indefinite, because they combine all samples of the class with n_i − u.
    """
    identity = np.eye(len(scatter))
    J = _bounded_inverse(identity - nu * scatter, LARGEST_GROWTH * natural)
    if J is None:
        return None
    P = J @ scatter
    P = (P + P.T) / 2
    R = _bounded_inverse(
        identity + sum(m for k, m in enumerate(maps) if k != own) + P, LARGEST_GROWTH
    )
    return None if R is None else (J, P, R)


def _bounded_inverse(matrix: Array, largest: float) -> Array | None:
    """Compute the inverse of a symmetric, possibly indefinite matrix; None if it is too large."""
    inverse = indefinite_inverse(matrix)
    if inverse is None or linalg.norm(inverse, 1) > largest * len(matrix):
        return None
    return (inverse + inverse.T) / 2


def _updated(
    X: Array, lost: Array, maps: Sequence[Array], own: int, nu: float, J: Array, P: Array, R: Array
) -> Array:
    """Compute residuals by rank-one updates, one row per sample."""
    Z = X @ J
    tau = lost + nu * row_dots(X, Z)
    RZ = Z @ R
    gain = row_dots(RZ, X) / (tau - row_dots(RZ, Z))
    remaining = X @ R + RZ * gain[:, None]
    left = row_dots(Z, remaining) / tau
    projections = (
        remaining @ P - Z * left[:, None] if k == own else remaining @ other
        for k, other in enumerate(maps)
    )
    return _residuals(X, remaining, projections)


def refitted_residuals(X: Array, maps: Sequence[Array]) -> Array:
    """Compute the residuals of rows in the model with the given P_i."""
    remaining = X @ resolvent(maps)
    return _residuals(X, remaining, (remaining @ P for P in maps))


def _residuals(X: Array, remaining: Array, projections: Any) -> Array:
    """Compute δ of (11) from r and ψ_1, …, ψ_g: ‖u‖² + 2 ψ·(ψ − x − u), u = x − r."""
    explained = X - remaining
    offset = X + explained
    square = row_dots(explained, explained)
    columns = [square + 2 * row_dots(psi, psi - offset) for psi in projections]
    return np.stack(columns, axis=1)
