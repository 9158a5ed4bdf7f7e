"""Reduced-rank regression onto continuous targets: the problem, and its leave-one-out.

The formulas of leave-one-out are those of `_leave_one_out`. The targets do not change with the
samples, so that D = I there, and the prediction without sample i is the mean of the other targets
plus (f/r − u h δ/(r r₀)) V_s V_sᵀ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreg.base.regression import SMALLEST_TRACE, require_squares_of
from discreg.blocks.moment_ridge import FeatureMoments, MomentRegression
from discreg.blocks.moments import Moments
from discreg.linalg.group_lasso import FeatureRegression
from discreg.linalg.reduced_rank import RankedCoefficients, rank_coefficients
from discreg.linalg.resources import require_memory, threads_for
from discreg.linalg.ridge import Regression, linear_regression
from discreg.linalg.rows import row_blocks, row_dots, varies, weighted_mean
from discreg.linalg.sparse_rank import SparseRankProblem
from discreg.linalg.types import Array

from ._leave_groups_out import solved_ridge
from ._leave_one_out import Without

__all__ = ["TargetProblem", "leave_one_out_of_targets"]


@dataclass
class TargetProblem:
    """Regression of targets Y on features Φ; both are centred if there is an intercept."""

    regression: Any  # a Regression, or a MomentRegression if the rows are not in memory
    moments: Array  # ΦᵀSY
    second: Array  # YᵀSY
    mean: Array  # of the raw targets; zero without an intercept
    dtype: np.dtype[Any]
    X: Any = None
    targets: Any = None  # the raw targets, if the rows are in memory
    kernel = None

    def __post_init__(self) -> None:
        if not np.isfinite(self.second).all():
            raise ValueError("The squares of the targets overflow. Scale the targets.")

    @classmethod
    def of_rows(
        cls, X: Any, targets: Array, weights: Array, *, centre: bool, sparse: bool
    ) -> TargetProblem:
        """Set up the problem of rows in memory, with `sparse` for the group lasso."""
        _require_memory(min(X.shape), targets.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            regression = (FeatureRegression if sparse else linear_regression)(
                X, weights, centre=centre
            )
            require_squares_of(
                regression, "linear", lost=regression.trace < SMALLEST_TRACE and varies(X)
            )
            mean = weighted_mean(targets, weights) if centre else np.zeros(targets.shape[1])
            away = targets - mean
            weighted = weights[:, None] * away
            moments = regression.gradient(weighted, weighted.sum(axis=0))
            return cls(regression, moments, away.T @ weighted, mean, X.dtype, X, targets)

    @classmethod
    def of_moments(
        cls,
        stacked: Moments,
        n_features: int,
        dtype: np.dtype[Any],
        *,
        centre: bool,
        sparse: bool,
    ) -> TargetProblem:
        """Set up the problem from the moments of rows followed by their targets."""
        _require_memory(n_features, len(stacked.scatter) - n_features)
        extremes = None if stacked.extremes is None else stacked.extremes[:, :n_features]
        features = Moments(
            stacked.weights,
            stacked.means[:, :n_features],
            stacked.scatter[:n_features, :n_features],
            extremes,
            stacked.error,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            regression = (FeatureMoments if sparse else MomentRegression)(features, centre=centre)
            require_squares_of(regression, "linear", lost=False)
            sums = stacked.scatter if centre else stacked.gram(centre=False)
        moments = regression.without_constant(sums[:n_features, n_features:].copy())
        mean = stacked.mean[n_features:] * centre
        return cls(regression, moments, sums[n_features:, n_features:], mean, dtype)

    @property
    def largest_rank(self) -> int:
        """The largest rank of the coefficients."""
        return int(min(self.regression.n_features, len(self.mean)))

    def ranked(self, beta: float) -> RankedCoefficients:
        """Solve ridge regression for every rank."""
        with threads_for(self.regression.size**3 / 6):
            self.regression.at(beta)
            return rank_coefficients(self.regression.solve(self.moments), self.moments)

    def with_rows_penalty(self, beta: float, rank: int) -> SparseRankProblem:
        """Set up the regression with a penalty on the norms of the rows of the coefficients."""
        constraint = rank if rank < self.largest_rank else None
        return SparseRankProblem(self.regression, self.moments, self.second, beta, constraint)


def _require_memory(size: int, n_targets: int) -> None:
    require_memory(
        3 * 8 * (size + n_targets) ** 2,
        f"A regression of {n_targets} targets with a Gram matrix of {size} rows",
        "Reduce the features first, for example with sklearn.decomposition.TruncatedSVD.",
    )


def leave_one_out_of_targets(
    problem: TargetProblem, betas: Sequence[float], ranks: Sequence[int]
) -> Iterator[Array]:
    """Yield leave-one-out predictions of all samples, one array per penalty.

    Each array has shape (n_ranks, n_samples, n_targets) and equals the predictions of refits
    without one unit of weight of each sample. One eigendecomposition serves all penalties.

    Parameters
    ----------
    problem : TargetProblem
        Ridge regression of rows in memory.
    betas : sequence of float
        Penalties.
    ranks : sequence of int
        The ranks.
    """
    regression, targets = problem.regression, problem.targets
    n_targets = targets.shape[1]
    units = np.minimum(regression.weights, 1.0)[:, None]
    share = units / regression.total * regression.centred
    before = 1 - share  # r_0
    away = targets - problem.mean
    means = problem.mean - share * away / before  # of the other samples
    weighted = regression.weights[:, None] * away

    def totals(rows: slice, block: Array) -> Array:
        return np.asarray(block.T @ weighted[rows])

    path = solved_ridge(regression, totals, lambda: problem.moments, betas)
    for beta, fit in zip(betas, path, strict=True):
        explained = fit.moments.T @ fit.coef if min(ranks) < problem.largest_rank else None
        found = np.empty((len(ranks), len(targets), n_targets))
        for rows, features, solved in fit.blocks():
            fitted, leverage = features @ fit.coef, row_dots(features, solved)[:, None]
            for some in row_blocks(len(features), n_targets**2):
                here = slice(rows.start + some.start, rows.start + some.stop)
                found[:, here] = Without.of(
                    units[here],
                    before[here],
                    away[here],
                    fitted[some],
                    leverage[some],
                    means[here],
                    np.ones((1, n_targets)),
                    np.ones((1, 1)),
                ).by_rank(explained, ranks)
        # The formula does not determine samples without which others have tied directions, or
        # that are alone in a direction of the features without a penalty.
        for row in np.flatnonzero(np.isnan(found).any(axis=(0, 2))).tolist():
            found[:, row] = _refit_without(problem, row, float(units[row, 0]), beta, ranks)
        yield found


def _refit_without(
    problem: TargetProblem, row: int, unit: float, beta: float, ranks: Sequence[int]
) -> Array:
    """Predict a sample by the regression without one unit of its weight."""
    whole = problem.regression
    weights = whole.weights.copy()
    weights[row] -= unit
    rest = Regression(whole.X, weights, centre=whole.centred)
    mean = weighted_mean(problem.targets, weights) * whole.centred
    weighted = weights[:, None] * (problem.targets - mean)
    moments = rest.gradient(weighted, weighted.sum(axis=0))
    rest.at(beta)
    ranked = rank_coefficients(rest.solve(moments), moments)
    along = rest.centred_rows(whole.X[[row]]) @ ranked.projected
    by_rank = [along[0, :rank] @ ranked.directions[:, :rank].T for rank in ranks]
    return np.asarray(np.stack(by_rank) + mean)
