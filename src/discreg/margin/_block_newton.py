"""Newton's method for linear ODM by passes over blocks of rows.

A pass at (w, b) gives P(w, b) = ½‖w‖² + Σ ℓ(z), z = y (Xw + b), with its gradient and Hessian in w
and b together. All two-class problems share their passes. A full step that is accepted costs one
pass. Otherwise a second pass computes slopes along the step, and the next point is where they cross
zero.

Optimality gap. ℓ is quadratic below and above the band, with a = −ℓ'(z) = (e − z)/u. So scaled
multipliers a' = f a, f ≥ 0, satisfy ℓ(z) + ℓ*(−a') + a'z = ½ u (a − a')² = (1 − f)² ℓ(z). The dual
has the constraint Σ y a' = 0, because b has no penalty. If it holds, Σ a'z = wᵀv' for
v' = Σ y a' x, and so

    P(w, b) − D(a') = ½ ‖w − v'‖² + Σ (1 − f)² ℓ(z).

Let S be Σ |a|, V be Σ y a x and L be Σ ℓ over the rows with y a > 0, and over those with y a < 0.
Factors t/S on either side are feasible for every t ≥ 0, and the gap

    ½ ‖w − t Σ V/S‖² + Σ (1 − t/S)² L    (sums over the two sides),

has its minimum over t in closed form. At the optimal b both S are equal, and t = S gives
½‖∇_w P‖². Without an intercept every factor is feasible; then there is one side, with S = 1.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from typing import Any

import numpy as np

from discreg.blocks.kept_rows import KeptRows
from discreg.blocks.moments import Moments, moments_and_rows
from discreg.blocks.source import BlockSource
from discreg.linalg.iterations import Report, unreported
from discreg.linalg.resources import (
    require_memory,
    threads_for,
)
from discreg.linalg.systems import psd_solver
from discreg.linalg.types import Array

from ._block_sums import BlockSums, Line, PrimalPoint, block_sums
from ._losses import MarginLoss, Numbers
from ._newton import EXACT, ROUNDING, STANDSTILL
from ._problem import BinaryFit, MarginStatistics
from ._response import FeatureResponse

__all__ = ["newton_on_blocks"]

DECREASE = 1e-4  # minimum decrease of the objective, relative to the slope
SLOPES = 8  # slopes per pass along a step that was not accepted
SHORTEST = 2.0**-SLOPES  # first lower end of the lengths, relative to the upper end
TINY = 1e-15
SEARCHES = 10  # maximum number of lengths along one step
SLOW = 0.5  # ratio of successive gaps above which the Hessian is in double precision
MATRICES = 4  # n_features × n_features matrices in memory for each problem


@dataclass(frozen=True)
class NewtonStep:
    """Step of the coefficients and of the score at the origin."""

    coef: Array
    shift: float


@dataclass(frozen=True)
class LocalModel:
    """Quadratic model of one problem at a point, from the sums of a pass."""

    point: PrimalPoint
    fit_intercept: bool
    sizes: Array
    values: Array
    products: Array  # Σ y a x of both sides
    curvature: float
    moment: Array
    gram: Array
    spread: Array  # weight, mean, scatter and minimum of the margins

    @classmethod
    def of(cls, sums: BlockSums, k: int, point: PrimalPoint, *, fit_intercept: bool) -> LocalModel:
        """Create the model at the k-th point of a pass."""
        return cls(
            point,
            fit_intercept,
            sums.sizes[k],
            sums.values[k],
            sums.products[k, :2],
            float(sums.curvature[k]),
            sums.products[k, 2],
            sums.grams[k],
            sums.spread.columns[:, k],
        )

    @cached_property
    def objective(self) -> float:
        return 0.5 * float(self.point.coef @ self.point.coef) + float(self.values.sum())

    @property
    @np.errstate(over="ignore")  # tiny sizes: then t is 0
    def gap(self) -> float:
        """Upper bound of the objective minus its minimum, relative to the objective."""
        sizes, values, products = self.sizes, self.values, self.products
        if not self.fit_intercept:
            sizes, values = np.ones(1), values.sum(keepdims=True)
            products = products.sum(axis=0)[None]
        left = self.point.coef
        if np.all(sizes > 0):
            product = (products / sizes[:, None]).sum(axis=0)
            curved = float(product @ product) + 2.0 * float((values / sizes / sizes).sum())
            slope = float(product @ left) + 2.0 * float((values / sizes).sum())
            t = max(slope / curved, 0.0) if curved > 0 else 0.0
            left = left - t * product
            values = (1.0 - t / sizes) ** 2 * values
        return (0.5 * float(left @ left) + float(values.sum())) / max(self.objective, 1e-300)

    def slope(self, step: NewtonStep) -> float:
        """Compute the derivative of the objective along a step."""
        along = float((self.point.coef - self.products.sum(axis=0)) @ step.coef)
        return along - float(self.sizes[0] - self.sizes[1]) * step.shift

    def newton_step(self) -> NewtonStep:
        """Compute the step to the minimum of the quadratic model, with b eliminated."""
        right = self.products.sum(axis=0) - self.point.coef
        hessian = self.gram.copy()
        free = self.fit_intercept and self.curvature > 0
        if free:
            excess = float(self.sizes[0] - self.sizes[1])
            centre = self.moment / self.curvature
            hessian -= np.outer(centre, self.moment)
            right = right - excess * centre
        hessian[np.diag_indices_from(hessian)] += 1.0
        with threads_for(len(hessian) ** 3 / 6):
            step = psd_solver(hessian)(right[:, None])[:, 0]
        shift = (excess - float(self.moment @ step)) / self.curvature if free else 0.0
        return NewtonStep(step, shift)

    def moved(self, step: NewtonStep, length: float, *, precise: bool) -> PrimalPoint:
        """Return the point at a length along a step."""
        positive, coef, shift, _ = self.point
        return PrimalPoint(
            positive, coef + length * step.coef, shift + length * step.shift, precise
        )


Asking = Generator[
    PrimalPoint | Line, Any, Any
]  # receives a LocalModel for a point, slopes for a line


def newton_on_blocks(
    source: BlockSource,
    loss: MarginLoss,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    start: tuple[Array, Array] | None,
    dtype: Any,
    keep: bool,
    reports: list[Report] | None = None,
) -> tuple[list[BinaryFit], KeptRows | None]:
    """Fit all two-class problems by passes over blocks of rows.

    Parameters
    ----------
    source : BlockSource
    loss : MarginLoss
    fit_intercept : bool
    tol : float
        Relative gap at which to stop. With 0, stop when the objective does not decrease.
    max_iter : int
        Maximum number of steps.
    start : tuple of coefficients and intercepts, one row per problem, or None
        Starting point; zero needs no pass of its own.
    dtype : dtype
        Precision in which the coefficients will be stored; the gaps include its rounding.
    keep : bool
        Whether to keep rows of the first pass, and the responses of scores to forces.
    reports : list of callable, optional
        Called after each Newton step of a problem, one per problem.

    Returns
    -------
    fits : list of BinaryFit
    kept : KeptRows or None
    """
    n_classes, n_features = source.n_classes, source.layout.n_features
    positives = [1] if n_classes == 2 else list(range(n_classes))
    require_memory(
        MATRICES * len(positives) * n_features**2 * 8,
        f"Newton's method on {n_features} features and {len(positives)} problems",
        "Use fewer features, or rows in memory with solver='svrg'.",
    )
    with np.errstate(over="ignore", invalid="ignore"):
        moments, kept = moments_and_rows(source, 0.0, keep=keep)
    if not np.all(np.isfinite(moments.scatter)):
        raise ValueError(
            "The squares of the features overflow. Scale the features, for example with "
            "sklearn.preprocessing.StandardScaler."
        )
    # Centred rows lose no precision; sparse rows cannot be centred.
    centred = fit_intercept and not moments.is_sparse
    origin = moments.mean if centred else np.zeros(n_features)
    numbers = loss.numbers(float(source.weights.sum()))  # for a row of weight one
    solvers: list[Asking] = []
    for k, positive in enumerate(positives):
        begin: LocalModel | PrimalPoint
        if start is None:
            begin = _model_at_zero(moments, origin, positive, numbers, fit_intercept=fit_intercept)
        else:
            coef, intercept = start[0][k], float(start[1][k])
            begin = PrimalPoint(positive, coef, intercept + float(origin @ coef))
        solvers.append(_newton(begin, origin, tol, max_iter, reports[k] if reports else unreported))

    def ask(requests: list[PrimalPoint | Line]) -> list[Any]:
        points = tuple(each for each in requests if isinstance(each, PrimalPoint))
        lines = tuple(each for each in requests if isinstance(each, Line))
        sums = source.reduce(block_sums, origin, numbers, points, lines)
        models = (
            LocalModel.of(sums, k, point, fit_intercept=fit_intercept)
            for k, point in enumerate(points)
        )
        slopes = iter(sums.slopes)
        return [next(models if isinstance(each, PrimalPoint) else slopes) for each in requests]

    fits = _in_common(solvers, ask)
    if dtype != np.float64:
        fits = [_stored(fit, moments, loss, dtype) for fit in fits]
    return fits, kept


def _stored(fit: BinaryFit, moments: Moments, loss: MarginLoss, dtype: Any) -> BinaryFit:
    """Return a fit with a bound of the gap of its coefficients stored in a precision.

    Half the Hessian of the objective is at most H, with the larger curvature in all rows. If a
    point has a gap g, the gap after a step d is at most (√g + ‖d‖)² in the norm of H.
    """
    assert fit.coef is not None
    change = fit.coef.astype(dtype) - fit.coef
    offset = float(np.asarray(fit.intercept).astype(dtype)) - fit.intercept
    scatter = (1.0 + moments.error) * float(change @ moments.scatter @ change)
    shift = float(moments.mean @ change) + offset
    curvature = 1.0 / min(loss.ridge_low, loss.ridge_high)
    losses = curvature * (scatter / moments.total + shift**2)  # of the mean square of the change
    square = 0.5 * (float(change @ change) + losses)
    gap = (np.sqrt(fit.gap) + np.sqrt(square / max(fit.objective, 1e-300))) ** 2
    return replace(fit, gap=min(float(gap), 1.0))


def _in_common(solvers: list[Asking], ask: Any) -> list[BinaryFit]:
    """Run all solvers; one pass answers the requests of all of them."""
    found: dict[int, BinaryFit] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(solvers)))
    while answers:
        requests: dict[int, PrimalPoint | Line] = {}
        for k, answer in answers.items():
            try:
                requests[k] = solvers[k].send(answer)
            except StopIteration as end:
                found[k] = end.value
        answers = {}
        if requests:
            answers = dict(zip(requests, ask(list(requests.values())), strict=True))
    return [found[k] for k in range(len(solvers))]


def _model_at_zero(
    moments: Moments, origin: Array, positive: int, loss: Numbers, *, fit_intercept: bool
) -> LocalModel:
    """Create the model at w = 0 and b = 0, where all margins are zero."""
    from ._loss_loops import evaluate_margin

    belongs = np.arange(len(moments.weights)) == positive
    weights = np.array([moments.weights[belongs].sum(), moments.weights[~belongs].sum()])
    sums = moments.weights[:, None] * (moments.means - origin)
    products = np.stack([sums[belongs].sum(axis=0), -sums[~belongs].sum(axis=0)])
    apart = moments.mean - origin
    value, multiplier, row_curvature = evaluate_margin(0.0, *loss)  # for a row of weight one
    curvature = moments.total * row_curvature
    return LocalModel(
        point=PrimalPoint(positive, np.zeros(len(origin)), 0.0),
        fit_intercept=fit_intercept,
        sizes=multiplier * weights,
        values=value * weights,
        products=multiplier * products,
        curvature=curvature,
        moment=curvature * apart,
        gram=row_curvature * moments.scatter + curvature * np.outer(apart, apart),
        spread=np.array([moments.total, 0.0, 0.0, 0.0]),
    )


def _newton(
    begin: LocalModel | PrimalPoint, origin: Array, tol: float, max_iter: int, report: Report
) -> Asking:
    """Solve one problem by Newton steps and return the fit with the smallest gap."""
    local: LocalModel = (yield begin) if isinstance(begin, PrimalPoint) else begin
    best: BinaryFit | None = None
    precise, stalled, previous = False, 0, np.inf
    for n_iter in count():
        gap = local.gap
        if best is None or gap < best.gap:
            best = _end(local, origin, gap, n_iter)
        if gap <= max(tol, EXACT) or stalled == STANDSTILL:
            break
        if n_iter == max_iter or report(0):
            return replace(best, n_iter=n_iter, limited=True)
        precise = precise or gap > SLOW * previous
        following = yield from _search(local, local.newton_step(), precise=precise)
        if following is None:
            break
        stalled = stalled + 1 if following.objective >= local.objective * (1 - ROUNDING) else 0
        local, previous = following, gap
        report(1)
    assert best is not None
    return replace(best, n_iter=n_iter)


def _search(local: LocalModel, step: NewtonStep, *, precise: bool) -> Asking:
    """Return the model at a length that decreases the objective; None if rounding prevents it.

    The objective is convex, so it decreases until its slope is zero. If this length lies between
    two lengths of ratio 2, the shorter one gains at least half of the possible decrease.
    """
    first = local.slope(step)
    if not first < 0:
        return None
    allowed = ROUNDING * local.objective
    length, low, slope_low = 1.0, 0.0, first
    for _ in range(SEARCHES):
        trial: LocalModel = yield local.moved(step, length, precise=precise)
        slope = trial.slope(step)
        enough = DECREASE * length * first + allowed
        if slope <= 0 or trial.objective <= local.objective + enough:
            return trial
        high, slope_high = length, slope
        narrowed = False
        while not narrowed:
            lengths = np.geomspace(low or high * SHORTEST, high, SLOPES + 1)[:-1]
            slopes = yield from _slopes(local, step, lengths)
            too_long = np.append(slopes >= 0, True)
            first_long = int(np.argmax(too_long))
            if first_long < SLOPES:
                high, slope_high = float(lengths[first_long]), float(slopes[first_long])
            if first_long > 0:
                low, slope_low = float(lengths[first_long - 1]), float(slopes[first_long - 1])
            narrowed = low > 0 or high < TINY
        length = low - slope_low * (high - low) / (slope_high - slope_low)
    return None


def _slopes(local: LocalModel, step: NewtonStep, lengths: Array) -> Asking:
    """Compute the slopes of the objective at lengths along a step."""
    losses: Array = yield Line(local.point, step.coef, step.shift, lengths)
    return losses + float(local.point.coef @ step.coef) + lengths * float(step.coef @ step.coef)


def _end(local: LocalModel, origin: Array, gap: float, n_iter: int) -> BinaryFit:
    weight, mean, scatter, minimum = (float(number) for number in local.spread)
    coef, shift = local.point.coef, local.point.shift
    intercept = shift - float(origin @ coef) if local.fit_intercept else 0.0
    margins = MarginStatistics(mean, scatter / weight, minimum)
    return BinaryFit(
        intercept,
        local.objective,
        gap,
        n_iter,
        margins,
        coef,
        response=partial(_response, local, origin),
    )


def _response(local: LocalModel, origin: Array) -> FeatureResponse:
    """Create the response of scores to forces at a point."""
    return FeatureResponse.of(
        local.gram, local.moment, local.curvature, origin, fit_intercept=local.fit_intercept
    )
