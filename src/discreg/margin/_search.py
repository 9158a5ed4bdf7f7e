"""Held-out scores of ODM and LDM along a path of penalties, for their ...CV classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.calibration import class_columns
from discreg.base.held_out import HeldOut, Setting
from discreg.base.search import ClassifierSearch
from discreg.linalg.rows import matmul
from discreg.linalg.types import Array

from ._classifier import MarginClassifier

__all__ = ["MarginSearch"]

LOOSER = 30.0  # factor of `tol` in a search, which hardly changes the labels


class MarginSearch(ClassifierSearch):
    """Base class of the ...CV classes of ODM and LDM, with one kernel matrix per path."""

    _most_gammas = 4

    @staticmethod
    def _held_out(
        classifier: MarginClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: Array | None,
        X_test: Any,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        classifier.tol *= LOOSER
        data = classifier._prepare(X, y, sample_weight)
        training = data.training
        if classifier.solver == "auto" and classifier.solver_ == "active_set":
            classifier.solver_ = "dcd"  # faster with warm starts and a `tol`
        cross = None
        if data.features is not None:
            X_test = data.features(X_test)
        if training.kernel is not None:
            precomputed = training.kernel.kernel == "precomputed"
            cross = X_test[:, data.seen] if precomputed else training.kernel(X_test, training.X)
        starts: list[Any] = [None] * len(data.signs)
        for penalty in penalties:
            for name, value in penalty.items():  # set_params takes as long as a fit
                setattr(classifier, name, value)
            try:
                fits = classifier._fit_all(data, starts, exact=False)
            except ValueError as error:
                yield HeldOut.failed(error)
                continue
            starts = [fit.warm for fit in fits]
            if cross is None:
                scores = matmul(X_test, np.array([fit.coef for fit in fits]).T)
            else:
                scores = np.asarray(cross @ np.array([fit.theta for fit in fits]).T)
            scores = scores + np.array([fit.intercept for fit in fits])
            gap = max(fit.gap for fit in fits)
            converged = gap <= classifier.tol or classifier.tol == 0
            columns = class_columns(scores[:, 0] if scores.shape[1] == 1 else scores)
            yield HeldOut(columns, data.classes, gap, converged)
