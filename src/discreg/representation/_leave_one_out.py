"""Exact leave-one-out of DRM, equations (11) and (14), in the kernel form and in the features.

The kernel form takes O(n³). In the coefficients v of the samples (see `_problem`) the matrix of
(14) is M = K − aK_ii + D, with a = α / n_i in the diagonal block of class i and
D = diag((αh + β) / s). Removing a unit of weight u of sample k in class i changes a to
a' = α / (n_i − u) and adds 1/κ to the k-th diagonal entry, κ = s (s − u) / (u (αh + β)); κ = 0
means that the coefficient of k is zero.

With N = M⁻¹ and I the samples of class i, eliminating the other classes gives a system for v_I,

    (N_II⁻¹ − (a' − a) K_II + e_k e_kᵀ/κ) v_I = (N_II⁻¹ − D + a K_II) e_k,

and the others follow from v_I and the multiplier t = v_k / κ:

    v_rest = N_rest,I z,    z = (a' − a) K_II v_I − (D + t − a K_II) e_k.

The products in (11) need no K v: by the system of the model without the unit, v_cᵀ(Kv)_c equals
v_cᵀK_xc + (α/n_c) v_cᵀK_cc v_c − v_cᵀDv_c; for class i, replace α/n_c by a' and subtract κt².

In the features, leave-one-out takes as long as predicting the training set (see `_scatter`).
Removing a unit of weight u of sample x in class i changes n_i to n_i − u and one entry of D_i. The
first change is the same for all samples of a class with the same u: with ν = α / (n_i − u),

    J = (I − ν S_i)⁻¹,   P̃ = J S_i,   R̃ = (I + Σ_{j≠i} P_j + P̃)⁻¹.

The second change has rank one: with z = J x and τ = (α h + β) / u + ν xᵀz,

    P_i' = P̃ − z zᵀ / τ,   R' = R̃ + R̃z zᵀR̃ / (τ − zᵀR̃z).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.utils import gen_batches

from discreg.linalg.factorisation import EPS
from discreg.linalg.rows import centred_gram, row_norms
from discreg.linalg.types import Array, Labels

from ._closed import inverse_of_factor, system_matrix, unit_cholesky
from ._problem import Groups
from ._scatter import BATCH_BYTES, class_maps, class_scatters, resolvent

__all__ = ["leave_one_out_residuals", "require_leavable", "scatter_leave_one_out_residuals"]

ROUNDING = 1e-12
# Largest factor by which `_shared_solution` may magnify the rounding errors of N.
MAX_GROWTH = 1e2
# Block size of LAPACK.
BLOCK = 64
# Largest growth of an inverse with n_i − u; beyond it, each sample of the class is refitted.
LARGEST_GROWTH = 1e4


def require_leavable(groups: Groups, units: Array, classes: Labels) -> None:
    """Raise ValueError if leaving out one unit of weight would remove a class.

    Parameters
    ----------
    groups : Groups
    units : ndarray of shape (n,)
        The weight that is left out of each sample.
    classes : ndarray of shape (n_classes,)
        Class labels, for the message.
    """
    whole = units >= (1 - ROUNDING) * groups.weights
    single = [
        str(label)
        for label, rows in zip(classes, groups.slices, strict=True)
        if rows.stop - rows.start == 1 and whole[rows].all()
    ]
    if single:
        which = (
            f"Class {single[0]} has" if len(single) == 1 else f"Classes {', '.join(single)} have"
        )
        raise ValueError(
            f"{which} only one sample, so that no sample can be left out. Add samples, remove the "
            "class, or fit a DRMClassifier with probability=False."
        )


def leave_one_out_residuals(
    kernel: Array, groups: Groups, alpha: float, beta: float, units: Array
) -> Array:
    """Compute the leave-one-out residuals δ of equation (11) of all samples.

    They equal those of n refits up to rounding errors, which grow with the condition number of M
    and with α. In addition to the kernel matrix, the memory is between two matrices of its size
    (small classes) and four (one class has nearly all samples; seven if its units differ).

    Parameters
    ----------
    kernel : ndarray of shape (n, n)
        Kernel matrix of the samples sorted by class. It is not modified.
    groups : Groups
        Groups that pass `require_leavable`.
    alpha, beta : float
        α ≥ 0 and β > 0.
    units : ndarray of shape (n,)
        The weight that is left out, positive and at most the weight of the sample. Classes with
        equal units are about twice as fast.

    Returns
    -------
    residuals : ndarray of shape (n, n_classes)
    """
    shrinkage = groups.shrinkage(kernel.diagonal(), alpha, beta)
    kappa = np.maximum(groups.weights - units, 0.0) / (units * shrinkage)
    remaining = groups.remaining(units)
    multipliers, own_quadratic = np.empty((2, len(kernel)))
    # Starts as N. The solutions of a class overwrite its columns of N, which no other class uses.
    solutions = _inverse(system_matrix(kernel.copy(), groups, alpha, beta))
    for rows, total in zip(groups.slices, groups.totals, strict=True):
        held_out, pull, multipliers[rows], own_quadratic[rows] = _within_class(
            kernel[rows, rows],
            solutions[rows, rows],
            shrinkage[rows],
            kappa[rows],
            alpha / total,
            alpha / total * units[rows] / remaining[rows],
        )
        for others in _others(rows):
            solutions[others, rows] = solutions[others, rows] @ pull
        solutions[rows, rows] = held_out

    residuals = np.empty((len(kernel), groups.n_classes))
    whole = np.zeros((len(kernel), 1))  # vᵀKv
    for c, (rows, total) in enumerate(zip(groups.slices, groups.totals, strict=True)):
        v = solutions[rows]
        linear = np.einsum("ij,ij->j", v, kernel[rows])
        shrunk = np.einsum("i,ij,ij->j", shrinkage[rows], v, v)
        shrunk[rows] += kappa[rows] * multipliers[rows] ** 2
        quadratic = own_quadratic.copy()
        for others in _others(rows):
            quadratic[others] = _quadratic_form(kernel[rows, rows], v[:, others])
        ratio = np.full(len(kernel), alpha / total)
        ratio[rows] = alpha / remaining[rows]
        cross = linear + ratio * quadratic - shrunk
        residuals[:, c] = 2 * (quadratic - cross - linear)
        whole[:, 0] += cross
    residuals += whole
    return residuals


def _others(rows: slice) -> tuple[slice, slice]:
    """Return the slices of samples before and after those of a class."""
    return slice(0, rows.start), slice(rows.stop, None)


def _inverse(matrix: Array) -> Array:
    """Compute the inverse of a positive definite matrix in place."""
    factor, scale, rcond = unit_cholesky(matrix)
    if not rcond > 10 * EPS:
        raise ValueError(
            "The leave-one-out system is not numerically positive definite. Use a larger beta, or "
            "a positive semi-definite kernel."
        )
    return inverse_of_factor(factor, scale)


def _indefinite_inverse(matrix: Array) -> Array | None:
    """Compute the inverse of a symmetric matrix in place; None if it is singular."""
    factor, pivots, failed = linalg.lapack.dgetrf(matrix.T, overwrite_a=1)
    if failed:
        return None
    inverse, _ = linalg.lapack.dgetri(factor, pivots, lwork=BLOCK * len(matrix), overwrite_lu=1)
    return np.asarray(inverse.T)


def _within_class(
    kernel: Array, inverse: Array, shrinkage: Array, kappa: Array, before: float, shift: Array
) -> tuple[Array, Array, Array, Array]:
    """Compute v_I and z (columns), t and v_IᵀK_IIv_I for every sample of a class.

    `before` is a and `shift` is a' − a.
    """
    found = None
    if np.all(shift == shift[0]):
        found = _shared_solution(kernel, inverse, shrinkage, kappa, before, float(shift[0]))
    if found is None:
        found = _spectral_solution(kernel, inverse, shrinkage, kappa, before, shift)
    held_out, multipliers = found
    diagonal = np.diag_indices_from(kernel)
    held_out[diagonal] = kappa * multipliers
    pull = kernel @ held_out
    quadratic = np.einsum("ij,ij->j", pull, held_out)
    pull *= shift
    pull += before * kernel
    pull[diagonal] -= shrinkage + multipliers
    return held_out, pull, multipliers, quadratic


def _shared_solution(
    kernel: Array, inverse: Array, shrinkage: Array, kappa: Array, before: float, shift: float
) -> tuple[Array, Array] | None:
    """Compute v_I and t for a class with equal units from A = (N_II⁻¹ − (a' − a) K_II)⁻¹.

    None if A is too large: its inverse can be nearly singular although the system of v_I is not,
    and is often indefinite (for nearly homogeneous classes and large α).
    """
    difference = _inverse(inverse.copy())
    difference -= shift * kernel
    shifted = _indefinite_inverse(difference)
    if shifted is None:
        return None
    held_out = shifted @ kernel
    # A = N_II (1 + (a' − a) K_II A): the norm bounds the growth of the errors of N.
    if not shift * linalg.norm(held_out) < MAX_GROWTH:
        return None
    held_out *= before + shift
    own = shifted.diagonal()
    multipliers = (1 - own * shrinkage + held_out.diagonal()) / (own + kappa)
    # Column k is (1 − A(D − a'K)) e_k − t A e_k; the caller sets the diagonal.
    shifted *= shrinkage + multipliers
    held_out -= shifted
    return held_out, multipliers


def _spectral_solution(
    kernel: Array, inverse: Array, shrinkage: Array, kappa: Array, before: float, shift: Array
) -> tuple[Array, Array]:
    """Compute v_I and t for a class with any units from the eigenvectors of K_II N_II.

    With N_II = XXᵀ and XᵀK_IIX = diag(λ), N_II⁻¹ − (a' − a) K_II becomes diag(1 − (a' − a) λ). Only
    the entry of the largest λ can be near zero or negative, because the rank-one term e_k e_kᵀ/κ
    makes the system positive definite. This entry is eliminated together with t, without dividing
    by it.
    """
    values, dual = linalg.eigh(kernel, inverse, type=2)  # dual = X⁻ᵀ
    basis = inverse @ dual
    x = basis.T
    right = (1 + before * values)[:, None] * dual.T - x * shrinkage
    gaps = 1 - np.outer(values, shift)
    last = gaps[-1].copy()
    gaps[-1] = np.inf
    leverage = np.einsum("ij,ij->j", x / gaps, x) + kappa
    response = np.einsum("ij,ij->j", x / gaps, right)
    pivot = x[-1] ** 2 + last * leverage
    multipliers = (x[-1] * right[-1] + last * response) / pivot
    coefficients = (right - multipliers * x) / gaps
    coefficients[-1] = (right[-1] * leverage - x[-1] * response) / pivot
    return basis @ coefficients, multipliers


def _quadratic_form(kernel: Array, v: Array) -> Array:
    """Compute vᵀKv for the columns of v from one triangle of K, with half the multiplications."""
    half = linalg.blas.dtrmm(1.0, kernel.T, v.T, side=1).T
    return np.asarray(
        2 * np.einsum("ij,ij->j", half, v) - np.einsum("i,ij,ij->j", kernel.diagonal(), v, v)
    )


def scatter_leave_one_out_residuals(
    X: Any, groups: Groups, alpha: float, beta: float, units: Array
) -> Array:
    """Compute the leave-one-out residuals δ of all training samples in the features.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, n_features)
        Training rows in the order of the groups.
    groups : Groups
    alpha, beta : float
    units : ndarray of shape (n,)
        The weight that is left out of each sample: at most one unit of sample weight.

    Returns
    -------
    residuals : ndarray of shape (n, n_classes)
    """
    norms = row_norms(X)
    shrinkage = alpha * norms + beta  # α h + β
    scatters = class_scatters(X, norms, groups, alpha, beta)
    maps = class_maps(scatters, groups.totals, alpha)
    resolvent(maps)  # raises LossOfPrecisionError
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
    inverse = _indefinite_inverse(matrix)
    if inverse is None or linalg.norm(inverse, 1) > largest * len(matrix):
        return None
    return (inverse + inverse.T) / 2


def _updated(
    X: Array, lost: Array, maps: list[Array], own: int, nu: float, J: Array, P: Array, R: Array
) -> Array:
    """Compute residuals by rank-one updates, one row per sample."""
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
    """Compute the residuals of one sample from the scatter of its class without the unit."""
    changed = list(maps)
    changed[own] = class_maps([scatter], np.ones(1), nu)[0]
    remaining = (x @ resolvent(changed))[None]
    return np.asarray(_residuals(x[None], remaining, (remaining @ P for P in changed))[0])


def _residuals(X: Array, remaining: Array, projections: Any) -> Array:
    """Compute δ of (11) from r and ψ_1, …, ψ_g: ‖u‖² + 2 ψ·(ψ − x − u), u = x − r."""
    explained = X - remaining
    offset = X + explained
    square = np.einsum("ij,ij->i", explained, explained)
    columns = [square + 2 * np.einsum("ij,ij->i", psi, psi - offset) for psi in projections]
    return np.stack(columns, axis=1)
