"""Exact leave-one-out of low-rank ridge regression for all ranks and penalties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreg.base.regression import Prepared
from discreg.linalg.rows import class_totals, row_blocks
from discreg.linalg.types import Array

from ._indicators import Indicators

__all__ = ["leave_one_out_by_rank"]

ROUNDING = 1e-12


def leave_one_out_by_rank(
    prepared: Prepared, shares: Array, betas: Sequence[float], ranks: Sequence[int]
) -> Iterator[Array]:
    r"""Yield the leave-one-out scores of all samples and ranks, one array per penalty.

    Each array has shape (n_ranks, n_samples, n_classes) and equals the scores of refits without
    one unit of weight of each sample. One eigendecomposition serves all penalties; each sample and
    penalty needs one small eigenproblem.

    With weights s, normalised indicators Y of classes with sums of weights :math:`n_j`,
    :math:`\delta_i = y_i - \bar y`, the centred fit f of full rank and its leverages h, lowering
    the weight of sample i by u leaves the matrix :math:`M = Y^\top SXW` of the fit at

    .. math:: M' = M + u \Big( \frac{u h}{r r_0}\, \delta\delta^\top
              - \frac{\delta f^\top + f\delta^\top - f f^\top}{r} \Big), \quad
              r_0 = 1 - u/\textstyle\sum s,\; r = r_0 - u h .

    The weight of its class decreases to :math:`n_j'`, which rescales a column of Y by
    :math:`D = \sqrt{n_j/n_j'}`. The directions are the eigenvectors V of :math:`D M' D`, and the
    scores are :math:`(f/r - u h\, \delta/(r r_0))\, D V_s V_s^\top` plus the shift of the class
    weights, times the scale of the remaining samples. Where r is zero, the other samples do not
    determine the score, which is NaN.

    Parameters
    ----------
    prepared : Prepared
        Training data.
    shares : ndarray of shape (n_samples,)
        The share of each sample's weight that is left out: one unit of weight.
    betas : sequence of float
        Positive penalties.
    ranks : sequence of int
        The ranks.
    """
    regression, y = prepared.regression, prepared.y
    indicators = Indicators.of(prepared)
    left_out = _LeftOut(
        indicators,
        y,
        shares * prepared.weights,
        shares * prepared.copies,
    )
    n_classes = len(prepared.classes)
    values, blocks = regression.eigen()
    moments = np.zeros((len(values), n_classes))
    for rows, block in blocks():
        moments += class_totals(block, y[rows], prepared.weights[rows], n_classes)
    moments *= indicators.entries
    kept = np.array(ranks) - 1
    for beta in betas:
        explained = moments.T @ (moments / (values + beta)[:, None])
        scores = np.empty((len(kept), len(y), n_classes))
        for rows, block in blocks():
            shrunk = block / (values + beta)
            fitted = shrunk @ moments
            leverage = np.einsum("ij,ij->i", shrunk, block)
            for some in row_blocks(len(block), n_classes**2):
                chosen = slice(rows.start + some.start, rows.start + some.stop)
                scores[:, chosen] = left_out.scores(
                    chosen, fitted[some], leverage[some, None], explained
                )[kept]
        yield scores


@dataclass
class _LeftOut:
    """The weights that are left out, with (`weights`) and without (`copies`) class weights."""

    indicators: Indicators
    y: NDArray[np.intp]
    weights: Array
    copies: Array

    def scores(self, rows: slice, fitted: Array, leverage: Array, explained: Array) -> Array:
        """Compute scores of some samples, of shape (n_ranks, n_samples, n_classes)."""
        y, unit, copies = self.y[rows], self.weights[rows, None], self.copies[rows, None]
        given, here = self.indicators, np.arange(len(y))
        total = given.weights.sum()
        own = np.zeros((len(y), len(given.sizes)))
        own[here, y] = given.entries[y]
        sizes = np.repeat(given.sizes[None], len(y), axis=0)
        sizes[here, y] -= copies[:, 0]
        if np.any(sizes <= ROUNDING * given.sizes):
            raise ValueError(
                "Leave-one-out is not defined: a class has only one sample, and leaving it out "
                "removes the class. Use more samples of each class, or cv=5."
            )
        before = 1 - unit / total * given.centred  # r_0
        remaining = before - unit * leverage  # r
        remaining = np.where(remaining > ROUNDING, remaining, np.nan)
        away = own - given.mean
        shrinkage = unit * leverage / (remaining * before)
        change = _outer(away, away, unit * shrinkage)
        change -= _outer(away, fitted, unit / remaining) + _outer(fitted, away, unit / remaining)
        change += _outer(fitted, fitted, unit / remaining)
        rescale = np.sqrt(given.sizes / sizes)
        matrices = (explained + change) * rescale[:, :, None] * rescale[:, None, :]
        defined = np.isfinite(matrices).all(axis=(1, 2))
        vectors = np.full_like(matrices, np.nan)
        vectors[defined] = np.linalg.eigh(matrices[defined])[1][:, :, ::-1]
        predicted = (fitted / remaining - shrinkage * away) * rescale
        along = np.einsum("nk,nks->ns", predicted, vectors)
        by_rank = np.cumsum(np.moveaxis(along[:, None, :] * vectors, 2, 0), axis=0)
        mean = (given.mean - unit / total * own) / before * given.centred
        shift = given.shift_of(mean * rescale, sizes)
        return np.asarray((by_rank + shift) * given.scale_of(sizes))


def _outer(left: Array, right: Array, factors: Array) -> Array:
    """Compute the outer products of corresponding rows, each times its factor."""
    return (factors * left)[:, :, None] * right[:, None, :]
