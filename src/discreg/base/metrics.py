"""Metrics: what each is called, which direction is better, and how it is computed.

A metric with a `score` is a column of a comparison, and its name is a `scoring` of every search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import confusion_matrix

__all__ = [
    "METRICS",
    "Metric",
    "counts",
    "g_mean_score",
    "label_scores",
    "metric",
]


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes
    ----------
    name : str
        In results.
    title : str
        In sentences and tables.
    needs : {"labels", "scores", "probabilities", "clock", "fit"}
        What it is computed from: predicted labels, decision values, predicted probabilities, the
        time that was measured, or what a fitted model says of itself.
    lower_is_better : bool
        Whether the smallest value is the best.
    score : callable, optional
        Of labels: the value for a confusion matrix with true classes in the rows.
    rope : float
        Region of practical equivalence: models whose values differ by less are equally good.
    """

    name: str
    title: str
    needs: Literal["labels", "scores", "probabilities", "clock", "fit"] = "fit"
    lower_is_better: bool = False
    score: Callable[[NDArray[Any]], float] | None = None
    rope: float = 0.01

    @property
    def is_share(self) -> bool:
        """Whether its values are between 0 and 1."""
        return self.needs in ("labels", "scores")

    def of_labels(
        self,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
    ) -> float:
        """The value for true and predicted labels; `labels` may name all classes."""
        assert self.score is not None
        confusion = confusion_matrix(y_true, y_pred, sample_weight=sample_weight, labels=labels)
        return float(self.score(confusion))


def _accuracy(confusion: NDArray[Any]) -> float:
    return float(np.diag(confusion).sum() / confusion.sum())


def _recalls(confusion: NDArray[Any]) -> NDArray[Any]:
    """Recalls of the classes that have test samples."""
    actual = confusion.sum(axis=1)
    return np.asarray(np.diag(confusion)[actual > 0] / actual[actual > 0])


def _balanced_accuracy(confusion: NDArray[Any]) -> float:
    return float(_recalls(confusion).mean())


def _g_mean(confusion: NDArray[Any]) -> float:
    recalls = _recalls(confusion)
    return float(np.prod(recalls ** (1 / len(recalls))))


def _macro_f1(confusion: NDArray[Any]) -> float:
    """Mean F1 of the classes that have test samples or predictions."""
    total = confusion.sum(axis=1) + confusion.sum(axis=0)
    return float((2 * np.diag(confusion)[total > 0] / total[total > 0]).mean())


METRICS = {
    metric.name: metric
    for metric in (  # in the order of the tables
        Metric("accuracy", "accuracy", "labels", score=_accuracy),
        Metric("balanced_accuracy", "balanced accuracy", "labels", score=_balanced_accuracy),
        Metric("rare_recall", "recall of the rarest class", "labels"),
        Metric("g_mean", "G-mean", "labels", score=_g_mean),
        Metric("macro_f1", "macro F1", "labels", score=_macro_f1),
        Metric("roc_auc", "ROC AUC", "scores"),
        Metric("average_precision", "average precision", "scores"),
        Metric("log_loss", "log-loss", "probabilities", lower_is_better=True),
        Metric("brier", "Brier score", "probabilities", lower_is_better=True, rope=0.005),
        Metric("fit_seconds", "fit", "clock", lower_is_better=True),
        Metric("predict_seconds", "predict", "clock", lower_is_better=True),
        Metric("loss", "loss", lower_is_better=True),
        Metric("objective", "objective", lower_is_better=True),
        Metric("relative_gap", "relative gap", lower_is_better=True),
    )
}


def metric(name: str) -> Metric:
    """The metric of this name; of any other, one of which more is better."""
    return METRICS.get(name) or Metric(name, name.replace("_", " "))


def label_scores(confusion: NDArray[Any]) -> dict[str, float]:
    """All metrics of predicted labels, for counts with true classes in the rows."""
    return {each.name: float(each.score(confusion)) for each in METRICS.values() if each.score}


def counts(y: NDArray[Any], predicted: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """How many samples of each class (rows) were predicted as each (columns)."""
    return np.asarray(confusion_matrix(y, predicted, labels=classes))


def g_mean_score(
    y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Geometric mean of the recalls of all classes, equation (28) of the DRM paper.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True and predicted labels.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    score : float
        Between 0, where a class is never recognised, and 1. Classes are those in `y_true`.

    Examples
    --------
    >>> from discreg import g_mean_score
    >>> g_mean_score([0, 0, 0, 0, 1], [0, 0, 0, 1, 1]) == 0.75**0.5
    True
    """
    return METRICS["g_mean"].of_labels(y_true, y_pred, sample_weight=sample_weight)
