"""Residuals of held-out samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from discreg.linalg.types import Array

from ._closed import ClosedForm
from ._leave_one_out import (
    leave_one_out_residuals,
    require_leavable,
    scatter_leave_one_out_residuals,
)
from ._problem import TrainingSamples
from ._scatter import LossOfPrecisionError, ScatterForm
from ._solvers import DRMSettings, make_solver

__all__ = ["FoldResiduals", "LeaveOneOutResiduals", "held_out_residuals"]

N_FOLDS = 5


def held_out_residuals(
    solver: str,
    training: TrainingSamples,
    settings: DRMSettings,
    units: Array,
    classes: NDArray[np.generic],
    random: np.random.RandomState,
) -> Array:
    """Compute δ of every training sample by leave-one-out (ridge) or five folds."""
    require_leavable(training.groups, units, classes)
    if settings.penalty.is_ridge:
        held_out = LeaveOneOutResiduals(training, solver, units)
        return held_out.residuals(settings.alpha, settings.beta)
    groups = training.groups
    counts = np.bincount(groups.y)
    if counts.min() < 2:
        raise ValueError(
            f"Class {classes[counts.argmin()]} has only one sample, so that no folds can be held "
            "out. Add samples, remove the class, or set probability=False."
        )
    folds = StratifiedKFold(min(N_FOLDS, counts.min()), shuffle=True, random_state=random)
    delta = np.empty((len(groups.y), groups.n_classes))
    for train, test in folds.split(groups.y, groups.y):
        part = training.subset(train)
        held_out_rows = training.X[groups.order[test] if training.is_precomputed else test]
        delta[test] = make_solver(solver, part, settings).residuals(part.points(held_out_rows))
    return delta


@dataclass
class HeldOutResiduals(ABC):
    """Held-out residuals of the ridge model for any alpha and beta.

    Computed in the features if the solver is "scatter", or "auto" with few features; otherwise by
    the kernel matrix. "auto" also uses the kernel matrix if the features would lose precision.
    """

    training: TrainingSamples
    solver: str

    def residuals(self, alpha: float, beta: float) -> Array:
        """Compute δ of every held-out sample."""
        with np.errstate(over="ignore", invalid="ignore"):  # residuals are checked below
            delta = self._residuals(alpha, beta)
        if not np.all(np.isfinite(delta)):
            raise ValueError(
                "The residuals of held-out samples overflow. Scale the features, or lower the "
                "kernel's gamma or degree."
            )
        return delta

    def _residuals(self, alpha: float, beta: float) -> Array:
        few = self.solver != "closed" and self.training.has_few_features
        if self.solver == "scatter" or few:
            try:
                return self._in_features(alpha, beta)
            except LossOfPrecisionError:
                if self.solver == "scatter":
                    raise
        return self._by_kernel(alpha, beta)

    @abstractmethod
    def _in_features(self, alpha: float, beta: float) -> Array:
        """Compute the residuals by the linear form in the features."""

    @abstractmethod
    def _by_kernel(self, alpha: float, beta: float) -> Array:
        """Compute the residuals by the kernel matrix."""


@dataclass
class LeaveOneOutResiduals(HeldOutResiduals):
    """Leave-one-out residuals of all training samples; `units` are the weights left out."""

    units: Array

    @cached_property
    def matrix(self) -> Array:
        """Kernel matrix of the training samples."""
        return self.training.matrix(copies=7)

    def _in_features(self, alpha: float, beta: float) -> Array:
        training = self.training
        return scatter_leave_one_out_residuals(training.X, training.groups, alpha, beta, self.units)

    def _by_kernel(self, alpha: float, beta: float) -> Array:
        return leave_one_out_residuals(self.matrix, self.training.groups, alpha, beta, self.units)


@dataclass
class FoldResiduals(HeldOutResiduals):
    """Residuals of the points of a held-out fold, in the coordinates of the training samples."""

    points: Any

    @cached_property
    def matrices(self) -> tuple[Array, Array]:
        """Kernel matrix of the training samples, and between the points and these samples."""
        return self.training.matrix(copies=3), self.training.cross(self.points)

    def _in_features(self, alpha: float, beta: float) -> Array:
        form = ScatterForm.of(self.training.X, self.training.groups, alpha, beta)
        return form.residuals(self.points)

    def _by_kernel(self, alpha: float, beta: float) -> Array:
        matrix, K_x = self.matrices
        form = ClosedForm.of(matrix.copy(), self.training.groups, alpha, beta)
        return form.residuals(form.represent(K_x), K_x)
