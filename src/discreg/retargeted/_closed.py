"""LSR from the moments of its rows alone."""

from __future__ import annotations

import numpy as np

from discreg.blocks.moment_ridge import MomentRegression
from discreg.linalg.factorisation import EPS

from ._result import Solution

__all__ = ["solve_closed"]

REFINEMENTS = 2  # of a solution, which undo the rounding on ill-conditioned data


def solve_closed(regression: MomentRegression) -> Solution:
    """Regression onto the zero-one targets, its objective, and what rounding has left to gain.

    The penalty is fixed. The objective is a quadratic function of W with Hessian ΦᵀSΦ + βI, so that
    it exceeds its minimum by ⟨R, (ΦᵀSΦ + βI)⁻¹R⟩ for half the gradient R.
    """
    totals, weights = regression.class_totals()
    coef = np.zeros_like(totals)
    residual = totals
    for _ in range(1 + REFINEMENTS):
        coef = coef + regression.solve(residual)
        residual = totals - regression.gram @ coef - regression.beta * coef
    total = float(weights.sum())
    offset = weights / total if regression.centred else np.zeros_like(weights)
    targets = total - total * float(offset @ offset)  # squares of the centred targets
    # ‖Y − ΦW‖² + β‖W‖² with ΦᵀSΦW + βW = ΦᵀSY − R.
    objective = max(targets - float(np.vdot(coef, totals)) - float(np.vdot(coef, residual)), 0.0)
    excess = max(float(np.vdot(residual, regression.solve(residual))), 0.0)
    gap = min(objective, excess) / max(objective, EPS * total)
    return Solution(
        coef=coef,
        offset=offset,
        scores=None,
        targets=None,
        objective_history=[objective],
        gap=gap,
        n_iter=1,
        solver="closed",
    )
