"""Exact leave-one-out of low-rank ridge regression for all ranks and penalties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreg.core.classifier import Prepared
from discreg.core.rows import class_totals, row_blocks
from discreg.lowrank._indicators import Indicators

__all__ = ["leave_one_out_by_rank"]

Array = NDArray[np.float64]
ROUNDING = 1e-12


def leave_one_out_by_rank(
    prepared: Prepared, shares: Array, betas: Sequence[float]
) -> Iterator[Array]:
    r"""Scores of every sample by the models of all ranks that have not seen one unit of it.

    Yields one array of shape (n_classes, n_samples, n_classes) for each penalty, the first rank
    first, which equals what refits give: one eigendecomposition serves all penalties, and each
    sample and penalty takes a small eigenproblem.

    With weights s, normalised indicators Y of classes with :math:`n_j` copies, residuals e of the
    ridge regression of full rank (its intercept included) and leverages h, lowering the weight of
    sample i by u leaves the matrix Q of its least squares at
    :math:`Q' = Q - u\, e_i e_i^\top/(1 - u h_i)`. Its class then has fewer copies, which rescales a
    column of Y by :math:`D = \sqrt{n_j/n_j'}`, so that the directions are the eigenvectors V of

    .. math:: M' = D\,(Y'^\top H' Y' - Q')\,D,

    H' the centring of what is left, and the scores are
    :math:`(y_i - e_i/(1 - u h_i) - \bar y')\, D V_s V_s^\top` and what class weights add.

    Parameters
    ----------
    prepared : Prepared
        Training data.
    shares : ndarray of shape (n_samples,)
        The share of a sample that is left out: one of its copies.
    betas : sequence of float
        Positive penalties.
    """
    regression, y = prepared.regression, prepared.y
    indicators = Indicators.of(prepared)
    left_out = _LeftOut(
        indicators,
        y,
        shares * prepared.weights,
        shares * prepared.copies,
    )
    n_classes, total = len(prepared.classes), float(prepared.weights.sum())
    values, blocks = regression.eigen()
    moments = np.zeros((len(values), n_classes))
    for rows, block in blocks():
        moments += class_totals(block, y[rows], prepared.weights[rows], n_classes)
    moments *= indicators.entries
    for beta in betas:
        least = indicators.second - moments.T @ (moments / (values + beta)[:, None])
        scores = np.empty((n_classes, len(y), n_classes))
        for rows, block in blocks():
            shrunk = block / (values + beta)
            fitted = shrunk @ moments + indicators.mean
            leverage = np.einsum("ij,ij->i", shrunk, block) + regression.centred / total
            for some in row_blocks(len(block), n_classes**2):
                chosen = slice(rows.start + some.start, rows.start + some.stop)
                scores[:, chosen] = left_out.scores(chosen, fitted[some], leverage[some], least)
        yield scores


@dataclass
class _LeftOut:
    """What is left out of each sample: a weight, and the copies that it stands for."""

    indicators: Indicators
    y: NDArray[np.intp]
    weights: Array
    copies: Array

    def scores(self, rows: slice, fitted: Array, leverage: Array, least: Array) -> Array:
        """Scores of some samples for all ranks, of shape (n_classes, n_samples, n_classes)."""
        y, unit, copies = self.y[rows], self.weights[rows, None], self.copies[rows, None]
        given = self.indicators
        total, here = given.weights.sum(), np.arange(len(y))
        own = np.zeros((len(y), len(given.sizes)))
        own[here, y] = given.entries[y]
        sizes = np.repeat(given.sizes[None], len(y), axis=0)
        sizes[here, y] -= copies[:, 0]
        remaining = 1 - unit * leverage[:, None]
        if np.any(sizes <= ROUNDING * given.sizes) or np.any(remaining <= ROUNDING):
            raise ValueError(
                "Leave-one-out is not defined: without one of the samples nothing is left to learn "
                "from, or the smallest beta lets it decide its own score alone. Use larger betas, "
                "more samples of each class, or cv=5."
            )
        residual = own - fitted
        mean = (total * given.mean - unit * own) / (total - unit) * given.centred
        rescale = np.sqrt(given.sizes / sizes)
        explained = (
            np.diag(given.weights / given.sizes)
            - _outer(own, unit)
            - _outer(mean, total - unit)
            - least
            + _outer(residual, unit / remaining)
        )
        explained *= rescale[:, :, None] * rescale[:, None, :]
        vectors = np.linalg.eigh(explained)[1][:, :, ::-1]
        predicted = (own - residual / remaining - mean) * rescale
        along = np.einsum("nk,nks->ns", predicted, vectors)
        by_rank = np.cumsum(np.moveaxis(along[:, None, :] * vectors, 2, 0), axis=0)
        shift = mean * rescale - np.sqrt(sizes) / sizes.sum(axis=1)[:, None] * given.centred
        return by_rank + shift


def _outer(rows: Array, factors: Array) -> Array:
    """Outer product of each row with itself, times a factor each."""
    return (factors * rows)[:, :, None] * rows[:, None, :]
