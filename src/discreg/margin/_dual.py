"""The dual problem of one two-class fit, coordinate descent on it, and the active set method.

For multipliers a and fixed tilts t it is

    min over a of ½ (a + t)ᵀ Q (a + t) − Σ gain_i(a_i),        Q = Y K Y,

with gain_i(a) = −ℓ_i*(−a), and the constraint Σ y (a + t) = 0 if there is an intercept.

Coordinate descent. The minimum over one coordinate has a closed form. The method of multipliers
finds the intercept along with the multipliers. At the end a few of them are changed so that the
constraint holds, which makes the gap rigorous.

Active set method. Every multiplier is in one of four places: negative, zero, positive below its
limit, or at its limit. If the places are known, the optimality conditions of the free multipliers
(negative or positive) are linear,

    (Q_FF + U_F) a_F + y_F b = e_F − Q_F (fixed a + t),      y_Fᵀ a_F = −yᵀ(fixed a + t),

and their solution shows which places are wrong. This is a semismooth Newton method, which ends
after finitely many steps. If U is zero (the hinge), a proximal term makes Q_FF definite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from discreg.linalg.factorisation import EPS
from discreg.linalg.resources import one_blas_thread
from discreg.linalg.rows import matmul, rmatmul, row_norms
from discreg.linalg.types import Array, Indices

from ._losses import CLEARLY, PATIENCE, SampleLosses

PULL = 0.1  # step of the intercept in the method of multipliers, relative to the kernel
ROUNDING = 1e-14  # rounding error of Σ y (a + t), relative to the sum of the absolute values
FEASIBLE = 1e-9  # largest relative Σ y (a + t) of feasible multipliers
EXACT = 1e-15  # relative gap due to rounding
# Coordinate descent
SHARE = 0.7  # share of the tolerance before Σ y (a + t) = 0
TIGHTER = 0.3  # factor of the tolerance if Σ y (a + t) is too large after a round
GIVING = 64  # number of multipliers that are reduced to make Σ y (a + t) zero
# Active set method
Places = NDArray[np.int8]
NEGATIVE, ZERO, POSITIVE, LIMIT = -1, 0, 1, 2
LARGEST = 2_000  # maximum number of free multipliers
MAX_STEPS = 30
FIRST_PROXIMAL, LAST_PROXIMAL = 1e-2, 1e-6  # relative to the diagonal of the kernel
ROUNDS = 100
STALLED = 10  # rounds without a smaller gap before stopping
UNCHANGED = 1e-13  # relative change of the scores due to rounding


@dataclass(frozen=True)
class DualState:
    """Multipliers, their scores, and for a linear kernel the coefficients of the features."""

    multipliers: Array
    scores: Array
    coef: Array | None = None


@dataclass(frozen=True)
class SolverOptions:
    """Tolerance, iteration limit and sampling options of a solver."""

    tol: float
    max_iter: int
    seed: int = 0
    svrg_step: float = 0.5


Descended = tuple[DualState, float, int]  # new state and intercept, and passes


class Dual(ABC):
    """Base class of the dual of a two-class problem with labels ±1."""

    def __init__(self, y: Array, losses: SampleLosses) -> None:
        self.y, self.losses, self.tilt = y, losses, losses.tilt

    @abstractmethod
    def state(self, multipliers: Array) -> DualState:
        """Compute the state of given multipliers."""

    @abstractmethod
    def descend(
        self, state: DualState, shift: float, pull: float, options: SolverOptions
    ) -> Descended:
        """Run coordinate descent; with a pull, the intercept changes by pull · Σ y (a + t).

        Σ y (a + t) is then close to zero, but not zero.
        """

    @property
    @abstractmethod
    def diagonal(self) -> Array:
        """Kernel of each sample with itself."""

    @abstractmethod
    def kernel(self, rows: Indices, columns: Indices) -> Array:
        """Compute the kernel between two sets of samples."""

    def solve(self, samples: Indices, ridge: Array, right: Array) -> Array:
        """Solve (K + diag(ridge)) Z = right for the kernel K of some samples with themselves."""
        matrix = self.kernel(samples, samples)
        matrix[np.diag_indices_from(matrix)] += ridge
        factor = linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(linalg.cho_solve(factor, right, check_finite=False))

    def start(self) -> DualState:
        """Return the state with all multipliers zero."""
        return self.state(np.zeros(len(self.y)))

    def relative_gap(self, state: DualState, shift: float, *, fit_intercept: bool) -> float:
        """Compute the duality gap relative to the objective without the term of the tilts.

        With an intercept, multipliers that do not satisfy Σ y (a + t) = 0 are not feasible. Without
        tilts the objective is not negative, and the gap is at most 1.
        """
        gap, unit = self.gap_and_unit(state, shift)
        largest = np.inf if self.tilt.any() else 1.0
        if fit_intercept:
            excess = abs(self.excess(state))
            if excess > FEASIBLE * float(np.abs(state.multipliers + self.tilt).sum()):
                return largest
            gap += excess * abs(shift)
        return min(largest, gap / unit)

    def gap_and_unit(self, state: DualState, shift: float) -> tuple[float, float]:
        """Compute the gap for a fixed intercept and the objective without the term of the tilts."""
        margins = self.y * (state.scores + shift)
        gap = float(self.losses.gaps(state.multipliers, margins).sum())
        return max(gap, 0.0), max(self._convex_part(state, margins), 1e-300)

    def objective(self, state: DualState, shift: float) -> float:
        """Compute the primal objective."""
        margins = self.y * (state.scores + shift)
        return self._convex_part(state, margins) - float(self.tilt @ margins)

    def lower_bound(self, state: DualState, shift: float) -> float:
        """Compute the dual objective."""
        return self.objective(state, shift) - self.gap_and_unit(state, shift)[0]

    def _convex_part(self, state: DualState, margins: Array) -> float:
        """Compute half the squared norm plus the losses."""
        quadratic = 0.5 * float(self.signed(state.multipliers) @ state.scores)
        return quadratic + self.losses.value(margins)

    def excess(self, state: DualState) -> float:
        """Compute Σ y (a + t), which is minus the derivative of the objective by the intercept."""
        multipliers = state.multipliers + self.tilt
        excess = float(self.y @ multipliers)
        return excess if abs(excess) > ROUNDING * float(np.abs(multipliers).sum()) else 0.0

    def best_shift(self, state: DualState, shift: float) -> float:
        """Compute the optimal intercept for fixed scores."""
        margins = self.y * (state.scores + shift)
        slope = -float(self.tilt @ self.y)
        return shift + self.losses.intercept_step(margins, self.y, slope)

    def signed(self, multipliers: Array) -> Array:
        """Compute the coefficients y (a + t) of the samples."""
        return self.y * (multipliers + self.tilt)


class GramDual(Dual):
    """Dual on a kernel matrix."""

    def __init__(self, gram: Array, y: Array, losses: SampleLosses) -> None:
        super().__init__(y, losses)
        self.gram = gram

    def state(self, multipliers: Array) -> DualState:
        return DualState(multipliers, self.gram @ self.signed(multipliers))

    @property
    def diagonal(self) -> Array:
        return self.gram.diagonal()

    def descend(
        self, state: DualState, shift: float, pull: float, options: SolverOptions
    ) -> Descended:
        from ._loops import BLOCK, descent_arrays, gram_descent

        state = DualState(state.multipliers.copy(), state.scores.copy())
        shift, passes = gram_descent(
            self.gram,
            (self.y, self.tilt, self.losses.arrays()),
            shift,
            pull,
            state.multipliers,
            state.scores,
            options.tol,
            options.max_iter,
            descent_arrays(len(self.y), options.seed),
            np.empty((BLOCK + 3, BLOCK)),
        )
        return state, shift, passes

    def kernel(self, rows: Indices, columns: Indices) -> Array:
        return self.gram[np.ix_(rows, columns)]


class RowDual(Dual):
    """Dual on rows of features, dense or CSR; a step of descent costs as much as one row."""

    def __init__(self, X: Any, y: Array, losses: SampleLosses) -> None:
        super().__init__(y, losses)
        self.X, self._norms = X, row_norms(X)

    def state(self, multipliers: Array) -> DualState:
        coef = rmatmul(self.X, self.signed(multipliers)[:, None])[:, 0]
        return DualState(multipliers, matmul(self.X, coef[:, None])[:, 0], coef)

    @property
    def diagonal(self) -> Array:
        return self._norms

    def descend(
        self, state: DualState, shift: float, pull: float, options: SolverOptions
    ) -> Descended:
        from ._loops import compiled_rows, descent_arrays, row_descent

        assert state.coef is not None
        coef = state.coef.copy()
        state = DualState(state.multipliers.copy(), state.scores.copy(), coef)
        shift, passes = row_descent(
            compiled_rows(self.X),
            self._norms,
            (self.y, self.tilt, self.losses.arrays()),
            shift,
            pull,
            state.multipliers,
            coef,
            state.scores,
            options.tol,
            options.max_iter,
            descent_arrays(len(self.y), options.seed),
        )
        return state, shift, passes

    def kernel(self, rows: Indices, columns: Indices) -> Array:
        product = self.X[rows].astype(np.float64) @ self.X[columns].T
        return np.asarray(product.toarray() if sparse.issparse(product) else product)

    def solve(self, samples: Indices, ridge: Array, right: Array) -> Array:
        """Solve (K + diag(ridge)) Z = right, in feature space if features are fewer than samples.

        This uses Woodbury's identity and one step of iterative refinement.
        """
        if sparse.issparse(self.X) or len(samples) <= self.X.shape[1] or not np.all(ridge > 0):
            return super().solve(samples, ridge, right)
        rows = self.X[samples].astype(np.float64)
        scaled = rows / ridge[:, None]
        inner = rows.T @ scaled
        inner[np.diag_indices_from(inner)] += 1.0
        factor = linalg.cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)

        def inverse(vectors: Array) -> Array:
            image = linalg.cho_solve(
                factor, rows.T @ (vectors / ridge[:, None]), check_finite=False
            )
            return np.asarray(vectors / ridge[:, None] - scaled @ image)

        found = inverse(right)
        return found + inverse(right - ridge[:, None] * found - rows @ (rows.T @ found))


@dataclass(frozen=True)
class DualSolution:
    """State with its intercept, relative duality gap, number of iterations and solver."""

    state: DualState
    shift: float
    gap: float
    n_iter: int  # passes of coordinate descent, or linear systems of the active set method
    solver: str = "dcd"
    limited: bool = False  # whether the iteration limit ended the descent


def solve_dual(
    dual: Dual,
    options: SolverOptions,
    *,
    fit_intercept: bool,
    start: tuple[DualState, float] | None = None,
) -> DualSolution:
    """Find multipliers and intercept by coordinate descent, up to the tolerance.

    Once the gap for a fixed intercept is small, a few multipliers are changed so that
    Σ y (a + t) = 0. If the gap is then too large, the descent continues with a smaller tolerance.
    """
    tol = max(options.tol, EXACT)
    state, shift = (dual.start(), 0.0) if start is None else start
    pull = PULL * float(dual.diagonal.mean()) if fit_intercept else 0.0
    shift = dual.best_shift(state, shift) if fit_intercept else 0.0
    best = DualSolution(state, shift, np.inf, 0)
    inner, passes, idle = SHARE * tol if fit_intercept else tol, 0, 0
    while passes < options.max_iter and best.gap > tol and idle < PATIENCE:
        rest = replace(options, tol=inner, max_iter=options.max_iter - passes)
        state, shift, more = dual.descend(state, shift, pull, rest)
        passes += more
        # Anew: updates have rounding errors if multipliers became much larger than at the end.
        multipliers = _balanced(dual, state) if fit_intercept else state.multipliers
        feasible = dual.state(multipliers)
        middle = dual.best_shift(feasible, shift) if fit_intercept else 0.0
        gap = dual.relative_gap(feasible, middle, fit_intercept=fit_intercept)
        idle = 0 if gap < CLEARLY * best.gap else idle + 1
        if gap < best.gap:
            best = DualSolution(feasible, middle, gap, passes)
        inner *= TIGHTER
    limited = best.gap > tol and passes >= options.max_iter
    return replace(best, n_iter=passes, limited=limited)


def _balanced(dual: Dual, state: DualState) -> Array:
    """Return multipliers changed so that Σ y (a + t) = 0: a few large ones, or all of one side."""
    excess = dual.excess(state)
    signed = np.sign(excess) * dual.y * state.multipliers
    giving = np.argpartition(signed, -min(GIVING, len(signed)))[-GIVING:]
    giving = giving[signed[giving] > 0.0]
    if signed[giving].sum() < abs(excess):
        giving = np.flatnonzero(signed > 0.0)
    available = float(signed[giving].sum())
    share = min(abs(excess) / available, 1.0) if available > 0.0 else 0.0
    multipliers = state.multipliers.copy()
    multipliers[giving] *= 1.0 - share
    return multipliers


def solve_by_active_set(
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
    exact = solve_by_active_set(
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
            small = change <= UNCHANGED * (1 + np.abs(state.scores).max())
            if best.gap <= EXACT or (small and proximal <= FIRST_PROXIMAL) or waiting == STALLED:
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
                shift = dual.best_shift(state, shift)
                if dual.excess(state) != 0:  # no free multiplier can make Σ y (a + t) zero
                    margins = dual.y * (state.scores + shift)
                    places = places.copy()
                    places[np.argmin(np.abs(margins - dual.losses.low))] = POSITIVE
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
