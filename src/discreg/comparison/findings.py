"""Results of a comparison on one data set, as shown in its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from .experiment import Key

__all__ = ["Findings"]


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Contents of the report on one data set.

    Arrays for plots may be missing; the report then omits the plot.
    """

    name: str
    n_samples: int
    n_features: int
    class_counts: Mapping[str, int]
    notes: Sequence[str]  # notes on the columns and rows of the file
    judged_by: Sequence[str]  # sentences on the cross-validation
    results: pd.DataFrame  # columns: dataset, model, repeat, fold, metric, value
    n_folds: int  # number of folds, including unfinished ones
    metric: str  # the metric of the ranking
    usage: str  # Python code that loads and uses the model
    versions: Mapping[str, str]
    model_file: str | None = None
    final_seconds: float | None = None  # fit time of the model in the file
    incomplete: str | None = None  # reason why the run is not complete; None if it is
    failures: Mapping[Key, str] = field(default_factory=dict)
    warnings: Mapping[Key, Sequence[str]] = field(default_factory=dict)
    confusion: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # summed over folds
    labels: Sequence[str] = ()  # classes in the order of the confusion matrices
    margins: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # held-out samples
    rank_scores: Mapping[str, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)
    histories: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # objective by iteration

    @property
    def majority_rate(self) -> float:
        """Accuracy of always predicting the most frequent class."""
        return max(self.class_counts.values()) / sum(self.class_counts.values())
