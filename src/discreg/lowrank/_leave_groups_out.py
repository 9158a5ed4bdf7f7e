"""Exact scores of held-out groups of low-rank ridge regression, for all ranks and penalties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreg.base.regression import Prepared
from discreg.linalg.rows import class_sums, one_hot
from discreg.linalg.types import Array

from ._indicators import Indicators

__all__ = ["leave_groups_out_by_rank"]

ROUNDING = 1e-12


class _Group(NamedTuple):
    """Rows of a group: features in eigenvectors, normalised indicators, weights, sample weights."""

    features: Array
    targets: Array
    weights: Array
    copies: Array  # sums by class


def leave_groups_out_by_rank(
    prepared: Prepared,
    groups: NDArray[np.intp],
    betas: Sequence[float],
    ranks: Sequence[int],
) -> Iterator[Array]:
    r"""Yield the scores of all samples without their groups, one array per penalty.

    The formulas are those of `leave_one_out_by_rank` with matrices for a group: with weights S,
    :math:`A = \Phi M^{-1}\Phi^\top`, :math:`R_0 = I - 11^\top S/\sum s`, :math:`R = R_0 - AS`, the
    rows D of the centred indicators and F of the fit,

    .. math:: M' = M + D^\top S \left( R_0^{-1} A S R^{-1} D - R^{-1} F \right)
              - F^\top S R^{-1} (D - F),

    and the centred scores of full rank are :math:`R^{-1}F - R_0^{-1}ASR^{-1}D`. The scores of a
    class whose samples all belong to the group are lower than the others.

    Parameters
    ----------
    prepared : Prepared
        Training data.
    groups : ndarray of shape (n_samples,)
        Number of the group of each sample.
    betas : sequence of float
        Positive penalties.
    ranks : sequence of int
        The ranks.

    Yields
    ------
    scores : ndarray of shape (n_ranks, n_samples, n_classes)
    """
    y, weights, n_classes = prepared.y, prepared.weights, len(prepared.classes)
    given = Indicators.of(prepared)
    values, blocks = prepared.regression.eigen()
    features = np.vstack([block for _, block in blocks()])
    targets = one_hot(y, n_classes) * given.entries
    moments = features.T @ (weights[:, None] * targets)
    order = np.argsort(groups, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    for beta in betas:
        coef = moments / (values + beta)[:, None]
        explained = moments.T @ coef
        scores = np.empty((len(ranks), len(y), n_classes))
        for rows in parts:
            copies = class_sums(y[rows], prepared.copies[rows], n_classes)
            group = _Group(features[rows], targets[rows], weights[rows], copies)
            by_rank = _without(group, given, coef, explained, values + beta)
            scores[:, rows] = by_rank[np.array(ranks) - 1]
        yield scores


def _without(
    group: _Group, given: Indicators, coef: Array, explained: Array, shrinkage: Array
) -> Array:
    """Compute the scores of the rows of a group without it, for every rank."""
    rows, targets, weights, copies = group
    total = float(given.weights.sum())
    away, fitted = targets - given.mean, rows @ coef
    before = np.eye(len(rows)) - given.centred * weights / total  # R_0
    smoother = (rows / shrinkage) @ rows.T * weights  # AS
    both = np.linalg.solve(before - smoother, np.hstack([fitted, away]))  # R⁻¹F and R⁻¹D
    fit, rest = np.hsplit(both, 2)
    shrunk = np.linalg.solve(before, smoother @ rest)
    change = (away.T * weights) @ (shrunk - fit) - (fitted.T * weights) @ (rest - fit)
    sizes = given.sizes - copies
    left = sizes > ROUNDING * given.sizes
    sizes = np.where(left, sizes, 0.0)
    rescale = np.sqrt(np.divide(given.sizes, sizes, out=np.zeros_like(sizes), where=left))
    vectors = np.linalg.eigh((explained + change) * np.outer(rescale, rescale))[1][:, ::-1]
    along = ((fit - shrunk) * rescale) @ vectors
    by_rank = np.cumsum(np.moveaxis(along[:, None, :] * vectors, 2, 0), axis=0)
    mean = (total * given.mean - weights @ targets) / (total - weights.sum()) * given.centred
    shift = given.shift_of(mean * rescale, sizes)
    scores = (by_rank + shift) * given.scale_of(sizes)
    scores[:, :, ~left] = scores.min(axis=2, keepdims=True) - 1.0
    return np.asarray(scores)
