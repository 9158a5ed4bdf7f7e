"""LDM with an intercept on a kernel matrix, without a factorisation of the matrix.

For shares p of the total weight, λ1 var(z) is the maximum of Σ (r z − u r²/2) over r with Σ r = 0,
where u = 1/(2 λ1 p). So the dual (14) of LDM is

    min over h, r of ½ aᵀQa + Σ u r²/2 − Σ h,      a = h − r + λ2 p,      0 ≤ h ≤ C p,

with the constraints Σ y a = 0 and Σ r = 0. Their multipliers are the intercept and the mean of the
margins; if both are known, the problem is separable in the margins. Coordinate descent minimises
over the pair (h, r) of one sample in closed form, and the method of multipliers finds the
intercept and the mean at the same time. At the end, r of a few samples is changed so that the
constraints hold, which makes the gap rigorous.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreg.linalg.types import Array

from ._dual import PULL, GramDual
from ._losses import mean_and_variance
from ._problem import BinaryProblem

__all__ = ["Pairs", "solve_pairs"]

MOST_PASSES = 100  # which take less time than a factorisation
# Step of the mean in the method of multipliers, relative to 1/λ1: the second derivative of the
# objective by the mean is at most 2 λ1.
MEAN_PULL = 5.0
SHARE = 0.7  # share of the tolerance for the gap before the constraints hold
TIGHTER = 0.3  # factor of that share if the gap is too large once they hold
CHANGED = 64  # number of samples of each class whose r is changed


@dataclass
class Pairs:
    """Multipliers h and r, coefficients y a and their scores, intercept and mean margin."""

    h: Array
    r: Array
    theta: Array
    scores: Array
    shift: float = 0.0
    mean: float = 1.0
    gap: float = np.inf  # relative duality gap; infinite until the constraints hold
    n_iter: int = 0


def solve_pairs(problem: BinaryProblem) -> Pairs:
    """Run passes over the samples until the relative gap is at most `tol`, at most 100 passes."""
    from ._coordinate_descent_loops import BLOCK
    from ._separable_loops import pair_pass

    options, losses, y = problem.options, problem.losses, problem.y
    weights, lambda1 = problem.training.weights, problem.loss.lambda1
    dual = GramDual(problem.training.gram, y, losses)
    ridge = weights.sum() / (2.0 * lambda1 * weights)
    pull = PULL * float(dual.gram.diagonal().mean())
    mean_pull = max(pull, MEAN_PULL / lambda1)
    random, order = np.random.default_rng(options.seed), np.arange(len(y))
    work = np.empty((BLOCK + 2, BLOCK))
    pairs = _first_pairs(problem, dual)
    enough = SHARE * options.tol
    for pairs.n_iter in range(1, min(MOST_PASSES, options.max_iter) + 1):
        if options.shuffled:
            order = random.permutation(len(y))
        pair_pass(
            dual.gram, y, ridge, losses.tilt, losses.upper,
            pairs.shift, pairs.mean, pull, mean_pull,
            float(pairs.theta.sum()), float(pairs.r.sum()),
            pairs.h, pairs.r, pairs.scores, order, work,
        )  # fmt: skip
        pairs.theta = dual.signed(pairs.h - pairs.r)
        pairs.shift += pull * float(pairs.theta.sum())
        pairs.mean += mean_pull * float(pairs.r.sum())
        margins = y * (pairs.scores + pairs.shift)
        convex = _convex_part(problem, pairs, margins)
        errors = pairs.r - (margins - pairs.mean) / ridge
        gap = float(losses.gaps(pairs.h, margins).sum() + 0.5 * ridge @ errors**2)
        stop = options.report(1)
        if gap <= enough * convex or pairs.n_iter == options.max_iter or stop:
            _make_feasible(dual, pairs, weights)
            pairs.gap = _relative_gap(problem, pairs, ridge)
            if pairs.gap <= options.tol or stop:
                break
            enough *= TIGHTER
    return pairs


def _first_pairs(problem: BinaryProblem, dual: GramDual) -> Pairs:
    """Return zeros, or the solution of another fit by pairs."""
    zeros = np.zeros(len(dual.y))
    h, shift, r, mean = zeros, 0.0, zeros, 1.0
    if problem.start is not None and len(problem.start) == 4:
        h, shift, r, mean = problem.start
    h = np.clip(h, 0.0, dual.losses.upper)
    theta = dual.signed(h - r)
    return Pairs(h, r.copy(), theta, dual.product(np.flatnonzero(theta), theta), shift, mean)


def _relative_gap(problem: BinaryProblem, pairs: Pairs, ridge: Array) -> float:
    """Compute the duality gap relative to the objective without the term of the mean."""
    tilt, margins = problem.losses.tilt, problem.y * (pairs.scores + pairs.shift)
    convex = _convex_part(problem, pairs, margins)
    square = float(pairs.theta @ pairs.scores)
    bound = float(pairs.h.sum() - 0.5 * ridge @ pairs.r**2) - 0.5 * square
    # What rounding leaves of the constraints.
    bound -= abs(float(pairs.theta.sum()) * pairs.shift) + abs(float(pairs.r.sum()) * pairs.mean)
    if not tilt.any():
        bound = max(bound, 0.0)  # without tilts the objective is not negative
    return max(convex - float(tilt @ margins) - bound, 0.0) / convex


def _convex_part(problem: BinaryProblem, pairs: Pairs, margins: Array) -> float:
    """Compute the objective without the term of the mean."""
    variance = mean_and_variance(margins, problem.training.weights)[1]
    square = float(pairs.theta @ pairs.scores)
    return 0.5 * square + problem.loss.lambda1 * variance + problem.losses.value(margins)


def _make_feasible(dual: GramDual, pairs: Pairs, weights: Array) -> None:
    """Change r of a few samples of each class so that Σ y a and Σ r are zero."""
    excess, total = float(pairs.theta.sum()), float(pairs.r.sum())
    steps = np.zeros(len(weights))
    for sign in (1.0, -1.0):
        samples = np.flatnonzero(dual.y == sign)
        heavy = samples[np.argsort(weights[samples], kind="stable")[-CHANGED:]]
        steps[heavy] = 0.5 * (total - sign * excess) * weights[heavy] / weights[heavy].sum()
    pairs.r -= steps
    pairs.theta += dual.y * steps
    pairs.scores += dual.product(np.flatnonzero(steps), dual.y * steps)
