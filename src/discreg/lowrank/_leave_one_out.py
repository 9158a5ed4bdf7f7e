r"""Exact leave-one-out of low-rank ridge regression.

With weights s, normalised indicators Y of classes with sums of weights :math:`n_j`,
:math:`\delta_i = y_i - \bar y`, the centred fit f of full rank and its leverages h, lowering the
weight of sample i by u leaves the matrix :math:`M = Y^\top SXW` of the fit at

.. math:: M' = M + u \Big( \frac{u h}{r r_0}\, \delta\delta^\top
          - \frac{\delta f^\top + f\delta^\top - f f^\top}{r} \Big), \quad
          r_0 = 1 - u/\textstyle\sum s,\; r = r_0 - u h .

The weight of its class decreases to :math:`n_j'`, which rescales a column of Y by
:math:`D = \sqrt{n_j/n_j'}`. The directions are the eigenvectors V of :math:`D M' D`, and the scores
are :math:`(f/r - u h\, \delta/(r r_0))\, D V_s V_s^\top` plus the shift of the class weights, times
the scale of the remaining samples. At the largest rank no eigenvectors are needed, because the
scores have no part in the null space of M'. Where r is zero or eigenvalues are equal,
`_leave_groups_out` computes the scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from discreg.base.left_out import LeftOut
from discreg.base.regression import Prepared
from discreg.linalg.reduced_rank import TIED, RankedCoefficients
from discreg.linalg.rows import row_blocks, row_dots
from discreg.linalg.types import Array, Indices

from ._indicators import Indicators
from ._leave_groups_out import SEEN, Group, solved_for, without_group
from ._subspace import largest_rank

__all__ = ["LeftOutUnits", "Without", "leave_one_out_by_rank", "left_out_at_rank"]

ROUNDING = 1e-12


def leave_one_out_by_rank(
    prepared: Prepared, shares: Array, betas: Sequence[float], ranks: Sequence[int]
) -> Iterator[Array]:
    """Yield the leave-one-out scores of all samples and ranks, one array per penalty.

    Each array has shape (n_ranks, n_samples, n_classes) and equals the scores of refits without
    one unit of weight of each sample. One eigendecomposition serves all penalties; each sample and
    penalty needs one small eigenproblem, unless the rank is the largest.

    Parameters
    ----------
    prepared : Prepared
        Training data.
    shares : ndarray of shape (n_samples,)
        The share of each sample's weight that is left out: one unit of weight.
    betas : sequence of float
        Penalties.
    ranks : sequence of int
        The ranks.
    """
    left_out = LeftOutUnits(
        Indicators.of(prepared),
        prepared.y,
        shares * prepared.weights,
        shares * prepared.copies,
    )
    n_classes, at_largest = len(prepared.classes), min(ranks) >= largest_rank(prepared)
    for fit in solved_for(prepared, betas):
        explained = None if at_largest else fit.moments.T @ fit.coef
        scores = np.empty((len(ranks), len(prepared.y), n_classes))
        for rows, features, solved in fit.blocks():
            fitted, leverage = features @ fit.coef, row_dots(features, solved)
            for some in row_blocks(len(features), n_classes**2):
                chosen = slice(rows.start + some.start, rows.start + some.stop)
                scores[:, chosen] = left_out.scores(
                    chosen, fitted[some], leverage[some, None], explained, ranks
                )
            found = scores[:, rows]
            for place in np.flatnonzero(np.isnan(found).any(axis=(0, 2))).tolist():
                group = left_out.group(rows.start + place, features[[place]], solved[[place]])
                found[:, [place]] = without_group(
                    group, left_out.indicators, fit.coef, fit.moments, ranks
                )
        yield scores


def left_out_at_rank(prepared: Prepared, ranked: RankedCoefficients, rank: int) -> LeftOut:
    """Compute the leave-one-out scores of the kept rows for the penalty and rank of a fit."""
    kept, features, indicators = prepared.kept, prepared.kept_features, Indicators.of(prepared)
    assert kept is not None
    regression, coef = prepared.regression, ranked.projected @ ranked.directions.T
    fitted, leverage = features @ coef, regression.quadratic_forms(features)
    copies = kept.units * (prepared.sizes / prepared.class_weights)[kept.y]
    left_out = LeftOutUnits(indicators, kept.y, kept.units, copies)
    explained = None
    if rank < largest_rank(prepared):
        explained = (ranked.directions * ranked.explained) @ ranked.directions.T
    scores = np.empty(fitted.shape)
    for rows in row_blocks(len(kept), fitted.shape[1] ** 2):
        found = left_out.scores(rows, fitted[rows], leverage[rows, None], explained, [rank])
        scores[rows] = found[0]
    unknown = np.flatnonzero(np.isnan(scores).any(axis=1))
    some = regression.solve(features[unknown].T).T
    if len(unknown) and explained is None:
        errors = some @ coef / (kept.units[unknown] * row_dots(some, some))[:, None]
        scores[unknown] = left_out.interpolated(unknown, errors)
    elif len(unknown):
        totals, _ = regression.class_totals(prepared.y, len(prepared.classes))
        moments = totals * indicators.entries
        for row, solved in zip(unknown.tolist(), some, strict=True):
            group = left_out.group(row, features[[row]], solved[None])
            scores[[row]] = without_group(group, indicators, coef, moments, [rank])[0]
    return LeftOut(scores, is_exact=True)


@dataclass
class LeftOutUnits:
    """The weights that are left out, with (`weights`) and without (`copies`) class weights."""

    indicators: Indicators
    y: Indices
    weights: Array
    copies: Array

    def group(self, row: int, features: Array, solved: Array) -> Group:
        """Create a group of one sample."""
        is_own = np.arange(len(self.indicators.sizes)) == self.y[row]
        targets = (is_own * self.indicators.entries)[None]
        return Group(features, solved, targets, self.weights[[row]], is_own * self.copies[row])

    def scores(
        self,
        rows: Any,
        fitted: Array,
        leverage: Array,
        explained: Array | None,
        ranks: Sequence[int],
    ) -> Array:
        """Compute scores of some samples, of shape (n_ranks, n_samples, n_classes).

        `explained` is None at the largest rank. The scores are NaN where the other samples do not
        determine them, or where equal eigenvalues leave the choice of the directions open.
        """
        return self.without(rows, fitted, leverage).by_rank(explained, ranks)

    def interpolated(self, rows: Any, errors: Array) -> Array:
        """Compute scores of the largest rank where r is zero, from the errors of left-out samples.

        The errors are the limit of (δ − f)/r for a vanishing penalty, see `_leave_groups_out`.
        """
        without = self.without(rows, errors, np.zeros((len(errors), 1)))
        before = without.remaining  # r_0, because the leverages are zero
        predicted = (without.away / before - errors) * without.rescale
        return np.asarray((predicted + without.shift) * without.scale)

    def without(self, rows: Any, fitted: Array, leverage: Array) -> Without:
        """Compute what leaving out a unit of some samples changes."""
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
        rescale = np.sqrt(given.sizes / sizes)
        mean = (given.mean - unit / total * own) / before * given.centred
        shift = given.shift_of(mean * rescale, sizes)
        away = own - given.mean
        return Without.of(
            unit, before, away, fitted, leverage, shift, rescale, given.scale_of(sizes)
        )


class Without(NamedTuple):
    """Models without a unit of weight of some samples, one row per sample."""

    unit: Array
    away: Array  # δ
    fitted: Array  # f
    remaining: Array  # r
    shrinkage: Array  # u h / (r r_0)
    rescale: Array  # D
    predicted: Array  # scores of full rank, without shift and scale
    shift: Array
    scale: Array

    @classmethod
    def of(
        cls,
        unit: Array,
        before: Array,
        away: Array,
        fitted: Array,
        leverage: Array,
        shift: Array,
        rescale: Array,
        scale: Array,
    ) -> Without:
        """Create the models from the fit of all samples; `before` is r_0."""
        remaining = before - unit * leverage
        remaining = np.where(remaining > SEEN, remaining, np.nan)
        shrinkage = unit * leverage / (remaining * before)
        predicted = (fitted / remaining - shrinkage * away) * rescale
        return cls(unit, away, fitted, remaining, shrinkage, rescale, predicted, shift, scale)

    def by_rank(self, explained: Array | None, ranks: Sequence[int]) -> Array:
        """Compute the scores of some ranks, as in `LeftOutUnits.scores`."""
        if explained is None:
            found = (self.predicted + self.shift) * self.scale
            return np.repeat(found[None], len(ranks), axis=0)
        values, vectors = self.eigen(explained)
        along = np.einsum("nk,nks->ns", self.predicted, vectors)
        by_rank = np.cumsum(np.moveaxis(along[:, None, :] * vectors, 2, 0), axis=0)
        limit = TIED * values[:, :1]
        tied = (values[:, :-1] - values[:, 1:] <= limit) & (values[:, 1:] > limit)
        by_rank[:-1][tied.T] = np.nan
        by_rank = by_rank[np.array(ranks) - 1]
        return np.asarray((by_rank + self.shift) * self.scale)

    def matrices(self, explained: Array) -> Array:
        """Compute D M' D from M."""
        away, fitted, part = self.away, self.fitted, self.unit / self.remaining
        change = _outer(away, away, self.unit * self.shrinkage)
        change -= _outer(away, fitted, part) + _outer(fitted, away, part)
        change += _outer(fitted, fitted, part)
        rescale = self.rescale[:, :, None] * self.rescale[:, None, :]
        return np.asarray((explained + change) * rescale)

    def eigen(self, explained: Array) -> tuple[Array, Array]:
        """Compute eigenvalues and eigenvectors of D M' D in descending order."""
        matrices = self.matrices(explained)
        defined = np.isfinite(matrices).all(axis=(1, 2))
        values, vectors = np.full_like(self.fitted, np.nan), np.full_like(matrices, np.nan)
        found = np.linalg.eigh(matrices[defined])
        values[defined], vectors[defined] = found[0][:, ::-1], found[1][:, :, ::-1]
        return values, vectors


def _outer(left: Array, right: Array, factors: Array) -> Array:
    """Compute the outer products of corresponding rows, each times its factor."""
    return (factors * left)[:, :, None] * right[:, None, :]
