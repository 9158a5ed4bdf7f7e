"""Sparse reduced-rank regression, solved to a certified stationary point.

    min over W of rank at most s of  Σ_i s_i ‖t_i − W'φ_i‖² + β Σ_j ‖w_j‖

With W = A Vᵀ and VᵀV = I, the rows of A and of W have the same norms, and

    ‖T − ΦW‖² + β‖W‖₂₁ = ‖T‖² − ‖TV‖² + ‖TV − ΦA‖² + β‖A‖₂₁.

For a given V the best A solves a group lasso; for a given A the best V solves a Procrustes problem.
The certificate is the sum of two terms: the duality gap of the group lasso, which bounds the
decrease of the objective by changing A alone, and the exact decrease by changing V alone. At full
rank V is the identity, the problem is convex, and the certificate bounds the distance from the
minimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from discreg.linalg.types import Array

from .group_lasso import CLEARLY, Features, duality_gap, group_lasso
from .iterations import Report, unreported

__all__ = ["SparseRankProblem", "SparseRankSolution", "alternate"]

MAX_SETS = 200  # working sets of a group lasso
ROUNDING = 1e-15
EMPTY = 1e-12  # relative square of the targets in a direction that counts as zero
SMALL_STEP = 1e-12  # relative decrease of the objective that is not progress
STANDSTILL = 10  # steps without progress after which only rounding errors are left
ROUGH_START = 1e-3  # certificate at which a candidate for the start is accurate enough
MAX_ROUGH = 50  # maximum number of steps for a candidate
RANDOM_STARTS = 6
FURTHER = 1e-6  # weight of directions in which all coefficients are zero
ROUGH = 1e-2  # gap of the full-rank regression that gives the first directions


@dataclass
class SparseRankProblem:
    """Sparse reduced-rank problem, given by the moments of its targets.

    Attributes
    ----------
    regression : Features
        Features.
    moments : ndarray of shape (n_features, n_targets)
        ΦᵀST.
    second : ndarray of shape (n_targets, n_targets)
        TᵀST; the targets are centred if there is an intercept.
    beta : float
        Penalty.
    rank : int or None
        Maximum rank; None for full rank.
    constant : float
        Constant added to the objective.
    """

    regression: Features
    moments: Array
    second: Array
    beta: float
    rank: int | None
    constant: float = 0.0

    def square(self, directions: Array) -> float:
        """Compute the weighted sum of squares of TV."""
        return float(np.vdot(directions, self.second @ directions))

    def rest(self, directions: Array) -> float:
        """Compute the part of the objective that is independent of A: ‖T‖² − ‖TV‖² + constant."""
        return self.constant + max(float(self.second.trace()) - self.square(directions), 0.0)

    def row_space(self) -> Array:
        """Compute orthonormal directions of the row space of T, where all rows of a minimum are."""
        values, vectors = linalg.eigh(self.second, check_finite=False)
        return np.asarray(vectors[:, values > EMPTY * values[-1]])

    def certify(self, coef: Array, directions: Array) -> tuple[float, float]:
        """Compute the objective at A and V, and the relative certificate."""
        used = np.flatnonzero(coef.any(axis=1))
        moments = self.moments @ directions
        correlations = moments - self.regression.gram_matmul(used, coef[used])
        square = self.square(directions)
        objective, gap = duality_gap(coef, moments, correlations, square, self.beta)
        objective += self.rest(directions)
        if self.rank is not None:
            gap += self.procrustes(coef, directions)[1]
        return objective, gap / max(objective, ROUNDING)

    def procrustes(self, coef: Array, directions: Array) -> tuple[Array, float]:
        """Compute the best V for A, and the decrease of the objective."""
        explained = self.moments.T @ coef
        left, values, right = linalg.svd(explained, full_matrices=False, check_finite=False)
        gain = 2 * float(values.sum() - np.vdot(directions, explained))
        return left @ right, max(gain, 0.0)

    def lasso(
        self,
        directions: Array,
        *,
        tol: float,
        max_iter: int,
        start: Array | None,
        report: Report = unreported,
    ) -> SparseRankSolution:
        """Compute the best A for a given V, with a gap relative to the whole objective."""
        rest = self.rest(directions)
        fit = group_lasso(
            self.regression,
            self.moments @ directions,
            self.square(directions),
            self.beta,
            tol=tol,
            max_iter=max_iter,
            start=start,
            constant=rest,
            report=report,
        )
        history = [value + rest for value in fit.history]
        gap = fit.gap / max(fit.objective + rest, ROUNDING)
        return SparseRankSolution(fit.coef, directions, history, gap, fit.stalled)


@dataclass
class SparseRankSolution:
    """A and V with the history of the objective and the relative certificate.

    `stalled` is whether rounding errors prevent a smaller certificate.
    """

    coef: Array
    directions: Array
    objective_history: list[float]
    gap: float
    stalled: bool = False


def _has_rank(start: SparseRankSolution, rank: int) -> bool:
    """Return whether the coefficients of a start have this rank."""
    return start.coef.shape[1] == rank and int(np.linalg.matrix_rank(start.coef)) == rank


def _first_directions(problem: SparseRankProblem, full: Array) -> Array:
    """Compute the directions that a full-rank regression explains best, from its coefficients.

    If the coefficients have too low a rank, directions of features with large moments come next. If
    no feature would be used with these directions, the direction of the feature with the largest
    moments comes first.
    """
    assert problem.rank is not None
    norms = np.linalg.norm(problem.moments, axis=1)
    wanted = np.maximum(norms - problem.beta / 2, 0.0)
    rows = problem.moments / np.where(norms > 0, norms, 1.0)[:, None]
    explained = problem.moments.T @ full
    explained = explained + explained.T
    further = rows.T @ (wanted[:, None] * rows)
    parts = [part / (np.abs(part).max() or 1.0) for part in (explained, further)]
    _, vectors = linalg.eigh(parts[0] + FURTHER * parts[1], check_finite=False)
    directions = vectors[:, ::-1][:, : problem.rank]
    used = np.linalg.norm(problem.moments @ directions, axis=1).max(initial=0.0)
    if used <= problem.beta / 2 < norms.max(initial=0.0):
        first = np.column_stack([rows[norms.argmax()], directions[:, :-1]])
        directions, _ = linalg.qr(first, mode="economic", check_finite=False)
    return np.asarray(directions)


def alternate(
    problem: SparseRankProblem,
    *,
    tol: float,
    max_iter: int,
    start: SparseRankSolution | None,
    report: Report = unreported,
) -> SparseRankSolution:
    """Alternate group lasso and Procrustes until the relative certificate is at most `tol`."""
    everything = np.eye(len(problem.second))
    if problem.rank is None:
        space = problem.row_space()
        first = None if start is None else start.coef @ (start.directions.T @ space)
        solution = problem.lasso(space, tol=tol, max_iter=max_iter, start=first, report=report)
        solution.coef, solution.directions = solution.coef @ space.T, everything
        # The objective could decrease by at most the squares of T outside of these directions.
        outside = problem.rest(space) - problem.constant
        solution.gap += outside / max(solution.objective_history[-1], ROUNDING)
        return solution
    if start is None or not _has_rank(start, problem.rank):
        start = _best_start(problem, everything, tol, max_iter)
        if report(len(start.objective_history)):
            return start
        left = max(max_iter - len(start.objective_history), 1)
        solution = _alternate(problem, start, tol, left, report)
        history = [*start.objective_history, *solution.objective_history]
        solution.objective_history = np.minimum.accumulate(history).tolist()
        return solution
    return _alternate(problem, start, tol, max_iter, report)


def _best_start(
    problem: SparseRankProblem, everything: Array, tol: float, max_iter: int
) -> SparseRankSolution:
    """Find the best of a few rough solutions, from the full-rank regression and random starts.

    The problem has local minima. Random combinations of the moments, drawn with a fixed seed, lead
    to other minima than the full-rank regression does.
    """
    assert problem.rank is not None
    full = problem.lasso(everything, tol=max(tol, ROUGH), max_iter=max_iter, start=None).coef
    random = np.random.default_rng(0)
    candidates = [_first_directions(problem, full)]
    for _ in range(RANDOM_STARTS):
        mixed = problem.moments.T @ random.standard_normal((len(problem.moments), problem.rank))
        candidates.append(linalg.qr(mixed, mode="economic", check_finite=False)[0])
    rough = []
    for number, directions in enumerate(candidates):
        coef = full @ directions if number == 0 else np.zeros((len(full), problem.rank))
        start = SparseRankSolution(coef, directions, [], np.inf)
        rough.append(_alternate(problem, start, max(tol, ROUGH_START), min(max_iter, MAX_ROUGH)))
    return min(rough, key=lambda solution: solution.objective_history[-1])


def _alternate(
    problem: SparseRankProblem,
    start: SparseRankSolution,
    tol: float,
    max_iter: int,
    report: Report = unreported,
) -> SparseRankSolution:
    """Alternate group lasso and Procrustes from a start."""
    coef, directions = start.coef, start.directions
    history: list[float] = []
    best: SparseRankSolution | None = None
    accuracy, worse = ROUGH, 0
    for _ in range(max_iter):
        fit = problem.lasso(directions, tol=accuracy, max_iter=MAX_SETS, start=coef)
        coef, objective = fit.coef, fit.objective_history[-1]
        turned, gain = problem.procrustes(coef, directions)
        gap = fit.gap + gain / max(objective, ROUNDING)
        history.append(min([objective, *history[-1:]]))
        falls = len(history) == 1 or history[-1] < history[-2] * (1 - SMALL_STEP)
        worse = 0 if best is None or falls or gap < CLEARLY * best.gap else worse + 1
        if best is None or gap < best.gap:
            best = SparseRankSolution(coef, directions, history, gap)
        if report(1) or gap <= tol:
            break
        if worse == STANDSTILL or (fit.stalled and gap - fit.gap <= tol):
            best.stalled = True
            break
        directions = turned if gain > 0 else directions  # zero coefficients do not determine V
        accuracy = max(0.3 * tol, min(accuracy, 0.1 * gap), ROUNDING)
    assert best is not None
    return best
