"""The dual problem of one two-class fit, on a kernel matrix or on rows of features.

The classes here and `CachedDual` represent the problem stated in `_coordinate_descent_loops` for
different forms of the data. Each implements coordinate descent for a fixed intercept, the scores of
given multipliers, and the kernel between given samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from discreg.linalg.iterations import Report, unreported
from discreg.linalg.rows import matmul, rmatmul, row_norms
from discreg.linalg.types import Array, Indices

from ._losses import SampleLosses
from ._svrg import SVRG_STEP

__all__ = [
    "CLEARLY",
    "PATIENCE",
    "PULL",
    "Descended",
    "Dual",
    "DualState",
    "GramDual",
    "RowDual",
    "SolverOptions",
]

PULL = 0.1  # step of the intercept in the method of multipliers, relative to the kernel
ROUNDING = 1e-14  # rounding error of Σ y (a + t), relative to the sum of the absolute values
BLOCK_ROWS = 256  # number of rows of a kernel matrix in one product
PATIENCE = 5  # idle passes before coordinate descent ends
CLEARLY = 0.99  # ratio of gaps below which a gap is clearly smaller
FEASIBLE = 1e-9  # largest relative Σ y (a + t) of feasible multipliers


@dataclass(frozen=True)
class DualState:
    """Multipliers, their scores, and for a linear kernel the coefficients of the features."""

    multipliers: Array
    scores: Array
    coef: Array | None = None

    def mix(self, other: DualState, share: float) -> DualState:
        """Compute the convex combination with another state."""

        def between(mine: Array, its: Array) -> Array:
            return (1.0 - share) * mine + share * its

        coef = None
        if self.coef is not None and other.coef is not None:
            coef = between(self.coef, other.coef)
        return DualState(
            between(self.multipliers, other.multipliers), between(self.scores, other.scores), coef
        )


@dataclass(frozen=True)
class SolverOptions:
    """Tolerance, iteration limit and sampling options of a solver, and who watches it."""

    tol: float
    max_iter: int
    shuffled: bool = True
    shrinking: bool = True
    seed: int = 0
    svrg_step: float = SVRG_STEP
    report: Report = unreported  # called with the number of iterations that are done

    def as_tuple(self) -> tuple[float, int, bool, bool]:
        """Return the options of coordinate descent, in the order that compiled loops expect."""
        return float(self.tol), self.max_iter, self.shuffled, self.shrinking


Descended = tuple[DualState, int, float]  # new state, passes, relative gap


class Dual(ABC):
    """Base class of the dual of a two-class problem with labels ±1."""

    def __init__(self, y: Array, losses: SampleLosses) -> None:
        self.y, self.losses, self.tilt = y, losses, losses.tilt

    @abstractmethod
    def state(self, multipliers: Array) -> DualState:
        """Compute the state of given multipliers."""

    @abstractmethod
    def descend(self, state: DualState, shift: float, options: SolverOptions) -> Descended:
        """Run coordinate descent for a fixed intercept."""

    @abstractmethod
    def kernel(self, rows: Indices, columns: Indices) -> Array:
        """Compute the kernel between two sets of samples."""

    def solve(self, samples: Indices, ridge: Array, right: Array) -> Array:
        """Solve (K + diag(ridge)) Z = right for the kernel K of some samples with themselves."""
        matrix = self.kernel(samples, samples)
        matrix[np.diag_indices_from(matrix)] += ridge
        factor = linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(linalg.cho_solve(factor, right, check_finite=False))

    def intercept(self, state: DualState, shift: float) -> float:
        """Compute the intercept for samples that are not centred."""
        return shift

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
        return shift + self.losses.minimum_along(margins, self.y, slope)

    def signed(self, multipliers: Array) -> Array:
        """Compute the coefficients y (a + t) of the samples."""
        return self.y * (multipliers + self.tilt)


class GramDual(Dual):
    """Dual on a kernel matrix in double or single precision."""

    def __init__(self, gram: Array, y: Array, losses: SampleLosses) -> None:
        super().__init__(y, losses)
        self.gram = gram

    def state(self, multipliers: Array) -> DualState:
        signed = self.signed(multipliers)
        return DualState(multipliers, self.product(np.flatnonzero(signed), signed))

    def product(self, samples: Indices, signed: Array) -> Array:
        """Multiply the kernel matrix by coefficients that are zero except for `samples`."""
        if self.gram.dtype == np.float64 and 2 * len(samples) > len(signed):
            return np.asarray(self.gram @ signed)
        scores = np.zeros(len(signed))
        for begin in range(0, len(samples), BLOCK_ROWS):  # a block is converted to double
            some = samples[begin : begin + BLOCK_ROWS]
            scores += signed[some] @ self.gram[some]
        return scores

    def descend(self, state: DualState, shift: float, options: SolverOptions) -> Descended:
        state, _, passes, gap = self._descend(state, shift, 0.0, options)
        return state, passes, gap

    def descend_freely(
        self, state: DualState, shift: float, options: SolverOptions
    ) -> tuple[DualState, float, int, float]:
        """Run coordinate descent that also updates the intercept.

        Returns the state, the intercept, the number of passes, and the gap for a fixed intercept.
        Σ y (a + t) is close to zero, but not zero.
        """
        pull = PULL * float(self.gram.diagonal().mean())
        return self._descend(state, shift, pull, options)

    def _descend(
        self, state: DualState, shift: float, pull: float, options: SolverOptions
    ) -> tuple[DualState, float, int, float]:
        from ._coordinate_descent_loops import BLOCK, descent_arrays, gram_descent

        state = DualState(state.multipliers.copy(), state.scores.copy())
        active, gaps, random = descent_arrays(len(self.y), options.seed)
        passes, gap, shift = gram_descent(
            self.gram,
            self.y,
            self.tilt,
            self.losses.arrays(),
            shift,
            pull,
            state.multipliers,
            state.scores,
            *options.as_tuple(),
            active,
            gaps,
            random,
            np.empty((BLOCK + 3, BLOCK)),
        )
        return state, shift, passes, gap

    def replaced(self, state: DualState, samples: Indices, multipliers: Array) -> DualState:
        """Replace the multipliers of a few samples and return the new state."""
        changed = state.multipliers.copy()
        changed[samples] = multipliers
        steps = self.y * (changed - state.multipliers)
        return DualState(changed, state.scores + self.product(samples, steps))

    def kernel(self, rows: Indices, columns: Indices) -> Array:
        return self.gram[np.ix_(rows, columns)].astype(np.float64)


class RowDual(Dual):
    """Dual on rows of features, dense or CSR; a step of descent costs as much as one row.

    With a `mean` the rows are centred implicitly: X is not changed, and the corrections of scores
    and coefficients are stored separately.
    """

    def __init__(self, X: Any, y: Array, losses: SampleLosses, mean: Array | None = None) -> None:
        super().__init__(y, losses)
        self.X = X
        self._mean = mean
        self._offsets, self._square = np.zeros(len(y)), 0.0
        self._norms = row_norms(X)
        if mean is not None:
            self._offsets, self._square = matmul(X, mean[:, None])[:, 0], float(mean @ mean)
            self._norms = np.maximum(self._norms - 2.0 * self._offsets + self._square, 0.0)

    def state(self, multipliers: Array) -> DualState:
        signed = self.signed(multipliers)
        coef = rmatmul(self.X, signed[:, None])[:, 0]
        if self._mean is not None:
            coef -= signed.sum() * self._mean
        return DualState(multipliers, self._scores(coef), coef)

    def intercept(self, state: DualState, shift: float) -> float:
        if self._mean is None or state.coef is None:
            return shift
        return shift - float(self._mean @ state.coef)

    def _scores(self, coef: Array) -> Array:
        scores = matmul(self.X, coef[:, None])[:, 0]
        return scores if self._mean is None else scores - self._mean @ coef

    def descend(self, state: DualState, shift: float, options: SolverOptions) -> Descended:
        from ._coordinate_descent_loops import descent_arrays, row_descent
        from ._row_loops import compiled_rows

        assert state.coef is not None
        coef = state.coef.copy()
        state = DualState(state.multipliers.copy(), state.scores.copy(), coef)
        drift, passes, gap = row_descent(
            compiled_rows(self.X),
            self._norms,
            self._offsets,
            self._square,
            0.0 if self._mean is None else float(self._mean @ coef),
            self.y,
            self.tilt,
            self.losses.arrays(),
            shift,
            state.multipliers,
            coef,
            state.scores,
            *options.as_tuple(),
            *descent_arrays(len(self.y), options.seed),
        )
        if self._mean is not None:
            coef -= drift * self._mean
        return state, passes, gap

    def kernel(self, rows: Indices, columns: Indices) -> Array:
        product = self.X[rows].astype(np.float64) @ self.X[columns].T
        kernel = np.asarray(product.toarray() if sparse.issparse(product) else product)
        if self._mean is not None:
            kernel -= self._offsets[rows][:, None] + self._offsets[columns] - self._square
        return kernel

    def solve(self, samples: Indices, ridge: Array, right: Array) -> Array:
        """Solve (K + diag(ridge)) Z = right, in feature space if features are fewer than samples.

        This uses Woodbury's identity and one step of iterative refinement.
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
            image = linalg.cho_solve(
                factor, rows.T @ (vectors / ridge[:, None]), check_finite=False
            )
            return np.asarray(vectors / ridge[:, None] - scaled @ image)

        found = inverse(right)
        return found + inverse(right - ridge[:, None] * found - rows @ (rows.T @ found))
