"""Exact residuals of DRM for samples that are left out by groups.

Without a group, the total weights n_i of its classes and the rows of the system (14) change. All
groups with the same weights in each class have the same totals, and share the inverse A of the
matrix M with these totals and all samples. For the samples G of a group, the representations of
their kernel values k, with zeros in G, are

    v = A k − A_:G A_GG⁻¹ (A k)_G.

In the features, the scatters S_i of the classes of the group change (see `_scatter`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from discreg.linalg.rows import centred_gram, class_sums, row_norms
from discreg.linalg.types import Array, Indices

from ._closed import class_residuals, solve_factored, system_matrix, unit_cholesky
from ._leave_one_out import leave_one_out_residuals, require_condition, with_errors
from ._problem import Groups
from ._rank_one_updates import bounded_inverse, refitted_residuals, scatter_residuals_without
from ._scatter import class_maps, class_scatters, resolvent

__all__ = ["kernel_residuals_without_groups", "scatter_residuals_without_groups"]

MAX_GROWTH = 1e2  # of an inverse for all samples, compared with one without the group
FEW_GROUPS = 2  # that are refitted instead of sharing an inverse


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
    if len(alone):
        units = samples.weights[alone]
        delta[alone] = leave_one_out_residuals(kernel, samples, alpha, beta, units, alone)
    blocks = [kernel[rows, rows] for rows in samples.slices]
    shrinkage = samples.shrinkage(kernel.diagonal(), alpha, beta)
    alike = defaultdict(list)  # groups by the total weights of the classes without them
    for rows in several:
        alike[tuple(_totals_without(samples, rows))].append(rows)
    for left, groups in alike.items():
        vanished = np.equal(left, 0.0)
        totals = np.where(vanished, 1.0, left)  # any number: there are no samples
        matrix = system_matrix(kernel.copy(), samples, alpha, beta, totals)
        inverse = None
        if len(groups) > FEW_GROUPS:
            inverse = bounded_inverse(matrix.copy(), MAX_GROWTH * samples.weights.max() / beta)
        for rows in groups:
            K_x = kernel[rows]
            K_x[:, rows] = 0.0
            V = _refitted(matrix, rows, K_x) if inverse is None else _updated(inverse, rows, K_x)
            found = class_residuals(V, K_x, samples.slices, blocks, shrinkage, alpha / totals)
            delta[rows] = _with_vanished(found, vanished)
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


def _refitted(matrix: Array, rows: Indices, K_x: Array) -> Array:
    """Solve the system without some rows; their coefficients are zero."""
    matrix = matrix.copy()
    matrix[rows] = matrix[:, rows] = 0.0
    matrix[rows, rows] = 1.0
    factor, scale, rcond = unit_cholesky(matrix)
    require_condition(rcond)
    return solve_factored(factor, scale, K_x)


def _updated(inverse: Array, rows: Indices, K_x: Array) -> Array:
    """Solve the system without some rows by the inverse with them."""
    V = K_x @ inverse
    V -= linalg.solve(inverse[np.ix_(rows, rows)], V[:, rows].T).T @ inverse[rows]
    V[:, rows] = 0.0
    return V


def _with_vanished(residuals: Array, vanished: NDArray[np.bool_]) -> Array:
    """Give classes without samples the largest residuals."""
    residuals[:, vanished] = np.nextafter(residuals.max(axis=1, keepdims=True), np.inf)
    return residuals
