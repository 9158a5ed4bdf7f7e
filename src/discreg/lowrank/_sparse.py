"""SLRR, equation (24): the problem from moments, and the paper's reweighted solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from discreg.base.regression import Prepared
from discreg.linalg.group_lasso import FeatureRegression, Features
from discreg.linalg.reduced_rank import rank_coefficients
from discreg.linalg.ridge import (
    linear_regression,
    psd_solver,
)
from discreg.linalg.sparse_rank import ROUNDING, SparseRankProblem, SparseRankSolution
from discreg.linalg.types import Array

from ._indicators import Indicators

__all__ = ["gap_without_penalty", "indicator_problem", "largest_beta", "reweight"]


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


def reweight(
    problem: SparseRankProblem,
    prepared: Prepared,
    *,
    tol: float,
    max_iter: int,
    by_change: bool,
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
        if (change if by_change else gap) <= tol:
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
