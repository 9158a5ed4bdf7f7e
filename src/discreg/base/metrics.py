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
        Of labels: the values for confusion matrices of shape (..., n_classes, n_classes) with true
        classes in the rows; NaN for a matrix of zeros.
    """

    name: str
    title: str
    needs: Literal["labels", "scores", "probabilities", "clock", "fit"] = "fit"
    lower_is_better: bool = False
    score: Callable[[NDArray[Any]], NDArray[Any]] | None = None

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


def ratio(part: ArrayLike, total: NDArray[Any]) -> NDArray[Any]:
    """Divide; NaN where the total is 0."""
    return np.where(total > 0, part / np.where(total > 0, total, 1), np.nan)


def _accuracy(confusion: NDArray[Any]) -> NDArray[Any]:
    return ratio(np.trace(confusion, axis1=-2, axis2=-1), confusion.sum(axis=(-2, -1)))


def _recalls(confusion: NDArray[Any]) -> NDArray[Any]:
    """Recalls of the classes; NaN for those without test samples."""
    return ratio(np.diagonal(confusion, axis1=-2, axis2=-1), confusion.sum(axis=-1))


def _balanced_accuracy(confusion: NDArray[Any]) -> NDArray[Any]:
    return _mean(_recalls(confusion))


def _g_mean(confusion: NDArray[Any]) -> NDArray[Any]:
    recalls = _recalls(confusion)
    n_classes = np.count_nonzero(~np.isnan(recalls), axis=-1)
    roots = recalls ** ratio(1, n_classes)[..., None]
    return np.where(n_classes > 0, np.nanprod(roots, axis=-1), np.nan)


def _macro_f1(confusion: NDArray[Any]) -> NDArray[Any]:
    """Mean F1 of the classes that have test samples or predictions."""
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    return _mean(ratio(2 * right, confusion.sum(axis=-1) + confusion.sum(axis=-2)))


def _mean(values: NDArray[Any]) -> NDArray[Any]:
    """Mean over the classes whose value is not NaN."""
    is_known = ~np.isnan(values)
    return ratio(np.where(is_known, values, 0).sum(axis=-1), is_known.sum(axis=-1))


def area_under_curve(
    values: NDArray[Any], positive: NDArray[np.bool_], weights: NDArray[Any]
) -> NDArray[Any]:
    """Area under the ROC curve for one or several weights of the rows, one column each.

    It is the weighted share of pairs in which the positive row has the larger value; pairs with
    equal values count half. The sum over a positive row and all rows contains the pairs of two
    positive rows, whose sum is half the square of their total weight.
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order], axis=0)
    below = np.concatenate([np.zeros_like(below[:1]), below])
    own, ordered = weights[positive], values[order]
    smaller, not_larger = (
        below[np.searchsorted(ordered, values[positive], side)] for side in ("left", "right")
    )
    total = own.sum(axis=0)
    pairs = (own * (smaller + not_larger)).sum(axis=0) - total**2
    return ratio(pairs / 2, total * (below[-1] - total))


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
        Metric("brier", "Brier score", "probabilities", lower_is_better=True),
        Metric("fit_seconds", "fit", "clock", lower_is_better=True),
        Metric("predict_seconds", "predict", "clock", lower_is_better=True),
        Metric("loss", "loss", lower_is_better=True),
        Metric("objective", "objective", lower_is_better=True),
        Metric("relative_gap", "relative gap", lower_is_better=True),
    )
}


# Scorers of scikit-learn for labels, with values between 0 and 1.
SHARES = {
    f"{name}{average}"
    for name in ("f1", "precision", "recall", "jaccard")
    for average in ("", "_micro", "_macro", "_weighted")
}


def metric(name: str) -> Metric:
    """The metric of this name; of any other, one of which more is better."""
    needs: Literal["labels", "fit"] = "labels" if name in SHARES else "fit"
    return METRICS.get(name) or Metric(name, name.replace("_", " "), needs)


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
