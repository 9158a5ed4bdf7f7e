"""Exact leave-one-out of linear DRM in its features, at the price of predicting the training set.

Leaving a unit of weight u out of sample x of class i changes n_i to n_i − u and one entry of D_i.
The first is the same for all samples of a class that lose the same weight: with ν = α / (n_i − u),

    J = (I − ν S_i)⁻¹,   P̃ = J S_i,   R̃ = (I + Σ_{j≠i} P_j + P̃)⁻¹.

The second is a change of rank one: with z = J x and τ = (α h + β) / u + ν xᵀz,

    P_i' = P̃ − z zᵀ / τ,   R' = R̃ + R̃z zᵀR̃ / (τ − zᵀR̃z).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.utils import gen_batches

from discreg.linalg.rows import centred_gram, row_norms

from ._problem import Groups
from ._scatter import BATCH_BYTES, class_maps, class_scatters, resolvent

__all__ = ["scatter_leave_one_out_residuals"]

Array = NDArray[np.float64]
# What a matrix with n_i − u may grow by against those with n_i, else a class is fitted afresh.
LARGEST_GROWTH = 1e4


def scatter_leave_one_out_residuals(
    X: Any, groups: Groups, alpha: float, beta: float, units: Array
) -> Array:
    """δ of every training sample by the model that has not seen one unit of it.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, n_features)
        Training rows in the order of the groups.
    groups : Groups
    alpha, beta : float
    units : ndarray of shape (n,)
        The weight that leaves with each sample: all of its weight, or that of one copy.

    Returns
    -------
    residuals : ndarray of shape (n, n_classes)
    """
    norms = row_norms(X)
    shrinkage = alpha * norms + beta  # α h + β
    scatters = class_scatters(X, norms, groups, alpha, beta)
    maps = class_maps(scatters, groups.totals, alpha)
    resolvent(maps)  # or say that digits would be lost
    lost = shrinkage / units
    remaining = groups.remaining(units)
    delta = np.empty((X.shape[0], groups.n_classes))
    for own, members in enumerate(groups.slices):
        for unit in np.unique(units[members]):
            rows = members.start + np.flatnonzero(units[members] == unit)
            nu = alpha / remaining[rows[0]]
            natural = float(shrinkage[members].max()) / beta  # bound of ‖J‖ for n_i
            shared = _shared_inverses(scatters[own], maps, own, nu, natural)
            size = max(64, BATCH_BYTES // (8 * X.shape[1]))
            for batch in gen_batches(len(rows), size):
                block = X[rows[batch]]
                block = np.asarray(
                    block.toarray() if sparse.issparse(block) else block, dtype=np.float64
                )
                if shared is None:
                    for x, row in zip(block, rows[batch], strict=True):
                        left = groups.weights[members].copy()
                        left[row - members.start] = max(0.0, groups.weights[row] - unit)
                        scatter = centred_gram(X[members], left / shrinkage[members], None)
                        delta[row] = _refitted(x, scatter, maps, own, nu)
                else:
                    delta[rows[batch]] = _updated(block, lost[rows[batch]], maps, own, nu, *shared)
    return delta


def _shared_inverses(
    scatter: Array, maps: list[Array], own: int, nu: float, natural: float
) -> tuple[Array, Array, Array] | None:
    """J, P̃ and R̃ for all samples that change n_i alike; None where they are nearly singular.

    With all samples of the class and the smaller n_i they need not be definite. R alone has norm 1
    at most.
    """
    identity = np.eye(len(scatter))
    J = _inverse(identity - nu * scatter, LARGEST_GROWTH * natural)
    if J is None:
        return None
    P = J @ scatter
    P = (P + P.T) / 2
    R = _inverse(identity + sum(m for k, m in enumerate(maps) if k != own) + P, LARGEST_GROWTH)
    return None if R is None else (J, P, R)


def _inverse(matrix: Array, largest: float) -> Array | None:
    """Inverse of a symmetric matrix that need not be definite; None if it is too large."""
    factor, pivots, failed = linalg.lapack.dgetrf(matrix)
    if failed:
        return None
    inverse, _ = linalg.lapack.dgetri(factor, pivots)
    if linalg.norm(inverse, 1) > largest * len(matrix):
        return None
    return (inverse + inverse.T) / 2


def _updated(
    X: Array, lost: Array, maps: list[Array], own: int, nu: float, J: Array, P: Array, R: Array
) -> Array:
    """Residuals of samples by updates of rank one, a row each."""
    Z = X @ J
    tau = lost + nu * np.einsum("ij,ij->i", X, Z)
    RZ = Z @ R
    gain = np.einsum("ij,ij->i", RZ, X) / (tau - np.einsum("ij,ij->i", RZ, Z))
    remaining = X @ R + RZ * gain[:, None]
    left = np.einsum("ij,ij->i", Z, remaining) / tau
    projections = (
        remaining @ P - Z * left[:, None] if k == own else remaining @ other
        for k, other in enumerate(maps)
    )
    return _residuals(X, remaining, projections)


def _refitted(x: Array, scatter: Array, maps: list[Array], own: int, nu: float) -> Array:
    """Residuals of one sample, from the scatter of what is left of its class."""
    changed = list(maps)
    changed[own] = class_maps([scatter], np.ones(1), nu)[0]
    remaining = (x @ resolvent(changed))[None]
    return _residuals(x[None], remaining, (remaining @ P for P in changed))[0]


def _residuals(X: Array, remaining: Array, projections: Any) -> Array:
    """δ of (11) from r and ψ_1, …, ψ_g: ‖u‖² + 2 ψ·(ψ − x − u), u = x − r."""
    explained = X - remaining
    offset = X + explained
    square = np.einsum("ij,ij->i", explained, explained)
    columns = [square + 2 * np.einsum("ij,ij->i", psi, psi - offset) for psi in projections]
    return np.stack(columns, axis=1)
