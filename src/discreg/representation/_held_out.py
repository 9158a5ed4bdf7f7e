"""Residuals of training samples by models that have not seen them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from ._leave_one_out import (
    leave_one_out_residuals,
    require_leavable,
    scatter_leave_one_out_residuals,
)
from ._problem import TrainingSamples
from ._scatter import LossOfPrecisionError
from ._solvers import DRMSettings, make_solver

__all__ = ["LeaveOneOut", "held_out_residuals", "in_features"]

Array = NDArray[np.float64]
N_FOLDS = 5
LEAVE_ONE_OUT_ARRAYS = 7  # of n × n, in the kernel form


def held_out_residuals(
    solver: str,
    training: TrainingSamples,
    settings: DRMSettings,
    units: Array,
    classes: NDArray[np.generic],
    random: np.random.RandomState,
) -> Array:
    """δ of every training sample: exact leave-one-out, or five folds for penalties without it."""
    require_leavable(training.groups, units, classes)
    if settings.penalty.is_ridge:
        return LeaveOneOut(training, solver, units).residuals(settings.alpha, settings.beta)
    groups = training.groups
    counts = np.bincount(groups.y)
    if counts.min() < 2:
        raise ValueError(
            f"Class {classes[counts.argmin()]} has only one sample, so that folds cannot be held "
            "out. Add samples, remove the class, or set probability=False."
        )
    folds = StratifiedKFold(min(N_FOLDS, counts.min()), shuffle=True, random_state=random)
    delta = np.empty((len(groups.y), groups.n_classes))
    for train, test in folds.split(groups.y, groups.y):
        part = training.subset(train)
        held_out = training.X[groups.order[test] if training.is_precomputed else test]
        delta[test] = make_solver(solver, part, settings).residuals(part.points(held_out))
    return delta


@dataclass
class LeaveOneOut:
    """Exact leave-one-out of the ridge model for any alpha and beta.

    In the features where the solver is "scatter" or may choose it and they are few, else, and where
    they would lose digits, in the kernel form.
    """

    training: TrainingSamples
    solver: str
    units: Array

    @cached_property
    def matrix(self) -> Array:
        """Kernel matrix of the training samples."""
        return self.training.matrix(copies=LEAVE_ONE_OUT_ARRAYS)

    def residuals(self, alpha: float, beta: float) -> Array:
        """δ of every training sample when one unit of it is left out."""
        with np.errstate(over="ignore", invalid="ignore"):  # the residuals tell
            delta = self._residuals(alpha, beta)
        if not np.all(np.isfinite(delta)):
            raise ValueError(
                "The residuals of held-out samples overflow. Scale the features, or lower the "
                "kernel's gamma or degree."
            )
        return delta

    def _residuals(self, alpha: float, beta: float) -> Array:
        training = self.training
        if in_features(self.solver, training):
            try:
                return scatter_leave_one_out_residuals(
                    training.X, training.groups, alpha, beta, self.units
                )
            except LossOfPrecisionError:
                if self.solver == "scatter":
                    raise
        return leave_one_out_residuals(self.matrix, training.groups, alpha, beta, self.units)


def in_features(solver: str, training: TrainingSamples) -> bool:
    """Whether the linear form in the features is used: for few of them, unless "closed"."""
    return solver == "scatter" or (solver != "closed" and training.has_few_features)
