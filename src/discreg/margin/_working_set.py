"""Solve one two-class problem on working sets of samples, with a part of the kernel matrix.

Samples inside the margin band have zero loss and zero multipliers, so a fit without them has the
same solution. A fit on a small subset predicts which samples these are, and later fits correct the
prediction. The gap includes the losses of the samples left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from discreg.linalg.iterations import unreported
from discreg.linalg.resources import (
    one_blas_thread,
)
from discreg.linalg.types import Indices

from ._coordinate_descent import DualSolution, solve_dual
from ._dual import Dual, DualState, GramDual, SolverOptions
from ._losses import SampleLosses
from ._problem import BinaryProblem

__all__ = ["solve_on_working_sets"]

FIRST = 1 / 16  # share of the samples in the first fit, which predicts all margins
MOST = 0.6  # share of the samples above which the whole matrix is cheaper
ROUGH_TOL = 3e-3  # smallest tolerance of fits that only select samples
SHARE = 0.7  # share of the tolerance for the fit on a working set
MAX_ROUNDS = 4


def solve_on_working_sets(problem: BinaryProblem, dual: Dual) -> DualSolution | None:
    """Solve a dual on working sets; return None if most of the kernel matrix is needed.

    `dual` is the problem with all samples.
    """
    training, options, fit_intercept = problem.training, problem.options, problem.fit_intercept
    y, n_samples = dual.y, training.n_samples

    def solve_on(
        samples: Indices, losses: SampleLosses, tol: float, start: DualState | None = None
    ) -> DualSolution:
        local = GramDual(training.gram_of(samples), y[samples], losses)
        begin = None if start is None else (local.state(start.multipliers[samples]), shift)
        most = max(options.max_iter - passes, 1)
        inner = replace(options, tol=tol, max_iter=most, report=unreported)
        return solve_dual(local, inner, fit_intercept=fit_intercept, start=begin)

    def extended(found: DualSolution, samples: Indices) -> DualState:
        """Extend the solution on some samples by the scores of all samples."""
        multipliers, scores = np.zeros(n_samples), np.empty(n_samples)
        multipliers[samples], scores[samples] = found.state.multipliers, found.state.scores
        others = np.setdiff1d(np.arange(n_samples), samples, assume_unique=True)
        scores[others] = training.scores(others, y * multipliers)
        return DualState(multipliers, scores)

    shift, passes = 0.0, 0
    samples = _first_working_set(n_samples, options, training.largest_gram)
    rough = max(options.tol, ROUGH_TOL)
    with one_blas_thread():  # more threads are slower on so few samples
        found = solve_on(samples, problem.loss.of_samples(training.weights[samples]), rough)
    state, shift = extended(found, samples), found.shift
    for turn in range(MAX_ROUNDS):
        passes += found.n_iter
        needed = dual.losses.multipliers(y * (state.scores + shift)) != 0.0
        if turn > 0:
            needed |= state.multipliers != 0.0
        elif not 0.0 < needed.mean() <= MOST:
            break
        samples = np.flatnonzero(needed)
        if passes >= options.max_iter or len(samples) > training.largest_gram:
            break
        found = solve_on(
            samples,
            dual.losses.take(samples),
            rough if turn == 0 else SHARE * options.tol,
            start=None if turn == 0 else state,
        )
        state, shift = extended(found, samples), found.shift
        gap = dual.relative_gap(state, shift, fit_intercept=fit_intercept)
        if gap <= options.tol:
            # Reported only now: if working sets fail, the passes of another solver count.
            options.report(passes + found.n_iter)
            return DualSolution(state, shift, gap, passes + found.n_iter)
    return None


def _first_working_set(n_samples: int, options: SolverOptions, largest: int) -> Indices:
    """Choose a few samples, at most `largest`, at random or equally spaced."""
    size = max(2, min(round(FIRST * n_samples), largest))
    if not options.shuffled:
        return np.linspace(0, n_samples - 1, size).astype(np.intp)
    return np.sort(np.random.default_rng(options.seed).choice(n_samples, size, replace=False))
