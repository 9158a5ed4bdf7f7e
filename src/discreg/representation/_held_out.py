"""Residuals of held-out samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreg.base.left_out import LeftOut
from discreg.blocks.kept_rows import MOST_ROWS, KeptRows
from discreg.linalg.kernel_approximation import hash_rows
from discreg.linalg.resources import require_memory
from discreg.linalg.rows import row_norms
from discreg.linalg.types import Array, Indices

from ._closed import ClosedForm, inverse_of_factor
from ._iterative import largest_eigenvalue
from ._leave_groups_out import kernel_residuals_without_groups, scatter_residuals_without_groups
from ._leave_one_out import leave_one_out_residuals, residuals_without, with_errors
from ._problem import ROUNDING, TrainingSamples
from ._rank_one_updates import scatter_residuals_without
from ._scatter import LossOfPrecisionError, ScatterForm, class_scatters
from ._solvers import (
    ClosedSolver,
    DRMSettings,
    IterativeSolver,
    ScatterSolver,
    Solver,
    make_solver,
    operator_of,
)

__all__ = [
    "FoldResiduals",
    "HeldOutResiduals",
    "LeaveGroupsOutResiduals",
    "LeaveOneOutResiduals",
    "PenalisedResiduals",
    "left_out",
    "scatter_left_out",
]

N_FOLDS = 5
FEW_ROWS = 300  # that are predicted if the solver iterates for each of them


def left_out(
    solver: Solver,
    name: str,
    training: TrainingSamples,
    settings: DRMSettings,
    kept: KeptRows,
    units: Array,
) -> tuple[KeptRows, LeftOut]:
    """Compute held-out scores of kept rows by leave-one-out (ridge) or five folds.

    Returns the rows that were held out, and their scores. With folds, a row of several units is
    repeated.

    Parameters
    ----------
    solver : Solver
        The fitted solver.
    name : str
        Its name, or "auto" if the kernel form may replace the scatter form to keep precision.
    training : TrainingSamples
    settings : DRMSettings
    kept : KeptRows
        Rows of the training data in memory.
    units : ndarray of shape (n,)
        The weight of one copy of each training sample.
    """
    groups = training.groups
    places = np.zeros(1 + groups.order.max(), dtype=np.intp)
    places[groups.order] = np.arange(len(groups.order))
    rows = places[kept.places]
    order = np.argsort(rows)
    scores = np.full((len(kept), groups.n_classes), np.nan)
    if settings.penalty.is_ridge:
        scores[order] = -_without_one(solver, name, training, settings, rows[order], units)
        return kept, LeftOut(scores, is_exact=True)
    if len(order) > FEW_ROWS:
        drawn = np.random.default_rng(0).random(len(kept))
        hashes = drawn if training.is_precomputed else hash_rows(kept.X, 0)
        order = np.sort(np.argsort(hashes, kind="stable")[:FEW_ROWS])
    delta, places = _by_folds(training, settings, rows[order], units)
    repeated = kept.take(order[places])
    counts = np.bincount(places, minlength=1)
    repeated = replace(repeated, weights=repeated.weights / counts[places])
    return repeated, LeftOut(-delta, is_exact=False)


def _without_one(
    solver: Solver,
    name: str,
    training: TrainingSamples,
    settings: DRMSettings,
    rows: Indices,
    units: Array,
) -> Array:
    """Compute the leave-one-out residuals of some samples; NaN if they would lose precision."""
    alpha, beta, groups = settings.alpha, settings.beta, training.groups
    if isinstance(solver, ClosedSolver):
        form = solver.form
        require_memory(
            8 * 5 * len(groups.y) ** 2,
            f"Held-out scores of {len(groups.y):,} samples",
            "Use probability=False, or n_components.",
        )
        inverse = inverse_of_factor(form.factor.copy(order="K"), form.scale)
        points = training.X[groups.order[rows] if training.is_precomputed else rows]
        cross = training.cross(points[:, groups.order] if training.is_precomputed else points).T
        return residuals_without(
            inverse, form.blocks, cross, groups, form.shrinkage, alpha, rows, units[rows]
        )
    if isinstance(solver, ScatterSolver) or training.has_few_features:
        try:
            return _without_one_in_features(solver, training, settings, rows, units[rows])
        except LossOfPrecisionError:
            if name == "scatter" or len(groups.y) > MOST_ROWS:
                return np.full((len(rows), groups.n_classes), np.nan)
    kernel = training.matrix(copies=7)
    return leave_one_out_residuals(kernel, groups, alpha, beta, units[rows], rows)


def _without_one_in_features(
    solver: Solver, training: TrainingSamples, settings: DRMSettings, rows: Indices, units: Array
) -> Array:
    groups, scatters, maps = training.groups, None, None
    if isinstance(solver, ScatterSolver):
        scatters, maps = solver.form.scatters, solver.form.maps
    if scatters is None:
        norms = row_norms(training.X)
        scatters = class_scatters(training.X, norms, groups, settings.alpha, settings.beta)
    remaining, vanishing = groups.without(rows, units)
    delta = scatter_residuals_without(
        training.X[rows],
        groups.y[rows],
        units,
        remaining,
        scatters,
        groups.totals,
        settings.alpha,
        settings.beta,
        maps,
    )
    return with_errors(delta, groups.y[rows], vanishing)


def scatter_left_out(form: ScatterForm, totals: Array, kept: KeptRows) -> LeftOut:
    """Compute held-out scores of kept rows of a fit whose rows are not in memory."""
    assert form.scatters is not None
    remaining = totals[kept.y] - kept.units
    known = form.scatters, totals, form.alpha, form.beta, form.maps
    try:
        delta = scatter_residuals_without(kept.X, kept.y, kept.units, remaining, *known)
    except LossOfPrecisionError:
        delta = np.full((len(kept), len(totals)), np.nan)
    return LeftOut(-delta, is_exact=True)


def _by_folds(
    training: TrainingSamples,
    settings: DRMSettings,
    rows: Indices,
    units: Array,
) -> tuple[Array, Indices]:
    """Compute the residuals of the units of some samples by five folds, and their indices.

    Folds are drawn by a hash of the rows, so that they do not depend on the order of the rows.
    """
    groups = training.groups
    # A sample of weight 3 has three units, which fall into folds as three repeated samples do.
    # More units than folds would change little.
    counts = np.ceil((1 - ROUNDING) * groups.weights / units).clip(1, N_FOLDS).astype(np.intp)
    samples = np.repeat(np.arange(len(counts)), counts)
    y, weights = groups.y[samples], (groups.weights / counts)[samples]
    n_units = np.bincount(y, minlength=groups.n_classes)
    leavable = np.flatnonzero(n_units[y] > 1)  # a class of one unit is in every training part
    n_folds = int(min(N_FOLDS, n_units[n_units > 1].min(initial=N_FOLDS)))
    hashes = np.arange(len(counts)) if training.is_precomputed else hash_rows(training.rows, 0)
    leavable = leavable[np.lexsort((hashes[samples[leavable]], y[leavable]))]
    places = np.full(len(counts), -1)
    places[rows] = np.arange(len(rows))
    wanted = np.flatnonzero(places[samples] >= 0)
    delta, early = np.empty((len(samples), groups.n_classes)), []
    for number in range(n_folds):
        test = leavable[number::n_folds]
        left = weights.copy()
        left[test] = 0.0
        seen: Array = np.bincount(samples, left, len(counts)).astype(np.float64)
        part = training.subset(np.flatnonzero(seen), seen[seen > 0])
        test = np.intersect1d(test, wanted)
        if not len(test):
            continue
        tested, repeats = np.unique(samples[test], return_inverse=True)
        points = training.X[groups.order[tested] if training.is_precomputed else tested]
        iterative: Any = make_solver("apg", part, settings)
        found, *stopped = iterative.unwarned_residuals(points)
        delta[test] = found[repeats]
        early.append((len(found), *stopped))
    if early:
        n_points, n_left, gaps = zip(*early, strict=True)
        iterative.warn(sum(n_left), sum(n_points), max(gaps))
    return delta[wanted], places[samples[wanted]]


@dataclass
class HeldOutResiduals(ABC):
    """Held-out residuals of the ridge model for any alpha and beta.

    Computed in the features if the solver is "scatter", or "auto" with few features; otherwise by
    the kernel matrix. "auto" also uses the kernel matrix if the features would lose precision.
    """

    training: TrainingSamples
    solver: str
    copies: ClassVar[int] = 7  # matrices of the kernel matrix's size in memory

    @cached_property
    def matrix(self) -> Array:
        """Kernel matrix of the training samples."""
        return self.training.matrix(self.copies)

    def residuals(self, alpha: float, beta: float) -> tuple[Array, float, bool]:
        """Compute δ of every held-out sample, the largest gap, and whether `tol` is reached."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            delta = self._residuals(alpha, beta)
        _require_finite(delta)
        return delta, 0.0, True

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

    def _in_features(self, alpha: float, beta: float) -> Array:
        X, groups = self.training.X, self.training.groups
        scatters = class_scatters(X, row_norms(X), groups, alpha, beta)
        remaining, vanishing = groups.without(np.arange(len(groups.y)), self.units)
        delta = scatter_residuals_without(
            X, groups.y, self.units, remaining, scatters, groups.totals, alpha, beta
        )
        return with_errors(delta, groups.y, vanishing)

    def _by_kernel(self, alpha: float, beta: float) -> Array:
        return leave_one_out_residuals(self.matrix, self.training.groups, alpha, beta, self.units)


@dataclass
class LeaveGroupsOutResiduals(HeldOutResiduals):
    """Residuals of all training samples without their groups, the `parts` of the samples."""

    parts: list[Indices]

    def _in_features(self, alpha: float, beta: float) -> Array:
        samples = self.training.X, self.training.groups
        return scatter_residuals_without_groups(*samples, alpha, beta, self.parts)

    def _by_kernel(self, alpha: float, beta: float) -> Array:
        samples = self.matrix, self.training.groups
        return kernel_residuals_without_groups(*samples, alpha, beta, self.parts)


@dataclass
class FoldResiduals(HeldOutResiduals):
    """Residuals of the points of a held-out fold, in the coordinates of the training samples."""

    points: Any
    copies: ClassVar[int] = 3

    @cached_property
    def cross(self) -> Array:
        """Kernel matrix between the points and the training samples."""
        return self.training.cross(self.points)

    def _in_features(self, alpha: float, beta: float) -> Array:
        form = ScatterForm.of(self.training.X, self.training.groups, alpha, beta)
        return form.residuals(self.points)

    def _by_kernel(self, alpha: float, beta: float) -> Array:
        form = ClosedForm.of(self.matrix.copy(), self.training.groups, alpha, beta)
        return form.residuals(form.represent(self.cross), self.cross)


@dataclass
class PenalisedResiduals:
    """Residuals of the rows of a held-out fold for penalties other than ridge."""

    training: TrainingSamples
    settings: DRMSettings
    rows: Any
    eigenvalues: dict[float, float] = field(default_factory=dict)  # of each alpha

    def residuals(self, alpha: float, beta: float) -> tuple[Array, float, bool]:
        """Compute δ of every held-out sample, the largest gap, and whether `tol` is reached."""
        settings = replace(self.settings, alpha=alpha, beta=beta)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            operator = operator_of(self.training, alpha, self._matrix)
            if alpha not in self.eigenvalues:
                self.eigenvalues[alpha] = largest_eigenvalue(operator)
            known = operator, self.eigenvalues[alpha]
            solver = IterativeSolver(self.training, *known, settings, "apg")
            delta, n_left, gap = solver.unwarned_residuals(self.rows)
        _require_finite(delta)
        return delta, gap, n_left == 0

    @cached_property
    def _matrix(self) -> Array | None:
        return None if self.training.is_linear else self.training.matrix(copies=2)


def _require_finite(delta: Array) -> None:
    """Raise ValueError if the residuals of held-out samples are not finite."""
    if not np.all(np.isfinite(delta)):
        raise ValueError(
            "The residuals of held-out samples overflow. Scale the features, or lower the "
            "kernel's gamma or degree."
        )
