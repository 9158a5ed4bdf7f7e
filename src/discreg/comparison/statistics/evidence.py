"""What the fits of a comparison leave: scores of the folds and predictions of held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg.comparison.candidates.contender import Contender
from discreg.comparison.running.experiment import Key

__all__ = ["WHOLE_REPEAT", "Evidence", "HeldOutPredictions"]

WHOLE_REPEAT = -1  # fold of a score that is computed from all held-out rows of a repeat


@dataclass(frozen=True, kw_only=True)
class HeldOutPredictions:
    """Predictions of one model for the test rows of all finished folds of one repeat.

    Attributes
    ----------
    rows : ndarray of shape (n,)
        Positions of the rows in the table.
    folds : ndarray of shape (n,)
        Fold that tests each row.
    labels : ndarray of shape (n,)
        Predicted class indices.
    probabilities : ndarray of shape (n, n_classes) or None
        None if the model has no probabilities.
    scores : ndarray of shape (n,) or (n, n_classes), or None
        Decision function; of the second class if there are two. None if the model has none.
    """

    rows: NDArray[np.intp]
    folds: NDArray[np.intp]
    labels: NDArray[np.intp]
    probabilities: NDArray[Any] | None = None
    scores: NDArray[Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Results of the fits of a comparison on one table.

    Attributes
    ----------
    metric : str
        Name of the metric that decides.
    classes : ndarray of shape (n_classes,)
        Class labels.
    y : ndarray of shape (n_samples,)
        Class indices of all rows.
    weights : ndarray of shape (n_samples,) or None
        Sample weights.
    groups : ndarray of shape (n_samples,) or None
        Group of each row, if rows of a group are held out together.
    positive : int or None
        With two classes, index of the class that AUC and average precision refer to.
    rarest : int
        Index of the rarest class.
    n_folds, n_repeats : int
        Planned folds and repeats.
    test_to_train : float
        Ratio of the sizes of a test set and its training set.
    contenders : dict
        All models that were planned, by name; "majority" always predicts the class frequencies.
    results : DataFrame
        Columns model, repeat, fold, metric and value. Fold -1 is for a score of all held-out rows
        of a repeat, which replaces the scores of its folds where one of them is undefined.
    held_out : dict
        Predictions by model, one entry per repeat.
    params : dict
        By model, the selected parameters of each fit, as text.
    failures, warnings : dict
        Errors and warnings of fits.
    left_out : dict
        Models that were not run, and the reasons.
    """

    metric: str
    classes: NDArray[Any]
    y: NDArray[np.intp]
    weights: NDArray[np.float64] | None = None
    groups: NDArray[Any] | None = None
    positive: int | None = None
    rarest: int
    n_folds: int
    n_repeats: int
    test_to_train: float
    contenders: Mapping[str, Contender]
    results: pd.DataFrame
    held_out: Mapping[str, Sequence[HeldOutPredictions]] = field(default_factory=dict)
    params: Mapping[str, Sequence[str]] = field(default_factory=dict)
    failures: Mapping[Key, str] = field(default_factory=dict)
    warnings: Mapping[Key, Sequence[str]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
