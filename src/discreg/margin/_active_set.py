"""Active set method for a dual problem.

Every multiplier is in one of four places: negative, zero, positive below its limit, or at its
limit. If the places are known, the optimality conditions of the free multipliers (negative or
positive) are linear,

    (Q_FF + U_F) a_F + y_F b = e_F − Q_F (fixed a + t),      y_Fᵀ a_F = −yᵀ(fixed a + t),

and their solution shows which places are wrong. This is a semismooth Newton method, which ends
after finitely many steps. If U is zero (the hinge), a proximal term makes Q_FF definite.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from discreg.linalg.factorisation import EPS
from discreg.linalg.resources import one_blas_thread
from discreg.linalg.types import Array, Indices

from ._coordinate_descent import EXACT, DualSolution, solve_dual
from ._dual import Dual, DualState
from ._problem import BinaryProblem

__all__ = ["polish", "solve"]

Places = NDArray[np.int8]
NEGATIVE, ZERO, POSITIVE, LIMIT = -1, 0, 1, 2
LARGEST = 2_000  # maximum number of free multipliers
MAX_STEPS = 30
FIRST_PROXIMAL, LAST_PROXIMAL = 1e-2, 1e-6  # relative to the diagonal of the kernel
ROUNDS = 100
PATIENCE = 10  # rounds without a smaller gap before stopping
ROUNDING = 1e-13
SUCCESS = 1e-9  # relative gap that is small enough for every tolerance


def solve(problem: BinaryProblem, dual: Dual, *, fit_intercept: bool) -> DualSolution:
    """Solve a dual with the solver of the problem.

    Coordinate descent replaces the active set method if the latter does not succeed.
    """
    options, start = problem.options, None
    if problem.start is not None:
        lowest = -np.inf if dual.losses.is_smooth else 0.0
        multipliers = np.clip(problem.start[0], lowest, dual.losses.upper)
        start = (dual.state(multipliers), problem.start[1])
    if problem.solver == "active_set":
        exact = _solve_by_active_set(
            dual, fit_intercept=fit_intercept, max_iter=options.max_iter, start=start
        )
        if exact is not None and exact.gap <= max(options.tol, SUCCESS):
            options.report(exact.n_iter)
            return exact
    return solve_dual(dual, options, fit_intercept=fit_intercept, start=start)


def _solve_by_active_set(
    dual: Dual,
    *,
    fit_intercept: bool,
    max_iter: int,
    start: tuple[DualState, float] | None,
) -> DualSolution | None:
    """Solve a dual exactly; return None if `max_iter` linear systems are not enough.

    Without a start, all multipliers are free in the first system.
    """
    state, shift = (dual.start(), 0.0) if start is None else start
    places = np.full(len(dual.y), POSITIVE, dtype=np.int8)
    if start is not None:
        places = _places(dual, state.multipliers)
    method = _ActiveSet(dual, fit_intercept, max_iter)
    with one_blas_thread():
        return method.solve(state, shift, places)


def polish(dual: Dual, solution: DualSolution, *, fit_intercept: bool) -> DualSolution:
    """Refine an approximate solution; return it unchanged if the exact one is not found."""
    exact = _solve_by_active_set(
        dual,
        fit_intercept=fit_intercept,
        max_iter=ROUNDS * MAX_STEPS,
        start=(solution.state, solution.shift),
    )
    if exact is None or exact.gap > solution.gap:
        return solution
    return replace(exact, n_iter=solution.n_iter, solver=solution.solver)


class _ActiveSet:
    """Active set method on one dual problem, which counts the linear systems solved."""

    def __init__(self, dual: Dual, fit_intercept: bool, max_iter: int) -> None:
        self.dual, self.fit_intercept, self.max_iter = dual, fit_intercept, max_iter
        self.n_systems = 0

    def solve(self, state: DualState, shift: float, places: Places) -> DualSolution | None:
        """Run rounds of Newton's method, each with a smaller proximal term; None if they fail.

        A smooth loss needs no proximal term and one round only.
        """
        if self.dual.losses.is_smooth:
            found = self._newton(state, shift, places, 0.0)
            return None if found is None else self._solution(*found[:2])
        some = np.arange(min(len(self.dual.y), 100))
        unit = max(float(self.dual.kernel(some, some).diagonal().mean()), EPS)
        proximal = FIRST_PROXIMAL
        best: DualSolution | None = None
        waiting = 0
        for _ in range(ROUNDS):
            found = self._newton(state, shift, places, proximal * unit)
            if self.n_systems >= self.max_iter:
                return None
            if found is None:
                proximal *= 10.0
                continue
            following, new_shift, places = found
            change = np.abs(following.scores + new_shift - state.scores - shift).max()
            state, shift = following, new_shift
            solution = self._solution(state, shift)
            waiting += 1
            if best is None or solution.gap <= best.gap:
                best, waiting = solution, 0
            small = change <= ROUNDING * (1 + np.abs(state.scores).max())
            if best.gap <= EXACT or (small and proximal <= FIRST_PROXIMAL) or waiting == PATIENCE:
                break
            proximal = max(0.2 * proximal, LAST_PROXIMAL)
        return best

    def _solution(self, state: DualState, shift: float) -> DualSolution:
        gap = self.dual.relative_gap(state, shift, fit_intercept=self.fit_intercept)
        return DualSolution(state, shift, gap, max(self.n_systems, 1), "active_set")

    def _newton(
        self, start: DualState, shift: float, places: Places, proximal: float
    ) -> tuple[DualState, float, Places] | None:
        """Take Newton steps until the places do not change; return None if they do not settle."""
        dual = self.dual
        seen = set()
        for _ in range(MAX_STEPS):
            free = np.flatnonzero((places == NEGATIVE) | (places == POSITIVE))
            if len(free) > LARGEST or self.n_systems >= self.max_iter:
                return None
            multipliers = np.where(places == LIMIT, dual.losses.upper, 0.0)
            if len(free):
                solved = self._free_multipliers(
                    free, places, multipliers, start.multipliers, proximal
                )
                if solved is None:
                    return None
                multipliers[free], shift = solved
            state = dual.state(multipliers)
            if self.fit_intercept and not len(free):
                shift, nearest = _shift_between(dual, state, shift, places)
                if nearest is not None:  # without a free multiplier Σ y (a + t) cannot be made zero
                    places = places.copy()
                    places[nearest] = POSITIVE
                    continue
            following = _new_places(dual, state, shift, places, start.multipliers, proximal)
            if np.array_equal(following, places):
                return _inside(dual, state), shift, places
            key = following.tobytes()
            if key in seen:  # a cycle, because of rounding or because full steps are too long
                return None
            seen.add(key)
            places = following
        return None

    def _free_multipliers(
        self,
        free: Indices,
        places: Places,
        fixed: Array,
        centre: Array,
        proximal: float,
    ) -> tuple[Array, float] | None:
        """Solve the linear system of the free multipliers and the intercept."""
        self.n_systems += 1
        dual = self.dual
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
        if not self.fit_intercept:
            return solved[:, 0], 0.0
        # Σ y (a + t) over all samples must be zero.
        total = float(y @ (fixed + dual.tilt))
        slope = float(signs @ solved[:, 1])
        if not slope > 0:
            return None
        shift = (total + float(signs @ solved[:, 0])) / slope
        multipliers = solved[:, 0] - shift * solved[:, 1]
        # Correct the rounding error of the sum, which is large if the proximal term is small.
        rest_of_sum = (total + float(signs @ multipliers)) / slope
        return multipliers - rest_of_sum * solved[:, 1], shift


def _shift_between(
    dual: Dual, state: DualState, shift: float, places: Places
) -> tuple[float, int | None]:
    """Choose the intercept if no multiplier is free, and the sample that must become free, if any.

    With Σ y (a + t) = 0 an intercept is optimal if samples at zero have margins above 1 and samples
    at the limit have margins below 1. The middle of this interval is returned.
    """
    if dual.excess(state) != 0:
        shift = dual.best_shift(state, shift)
        margins = dual.y * (state.scores + shift)
        return shift, int(np.argmin(np.abs(margins - dual.losses.low)))
    kinks = dual.y * dual.losses.low - state.scores
    above = (places == LIMIT) == (dual.y > 0)  # kinks that are upper bounds of the intercept
    if above.all() or not above.any():
        return shift, None
    return 0.5 * float(kinks[above].min() + kinks[~above].max()), None


def _new_places(
    dual: Dual, state: DualState, shift: float, places: Places, centre: Array, proximal: float
) -> Places:
    """Update the places of the multipliers from the solution of the linear system."""
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
    """Clip the multipliers of a state to their limits, which rounding may exceed."""
    lowest = 0.0 if np.isinf(dual.losses.high) else -np.inf
    return DualState(
        np.clip(state.multipliers, lowest, dual.losses.upper), state.scores, state.coef
    )


def _places(dual: Dual, multipliers: Array) -> Places:
    places = np.sign(multipliers).astype(np.int8)
    places[multipliers >= dual.losses.upper] = LIMIT
    return places
