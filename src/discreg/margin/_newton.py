"""Semismooth Newton method on the primal of linear ODM.

The objective P(w, b) = ½‖w‖² + Σ ℓ(y (Xw + b)) is differentiable and piecewise quadratic. After
every step the intercept is optimal for w, so that the derivative by b is zero. P is strongly convex
in w, and so

    P(w, b) − min P ≤ ½ ‖∇_w P‖² = ½ ‖w − Xᵀ y a‖²,        a = −ℓ'(margins),

which is also the duality gap of the multipliers a. It is reported as the gap, or P if P is smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from discreg.linalg.iterations import Report, unreported
from discreg.linalg.resources import run_in_threads, threads_for
from discreg.linalg.rows import centred_gram, matmul, rmatmul, weighted_mean
from discreg.linalg.systems import conjugate_gradients, psd_solver
from discreg.linalg.types import Array

from ._losses import SampleLosses
from ._response import FeatureResponse

__all__ = ["FEW_FEATURES", "PrimalSolution", "newton"]

FEW_FEATURES = 1_000  # up to this number the Hessian is formed and factored
FEW_ROWS = 5_000  # up to this number one thread is faster than two
EXACT = 1e-28  # relative gap due to rounding
ROUNDING = 1e-14  # relative decrease of the objective due to rounding
STANDSTILL = 2  # steps without a decrease before stopping
MAX_CG_STEPS = 500
CG_ACCURACY = 0.1
LINE_ACCURACY = 0.01  # derivative at the end of a line search, relative to that at its start


@dataclass(frozen=True)
class PrimalSolution:
    """Coefficients, intercept, scores without the intercept, multipliers, objective and gap."""

    coef: Array
    shift: float
    scores: Array
    multipliers: Array
    objective: float
    gap: float
    n_iter: int
    limited: bool = False  # whether `max_iter` ended the iterations
    response: Any = None  # creates the response of scores to forces


class NewtonSystem(Protocol):
    """Solver of (I + XᵀHX) step = −gradient for diagonal matrices H of curvatures."""

    def step(self, curvature: Array, gradient: Array, gap: float) -> Array:
        """Compute the step, with an accuracy that depends on the gap."""

    def response(self, curvature: Array) -> FeatureResponse | None:
        """Create the response of scores to forces; None if the matrix is not formed."""


def newton(
    X: Any,
    y: Array,
    losses: SampleLosses,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    start: tuple[Array, float] | None,
    report: Report = unreported,
) -> PrimalSolution:
    """Take Newton steps with exact line searches until the relative gap is at most `tol`.

    With ``tol=0`` they continue until rounding prevents a decrease of the objective.
    """
    system: NewtonSystem = (
        FactoredHessian(X, centred=fit_intercept)
        if X.shape[1] <= FEW_FEATURES
        else HessianProducts(X, centred=fit_intercept)
    )
    coef, shift = (np.zeros(X.shape[1]), 0.0) if start is None else start
    margins = y * (matmul(X, coef[:, None])[:, 0] + shift)
    best: PrimalSolution | None = None
    lowest, stalled, limited = np.inf, 0, True
    for n_iter in range(1, max_iter + 1):
        if fit_intercept:
            step_of_shift = losses.minimum_along(margins, y)
            shift += step_of_shift
            margins += step_of_shift * y
        value, multipliers, curvature = losses.evaluate(margins)
        gradient = coef - rmatmul(X, (y * multipliers)[:, None])[:, 0]
        objective = 0.5 * float(coef @ coef) + value
        gap = min(0.5 * float(gradient @ gradient) / max(objective, 1e-300), 1.0)
        if best is None or gap < best.gap:
            scores = y * margins - shift
            best = PrimalSolution(
                coef,
                shift,
                scores,
                multipliers,
                objective,
                gap,
                n_iter,
                response=partial(system.response, curvature),
            )
        stop = report(1)
        stalled = stalled + 1 if objective >= lowest * (1 - ROUNDING) else 0
        lowest = min(lowest, objective)
        if gap <= max(tol, EXACT) or stalled == STANDSTILL:
            limited = False
            break
        if stop:
            break
        step = system.step(curvature, gradient, gap)
        moved = matmul(X, step[:, None])[:, 0]
        total = float(curvature.sum())
        along = -float(curvature @ moved) / total if fit_intercept and total > 0 else 0.0
        moved += along
        length = losses.minimum_along(
            margins, y * moved, float(coef @ step), float(step @ step), accuracy=LINE_ACCURACY
        )
        coef = coef + length * step
        shift += length * along
        margins = margins + length * (y * moved)
    assert best is not None
    return replace(best, n_iter=n_iter, limited=limited)


class FactoredHessian:
    """Factored Hessian I + XᵀHX, updated with the rows whose curvature changes.

    The intercept is eliminated by centring the rows at their mean with weights H.
    """

    def __init__(self, X: Any, *, centred: bool) -> None:
        self._X, self._centred = X, centred
        n_rows, n_features = X.shape
        self._curvature = np.zeros(n_rows)
        self._gram = np.zeros((n_features, n_features))
        self._moment = np.zeros(n_features)
        # Moments about the mean stay accurate if the rows are far from the origin.
        dense_centre = centred and not sparse.issparse(X)
        self._origin = weighted_mean(X, np.ones(n_rows)) if dense_centre else None

    def step(self, curvature: Array, gradient: Array, gap: float) -> Array:
        self._update(curvature)
        hessian = self._gram.copy()
        if self._centred:
            total = float(curvature.sum())
            if total > 0:
                hessian -= np.outer(self._moment / total, self._moment)
        hessian[np.diag_indices_from(hessian)] += 1.0
        with threads_for(len(hessian) ** 3 / 6):  # of a Cholesky factorisation
            return -psd_solver(hessian)(gradient[:, None])[:, 0]

    def response(self, curvature: Array) -> FeatureResponse:
        self._update(curvature)
        origin = np.zeros(len(self._moment)) if self._origin is None else self._origin
        total = float(curvature.sum())
        return FeatureResponse.of(
            self._gram, self._moment, total, origin, fit_intercept=self._centred
        )

    def _update(self, curvature: Array) -> None:
        changed = np.flatnonzero(curvature != self._curvature)
        if not len(changed):
            return
        rows = self._X if len(changed) == len(curvature) else self._X[changed]
        change = curvature[changed] - self._curvature[changed]
        self._gram += self._weighted_gram(rows, change)
        if self._centred:
            self._moment += rmatmul(rows, change[:, None])[:, 0]
            if self._origin is not None:
                self._moment -= change.sum() * self._origin
        self._curvature = curvature

    def _weighted_gram(self, rows: Any, change: Array) -> Array:
        """Compute Σ change · x xᵀ over the rows; the changes may be negative."""
        if sparse.issparse(rows):
            half = _outer_products(rows, change)
            return half + half.T - np.diag(half.diagonal())
        total = np.zeros_like(self._gram)
        for sign in (1.0, -1.0):
            those = np.flatnonzero(sign * change > 0)
            if len(those):
                some = rows if len(those) == len(change) else rows[those]
                total += sign * centred_gram(some, np.abs(change[those]), self._origin)
        return total


def _outer_products(rows: Any, factors: Array) -> Array:
    """Compute one triangle of Σ factor · x xᵀ over CSR rows, in two threads for many rows."""
    from . import _newton_loops

    halves = np.array_split(np.arange(len(factors)), 2 if len(factors) > FEW_ROWS else 1)
    totals = np.zeros((len(halves), rows.shape[1], rows.shape[1]))

    def add(number: int) -> None:
        those = halves[number]
        _newton_loops.add_outer_products(
            totals[number], rows.data, rows.indices, rows.indptr, those, factors[those]
        )

    run_in_threads(add, range(len(halves)))
    return np.asarray(totals.sum(axis=0))


class HessianProducts:
    """Solver by conjugate gradients, for many features; more accurate for smaller gaps.

    The preconditioner is the diagonal of the Hessian.
    """

    def __init__(self, X: Any, *, centred: bool) -> None:
        self._X, self._centred = X, centred
        self._squares = X.multiply(X).tocsr() if sparse.issparse(X) else X * X

    def response(self, curvature: Array) -> None:
        return None

    def step(self, curvature: Array, gradient: Array, gap: float) -> Array:
        active = np.flatnonzero(curvature)
        X, squares, weights = self._X[active], self._squares[active], curvature[active]
        inverse = 1.0 / (1.0 + np.asarray(squares.T @ weights).ravel())
        transposed = X.T.tocsr() if sparse.issparse(X) else X.T
        total = float(weights.sum())

        def hessp(v: Array) -> Array:
            moved = np.asarray(X @ v)
            if self._centred and total > 0:
                moved -= (weights @ moved) / total
            moved *= weights
            return np.asarray(v + np.asarray(transposed @ moved))

        return conjugate_gradients(
            hessp,
            -gradient,
            lambda residual: inverse * residual,
            tol=min(CG_ACCURACY, gap**0.25),
            max_iter=MAX_CG_STEPS,
        )
