"""ODM_svrg: stochastic variance reduced gradients for linear models, section 4.2 of the ODM paper.

Both models are, with shares p_i = s_i/m of the samples' weights and margins z_i = y_i (w·x_i + b),

- ODM, objective (7): ½‖w‖² + Σ p_i [C1 max(0, 1 − D − z_i)² + C2 max(0, z_i − 1 − D)²],
- LDM, objective (5): ½‖w‖² + λ1 var(z) − λ2 mean(z) + C Σ p_i max(0, 1 − z_i).

An epoch takes the full gradient at a snapshot and then steps along the gradients of samples drawn
with the probabilities p_i, so that a weight of three is, in distribution, three copies. The
intercept of a snapshot is the optimal one for its w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.rows import rmatmul, row_norms, times, weighted_mean

from ._dual import compiled_rows
from ._terms import Terms

__all__ = [
    "STEP",
    "Coefficients",
    "Point",
    "Samples",
    "SvrgResult",
    "descend",
    "ldm_pair_gradient",
    "odm_sample_gradient",
    "odm_svrg",
]

Array = NDArray[np.float64]
Coefficients = tuple[Array, float]

# The step in units of one over the largest smoothness constant. Johnson and Zhang use 0.1. Epochs
# to a relative gap of 1e-6 with 0.1, 0.3, 0.5, 0.8 (C1 = 2 C2, D = 0.2, at most 60):
#   C1 = 100:   a9a   9,  7,  8, 10;  w8a 49, 18, 12, 8;  pendigits >60, 23, 15, 11
#   C1 = 10000: a9a >60, 54, 36, 27;  ijcnn1 5, 6, 6, 8;  pendigits >60, 28, 19, 14
# No epoch of these increased the objective.
STEP = 0.5
# Of the step after an epoch that is kept: near the optimum of LDM, which is not smooth, epochs fail
# by chance, and halving alone would end its progress.
GROWTH = 1.2
ROUNDING = 1e-13  # relative increase of the objective that says nothing
TINY = float(np.finfo(np.float64).tiny)


class SvrgResult(NamedTuple):
    """Coefficients, their relative optimality gap, and the number of epochs."""

    coef: Array
    intercept: float
    gap: float
    n_iter: int


# The papers' stochastic gradients ----------------------------------------------------------------


def odm_sample_gradient(
    w: Array, b: float, x_i: Array, y_i: float, *, C1: float, C2: float, D: float
) -> Coefficients:
    """Equation (24), and the derivative by the intercept: ODM's gradient from one sample."""
    slope = float(_odm_slopes(y_i * (x_i @ w + b), C1, C2, D))
    return w + slope * y_i * x_i, slope * y_i


def ldm_pair_gradient(
    w: Array,
    b: float,
    x_i: Array,
    y_i: float,
    x_j: Array,
    y_j: float,
    *,
    C: float,
    lambda1: float,
    lambda2: float,
) -> Coefficients:
    """Equation (23), and the derivative by the intercept: LDM's gradient from a pair of samples."""
    margin, other = y_i * (x_i @ w + b), y_j * (x_j @ w + b)
    slope = float(2 * lambda1 * (margin - other) - lambda2 - C * (margin < 1))
    return w + slope * y_i * x_i, slope * y_i


# The samples -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Samples:
    """Rows, labels and shares, and the geometry of the steps in (w, b + w·mean)."""

    X: Any
    y: Array
    shares: Array
    mean: Array  # of the rows; zero without an intercept, and b is then zero
    offsets: Array  # mean·(x_i − mean)
    intercept_scale: float  # step of b + w·mean in steps of w: the rows' mean square distance
    reach: float  # largest square length of (x_i − mean, √intercept_scale)
    rows: tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], bool]

    @classmethod
    def of(cls, X: Any, y: Array, weights: Array, fit_intercept: bool) -> Samples:
        """The samples of one problem; a dense X is copied only if its rows are not contiguous."""
        shares = weights / weights.sum()
        mean = weighted_mean(X, shares) if fit_intercept else np.zeros(X.shape[1])
        offsets = times(X, mean[:, None])[:, 0] - mean @ mean
        distances = np.maximum(row_norms(X) - 2 * offsets - mean @ mean, 0.0)
        scale = float(shares @ distances) if fit_intercept else 0.0
        reach = float(distances.max()) + scale
        return cls(X, y, shares, mean, offsets, scale, reach, compiled_rows(X))

    def scores(self, coef: Array) -> Array:
        """Scores without the intercept."""
        return times(self.X, coef[:, None])[:, 0]

    def combine(self, multipliers: Array) -> Array:
        """Σ a_i y_i x_i."""
        return rmatmul(self.X, (multipliers * self.y)[:, None])[:, 0]

    def draw(self, random: np.random.RandomState, size: int) -> NDArray[np.intp]:
        """Samples drawn independently with their shares as probabilities."""
        equal = self.shares.min() == self.shares.max()
        return random.choice(len(self.y), size=size, p=None if equal else self.shares)

    def moved(
        self, point: Point, v: Array, shrink: float, pull: float, drift: float, shift: float
    ) -> Coefficients:
        """Coefficients and intercept from what an epoch returns."""
        change = shrink * (v - drift * self.mean) - pull * point.gradient
        return point.coef + change, point.intercept + shift - float(self.mean @ change)


# Algorithm 2 -------------------------------------------------------------------------------------


class Point(NamedTuple):
    """A snapshot: its objective and gradient, and a lower bound of the optimum."""

    coef: Array
    intercept: float
    margins: Array
    pulls: Array  # minus the slopes of the losses, a sample's share taken out for LDM
    gradient: Array
    objective: float
    unit: float  # what the gap is relative to
    bound: float


def descend(
    at: Callable[[Array, float], Point],
    epoch: Callable[[Point, float], Coefficients],
    start: Coefficients,
    *,
    step: float,
    tol: float,
    max_iter: int,
) -> SvrgResult:
    """Repeat epochs until the relative gap is at most `tol`.

    An epoch that increases the objective is taken back, and the step is halved. It grows again with
    every epoch that is kept, up to the first one.
    """
    longest = step
    point = at(*start)
    bound = point.bound
    n_iter = 0
    while (gap := _relative_gap(point, bound)) > tol and n_iter < max_iter:
        trial = at(*epoch(point, step))
        bound = max(bound, trial.bound)  # in this order: a bound that is not a number is none
        if trial.objective <= point.objective + ROUNDING * point.unit:
            point, step = trial, min(GROWTH * step, longest)
        else:
            step /= 2
        n_iter += 1
    return SvrgResult(point.coef, point.intercept, gap, n_iter)


def _relative_gap(point: Point, bound: float) -> float:
    gap = max(point.objective - bound, 0.0) / max(point.unit, TINY)
    return gap if np.isfinite(gap) else np.inf


# ODM ---------------------------------------------------------------------------------------------


@np.errstate(over="ignore", invalid="ignore")
def odm_svrg(
    X: Any,
    y: Array,
    weights: Array,
    *,
    C1: float,
    C2: float,
    D: float,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    random: np.random.RandomState,
    start: Coefficients | None = None,
) -> SvrgResult:
    """Minimise ODM's objective (7) by Algorithm 2.

    The gap is ½‖∇P‖²: P is 1-strongly convex in w, and its derivative by b is zero. It is the
    duality gap to the multipliers −ℓ'(z) of the dual (19), too.
    """
    from . import _primal_loops, _svrg_loops

    samples = Samples.of(X, y, weights, fit_intercept)
    terms = Terms.odm(weights, C1, C2, D)

    def at(coef: Array, intercept: float) -> Point:
        margins = y * (samples.scores(coef) + intercept)
        if fit_intercept:
            step = _primal_loops.minimum_along(margins, y, terms.arrays(), 0.0, 0.0)
            intercept, margins = intercept + step, margins + step * y
        multipliers = terms.multipliers(margins)
        objective = float(0.5 * coef @ coef) + terms.loss(margins)
        gradient = coef - samples.combine(multipliers)
        bound = objective - float(0.5 * gradient @ gradient)
        return Point(coef, intercept, margins, multipliers, gradient, objective, objective, bound)

    def epoch(point: Point, step: float) -> Coefficients:
        v = np.zeros_like(point.coef)
        moves = _svrg_loops.odm_epoch(
            samples.rows, y, samples.mean, samples.offsets,
            samples.draw(random, random.randint(1, len(y) + 1)),
            point.margins, point.gradient, step, step * samples.intercept_scale, C1, C2, D, v,
        )  # fmt: skip
        return samples.moved(point, v, *moves)

    step = STEP / (1 + 2 * max(C1, C2) * samples.reach)
    start = start or (np.zeros(X.shape[1]), 0.0)
    return descend(at, epoch, start, step=step, tol=tol, max_iter=max_iter)


def _odm_slopes(margins: Any, C1: float, C2: float, D: float) -> Any:
    """Derivatives of ODM's losses."""
    return 2 * C1 * np.minimum(margins - 1 + D, 0) + 2 * C2 * np.maximum(margins - 1 - D, 0)
