"""Stochastic variance reduced gradients for linear LDM, and a rigorous gap for its hinge."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._svrg import STEP, Coefficients, Point, Samples, SvrgResult, descend

__all__ = ["ldm_intercept", "ldm_svrg"]

Array = NDArray[np.float64]


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

    samples = Samples.of(X, y, weights, fit_intercept)
    shares = samples.shares
    dual: _Dual | None = None

    def at(coef: Array, intercept: float) -> Point:
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
        return Point(
            coef,
            intercept,
            margins,
            pulls,
            coef - combined,
            objective=convex - lambda2 * mean,
            unit=convex,
            bound=dual.value if dual else -np.inf,
        )

    def epoch(point: Point, step: float) -> Coefficients:
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
    return descend(at, epoch, start, step=step, tol=tol, max_iter=max_iter)


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
