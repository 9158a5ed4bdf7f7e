r"""Refits without single rows, all at once: equations on the rows whose piece of the loss changes.

The variables v_k of row k, the half gradients g_k, the half Hessians P_k, the weights s_k and H are
those of `_left_out`, at the solution. Forces x_k on the variables of rows change the unknowns by
δθ = −H⁻¹ Σ_k Z_k x_k and the variables by δv_l = −Σ_k R_lk x_k with the response R_lk = Z_lᵀH⁻¹Z_k.
For weights s'_k, half the gradient at θ + δθ is Σ_k Z_k ρ_k with

    ρ_k = s'_k g'_k − s_k (g_k + P_k δv_k) − x_k,

where g'_k is taken at v_k + δv_k. So a refit has to find forces with ρ = 0. They are zero for rows
that stay on their piece, and the equations of the others are linear if their pieces are known. Each
refit starts from the pieces of the fit. Its equations lead to new pieces, and so on until ρ = 0;
then the refit is exact. If the solution is not exact, leaving nothing out leads to the same one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.linalg.ridge import solve_each
from discreg.linalg.rows import batches
from discreg.linalg.types import Array, Indices

from ._losses import Evaluation, TargetLoss
from ._responses import Respond

__all__ = ["refits"]

ROUNDS = 20
MOST_FORCES = 400  # of a refit
CONVERGED = 1e-10  # gradient relative to that of the first round
ROUNDING = 1e-12  # relative difference of residuals on the same piece
ENTRIES = 1 << 21  # of the arrays for a batch



def refits(
    loss: TargetLoss,
    at: Evaluation,
    y: Indices,
    weights: Array,
    respond: Respond,
    held: Indices,
    units: Array,
) -> tuple[Array, NDArray[np.bool_]]:
    """Compute the changes of the scores of rows, each without `units` of its weight.

    Parameters
    ----------
    loss : TargetLoss
    at : Evaluation
        Of all rows, at the solution.
    y : ndarray of shape (n_rows,)
    weights : ndarray of shape (n_rows,)
    respond : callable
        Takes indices of variables and returns the rows of R for these, in all variables: the scores
        of the first row, the second row, and so on, then the centres of GReLSR.
    held : ndarray of shape (n_held,)
        Indices of the rows to hold out.
    units : ndarray of shape (n_held,)

    Returns
    -------
    moves : ndarray of shape (n_held, n_classes)
        Those of the first round if the last one was not a solution.
    solved : ndarray of shape (n_held,)
        Whether each is a solution.
    """
    problem = _Refits(loss, at, y, weights, respond)
    size = max(1, ENTRIES // (problem.first_gradients.size))
    parts = [problem.without(held[some], units[some]) for some in batches(len(held), size)]
    moves, solved = zip(*parts, strict=True)
    return np.concatenate(moves), np.concatenate(solved)


class _State(NamedTuple):
    """Changes of all variables by refits, with forces; arrays of one item per refit."""

    moves: Array  # of all variables
    forces: Array  # on the variables of all rows
    gradients: Array  # g', of all rows
    rest: Array  # ρ
    changed: NDArray[np.bool_]  # rows that are not on their piece of the fit, or held out


class _Refits:
    def __init__(
        self, loss: TargetLoss, at: Evaluation, y: Indices, weights: Array, respond: Respond
    ) -> None:
        self.loss, self.at, self.y, self.weights = loss, at, y, weights
        self.scores = at.targets + at.residuals
        self.first_gradients, self.hessians = loss.row_derivatives(at, y)
        n_rows, self.n_classes = self.scores.shape
        self.variables = np.arange(self.scores.size).reshape(self.scores.shape)
        self.n_variables = self.scores.size
        if loss.group_penalty > 0:
            self.variables = np.column_stack([self.variables, self.scores.size + y])
            self.n_variables += self.n_classes
        self._respond = respond
        self._places = np.full(self.n_variables, -1)
        self._responses = np.empty((0, self.n_variables))

    def without(self, held: Indices, units: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Refit without units of some rows."""
        n_refits = len(held)
        solved, found = np.zeros(n_refits, dtype=bool), np.full((n_refits, self.n_classes), np.nan)
        first = units * np.abs(self.first_gradients[held]).max(axis=1)
        weights = np.repeat(self.weights[None], n_refits, axis=0)
        weights[np.arange(n_refits), held] -= units
        left = np.arange(n_refits)
        moves = np.zeros((n_refits, self.n_variables))
        forces = np.zeros((n_refits, *self.first_gradients.shape))
        state = self._state(moves, forces, weights, held)
        for turn in range(ROUNDS):
            moves, forces = self._step(state, weights[left])
            own = np.take_along_axis(
                moves, self.variables[held[left], : self.n_classes], axis=1
            )
            state = self._state(moves, forces, weights[left], held[left])
            size = np.abs(state.rest).max(axis=(1, 2))
            done = size <= CONVERGED * first[left]
            keep = done | (turn == 0)
            found[left[keep]] = own[keep]
            solved[left[done]] = True
            more = ~done & np.isfinite(size)
            left, state = left[more], _State(*(each[more] for each in state))
            if not len(left):
                break
        return found, solved

    def _state(self, moves: Array, forces: Array, weights: Array, held: Indices) -> _State:
        moved, n_classes = moves[:, self.variables], self.n_classes
        scores = self.scores + moved[:, :, :n_classes]
        if self.loss.group_penalty > 0:  # moving a centre has the effect of moving the scores back
            scores -= moved[:, :, n_classes:]
        at = self.loss.evaluate(
            scores.reshape(-1, n_classes),
            np.tile(self.y, len(moves)),
            np.ones(len(moves) * len(self.y)),
            self.at.centres,
        )
        gradients = at.residuals.reshape(scores.shape)
        if self.loss.group_penalty > 0:
            gradients = np.concatenate([gradients, -gradients.sum(axis=2, keepdims=True)], axis=2)
        linear = (moved.transpose(1, 0, 2) @ self.hessians).transpose(1, 0, 2)
        linear += self.first_gradients
        unit = ROUNDING * (1.0 + np.abs(scores).max(axis=2))
        changed = np.abs(gradients - linear).max(axis=2) > unit
        rest = weights[:, :, None] * gradients - self.weights[:, None] * linear - forces
        rest[~changed & ~forces.any(axis=2)] = 0.0
        changed[np.arange(len(held)), held] = True
        rows = np.arange(len(held))
        rest[rows, held] = (
            weights[rows, held, None] * gradients[rows, held]
            - self.weights[held, None] * linear[rows, held]
            - forces[rows, held]
        )
        return _State(moves, forces, gradients, rest, changed)

    def _step(self, state: _State, weights: Array) -> tuple[Array, Array]:
        """Solve the equations on the pieces of a state, for forces and moves."""
        refit, row = np.nonzero(state.changed)
        residuals = state.gradients[refit, row, : self.n_classes]
        at = Evaluation(residuals, residuals, 0.0, self.at.centres)
        hessians = weights[refit, row, None, None] * self.loss.row_derivatives(at, self.y[row])[1]
        moved = state.moves[refit[:, None], self.variables[row]]
        constants = weights[refit, row, None] * state.gradients[refit, row]
        constants -= np.einsum("ijk,ik->ij", hessians, moved)
        constants -= self.weights[row, None] * self.first_gradients[row]
        hessians -= self.weights[row, None, None] * self.hessians[row]
        used = (hessians != 0).any(axis=2) | (constants != 0)
        counts = np.bincount(refit, used.sum(axis=1), len(weights)).astype(np.intp)
        moves, forces = np.full_like(state.moves, np.nan), np.zeros_like(state.forces)
        order = np.argsort(-counts, kind="stable")
        order = order[counts[order] <= MOST_FORCES]
        while len(order):
            width = int(counts[order[0]])
            size = max(1, ENTRIES // (width + 1) ** 2)
            some, order = np.sort(order[:size]), order[size:]
            number = np.full(len(weights), -1)
            number[some] = np.arange(len(some))
            pairs = np.flatnonzero(number[refit] >= 0)
            here = number[refit[pairs]][:, None]
            starts = np.cumsum(counts[some]) - counts[some]
            places = np.cumsum(used[pairs]).reshape(len(pairs), -1) - 1 - starts[here]
            places[~used[pairs]] = width  # a place that is left out below
            columns = np.zeros((len(some), width + 1), dtype=np.intp)
            columns[here, places] = self.variables[row[pairs]]
            right = np.zeros((len(some), width + 1))
            right[here, places] = constants[pairs]
            system = np.zeros((len(some), width + 1, width + 1))
            system[here[:, :, None], places[:, :, None], places[:, None, :]] = hessians[pairs]
            columns = columns[:, :width]
            known = self._known(columns)
            system = system[:, :width, :width] @ self._responses[
                known[:, :, None], columns[:, None, :]
            ]
            system[:, np.arange(width), np.arange(width)] += 1.0
            found = solve_each(system, right[:, :width])
            matrix = sparse.csr_array(
                (found.ravel(), known.ravel(), width * np.arange(len(some) + 1)),
                shape=(len(some), len(self._responses)),
            )
            moves[some] = -(matrix @ self._responses)
            found = np.column_stack([found, np.zeros(len(some))])
            forces[refit[pairs], row[pairs]] = found[here, places]
        return moves, forces

    def _known(self, variables: Indices) -> Indices:
        new = np.unique(variables[self._places[variables] < 0])
        if len(new):
            self._places[new] = len(self._responses) + np.arange(len(new))
            self._responses = np.vstack([self._responses, self._respond(new)])
        return self._places[variables]
