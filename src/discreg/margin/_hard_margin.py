"""LDM with a hard margin, C = ∞:

    min ½‖w‖² + λ1 var(z) − λ2 mean(z)    subject to    z_i = y_i (w·φ(x_i) + b) ≥ 1.

Its dual is that of the soft margin without the limits α_i ≤ C s_i/m. So a soft margin has the same
solution if none of its multipliers is at its limit, and C is increased until this is so.

Certificate. For w and b of the multipliers α, with tilts t = λ2 s/m and Q = ‖w‖² + 2 λ1 var(z),
the dual has the value Σ α − ½Q, a lower bound. Without limits, the multipliers c (α + t) − t are
feasible too if they are not negative. Their value c Σ (α + t) − Σ t − ½c²Q is largest at
c = Σ (α + t)/Q. The solution is the multiple of w and b with the smallest objective among those
whose margins are at least 1. So only the direction of w has to be accurate, which matters for small
margins: their multipliers are so large that soft margins are not solved to `tol`.

Samples that cannot be separated. For any α ≥ 0 with v = Σ α_i y_i φ(x_i) and e = Σ α_i y_i, a
feasible (w, b) has Σ α ≤ Σ α_i z_i = w·v + b e. With R the largest norm of a sample, the margins of
a sample of each class give |b| ≤ ‖w‖R. Hence no hyperplane has a larger margin than

    1/‖w‖ ≤ (‖v‖ + R|e|) / Σ α.

If the samples overlap, w stays bounded as C grows and Σ α does not, so that this tends to zero.
Without overlap Σ α = 2 (½‖w‖² + λ1 var) − λ2 mean at the solution, and C stops growing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from discreg.linalg.rows import matmul, rmatmul, row_norms, weighted_mean
from discreg.linalg.types import Array

from ._problem import TINY, BinaryFit, BinaryProblem

__all__ = ["solve_hard_margin"]

AT_LIMIT = 0.999  # share of its limit from which a multiplier may be at the limit
GROWTH = 100.0  # factor of C
ROUNDS = 10
SMALLEST_MARGIN = 1e-6  # relative to the largest norm; smaller ones are rarely resolved
ACCURATE = 1e-3  # gap at which a smaller margin is resolved
ROOM = 2.0  # limits of the multipliers without a sample, relative to the sum of all multipliers


def solve_hard_margin(
    problem: BinaryProblem, solve: Callable[[BinaryProblem], BinaryFit]
) -> BinaryFit:
    """Fit LDM with C = ∞ by fits with a finite C, computed by `solve`."""
    loss, weights = problem.loss, problem.training.weights
    C, start, n_iter, bound = _first_limit(problem), problem.start, 0, np.inf
    best: BinaryFit | None = None
    for _ in range(ROUNDS):
        soft = replace(problem, loss=replace(loss, upper=C), start=start)
        try:
            fit = solve(soft)
        except ValueError as error:  # C is too large for double precision
            if n_iter == 0:
                raise
            if best is None:
                raise _not_separable(problem, bound) from error
            break
        multipliers = fit.multipliers
        assert multipliers is not None
        n_iter += fit.n_iter
        inside = bool(np.all(multipliers < AT_LIMIT * soft.losses.upper))
        if inside and fit.margins.minimum > 0:
            total = float(multipliers.sum() + soft.losses.tilt.sum())
            room = ROOM * total * float(weights.sum()) / float(weights.min())
            upper = replace(loss, upper=max(C, room))
            hard = _feasible(problem, replace(fit, n_iter=n_iter, soft=upper), soft)
            if hard.gap <= max(ACCURATE, problem.options.tol):
                return hard
            best = hard if best is None or hard.objective < best.objective else best
        bound = _largest_margin(problem, multipliers)
        if bound <= SMALLEST_MARGIN or problem.options.report(0):
            break
        C, start = GROWTH * C, fit.warm
    if best is not None and bound > SMALLEST_MARGIN:
        return replace(best, n_iter=n_iter)
    raise _not_separable(problem, None if fit.limited else bound)


def _first_limit(problem: BinaryProblem) -> float:
    """Return a C that is large enough in most cases: 1/k(x, x) is the size of a multiplier."""
    training, loss, y = problem.training, problem.loss, problem.y
    weights = training.weights
    size = 1.0 / max(float(training.diagonal.mean()), TINY)
    C = 10.0 * (training.n_samples * size + 2.0 * loss.lambda1)
    if problem.start is not None:
        C = max(C, ROOM * float((problem.start[0] / weights).max() * weights.sum()))
    # With a smaller one the soft margin may have no minimum.
    pull = loss.lambda2 * abs(float(weights @ y))
    return max(C, ROOM * pull / float(min(weights[y > 0].sum(), weights[y < 0].sum())))


def _scores(fit: BinaryFit) -> Array:
    assert fit.scores is not None
    return fit.scores


def _feasible(problem: BinaryProblem, fit: BinaryFit, soft: BinaryProblem) -> BinaryFit:
    """Return the best feasible multiple of a fit, with its objective and its gap."""
    loss, scores = soft.loss, _scores(fit)
    untilted = fit.objective + loss.lambda2 * fit.margins.mean  # without the term of the mean
    lowest = _lower_bound(fit, soft, fit.objective - fit.gap * untilted)
    norm = 2.0 * (untilted - soft.losses.value(problem.y * scores))
    factor = max(1.0 / fit.margins.minimum, loss.lambda2 * fit.margins.mean / max(norm, TINY))
    theta, coef = (None if part is None else factor * part for part in (fit.theta, fit.coef))
    square = norm - 2.0 * loss.lambda1 * fit.margins.variance
    objective, convex = problem.objective(factor**2 * square, factor * scores)
    return replace(
        fit,
        intercept=factor * fit.intercept,
        objective=objective,
        gap=max(objective - lowest, 0.0) / max(convex, TINY),
        margins=problem.statistics(factor * scores),
        coef=coef,
        theta=theta,
        scores=factor * scores,
    )


def _lower_bound(fit: BinaryFit, soft: BinaryProblem, value: float) -> float:
    """Return the largest dual value of multiples of the multipliers, whose own value is given."""
    assert fit.multipliers is not None
    tilt, total = float(soft.losses.tilt.sum()), float(fit.multipliers.sum())
    norm = 2.0 * (total - value)
    if not (norm > 0 and (value > 0 or tilt > 0)):  # a gap of 1 does not bound the objective
        return value
    factor = (total + tilt) / norm
    if tilt > 0:
        factor = max(factor, 1.0)
    return max(value, factor * (total + tilt) - tilt - 0.5 * factor**2 * norm)


def _largest_margin(problem: BinaryProblem, multipliers: Array) -> float:
    """Compute a bound of the margin of any hyperplane, relative to the largest norm."""
    training, signed = problem.training, problem.y * multipliers
    if training.kernel is None:
        norms, direction = row_norms(training.X), rmatmul(training.X, signed[:, None])[:, 0]
        if problem.fit_intercept:  # about the mean
            mean = weighted_mean(training.X, training.weights)
            norms = norms - 2.0 * matmul(training.X, mean[:, None])[:, 0] + float(mean @ mean)
            direction = direction - float(signed.sum()) * mean
        square = float(direction @ direction)
    elif training.fits_gram:
        norms, square = training.gram.diagonal(), float(signed @ (training.gram @ signed))
    else:
        norms, square = training.diagonal, float(signed @ training.image(signed))
    excess = abs(float(signed.sum())) if problem.fit_intercept else 0.0
    reach, total = float(np.sqrt(max(float(norms.max()), 0.0))), float(multipliers.sum())
    if not reach * total > 0:
        return 0.0
    return float(np.sqrt(max(square, 0.0)) / reach + excess) / total


def _not_separable(problem: BinaryProblem, bound: float | None) -> ValueError:
    """Return the error of samples that are not separated, with a bound of the margin if known."""
    origin = "" if problem.fit_intercept else " through the origin"
    if bound is not None:
        found = f"has a margin above {bound:.1g} times the largest norm of a sample. Scale"
    else:
        found = "was found in max_iter iterations. Increase max_iter, scale"
    return ValueError(
        f"C=inf needs classes that can be separated. No hyperplane{origin} between class "
        f"{problem.positive!r} and the others {found} the features, or use a finite C, which "
        "allows margins below 1, or a kernel with a larger gamma or degree."
    )
