"""Methods of fitted models on Dask collections: lazy predictions, and the accuracy."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .source import is_dask

__all__ = ["DaskScoreMixin", "lazily"]


def lazily(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of one row at a time return a lazy array for a Dask collection."""

    @wraps(method)
    def on_rows(self: Any, X: Any) -> Any:
        if not is_dask(X):
            return method(self, X)
        from .dask_source import map_rows

        check_is_fitted(self)
        return map_rows(self, method.__name__, X)

    return on_rows


class DaskScoreMixin:
    """The accuracy of a classifier on collections, whose labels are computed first."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy of the predicted labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        score : float
        """
        of_rows: Any = super()
        if not is_dask(X):
            return float(of_rows.score(X, y, sample_weight))
        from sklearn.metrics import accuracy_score

        model: Any = self
        labels = np.asarray(model.predict(X))
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(accuracy_score(np.asarray(y), labels, sample_weight=weights))
