"""What a solver returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Solution"]


@dataclass
class Solution:
    """Coefficients with the certificate of how good they are.

    Attributes
    ----------
    coef : ndarray
        Coefficients in the coordinates of the regression that was solved: one row a feature
        (primal) or one row a training sample (dual).
    offset : ndarray of shape (n_classes,)
        Mean score of each class; the intercept once the mean of the features is taken out.
    scores : ndarray of shape (n_samples, n_classes) or None
        Scores of the training rows, offset included; None where these are not in memory.
    targets : ndarray of shape (n_samples, n_classes) or None
        Targets that the scores were regressed onto; None where the rows are not in memory.
    objective_history : list of float
        Objective after each iteration, the starting point first.
    gap : float
        Relative optimality gap.
    n_iter : int
        Iterations of the outer loop.
    solver : str
        Name of the solver that ran.
    centres : ndarray of shape (n_classes,) or None
        GReLSR's centres of the classes.
    """

    coef: NDArray[np.float64]
    offset: NDArray[np.float64]
    scores: NDArray[np.float64] | None
    targets: NDArray[np.float64] | None
    objective_history: list[float]
    gap: float
    n_iter: int
    solver: str
    centres: NDArray[np.float64] | None = None
