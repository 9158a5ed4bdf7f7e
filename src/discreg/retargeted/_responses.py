"""Responses of all scores and centres to forces, by the Hessian or by the active rows.

A force on the variable with column z changes the unknowns by −H⁻¹z; the response is ZᵀH⁻¹z for the
columns Z of all variables. See `_refits`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from discreg.linalg.ridge import psd_solver
from discreg.linalg.types import Array, Indices

from ._active_rows import ActiveRows

__all__ = ["Respond", "response_by_class", "response_by_hessian", "response_by_pieces"]

# Takes indices of variables and returns one row of responses for each. The variables are the scores
# of the first row, those of the second row, and so on, then the centres of GReLSR.
Respond = Callable[[Indices], Array]


def response_by_hessian(Z: Array, inverse: Array, n_classes: int) -> Respond:
    """Return the response for all rows Z and the inverse of the Hessian."""
    width = Z.shape[1]
    n_scores, n_coef = len(Z) * n_classes, width * n_classes

    def respond(variables: Indices) -> Array:
        lifted = np.zeros((len(variables), len(inverse)))
        centres = np.flatnonzero(variables >= n_scores)
        lifted[centres, variables[centres] - n_scores + n_coef] = 1.0
        scores = np.flatnonzero(variables < n_scores)
        rows, classes = np.divmod(variables[scores], n_classes)
        columns = classes[:, None] * width + np.arange(width)
        lifted[scores[:, None], columns] = Z[rows]
        steps = lifted @ inverse
        of_scores = steps[:, :n_coef].reshape(len(variables), n_classes, width) @ Z.T
        of_scores = of_scores.transpose(0, 2, 1).reshape(len(variables), n_scores)
        return np.hstack([of_scores, steps[:, n_coef:]])

    return respond


def response_by_pieces(model: ActiveRows, kernel: Array, active: Indices) -> Respond:
    """Return the response for the kernel matrix of all rows, of which some are active.

    Let Φ, Ω be the columns of all variables for the coefficients and for the intercepts and centres,
    Q = ΦᵀΦ/β and Q_Ψ = Ψ_W Φ/β, with Ψ, B and M as in `_active_rows`. The responses are

        Q − Q_Ψᵀ Y + Ωᵀ D,      D = (BᵀM⁻¹B)⁺ (Ω − BᵀM⁻¹Q_Ψ),      Y = M⁻¹(Q_Ψ + B D).
    """
    n_classes, scaled = model.n_classes, model.scaled
    n_scores, border = len(kernel) * n_classes, model.border()
    solve = psd_solver(model.matrix())
    bent = solve(border)
    solve_border = psd_solver(model.inner(border, bent))
    first_centre = n_classes if model.centred else 0
    owners, starts = np.unique(model.pieces.owners, return_index=True)
    owners, of_pieces = active[owners], active[model.pieces.owners]

    def respond(variables: Indices) -> Array:
        scores = np.flatnonzero(variables < n_scores)
        rows, classes = np.divmod(variables[scores], n_classes)
        across = np.zeros((len(scaled), len(variables)))
        across[:, scores] = kernel[np.ix_(of_pieces, rows)] * scaled[:, classes] / model.beta
        free = np.zeros((border.shape[1], len(variables)))
        if model.centred:
            free[classes, scores] = 1.0
        centres = np.flatnonzero(variables >= n_scores)
        free[variables[centres] - n_scores + first_centre, centres] = 1.0
        shifts = solve_border(free - bent.T @ across)
        weights = solve(across) + bent @ shifts
        responses = np.zeros((len(variables), len(kernel), n_classes))
        for j in range(n_classes):
            sums = np.add.reduceat(scaled[:, j, None] * weights, starts, axis=0)
            responses[:, :, j] = sums.T @ kernel[owners] / -model.beta
        responses[scores, :, classes] += kernel[rows] / model.beta
        if model.centred:
            responses += shifts[:n_classes].T[:, None, :]
        responses = responses.reshape(len(variables), n_scores)
        return np.hstack([responses, shifts[first_centre:].T])

    return respond


def response_by_class(responds: list[Respond]) -> Respond:
    """Return the response if each class has a system of its own, for the responses of each."""
    n_classes = len(responds)

    def respond(variables: Indices) -> Array:
        rows, classes = np.divmod(variables, n_classes)
        parts = [each(rows[classes == j]) for j, each in enumerate(responds)]
        n_rows = max(part.shape[1] for part in parts)
        responses = np.zeros((len(variables), n_rows, n_classes))
        for j, part in enumerate(parts):
            responses[classes == j, :, j] = part
        return responses.reshape(len(variables), n_rows * n_classes)

    return respond
