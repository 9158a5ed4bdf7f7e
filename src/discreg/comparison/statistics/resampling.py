"""Bootstrap of held-out predictions: how much the best of many models owes to its selection.

The model with the best score of many has a score that is too good, because it was selected by the
same rows. Each bootstrap sample selects its best model by the rows that were drawn, and scores it
by those that were not. The mean of these scores estimates the score of the selected model.

References
----------
I. Tsamardinos, E. Greasidou and G. Borboudakis, "Bootstrapping the out-of-sample predictions for
efficient and accurate cross-validation", Machine Learning 107, 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from discreg.base.metrics import area_under_curve, ratio
from discreg.base.metrics import metric as metric_called
from discreg.comparison.protocol.scoring import ranking_columns, row_losses

from .evidence import Evidence, HeldOutPredictions
from .judged import JudgedScores, scores_by_block

__all__ = ["Resampled", "resample_folds", "resample_rows"]

N_SAMPLES, MIN_SAMPLES = 500, 100
MOST_PREDICTIONS = 1e9  # drawn in all bootstrap samples together
MOST_WEIGHTS = 5e6  # weights of rows that are in memory at once
Weights = NDArray[np.float64]  # of shape (n_rows, n_bootstrap)
Scorer = Callable[[Weights], NDArray[np.float64]]


@dataclass(frozen=True)
class Resampled:
    """Scores of models in bootstrap samples; larger is better.

    Attributes
    ----------
    drawn, rest : ndarray of shape (n_bootstrap, n_models)
        Scores of the rows that were drawn, and of the other rows. NaN if undefined.
    whole : ndarray of shape (n_models,)
        Scores of all rows.
    """

    drawn: NDArray[np.float64]
    rest: NDArray[np.float64]
    whole: NDArray[np.float64]

    def optimism(self, models: Sequence[int], selection: Resampled | None = None) -> float:
        """Estimate by how much the score of the best of these models is too good; NaN if undefined.

        The best is selected by the scores of `selection`, another metric of the same bootstrap
        samples, or by those of this metric.
        """
        places = np.asarray(models)
        by = selection or self
        defined = ~np.isnan(by.drawn[:, places]).any(axis=1)
        best = places[by.drawn[np.ix_(defined, places)].argmax(axis=1)]
        selected = np.take_along_axis(self.rest[defined], best[:, None], axis=1)
        first = places[by.whole[places].argmax()]
        if not np.isfinite(selected).any():
            return np.nan
        return max(0.0, float(self.whole[first] - np.nanmean(selected)))

    def standard_error(self, model: int, other: int | None = None) -> float:
        """Compute the bootstrap standard error of a score, or of a difference of two scores."""
        values = self.drawn[:, model]
        if other is not None:
            values = values - self.drawn[:, other]
        return float(np.nanstd(values, ddof=1))


def resample_rows(
    evidence: Evidence, judged: JudgedScores, metric: str, *, seed: int = 0
) -> Resampled | None:
    """Bootstrap the held-out rows of the judged folds.

    Rows of a group are drawn together. All repeats of the cross-validation have the same bootstrap
    samples.

    Returns
    -------
    Resampled or None
        Models in the order of `judged.scores`. None if the metric is not a function of stored
        predictions.
    """
    held_out = _on_judged_folds(evidence, judged)
    if held_out is None:
        return None
    scorers: list[list[Scorer]] = []
    for predictions in held_out:
        made = [_scorer(evidence, metric, each) for each in predictions]
        if any(each is None for each in made):
            return None
        scorers.append([each for each in made if each is not None])
    base = np.ones(len(evidence.y)) if evidence.weights is None else evidence.weights
    base = base[:, None]
    sign = -1.0 if metric_called(metric).lower_is_better else 1.0

    def score(weights: Weights) -> NDArray[np.float64]:
        columns = [np.mean([each(weights) for each in repeats], axis=0) for repeats in scorers]
        return sign * np.column_stack(columns)

    n_predictions = sum(len(each.rows) for predictions in held_out for each in predictions)
    n_samples = int(np.clip(MOST_PREDICTIONS / n_predictions, MIN_SAMPLES, N_SAMPLES))
    tested = np.unique(np.concatenate([each.rows for each in held_out[0]]))
    drawn, rest = [], []
    for counts in _bootstrap(evidence, tested, n_samples, seed):
        drawn.append(score(base * counts))
        rest.append(score(base * (counts == 0)))
    return Resampled(np.vstack(drawn), np.vstack(rest), score(base)[0])


def resample_folds(
    evidence: Evidence, judged: JudgedScores, metric: str, *, seed: int = 0
) -> Resampled:
    """Bootstrap the scores of folds, for metrics that are not a function of stored predictions.

    As many folds are drawn as one repeat has, because repeats have the same rows. The score of the
    rest is the mean plus the distance of the drawn score from it, on the other side: its expected
    value given the drawn score.
    """
    scores = scores_by_block(evidence, metric, judged.fits)[judged.scores.columns].to_numpy()
    sign = -1.0 if metric_called(metric).lower_is_better else 1.0
    rng = np.random.default_rng(seed)
    n_repeats = judged.fits.get_level_values("repeat").nunique()
    n_drawn = max(2, len(scores) // n_repeats)
    places = rng.integers(len(scores), size=(N_SAMPLES, n_drawn))
    drawn, whole = sign * scores[places].mean(axis=1), sign * scores.mean(axis=0)
    return Resampled(drawn, 2 * whole - drawn, whole)


def _on_judged_folds(
    evidence: Evidence, judged: JudgedScores
) -> list[list[HeldOutPredictions]] | None:
    """Collect the predictions of each judged model, one entry per repeat."""
    found = []
    folds_of = judged.fits.to_frame().groupby(level="repeat")["fold"]
    for model in judged.scores.columns:
        entries = evidence.held_out.get(model, ())
        repeats = []
        for repeat, folds in folds_of:
            if repeat >= len(entries):
                return None
            repeats.append(_only(entries[repeat], folds.to_numpy()))
        found.append(repeats)
    return found


def _only(held_out: HeldOutPredictions, folds: NDArray[Any]) -> HeldOutPredictions:
    kept = np.isin(held_out.folds, folds)
    shares, scores = held_out.probabilities, held_out.scores
    return HeldOutPredictions(
        rows=held_out.rows[kept],
        folds=held_out.folds[kept],
        labels=held_out.labels[kept],
        probabilities=None if shares is None else shares[kept],
        scores=None if scores is None else scores[kept],
    )


def _bootstrap(
    evidence: Evidence, tested: NDArray[np.intp], n_samples: int, seed: int
) -> Iterator[Weights]:
    """Yield how often each row was drawn, for several bootstrap samples at a time.

    Rows that no fold tests are drawn 0 times.
    """
    rng = np.random.default_rng(seed)
    units = tested if evidence.groups is None else evidence.groups[tested]
    unit_of, distinct = pd.factorize(units)
    n_units, n_rows = len(distinct), len(evidence.y)
    size = max(1, int(MOST_WEIGHTS / n_rows))
    for start in range(0, n_samples, size):
        counts = np.zeros((min(size, n_samples - start), n_rows))
        for each in counts:
            drawn = rng.integers(n_units, size=n_units)
            each[tested] = np.bincount(drawn, minlength=n_units)[unit_of]
        yield np.ascontiguousarray(counts.T)


def _scorer(evidence: Evidence, metric: str, held_out: HeldOutPredictions) -> Scorer | None:
    """Make the function that scores predictions with several weights of the rows."""
    y, score = evidence.y[held_out.rows], metric_called(metric).score
    if score is not None:
        return _by_labels(score, y, held_out, len(evidence.classes))
    if metric == "rare_recall":
        return _by_labels(_recall_of(evidence.rarest), y, held_out, len(evidence.classes))
    if metric in ("log_loss", "brier") and held_out.probabilities is not None:
        return _by_rows(row_losses(y, held_out.probabilities)[metric], held_out.rows)
    if metric in RANK_SCORES:
        return _by_ranks(RANK_SCORES[metric], evidence, held_out)
    return None


def _by_labels(
    score: Callable[[NDArray[Any]], NDArray[np.float64]],
    y: NDArray[np.intp],
    held_out: HeldOutPredictions,
    n_classes: int,
) -> Scorer:
    cells = y * n_classes + held_out.labels

    def scores(weights: Weights) -> NDArray[np.float64]:
        of_cell = sparse.csr_array(
            (np.ones(len(cells)), (cells, held_out.rows)), shape=(n_classes**2, len(weights))
        )
        tables = (of_cell @ weights).T.reshape(-1, n_classes, n_classes)
        return score(tables)

    return scores


def _recall_of(label: int) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
    return lambda tables: ratio(tables[..., label, label], tables[..., label, :].sum(axis=-1))


def _by_rows(losses: NDArray[np.float64], rows: NDArray[np.intp]) -> Scorer:
    def scores(weights: Weights) -> NDArray[np.float64]:
        return ratio(losses @ weights[rows], weights[rows].sum(axis=0))

    return scores


def _by_ranks(
    score: Callable[[NDArray[Any], NDArray[np.bool_], Weights], NDArray[np.float64]],
    evidence: Evidence,
    held_out: HeldOutPredictions,
) -> Scorer | None:
    """Score the order of the rows in each fold; the mean is over folds that have both classes."""
    values = ranking_columns(held_out.probabilities, held_out.scores)
    if values is None:
        return None
    y = evidence.y[held_out.rows]
    n_classes = values.shape[1]
    positive = 1 if evidence.positive is None else evidence.positive
    wanted = range(n_classes) if n_classes > 2 else [positive]

    def scores(weights: Weights) -> NDArray[np.float64]:
        each_fold = []
        for fold in np.unique(held_out.folds):
            rows = np.flatnonzero(held_out.folds == fold)
            drawn = weights[held_out.rows[rows]]
            each_class = [score(values[rows, label], y[rows] == label, drawn) for label in wanted]
            each_fold.append(np.mean(each_class, axis=0))
        defined = ~np.isnan(each_fold)
        return ratio(np.where(defined, each_fold, 0).sum(axis=0), defined.sum(axis=0))

    return scores


def _average_precision(
    values: NDArray[Any], positive: NDArray[np.bool_], weights: Weights
) -> NDArray[np.float64]:
    order = np.argsort(-values, kind="stable")
    ends = np.flatnonzero(np.diff(values[order], append=-np.inf))  # equal values go together
    called = np.cumsum(weights[order], axis=0)[ends]
    found = np.cumsum(weights[order] * positive[order, None], axis=0)[ends]
    new = np.diff(found, axis=0, prepend=0)
    precision = found / np.where(called > 0, called, 1)
    return ratio((precision * new).sum(axis=0), found[-1])


RANK_SCORES = {"roc_auc": area_under_curve, "average_precision": _average_precision}
