"""The exact end of a dual problem: once the free multipliers are known, it is a linear system.

Every multiplier is in one of four places: negative, zero, positive below its limit, or at it.
For the free ones the optimality conditions are linear,

    (Q_FF + U_F) a_F + y_F b = e_F − Q_F (fixed a + t),      y_Fᵀ a_F = −yᵀ(fixed a + t),

and their solution shows which places were wrong: a semismooth Newton method, which ends after
finitely many steps. Where U is zero (the hinge) a proximal term makes Q_FF definite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from discreg.linalg.factorisation import EPS
from discreg.linalg.resources import (
    one_blas_thread,
)

from ._coordinate_descent import DualSolution
from ._dual import Dual, DualState

__all__ = ["polish"]

Array = NDArray[np.float64]
Places = NDArray[np.int8]
NEGATIVE, ZERO, POSITIVE, LIMIT = -1, 0, 1, 2
LARGEST = 2_000  # free multipliers of a system that is still solved directly
MAX_STEPS = 30
FIRST_PROXIMAL, LAST_PROXIMAL = 1e-2, 1e-6  # relative to the diagonal of the kernel
ROUNDS = 100
PATIENCE = 10  # rounds that bring no smaller gap
ROUNDING = 1e-13
EXACT = 1e-15  # a relative gap that rounding alone leaves


def polish(dual: Dual, solution: DualSolution, *, fit_intercept: bool) -> DualSolution:
    """The exact solution near an approximate one, or the better of both where it is not found."""
    with one_blas_thread():
        exact = _solve(dual, solution, fit_intercept=fit_intercept)
    if exact is None:
        return solution
    state, shift = exact
    gap = dual.relative_gap(state, shift, fit_intercept=fit_intercept)
    if gap > solution.gap:
        return solution
    return DualSolution(state, shift, gap, solution.n_passes)


def _solve(
    dual: Dual, solution: DualSolution, *, fit_intercept: bool
) -> tuple[DualState, float] | None:
    """Rounds of Newton's method, the proximal term smaller after each; None without success.

    A smooth loss needs no such term and one round.
    """
    state, shift = solution.state, solution.shift
    places = _places(dual, state.multipliers)
    if dual.losses.is_smooth:
        found = _newton(dual, state, shift, places, 0.0, fit_intercept)
        return None if found is None else found[:2]
    unit = max(float(_diagonal(dual).mean()), EPS)
    proximal = FIRST_PROXIMAL
    best, smallest, waiting = None, np.inf, 0
    for _ in range(ROUNDS):
        found = _newton(dual, state, shift, places, proximal * unit, fit_intercept)
        if found is None:
            proximal *= 10.0
            continue
        following, new_shift, places = found
        change = np.abs(following.scores + new_shift - state.scores - shift).max()
        state, shift = following, new_shift
        gap = dual.relative_gap(state, shift, fit_intercept=fit_intercept)
        if best is None or gap < smallest:
            best, smallest = (state, shift), gap
        small = change <= ROUNDING * (1 + np.abs(state.scores).max())
        waiting = 0 if gap <= smallest else waiting + 1
        if smallest <= EXACT or (small and proximal <= FIRST_PROXIMAL) or waiting == PATIENCE:
            break
        proximal = max(0.2 * proximal, LAST_PROXIMAL)
    return best


def _newton(
    dual: Dual,
    start: DualState,
    shift: float,
    places: Places,
    proximal: float,
    fit_intercept: bool,
) -> tuple[DualState, float, Places] | None:
    """Newton's steps from one set of places to the next until none changes."""
    seen = set()
    for _ in range(MAX_STEPS):
        free = np.flatnonzero((places == NEGATIVE) | (places == POSITIVE))
        if len(free) > LARGEST:
            return None
        multipliers = np.where(places == LIMIT, dual.losses.upper, 0.0)
        if len(free):
            solved = _free_multipliers(
                dual, free, places, multipliers, start.multipliers, proximal, fit_intercept
            )
            if solved is None:
                return None
            multipliers[free], shift = solved
        state = dual.state(multipliers)
        if fit_intercept and not len(free):
            shift, nearest = _shift_between(dual, state, shift, places)
            if nearest is not None:  # without a free multiplier Σ y (a + t) cannot be made zero
                places = places.copy()
                places[nearest] = POSITIVE
                continue
        following = _new_places(dual, state, shift, places, start.multipliers, proximal)
        if np.array_equal(following, places):
            return _inside(dual, state), shift, places
        key = following.tobytes()
        if key in seen:  # a cycle: places that rounding cannot tell apart, or no progress
            return None
        seen.add(key)
        places = following
    return None


def _shift_between(
    dual: Dual, state: DualState, shift: float, places: Places
) -> tuple[float, int | None]:
    """The intercept where no multiplier is free, and the sample that must become so, if any.

    With Σ y (a + t) = 0 every intercept is optimal that leaves the samples at zero beyond 1 and
    those at the limit below it: the middle of that interval.
    """
    if dual.excess(state) != 0:
        shift = dual.best_shift(state, shift)
        margins = dual.y * (state.scores + shift)
        return shift, int(np.argmin(np.abs(margins - dual.losses.low)))
    kinks = dual.y * dual.losses.low - state.scores
    above = (places == LIMIT) == (dual.y > 0)  # kinks that the intercept may not exceed
    if above.all() or not above.any():
        return shift, None
    return 0.5 * float(kinks[above].min() + kinks[~above].max()), None


def _free_multipliers(
    dual: Dual,
    free: NDArray[np.intp],
    places: Places,
    fixed: Array,
    centre: Array,
    proximal: float,
    fit_intercept: bool,
) -> tuple[Array, float] | None:
    """Solution of the linear system of the free multipliers, and the intercept."""
    losses, y = dual.losses, dual.y
    positive = places[free] == POSITIVE
    ridge = np.where(positive, losses.ridge_low[free], losses.ridge_high[free])
    target = np.where(positive, losses.low, losses.high)
    signs = y[free]
    rest = dual.state(fixed).scores[free]
    right = np.column_stack([target - signs * rest + proximal * centre[free], signs])
    try:  # (Q_FF + U_F) = Y (K_FF + U_F) Y
        solved = signs[:, None] * dual.solve(free, ridge + proximal, signs[:, None] * right)
    except linalg.LinAlgError:
        return None
    if not fit_intercept:
        return solved[:, 0], 0.0
    # Σ y a over the free ones must cancel that over the others.
    total = float(y @ (fixed + dual.tilt))
    slope = float(signs @ solved[:, 1])
    shift = (total + float(signs @ solved[:, 0])) / slope
    multipliers = solved[:, 0] - shift * solved[:, 1]
    # What rounding has left of the sum, which a small proximal term makes large.
    rest_of_sum = (total + float(signs @ multipliers)) / slope
    return multipliers - rest_of_sum * solved[:, 1], shift


def _new_places(
    dual: Dual, state: DualState, shift: float, places: Places, centre: Array, proximal: float
) -> Places:
    """Where the multipliers belong by the margins that the solved system gave."""
    losses = dual.losses
    margins = dual.y * (state.scores + shift)
    a = state.multipliers
    following = places.copy()
    following[(places == POSITIVE) & (a <= 0)] = ZERO
    following[(places == POSITIVE) & (a > losses.upper)] = LIMIT
    following[(places == NEGATIVE) & (a >= 0)] = ZERO
    pull = margins + proximal * (a - centre)
    slack = 1e-13 * (1.0 + np.abs(margins))
    following[(places == ZERO) & (pull < losses.low - slack)] = POSITIVE
    following[(places == ZERO) & (pull > losses.high + slack)] = NEGATIVE
    following[(places == LIMIT) & (pull > losses.low + slack)] = POSITIVE
    return following


def _inside(dual: Dual, state: DualState) -> DualState:
    """The state with multipliers inside their limits, which rounding may leave."""
    lowest = 0.0 if np.isinf(dual.losses.high) else -np.inf
    return DualState(
        np.clip(state.multipliers, lowest, dual.losses.upper), state.scores, state.coef
    )


def _places(dual: Dual, multipliers: Array) -> Places:
    places = np.sign(multipliers).astype(np.int8)
    places[multipliers >= dual.losses.upper] = LIMIT
    return places


def _diagonal(dual: Dual) -> Array:
    """Kernel of some samples with themselves, for the scale of the problem."""
    some = np.arange(min(len(dual.y), 100))
    return dual.kernel(some, some).diagonal()
