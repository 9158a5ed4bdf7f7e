"""Exact leave-one-out scores of ridge regression for all penalties from one eigendecomposition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreg.linalg.ridge import Regression
from discreg.linalg.types import Array

__all__ = ["leave_one_out_scores"]

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
        scale = _scale_without(regression, unit, square) if scale_beta else 1.0
        for index, beta in enumerate(betas):
            with np.errstate(divide="ignore", invalid="ignore"):
                shrunk = block / (values + beta * scale)
                leverage = np.einsum("ij,ij->i", shrunk, block)[:, None] + centred / total
                remaining = 1 - unit * leverage
                held_out = shrunk @ moments + mean - unit * leverage * targets[rows]
                scores[index, rows] = held_out / np.where(remaining > ROUNDING, remaining, np.nan)
    if not np.all(np.isfinite(scores)):
        raise ValueError(
            "Leave-one-out is not defined: the other samples do not determine the score of some "
            "sample for the smallest beta. Use larger betas, more samples, or cv=5."
        )
    return scores


def _scale_without(regression: Regression, unit: Array, square: Array) -> Array:
    """Compute the unit of a relative penalty without a weight `unit` of each sample."""
    total = regression.weights.sum()
    if regression.centred:
        square = square * total / (total - unit)  # without the sample, the mean changes too
    return (regression.trace - unit * square) / (regression.n_features or total - unit)
