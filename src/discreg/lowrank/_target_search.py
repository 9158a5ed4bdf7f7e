"""Held-out predictions of reduced-rank regression for the settings of a search, and scores."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import check_scoring

from discreg.base.caller import warn_of_equal_weights
from discreg.base.held_out import Fold, Setting
from discreg.linalg.rows import matmul
from discreg.linalg.sparse_rank import SparseRankSolution
from discreg.linalg.types import Array, Scoring

from ._ranks import scores_by_rank
from ._reduced_rank import ReducedRankRegression
from ._targets import TargetProblem, leave_one_out_of_targets

__all__ = ["FoldPredictions", "WeightedScorer", "left_out_predictions", "predict_fold"]


class PredictedTargets(RegressorMixin, BaseEstimator):
    """Regressor that takes predictions as its input, so that any scorer can be applied."""

    def fit(self, X: Any, y: Any) -> Self:
        """Do nothing."""
        return self

    def predict(self, X: Any) -> Any:
        """Return the predictions."""
        return X


class WeightedScorer:
    """Scorer of predictions, with sample weights if they are given and the scorer accepts them."""

    def __init__(self, scoring: Scoring, *, weighted: bool) -> None:
        self.scoring, self.weighted = scoring, weighted
        self.judge = PredictedTargets()
        self.scorer: Any = check_scoring(self.judge, scoring=scoring)

    def __call__(self, predicted: Array, y: Array, weights: Array) -> float:
        if self.weighted:
            try:
                return float(self.scorer(self.judge, predicted, y, sample_weight=weights))
            except TypeError as error:
                if "sample_weight" not in str(error):
                    raise
            warn_of_equal_weights(self.scoring)
            self.weighted = False
        return float(self.scorer(self.judge, predicted, y))


def left_out_predictions(problem: TargetProblem, grid: Sequence[Setting]) -> Iterator[Array]:
    """Yield the leave-one-out predictions of each setting of ridge."""
    betas = list(dict.fromkeys(setting["beta"] for setting in grid))
    ranks = list(dict.fromkeys(setting["rank"] for setting in grid))
    for by_rank in leave_one_out_of_targets(problem, betas, ranks):
        yield from by_rank


class FoldPredictions(NamedTuple):
    """Predictions of the test rows of a fold and seconds of each setting; gaps above `tol`."""

    predictions: list[Array]
    seconds: list[float]
    early: list[float]


def predict_fold(
    model: ReducedRankRegression,
    grid: Sequence[Setting],
    X: Any,
    y: Array,
    weights: Array,
    fold: Fold,
) -> FoldPredictions:
    """Fit each setting to the training rows of a fold and predict its test rows."""
    train, test = fold
    found = FoldPredictions([], [], [])
    problem = model._problem(X[train], y[train].reshape(len(train), -1), weights[train])
    started = time.perf_counter()
    for predicted in _held_out_predictions(model, problem, X[test], grid, found.early):
        found.seconds.append(time.perf_counter() - started)
        found.predictions.append(predicted.reshape(y[test].shape))
        started = time.perf_counter()
    return found


def _held_out_predictions(
    model: ReducedRankRegression,
    problem: TargetProblem,
    X: Any,
    grid: Sequence[Setting],
    early: list[float],
) -> Iterator[Array]:
    """Yield the predictions of test rows by each setting.

    With ridge, one solve per penalty gives all ranks. With "l21", the fits of a rank start from the
    solution of the next larger penalty; the gaps of fits that stop early are added to `early`.
    """
    latest: dict[int, SparseRankSolution] = {}
    by_rank: list[Array] = []
    for number, setting in enumerate(grid):
        beta, rank = setting["beta"], setting["rank"]
        if model.penalty == "ridge":
            if number == 0 or beta != grid[number - 1]["beta"]:
                ranked = problem.ranked(beta)
                scalings, means = problem.regression.predictor(ranked.projected)
                along = matmul(X, scalings) - means
                by_rank = list(scores_by_rank(along, ranked.directions, problem.mean))
            yield by_rank[rank - 1]
        else:
            solution = model._solve(problem.with_rows_penalty(beta, rank), latest.get(rank))
            if not model._has_converged(solution):
                early.append(solution.gap)
            latest[rank] = solution
            coef, means = problem.regression.predictor(solution.coef @ solution.directions.T)
            yield matmul(X, coef) + (problem.mean - means)
