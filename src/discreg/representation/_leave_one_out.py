"""Exact leave-one-out of DRM, equations (11) and (14), in the kernel form.

It takes O(n³). In the coefficients v of the samples (see `_problem`) the matrix of
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
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from discreg.linalg.factorisation import EPS
from discreg.linalg.types import Array, Indices

from ._closed import inverse_of_factor, system_matrix, unit_cholesky
from ._problem import Groups

__all__ = [
    "indefinite_inverse",
    "leave_one_out_residuals",
    "positive_inverse",
    "require_condition",
    "residuals_without",
    "with_errors",
]

# Largest factor by which `_shared_solution` may magnify the rounding errors of N.
MAX_GROWTH = 1e2
# Block size of LAPACK.
BLOCK = 64


def leave_one_out_residuals(
    kernel: Array,
    groups: Groups,
    alpha: float,
    beta: float,
    units: Array,
    kept: Indices | None = None,
) -> Array:
    """Compute the leave-one-out residuals δ of equation (11) of all samples, or of some.

    They equal those of n refits up to rounding errors, which grow with the condition number of M
    and with α. In addition to the kernel matrix, the memory is between two matrices of its size
    (small classes) and four (one class has nearly all samples; seven if its units differ).

    Parameters
    ----------
    kernel : ndarray of shape (n, n)
        Kernel matrix of the samples sorted by class. It is not modified.
    groups : Groups
    alpha, beta : float
        α ≥ 0 and β > 0.
    units : ndarray of shape (n_kept,)
        The weight that is left out, positive and at most the weight of the sample. Classes with
        equal units are about twice as fast.
    kept : ndarray of shape (n_kept,), optional
        Indices of the samples that are left out, ascending; all samples by default.

    Returns
    -------
    residuals : ndarray of shape (n_kept, n_classes)
        A sample without which its class is empty has its largest residual for this class.
    """
    shrinkage = groups.shrinkage(kernel.diagonal(), alpha, beta)
    blocks = [kernel[rows, rows] for rows in groups.slices]
    inverse = positive_inverse(system_matrix(kernel.copy(), groups, alpha, beta))
    cross = kernel if kept is None else kernel[:, kept]
    kept = np.arange(len(kernel)) if kept is None else kept
    return residuals_without(inverse, blocks, cross, groups, shrinkage, alpha, kept, units)


def residuals_without(
    inverse: Array,
    blocks: Sequence[Array],
    cross: Array,
    groups: Groups,
    shrinkage: Array,
    alpha: float,
    kept: Indices,
    units: Array,
) -> Array:
    """Compute the leave-one-out residuals δ of some samples.

    Parameters
    ----------
    inverse : ndarray of shape (n, n)
        N = M⁻¹; it is overwritten.
    blocks : sequence of ndarray
        Kernel matrix of each class.
    cross : ndarray of shape (n, n_kept)
        Kernel matrix between all samples and those that are left out.
    groups : Groups
    shrinkage : ndarray of shape (n,)
        The diagonal D.
    alpha : float
    kept : ndarray of shape (n_kept,)
        Indices of the samples that are left out, ascending.
    units : ndarray of shape (n_kept,)
        Their weight that is left out.

    Returns
    -------
    residuals : ndarray of shape (n_kept, n_classes)
    """
    n_kept = len(kept)
    kappa = np.maximum(groups.weights[kept] - units, 0.0) / (units * shrinkage[kept])
    remaining, vanishing = groups.without(kept, units)
    multipliers, own_quadratic = np.empty((2, n_kept))
    # The solutions of a class can overwrite its columns of N, which no other class uses.
    solutions = inverse if n_kept == len(inverse) else np.empty((len(inverse), n_kept))
    ends = np.searchsorted(kept, [rows.stop for rows in groups.slices]).tolist()
    columns = [slice(*pair) for pair in pairwise([0, *ends])]
    for rows, some, block, total in zip(groups.slices, columns, blocks, groups.totals, strict=True):
        if some.start == some.stop:
            continue
        held_out, pull, multipliers[some], own_quadratic[some] = _within_class(
            block,
            inverse[rows, rows],
            shrinkage[rows],
            kappa[some],
            alpha / total,
            alpha / total * units[some] / remaining[some],
            kept[some] - rows.start,
        )
        for others in _others(rows):
            solutions[others, some] = inverse[others, rows] @ pull
        solutions[rows, some] = held_out

    residuals = np.empty((n_kept, groups.n_classes))
    whole = np.zeros((n_kept, 1))  # vᵀKv
    for c, (rows, some, block) in enumerate(zip(groups.slices, columns, blocks, strict=True)):
        v = solutions[rows]
        linear = np.einsum("ij,ij->j", v, cross[rows])
        shrunk = np.einsum("i,ij,ij->j", shrinkage[rows], v, v)
        shrunk[some] += kappa[some] * multipliers[some] ** 2
        quadratic = own_quadratic.copy()
        for others in _others(some):
            quadratic[others] = _quadratic_form(block, v[:, others])
        ratio = np.full(n_kept, alpha / groups.totals[c])
        ratio[some] = alpha / remaining[some]
        along = linear + ratio * quadratic - shrunk
        residuals[:, c] = 2 * (quadratic - along - linear)
        whole[:, 0] += along
    residuals += whole
    return with_errors(residuals, groups.y[kept], vanishing)


def with_errors(residuals: Array, y: Indices, vanishing: NDArray[np.bool_]) -> Array:
    """Give samples without which their class is empty their largest residual for this class."""
    rows = np.flatnonzero(vanishing)
    residuals[rows, y[rows]] = np.nextafter(residuals[rows].max(axis=1), np.inf)
    return residuals


def _others(rows: slice) -> tuple[slice, slice]:
    """Return the slices of samples before and after those of a class."""
    return slice(0, rows.start), slice(rows.stop, None)


def positive_inverse(matrix: Array) -> Array:
    """Compute the inverse of a positive definite matrix in place."""
    factor, scale, rcond = unit_cholesky(matrix)
    require_condition(rcond)
    return inverse_of_factor(factor, scale)


def require_condition(rcond: float) -> None:
    """Raise ValueError if the system of held-out samples is not positive definite."""
    if not rcond > 10 * EPS:
        raise ValueError(
            "The leave-one-out system is not numerically positive definite. Use a larger beta, or "
            "a positive semi-definite kernel."
        )


def indefinite_inverse(matrix: Array) -> Array | None:
    """Compute the inverse of a symmetric matrix in place; None if it is singular."""
    factor, pivots, failed = linalg.lapack.dgetrf(matrix.T, overwrite_a=1)
    if failed:
        return None
    inverse, _ = linalg.lapack.dgetri(factor, pivots, lwork=BLOCK * len(matrix), overwrite_lu=1)
    return np.asarray(inverse.T)


def _within_class(
    kernel: Array,
    inverse: Array,
    shrinkage: Array,
    kappa: Array,
    before: float,
    shift: Array,
    kept: Indices,
) -> tuple[Array, Array, Array, Array]:
    """Compute v_I and z (columns), t and v_IᵀK_IIv_I for samples `kept` of a class.

    `before` is a and `shift` is a' − a.
    """
    found = None
    if np.all(shift == shift[0]):
        found = _shared_solution(kernel, inverse, shrinkage, kappa, before, float(shift[0]), kept)
    if found is None:
        found = _spectral_solution(kernel, inverse, shrinkage, kappa, before, shift, kept)
    held_out, multipliers = found
    own = kept, np.arange(len(kept))
    held_out[own] = kappa * multipliers
    pull = kernel @ held_out
    quadratic = np.einsum("ij,ij->j", pull, held_out)
    pull *= shift
    pull += before * kernel[:, kept]
    pull[own] -= shrinkage[kept] + multipliers
    return held_out, pull, multipliers, quadratic


def _shared_solution(
    kernel: Array,
    inverse: Array,
    shrinkage: Array,
    kappa: Array,
    before: float,
    shift: float,
    kept: Indices,
) -> tuple[Array, Array] | None:
    """Compute v_I and t for a class with equal units from A = (N_II⁻¹ − (a' − a) K_II)⁻¹.

    None if A is too large: its inverse can be nearly singular although the system of v_I is not,
    and is often indefinite (for nearly homogeneous classes and large α).
    """
    difference = positive_inverse(inverse.copy())
    difference -= shift * kernel
    shifted = indefinite_inverse(difference)
    if shifted is None:
        return None
    columns = slice(None) if len(kept) == len(kernel) else kept
    held_out = shifted @ kernel[:, columns]
    # A = N_II (1 + (a' − a) K_II A): the norm bounds the growth of the errors of N.
    if not shift * linalg.norm(held_out) * np.sqrt(len(kernel) / len(kept)) < MAX_GROWTH:
        return None
    held_out *= before + shift
    own = shifted.diagonal()[kept]
    multipliers = (1 - own * shrinkage[kept] + held_out[kept, np.arange(len(kept))]) / (own + kappa)
    # Column k is (1 − A(D − a'K)) e_k − t A e_k; the caller sets the diagonal.
    shifted = shifted[:, columns]
    shifted *= shrinkage[kept] + multipliers
    held_out -= shifted
    return held_out, multipliers


def _spectral_solution(
    kernel: Array,
    inverse: Array,
    shrinkage: Array,
    kappa: Array,
    before: float,
    shift: Array,
    kept: Indices,
) -> tuple[Array, Array]:
    """Compute v_I and t for a class with any units from the eigenvectors of K_II N_II.

    With N_II = XXᵀ and XᵀK_IIX = diag(λ), N_II⁻¹ − (a' − a) K_II becomes diag(1 − (a' − a) λ). Only
    the entry of the largest λ can be near zero or negative, because the rank-one term e_k e_kᵀ/κ
    makes the system positive definite. This entry is eliminated together with t, without dividing
    by it.
    """
    values, dual = linalg.eigh(kernel, inverse, type=2)  # dual = X⁻ᵀ
    basis = inverse @ dual
    x = basis.T[:, kept]
    right = (1 + before * values)[:, None] * dual.T[:, kept] - x * shrinkage[kept]
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
