"""Coordinate descent on a dual problem, with a search for the intercept.

On a kernel matrix the method of multipliers finds the intercept together with the multipliers. A
few multipliers are then reduced so that Σ y (a + t) = 0, which makes the gap rigorous.

On rows of features, or if this does not converge soon, the intercept b is fixed. Then the dual has
no constraint that couples its multipliers. The objective as a function of b is convex with slope
−Σ y (a + t), so regula falsi brackets its minimiser, each time starting from the last multipliers.
The convex combination of the two ends with slope zero is feasible for the dual with an intercept,
and so gives a rigorous gap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from discreg.linalg.types import Array

from ._dual import Dual, DualState, GramDual, RowDual, SolverOptions

__all__ = ["EXACT", "DualSolution", "solve_dual"]

SHARE = 0.7  # share of the tolerance for descent with a fixed intercept
FREE_PASSES = 40  # passes of the method of multipliers before the intercept is bracketed
FREE_ROUNDS = 5
TIGHTER = 0.3  # factor of the tolerance if Σ y (a + t) is too large after a round
GIVING = 64  # number of multipliers that are reduced to make Σ y (a + t) zero
OVERSHOOT = 2.0
SMALLEST_STEP = 1e-4
EXACT = 1e-15  # relative gap due to rounding
FINEST = 1e-17  # tolerance with which descent continues until rounding prevents progress


@dataclass(frozen=True)
class DualSolution:
    """State with its intercept, relative duality gap, number of iterations and solver."""

    state: DualState
    shift: float
    gap: float
    n_iter: int  # passes of coordinate descent, or linear systems of the active set method
    solver: str = "dcd"
    limited: bool = False  # whether the iteration limit ended the descent


@dataclass
class _End:
    """End of the bracket: an intercept, its state, and Σ y (a + t)."""

    shift: float
    state: DualState
    excess: float


def solve_dual(
    dual: Dual,
    options: SolverOptions,
    *,
    fit_intercept: bool,
    start: tuple[DualState, float] | None = None,
) -> DualSolution:
    """Find multipliers and intercept by coordinate descent, up to the tolerance."""
    options = replace(options, tol=max(options.tol, EXACT))
    begin = (dual.start(), 0.0) if start is None else start
    found = _descend(dual, options, *begin, fit_intercept=fit_intercept)
    if isinstance(dual, RowDual):
        found = _computed_anew(dual, found, fit_intercept=fit_intercept)
    ended = found.n_iter >= options.max_iter or options.report(0)
    limited = found.gap > options.tol and ended
    return replace(found, limited=limited)


def _computed_anew(dual: Dual, found: DualSolution, *, fit_intercept: bool) -> DualSolution:
    """Compute coefficients, scores and gap from the multipliers, without the rounding of updates.

    It is seen if multipliers became much larger than they are at the end.
    """
    state = dual.state(found.state.multipliers)
    shift = dual.best_shift(state, found.shift) if fit_intercept else found.shift
    gap = dual.relative_gap(state, shift, fit_intercept=fit_intercept)
    return replace(found, state=state, shift=shift, gap=gap)


def _descend(
    dual: Dual, options: SolverOptions, state: DualState, shift: float, *, fit_intercept: bool
) -> DualSolution:
    if not fit_intercept:
        state, passes, gap = dual.descend(state, 0.0, options)
        options.report(passes)
        return DualSolution(state, 0.0, gap, passes)
    shift = dual.best_shift(state, shift)
    passes = 0
    if isinstance(dual, GramDual):
        free, certified = _descend_freely(dual, options, state, shift)
        if certified is not None:
            return certified
        state, shift, passes = free.state, free.shift, free.n_iter
    return _enclose(dual, options, state, shift, passes)


def _descend_freely(
    dual: GramDual, options: SolverOptions, state: DualState, shift: float
) -> tuple[DualSolution, DualSolution | None]:
    """Run the method of multipliers; also return a feasible solution if its gap is small."""
    inner = replace(options, tol=SHARE * options.tol)
    passes, most = 0, min(FREE_PASSES, options.max_iter)
    for _ in range(FREE_ROUNDS):
        state, shift, more, gap = dual.descend_freely(
            state, shift, replace(inner, max_iter=most - passes)
        )
        passes += more
        stop = options.report(more)
        balanced = _taken_from_a_few(dual, state) if gap <= options.tol else None
        if balanced is not None:
            best = dual.best_shift(balanced, shift)
            gap = dual.relative_gap(balanced, best, fit_intercept=True)
            if gap <= options.tol:
                solution = DualSolution(balanced, best, gap, passes)
                return solution, solution
        if passes >= most or stop:
            break
        inner = replace(inner, tol=TIGHTER * inner.tol)
    return DualSolution(state, shift, float("inf"), passes), None


def _taken_from_a_few(dual: GramDual, state: DualState) -> DualState | None:
    """Reduce a few large multipliers so that Σ y (a + t) = 0; return None if impossible."""
    excess = dual.excess(state)
    signed = np.sign(excess) * dual.y * state.multipliers
    giving = np.argpartition(signed, -min(GIVING, len(signed)))[-GIVING:]
    giving = giving[signed[giving] > 0.0]
    available = float(signed[giving].sum())
    if available < abs(excess):
        return None
    share = abs(excess) / available if available > 0.0 else 0.0
    return dual.replaced(state, giving, (1.0 - share) * state.multipliers[giving])


def _enclose(
    dual: Dual, options: SolverOptions, state: DualState, shift: float, passes: int
) -> DualSolution:
    """Bracket the intercept; `passes` is the number of passes made before."""
    inner = replace(options, tol=SHARE * options.tol)
    ends: dict[bool, _End] = {}
    best = DualSolution(state, shift, float("inf"), 0)
    last: _End | None = None
    while passes < options.max_iter and not options.report(0):
        state, more, _ = dual.descend(
            state, shift, replace(inner, max_iter=options.max_iter - passes)
        )
        passes += max(more, 1)
        options.report(max(more, 1))
        end = _End(shift, state, dual.excess(state))
        previous, last = last, end
        ends[end.excess > 0] = end
        mixture = _mixture(ends, end)
        if mixture is not None:
            middle = dual.best_shift(mixture, shift)
            gap = dual.relative_gap(mixture, middle, fit_intercept=True)
            if gap <= best.gap:
                best = DualSolution(mixture, middle, gap, passes)
        if best.gap <= options.tol:
            break
        following = _next_shift(dual, ends, end, previous)
        if any(following == other.shift for other in ends.values()):  # the bracket is closed
            if inner.tol < FINEST:
                break
            inner = replace(inner, tol=0.1 * inner.tol)
        shift = following
    if best.n_iter == 0:  # stopped before there was a bracket
        state = dual.state(_balanced(dual, state))
        shift = dual.best_shift(state, shift)
        gap = dual.relative_gap(state, shift, fit_intercept=True)
        best = DualSolution(state, shift, gap, passes)
    return replace(best, n_iter=passes)


def _balanced(dual: Dual, state: DualState) -> Array:
    """Reduce the multipliers of the side with the larger sum so that Σ y (a + t) = 0."""
    excess = dual.excess(state)
    signed = np.sign(excess) * dual.y * state.multipliers
    heavy = np.maximum(signed, 0.0).sum()
    if heavy < abs(excess):
        return state.multipliers
    factor = 1.0 - abs(excess) / heavy if heavy > 0 else 1.0
    return np.where(signed > 0, factor * state.multipliers, state.multipliers)


def _mixture(ends: dict[bool, _End], end: _End) -> DualState | None:
    """Compute the convex combination of both ends that satisfies Σ y (a + t) = 0."""
    if end.excess == 0:
        return end.state
    if len(ends) < 2:
        return None
    above, below = ends[True], ends[False]
    share = above.excess / (above.excess - below.excess)
    return above.state.mix(below.state, share)


def _next_shift(dual: Dual, ends: dict[bool, _End], end: _End, previous: _End | None) -> float:
    """Choose the next intercept; the excess Σ y (a + t) decreases as b grows."""
    if len(ends) == 2:
        above, below = ends[True], ends[False]
        share = above.excess / (above.excess - below.excess)
        # A value too close to an end would hardly shrink the bracket.
        share = min(max(share, 0.05), 0.95)
        return above.shift + share * (below.shift - above.shift)
    distance = max(abs(dual.best_shift(end.state, end.shift) - end.shift), SMALLEST_STEP)
    if previous is not None and end.shift != previous.shift:
        made = abs(end.shift - previous.shift)
        slope = (end.excess - previous.excess) / (end.shift - previous.shift)
        secant = -end.excess / slope if slope < 0 else np.inf
        distance = min(max(distance, abs(secant), made), 10.0 * made)
    return end.shift + OVERSHOOT * (distance if end.excess > 0 else -distance)
