"""How far from the optimum: a rigorous relative gap from one feasible point of the dual."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.factorisation import EPS
from discreg.linalg.ridge import NormalEquations, Regression

from ._losses import Evaluation, TargetLoss, balance

__all__ = ["bounded_gap", "objective_unit", "relative_gap"]

Array = NDArray[np.float64]
REACH = 10.0  # how far, in sizes of the scores, a fit without penalty is compared


def relative_gap(
    regression: Regression,
    loss: TargetLoss,
    scores: Array,
    at: Evaluation,
    gradient: Array,
    objective: float,
) -> float:
    r"""Upper bound of (F(W, b) − min F) / F(W, b), F the objective with the targets eliminated.

    Write F(W, b) = L(XW + 1bᵀ) + β‖W‖². By Fenchel's inequality every Z with Σ_i s_i z_i = 0 (b
    has no penalty) and finite L* gives the lower bound

    .. math:: \min F \;\ge\; -L^*(2Z) - \|X^\top S Z\|^2 / \beta .

    The conjugate is the same for all models, with q_i = Σ_j z_ij and k the true class:

    .. math:: L^*(2Z) = \sum_i s_i (\|z_i\|^2 + 2 z_{ik} + q_i^2/\gamma),

    finite for LSR always, for DLSR if z_ij ≥ 0 ≥ z_ik, for ReLSR and GReLSR if z_ij ≥ 0 with
    q_i = 0, respectively Σ s_i q_i = 0 over each class. The residuals G = R − T at the best targets
    satisfy all this but for the columns, so Z = G + E with a small E (`balance`) that
    moves along the constraints. Then the difference between F and the bound is a sum of squares
    and of products of non-negative numbers, free of cancellation:

    .. math:: F - \text{bound} = \tfrac1\beta \|X^\top S (G + E) + \beta W\|^2
              + \sum_i s_i (\|e_i\|^2 + 2\, e_i \cdot \text{slack}_i),

    slack the amount by which a target is inside its constraint. Where the columns balance, E = 0
    and this is the bound of strong convexity, ‖∇F‖² / (4β).

    For β = 0 strong convexity is lost, and F is compared with every W' whose centred scores differ
    from those of W by at most `REACH` times their size: F − F(W') ≤ ⟨∇F, W − W'⟩, never more than
    F itself.

    Parameters
    ----------
    regression : Regression
        Where the coefficients live, its penalty fixed.
    loss : TargetLoss
        The loss of the scores.
    scores : ndarray of shape (n_samples, n_classes)
        Scores of the training rows.
    at : Evaluation
        The loss at these scores.
    gradient : ndarray
        Half gradient XᵀSG + βW in the coordinates of the regression.
    objective : float
        F(W, b).

    Returns
    -------
    gap : float
        At most 1, because F is never negative.
    """
    cost = 0.0
    if regression.centred:
        change, cost = balance(loss, at)
        weighted = loss.weights[:, None] * change
        gradient = gradient + regression.gradient(weighted, weighted.sum(axis=0))
    total = float(loss.weights.sum())
    centred = scores - loss.weights @ scores / total
    square = float(loss.weights @ np.einsum("ij,ij->i", centred, centred))
    return bounded_gap(regression, gradient, cost, square, objective)


def bounded_gap(
    regression: NormalEquations, gradient: Array, cost: float, square: float, objective: float
) -> float:
    """The bound from its parts: XᵀS(G + E) + βW, what E costs, and squares of centred scores."""
    if regression.beta > 0:
        bound = float(np.vdot(gradient, gradient)) / regression.beta + cost
    else:
        slope = np.sqrt(max(float(np.vdot(gradient, regression.solve(gradient))), 0.0))
        size = max(np.sqrt(square), np.sqrt(regression.total))
        bound = 2.0 * float(slope) * REACH * float(size) + cost
    return min(objective, bound) / objective_unit(objective, regression.total)


def objective_unit(objective: float, total: float) -> float:
    """What differences of the objective are relative to: itself, unless rounding is all it is.

    That is for samples of a total weight.
    """
    return max(objective, EPS * total)
