"""Residuals of training samples by models that have not seen them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from ._forms import Settings, make_solver
from ._leave_one_out import leave_one_out_residuals, require_leavable
from ._problem import Groups
from ._scatter_leave_one_out import scatter_leave_one_out_residuals
from ._training import Training

__all__ = ["exact_leave_one_out", "held_out_residuals"]

Array = NDArray[np.float64]
N_FOLDS = 5
LEAVE_ONE_OUT_ARRAYS = 7  # of n × n, in the kernel form


def held_out_residuals(
    solver: str,
    training: Training,
    settings: Settings,
    units: Array,
    classes: NDArray[np.generic],
    random: np.random.RandomState,
) -> Array:
    """δ of every training sample: exact leave-one-out, or five folds for penalties without it."""
    require_leavable(training.groups, units, classes)
    if settings.penalty.is_ridge:
        in_features = solver != "closed" and training.has_few_features
        matrix = None if in_features else training.matrix(copies=LEAVE_ONE_OUT_ARRAYS)
        return exact_leave_one_out(training, matrix, settings.alpha, settings.beta, units)
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
        part = _subset(training, train)
        held_out = training.X[groups.order[test] if training.is_precomputed else test]
        delta[test] = make_solver(solver, part, settings).residuals(part.points(held_out))
    return delta


def exact_leave_one_out(
    training: Training, matrix: Array | None, alpha: float, beta: float, units: Array
) -> Array:
    """Leave-one-out in the kernel form for a kernel matrix, else in the features."""
    if matrix is None:
        return scatter_leave_one_out_residuals(training.X, training.groups, alpha, beta, units)
    return leave_one_out_residuals(matrix, training.groups, alpha, beta, units)


def _subset(training: Training, rows: NDArray[np.intp]) -> Training:
    """The training data restricted to some of their samples, in ascending order."""
    groups = training.groups
    part = Groups(groups.order[rows], groups.y[rows], groups.weights[rows], groups.n_classes)
    X = training.X if training.is_precomputed else training.X[rows]
    return Training(X, part, training.kernel, None, training.kernel)
