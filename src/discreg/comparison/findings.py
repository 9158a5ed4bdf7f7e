"""What a comparison found on one data set: everything that its page tells."""

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
    """Everything that the page of one data set tells.

    Arrays for plots may be missing; the page then goes without the plot.
    """

    name: str
    n_samples: int
    n_features: int
    class_counts: Mapping[str, int]
    notes: Sequence[str]  # what was found in the file and what was done about it
    judged_by: Sequence[str]  # sentences on the cross-validation
    results: pd.DataFrame  # long: dataset, model, repeat, fold, metric, value
    n_folds: int  # that the rows are divided into, whether or not all are done
    metric: str  # the one that ranks
    usage: str  # the lines of Python that load and use the model
    versions: Mapping[str, str]
    model_file: str | None = None
    final_seconds: float | None = None  # that the model in the file took to fit
    incomplete: str | None = None  # why the run is not complete; None: it is
    failures: Mapping[Key, str] = field(default_factory=dict)
    warnings: Mapping[Key, Sequence[str]] = field(default_factory=dict)
    confusion: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # summed over folds
    labels: Sequence[str] = ()  # classes in the order of the confusion matrices
    margins: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # of held-out samples
    rank_scores: Mapping[str, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)
    histories: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # objective by iteration

    @property
    def majority_rate(self) -> float:
        """Accuracy of always answering the most frequent class."""
        return max(self.class_counts.values()) / sum(self.class_counts.values())
