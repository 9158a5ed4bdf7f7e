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
# of all rows for the first class, for the second class, and so on, then the centres of GReLSR.
Respond = Callable[[Indices], Array]


def response_by_hessian(Z: Array, inverse: Array, n_classes: int) -> Respond:
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


def response_by_pieces(model: ActiveRows, kernel: Array, active: Indices) -> Respond:
    """Return the response for the kernel matrix of all rows, of which some are active.

    Let Φ, Ω be the columns of all variables for the coefficients and for the intercepts and centres,
    Q = ΦᵀΦ/β and Q_Ψ = Ψ_W Φ/β, with Ψ, B and M as in `_active_rows`. The responses are

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


def response_by_class(responds: list[Respond], n_rows: int) -> Respond:
    """Return the response if each class has a system of its own, for the responses of each."""

    def respond(variables: Indices) -> Array:
        classes, rows = np.divmod(variables, n_rows)
        responses = np.zeros((len(variables), n_rows * len(responds)))
        for j, of_class in enumerate(responds):
            responses[classes == j, j * n_rows : (j + 1) * n_rows] = of_class(rows[classes == j])
        return responses

    return respond
