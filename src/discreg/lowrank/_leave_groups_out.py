r"""Exact scores of held-out groups of low-rank ridge regression, for all ranks and penalties.

With weights S of the rows of a group, their features :math:`\Phi`, their solutions
:math:`Z = \Phi M^{-1}` for :math:`M = X^\top SX + \beta I`, the coefficients W of full rank and
the residuals E of the rows, the coefficients without the group are

.. math:: W' = W - Z^\top S R^{-1} E, \quad R = I - (11^\top/\textstyle\sum s + Z\Phi^\top) S .

Without a penalty, R is singular if the other samples do not determine the scores of the group, for
example with more features than samples. The coefficients of least norm are then the limit for a
vanishing penalty: with R in symmetric form, a basis N of its null space and :math:`Q = ZZ^\top`,
the errors :math:`R^{-1}E` are :math:`R^+E + N (N^\top Q N)^{-1} N^\top (ZW - Q R^+ E)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreg.base.candidates import groups_by_size, rows_of_groups
from discreg.base.regression import Prepared
from discreg.linalg.reduced_rank import rank_coefficients
from discreg.linalg.ridge import Regression
from discreg.linalg.rows import class_sums, class_totals, one_hot, row_blocks
from discreg.linalg.types import Array, Indices

from ._indicators import Indicators
from ._subspace import largest_rank

__all__ = [
    "SEEN",
    "Group",
    "Solved",
    "leave_groups_out_by_rank",
    "solved_for",
    "solved_ridge",
    "without_group",
]

ROUNDING = 1e-12
SEEN = 1e-8  # smallest eigenvalue of R for which the other samples determine the scores


class Group(NamedTuple):
    """Rows of a group: features Φ, solutions Z, indicators, weights, sample weights by class."""

    features: Array
    solved: Array
    targets: Array
    weights: Array
    copies: Array


class Solved(NamedTuple):
    """Ridge regression of full rank for one penalty."""

    coef: Array  # W
    moments: Array  # ΦᵀSY
    blocks: Callable[[], Iterator[tuple[slice, Array, Array]]]  # of the rows of Φ and of Z


def solved_for(prepared: Prepared, betas: Sequence[float]) -> Iterator[Solved]:
    """Yield the regressions onto the indicators for some penalties."""
    regression, n_classes = prepared.regression, len(prepared.classes)
    entries = Indicators.of(prepared).entries
    y, weights = prepared.y, prepared.weights

    def totals(rows: slice, block: Array) -> Array:
        return class_totals(block, y[rows], weights[rows], n_classes) * entries

    def moments() -> Array:
        return np.asarray(regression.class_totals(y, n_classes)[0] * entries)

    return solved_ridge(regression, totals, moments, betas)


def solved_ridge(
    regression: Regression,
    totals: Callable[[slice, Array], Array],
    moments: Callable[[], Array],
    betas: Sequence[float],
) -> Iterator[Solved]:
    """Yield regressions for some penalties; one eigendecomposition serves the positive ones.

    Parameters
    ----------
    regression : Regression
    totals : callable
        ``totals(rows, block)`` computes BᵀSY for the features B of some rows.
    moments : callable
        ``moments()`` computes ΦᵀSY.
    betas : sequence of float
        Penalties.
    """
    if any(beta > 0 for beta in betas):
        values, eigen_blocks = regression.eigen()
        along = np.asarray(sum(totals(rows, block) for rows, block in eigen_blocks()))

    def unpenalised() -> Iterator[tuple[slice, Array, Array]]:
        for rows in row_blocks(*regression.X.shape):
            features = regression.centred_rows(regression.X[rows])
            yield rows, features, regression.solve(features.T).T

    for beta in betas:
        if beta > 0:
            shrinkage = values + beta

            def blocks(shrinkage: Array = shrinkage) -> Iterator[tuple[slice, Array, Array]]:
                for rows, block in eigen_blocks():
                    yield rows, block, block / shrinkage

            yield Solved(along / shrinkage[:, None], along, blocks)
        else:
            regression.at(0.0)
            right = moments()
            yield Solved(regression.solve(right), right, unpenalised)


def leave_groups_out_by_rank(
    prepared: Prepared,
    groups: Indices,
    betas: Sequence[float],
    ranks: Sequence[int],
) -> Iterator[Array]:
    r"""Yield the scores of all samples without their groups, one array per penalty.

    The scores of a class whose samples all belong to the group are lower than the others.

    Parameters
    ----------
    prepared : Prepared
        Training data.
    groups : ndarray of shape (n_samples,)
        Number of the group of each sample.
    betas : sequence of float
        Penalties.
    ranks : sequence of int
        The ranks.

    Yields
    ------
    scores : ndarray of shape (n_ranks, n_samples, n_classes)
    """
    y, weights, n_classes = prepared.y, prepared.weights, len(prepared.classes)
    given = Indicators.of(prepared)
    targets = one_hot(y, n_classes) * given.entries
    for fit in solved_for(prepared, betas):
        features, solved = (np.vstack(each) for each in list(zip(*fit.blocks(), strict=True))[1:])
        scores = np.full((len(ranks), len(y), n_classes), np.nan)
        if min(ranks) >= largest_rank(prepared):
            for rows in groups_by_size(groups):
                copies = np.array([class_sums(y[each], prepared.copies[each], n_classes)
                                   for each in rows])  # fmt: skip
                group = Group(features[rows], solved[rows], targets[rows], weights[rows], copies)
                scores[:, rows] = without_groups_at_largest_rank(group, given, fit.coef)
        open_rows = np.isnan(scores).any(axis=(0, 2))
        for rows in rows_of_groups(groups):
            if not open_rows[rows].any():
                continue
            copies = class_sums(y[rows], prepared.copies[rows], n_classes)
            group = Group(features[rows], solved[rows], targets[rows], weights[rows], copies)
            scores[:, rows] = without_group(group, given, fit.coef, fit.moments, ranks)
        yield scores


def without_groups_at_largest_rank(groups: Group, given: Indicators, coef: Array) -> Array:
    """Compute the scores of groups of one size without each, (n_groups, n_rows, n_classes).

    At the largest rank no directions are needed, because the scores have no part outside of them.
    The scores are NaN where the other samples do not determine them.

    Parameters
    ----------
    groups : Group
        Its arrays have the groups as their first axis.
    given : Indicators
        Those of all samples.
    coef : ndarray of shape (n_features, n_classes)
        W of all samples.
    """
    rows, solved, targets, weights, copies = groups
    total, root = float(given.weights.sum()), np.sqrt(weights)[:, :, None]
    left = np.eye(rows.shape[1]) - given.centred / total * (root @ root.transpose(0, 2, 1))
    left = left - (root * solved) @ (root * rows).transpose(0, 2, 1)
    values, vectors = np.linalg.eigh((left + left.transpose(0, 2, 1)) / 2)
    values = np.where(values > SEEN, values, np.nan)[:, :, None]
    residuals = root * (targets - given.mean - rows @ coef)
    errors = vectors @ ((vectors.transpose(0, 2, 1) @ residuals) / values)
    rest = (total - weights.sum(axis=1))[:, None, None]
    shares = weights[:, None, :]
    away = rows + given.centred * (shares @ rows) / rest  # from the mean of the other samples
    predicted = away @ coef - (away @ (root * solved).transpose(0, 2, 1)) @ errors
    sizes, rescale, is_left = _remaining(given, copies)
    mean = (total * given.mean - shares @ targets) / rest * given.centred
    shift = given.shift_of(mean * rescale[:, None], sizes[:, None])
    scores = (predicted * rescale[:, None] + shift) * given.scale_of(sizes)[:, None]
    lowest = scores.min(axis=2, keepdims=True) - 1.0
    return np.asarray(np.where(is_left[:, None], scores, lowest))


def _remaining(given: Indicators, copies: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return the sizes of classes without some copies, √(n_j/n_j'), and which classes are left."""
    sizes = given.sizes - copies
    left = sizes > ROUNDING * given.sizes
    sizes = np.where(left, sizes, 0.0)
    return (
        sizes,
        np.sqrt(np.divide(given.sizes, sizes, out=np.zeros_like(sizes), where=left)),
        left,
    )


def without_group(
    group: Group, given: Indicators, coef: Array, moments: Array, ranks: Sequence[int]
) -> Array:
    """Compute the scores of the rows of a group without it, of shape (n_ranks, n_rows, n_classes).

    Parameters
    ----------
    group : Group
    given : Indicators
        Those of all samples.
    coef, moments : ndarray of shape (n_features, n_classes)
        W and ΦᵀSY of all samples.
    ranks : sequence of int
    """
    rows, solved, targets, weights, copies = group
    total = float(given.weights.sum())
    coef = coef - (solved * np.sqrt(weights)[:, None]).T @ _errors(group, given, coef, total)
    summed = weights @ targets
    mean = -given.centred * (weights @ rows) / (total - weights.sum())  # of the other samples
    moments = moments - rows.T @ (weights[:, None] * targets)
    moments -= np.outer(mean, given.weights * given.entries - summed)
    sizes, rescale, left = _remaining(given, copies)
    ranked = rank_coefficients(coef * rescale, moments * rescale)
    along = (rows - mean) @ ranked.projected
    of_targets = (total * given.mean - summed) / (total - weights.sum()) * given.centred
    shift = given.shift_of(of_targets * rescale, sizes)
    by_rank = [along[:, :rank] @ ranked.directions[:, :rank].T for rank in ranks]
    scores = (np.stack(by_rank) + shift) * given.scale_of(sizes)
    scores[:, :, ~left] = scores.min(axis=2, keepdims=True) - 1.0
    return np.asarray(scores)


def _errors(group: Group, given: Indicators, coef: Array, total: float) -> Array:
    """Compute R⁻¹E, or its limit, times the roots of the weights."""
    root = np.sqrt(group.weights)[:, None]
    rows, solved = root * group.features, root * group.solved
    residuals = root * (group.targets - given.mean) - rows @ coef
    left = np.eye(len(rows)) - given.centred / total * (root @ root.T) - solved @ rows.T
    values, vectors = np.linalg.eigh((left + left.T) / 2)
    seen, unseen = vectors[:, values > SEEN], vectors[:, values <= SEEN]
    errors = seen @ ((seen.T @ residuals) / values[values > SEEN, None])
    if unseen.shape[1]:
        image = unseen.T @ solved
        wanted = image @ (coef - solved.T @ errors)
        errors += unseen @ np.linalg.lstsq(image @ image.T, wanted, rcond=None)[0]
    return np.asarray(errors)
