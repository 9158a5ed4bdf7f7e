"""Exact residuals of DRM for samples that are left out by groups.

Without the samples G of a group, the matrix of (14) loses their rows and columns, and the total
weights n_i of their classes change: a = α / n_i becomes a'. With N = M⁻¹, the first change alone
gives the inverse T = N − N_:G N_GG⁻¹ N_G:, and the representations v of kernel values k solve

    v = T (k + Σ_i (a' − a) K_ii v_i).

Repeating this for all groups at once converges to rounding in a few steps if the groups are small
parts of their classes, because the eigenvalues of the map are between 0 and 1. The other groups
are refitted. In the features, the scatters S_i of the classes of a group change (see `_scatter`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from discreg.linalg.rows import centred_gram, class_sums, row_norms
from discreg.linalg.types import Array, Indices

from ._closed import class_residuals, solve_factored, system_matrix, unit_cholesky
from ._leave_one_out import (
    leave_one_out_residuals,
    positive_inverse,
    require_condition,
    with_errors,
)
from ._problem import Groups
from ._rank_one_updates import refitted_residuals, scatter_residuals_without
from ._scatter import class_maps, class_scatters, resolvent

__all__ = ["kernel_residuals_without_groups", "scatter_residuals_without_groups"]

MAX_STEPS = 25
PRECISION = 1e-13  # relative change of representations that ends the steps


def kernel_residuals_without_groups(
    kernel: Array, samples: Groups, alpha: float, beta: float, parts: Sequence[Indices]
) -> Array:
    """Compute δ of all samples in models without their groups, from the kernel matrix.

    Parameters
    ----------
    kernel : ndarray of shape (n, n)
        Kernel matrix of the samples sorted by class.
    samples : Groups
    alpha, beta : float
    parts : sequence of ndarray
        Indices of the samples of each group.

    Returns
    -------
    residuals : ndarray of shape (n, n_classes)
        Classes without samples have the largest residual.
    """
    delta = np.empty((len(kernel), samples.n_classes))
    alone, several = _sorted_out(parts)
    several.sort(key=len)
    by_size = [np.array(list(same)) for _, same in groupby(several, key=len)]
    if len(alone):
        units = samples.weights[alone]
        delta[alone] = leave_one_out_residuals(kernel, samples, alpha, beta, units, alone)
    if not several:
        return delta
    blocks = [kernel[rows, rows] for rows in samples.slices]
    shrinkage = samples.shrinkage(kernel.diagonal(), alpha, beta)
    chosen = np.concatenate(several)
    ends = np.cumsum([len(rows) for rows in several]).tolist()
    places = [slice(*pair) for pair in pairwise([0, *ends])]
    K_x = kernel[chosen]
    left = np.empty((len(chosen), samples.n_classes))
    for rows, place in zip(several, places, strict=True):
        K_x[place, rows] = 0.0
        left[place] = _totals_without(samples, rows)
    vanished = left == 0.0
    totals = np.where(vanished, 1.0, left)  # any number: there are no samples
    shifts = alpha / totals - alpha / samples.totals

    def shifted(V: Array) -> Array:
        """Compute k + Σ (a' − a) K_ii v_i."""
        right = K_x.copy()
        for c, rows in enumerate(samples.slices):
            right[:, rows] += shifts[:, c, None] * (V[:, rows] @ blocks[c])
        return right

    inverse = positive_inverse(system_matrix(kernel.copy(), samples, alpha, beta))
    V, following = K_x, _without_rows(K_x @ inverse, inverse, by_size)
    for _ in range(MAX_STEPS):
        changes = linalg.norm(following - V, axis=1)
        V = following
        open_rows = changes > PRECISION * linalg.norm(V, axis=1)
        if not open_rows.any():
            break
        following = _without_rows(shifted(V) @ inverse, inverse, by_size)
    for rows, place in zip(several, places, strict=True):
        if open_rows[place].any():
            matrix = system_matrix(kernel.copy(), samples, alpha, beta, totals[place.start])
            V[place] = _refitted(matrix, rows, K_x[place])
    found = class_residuals(V, K_x, samples.slices, blocks, shrinkage, (alpha / totals).T)
    delta[chosen] = _with_vanished(found, vanished)
    return delta


def scatter_residuals_without_groups(
    X: Any, samples: Groups, alpha: float, beta: float, parts: Sequence[Indices]
) -> Array:
    """Compute δ of all samples in models without their groups, in the features.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, n_features)
        Training rows sorted by class.
    samples, alpha, beta, parts
        As for `kernel_residuals_without_groups`.

    Returns
    -------
    residuals : ndarray of shape (n, n_classes)
    """
    norms = row_norms(X)
    gains = 1 / samples.shrinkage(norms, alpha, beta)
    scatters = class_scatters(X, norms, samples, alpha, beta)
    maps = class_maps(scatters, samples.totals, alpha)
    resolvent(maps)  # raises LossOfPrecisionError
    delta = np.empty((X.shape[0], samples.n_classes))
    alone, several = _sorted_out(parts)
    if len(alone):
        units = samples.weights[alone]
        remaining, vanishing = samples.without(alone, units)
        own = X[alone], samples.y[alone], units, remaining
        found = scatter_residuals_without(*own, scatters, samples.totals, alpha, beta, maps)
        delta[alone] = with_errors(found, samples.y[alone], vanishing)
    for rows in several:
        left = _totals_without(samples, rows)
        vanished = left == 0.0
        changed = list(maps)
        for own in np.unique(samples.y[rows]):
            lost = rows[samples.y[rows] == own]
            members = np.arange(len(samples.y))[samples.slices[own]]
            kept = np.setdiff1d(members, lost)
            # The sum over fewer rows costs less, and few rows that stay lose no precision.
            if len(kept) < len(lost):
                scatter = centred_gram(X[kept], gains[kept], None)
            else:
                scatter = scatters[own] - centred_gram(X[lost], gains[lost], None)
            total = np.ones(1) if vanished[own] else left[own : own + 1]
            changed[own] = class_maps([scatter], total, alpha)[0]
        block = X[rows].toarray() if sparse.issparse(X) else X[rows]
        found = refitted_residuals(np.asarray(block, dtype=np.float64), changed)
        delta[rows] = _with_vanished(found, vanished)
    return delta


def _sorted_out(parts: Sequence[Indices]) -> tuple[Indices, list[Indices]]:
    """Return the samples that are groups of their own, ascending, and the other groups."""
    alone = np.array([rows[0] for rows in parts if len(rows) == 1], dtype=np.intp)
    return np.sort(alone), [rows for rows in parts if len(rows) > 1]


def _totals_without(samples: Groups, rows: Indices) -> Array:
    """Sum the weights of the other samples of each class."""
    weights = samples.weights.copy()
    weights[rows] = 0.0
    return class_sums(samples.y, weights, samples.n_classes)


def _without_rows(V: Array, inverse: Array, by_size: Sequence[Indices]) -> Array:
    """Compute T k from N k, one row per sample; the group's own coefficients are zero.

    The rows of V are those of `by_size`, the samples of groups of each size.
    """
    start = 0
    for rows in by_size:
        stop = start + rows.size
        found = V[start:stop].reshape(*rows.shape, -1)
        right = np.take_along_axis(found, rows[:, None, :], axis=2).transpose(0, 2, 1)
        own = np.linalg.solve(inverse[rows[:, :, None], rows[:, None, :]], right)
        found -= own.transpose(0, 2, 1) @ inverse[rows]
        np.put_along_axis(found, rows[:, None, :], 0.0, axis=2)
        start = stop
    return V


def _refitted(matrix: Array, rows: Indices, K_x: Array) -> Array:
    """Solve the system without some rows; their coefficients are zero."""
    matrix[rows] = matrix[:, rows] = 0.0
    matrix[rows, rows] = 1.0
    factor, scale, rcond = unit_cholesky(matrix)
    require_condition(rcond)
    return solve_factored(factor, scale, K_x)


def _with_vanished(residuals: Array, vanished: NDArray[np.bool_]) -> Array:
    """Give classes without samples the largest residuals."""
    largest = residuals.max(axis=1, keepdims=True)
    return np.where(vanished, np.nextafter(largest, np.inf), residuals)
