"""The closed forms of DRM, in the kernel matrix and in the features, and their leave-one-out.

Kernel form. One Cholesky factorisation of the matrix of (14), Algorithm 2, serves all test points.
Its leave-one-out takes O(n³). In the coefficients v of the samples (see `_problem`) the matrix of
(14) is M = K − aK_ii + D, with a = α / n_i in the diagonal block of class i and
D = diag((αh + β) / s). Removing sample k of class i changes a to a' = α / (n_i − s) and makes the
coefficient of k zero.

With N = M⁻¹ and I the samples of class i, eliminating the other classes gives a system for v_I and
the multiplier t of the constraint v_k = 0,

    (N_II⁻¹ − (a' − a) K_II) v_I + t e_k = (N_II⁻¹ − D + a K_II) e_k,

and the others follow:

    v_rest = N_rest,I z,    z = (a' − a) K_II v_I − (D + t − a K_II) e_k.

The products in (11) need no K v: by the system of the model without the sample, v_cᵀ(Kv)_c equals
v_cᵀK_xc + (α/n_c) v_cᵀK_cc v_c − v_cᵀDv_c; for class i, replace α/n_c by a'.

Scatter form. Linear DRM has a form in the features, with a prediction time that does not depend on
the number of samples. With squared norms h, D = diag((α h + β) / s), ψ_i = X_iᵀ v_i the projection
on class i, u = Σ ψ_i and r = x − u, row block i of the system (14) reads
D_i v_i = X_i (r + (α / n_i) ψ_i), so

    S_i = X_iᵀ D_i⁻¹ X_i,     P_i = (I − (α / n_i) S_i)⁻¹ S_i,
    r   = (I + Σ P_i)⁻¹ x,    ψ_i = P_i r,    v_i = D_i⁻¹ X_i (r + (α / n_i) ψ_i).

The S_i are sums over samples. For each class, δ of (11) is a quadratic form of x.

Leave-one-out: removing a sample x of weight s from class i changes n_i to n_i − s and S_i by a
matrix of rank one. With A = I + Σ_{j≠i} P_j and G = (A + S_i)⁻¹, the change of S_i alone gives, for
α = 0 in P_i,

    r₀ = G x l / m,    ψ₀ = x − A r₀,    l = (α h + β) / s,    m = l − xᵀG x.

With ν = α / (n_i − s), y = A G x and T = A G S_i, which is symmetric, the model without x has

    (I − ν T + ν y yᵀ / m) ψ_i = ψ₀,    r = r₀ + A⁻¹ (ψ₀ − ψ_i),    ψ_j = P_j r.

In the eigenvectors of T, which do not depend on s, the matrix is diagonal plus rank one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import linalg, sparse

from discreg.linalg.factorisation import EPS
from discreg.linalg.rows import batches, centred_gram, matmul, row_dots, row_norms
from discreg.linalg.types import Array, Indices

from ._problem import Groups

BATCH_BYTES = 8 << 20
PRECISE = 1e-9  # smallest reciprocal condition number at which residuals are accurate enough


def system_matrix(kernel: Array, groups: Groups, alpha: float, beta: float) -> Array:
    """Compute M = K + D − αB in place of the kernel matrix K, with D = diag((α h + β) / s)."""
    shrinkage = groups.shrinkage(kernel.diagonal(), alpha, beta)
    for rows, total in zip(groups.slices, groups.totals, strict=True):
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
        scaled = (K_x * self.scale).T
        solution, _ = linalg.lapack.dpotrs(self.factor, scaled, lower=1, overwrite_b=1)
        return np.asarray(solution.T * self.scale)

    def residuals(self, V: Array, K_x: Array) -> Array:
        """Compute δ of (11), one row per test point: the system gives Kv = K_x − Dv + αBv."""
        columns = []
        square = np.zeros(len(V))  # vᵀKv
        parts = zip(self.groups.slices, self.blocks, self.groups.totals, strict=True)
        for rows, block, total in parts:
            own, point = V[:, rows], K_x[:, rows]
            within = row_dots(own @ block, own)
            shrunk = np.einsum("ij,ij,j->i", own, own, self.shrinkage[rows])
            along = row_dots(own, point)
            images = along - shrunk + self.alpha / total * within  # v_cᵀ(Kv)_c
            square += images
            columns.append(2 * (within - images - along))
        return np.stack(columns, axis=1) + square[:, None]


def leave_one_out_residuals(
    kernel: Array, groups: Groups, alpha: float, beta: float, kept: Indices
) -> Array:
    """Compute the leave-one-out residuals δ of equation (11) of some samples.

    They equal those of refits up to rounding errors, which grow with the condition number of M
    and with α. In addition to the kernel matrix, the memory is between three matrices of its size
    (small classes) and seven (one class has nearly all samples).

    Parameters
    ----------
    kernel : ndarray of shape (n, n)
        Kernel matrix of the samples sorted by class. It is not modified.
    groups : Groups
    alpha, beta : float
        α ≥ 0 and β > 0.
    kept : ndarray of shape (n_kept,)
        Indices of the samples that are left out, ascending. None is the only one of its class.

    Returns
    -------
    residuals : ndarray of shape (n_kept, n_classes)
    """
    form = ClosedForm.of(kernel.copy(), groups, alpha, beta)
    inverse = inverse_of_factor(form.factor, form.scale)
    cross = kernel if len(kept) == len(kernel) else kernel[:, kept]
    n_kept = len(kept)
    before = alpha / groups.totals[groups.y[kept]]
    after = alpha / (groups.totals[groups.y[kept]] - groups.weights[kept])
    own_quadratic = np.empty(n_kept)
    # The solutions of a class can overwrite its columns of N, which no other class uses.
    solutions = inverse if n_kept == len(inverse) else np.empty((len(inverse), n_kept))
    ends = np.searchsorted(kept, [rows.stop for rows in groups.slices]).tolist()
    columns = [slice(*pair) for pair in pairwise([0, *ends])]
    for rows, some, block in zip(groups.slices, columns, form.blocks, strict=True):
        if some.start == some.stop:
            continue
        held_out, pull, own_quadratic[some] = _within_class(
            block,
            inverse[rows, rows],
            before[some.start],
            after[some] - before[some],
            kept[some] - rows.start,
        )
        for others in _others(rows):
            solutions[others, some] = inverse[others, rows] @ pull
        solutions[rows, some] = held_out

    residuals = np.empty((n_kept, groups.n_classes))
    whole = np.zeros((n_kept, 1))  # vᵀKv
    for c, (rows, some, block) in enumerate(zip(groups.slices, columns, form.blocks, strict=True)):
        v = solutions[rows]
        linear = np.einsum("ij,ij->j", v, cross[rows])
        shrunk = np.einsum("i,ij,ij->j", form.shrinkage[rows], v, v)
        quadratic = own_quadratic.copy()
        for others in _others(some):
            quadratic[others] = np.einsum("ij,ij->j", block @ v[:, others], v[:, others])
        ratio = np.full(n_kept, alpha / groups.totals[c])
        ratio[some] = after[some]
        along = linear + ratio * quadratic - shrunk
        residuals[:, c] = 2 * (quadratic - along - linear)
        whole[:, 0] += along
    return residuals + whole


def _others(rows: slice) -> tuple[slice, slice]:
    """Return the slices of samples before and after those of a class."""
    return slice(0, rows.start), slice(rows.stop, None)


def _within_class(
    kernel: Array, inverse: Array, before: float, shift: Array, kept: Indices
) -> tuple[Array, Array, Array]:
    """Compute v_I and z (columns), and v_IᵀK_IIv_I for samples `kept` of a class.

    `before` is a and `shift` is a' − a. With N_II = XXᵀ and XᵀK_IIX = diag(λ), and τ = D + t,

        v_I = e_k − τ N_II e_k + X w,    (1 − (a' − a) λ) w = λ (a' X⁻¹ − (a' − a) τ Xᵀ) e_k,

    where rounding errors are small even if K is. Only the entry of the largest λ can be near zero
    or negative on the left, because the system is positive definite where v_k = 0. This entry of w
    is eliminated together with τ, without dividing by it.
    """
    values, dual = linalg.eigh(kernel, inverse, type=2)  # dual = X⁻ᵀ
    basis = inverse @ dual
    x = basis.T[:, kept]
    of_kernel = (before + shift) * values[:, None] * dual.T[:, kept]
    of_tau = np.outer(values, shift) * x
    gaps = 1 - np.outer(values, shift)
    last = gaps[-1].copy()
    gaps[-1] = np.inf
    slope = inverse.diagonal()[kept] + np.einsum("ij,ij->j", x / gaps, of_tau)
    level = 1 + np.einsum("ij,ij->j", x / gaps, of_kernel)
    pivot = last * slope + of_tau[-1] * x[-1]
    of_last = (of_kernel[-1] * slope - of_tau[-1] * level) / pivot
    tau = (level + x[-1] * of_last) / slope
    coefficients = (of_kernel - tau * of_tau) / gaps
    coefficients[-1] = of_last
    held_out = basis @ coefficients - tau * inverse[:, kept]
    own = kept, np.arange(len(kept))
    held_out[own] = 0.0
    pull = kernel @ held_out
    quadratic = np.einsum("ij,ij->j", pull, held_out)
    pull *= shift
    pull += before * kernel[:, kept]
    pull[own] -= tau
    return held_out, pull, quadratic


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


def scatter_residuals_without(
    form: ScatterForm, totals: Array, X: Any, y: Indices, weights: Array
) -> Array:
    """Compute the leave-one-out residuals δ of some training samples in the features.

    Parameters
    ----------
    form : ScatterForm
        The model of all samples, with its scatter matrices.
    totals : ndarray of shape (n_classes,)
        n_i.
    X : ndarray or CSR of shape (n_kept, n_features)
        Rows that are left out.
    y : ndarray of shape (n_kept,)
        Their class indices.
    weights : ndarray of shape (n_kept,)
        Their weights, less than those of their classes.

    Returns
    -------
    residuals : ndarray of shape (n_kept, n_classes)
    """
    assert form.scatters is not None
    lost = (form.alpha * row_norms(X) + form.beta) / weights
    nu = form.alpha / (totals[y] - weights)
    delta = np.empty((X.shape[0], len(totals)))
    size = max(64, BATCH_BYTES // (8 * X.shape[1]))
    for own, scatter in enumerate(form.scatters):
        members = np.flatnonzero(y == own)
        if not len(members):
            continue
        others = [P for k, P in enumerate(form.maps) if k != own]
        without = resolvent(others)  # A⁻¹
        joint = resolvent([*others, scatter])  # G
        part = joint @ (np.eye(len(scatter)) + sum(others))  # G A
        values, basis = linalg.eigh(scatter @ part)  # T
        for batch in batches(len(members), size):
            rows = members[batch]
            x = np.asarray(X[rows].toarray() if sparse.issparse(X) else X[rows], dtype=np.float64)
            image, y_x = x @ joint, x @ part
            left = lost[rows] - row_dots(image, x)  # m
            growth = (lost[rows] / left)[:, None]
            start = x - y_x * growth
            psi = _solve(values, y_x @ basis, nu[rows] / left, nu[rows], start @ basis) @ basis.T
            remaining = image * growth + (start - psi) @ without
            # So small against beta that the contributions of all classes are rounding errors of x.
            if np.all(np.abs(x - remaining).max(axis=1) < PRECISE * np.abs(x).max(axis=1)):
                raise LossOfPrecisionError
            projections = [remaining @ P for P in others]
            delta[rows] = _residuals(x, remaining, [*projections[:own], psi, *projections[own:]])
    return delta


def _solve(values: Array, y: Array, share: Array, nu: Array, right: Array) -> Array:
    """Solve (I − ν diag(values) + share y yᵀ) ψ = right, one row per sample.

    Only the diagonal entry of the largest value can be near zero or negative, because the system is
    positive definite with its rank-one term. This entry is eliminated together with yᵀψ, without
    dividing by it.
    """
    gaps = 1 - np.outer(nu, values)
    last = gaps[:, -1].copy()
    gaps[:, -1] = np.inf
    leverage = 1 + share * row_dots(y / gaps, y)
    response = row_dots(y / gaps, right)
    pivot = last * leverage + share * y[:, -1] ** 2
    if not np.all(pivot > 0):
        raise LossOfPrecisionError
    along = (last * response + y[:, -1] * right[:, -1]) / pivot  # yᵀψ
    psi = (right - y * (share * along)[:, None]) / gaps
    psi[:, -1] = (right[:, -1] * leverage - share * y[:, -1] * response) / pivot
    return np.asarray(psi)


def _residuals(X: Array, remaining: Array, projections: list[Array]) -> Array:
    """Compute δ of (11) from r and ψ_1, …, ψ_g: ‖u‖² + 2 ψ·(ψ − x − u), u = x − r."""
    explained = X - remaining
    offset = X + explained
    square = row_dots(explained, explained)
    columns = [square + 2 * row_dots(psi, psi - offset) for psi in projections]
    return np.stack(columns, axis=1)
