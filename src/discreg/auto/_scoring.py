"""Scorers of scikit-learn on held-out probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score

from discreg.base.calibration import Temperature
from discreg.base.early_checks import is_of_labels
from discreg.base.held_out import HeldOut, weighted_score
from discreg.base.metrics import METRICS
from discreg.linalg.types import Array

from ._trials import Samples

__all__ = ["HeldOutScorer"]


@dataclass(frozen=True)
class HeldOutScorer:
    """A scorer of scikit-learn for held-out log-probabilities."""

    scorer: Callable[..., float]
    labels: NDArray[Any]

    @property
    def is_of_labels(self) -> bool:
        """Whether the scorer needs labels only."""
        return is_of_labels(self.scorer)

    @property
    def is_accuracy(self) -> bool:
        """Whether the score is the share of right labels."""
        known = accuracy_score, METRICS["accuracy"].of_labels
        return self.is_of_labels and getattr(self.scorer, "_score_func", None) in known

    def __call__(self, found: Array, samples: Samples) -> float:
        """Score all judged samples together, or each fold on which the scorer is defined."""
        parts: list[Any] = [slice(None)]
        if samples.by_folds:
            inside = [np.isin(samples.judged, test) for _, test in samples.folds]
            parts = [np.flatnonzero(part) for part in inside if part.any()]
        y, weights = self.labels[samples.y[samples.judged]], samples.weights
        scores, reason = [], "The score is not a number."
        for part in parts:
            held_out = HeldOut(found[part], self.labels)
            given = y[part], weights[part], self.labels, Temperature(1.0)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UndefinedMetricWarning)
                    scores.append(weighted_score(self.scorer, held_out, *given)[0])
            except ValueError as error:
                reason = str(error)
        scores = [score for score in scores if np.isfinite(score)]
        if not scores:
            raise ValueError(
                f"The scorer is not defined on held-out samples. {reason} Use scoring=None or "
                "scoring='balanced_accuracy', or add samples of rare classes."
            )
        return float(np.mean(scores))
