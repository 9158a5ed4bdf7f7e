"""Further Newton steps for the held-out scores of small problems.

If other rows change their pieces of the loss after the first step, Newton's method continues on the
objective without a unit of the row's weight. The problems of many rows are solved side by side.
If the solution is not exact, its gradient is subtracted from that of all problems, so that leaving
nothing out leads to the same solution.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreg.blocks.source import Block
from discreg.linalg.ridge import solve_each
from discreg.linalg.rows import batches, one_hot
from discreg.linalg.types import Array, Indices

from ._hessian import Model
from ._losses import Evaluation

__all__ = ["newton_steps"]

MULTIPLICATIONS = 1e9  # for the systems of the rows that need further steps
ENTRIES = 1 << 20  # of the arrays for a batch
MAX_STEPS = 10
CONVERGED = 1e-10  # gradient relative to that of the first step
ROUNDING = 1e-13  # relative change of an objective due to rounding
FLOOR = 1e-12  # curvature that makes singular systems solvable, relative to the weights


def newton_steps(
    model: Model, rows: Block, beta: float, held: Indices, units: Array, steps: Array
) -> None:
    """Improve the first Newton steps without a unit of each of some rows, in place.

    If too many rows need further steps, these stay as they are. Steps that are NaN, because the
    Hessian without the row is singular, are computed anew.

    Parameters
    ----------
    model : Model
    rows : Block
        All rows, in the columns of the design.
    beta : float
        Ridge penalty.
    held : ndarray of shape (n_held,)
        Indices of the rows to hold out.
    units : ndarray of shape (n_held,)
        Weight to leave out of each.
    steps : ndarray of shape (n_held, n_unknowns)
        Changes of the unknowns.
    """
    problem = _LeftOutProblem(model, *rows[:3], beta)
    Z = problem.Z
    parts = list(batches(len(held), max(1, ENTRIES // (len(Z) * (problem.n_classes + 1) ** 2))))
    lost = ~np.isfinite(steps).all(axis=1)
    steps[lost] = 0.0
    is_open = [problem.is_open(held[some], units[some], steps[some]) for some in parts]
    left = np.flatnonzero(np.concatenate([np.zeros(0, dtype=bool), *is_open]))
    if len(left) * problem.size**2 * (len(Z) + problem.size) > MULTIPLICATIONS:
        steps[lost] = np.nan
        return
    for part in batches(len(left), parts[0].stop if parts else 1):
        some = left[part]
        steps[some] = problem.minimise(held[some], units[some], steps[some])


class _Trial(NamedTuple):
    """Steps from the solution, one row for each problem, with objectives and half gradients."""

    steps: Array
    weights: Array
    residuals: Array
    objectives: Array
    gradients: Array

    def take(self, problems: Indices) -> _Trial:
        return _Trial(*(each[problems] for each in self))


class _LeftOutProblem:
    """Objectives without a unit of the weight of a row, as functions of a step of all unknowns."""

    def __init__(self, model: Model, Z: Array, y: Indices, weights: Array, beta: float) -> None:
        self.model, self.Z, self.y, self.weights = model, Z, y, weights
        self.width, self.n_classes = model.theta.shape
        self.own = one_hot(y, self.n_classes)
        self.penalty = np.full((self.n_classes, self.width), beta)
        if model.design.centred:
            self.penalty[:, -1] = 0.0
        self.n_coef = self.n_classes * self.width
        self.has_centres = model.loss.group_penalty > 0
        self.size = self.n_coef + self.n_classes * self.has_centres
        self.slope = np.zeros(self.size)
        self.slope = self.state(np.zeros((1, self.size)), weights[None, :]).gradients[0]

    def is_open(self, held: Indices, units: Array, steps: Array) -> NDArray[np.bool_]:
        """Return whether each of the gradients without some units is not zero up to rounding."""
        return self._is_open(self._state_without(held, units, steps), held, units)

    def minimise(self, held: Indices, units: Array, steps: Array) -> Array:
        """Minimise the objectives without some units, from given steps."""
        state, rows = self._state_without(held, units, steps), np.arange(len(held))
        for _ in range(MAX_STEPS):
            state = self._next(state)
            steps[rows] = state.steps
            left = np.flatnonzero(self._is_open(state, held[rows], units[rows]))
            state, rows = state.take(left), rows[left]
            if not len(rows):
                break
        return steps

    def _state_without(self, held: Indices, units: Array, steps: Array) -> _Trial:
        weights = np.repeat(self.weights[None, :], len(held), axis=0)
        weights[np.arange(len(held)), held] -= units
        return self.state(steps, weights)

    def _is_open(self, state: _Trial, held: Indices, units: Array) -> NDArray[np.bool_]:
        # Half the gradients at the solution are −u Z_i g_i.
        residuals = self.model.at(self.Z[held], self.y[held]).residuals
        first = units * np.abs(residuals).max(axis=1) * np.abs(self.Z[held]).max(axis=1)
        return np.asarray(~(np.abs(state.gradients).max(axis=1) <= CONVERGED * first))

    def _next(self, state: _Trial) -> _Trial:
        """Take a Newton step, shortened where it is too long."""
        directions = self._directions(state)
        following = self.state(state.steps + directions, state.weights)
        worse = following.objectives > state.objectives + ROUNDING * np.abs(state.objectives)
        if worse.any():
            before, after = (
                np.einsum("ij,ij->i", directions, each.gradients) for each in (state, following)
            )
            lengths = np.where(worse, np.clip(-before / (after - before), 0.1, 1.0), 1.0)
            following = self.state(state.steps + lengths[:, None] * directions, state.weights)
        return following

    def state(self, steps: Array, weights: Array) -> _Trial:
        """Evaluate the objectives for steps, and half their gradients."""
        n_problems = len(steps)
        theta = steps[:, : self.n_coef].reshape(n_problems, self.n_classes, self.width)
        theta = theta + self.model.theta.T
        scores = theta @ self.Z.T
        if self.has_centres:  # moving a centre has the effect of moving the scores back
            scores -= (steps[:, self.n_coef :] @ self.own.T)[:, None, :]
        scores = np.ascontiguousarray(scores.transpose(0, 2, 1)).reshape(-1, self.n_classes)
        y = np.tile(self.y, n_problems)
        at = self.model.loss.evaluate(scores, y, np.ones(len(y)), self.model.centres)
        residuals = at.residuals.reshape(n_problems, -1, self.n_classes)
        weighted = weights[:, :, None] * residuals
        shrunk = self.penalty * theta
        gradients = (weighted.transpose(0, 2, 1) @ self.Z + shrunk).reshape(n_problems, -1)
        objectives = np.einsum("ijk,ijk->i", weighted, residuals)
        objectives += np.einsum("ijk,ijk->i", shrunk, theta) - 2 * steps @ self.slope
        if self.has_centres:
            sums = residuals.sum(axis=2)
            gradients = np.hstack([gradients, -(weights * sums) @ self.own])
            objectives += (weights * sums**2).sum(axis=1) / self.model.loss.group_penalty
        return _Trial(steps, weights, residuals, objectives, gradients - self.slope)

    def _directions(self, state: _Trial) -> Array:
        """Compute Newton directions from the Hessians of all problems."""
        n_problems, width, n_coef = len(state.steps), self.width, self.n_coef
        residuals = state.residuals.reshape(-1, self.n_classes)
        at = Evaluation(residuals, residuals, 0.0, self.model.centres)
        rows = self.model.loss.row_derivatives(at, np.tile(self.y, n_problems))[1]
        rows = rows.reshape(n_problems, len(self.y), *rows.shape[1:])
        rows = np.ascontiguousarray(rows.transpose(2, 3, 0, 1)) * state.weights
        squares = (self.Z[:, :, None] * self.Z[:, None, :]).reshape(len(self.Z), -1)
        hessians = np.zeros((n_problems, self.size, self.size))
        for j in range(self.n_classes):
            here = slice(j * width, (j + 1) * width)
            for k in range(j + 1):
                there = slice(k * width, (k + 1) * width)
                hessians[:, here, there] = (rows[j, k] @ squares).reshape(-1, width, width)
                hessians[:, there, here] = hessians[:, here, there]
            if self.has_centres:
                across = self.Z.T @ (rows[j, -1][:, :, None] * self.own)
                hessians[:, here, n_coef:] = across
                hessians[:, n_coef:, here] = across.transpose(0, 2, 1)
        total, diagonal = float(self.weights.sum()), np.arange(self.size)
        hessians[:, diagonal, diagonal] += FLOOR * total
        hessians[:, diagonal[:n_coef], diagonal[:n_coef]] += self.penalty.ravel()
        if self.has_centres:
            hessians[:, diagonal[n_coef:], diagonal[n_coef:]] += rows[-1, -1] @ self.own
        if self.model.loss.is_relative and self.model.design.centred:
            intercepts = width * np.arange(1, self.n_classes + 1) - 1
            hessians[:, intercepts[:, None], intercepts] += total / self.n_classes**2
        return -solve_each(hessians, state.gradients)
