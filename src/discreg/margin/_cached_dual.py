"""The dual problem on kernel rows computed on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import numpy as np

from discreg.linalg.factorisation import EPS
from discreg.linalg.kernel_rows import RowCache
from discreg.linalg.types import Array, Indices

from ._dual import CLEARLY, PATIENCE, Descended, Dual, DualState, GramDual, SolverOptions
from ._losses import SampleLosses

__all__ = ["WORKING_SET", "CachedDual"]

WORKING_SET = 256
SET_BYTES = 16 << 20  # kernel rows of a working set, even if the cache is smaller
LOCAL_PASSES = 20
WORTH_A_VISIT = 0.1  # smallest gap of a visited sample, relative to the mean gap


class CachedDual(Dual):
    """Dual on kernel rows that are computed on demand and cached.

    Coordinate descent runs on working sets of samples that violate their optimality conditions. For
    each set, compute the kernel rows, run coordinate descent on the set alone, and update the
    scores of all samples. n_samples / set size sets count as one pass.

    Parameters
    ----------
    rows_of : callable
        ``rows_of(samples)`` returns the kernel between these samples and all samples.
    n_rows : int
        Number of cached rows; at least those of a working set are cached.
    """

    def __init__(
        self,
        rows_of: Callable[[Indices], Array],
        n_rows: int,
        y: Array,
        losses: SampleLosses,
    ) -> None:
        super().__init__(y, losses)
        n_samples = len(y)
        self._rows_of = rows_of
        self._size = min(WORKING_SET, n_samples, max(n_rows, SET_BYTES // (8 * n_samples), 2))
        self.rows = RowCache(rows_of, max(n_rows, self._size))
        self._next = 0

    def state(self, multipliers: Array) -> DualState:
        signed = self.signed(multipliers)
        scores = np.zeros(len(signed))
        support = np.flatnonzero(signed)
        for start in range(0, len(support), self._size):
            block = support[start : start + self._size]
            scores += signed[block] @ self._rows_of(block)
        return DualState(multipliers, scores)

    def descend(self, state: DualState, shift: float, options: SolverOptions) -> Descended:
        multipliers, scores = state.multipliers.copy(), state.scores.copy()
        state = DualState(multipliers, scores)
        n_samples, size = len(multipliers), self._size
        random = np.random.default_rng(options.seed)
        per_pass = ceil(n_samples / size)
        sets, most = 0, options.max_iter * n_samples // size
        smallest, gained, idle = np.inf, 0.0, 0
        while sets < most and idle < PATIENCE:
            samples = self._working_set(state, shift, size, random if options.shuffled else None)
            if not len(samples):
                break
            rows = self.rows(samples)
            local = GramDual(
                np.ascontiguousarray(rows[:, samples]),
                self.y[samples],
                self.losses.take(samples),
            )
            start = DualState(multipliers[samples], scores[samples])
            inner = replace(
                options, tol=0.1 * options.tol, max_iter=LOCAL_PASSES, seed=options.seed + sets
            )
            end, _, _ = local.descend(start, shift, inner)
            steps = end.multipliers - start.multipliers
            change = (self.y[samples] * steps) @ rows
            scores += change
            multipliers[samples] = end.multipliers
            sets += 1
            gap, unit = self.gap_and_unit(state, shift)
            if gap <= options.tol * unit:
                break
            ridge = np.maximum(self.losses.ridge_low[samples], self.losses.ridge_high[samples])
            gained += 0.5 * float(steps @ (self.y[samples] * change[samples] + ridge * steps))
            if sets % per_pass == 0:  # as in `_coordinate_descent_loops`
                signed = self.signed(multipliers)
                terms = 0.5 * float(np.abs(signed) @ np.abs(scores))
                terms += self.losses.low * float(np.abs(multipliers).sum())
                moving = gained > EPS * terms or gap < CLEARLY * smallest * unit
                idle = 0 if moving else idle + 1
                smallest, gained = min(smallest, gap / unit), 0.0
        gap, unit = self.gap_and_unit(state, shift)
        return state, ceil(sets * size / n_samples), gap / unit

    def _working_set(
        self, state: DualState, shift: float, size: int, random: np.random.Generator | None
    ) -> Indices:
        """Choose samples with a large part of the gap, at random or in cyclic order.

        The samples with the largest parts are similar to each other. Visiting them first is many
        times slower. If these are few, other samples with multipliers fill up the set: descent on
        the few alone would increase the gaps of the others.
        """
        gaps = self.losses.gaps(state.multipliers, self.y * (state.scores + shift))
        large = gaps > WORTH_A_VISIT * gaps.mean()
        candidates = np.flatnonzero(large)
        if 0 < len(candidates) < size:
            others = np.flatnonzero(~large & (state.multipliers != 0.0))
            if random is not None:
                others = random.permutation(others)
            candidates = np.concatenate([candidates, others[: size - len(candidates)]])
        elif len(candidates) > size:
            if random is None:
                candidates = np.roll(candidates, -int(np.searchsorted(candidates, self._next)))
            else:
                candidates = random.permutation(candidates)
            self._next = int(candidates[size - 1]) + 1
        return np.sort(candidates[:size])

    def kernel(self, rows: Indices, columns: Indices) -> Array:
        return self._rows_of(rows)[:, columns]
