"""Exact scores of held-out samples or groups of ridge regression, for all penalties at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from discreg.base.candidates import groups_by_size
from discreg.linalg.ridge import Regression, RowBlocks
from discreg.linalg.rows import row_dots, varies
from discreg.linalg.types import Array, Indices

from ._deviations import Deviations, scalar_effects

__all__ = ["leave_groups_out_scores", "leave_one_out_scores"]

ROUNDING = 1e-12


def leave_one_out_scores(
    regression: Regression,
    targets: Array,
    units: Array,
    betas: Sequence[float],
    *,
    scale_beta: bool,
    eigen: tuple[Array, RowBlocks] | None = None,
) -> Array:
    r"""Compute the leave-one-out scores of all samples.

    With weights s, centred features :math:`\phi_i`, :math:`M = \Phi^\top S\Phi + \beta I` and the
    leverage :math:`h_i = \phi_i^\top M^{-1}\phi_i + 1/\sum s`, lowering the weight of sample i by u
    turns its score :math:`r_i` into :math:`(r_i - u h_i y_i) / (1 - u h_i)`. In the eigenvectors
    of :math:`\Phi^\top S\Phi` the matrix M is diagonal for all :math:`\beta`. A relative penalty
    uses the trace without the weight u of sample i, so that the scores equal those of refits.
    If the trace is zero without it, the other samples are equal and determine only an intercept.
    If the penalty includes the within-class scatter, M does too, and :math:`r_i` and :math:`h_i`
    are those after the effects of `_deviations`.

    Parameters
    ----------
    regression : Regression
    targets : ndarray of shape (n_samples, n_classes)
        The zero-one targets.
    units : ndarray of shape (n_samples,)
        The weight u of each sample that is left out.
    betas : sequence of float
        Positive penalties.
    scale_beta : bool
        Whether the penalties are relative to the trace.
    eigen : tuple, default=None
        ``regression.eigen()``, if it is known.

    Returns
    -------
    scores : ndarray of shape (n_betas, n_samples, n_classes)
        Not finite where the other samples do not determine the scores.
    """
    weights, centred = regression.weights, regression.centred
    total = weights.sum()
    mean = weights @ targets / total if centred else np.zeros(targets.shape[1])
    values, blocks = eigen or regression.eigen()
    moments = sum(block.T @ (weights[rows, None] * targets[rows]) for rows, block in blocks())
    y, totals = targets.argmax(axis=1), (np.asarray(moments), weights @ targets)
    scores = np.empty((len(betas), *targets.shape))
    for rows, block in blocks():
        unit = units[rows, None]
        square = row_dots(block, block)[:, None]
        if scale_beta:
            scale = _scale_without(regression, rows, unit, square)
            block = np.where(scale == 0, 0.0, block)
            scale = np.where(scale == 0, 1.0, scale)
        else:
            scale = np.ones_like(square)
        omega = regression.within_class
        deviations = None
        if omega > 0:
            deviations = Deviations.of(block, y[rows], unit[:, 0], totals, omega)
        shrunk = np.empty_like(block)  # allocating it for every penalty would take as long
        for index, beta in enumerate(betas):
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                np.add(values, beta * scale, out=shrunk)
                np.divide(block, shrunk, out=shrunk)
                leverage = row_dots(shrunk, block)[:, None] + centred / total
                fitted = shrunk @ moments + mean
                if deviations is not None:
                    bent = deviations.rows / (values + beta * scale)
                    moves, changes = scalar_effects(
                        row_dots(block, bent)[:, None],
                        row_dots(deviations.rows, bent)[:, None],
                        bent @ moments,
                        deviations.weights[:, None],
                    )
                    fitted, leverage = fitted + moves, leverage + changes
                remaining = 1 - unit * leverage
                held_out = fitted - unit * leverage * targets[rows]
                scores[index, rows] = held_out / np.where(remaining > ROUNDING, remaining, np.nan)
    return scores


def leave_groups_out_scores(
    regression: Regression,
    targets: Array,
    groups: Indices,
    betas: Sequence[float],
    *,
    scale_beta: bool,
) -> Array:
    r"""Compute the scores of all samples, each from the model without its group.

    With the smoother :math:`H = \Phi M^{-1}\Phi^\top + 1/\sum s` and the weights S, the scores of a
    group without it are :math:`Y - (I - HS)^{-1}(Y - R)`, where all matrices are those of the
    group. A relative penalty uses the trace without the group. With the within-class scatter in
    the penalty, the deviations of the group from the means of their classes are further samples
    with targets of zero, and S has what the scatter loses without the group.

    Parameters
    ----------
    regression : Regression
    targets : ndarray of shape (n_samples, n_classes)
    groups : ndarray of shape (n_samples,)
        Number of the group of each sample, from 0.
    betas : sequence of float
        Positive penalties.
    scale_beta : bool
        Whether the penalties are relative to the trace.

    Returns
    -------
    scores : ndarray of shape (n_betas, n_samples, n_classes)
        Not finite where the other samples do not determine the scores.
    """
    weights, centred = regression.weights, regression.centred
    total = float(weights.sum())
    mean = weights @ targets / total if centred else np.zeros(targets.shape[1])
    # Samples that are alone in their groups are left out all at once.
    eigen = values, blocks = regression.eigen()
    scores = leave_one_out_scores(
        regression, targets, weights, betas, scale_beta=scale_beta, eigen=eigen
    )
    several = [rows for rows in groups_by_size(groups) if rows.shape[1] > 1]
    if not several:
        return scores
    features = np.vstack([block for _, block in blocks()])
    moments = features.T @ (weights[:, None] * targets)
    sizes, omega = weights @ targets, regression.within_class
    deviations = features - targets @ (moments / sizes).T if omega > 0 else None
    for rows in several:  # all groups of one size
        block, own, size = features[rows], weights[rows], rows.shape[1]
        if scale_beta:
            scale = _scale_without_groups(regression, rows, block)[:, None, None]
            block = np.where(scale == 0, 0.0, block)
            scale = np.where(scale == 0, 1.0, scale)
        else:
            scale = np.ones((len(rows), 1, 1))
        lost = own[:, :, None] * np.eye(size)
        if deviations is not None:
            of_scatter = omega * _lost_by_scatter(own, targets[rows], sizes)
            none = np.zeros_like(lost)
            lost = np.block([[lost, none], [none, of_scatter]])
            block = np.concatenate([block, deviations[rows]], axis=1)
        for index, beta in enumerate(betas):
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                shrunk = block / (values + beta * scale)
                smoother = shrunk @ block.transpose(0, 2, 1)
                smoother[:, :size, :size] += centred / total
                residuals = -shrunk @ moments
                residuals[:, :size] += targets[rows] - mean
                matrices = np.eye(block.shape[1]) - smoother @ lost
            scores[index, rows] = targets[rows] - _solve_all(matrices, residuals)[:, :size]
    return scores


def _lost_by_scatter(own: Array, targets: Array, sizes: Array) -> Array:
    """Compute C for which the within-class scatter loses DᵀCD without a group of deviations D.

    With the weights s and the sum n of those of a class, C = diag(s) + ssᵀ / (n − Σs) for the rows
    of this class.
    """
    of_class = own[:, :, None] * targets
    others = sizes - of_class.sum(axis=1)
    # Without a class, the weighted sum of its deviations is zero.
    left = others > ROUNDING * sizes
    shares = np.divide(1.0, others, out=np.zeros_like(others), where=left)
    lost = (of_class * shares[:, None, :]) @ of_class.transpose(0, 2, 1)
    return np.asarray(lost + own[:, :, None] * np.eye(own.shape[1]))


def _solve_all(matrices: Array, right: Array) -> Array:
    """Solve a stack of systems; the solutions of singular ones are NaN."""
    try:
        return np.asarray(np.linalg.solve(matrices, right))
    except np.linalg.LinAlgError:
        found = np.full_like(right, np.nan)
        for place, (matrix, each) in enumerate(zip(matrices, right, strict=True)):
            with suppress(np.linalg.LinAlgError):
                found[place] = np.linalg.solve(matrix, each)
        return found


def _scale_without_groups(regression: Regression, rows: Indices, block: Array) -> Array:
    """Compute the unit of a relative penalty without each group, as `_scale_without`."""
    own = regression.weights[rows]
    rest = regression.weights.sum() - own.sum(axis=1)
    trace = regression.trace - np.einsum("gi,gij,gij->g", own, block, block)
    if regression.centred:  # without the group, the mean changes too
        trace -= np.sum(np.einsum("gi,gij->gj", own, block) ** 2, axis=1) / rest
    for place in np.flatnonzero(trace <= ROUNDING * regression.trace):
        trace[place] = _trace_of_others(regression, rows[place])
    return np.asarray(trace / (regression.n_features or rest))


def _scale_without(regression: Regression, rows: slice, unit: Array, square: Array) -> Array:
    """Compute the unit of a relative penalty without a weight `unit` of each sample.

    It is zero if the other samples are equal, and NaN if only one is left or if rounding hides by
    how much they differ.
    """
    if regression.trace == 0:
        return np.zeros_like(square)
    total = regression.weights.sum()
    if regression.centred:
        square = square * total / (total - unit)  # without the sample, the mean changes too
    trace = regression.trace - unit * square
    for row in np.flatnonzero(trace <= ROUNDING * regression.trace):
        trace[row] = _trace_of_others(regression, rows.start + row)
    return np.asarray(trace / (regression.n_features or total - unit))


def _trace_of_others(regression: Regression, rows: Any) -> float:
    """Return zero if the other samples are equal, and NaN if they are not or only one is left."""
    others = regression.weights > 0
    others[rows] = False
    X = regression.X[others]
    differ = varies(X) if regression.centred else abs(X).max() > 0
    return np.nan if differ or X.shape[0] == 1 else 0.0
