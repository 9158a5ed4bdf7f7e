"""Held-out predictions of one model as a confusion matrix and as curves.

Each row counts once: predictions are those of the first repeat of the cross-validation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.metrics import precision_recall_curve, roc_auc_score, roc_curve

from discreg.base.metrics import counts

from .evidence import Evidence, HeldOutPredictions

__all__ = [
    "CalibrationGroups",
    "ClassScores",
    "Curve",
    "RankingCurves",
    "calibration",
    "class_scores",
    "confusion",
    "margins",
    "one_prediction_per_row",
    "precision_recall_curves",
    "ranking_scores",
    "roc_curves",
]

N_BINS = 10
Curve = tuple[NDArray[Any], NDArray[Any]]


class ClassScores(NamedTuple):
    """How well one class is recognised; NaN where a score is undefined."""

    n_rows: int
    n_predicted: int
    precision: float
    recall: float
    auc: float  # this class against the others, mean over the folds


@dataclass(frozen=True)
class RankingCurves:
    """A ROC or precision-recall curve of one class against the others.

    Attributes
    ----------
    whole : tuple of ndarrays
        Curve of all held-out rows.
    folds : list of tuples of ndarrays
        Curves of the folds that have rows of the class and of others.
    """

    whole: Curve
    folds: list[Curve]


@dataclass(frozen=True)
class CalibrationGroups:
    """Mean predicted probability p and observed fraction in groups of rows.

    Groups have about equal sums of p (1 - p), so that a few rows with high probabilities are not
    lost among many with low ones.

    Attributes
    ----------
    predicted, observed : ndarray of shape (n_bins,)
    low, high : ndarray of shape (n_bins,)
        Wilson's 95 % interval of the observed fraction.
    n_rows : ndarray of shape (n_bins,)
    """

    predicted: NDArray[Any]
    observed: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    n_rows: NDArray[Any]


def one_prediction_per_row(evidence: Evidence, model: str) -> HeldOutPredictions | None:
    """Predictions of the first repeat that has the most rows; None if there are none."""
    return max(evidence.held_out.get(model, ()), key=lambda each: len(each.rows), default=None)


def confusion(evidence: Evidence, held: HeldOutPredictions) -> NDArray[Any]:
    """Count the rows of each class (rows) that are predicted as each class (columns)."""
    return counts(evidence.y[held.rows], held.labels, np.arange(len(evidence.classes)))


def class_scores(evidence: Evidence, held: HeldOutPredictions) -> list[ClassScores]:
    """Compute precision, recall and AUC of every class."""
    matrix = confusion(evidence, held)
    right, actual, predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    return [
        ClassScores(
            int(actual[place]),
            int(predicted[place]),
            right[place] / predicted[place] if predicted[place] else np.nan,
            right[place] / actual[place] if actual[place] else np.nan,
            _auc(evidence, held, place),
        )
        for place in range(len(evidence.classes))
    ]


def _auc(evidence: Evidence, held: HeldOutPredictions, place: int) -> float:
    scores = ranking_scores(held, place)
    if scores is None:
        return np.nan
    values = [
        roc_auc_score(is_class, scores[rows], sample_weight=weights)
        for rows, is_class, weights in _folds(evidence, held, place)
    ]
    return float(np.mean(values)) if values else np.nan


def ranking_scores(held: HeldOutPredictions, place: int) -> NDArray[Any] | None:
    """Values that order rows by how likely they are of a class: probabilities if there are any."""
    if held.probabilities is not None:
        return np.asarray(held.probabilities[:, place])
    if held.scores is None:
        return None
    if held.scores.ndim == 1:
        return held.scores if place == 1 else -held.scores
    return np.asarray(held.scores[:, place])


def roc_curves(evidence: Evidence, held: HeldOutPredictions, place: int) -> RankingCurves | None:
    """False positive rates and recalls of a class; None without scores or without the class."""
    return _ranking_curves(evidence, held, place, _roc)


def precision_recall_curves(
    evidence: Evidence, held: HeldOutPredictions, place: int
) -> RankingCurves | None:
    """Recalls and precisions of a class; None without scores or without the class."""
    return _ranking_curves(evidence, held, place, _precision_recall)


def _ranking_curves(
    evidence: Evidence, held: HeldOutPredictions, place: int, curve: Any
) -> RankingCurves | None:
    scores = ranking_scores(held, place)
    is_class = evidence.y[held.rows] == place
    if scores is None or is_class.all() or not is_class.any():
        return None
    return RankingCurves(
        curve(is_class, scores, _weights(evidence, held)),
        [
            curve(of_fold, scores[rows], weights)
            for rows, of_fold, weights in _folds(evidence, held, place)
        ],
    )


def _roc(is_class: NDArray[Any], scores: NDArray[Any], weights: NDArray[Any] | None) -> Curve:
    others, recalls, _ = roc_curve(is_class, scores, sample_weight=weights)
    return others, recalls


def _precision_recall(
    is_class: NDArray[Any], scores: NDArray[Any], weights: NDArray[Any] | None
) -> Curve:
    precisions, recalls, _ = precision_recall_curve(is_class, scores, sample_weight=weights)
    # The last point, precision 1 at recall 0, is not a threshold.
    return recalls[:-1], precisions[:-1]


def _folds(
    evidence: Evidence, held: HeldOutPredictions, place: int
) -> list[tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]]:
    """Positions, membership in the class and weights of the folds that have both kinds of rows."""
    is_class, weights = evidence.y[held.rows] == place, _weights(evidence, held)
    parts = [np.flatnonzero(held.folds == fold) for fold in np.unique(held.folds)]
    return [
        (part, is_class[part], None if weights is None else weights[part])
        for part in parts
        if is_class[part].any() and not is_class[part].all()
    ]


def _weights(evidence: Evidence, held: HeldOutPredictions) -> NDArray[Any] | None:
    return None if evidence.weights is None else evidence.weights[held.rows]


def calibration(evidence: Evidence, held: HeldOutPredictions) -> CalibrationGroups | None:
    """Compare predicted probabilities with observed fractions.

    With two classes, the probability is that of the positive class; with more, that of the
    predicted class, and the observed fraction is the accuracy. None without probabilities.
    """
    if held.probabilities is None or not len(held.rows):
        return None
    y = evidence.y[held.rows]
    if evidence.positive is None:
        predicted, hit = held.probabilities.max(axis=1), held.probabilities.argmax(axis=1) == y
    else:
        predicted, hit = held.probabilities[:, evidence.positive], y == evidence.positive
    order = np.argsort(predicted, kind="stable")
    spread = np.cumsum((predicted * (1 - predicted))[order] + 1e-9)
    place = np.empty(len(predicted), dtype=np.intp)
    place[order] = np.minimum(N_BINS * (spread - spread[0]) / spread[-1], N_BINS - 1)
    first = np.searchsorted(predicted[order], predicted)  # equal probabilities share a group
    place = place[order][first]
    groups = [np.flatnonzero(place == each) for each in np.unique(place)]
    n_rows = np.array([len(group) for group in groups])
    observed = np.array([hit[group].mean() for group in groups])
    return CalibrationGroups(
        np.array([predicted[group].mean() for group in groups]),
        observed,
        *_wilson(observed, n_rows),
        n_rows,
    )


def _wilson(share: NDArray[Any], n: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Wilson's 95 % interval of a fraction."""
    z = norm.isf(0.025)
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return centre - reach, centre + reach


def margins(evidence: Evidence, held: HeldOutPredictions) -> NDArray[Any] | None:
    """Score of the true class minus the largest of the other classes; negative where wrong."""
    scores = held.probabilities if held.scores is None else held.scores
    if scores is None or not len(held.rows):
        return None
    y = evidence.y[held.rows]
    if scores.ndim == 1:
        return np.where(y == 1, scores, -scores)
    rows = np.arange(len(y))
    others = scores.astype(np.float64)
    others[rows, y] = -np.inf
    return np.asarray(scores[rows, y] - others.max(axis=1))
