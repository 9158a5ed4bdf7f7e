"""Numbers that judge predictions of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, log_loss

__all__ = ["LOWER_IS_BETTER", "SHARES", "counts", "label_scores", "probability_scores"]

SHARES = frozenset({"accuracy", "balanced_accuracy", "g_mean", "macro_f1"})  # between 0 and 1
LOWER_IS_BETTER = frozenset(
    {"log_loss", "fit_seconds", "predict_seconds", "loss", "objective", "relative_gap"}
)


def label_scores(confusion: NDArray[Any]) -> dict[str, float]:
    """Accuracy, balanced accuracy, G-mean and macro F1 of counts, true classes in the rows.

    Recalls are over the classes that have test samples; the G-mean is their geometric mean. F1 is
    averaged over the classes that have test samples or predictions.
    """
    right, actual, predicted = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    recall = right[actual > 0] / actual[actual > 0]
    seen = actual + predicted > 0
    f1 = 2 * right[seen] / (actual + predicted)[seen]
    return {
        "accuracy": float(right.sum() / confusion.sum()),
        "balanced_accuracy": float(recall.mean()),
        "g_mean": float(np.prod(recall ** (1 / len(recall)))),
        "macro_f1": float(f1.mean()),
    }


def probability_scores(
    y: NDArray[Any], probabilities: NDArray[Any], classes: NDArray[Any]
) -> dict[str, float]:
    """Log-loss of probabilities of the classes that the model was trained on.

    A test sample of a class that the training part does not have makes it undefined: NaN.
    """
    if not np.isin(y, classes).all():
        return {"log_loss": np.nan}
    return {"log_loss": float(log_loss(y, probabilities, labels=classes))}


def counts(y: NDArray[Any], predicted: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """How many samples of each class (rows) were taken for each (columns)."""
    return confusion_matrix(y, predicted, labels=classes)
