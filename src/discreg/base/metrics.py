"""The geometric mean of the recalls, a score for imbalanced classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import recall_score

__all__ = ["g_mean_score", "geometric_mean"]


def geometric_mean(recalls: NDArray[Any]) -> float:
    """Compute the geometric mean of recalls."""
    return float(np.prod(recalls ** (1 / len(recalls))))


def g_mean_score(
    y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Compute the geometric mean of the recalls of all classes, equation (28) of the DRM paper.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True and predicted labels.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    score : float
        Between 0 and 1; 0 if one of the classes in `y_true` is never predicted correctly.

    Examples
    --------
    >>> from discreg import g_mean_score
    >>> g_mean_score([0, 0, 0, 0, 1], [0, 0, 0, 1, 1]) == 0.75**0.5
    True
    """
    classes = np.unique(np.asarray(y_true))
    recalls = recall_score(
        y_true, y_pred, labels=classes, average=None, sample_weight=sample_weight, zero_division=0.0
    )
    return geometric_mean(np.asarray(recalls))
