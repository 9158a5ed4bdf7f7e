"""Responses of all scores and centres to forces, by the Hessian or by the active rows.

A force on the variable with column z changes the unknowns by −H⁻¹z; the response is ZᵀH⁻¹z for the
columns Z of all variables. See `_refits`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from discreg.blocks.source import Block
from discreg.linalg.systems import psd_solver
from discreg.linalg.types import Array, Indices

from ._active_rows import ActiveRows
from ._hessian import Model, hessian_of_rows, inverse_hessian
from ._losses import Evaluation, TargetLoss

__all__ = ["Respond", "response_of_features", "response_of_kernel"]

# Takes indices of variables and returns one row of responses for each. The variables are the scores
# of all rows for the first class, for the second class, and so on, then the centres of GReLSR.
Respond = Callable[[Indices], Array]


def response_of_features(model: Model, rows: Block, regression: Any) -> Respond:
    """Return the response of a model to forces on all rows, by the Hessian of all unknowns."""
    inverse = inverse_hessian(hessian_of_rows(rows, model), model, regression)
    Z = model.design.rows(rows.X)
    if not model.separate:
        return _by_hessian(Z, inverse, model.theta.shape[1])
    return _by_class([_by_hessian(Z, root.T @ root, 1) for root in inverse])


def response_of_kernel(
    kernel: Array, loss: TargetLoss, at: Evaluation, rows: Block, regression: Any
) -> Respond:
    """Return the response to forces on all rows, by the kernel matrix and the active rows.

    Parameters
    ----------
    kernel : ndarray of shape (n_rows, n_rows)
        Centred if there is an intercept.
    loss : TargetLoss
    at : Evaluation
        Of all rows.
    rows : Block
        The labels and weights of all rows.
    regression : KernelRows or NormalEquations
    """
    active = np.flatnonzero((rows.weights > 0) & at.residuals.any(axis=1))
    model = ActiveRows.of(
        kernel[np.ix_(active, active)],
        loss,
        Evaluation(at.targets[active], at.residuals[active], at.value, at.centres),
        rows.y[active],
        rows.weights[active],
        beta=regression.beta,
        centred=regression.centred,
    )
    if not loss.is_separable:
        return _by_pieces(model, kernel, active)
    classes = [model.of_class(j) for j in range(model.n_classes)]
    return _by_class([_by_pieces(each, kernel, active) for each in classes])


def _by_hessian(Z: Array, inverse: Array, n_classes: int) -> Respond:
    """Return the response for all rows Z and the inverse of the Hessian."""
    (n_rows, width), n_scores = Z.shape, len(Z) * n_classes

    def respond(variables: Indices) -> Array:
        columns = np.zeros((len(variables), len(inverse)))
        scores, centres = variables < n_scores, variables >= n_scores
        classes, rows = np.divmod(variables[scores], n_rows)
        own = classes[:, None] * width + np.arange(width)
        columns[np.flatnonzero(scores)[:, None], own] = Z[rows]
        columns[centres, variables[centres] - n_scores + n_classes * width] = 1.0
        steps = columns @ inverse
        responses = np.empty((len(variables), n_scores + len(inverse) - n_classes * width))
        for j in range(n_classes):
            here = slice(j * n_rows, (j + 1) * n_rows)
            np.matmul(steps[:, j * width : (j + 1) * width], Z.T, out=responses[:, here])
        responses[:, n_scores:] = steps[:, n_classes * width :]
        return responses

    return respond


def _by_pieces(model: ActiveRows, kernel: Array, active: Indices) -> Respond:
    """Return the response for the kernel matrix of all rows, of which some are active.

    Let Φ be the columns of all variables for the coefficients, Ω those for the intercepts and
    centres, Q = ΦᵀΦ/β and Q_Ψ = Ψ_W Φ/β, with Ψ, B and M as in `_active_rows`. The responses are

        Q − Q_Ψᵀ Y + Ωᵀ D,      D = (BᵀM⁻¹B)⁺ (Ω − BᵀM⁻¹Q_Ψ),      Y = M⁻¹(Q_Ψ + B D).
    """
    n_rows, n_classes, scaled, border = len(kernel), model.n_classes, model.scaled, model.border()
    n_scores, n_intercepts = n_rows * n_classes, n_classes if model.centred else 0
    solve = psd_solver(model.matrix())
    bent = solve(border)
    solve_border = psd_solver(model.inner(border, bent))
    owners, starts = np.unique(model.pieces.owners, return_index=True)
    of_owners = kernel[active[owners]] / -model.beta
    number = np.searchsorted(owners, model.pieces.owners)

    def respond(variables: Indices) -> Array:
        scores, centres = variables < n_scores, variables >= n_scores
        classes, rows = np.divmod(variables[scores], n_rows)
        across = np.zeros((len(scaled), len(variables)))
        across[:, scores] = of_owners[np.ix_(number, rows)] * -scaled[:, classes]
        free = np.zeros((border.shape[1], len(variables)))
        if model.centred:
            free[classes, np.flatnonzero(scores)] = 1.0
        free[variables[centres] - n_scores + n_intercepts, np.flatnonzero(centres)] = 1.0
        shifts = solve_border(free - bent.T @ across)
        weights = (solve(across) + bent @ shifts).T
        responses = np.empty((len(variables), n_scores + len(shifts) - n_intercepts))
        for j in range(n_classes):
            here = slice(j * n_rows, (j + 1) * n_rows)
            sums = np.add.reduceat(weights * scaled[:, j], starts, axis=1)
            np.matmul(sums, of_owners, out=responses[:, here])
            if model.centred:
                responses[:, here] += shifts[j, :, None]
            own = np.flatnonzero(scores)[classes == j]
            responses[own, here] += kernel[rows[classes == j]] / model.beta
        responses[:, n_scores:] = shifts[n_intercepts:].T
        return responses

    return respond


def _by_class(responds: list[Respond]) -> Respond:
    """Return the response if each class has a system of its own, for the responses of each."""
    n_rows = responds[0](np.zeros(0, dtype=np.intp)).shape[1]

    def respond(variables: Indices) -> Array:
        classes, rows = np.divmod(variables, n_rows)
        responses = np.zeros((len(variables), n_rows * len(responds)))
        for j, of_class in enumerate(responds):
            responses[classes == j, j * n_rows : (j + 1) * n_rows] = of_class(rows[classes == j])
        return responses

    return respond
