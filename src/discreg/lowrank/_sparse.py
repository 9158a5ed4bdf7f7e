"""SLRR, equation (24): the problem from moments, certificates, the paper's reweighted solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg, sparse

from discreg.base.caller import warn_of_convergence
from discreg.base.regression import Prepared
from discreg.base.stored import gap_of_stored, group_curvature
from discreg.blocks.precision import gap_with_error
from discreg.linalg.group_lasso import FeatureRegression, Features
from discreg.linalg.iterations import Report, unreported
from discreg.linalg.reduced_rank import rank_coefficients
from discreg.linalg.ridge import linear_regression
from discreg.linalg.sparse_rank import (
    ROUNDING,
    SparseRankProblem,
    SparseRankSolution,
    alternate,
)
from discreg.linalg.systems import psd_solver
from discreg.linalg.types import Array, RealArray

from ._indicators import Indicators

__all__ = [
    "STALLED",
    "by_singular_value",
    "gap_without_penalty",
    "indicator_problem",
    "is_null",
    "largest_beta",
    "null_solution",
    "polish",
    "reweight",
    "stored_gap",
    "warn_of_gap",
]

FEW_COEFFICIENTS = 2_000  # up to this size, solving to rounding costs little
EXACT = 1e-14
NEAR = 1e-12  # relative distance from the largest useful penalty that is rounding
MAX_POLISHING = 10  # working sets
STALLED = (
    "Rounding errors prevent a smaller gap, because beta is tiny for features of this size or the "
    "features have a large mean. Standardise the features, or increase beta"
)


def indicator_problem(
    prepared: Prepared, indicators: Indicators, beta: float, rank: int | None
) -> SparseRankProblem:
    """Set up sparse low-rank regression onto the normalised indicators."""
    regression = prepared.regression
    assert isinstance(regression, Features)
    moments = regression.class_totals(prepared.y, len(prepared.classes))[0] * indicators.entries
    return SparseRankProblem(
        regression, moments, indicators.second, beta, rank, indicators.constant
    )


def largest_beta(problem: SparseRankProblem) -> float:
    """Compute the smallest penalty at which all coefficients are zero, for any rank."""
    return 2 * float(np.linalg.norm(problem.moments, axis=1).max(initial=0.0))


def is_null(beta: Any, largest: float) -> Any:
    """Return whether all coefficients are zero for a penalty, up to rounding."""
    return (beta > 0) & (beta >= (1 - NEAR) * largest)


def null_solution(problem: SparseRankProblem) -> SparseRankSolution:
    """Return the solution without coefficients."""
    directions = np.eye(len(problem.second))[:, : problem.rank]
    coef = np.zeros((problem.regression.size, directions.shape[1]))
    objective, gap = problem.certify(coef, directions)
    return SparseRankSolution(coef, directions, [objective], gap)


def polish(
    problem: SparseRankProblem,
    solution: SparseRankSolution,
    *,
    tol: float,
    report: Report = unreported,
) -> SparseRankSolution:
    """Solve a small problem of full rank to rounding, from a solution that has reached `tol`."""
    small = problem.rank is None and problem.moments.size <= FEW_COEFFICIENTS
    if not small or solution.gap > tol:
        return solution
    finer = alternate(problem, tol=EXACT, max_iter=MAX_POLISHING, start=solution)
    finer.objective_history = [*solution.objective_history, finer.objective_history[-1]]
    if not finer.gap < solution.gap:
        return solution
    report(1)
    return finer


def by_singular_value(solution: SparseRankSolution, rank: int) -> tuple[Array, Array]:
    """Return A and V with directions in decreasing order of the singular values of A."""
    _, turn = linalg.eigh(solution.coef.T @ solution.coef, check_finite=False)
    turn = turn[:, ::-1][:, :rank]
    return solution.coef @ turn, solution.directions @ turn


def stored_gap(
    solution: SparseRankSolution,
    beta: float,
    prepared: Any,
    stored: tuple[RealArray, RealArray],
    exact: tuple[RealArray, RealArray],
    scale: float = 1.0,
) -> float:
    """Compute the relative gap of stored coefficients, which are those of W times a scale."""
    unit = max(solution.objective_history[-1], ROUNDING)
    used = np.flatnonzero(solution.coef.any(axis=1))
    image = prepared.regression.gram_matmul(used, solution.coef[used])
    size = np.sqrt(max(float(np.vdot(solution.coef, image)), 0.0))
    gap = gap_with_error(solution.gap * unit, float(size), prepared.regression.error) / unit
    curvature = group_curvature(beta, solution.coef)
    return gap_of_stored(gap, unit * scale**2, prepared, stored, exact, curvature)


def warn_of_gap(estimator: Any, solution: SparseRankSolution, advice: str | None) -> None:
    """Warn that a solver stopped before it reached `tol`."""
    advice = advice or "Increase max_iter, tol or beta, or standardise the features."
    warn_of_convergence(
        f"{type(estimator).__name__} stopped at a relative gap of {solution.gap:.2g} after "
        f"{len(solution.objective_history)} iterations; tol is {estimator.tol:g}. {advice}"
    )


def reweight(
    problem: SparseRankProblem,
    prepared: Prepared,
    *,
    tol: float,
    max_iter: int,
    by_change: bool,
    report: Report = unreported,
) -> SparseRankSolution:
    """Solve by Algorithm 3: ridge regression with weights 1/(2‖w_j‖) of the last iteration.

    Stops when the relative gap is at most `tol` or, with `by_change` as in the paper, when the
    relative change of the objective is. Features are scaled by the inverse square roots of the
    weights, which avoids division by zero for rows near zero.
    """
    scales = np.ones(problem.regression.size)
    history: list[float] = []
    best: SparseRankSolution | None = None
    for _ in range(max_iter):
        ranked = rank_coefficients(_scaled_ridge(problem, prepared, scales), problem.moments)
        coef = ranked.projected[:, : problem.rank]
        directions = ranked.directions[:, : problem.rank]
        objective, gap = problem.certify(coef, directions)
        change = abs(history[-1] - objective) / max(objective, ROUNDING) if history else np.inf
        history.append(objective)
        if by_change or best is None or gap < best.gap:
            best = SparseRankSolution(coef, directions, history, gap)
        if report(1) or (change if by_change else gap) <= tol:
            break
        scales = np.sqrt(2 * np.linalg.norm(coef, axis=1))
    assert best is not None
    return best


def gap_without_penalty(problem: SparseRankProblem, solution: SparseRankSolution) -> float:
    """Compute the relative gap due to rounding of a regression for β = 0.

    For given V, the objective exceeds its minimum by ⟨R, (ΦᵀSΦ)⁺R⟩ with half its gradient R.
    """
    regression = problem.regression
    gain = problem.procrustes(solution.coef, solution.directions)[1]
    if regression.is_tall:
        residual = problem.moments @ solution.directions - regression.gram @ solution.coef
        step = psd_solver(regression.gram.copy())(residual)
        gain += max(float(np.vdot(residual, step)), 0.0)
    return gain / max(solution.objective_history[-1], ROUNDING)


def _scaled_ridge(problem: SparseRankProblem, prepared: Prepared, scales: Array) -> Array:
    """Solve (ΦᵀSΦ + βD)⁻¹ΦᵀSY for D = diag(scales)⁻², as an n × n system for many features."""
    regression, column = problem.regression, scales[:, None]
    if regression.is_tall:
        matrix = regression.gram * scales * column
        matrix[np.diag_indices_from(matrix)] += problem.beta
        return column * psd_solver(matrix)(column * problem.moments)
    assert isinstance(regression, FeatureRegression)
    X: Any = regression.X
    scaled = X.multiply(scales).tocsr() if sparse.issparse(X) else X * scales
    wide = linear_regression(scaled, regression.weights, centre=regression.centred)
    wide.at(problem.beta)
    totals, _ = wide.class_totals(prepared.y, len(prepared.classes))
    rows, _ = wide.predictor(wide.solve(totals * Indicators.of(prepared).entries))
    return column * rows
