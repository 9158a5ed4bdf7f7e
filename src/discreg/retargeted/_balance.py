"""Plans that balance the columns of residuals at least cost, for the certificates of the family."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import pinvh

from discreg.linalg.types import Array

__all__ = ["MarginPlan", "Shares", "flow_plan", "spread_plan"]

BALANCED = 1e-9  # relative excess of a column that rounding leaves


class MarginPlan(NamedTuple):
    """What is added to the residuals of class k in column j: a multiple of them and a number.

    The same is taken from their true class.
    """

    factors: Array
    even: Array


def flow_plan(sums: Array, squares: Array, excess: Array, rounding: float) -> MarginPlan | None:
    """Balance by scaling the residuals of the rows of a class in a column; None if it cannot.

    Scaled by 1 + u_kj and made up for at the true class, the residuals of class k in column j
    move u_kj T_kj from column k to column j, T_kj their weighted sum, at a cost of u_kj² times
    their weighted squares. The flows of least total cost come from potentials of the columns.
    `rounding` is the error of the excess.
    """
    conductance = np.divide(sums**2, squares, out=np.zeros_like(sums), where=squares > 0)
    both_ways = conductance + conductance.T
    potentials = pinvh(np.diag(both_ways.sum(axis=0)) - both_ways) @ excess
    flows = conductance * (potentials[:, None] - potentials)
    unbalanced = excess + flows.sum(axis=0) - flows.sum(axis=1)
    scales = np.divide(flows, sums, out=np.zeros_like(sums), where=squares > 0)
    tolerance = BALANCED * np.abs(excess).sum() + rounding
    if scales.min() < -1 or np.abs(unbalanced).sum() > tolerance:
        return None
    return MarginPlan(scales, np.zeros_like(scales))


def spread_plan(
    sums: Array, squares: Array, slacks: Array, totals: Array, columns: Array
) -> MarginPlan:
    """Send the excess of a column from its own class's rows to the columns that lack it."""
    excess, lack = np.maximum(columns, 0.0), np.maximum(-columns, 0.0)
    factors, even = np.zeros_like(sums), np.zeros_like(sums)
    if lack.any():
        for k in np.flatnonzero(excess):
            of_class = Shares(sums[k], squares[k], slacks[k], np.full_like(lack, totals[k]))
            factors[k], even[k] = of_class.split(excess[k] * lack / lack.sum())
    return MarginPlan(factors, even)


class Shares(NamedTuple):
    """Weighted sums over rows, one per column: of residuals, their squares, slacks, and weights."""

    total: Array
    energy: Array
    slack: Array
    weights: Array

    @classmethod
    def of(cls, residuals: Array, slack: Array, weights: Array) -> Shares:
        """The sums for weights of rows and columns."""
        parts = (residuals, residuals**2, slack, np.ones_like(slack))
        return cls(*(np.einsum("ij,ij->j", weights, part) for part in parts))

    def split(self, amounts: Array) -> tuple[Array, Array]:
        """Distribute amounts, one per column, in proportion to the residuals or evenly.

        Whichever is cheaper for a column: a share e of a row costs e² + 2 e · slack, and the slack
        is zero where the residual is not. Returns the multiples of the residuals and the even
        shares.
        """
        even = 1.0 / self.weights
        safe_total = np.where(self.total > 0, self.total, 1.0)
        in_proportion = np.where(self.total > 0, amounts**2 * self.energy / safe_total**2, np.inf)
        evenly = amounts**2 * even + 2 * amounts * even * self.slack
        cheaper = in_proportion < evenly
        factors = np.where(cheaper, amounts / safe_total, 0.0)
        return factors, np.where(cheaper, 0.0, amounts * even)
