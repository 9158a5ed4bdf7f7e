"""Solve one two-class problem on those parts of a kernel matrix that its solution needs.

Samples whose margins are free have no multipliers: the solution on the other samples alone is the
solution. Which they are is told by the margins that a few samples lead to, and then by those of the
solution itself, whose loss on the samples left out is a part of the gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.threads import one_blas_thread

from ._coordinate_descent import DualSolution, solve_dual
from ._dual import Descent, Dual, GramDual, State
from ._terms import Terms
from ._training import Training

__all__ = ["solve_in_parts"]

Array = NDArray[np.float64]
FIRST = 1 / 16  # of the samples, which tell where the margins of the others will be
MOST = 0.6  # of the samples: for more of them the whole matrix is cheaper
ROUGH_TOL = 3e-3  # the smallest that is asked of solutions that only tell which samples are needed
SHARE = 0.7  # of the tolerance that the samples which are not left out may use up
MAX_ROUNDS = 4


def solve_in_parts(
    training: Training,
    dual: Dual,
    losses: Callable[[Array], Terms],
    how: Descent,
    *,
    fit_intercept: bool,
) -> DualSolution | None:
    """Multipliers and intercept up to the tolerance, or None where most of the matrix is needed.

    Parameters
    ----------
    training : Training
    dual : Dual
        The problem with all samples.
    losses : callable
        ``losses(weights)`` gives the losses of a problem with some of the samples only.
    how : Descent
    fit_intercept : bool
    """
    y, n_samples = dual.y, training.n_samples

    def solve_on(
        samples: NDArray[np.intp], terms: Terms, tol: float, start: State | None = None
    ) -> DualSolution:
        local = GramDual(training.part(samples), y[samples], terms)
        begin = None if start is None else (local.state(start.multipliers[samples]), shift)
        inner = replace(how, tol=tol, max_passes=max(how.max_passes - passes, 1))
        return solve_dual(local, inner, fit_intercept=fit_intercept, start=begin)

    def extended(found: DualSolution, samples: NDArray[np.intp]) -> State:
        """What is found on some samples, with the scores of all."""
        multipliers, scores = np.zeros(n_samples), np.empty(n_samples)
        multipliers[samples], scores[samples] = found.state.multipliers, found.state.scores
        others = np.setdiff1d(np.arange(n_samples), samples, assume_unique=True)
        scores[others] = training.scores(others, y * multipliers)
        return State(multipliers, scores)

    shift, passes = 0.0, 0
    samples = _some(n_samples, how, training.largest_part)
    rough = max(how.tol, ROUGH_TOL)
    with one_blas_thread():  # a second would wait for more, and be in the way of what follows
        found = solve_on(samples, losses(training.weights[samples]), rough)
    state, shift = extended(found, samples), found.shift
    for turn in range(MAX_ROUNDS):
        passes += found.n_passes
        needed = dual.terms.multipliers(y * (state.scores + shift)) != 0.0
        if turn > 0:
            needed |= state.multipliers != 0.0
        elif not 0.0 < needed.mean() <= MOST:
            break
        samples = np.flatnonzero(needed)
        if passes >= how.max_passes or not training.fits_part(len(samples)):
            break
        found = solve_on(
            samples,
            dual.terms.take(samples),
            rough if turn == 0 else SHARE * how.tol,
            start=None if turn == 0 else state,
        )
        state, shift = extended(found, samples), found.shift
        gap = dual.relative_gap(state, shift, fit_intercept=fit_intercept)
        if gap <= how.tol:
            return DualSolution(state, shift, gap, passes + found.n_passes)
    return None


def _some(n_samples: int, how: Descent, largest: int) -> NDArray[np.intp]:
    """A few samples, at most so many: by chance, or at equal distances."""
    size = max(2, min(round(FIRST * n_samples), largest))
    if not how.shuffled:
        return np.linspace(0, n_samples - 1, size).astype(np.intp)
    return np.sort(np.random.default_rng(how.seed).choice(n_samples, size, replace=False))
