r"""Held-out scores of DLSR, ReLSR and GReLSR: one Newton step without a unit of a row's weight.

The variables v_i of row i are its scores r_i and, for GReLSR, the centre of its class. They are
linear in the unknowns θ, the coefficients, intercepts and centres: v_i = Z_iᵀθ. Let g_i and P_i be
half the gradient and half the Hessian of the loss of the row, and

    H = Σ_i s_i Z_i P_i Z_iᵀ + (half the Hessian of the penalty),      A_i = Z_iᵀ H⁻¹ Z_i.

Without u units of row i, half the gradient at the solution is −u Z_i g_i and half the Hessian is
H − u Z_i P_i Z_iᵀ, so that a Newton step leads to

    v_i + u A_i (I − u P_i A_i)⁻¹ g_i.

The loss is piecewise quadratic: the step is exact while no other row changes its piece, and rows
with g_i = 0 do not move at all. In small problems, `_refits` continues where rows have changed
their pieces, until the scores are those of refits up to rounding. The penalty is ridge; with
``penalty="l21"`` H is that of the selected features, and with a rank that of the coefficients of
this rank; both take one step. So does a penalty with the within-class scatter, which has another
scatter without the row, see `_deviations`.

The smaller the penalty and the more flexible the kernel, the more rows change their pieces. Of 20
rows of each of seven data sets with up to 400 rows, one step of ReLSR was off by these parts of the
distance between training and held-out scores, in the median and at the 90th percentile:

    beta      features       RBF kernel
    0.1       0.5 %,  5 %     2 %, 19 %
    0.01        1 %, 16 %     5 %, 55 %
    0.001       2 %, 22 %    11 %, 76 %

At least 97.8 % of the labels were those of refits.

H has one unknown per feature and class. In DLSR each class has a system of its own. With fewer
active pieces than unknowns, `_active_rows` computes the same scores from the kernel matrix of the
active rows. Above 2,000 unknowns or 3,000 pieces, the systems of the classes are separated also in
ReLSR and GReLSR, with the scaled curvatures of `MarginTargets`. On images of digits, the changes
of the scores were then off by 3 %, 9 %, 14 % and 31 % in the median with `beta` 1, 0.1, 0.01 and
0.001, the temperatures by 0.1 %, 0.1 %, 1 % and 11 %. To compare settings, the systems are
separated from 300 unknowns on where there are more than two pieces per unknown.

From 20,000 rows on, the time is limited to a part of that of the fit. Then the systems are
separated, and H is estimated from at most 2,000 rows if all rows would take too long, unless these
are too few. The changes of the scores, which are small there, were off by 4 % to 30 % with the
default penalty, and the temperatures by at most 6 %.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from discreg.base.left_out import LeftOut
from discreg.base.regression import Prepared
from discreg.blocks.kept_rows import KeptRows
from discreg.blocks.source import Block
from discreg.linalg.group_lasso import FeatureRegression
from discreg.linalg.kernel_rows import KernelRows
from discreg.linalg.ridge import KernelRegression
from discreg.linalg.rows import batches, class_sums, row_dots
from discreg.linalg.types import Array, Indices

from ._active_rows import MOST_PIECES, ActiveRows, class_leverages, count_pieces
from ._deviations import Deviations
from ._hessian import (
    Model,
    hessian_of_rows,
    inverse_hessian,
    row_batches,
    separate_moves,
    without_unit,
)
from ._losses import Evaluation, TargetLoss
from ._refits import are_quick, refits
from ._responses import Respond, response_of_features, response_of_kernel
from ._solvers import Solution

__all__ = ["left_out"]

EXACT_GAP = 1e-10  # largest gap of a fit that is exact up to rounding
MOST_UNKNOWNS = 2_000  # of a Hessian that is inverted
QUICK_UNKNOWNS = 300  # of a Hessian whose inverse takes little time
MANY_PIECES = 2  # for each unknown, so that rows have little influence
LARGEST_DUAL = 12_000  # rows of a matrix that is factored
MANY_ROWS = 20_000  # from which the time for held-out scores is limited
LARGEST_LEVERAGE = 1.0  # of rows in an estimate of the Hessian, for it to be reliable
SHARE = 0.1  # of the time of a fit
CG_STEPS = 6  # products with the Hessian in an iteration of the fit, about
FEWER = 500  # rows to hold out if the inverse is too large
ROUNDING = 1e-9  # relative error of a sum of weights
KERNEL_ROWS = 256  # rows of a kernel matrix that are computed at once


def left_out(
    prepared: Prepared,
    loss: TargetLoss,
    solution: Solution,
    rank: int | None,
    *,
    quick: bool = False,
) -> LeftOut:
    """Compute the scores of the rows to hold out, each without one unit of its weight.

    Parameters
    ----------
    prepared : Prepared
        Training data with the rows to hold out.
    loss : TargetLoss
    solution : Solution
    rank : int or None
        Maximum rank of the coefficients.
    quick : bool, default=False
        Whether to take one step only, and to separate the systems of the classes if rows have
        little influence, to compare settings.
    """
    if isinstance(prepared.regression, KernelRows):
        scores, is_exact = _with_kernel(prepared, loss, solution, quick)
    else:
        scores, is_exact = _with_features(prepared, loss, solution, rank, quick)
    if loss.is_relative and prepared.regression.centred:
        scores = _with_unit_sum(scores, prepared, float(solution.theta[-1].sum()))
    return LeftOut(scores, is_exact and solution.gap <= EXACT_GAP)


def _with_unit_sum(scores: Array, prepared: Prepared, middle: float) -> Array:
    """Add the constant for which the mean scores of the other rows sum to 1, as in a refit.

    Their mean features are −u φ / (Σs − u), and the sum of the intercepts, `middle`, is the same.
    """
    assert prepared.kept is not None
    units = prepared.kept.units
    share = units / (prepared.regression.total - units)
    sums = middle - share * (scores.sum(axis=1) - middle)
    return np.asarray(scores + ((1.0 - sums) / scores.shape[1])[:, None])


def _with_kernel(
    prepared: Prepared, loss: TargetLoss, solution: Solution, quick: bool
) -> tuple[Array, bool]:
    """Compute the scores if the unknowns are the residuals of dual coordinate descent."""
    rows: KernelRows = prepared.regression
    coef, _ = rows.predictor(solution.theta[:-1])
    at = loss.evaluate(rows.product(coef) + solution.theta[-1], prepared.y, prepared.weights)

    def kernel_of(active: Indices) -> Array:
        parts = [rows.rows(active[some])[:, active] for some in batches(len(active), KERNEL_ROWS)]
        return np.vstack(parts)

    all_rows = Rows.of(prepared)
    if not quick and are_quick(at, all_rows.held, with_kernel=True):
        kernel = kernel_of(np.arange(rows.size))
        block = Block(None, prepared.y, prepared.weights)
        respond = response_of_kernel(kernel, loss, at, block, rows)
        return _refitted(prepared, all_rows, loss, at, respond)
    return _by_dual(prepared, all_rows, loss, at, kernel_of), False


class Rows(NamedTuple):
    """All rows of positive weight, or all rows, if they are in memory."""

    X: Any
    y: Indices
    weights: Array
    held: Indices  # indices of the rows to hold out

    @classmethod
    def of(cls, prepared: Prepared) -> Rows:
        """Return the rows that are in memory; of rows in blocks, those to hold out."""
        kept = prepared.kept
        assert kept is not None
        if prepared.y is None:
            return cls(kept.X, kept.y, kept.weights, np.arange(len(kept)))
        assert kept.places is not None
        X = getattr(prepared.regression, "X", None)  # not needed with a kernel
        return cls(X, prepared.y, prepared.weights, kept.places)


def _refitted(
    prepared: Prepared, rows: Rows, loss: TargetLoss, at: Evaluation, respond: Respond
) -> tuple[Array, bool]:
    """Compute the scores by refits, and return whether all of them are solutions."""
    assert prepared.kept is not None
    scores = (at.targets + at.residuals)[rows.held]
    moving = np.flatnonzero(at.residuals[rows.held].any(axis=1))
    moves, solved = refits(
        loss,
        at,
        rows.y,
        rows.weights,
        respond,
        rows.held[moving],
        prepared.kept.units[moving],
        centred=prepared.regression.centred,
    )
    scores[moving] += moves
    return scores, bool(solved.all()) and loss.knows_pieces


def _by_dual(
    prepared: Prepared,
    rows: Rows,
    loss: TargetLoss,
    at: Evaluation,
    kernel_of: Callable[[Indices], Array],
) -> Array:
    """Compute the scores from the kernel matrix of the active rows, for an evaluation of all rows.

    With too many rows, only some are held out; the scores of the others are NaN.
    """
    kept, (_, y, weights, held) = prepared.kept, rows
    assert kept is not None
    scores = (at.targets + at.residuals)[held]
    active = np.flatnonzero((weights > 0) & at.residuals.any(axis=1))
    chosen = np.flatnonzero(at.residuals[held].any(axis=1))
    beta, centred = prepared.regression.beta, prepared.regression.centred
    if not len(chosen):
        return scores
    if not loss.is_separable and count_pieces(loss, at.residuals[active]).sum() <= MOST_PIECES:
        model = ActiveRows.of(
            kernel_of(active),
            loss,
            _some_rows(at, active),
            y[active],
            weights[active],
            beta=beta,
            centred=centred,
        )
        places = np.searchsorted(active, held[chosen])
        scores[chosen] += model.moves(places, kept.units[chosen])
        return scores
    curvatures = weights[active, None] * loss.class_curvatures(_some_rows(at, active), y[active])
    if np.count_nonzero(curvatures, axis=0).max() > MOST_PIECES:
        few = _few(kept)
        scores[np.setdiff1d(np.arange(len(kept)), few)] = np.nan
        chosen = np.intersect1d(chosen, few)
    leverages = np.zeros((len(chosen), scores.shape[1]))
    for j, column in enumerate(curvatures.T):
        used = np.flatnonzero(column)
        if len(used) > LARGEST_DUAL:  # too many even for one factorisation
            order = np.argsort(~np.isin(active[used], held[chosen]), kind="stable")
            used = np.sort(used[order[:LARGEST_DUAL]])
        some = np.flatnonzero(np.isin(held[chosen], active[used]))
        places = np.searchsorted(active[used], held[chosen[some]])
        leverages[some, j] = class_leverages(
            kernel_of(active[used]), column[used], places, beta=beta, centred=centred
        )
    here = _some_rows(at, held[chosen])
    scores[chosen] += separate_moves(loss, here, kept.y[chosen], kept.units[chosen], leverages)[1]
    return scores


def _few(kept: KeptRows) -> Indices:
    """Draw some of the rows to hold out."""
    if len(kept) <= FEWER:
        return np.arange(len(kept))
    keys = kept.hashes if kept.hashes.any() else np.random.default_rng(0).random(len(kept))
    return np.sort(np.argsort(keys, kind="stable")[:FEWER])


def _some_rows(at: Evaluation, rows: Any) -> Evaluation:
    return Evaluation(at.targets[rows], at.residuals[rows], at.value, at.centres)


def _with_features(
    prepared: Prepared, loss: TargetLoss, solution: Solution, rank: int | None, quick: bool
) -> tuple[Array, bool]:
    """Compute the scores of a model in features, by the smaller of two systems."""
    regression, kept, slope = prepared.regression, prepared.kept, None
    assert kept is not None
    is_ridge = rank is None and not isinstance(regression, FeatureRegression)
    limit = _limit(prepared, solution) if is_ridge else np.inf
    rows, at = Rows.of(prepared), None
    model = Model.of(regression, loss, solution)
    if limit == np.inf and abs(rows.weights.sum() / regression.total - 1.0) < ROUNDING:
        at = _evaluate(prepared, model, rows, solution)
        model = model._replace(centres=at.centres)
        if rank is not None:
            weighted = rows.weights[:, None] * at.residuals
            slope = regression.gradient(weighted, weighted.sum(axis=0))
            slope = (slope + regression.penalised(solution.theta[:-1]))[model.design.features]
    is_separable = loss.is_separable and is_ridge
    n_unknowns = len(model.theta) if is_separable else model.theta.size
    n_pieces = 0
    if at is not None and is_ridge and regression.beta > 0 and regression.within_class == 0:
        n_pieces = int(count_pieces(loss, at.residuals).clip(min=0).sum())
        kernel_of = partial(_kernel, model, rows.X)
        with_kernel = isinstance(regression, KernelRegression)
        if not quick and are_quick(at, rows.held, with_kernel=with_kernel):
            block = Block(rows.X, rows.y, rows.weights)
            if n_pieces < n_unknowns:
                kernel = kernel_of(np.arange(len(rows.y)))
                respond = response_of_kernel(kernel, loss, at, block, regression)
            else:
                model = model._replace(separate=is_separable)
                respond = response_of_features(model, block, regression)
            return _refitted(prepared, rows, loss, at, respond)
        if n_pieces < min(n_unknowns, MOST_PIECES):
            return _by_dual(prepared, rows, loss, at, kernel_of), False
    size = n_unknowns**2 * (n_unknowns + 2 * len(kept))
    separate = is_separable or n_unknowns > MOST_UNKNOWNS or size > limit
    separate |= quick and n_pieces > MANY_PIECES * n_unknowns > MANY_PIECES * QUICK_UNKNOWNS
    model = model._replace(separate=separate)
    return _by_hessian(prepared, model, slope, limit), False


def _evaluate(prepared: Prepared, model: Model, rows: Rows, solution: Solution) -> Evaluation:
    """Evaluate the loss of all rows, with the best centres."""
    if prepared.y is None:
        scores = model.design.rows(rows.X) @ model.theta
    else:
        scores = prepared.regression.scores(solution.theta[:-1], solution.theta[-1])
    return model.loss.evaluate(scores, rows.y, rows.weights)


def _limit(prepared: Prepared, solution: Solution) -> float:
    """Return the number of multiplications for a part of the held-out scores.

    It is infinite for few rows. With many rows it is a tenth of what the fit takes, about.
    """
    n_rows = len(prepared.y) if prepared.source is None else prepared.source.n_rows
    if n_rows < MANY_ROWS:
        return np.inf
    width, n_classes = prepared.regression.size, solution.theta.shape[1]
    products = CG_STEPS * len(solution.objective_history) * n_classes
    return float(SHARE * n_rows * width * (width + products))


def _by_hessian(prepared: Prepared, model: Model, slope: Array | None, limit: float) -> Array:
    """Compute the scores by Newton steps with the Hessian of all unknowns.

    If that takes more than `limit` multiplications, the Hessian is estimated from the rows to hold
    out, weighted by class, unless these are too few.
    """
    kept, regression = prepared.kept, prepared.regression
    assert kept is not None
    some_rows = Rows.of(prepared)
    X = some_rows.X[some_rows.held]
    Z = model.design.rows(X)
    at = model.at(Z, kept.y)
    scores = at.targets + at.residuals
    estimate, fractions = None, []
    active, square = np.count_nonzero(at.residuals, axis=1), len(model.theta) ** 2
    work = float(kept.weights @ (active if model.separate else active**2)) * square
    if work / kept.weights.sum() * regression.total > limit:
        shares = prepared.class_weights / class_sums(kept.y, kept.weights, scores.shape[1])
        estimate = kept.weights * shares[kept.y]
        hessian = hessian_of_rows(Block(X, kept.y, estimate), model)
    elif prepared.source is not None:
        hessian = prepared.source.reduce(hessian_of_rows, model)
    else:
        hessian = hessian_of_rows(Block(regression.X, prepared.y, prepared.weights), model)
    inverse = inverse_hessian(hessian, model, regression, slope)
    moving, deviations = np.flatnonzero(active), None
    if regression.within_class > 0:
        moving = np.arange(len(kept))  # the penalty changes without any of the rows
        totals = regression.class_totals(prepared.y, scores.shape[1])
        deviations = Deviations.of(
            Z[:, : regression.size], kept.y, kept.units, totals, regression.within_class
        )
    for some in row_batches(moving, max(model.theta.size, 4 * scores.shape[1] ** 2)):
        y, units = kept.y[some], kept.units[some]
        own = None if deviations is None else Deviations(*(each[some] for each in deviations))
        here = _some_rows(at, some)
        multipliers, moves = _multipliers(model, inverse, Z[some], here, y, units, own)
        if estimate is not None:
            explained = (
                estimate[some]
                * row_dots(moves, moves)
                / row_dots(moves, multipliers[:, : moves.shape[1]])
            )
            fractions.append(explained)
        scores[some] += moves
    if fractions and np.nanmedian(np.concatenate(fractions)) > LARGEST_LEVERAGE:
        return _by_hessian(prepared, model, slope, np.inf)
    return scores


def _kernel(model: Model, X: Any, rows: Indices) -> Array:
    """Compute the inner products of some rows, without the intercept."""
    Z = model.design.rows(X[rows])[:, : len(model.theta) - model.design.centred]
    return np.asarray(Z @ Z.T)


def _multipliers(
    model: Model,
    inverse: Any,
    Z: Array,
    at: Evaluation,
    y: Indices,
    units: Array,
    deviations: Deviations | None,
) -> tuple[Array, Array]:
    """Compute u (I − u P_i A_i)⁻¹ g_i for some rows, and the changes of the scores.

    With deviations, A_i and g_i are those after their effects.
    """
    n_classes, width = at.residuals.shape[1], Z.shape[1]
    if model.separate:
        leverages = np.zeros_like(at.residuals)
        for j in range(n_classes):  # without a residual the leverage has no effect
            some = np.flatnonzero(at.residuals[:, j])
            image = Z[some] @ inverse[j].T
            leverages[some, j] = row_dots(image, image)
        if deviations is None:
            return separate_moves(model.loss, at, y, units, leverages)
        moves, changes = deviations.effects_by_class(inverse, Z, model.theta)
        multipliers, more = separate_moves(model.loss, at, y, units, leverages + changes, moves)
        return multipliers, moves + more
    gradients, hessians = model.loss.row_derivatives(at, y)
    responses, first = np.zeros(hessians.shape), n_classes * width
    for j in range(n_classes):  # without curvature the column has no effect
        some = np.flatnonzero(hessians[:, j, j])
        image = Z[some] @ inverse[j * width : (j + 1) * width]
        own = image[:, :first].reshape(len(some), n_classes, width)
        responses[some, :n_classes, j] = np.einsum("ijk,ik->ij", own, Z[some])
        if len(inverse) > first:
            responses[some, -1, j] = image[np.arange(len(some)), first + y[some]]
    if len(inverse) > first:
        own = inverse[first + y, :first].reshape(len(Z), n_classes, width)
        responses[:, :n_classes, -1] = np.einsum("ijk,ik->ij", own, Z)
        responses[:, -1, -1] = inverse.diagonal()[first + y]
    moves = np.zeros_like(at.residuals)
    if deviations is not None:
        moved, changes = deviations.effects(inverse, Z, model.theta, y)
        responses += changes
        gradients = gradients + np.einsum("ijk,ik->ij", hessians, moved)
        moves = moved[:, :n_classes]
    shares = units[:, None, None] * (hessians @ responses)
    multipliers = units[:, None] * without_unit(shares, gradients)
    return multipliers, moves + np.einsum("ijk,ik->ij", responses[:, :n_classes], multipliers)
