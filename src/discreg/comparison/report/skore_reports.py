"""Held-out predictions of a comparison as reports of skore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from discreg.base.errors import InputError
from discreg.comparison.statistics.evidence import Evidence, HeldOutPredictions

__all__ = ["HeldOutClassifier", "skore_report"]


class HeldOutClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that repeats stored predictions of held-out rows.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Class labels, sorted.
    labels : ndarray of shape (n,)
        Predicted class indices.
    probabilities : ndarray of shape (n, n_classes) or None
        Predicted probabilities.
    """

    def __init__(
        self,
        classes: NDArray[Any],
        labels: NDArray[np.intp],
        probabilities: NDArray[Any] | None = None,
    ) -> None:
        self.classes = classes
        self.labels = labels
        self.probabilities = probabilities

    def fit(self, X: Any, y: Any) -> HeldOutClassifier:
        """Do nothing: the models have been fitted in the comparison."""
        self.classes_ = self.classes
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predictions of the given positions, the only column of X."""
        return np.asarray(self.classes[self.labels[_positions(X)]])

    @available_if(lambda self: self.probabilities is not None)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the given positions."""
        assert self.probabilities is not None
        return np.asarray(self.probabilities[_positions(X)], dtype=np.float64)


def skore_report(evidence: Evidence, models: Sequence[str]) -> Any:
    """Create a `skore.ComparisonReport` of cross-validations, or a report if there is one model.

    Every fold of the comparison is a split. Nothing is fitted again.
    """
    try:
        import skore
    except ImportError as error:
        raise ImportError("to_skore needs skore: pip install skore") from error
    reports = {model: _cross_validation(skore, evidence, model) for model in models}
    return reports[models[0]] if len(models) == 1 else skore.ComparisonReport(reports)


def _cross_validation(skore: Any, evidence: Evidence, model: str) -> Any:
    held_out = evidence.held_out.get(model)
    if not held_out:
        raise InputError(f"There are no held-out predictions of {model}.")
    # Rows of all repeats below each other, in the order of the table, are the same for all models.
    orders = [np.argsort(each.rows, kind="stable") for each in held_out]
    y = np.concatenate([evidence.y[np.sort(each.rows)] for each in held_out])
    labels = _joined(held_out, orders, "labels")
    shares = _joined(held_out, orders, "probabilities")
    assert labels is not None
    by_label = np.argsort(evidence.classes)  # the order of classes in scikit-learn
    classifier = HeldOutClassifier(
        evidence.classes[by_label],
        np.argsort(by_label)[labels],
        None if shares is None else shares[:, by_label],
    )
    two = evidence.positive is not None
    return skore.CrossValidationReport(
        classifier,
        X=np.arange(len(y), dtype=np.float64)[:, None],
        y=evidence.classes[y],
        pos_label=evidence.classes[evidence.positive].item() if two else None,
        splitter=_splits(held_out, orders),
    )


def _joined(
    held_out: Sequence[HeldOutPredictions], orders: Sequence[NDArray[np.intp]], name: str
) -> NDArray[Any] | None:
    arrays = [getattr(each, name) for each in held_out]
    if any(array is None for array in arrays):
        return None
    return np.concatenate([array[order] for array, order in zip(arrays, orders, strict=True)])


def _splits(
    held_out: Sequence[HeldOutPredictions], orders: Sequence[NDArray[np.intp]]
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """List the folds of all repeats as positions of training rows and test rows."""
    splits, start = [], 0
    for each, order in zip(held_out, orders, strict=True):
        folds = each.folds[order]
        for fold in np.unique(folds):
            parts = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            splits.append((start + parts[0], start + parts[1]))
        start += len(folds)
    return splits


def _positions(X: Any) -> NDArray[np.intp]:
    return np.asarray(X, dtype=np.float64)[:, 0].astype(np.intp)
