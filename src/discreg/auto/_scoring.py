"""Scorers of scikit-learn on held-out probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.calibration import Temperature
from discreg.base.held_out import HeldOut, weighted_score
from discreg.linalg.types import Array

from ._trials import Samples

__all__ = ["HeldOutScorer"]


@dataclass(frozen=True)
class HeldOutScorer:
    """A scorer of scikit-learn for held-out log-probabilities."""

    scorer: Callable[..., float]
    labels: NDArray[Any]

    def __call__(self, found: Array, samples: Samples) -> float:
        """Score all judged samples together, or each fold, and take the mean."""
        parts: list[Any] = [slice(None)]
        if samples.by_folds:
            inside = [np.isin(samples.judged, test) for _, test in samples.folds]
            parts = [np.flatnonzero(part) for part in inside if part.any()]
        y, weights = self.labels[samples.y[samples.judged]], samples.weights
        unit = Temperature(1.0)
        scores = [
            weighted_score(
                self.scorer, HeldOut(found[k], self.labels), y[k], weights[k], self.labels, unit
            )[0]
            for k in parts
        ]
        return float(np.mean(scores))
