"""Exact scores of held-out samples or groups of ridge regression, for all penalties at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.candidates import rows_of_groups
from discreg.linalg.ridge import Regression
from discreg.linalg.rows import varies
from discreg.linalg.types import Array

__all__ = ["leave_groups_out_scores", "leave_one_out_scores"]

ROUNDING = 1e-12


def leave_one_out_scores(
    regression: Regression,
    targets: Array,
    units: Array,
    betas: Sequence[float],
    *,
    scale_beta: bool,
) -> Array:
    r"""Compute the leave-one-out scores of all samples.

    With weights s, centred features :math:`\phi_i`, :math:`M = \Phi^\top S\Phi + \beta I` and the
    leverage :math:`h_i = \phi_i^\top M^{-1}\phi_i + 1/\sum s`, lowering the weight of sample i by u
    turns its score :math:`r_i` into :math:`(r_i - u h_i y_i) / (1 - u h_i)`. In the eigenvectors
    of :math:`\Phi^\top S\Phi` the matrix M is diagonal for all :math:`\beta`. A relative penalty
    uses the trace without the weight u of sample i, so that the scores equal those of refits.
    If the trace is zero without it, the other samples are equal and determine only an intercept.

    Parameters
    ----------
    regression : Regression
    targets : ndarray of shape (n_samples, n_classes)
    units : ndarray of shape (n_samples,)
        The weight u of each sample that is left out.
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
    total = weights.sum()
    mean = weights @ targets / total if centred else np.zeros(targets.shape[1])
    values, blocks = regression.eigen()
    moments = sum(block.T @ (weights[rows, None] * targets[rows]) for rows, block in blocks())
    scores = np.empty((len(betas), *targets.shape))
    for rows, block in blocks():
        unit = units[rows, None]
        square = np.einsum("ij,ij->i", block, block)[:, None]
        if scale_beta:
            scale = _scale_without(regression, rows, unit, square)
            block = np.where(scale == 0, 0.0, block)
            scale = np.where(scale == 0, 1.0, scale)
        else:
            scale = np.ones_like(square)
        for index, beta in enumerate(betas):
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                shrunk = block / (values + beta * scale)
                leverage = np.einsum("ij,ij->i", shrunk, block)[:, None] + centred / total
                remaining = 1 - unit * leverage
                held_out = shrunk @ moments + mean - unit * leverage * targets[rows]
                scores[index, rows] = held_out / np.where(remaining > ROUNDING, remaining, np.nan)
    return scores


def leave_groups_out_scores(
    regression: Regression,
    targets: Array,
    groups: NDArray[np.intp],
    betas: Sequence[float],
    *,
    scale_beta: bool,
) -> Array:
    r"""Compute the scores of all samples, each from the model without its group.

    With the smoother :math:`H = \Phi M^{-1}\Phi^\top + 1/\sum s` and the weights S, the scores of a
    group without it are :math:`Y - (I - HS)^{-1}(Y - R)`, where all matrices are those of the
    group. A relative penalty uses the trace without the group.

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
    scores = leave_one_out_scores(regression, targets, weights, betas, scale_beta=scale_beta)
    others = [rows for rows in rows_of_groups(groups) if len(rows) > 1]
    if not others:
        return scores
    values, blocks = regression.eigen()
    features = np.vstack([block for _, block in blocks()])
    moments = features.T @ (weights[:, None] * targets)
    for rows in others:
        block, own = features[rows], weights[rows]
        rest = total - float(own.sum())
        trace = regression.trace - float(own @ np.einsum("ij,ij->i", block, block))
        if centred:  # without the group, the mean changes too
            trace -= float(np.sum((own @ block) ** 2)) / rest
        if trace <= ROUNDING * regression.trace:
            trace = _trace_of_others(regression, rows)
        scale = trace / (regression.n_features or rest) if scale_beta else 1.0
        if scale == 0:
            block, scale = np.zeros_like(block), 1.0
        for index, beta in enumerate(betas):
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                shrunk = block / (values + beta * scale)
                smoother = shrunk @ block.T + centred / total
                matrix = np.eye(len(rows)) - smoother * own
                residuals = targets[rows] - shrunk @ moments - mean
            try:
                scores[index, rows] = targets[rows] - np.linalg.solve(matrix, residuals)
            except np.linalg.LinAlgError:
                scores[index, rows] = np.nan
    return scores


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
