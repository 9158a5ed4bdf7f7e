"""Retargeting with coefficients of low rank or with few features.

    min over W, b of  L(ΦW + 1bᵀ) + β‖W‖²      subject to rank(W) ≤ s,
    min over W, b of  L(ΦW + 1bᵀ) + β Σ_j ‖w_j‖  (and rank(W) ≤ s),

where L is the loss with the targets eliminated. As in the papers, the solver alternates between
regression onto the targets and retargeting. A regression never increases the objective. It is a
proximal gradient step of the loss in the metric ΦᵀSΦ, so Nesterov's extrapolation accelerates it. A
step that increases the objective is repeated without extrapolation.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from discreg.linalg.group_lasso import FeatureRegression
from discreg.linalg.iterations import Report, unreported
from discreg.linalg.reduced_rank import rank_coefficients
from discreg.linalg.ridge import Regression
from discreg.linalg.rows import row_dots
from discreg.linalg.sparse_rank import SparseRankProblem, SparseRankSolution, alternate
from discreg.linalg.types import Array

from ._losses import Evaluation
from ._solvers import ArrayProblem, Solution, objective_unit

__all__ = ["LowRankRidge", "SparseRows", "Structure", "minimise_structured"]

MAX_REGRESSION = 200  # maximum number of iterations of one regression
ACCURACY = 0.1  # accuracy of a regression relative to the gap
FINEST = 1e-12  # best accuracy of a regression, due to rounding
ROUNDING = 1e-15  # relative change of the objective due to rounding
STANDSTILL = 200  # steps without progress before stopping


class Targets(NamedTuple):
    """Statistics of targets for a regression: moments ΦᵀST, centred second moments and mean."""

    moments: Array
    second: Array
    mean: Array


class State(NamedTuple):
    """Coefficients with their scores, loss and objective."""

    coef: Array
    offset: Array
    scores: Array
    at: Evaluation
    objective: float


class Structure(Protocol):
    """Penalty and rank constraint of the coefficients."""

    @property
    def regression(self) -> Regression:
        """The regression in whose coordinates the coefficients are."""

    def penalty(self, coef: Array) -> float:
        """Compute the penalty term of the objective."""

    def moments(self, targets: Array) -> Array:
        """Compute ΦᵀST."""

    def scores(self, coef: Array, offset: Array) -> Array:
        """Compute the scores of the training rows."""

    def regress(self, targets: Targets, coef: Array, accuracy: float) -> Array:
        """Regress onto the targets to a relative accuracy, starting from given coefficients."""

    def gap(self, problem: ArrayProblem, state: State, targets: Targets) -> float:
        """Compute the relative gap of a state with its best targets."""


class LowRankRidge:
    """Ridge penalty with a maximum rank; the problem is not convex."""

    def __init__(self, regression: Regression, rank: int) -> None:
        self.regression, self.rank = regression, rank

    def penalty(self, coef: Array) -> float:
        return self.regression.penalty(coef, coef)

    def moments(self, targets: Array) -> Array:
        weighted = self.regression.weights[:, None] * targets
        return self.regression.gradient(weighted, weighted.sum(axis=0))

    def scores(self, coef: Array, offset: Array) -> Array:
        return self.regression.scores(coef, offset)

    def regress(self, targets: Targets, coef: Array, accuracy: float) -> Array:
        full = self.regression.solve(targets.moments)
        return rank_coefficients(full, targets.moments).of_rank(self.rank)

    def gap(self, problem: ArrayProblem, state: State, targets: Targets) -> float:
        """Compute the decrease of the objective by the best regression onto the same targets."""
        full = self.regression.solve(targets.moments)
        least = -float(rank_coefficients(full, targets.moments).explained[: self.rank].sum())
        image = self.regression.gram @ state.coef + self.regression.penalised(state.coef)
        value = float(np.vdot(state.coef, image - 2 * targets.moments))
        value += _offset_excess(self.regression, state, targets)
        return max(value - least, 0.0) / objective_unit(state.objective, self.regression.total)


class SparseRows:
    """Penalty on the norms of the rows, with a maximum rank unless `rank` is None."""

    def __init__(self, regression: FeatureRegression, rank: int | None) -> None:
        self.regression, self.rank = regression, rank
        self._directions: Array | None = None

    def penalty(self, coef: Array) -> float:
        return self.regression.beta * float(np.linalg.norm(coef, axis=1).sum())

    def moments(self, targets: Array) -> Array:
        return self.regression.moments_of(targets)

    def scores(self, coef: Array, offset: Array) -> Array:
        return self.regression.few_scores(coef, offset)

    def regress(self, targets: Targets, coef: Array, accuracy: float) -> Array:
        solution = alternate(
            self._problem(targets),
            tol=accuracy,
            max_iter=MAX_REGRESSION,
            start=self._factored(coef),
        )
        self._directions = solution.directions
        return solution.coef @ solution.directions.T

    def _factored(self, coef: Array) -> SparseRankSolution | None:
        """Project coefficients on the last directions, as a starting point."""
        if self.rank is None:
            return SparseRankSolution(coef, np.eye(coef.shape[1]), [], np.inf)
        if self._directions is None:
            return None
        return SparseRankSolution(coef @ self._directions, self._directions, [], np.inf)

    def _problem(self, targets: Targets) -> SparseRankProblem:
        return SparseRankProblem(
            self.regression, targets.moments, targets.second, self.regression.beta, self.rank
        )

    def gap(self, problem: ArrayProblem, state: State, targets: Targets) -> float:
        """Compute the duality gap; with a rank, that of the regression onto the targets."""
        unit = objective_unit(state.objective, self.regression.total)
        if self.rank is None:
            return max(state.objective - self._lower_bound(problem, state.at), 0.0) / unit
        _, _, rows = np.linalg.svd(state.coef, full_matrices=False)
        directions = rows[: self.rank].T
        objective, gap = self._problem(targets).certify(state.coef @ directions, directions)
        excess = _offset_excess(self.regression, state, targets)
        return min((gap * objective + excess) / unit, 1.0)

    def _lower_bound(self, problem: ArrayProblem, at: Evaluation) -> float:
        r"""Compute a lower bound of the minimum from the dual, see `RetargetedProblem.gap`.

        Every Z with columns that sum to zero, finite L* and :math:`2\|(X^\top SZ)_j\| \le \beta`
        for all features gives :math:`\min F \ge -L^*(2Z)`. The constraints of L* are cones, so
        that the balanced residuals are feasible after scaling. The best scale has a closed form.
        """
        residuals, weights = at.residuals, problem.weights
        if self.regression.centred:
            residuals = residuals + problem.balance(at)[0]
        curvature = float(weights @ row_dots(residuals, residuals))
        if problem.loss.group_penalty > 0:
            sums = residuals.sum(axis=1)
            curvature += float(weights @ sums**2) / problem.loss.group_penalty
        slope = -float(weights @ problem.loss.support(residuals, problem.y))
        largest = float(np.linalg.norm(self.moments(residuals), axis=1).max(initial=0.0))
        scale = slope / curvature if curvature > 0 else 0.0
        if largest > 0:
            scale = min(scale, self.regression.beta / (2 * largest))
        return max(scale, 0.0) * (2 * slope - max(scale, 0.0) * curvature)


def _offset_excess(regression: Regression, state: State, targets: Targets) -> float:
    """Compute the decrease of the objective by the best mean scores for the same targets."""
    if not regression.centred:
        return 0.0
    return float(regression.total * np.sum((state.offset - targets.mean) ** 2))


def minimise_structured(
    problem: ArrayProblem,
    structure: Structure,
    *,
    tol: float,
    max_iter: int,
    start: Array | None = None,
    report: Report = unreported,
) -> Solution:
    """Alternate between regression and retargeting until the relative gap is at most `tol`."""
    regression = structure.regression
    if start is None:
        totals, weights = regression.class_totals(problem.y, problem.n_classes)
        mean = weights / weights.sum() if regression.centred else np.zeros_like(weights)
        second = np.diag(weights) - weights.sum() * np.outer(mean, mean)
        coef = structure.regress(Targets(totals, second, mean), np.zeros_like(totals), ACCURACY)
        state = _state(problem, structure, coef, mean)
    else:
        state = _state(problem, structure, start[:-1], start[-1])
    history, best, smallest = [state.objective], state, np.inf
    previous, momentum, accuracy, worse = state, 1.0, ACCURACY, 0
    while True:
        stop = report(1)
        targets = _targets(structure, state.at.targets)
        gap = structure.gap(problem, state, targets)
        falls = len(history) == 1 or history[-1] < history[-2] * (1 - ROUNDING)
        worse = 0 if falls or gap < smallest else worse + 1
        if gap < smallest:
            smallest, best = gap, state
        if gap <= tol or len(history) == max_iter or worse == STANDSTILL or stop:
            break
        accuracy = min(accuracy, max(ACCURACY * gap, 0.1 * tol, FINEST))
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        weight = (momentum - 1) / following
        trial = None
        if weight > 0:
            at = problem.evaluate(state.scores + weight * (state.scores - previous.scores))
            ahead = state.coef + weight * (state.coef - previous.coef)
            trial = _step(problem, structure, _targets(structure, at.targets), ahead, accuracy)
        if trial is None or trial.objective > state.objective:
            following = 1.0 if trial is not None else following
            trial = _step(problem, structure, targets, state.coef, accuracy)
        previous, state, momentum = state, trial, following
        history.append(min(state.objective, history[-1]))
    theta = np.vstack([best.coef, best.offset])
    return Solution(theta, best.at.targets, history, smallest, "alternating")


def _step(
    problem: ArrayProblem, structure: Structure, targets: Targets, coef: Array, accuracy: float
) -> State:
    """Regress onto the targets and retarget."""
    return _state(problem, structure, structure.regress(targets, coef, accuracy), targets.mean)


def _state(problem: ArrayProblem, structure: Structure, coef: Array, offset: Array) -> State:
    scores = structure.scores(coef, offset)
    at = problem.evaluate(scores)
    return State(coef, offset, scores, at, at.value + structure.penalty(coef))


def _targets(structure: Structure, targets: Array) -> Targets:
    """Compute the statistics of targets that a regression needs."""
    weights = structure.regression.weights
    mean = np.zeros(targets.shape[1])
    if structure.regression.centred:
        mean = weights @ targets / weights.sum()
    centred = targets - mean
    second = centred.T @ (weights[:, None] * centred)
    return Targets(structure.moments(targets), second, mean)
