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
from scipy import sparse

from discreg.core.rows import pull_back, row_norms, times, weighted_mean

__all__ = [
    "SvrgResult",
    "ldm_intercept",
    "ldm_pair_gradient",
    "ldm_svrg",
    "odm_intercept",
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
NEWTON_STEPS = 100
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
class _Samples:
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
    def of(cls, X: Any, y: Array, weights: Array, fit_intercept: bool) -> _Samples:
        """The samples of one problem; a dense X is copied only if its rows are not contiguous."""
        shares = weights / weights.sum()
        mean = weighted_mean(X, shares) if fit_intercept else np.zeros(X.shape[1])
        offsets = times(X, mean[:, None])[:, 0] - mean @ mean
        distances = np.maximum(row_norms(X) - 2 * offsets - mean @ mean, 0.0)
        scale = float(shares @ distances) if fit_intercept else 0.0
        reach = float(distances.max()) + scale
        return cls(X, y, shares, mean, offsets, scale, reach, _compiled_rows(X))

    def scores(self, coef: Array) -> Array:
        """Scores without the intercept."""
        return times(self.X, coef[:, None])[:, 0]

    def combine(self, multipliers: Array) -> Array:
        """Σ a_i y_i x_i."""
        return pull_back(self.X, (multipliers * self.y)[:, None])[:, 0]

    def draw(self, random: np.random.RandomState, size: int) -> NDArray[np.intp]:
        """Samples drawn independently with their shares as probabilities."""
        equal = self.shares.min() == self.shares.max()
        return random.choice(len(self.y), size=size, p=None if equal else self.shares)

    def moved(
        self, point: _Point, v: Array, shrink: float, pull: float, drift: float, shift: float
    ) -> Coefficients:
        """Coefficients and intercept from what an epoch returns."""
        change = shrink * (v - drift * self.mean) - pull * point.gradient
        return point.coef + change, point.intercept + shift - float(self.mean @ change)


def _compiled_rows(X: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], bool]:
    """Dense rows, or the three arrays of sparse ones; the other part is empty."""
    if sparse.issparse(X):
        return np.empty((0, 0)), X.data, X.indices, X.indptr, True
    none = np.empty(0, dtype=np.int32)
    return np.ascontiguousarray(X), np.empty(0), none, none, False


# Algorithm 2 -------------------------------------------------------------------------------------


class _Point(NamedTuple):
    """A snapshot: its objective and gradient, and a lower bound of the optimum."""

    coef: Array
    intercept: float
    margins: Array
    pulls: Array  # minus the slopes of the losses
    gradient: Array
    objective: float
    unit: float  # the objective's terms without their signs
    bound: float


def _descend(
    at: Callable[[Array, float], _Point],
    epoch: Callable[[_Point, float], Coefficients],
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


def _relative_gap(point: _Point, bound: float) -> float:
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
    from . import _svrg_loops

    samples = _Samples.of(X, y, weights, fit_intercept)

    def at(coef: Array, intercept: float) -> _Point:
        scores = samples.scores(coef)
        if fit_intercept:
            intercept = odm_intercept(scores, y, samples.shares, intercept, C1=C1, C2=C2, D=D)
        margins = y * (scores + intercept)
        pulls = -_odm_slopes(margins, C1, C2, D)
        losses = C1 * np.maximum(1 - D - margins, 0) ** 2 + C2 * np.maximum(margins - 1 - D, 0) ** 2
        objective = float(0.5 * coef @ coef + samples.shares @ losses)
        gradient = coef - samples.combine(samples.shares * pulls)
        bound = objective - float(0.5 * gradient @ gradient)
        return _Point(coef, intercept, margins, pulls, gradient, objective, objective, bound)

    def epoch(point: _Point, step: float) -> Coefficients:
        v = np.zeros_like(point.coef)
        moves = _svrg_loops.odm_epoch(
            samples.rows, y, samples.mean, samples.offsets,
            samples.draw(random, random.randint(1, len(y) + 1)),
            point.margins, point.gradient, step, step * samples.intercept_scale, C1, C2, D, v,
        )  # fmt: skip
        return samples.moved(point, v, *moves)

    step = STEP / (1 + 2 * max(C1, C2) * samples.reach)
    start = start or (np.zeros(X.shape[1]), 0.0)
    return _descend(at, epoch, start, step=step, tol=tol, max_iter=max_iter)


def odm_intercept(
    scores: Array, y: Array, shares: Array, intercept: float, *, C1: float, C2: float, D: float
) -> float:
    """The intercept that minimises ODM's losses of given scores, from a first guess.

    Newton's steps on the derivative, which is continuous, piecewise linear and increases; outside
    of the bracket that is known to hold the root they are replaced by halving it.
    """
    # Below and above all points where a loss starts or ends, the derivative is ≤ 0 and ≥ 0.
    low, high = float(np.min(y - scores)) - D, float(np.max(y - scores)) + D
    intercept = float(np.clip(intercept, low, high))
    for _ in range(NEWTON_STEPS):
        margins = y * (scores + intercept)
        slopes = _odm_slopes(margins, C1, C2, D)
        derivative = shares @ (y * slopes)
        if abs(derivative) <= 1e-16 * (shares @ np.abs(slopes)):
            break
        low, high = (intercept, high) if derivative < 0 else (low, intercept)
        curvature = shares @ (2 * C1 * (margins < 1 - D) + 2 * C2 * (margins > 1 + D))
        following = intercept - derivative / curvature
        if following == intercept:
            break
        intercept = float(following if low < following < high else (low + high) / 2)
    return intercept


def _odm_slopes(margins: Any, C1: float, C2: float, D: float) -> Any:
    """Derivatives of ODM's losses."""
    return 2 * C1 * np.minimum(margins - 1 + D, 0) + 2 * C2 * np.maximum(margins - 1 - D, 0)


# LDM ---------------------------------------------------------------------------------------------


class _Dual(NamedTuple):
    """A feasible point of LDM's dual, whose value is total − ½‖square‖².

    `total` is Σ α_i. `square` holds Σ y_i a_i x_i, then r_i √(p_i/2λ1), with the multipliers r of
    the variance, λ1 var(z) = max Σ p_i (r_i z_i − r_i²/4λ1) over Σ p_i r_i = 0, and
    a_i = α_i + p_i (λ2 − r_i).
    """

    total: float
    square: Array

    @property
    def value(self) -> float:
        return self.total - float(0.5 * self.square @ self.square)

    def best_towards(self, other: _Dual) -> _Dual:
        """The best point of the segment to another one."""
        direction = other.square - self.square
        curvature = float(direction @ direction)
        slope = other.total - self.total - float(self.square @ direction)
        if not slope > 0:
            return self
        length = min(slope / curvature, 1.0) if curvature > 0 else 1.0
        total = self.total + length * (other.total - self.total)
        return _Dual(total, self.square + length * direction)


@np.errstate(over="ignore", invalid="ignore")
def ldm_svrg(
    X: Any,
    y: Array,
    weights: Array,
    *,
    C: float,
    lambda1: float,
    lambda2: float,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    random: np.random.RandomState,
    start: Coefficients | None = None,
) -> SvrgResult:
    """Minimise LDM's objective (5) by Algorithm 2 with the gradients (23) of pairs of samples.

    The hinge has no derivative at one, and the multipliers of samples there are not known from
    their margins. Those of the snapshots are all feasible: the gap is the distance of the best
    snapshot to a mixture of them, which every snapshot improves by a step of Frank and Wolfe.
    """
    from . import _svrg_loops

    samples = _Samples.of(X, y, weights, fit_intercept)
    shares = samples.shares
    dual: _Dual | None = None

    def at(coef: Array, intercept: float) -> _Point:
        nonlocal dual
        scores = samples.scores(coef)
        if fit_intercept:
            intercept = ldm_intercept(scores, y, shares, C=C, lambda1=lambda1, lambda2=lambda2)
        margins = y * (scores + intercept)
        mean = float(shares @ margins)
        deviations = margins - mean
        variance, hinge = shares @ deviations**2, shares @ np.maximum(1 - margins, 0)
        tilt = lambda2 - 2 * lambda1 * deviations
        pulls = np.where(margins < 1, C, 0.0)
        balanced = not fit_intercept or _balance(pulls, margins, y, shares, tilt, C)
        combined = samples.combine(shares * (pulls + tilt))
        if balanced:
            square = np.concatenate([combined, np.sqrt(2 * lambda1 * shares) * deviations])
            found = _Dual(float(shares @ pulls), square)
            dual = dual.best_towards(found) if dual else found
        convex = float(0.5 * coef @ coef + lambda1 * variance + C * hinge)
        return _Point(
            coef,
            intercept,
            margins,
            pulls,
            coef - combined,
            objective=convex - lambda2 * mean,
            unit=convex + lambda2 * abs(mean),
            bound=dual.value if dual else -np.inf,
        )

    def epoch(point: _Point, step: float) -> Coefficients:
        v = np.zeros_like(point.coef)
        size = random.randint(1, len(y) + 1)
        moves = _svrg_loops.ldm_epoch(
            samples.rows, y, samples.mean, samples.offsets,
            samples.draw(random, size), samples.draw(random, size),
            point.margins, point.pulls, point.gradient, step, step * samples.intercept_scale,
            C, lambda1, v,
        )  # fmt: skip
        return samples.moved(point, v, *moves)

    # A pair's gradient changes by at most 4 λ1 a reach; C stands for the jump of the hinge.
    step = STEP / (1 + (4 * lambda1 + C) * samples.reach)
    start = start or (np.zeros(X.shape[1]), 0.0)
    return _descend(at, epoch, start, step=step, tol=tol, max_iter=max_iter)


def ldm_intercept(
    scores: Array, y: Array, shares: Array, *, C: float, lambda1: float, lambda2: float
) -> float:
    """The intercept that minimises LDM's objective for given scores.

    Its derivative increases linearly between the kinks y_i − f_i of the hinges, and jumps by C p_i
    at each. The problem must be bounded.
    """
    mean_y = shares @ y
    slope = 2 * lambda1 * (1 - mean_y**2)
    constant = 2 * lambda1 * (shares @ scores - mean_y * (shares @ (y * scores))) - lambda2 * mean_y
    kinks = y - scores
    order = np.argsort(kinks)
    kinks = kinks[order]
    jumps = np.concatenate([[0.0], np.cumsum(C * shares[order])])
    levels = constant - C * (shares @ (y > 0)) + jumps  # derivative without `slope`, between kinks
    first = int(np.searchsorted(slope * kinks + levels[1:], 0.0))  # kink where it gets positive
    kink = kinks[first] if first < len(kinks) else np.inf
    root = -levels[first] / slope if slope > 0 else np.inf
    return float(min(kink, root))


def _balance(pulls: Array, margins: Array, y: Array, shares: Array, tilt: Array, C: float) -> bool:
    """Change the pulls within [0, C] so that Σ p_i y_i (pull_i + tilt_i) = 0; False if none do.

    The samples nearest the kink of the hinge are changed first: there it costs least.
    """
    excess = float(shares @ (y * (pulls + tilt)))
    falls = y * excess > 0
    room = shares * np.where(falls, pulls, C - pulls)
    order = np.argsort(np.abs(1 - margins))
    taken = np.cumsum(room[order])
    change = np.clip(abs(excess) - (taken - room[order]), 0.0, room[order]) / shares[order]
    pulls[order] += np.where(falls[order], -change, change)
    return bool(taken[-1] >= abs(excess))
