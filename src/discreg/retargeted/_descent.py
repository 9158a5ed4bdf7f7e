r"""Dual coordinate descent for the retargeted models with a kernel.

At the optimum the coefficients of the samples are A = −SG/β, where G = R − T are the residuals at
the best targets T. So the scores are R = −KSG/β + 1bᵀ, and the dual problem

    min over G of  tr(GᵀSKSG) / β + Σ s_i (‖g_i‖² + 2 h(g_i)),

where h is the support function of the allowed targets,
has a closed solution for the residuals of one row, by one retargeting. Rows without loss have
residuals of zero and drop out. The rows are visited in blocks: a block is solved alone, then the
scores of all rows are updated. An intercept adds the constraint that the weighted residuals sum to
zero in each column, and GReLSR's centres μ that they sum to zero in each class. The method of
multipliers finds b and μ together with G.

For feasible residuals the duality gap is a sum over rows that is free of cancellation:

    Σ s_i (‖r_i − t_i − g_i‖² + 2 (h(g_i) − ⟨g_i, t_i⟩) + γ (t_ik − 1 − μ_k − Σ_j g_ij / γ)²).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreg.linalg.fitted_kernel import KernelMatrix
from discreg.linalg.ridge import objective_unit
from discreg.linalg.rows import class_sums, row_dots
from discreg.linalg.types import Array, Indices

from ._losses import Evaluation, TargetLoss
from ._solvers import Options, Solution

BLOCK = 128  # rows that are solved together
PULL = 0.1  # step of the intercept and the centres, relative to the kernel
WORTH_A_VISIT = 0.1  # smallest gap of a visited row, relative to the mean gap
PATIENCE = 100  # sweeps that have to lower the smallest gap by the factor `PROGRESS`
PROGRESS = 0.99
TIGHTER = 0.3  # factor of the tolerance if the constraints were not satisfied well enough


@dataclass
class DescentState:
    """Residuals G, their products (−KSG/β)ᵀ, the offset b of the scores, and the centres.

    The scores are the transposed products plus the offset.
    """

    residuals: Array
    products: Array
    offset: Array
    centres: Array


class KernelProblem:
    """The retargeted problem with a kernel, and the steps of the method of multipliers.

    Parameters
    ----------
    rows : KernelMatrix
        Kernel matrix, with a positive penalty.
    loss : TargetLoss
    y : ndarray of shape (n_samples,)
        Class indices.
    n_classes : int
    """

    def __init__(self, rows: KernelMatrix, loss: TargetLoss, y: Indices, n_classes: int) -> None:
        self.rows, self.loss, self.y, self.n_classes = rows, loss, y, n_classes
        self.weights, self.scales = rows.weights, rows.weights / rows.beta
        # The second terms are steps for the curvature of the loss, if the kernel is small.
        unit = PULL * float(rows.weights @ rows.diagonal) / rows.total
        self.pull = max(unit, rows.beta / rows.total) if rows.centred else 0.0
        self.group_pull = 0.0
        if loss.group_penalty > 0:
            least = (1.0 + 1.0 / loss.group_penalty) / rows.total
            self.group_pull = max(unit / rows.beta, least)
        self.random = np.random.default_rng(0)

    def state(self, residuals: Array, offset: Array, centres: Array) -> DescentState:
        """Compute the state of given residuals, offset and centres."""
        products = -(self.rows.matrix @ (residuals * self.scales[:, None])).T
        return DescentState(residuals, np.ascontiguousarray(products), offset, centres)

    def evaluate(self, state: DescentState, *, best_centres: bool) -> tuple[Evaluation, Array]:
        """Evaluate the loss at a state, and compute the weighted duality gap of each row.

        The gaps are those for the offset and the centres of the state. With `best_centres` the
        centres are optimal for the scores.
        """
        scores = np.ascontiguousarray(state.products.T) + state.offset
        centres = None if best_centres else state.centres
        at = self.loss.evaluate(scores, self.y, self.weights, centres, start=state.centres)
        distance = at.residuals - state.residuals
        gaps = row_dots(distance, distance) + self.loss.excess(state.residuals, at, self.y)
        return at, self.weights * gaps.clip(min=0.0)

    def objective(self, state: DescentState, at: Evaluation) -> float:
        """Compute the primal objective; β‖W‖² is −Σ s_i ⟨g_i, −(KSG)_i / β⟩."""
        square = -float(self.weights @ row_dots(state.residuals, state.products.T))
        return at.value + max(square, 0.0)

    def sweep(self, state: DescentState, gaps: Array) -> None:
        """Visit the rows with a large part of the gap in random order, then move b and μ."""
        from ._loops import visit_block

        visited = self.random.permutation(np.flatnonzero(gaps > WORTH_A_VISIT * gaps.mean()))
        for begin in range(0, len(visited), BLOCK):
            samples = visited[begin : begin + BLOCK]
            visit_block(
                self.rows.matrix,
                samples,
                self.pull,
                self.scales,
                self.y,
                self.loss.descent_rule == "dragged",
                self.loss.group_penalty,
                self.group_pull * self.weights,
                state.residuals,
                state.products,
                state.offset,
                state.centres,
            )
        state.offset -= self.pull * (self.scales @ state.residuals)
        if self.group_pull > 0:
            state.centres += self.group_pull * self._class_excess(state.residuals)

    def balanced(self, state: DescentState) -> DescentState:
        """Change the residuals so that they satisfy the constraints of the intercept and of μ."""
        residuals = state.residuals.copy()
        if self.group_pull > 0:
            sizes = class_sums(self.y, self.weights, self.n_classes)
            share = self._class_excess(residuals) / np.where(sizes > 0, sizes, 1.0)
            residuals[np.arange(len(self.y)), self.y] -= share[self.y]
        if self.rows.centred:
            at, _ = self.evaluate(state, best_centres=True)
            at = at._replace(residuals=residuals)
            residuals += self.loss.balanced(at, self.y, self.weights)[0]
        return self.state(residuals, state.offset.copy(), state.centres.copy())

    def _class_excess(self, residuals: Array) -> Array:
        return class_sums(self.y, self.weights * residuals.sum(axis=1), self.n_classes)


def descend(problem: KernelProblem, options: Options) -> Solution:
    """Solve the problem until the relative duality gap is at most `tol`, or hardly decreases.

    A start is the residuals and, as the last row, the offset of another solution. `max_iter` limits
    the number of sweeps.
    """
    loss, y, n_classes, total = problem.loss, problem.y, problem.n_classes, problem.rows.total
    tol, theta = options.tol, options.start
    theta = np.zeros((len(y) + 1, n_classes)) if theta is None else theta
    state = problem.state(loss.feasible(theta[:-1], y), theta[-1].copy(), np.zeros(n_classes))
    at, gaps = problem.evaluate(state, best_centres=False)
    history = [problem.objective(state, at)]
    wanted, smallest, earlier, n_sweeps = tol, np.inf, np.inf, 0
    while True:
        gap = float(gaps.sum()) / objective_unit(history[-1], total)
        smallest = min(gap, smallest)
        ended = n_sweeps >= options.max_iter
        if n_sweeps % PATIENCE == 0:
            ended = ended or smallest > PROGRESS * earlier
            earlier = smallest
        if gap <= wanted or ended:
            certified = problem.balanced(state)
            at, certified_gaps = problem.evaluate(certified, best_centres=True)
            objective = problem.objective(certified, at)
            gap = float(certified_gaps.sum()) / objective_unit(objective, total)
            if gap <= tol or ended:
                break
            wanted *= TIGHTER
        problem.sweep(state, gaps)
        n_sweeps += 1
        at, gaps = problem.evaluate(state, best_centres=False)
        history.append(problem.objective(state, at))
    # If the start is the solution, it counts as an iteration.
    history = [*np.minimum.accumulate(history[1:-1]).tolist(), objective]
    theta = np.vstack([certified.residuals, certified.offset])
    return Solution(theta, at.targets, history, min(gap, 1.0), "dcd", at.centres)
