"""Changes of residuals that make their columns sum to zero at low cost, for duality gaps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import pinvh

from discreg.linalg.types import Array

__all__ = ["MarginPlan", "Shares", "flow_plan", "spread_plan"]

BALANCED = 1e-9  # relative column sums due to rounding


class MarginPlan(NamedTuple):
    """Change of the residuals of class k in column j.

    The change is ``factors[k, j]`` times the residual plus ``even[k, j]``. It is subtracted from
    the residual of the true class.
    """

    factors: Array
    even: Array


def flow_plan(sums: Array, squares: Array, excess: Array, rounding: float) -> MarginPlan | None:
    """Scale residuals so that all columns sum to zero; return None if that is impossible.

    Scale the residuals of class k in column j by 1 + u_kj and subtract the change in column k. This
    moves u_kj T_kj from column k to column j, where T_kj is the weighted sum of the residuals, and
    costs u_kj² times the sum of their weighted squares. Potentials of the columns give the flows of
    minimum total cost. `excess` holds the column sums, and `rounding` is their error.
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
    """Move the excess of a column, in the rows of its class, to columns with negative sums."""
    excess, lack = np.maximum(columns, 0.0), np.maximum(-columns, 0.0)
    factors, even = np.zeros_like(sums), np.zeros_like(sums)
    if lack.any():
        for k in np.flatnonzero(excess):
            of_class = Shares(sums[k], squares[k], slacks[k], np.full_like(lack, totals[k]))
            factors[k], even[k] = of_class.split(excess[k] * lack / lack.sum())
    return MarginPlan(factors, even)


class Shares(NamedTuple):
    """Weighted sums over rows of residuals, squared residuals, slacks and ones, by column."""

    total: Array
    energy: Array
    slack: Array
    weights: Array

    @classmethod
    def of(cls, residuals: Array, slack: Array, weights: Array) -> Shares:
        """Compute the sums, with one weight per row and column."""
        parts = (residuals, residuals**2, slack, np.ones_like(slack))
        return cls(*(np.einsum("ij,ij->j", weights, part) for part in parts))

    def split(self, amounts: Array) -> tuple[Array, Array]:
        """Distribute one amount per column in proportion to the residuals or evenly.

        The cheaper way is used for each column. A share e of a row costs e² + 2 e · slack, and the
        slack is zero where the residual is not. Returns the multiples of the residuals and the even
        shares.
        """
        even = 1.0 / self.weights
        safe_total = np.where(self.total > 0, self.total, 1.0)
        in_proportion = np.where(self.total > 0, amounts**2 * self.energy / safe_total**2, np.inf)
        evenly = amounts**2 * even + 2 * amounts * even * self.slack
        cheaper = in_proportion < evenly
        factors = np.where(cheaper, amounts / safe_total, 0.0)
        return factors, np.where(cheaper, 0.0, amounts * even)
