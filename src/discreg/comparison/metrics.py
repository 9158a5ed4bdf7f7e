"""Metrics of a comparison: names, direction and computation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, log_loss

from discreg.base.metrics import geometric_mean

__all__ = ["METRICS", "Metric", "counts", "label_scores", "metric", "probability_scores"]


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes
    ----------
    name : str
        Name in results.
    title : str
        Name in sentences and tables.
    needs : {"labels", "probabilities", "clock", "fit"}
        Source of the metric: predicted labels, predicted probabilities, measured time, or
        attributes of the fitted model.
    lower_is_better : bool
        Whether the smallest value is the best.
    score : callable, optional
        For metrics of labels: function of a confusion matrix with true classes in the rows.
    """

    name: str
    title: str
    needs: Literal["labels", "probabilities", "clock", "fit"] = "fit"
    lower_is_better: bool = False
    score: Callable[[NDArray[Any]], float] | None = None

    @property
    def is_share(self) -> bool:
        """Whether values are between 0 and 1."""
        return self.needs == "labels"


def _accuracy(confusion: NDArray[Any]) -> float:
    return np.diag(confusion).sum() / confusion.sum()


def _recalls(confusion: NDArray[Any]) -> NDArray[Any]:
    """Compute the recalls of the classes that have test samples."""
    actual = confusion.sum(axis=1)
    return np.diag(confusion)[actual > 0] / actual[actual > 0]


def _balanced_accuracy(confusion: NDArray[Any]) -> float:
    return _recalls(confusion).mean()


def _g_mean(confusion: NDArray[Any]) -> float:
    return geometric_mean(_recalls(confusion))


def _macro_f1(confusion: NDArray[Any]) -> float:
    """Compute the mean F1 of the classes that have test samples or predictions."""
    total = confusion.sum(axis=1) + confusion.sum(axis=0)
    return (2 * np.diag(confusion)[total > 0] / total[total > 0]).mean()


METRICS = {
    metric.name: metric
    for metric in (  # in the order of the tables
        Metric("accuracy", "accuracy", "labels", score=_accuracy),
        Metric("balanced_accuracy", "balanced accuracy", "labels", score=_balanced_accuracy),
        Metric("g_mean", "G-mean", "labels", score=_g_mean),
        Metric("macro_f1", "macro F1", "labels", score=_macro_f1),
        Metric("log_loss", "log-loss", "probabilities", lower_is_better=True),
        Metric("fit_seconds", "fit", "clock", lower_is_better=True),
        Metric("predict_seconds", "predict", "clock", lower_is_better=True),
        Metric("loss", "loss", lower_is_better=True),
        Metric("objective", "objective", lower_is_better=True),
        Metric("relative_gap", "relative gap", lower_is_better=True),
    )
}


def metric(name: str) -> Metric:
    """Find a metric by name; an unknown metric is one where higher is better."""
    return METRICS.get(name) or Metric(name, name.replace("_", " "))


def label_scores(confusion: NDArray[Any]) -> dict[str, float]:
    """Compute all metrics of labels from a confusion matrix with true classes in the rows."""
    return {each.name: float(each.score(confusion)) for each in METRICS.values() if each.score}


def probability_scores(
    y: NDArray[Any], probabilities: NDArray[Any], classes: NDArray[Any]
) -> dict[str, float]:
    """Compute the log-loss; NaN if a test sample has a class that the model was not trained on."""
    if not np.isin(y, classes).all():
        return {"log_loss": np.nan}
    return {"log_loss": float(log_loss(y, probabilities, labels=classes))}


def counts(y: NDArray[Any], predicted: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Compute the confusion matrix with true classes in the rows."""
    return confusion_matrix(y, predicted, labels=classes)
