"""Residuals of held-out samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import StratifiedKFold

from discreg.linalg.types import Array

from ._closed import ClosedForm
from ._leave_one_out import (
    ROUNDING,
    leave_one_out_residuals,
    require_leavable,
    scatter_leave_one_out_residuals,
)
from ._problem import TrainingSamples
from ._scatter import LossOfPrecisionError, ScatterForm
from ._solvers import DRMSettings, make_solver

__all__ = ["FoldResiduals", "LeaveOneOutResiduals", "held_out_units", "require_finite"]

N_FOLDS = 5


class HeldOutUnits(NamedTuple):
    """Residuals of units of weight, each from a model without the unit.

    Attributes
    ----------
    residuals : ndarray of shape (n_units, n_classes)
    samples : ndarray of shape (n_units,)
        The sample that each unit belongs to.
    weights : ndarray of shape (n_units,)
    """

    residuals: Array
    samples: NDArray[np.intp]
    weights: Array

    def of_samples(self, n_samples: int) -> Array:
        """Average over the units of each sample."""
        totals = np.bincount(self.samples, self.weights, n_samples)
        shares = sparse.csr_array(
            (self.weights / totals[self.samples], (self.samples, np.arange(len(self.samples))))
        )
        return np.asarray(shares @ self.residuals)


def held_out_units(
    solver: str,
    training: TrainingSamples,
    settings: DRMSettings,
    units: Array,
    classes: NDArray[np.generic],
    random: np.random.RandomState,
) -> HeldOutUnits:
    """Compute δ of every training sample by leave-one-out (ridge) or five folds."""
    groups = training.groups
    require_leavable(groups, units, classes)
    if settings.penalty.is_ridge:
        held_out = LeaveOneOutResiduals(training, solver, units)
        delta = held_out.residuals(settings.alpha, settings.beta)
        return HeldOutUnits(delta, np.arange(len(delta)), groups.weights)
    # A sample of weight 3 has three units, which fall into folds as three repeated samples do.
    # More units than folds would change little.
    counts = np.ceil((1 - ROUNDING) * groups.weights / units).clip(1, N_FOLDS).astype(np.intp)
    samples = np.repeat(np.arange(len(counts)), counts)
    y, weights = groups.y[samples], (groups.weights / counts)[samples]
    n_folds = min(N_FOLDS, np.bincount(y).min())
    delta, early = np.empty((len(y), groups.n_classes)), []
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=random).split(y, y):
        kept: Array = np.bincount(samples[train], weights[train], len(counts)).astype(np.float64)
        part = training.subset(np.flatnonzero(kept), kept[kept > 0])
        tested, places = np.unique(samples[test], return_inverse=True)
        rows = training.X[groups.order[tested] if training.is_precomputed else tested]
        iterative: Any = make_solver(solver, part, settings)  # as for all penalties but ridge
        found, *stopped = iterative.unwarned_residuals(rows)
        delta[test] = found[places]
        early.append((len(found), *stopped))
    require_finite(delta)
    n_points, n_left, gaps = zip(*early, strict=True)
    iterative.warn(sum(n_left), sum(n_points), max(gaps))
    return HeldOutUnits(delta, samples, weights)


def require_finite(delta: Array) -> None:
    """Raise ValueError if the residuals of held-out samples are not finite."""
    if not np.all(np.isfinite(delta)):
        raise ValueError(
            "The residuals of held-out samples overflow. Scale the features, or lower the "
            "kernel's gamma or degree."
        )


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
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            delta = self._residuals(alpha, beta)
        require_finite(delta)
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
