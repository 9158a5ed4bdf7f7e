"""The dual problem of one two-class fit, on a kernel matrix, on kernel rows in a cache, or on rows.

All three hold the same problem (see `_loops`) and offer the same: descend for a fixed intercept,
compute scores of given multipliers, and give the kernel between a few samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from discreg.linalg.rows import rmatmul, row_norms, times

from ._terms import Terms

__all__ = ["CachedDual", "Descent", "Dual", "GramDual", "RowDual", "State", "compiled_rows"]

Array = NDArray[np.float64]
WORKING_SET = 256
LOCAL_PASSES = 20
PULL = 0.1  # of an intercept that is found along with the multipliers, relative to the kernel
WORTH_A_VISIT = 0.1  # share of the gap, relative to the mean one
ROUNDING = 1e-14  # of a sum, relative to its terms
FEASIBLE = 1e-9  # the same for a sum that a linear system has made zero


@dataclass(frozen=True)
class State:
    """Multipliers with the scores they bring, and the coefficients where there are features."""

    multipliers: Array
    scores: Array
    coef: Array | None = None

    def mix(self, other: State, share: float) -> State:
        """This state and a share of the other: all its parts are linear in the multipliers."""

        def between(mine: Array, its: Array) -> Array:
            return (1.0 - share) * mine + share * its

        coef = None
        if self.coef is not None and other.coef is not None:
            coef = between(self.coef, other.coef)
        return State(
            between(self.multipliers, other.multipliers), between(self.scores, other.scores), coef
        )


@dataclass(frozen=True)
class Descent:
    """How passes over the multipliers are made."""

    tol: float
    max_passes: int
    shuffled: bool = True
    shrinking: bool = True
    seed: int = 0

    def options(self) -> tuple[float, int, bool, bool, int]:
        """Everything, in the order in which compiled loops take it."""
        return self.tol, self.max_passes, self.shuffled, self.shrinking, self.seed


class Dual(ABC):
    """The dual of a two-class problem: labels ±1, losses, and tilts that multipliers add to."""

    def __init__(self, y: Array, terms: Terms, tilt: Array | None = None) -> None:
        self.y, self.terms = y, terms
        self.tilt = np.zeros(len(y)) if tilt is None else tilt

    @abstractmethod
    def state(self, multipliers: Array) -> State:
        """The state of given multipliers."""

    @abstractmethod
    def descend(self, state: State, shift: float, how: Descent) -> tuple[State, int, float]:
        """Coordinate descent for a fixed intercept: new state, passes, relative gap."""

    @abstractmethod
    def kernel(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
        """Kernel between some samples and others."""

    def solve(self, samples: NDArray[np.intp], ridge: Array, right: Array) -> Array:
        """Solve (K + diag(ridge)) Z = right for the kernel K of some samples with themselves."""
        matrix = self.kernel(samples, samples)
        matrix[np.diag_indices_from(matrix)] += ridge
        factor = linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(linalg.cho_solve(factor, right, check_finite=False))

    def intercept(self, state: State, shift: float) -> float:
        """The intercept for the samples as they are, where the dual has moved them."""
        return shift

    def start(self) -> State:
        """The state without any multiplier."""
        return self.state(np.zeros(len(self.y)))

    def relative_gap(self, state: State, shift: float, *, fit_intercept: bool) -> float:
        """Duality gap relative to the objective without what the tilts earn.

        Multipliers that do not satisfy Σ y (a + t) = 0 prove nothing about the best intercept.
        """
        gap, unit = self._gap(state, shift)
        if fit_intercept:
            excess = abs(self.excess(state))
            if excess > FEASIBLE * float(np.abs(state.multipliers + self.tilt).sum()):
                return np.inf
            gap += excess * abs(shift)
        return gap / unit

    def _gap(self, state: State, shift: float) -> tuple[float, float]:
        """Duality gap for a fixed intercept, and the objective without what the tilts earn."""
        margins = self.y * (state.scores + shift)
        gap = self.terms.gap(state.multipliers, margins)
        return max(gap, 0.0), max(self._convex_part(state, margins), 1e-300)

    def objective(self, state: State, shift: float) -> float:
        """The primal objective."""
        margins = self.y * (state.scores + shift)
        return self._convex_part(state, margins) - float(self.tilt @ margins)

    def lower_bound(self, state: State, shift: float) -> float:
        """The dual objective."""
        return self.objective(state, shift) - self._gap(state, shift)[0]

    def _convex_part(self, state: State, margins: Array) -> float:
        """Half the squared norm and the losses."""
        quadratic = 0.5 * float(self._signed(state.multipliers) @ state.scores)
        return quadratic + self.terms.loss(margins)

    def excess(self, state: State) -> float:
        """Σ y (a + t): zero at the best intercept, and minus the objective's slope along it."""
        multipliers = state.multipliers + self.tilt
        excess = float(self.y @ multipliers)
        return excess if abs(excess) > ROUNDING * float(np.abs(multipliers).sum()) else 0.0

    def best_shift(self, state: State, shift: float) -> float:
        """The intercept that is best for the scores as they are."""
        from . import _primal_loops

        margins = self.y * (state.scores + shift)
        slope = -float(self.tilt @ self.y)
        step = _primal_loops.minimum_along(margins, self.y, self.terms.arrays(), slope, 0.0)
        return shift + float(step)

    def _signed(self, multipliers: Array) -> Array:
        """The coefficients y (a + t) of the samples."""
        return self.y * (multipliers + self.tilt)


class GramDual(Dual):
    """The dual on a kernel matrix, in double or in single precision."""

    def __init__(self, gram: Array, y: Array, terms: Terms, tilt: Array | None = None) -> None:
        super().__init__(y, terms, tilt)
        self.gram = gram

    def state(self, multipliers: Array) -> State:
        from . import _loops

        return State(multipliers, _loops.gram_scores(self.gram, self._signed(multipliers)))

    def descend(self, state: State, shift: float, how: Descent) -> tuple[State, int, float]:
        state, _, passes, gap = self._descend(state, shift, 0.0, how)
        return state, passes, gap

    def descend_freely(
        self, state: State, shift: float, how: Descent
    ) -> tuple[State, float, int, float]:
        """Descent along with which the intercept is found: state, intercept, passes, gap.

        The gap is that for the intercept: Σ y (a + t) is near zero, but not zero.
        """
        pull = PULL * float(self.gram.diagonal().mean())
        return self._descend(state, shift, pull, how)

    def _descend(
        self, state: State, shift: float, pull: float, how: Descent
    ) -> tuple[State, float, int, float]:
        from . import _loops

        state = State(state.multipliers.copy(), state.scores.copy())
        passes, gap, shift = _loops.gram_descent(
            self.gram,
            self.y,
            self.tilt,
            self.terms.arrays(),
            shift,
            pull,
            state.multipliers,
            state.scores,
            *how.options(),
        )
        return state, shift, passes, gap

    def replaced(self, state: State, samples: NDArray[np.intp], multipliers: Array) -> State:
        """The state with other multipliers of a few samples."""
        from . import _loops

        changed = state.multipliers.copy()
        changed[samples] = multipliers
        steps = self.y[samples] * (multipliers - state.multipliers[samples])
        scores = state.scores.copy()
        _loops.add_rows(scores, steps, self.gram, samples)
        return State(changed, scores)

    def kernel(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
        return self.gram[np.ix_(rows, columns)].astype(np.float64)


class RowDual(Dual):
    """The dual on rows of features, dense or CSR: a step costs the entries of a row.

    With a `mean` the rows are meant minus it, which leaves the rows as they are: what is subtracted
    from scores and coefficients is kept as numbers beside them.
    """

    def __init__(
        self,
        X: Any,
        y: Array,
        terms: Terms,
        tilt: Array | None = None,
        mean: Array | None = None,
    ) -> None:
        super().__init__(y, terms, tilt)
        self.X = X
        self._mean = mean
        self._offsets, self._square = np.zeros(len(y)), 0.0
        self._norms = row_norms(X)
        if mean is not None:
            self._offsets, self._square = times(X, mean[:, None])[:, 0], float(mean @ mean)
            self._norms = np.maximum(self._norms - 2.0 * self._offsets + self._square, 0.0)
        self._rows = compiled_rows(X)

    def state(self, multipliers: Array) -> State:
        signed = self._signed(multipliers)
        coef = rmatmul(self.X, signed[:, None])[:, 0]
        if self._mean is not None:
            coef -= signed.sum() * self._mean
        return State(multipliers, self._scores(coef), coef)

    def intercept(self, state: State, shift: float) -> float:
        if self._mean is None or state.coef is None:
            return shift
        return shift - float(self._mean @ state.coef)

    def _scores(self, coef: Array) -> Array:
        scores = times(self.X, coef[:, None])[:, 0]
        return scores if self._mean is None else scores - self._mean @ coef

    def descend(self, state: State, shift: float, how: Descent) -> tuple[State, int, float]:
        from . import _loops

        assert state.coef is not None
        coef = state.coef.copy()
        state = State(state.multipliers.copy(), state.scores.copy(), coef)
        drift, passes, gap = _loops.row_descent(
            self._rows,
            self._norms,
            self._offsets,
            self._square,
            0.0 if self._mean is None else float(self._mean @ coef),
            self.y,
            self.tilt,
            self.terms.arrays(),
            shift,
            state.multipliers,
            coef,
            state.scores,
            *how.options(),
        )
        if self._mean is not None:
            coef -= drift * self._mean
        return state, passes, gap

    def kernel(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
        product = self.X[rows].astype(np.float64) @ self.X[columns].T
        kernel = np.asarray(product.toarray() if sparse.issparse(product) else product)
        if self._mean is not None:
            kernel -= self._offsets[rows][:, None] + self._offsets[columns] - self._square
        return kernel

    def solve(self, samples: NDArray[np.intp], ridge: Array, right: Array) -> Array:
        """The same in the space of the features where they are fewer than the samples.

        By Woodbury's identity, with one step of refinement for the digits that it loses.
        """
        if sparse.issparse(self.X) or len(samples) <= self.X.shape[1] or not np.all(ridge > 0):
            return super().solve(samples, ridge, right)
        rows = self.X[samples].astype(np.float64)
        if self._mean is not None:
            rows -= self._mean
        scaled = rows / ridge[:, None]
        inner = rows.T @ scaled
        inner[np.diag_indices_from(inner)] += 1.0
        factor = linalg.cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)

        def inverse(vectors: Array) -> Array:
            image = linalg.cho_solve(factor, rows.T @ (vectors / ridge[:, None]))
            return vectors / ridge[:, None] - scaled @ image

        found = inverse(right)
        return found + inverse(right - ridge[:, None] * found - rows @ (rows.T @ found))


class CachedDual(Dual):
    """The dual on kernel rows that are computed when needed and kept while they fit.

    Samples that violate their optimality are taken in sets: fetch their rows, descend on them
    alone, and bring the scores of all samples up to date. As many sets as hold all samples count as
    one pass.

    Parameters
    ----------
    rows_of : callable
        ``rows_of(samples)`` gives the kernel between these samples and all.
    n_rows : int
        How many rows are kept; at least two.
    """

    def __init__(
        self,
        rows_of: Callable[[NDArray[np.intp]], Array],
        n_rows: int,
        y: Array,
        terms: Terms,
        tilt: Array | None = None,
    ) -> None:
        super().__init__(y, terms, tilt)
        self._rows_of, self._n_rows = rows_of, max(n_rows, 2)
        self._cache: OrderedDict[int, Array] = OrderedDict()
        self._next = 0

    def rows(self, samples: NDArray[np.intp]) -> Array:
        """Kernel rows of some samples, from the cache where it has them."""
        missing = np.array([i for i in samples.tolist() if i not in self._cache], dtype=np.intp)
        fetched = dict(zip(missing.tolist(), self._rows_of(missing), strict=True))
        rows = np.array([fetched[i] if i in fetched else self._cache[i] for i in samples.tolist()])
        for i in samples.tolist():
            if i in fetched:
                self._cache[i] = fetched[i].copy()  # alone: a view would hold all that was fetched
            self._cache.move_to_end(i)
        while len(self._cache) > self._n_rows:
            self._cache.popitem(last=False)
        return rows

    def state(self, multipliers: Array) -> State:
        signed = self._signed(multipliers)
        scores = np.zeros(len(signed))
        support = np.flatnonzero(signed)
        step = min(WORKING_SET, self._n_rows)
        for start in range(0, len(support), step):
            block = support[start : start + step]
            scores += signed[block] @ self._rows_of(block)
        return State(multipliers, scores)

    def descend(self, state: State, shift: float, how: Descent) -> tuple[State, int, float]:
        multipliers, scores = state.multipliers.copy(), state.scores.copy()
        state = State(multipliers, scores)
        size = min(WORKING_SET, self._n_rows, len(multipliers))
        random = np.random.default_rng(how.seed)
        sets, most = 0, ceil(how.max_passes * len(multipliers) / size)
        while sets < most:
            samples = self._working_set(state, shift, size, random if how.shuffled else None)
            if not len(samples):
                break
            rows = self.rows(samples)
            local = GramDual(
                np.ascontiguousarray(rows[:, samples]),
                self.y[samples],
                self.terms.take(samples),
                self.tilt[samples],
            )
            start = State(multipliers[samples], scores[samples])
            inner = replace(how, tol=0.1 * how.tol, max_passes=LOCAL_PASSES, seed=how.seed + sets)
            end, _, _ = local.descend(start, shift, inner)
            scores += (self.y[samples] * (end.multipliers - start.multipliers)) @ rows
            multipliers[samples] = end.multipliers
            sets += 1
            gap, unit = self._gap(state, shift)
            if gap <= how.tol * unit:
                break
        gap, unit = self._gap(state, shift)
        return state, ceil(sets * size / len(multipliers)), gap / unit

    def _working_set(
        self, state: State, shift: float, size: int, random: np.random.Generator | None
    ) -> NDArray[np.intp]:
        """Some of the samples that have a good part of the gap: by chance, or one after another.

        Those that have most of it are alike, and to take them first is many times slower.
        """
        violation = self._violation(state, shift)
        candidates = np.flatnonzero(violation > WORTH_A_VISIT * violation.mean())
        if len(candidates) > size:
            if random is None:
                candidates = np.roll(candidates, -int(np.searchsorted(candidates, self._next)))
            else:
                candidates = random.permutation(candidates)
            self._next = int(candidates[size - 1]) + 1
        return np.sort(candidates[:size])

    def _violation(self, state: State, shift: float) -> Array:
        """What each sample has of the duality gap."""
        margins = self.y * (state.scores + shift)
        best = self.terms.multipliers(margins)
        gain = self.terms.gains(best) - self.terms.gains(state.multipliers)
        return np.maximum(gain - (best - state.multipliers) * margins, 0.0)

    def kernel(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
        return self._rows_of(rows)[:, columns]


def compiled_rows(X: Any) -> tuple[Any, ...]:
    """Rows in the form that compiled loops take, dense or CSR."""
    if sparse.issparse(X):
        return np.empty((0, 0)), X.data, X.indices, X.indptr, True
    none = np.empty(0, dtype=np.int32)
    return np.ascontiguousarray(X), np.empty(0), none, none, False
