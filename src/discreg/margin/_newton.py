"""Semismooth Newton method on the primal of linear ODM.

With the losses of `_terms` the objective P(w, b) = ½‖w‖² + Σ ℓ(y (Xw + b)) is differentiable and
piecewise quadratic. After every step the intercept is the best one for its w, so that the gradient
along it is zero; then, P being strongly convex in w,

    P(w, b) − min P ≤ ½ ‖∇_w P‖² = ½ ‖w − Xᵀ y a‖²,        a = −ℓ'(margins),

which is also the duality gap of the multipliers a: the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.rows import rmatmul, times

from ._hessian import ConjugateGradients, FactoredHessian
from ._terms import Terms

__all__ = ["FEW_FEATURES", "PrimalSolution", "newton"]

Array = NDArray[np.float64]
FEW_FEATURES = 1_000  # whose Hessian is formed and factored
EXACT = 1e-28  # a relative gap that rounding alone leaves
ROUNDING = 1e-14  # relative decrease that the objective cannot show
STANDSTILL = 2  # steps without decrease after which rounding is all that is left


@dataclass(frozen=True)
class PrimalSolution:
    """Coefficients and intercept, scores without it, multipliers, objective and certificate."""

    coef: Array
    shift: float
    scores: Array
    multipliers: Array
    objective: float
    gap: float
    n_iter: int


class NewtonSystem(Protocol):
    """Solver of (I + XᵀHX) step = −gradient for one diagonal H of curvatures after another."""

    def step(self, curvature: Array, gradient: Array, gap: float) -> Array:
        """The step; `gap` says how accurate it has to be."""


def newton(
    X: Any,
    y: Array,
    terms: Terms,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    start: tuple[Array, float] | None = None,
) -> PrimalSolution:
    """Newton's steps with exact line searches until the relative gap is at most `tol`.

    With ``tol=0`` they go on until rounding does not let the objective fall.
    """
    from . import _primal_loops

    system: NewtonSystem = (
        FactoredHessian(X, centred=fit_intercept)
        if X.shape[1] <= FEW_FEATURES
        else ConjugateGradients(X, centred=fit_intercept)
    )
    coef, shift = (np.zeros(X.shape[1]), 0.0) if start is None else start
    margins = y * (times(X, coef[:, None])[:, 0] + shift)
    best: PrimalSolution | None = None
    lowest, stalled = np.inf, 0
    for n_iter in range(1, max_iter + 1):
        if fit_intercept:
            step_of_shift = _primal_loops.minimum_along(margins, y, terms.arrays(), 0.0, 0.0)
            shift += step_of_shift
            margins += step_of_shift * y
        multipliers, curvature = np.empty_like(margins), np.empty_like(margins)
        loss = _primal_loops.evaluate(margins, terms.arrays(), multipliers, curvature)
        gradient = coef - rmatmul(X, (y * multipliers)[:, None])[:, 0]
        objective = 0.5 * float(coef @ coef) + loss
        gap = 0.5 * float(gradient @ gradient) / max(objective, 1e-300)
        if best is None or gap < best.gap:
            scores = y * margins - shift
            best = PrimalSolution(coef, shift, scores, multipliers, objective, gap, n_iter)
        stalled = stalled + 1 if objective >= lowest * (1 - ROUNDING) else 0
        lowest = min(lowest, objective)
        if gap <= max(tol, EXACT) or stalled == STANDSTILL:
            break
        step = system.step(curvature, gradient, gap)
        moved = times(X, step[:, None])[:, 0]
        total = float(curvature.sum())
        along = -float(curvature @ moved) / total if fit_intercept and total > 0 else 0.0
        moved += along
        length = _primal_loops.minimum_along(
            margins, y * moved, terms.arrays(), float(coef @ step), float(step @ step)
        )
        coef = coef + length * step
        shift += length * along
        margins = margins + length * (y * moved)
    assert best is not None
    return best
