"""Group lasso: regression with a penalty on the norms of the rows of the coefficients.

    min over A of  Σ_i s_i ‖t_i − A'φ_i‖² + β Σ_j ‖a_j‖

A has one row per feature; the penalty sets whole rows to zero. The solver needs the moments ΦᵀST
and the weighted sum of squares of the targets T, the Gram matrix of a few features, and ΦᵀSΦA for
an A with few non-zero rows. With more features than samples, no d × d array is formed.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from discreg.linalg.types import Array, Indices

from .factorisation import EPS
from .group_gram import FeatureGram, FormedGram, WorkingGram
from .group_newton import newton_step
from .iterations import Report, unreported
from .resources import (
    threads_for,
)
from .ridge import NormalEquations, Regression
from .rows import (
    CONSTANT,
    centred_gram,
    column_squares,
    matmul,
    require_centrable,
    row_dots,
    weighted_mean,
)

__all__ = [
    "CLEARLY",
    "FeatureRegression",
    "Features",
    "GroupLassoFit",
    "duality_gap",
    "group_lasso",
]

DECREASE = 5.0  # factor between two levels of the penalty
LEVEL_TOL = 1e-2  # relative gap at which the penalty is lowered to the next level
FEW = 16  # features of a first working set
PASSES = 10  # over the working set, between two checks of its gap
MAX_LOOKS = 300
MAX_NEWTON_STEPS = 30  # that set rows to zero, between two checks
CLEARLY = 0.9  # factor by which the gap must fall to count as progress
STANDSTILL = 30  # checks without progress after which only rounding errors are left
SETS_AT_STANDSTILL = 10  # working sets without progress after which the solver stops
UNSOLVED = 5  # number of sets for which one counts that the descent could not solve
ROUNDING = 2 * EPS  # of the correlations, relative to the norms of what they are computed from


class Features(NormalEquations):
    """Operations on features that the group lasso needs, computed from their Gram matrix.

    Attributes
    ----------
    varying : ndarray of shape (n_features,)
        Whether each feature varies by more than rounding errors.
    norms : ndarray of shape (n_features,)
        Weighted norms of the features.
    """

    is_tall = True
    varying: NDArray[np.bool_]
    norms: Array

    def _find_varying(self, squares: Array, *, is_sparse: bool) -> None:
        """Set `varying` and `norms`.

        The tolerance is larger for sparse features, which are centred after squaring.
        """
        fraction = CONSTANT if is_sparse else CONSTANT**2
        floor = 0.0 if self.mean is None else fraction * self.total * self.mean**2
        self.varying = squares > floor
        self.norms = np.sqrt(squares.clip(min=0.0))

    @property
    def constant(self) -> NDArray[np.bool_]:
        return ~self.varying

    @abstractmethod
    def class_totals(self, y: Any, n_classes: int) -> tuple[Array, Array]:
        """Compute ΦᵀSY for the zero-one matrix Y of the classes, and the weight of each class."""

    def gram_of(self, features: Indices) -> WorkingGram:
        """Return ΦᵀSΦ of some features in its smaller form."""
        return FormedGram(np.ascontiguousarray(self.gram[np.ix_(features, features)]))

    def gram_matmul(self, features: Indices, coef: Array) -> Array:
        """Compute ΦᵀSΦA for an A whose non-zero rows, `coef`, belong to `features`."""
        return self.gram[:, features] @ coef


class FeatureRegression(Regression, Features):
    """Regression on the original features, also if there are more features than samples.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_samples, n_features)
        Features.
    weights : ndarray of shape (n_samples,)
        Sample weights.
    centre : bool
        Whether to subtract the weighted mean of the features, for an unpenalised intercept.
    """

    def __init__(self, X: Any, weights: Array, *, centre: bool) -> None:
        self.is_tall = X.shape[1] <= X.shape[0]
        if self.is_tall:
            super().__init__(X, weights, centre=centre)
            squares = self.gram.diagonal()
        else:
            self.X, self.weights, self.centred = X, weights, centre
            self.total = float(weights.sum())
            self.n_features = X.shape[1]
            self.mean = weighted_mean(X, weights) if centre else None
            squares = column_squares(X, weights, self.mean)
            self.trace = float(squares.sum())
        self._find_varying(squares, is_sparse=sparse.issparse(X))
        if sparse.issparse(X) and not self.is_tall:
            require_centrable(X, ~self.varying)

    def moments_of(self, targets: Array) -> Array:
        """Compute ΦᵀST for any targets T; rows of constant features are zero."""
        weighted = self.weights[:, None] * targets
        return self.gradient(weighted, weighted.sum(axis=0))

    def gram_of(self, features: Indices) -> WorkingGram:
        if self.is_tall:
            return super().gram_of(features)
        columns = self._columns(features)
        mean = None if self.mean is None else self.mean[features]
        if len(features) <= len(columns):
            return FormedGram(centred_gram(columns, self.weights, mean))
        rows = columns.T * np.sqrt(self.weights)
        if mean is not None:
            rows -= mean[:, None] * np.sqrt(self.weights)
        return FeatureGram(np.ascontiguousarray(rows, dtype=np.float64))

    def gram_matmul(self, features: Indices, coef: Array) -> Array:
        if self.is_tall:
            return super().gram_matmul(features, coef)
        scores = matmul(self._columns(features), coef)
        if self.mean is not None:
            scores -= self.mean[features] @ coef
        return self.moments_of(scores)

    def few_scores(self, coef: Array, offset: Array) -> Array:
        """Compute the scores ΦA + 1bᵀ of the training rows for an A with few non-zero rows."""
        features = np.flatnonzero(coef.any(axis=1))
        scores = matmul(self._columns(features), coef[features])
        shift = offset if self.mean is None else offset - self.mean[features] @ coef[features]
        scores += shift
        return scores

    def _columns(self, features: Indices) -> Array:
        columns = self.X[:, features]
        return np.asarray(columns.toarray() if sparse.issparse(columns) else columns)


@dataclass
class GroupLassoFit:
    """Coefficients of a group lasso, ΦᵀSR for the residuals R, objective, gap and history.

    `stalled` is whether rounding errors prevent a smaller gap.
    """

    coef: Array
    correlations: Array
    objective: float
    gap: float
    history: list[float]
    stalled: bool = False


def group_lasso(
    regression: Features,
    moments: Array,
    square: float,
    beta: float,
    *,
    tol: float,
    max_iter: int,
    start: Array | None,
    constant: float,
    report: Report = unreported,
) -> GroupLassoFit:
    """Solve the group lasso until the duality gap is at most `tol` times the objective.

    The solver applies coordinate descent and Newton's method to a working set of features and adds
    features whose correlation with the residuals exceeds β/2. The duality gap is that of all
    features. With more features than samples, the penalty is lowered to β in levels, each of which
    starts from the solution of the last: the features in use at a small β would otherwise be found
    one by one.

    Parameters
    ----------
    regression : Features
    moments : ndarray of shape (n_features, n_targets)
        ΦᵀST.
    square : float
        Σ s‖t‖²; the targets are centred if there is an intercept.
    beta : float
        Penalty.
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Maximum number of working sets.
    start : ndarray of shape (n_features, n_targets) or None
        Initial coefficients; None means zero.
    constant : float
        Constant added to the objective when the gap is compared with it.
    report : callable, optional
        Called after each working set.
    """
    coef = np.zeros_like(moments) if start is None else start.copy()
    level = beta
    if start is None and not regression.is_tall:
        largest = 2 * float(np.linalg.norm(moments, axis=1).max(initial=0.0))
        level = max(largest / DECREASE, beta)
    best: GroupLassoFit | None = None
    history: list[float] = []
    worse, solved = 0, True
    for n_sets in range(max_iter + 1):
        used = np.flatnonzero(coef.any(axis=1))
        correlations = moments - regression.gram_matmul(used, coef[used])
        objective, gap = duality_gap(coef, moments, correlations, square, beta)
        enough_already = gap <= tol * (objective + constant)
        falls = best is None or level > beta or gap < CLEARLY * best.gap
        worse = 0 if falls else worse + (1 if solved else UNSOLVED)
        rounding = _rounding(regression.norms, coef, square)
        stalled = worse >= SETS_AT_STANDSTILL or _is_stationary(coef, correlations, beta, rounding)
        stop = False
        if n_sets > 0 or enough_already or stalled:  # the start is not an iteration
            history.append(min([objective, *history[-1:]]))
            stop = report(1)
        if best is None or gap < best.gap:
            best = GroupLassoFit(coef.copy(), correlations, objective, gap, history)
        if enough_already or stalled or stop or n_sets == max_iter:
            break
        unsolved, wanted, is_new = gap, tol * (objective + constant), n_sets == 0
        while level > beta:
            value, level_gap = duality_gap(coef, moments, correlations, square, level)
            if solved and level_gap > LEVEL_TOL * value:
                unsolved, wanted = level_gap, LEVEL_TOL * value
                break
            level, is_new, solved = max(level / DECREASE, beta), True, True
        # Once the used features are fitted at a new level, few others have large correlations.
        working = used if is_new and len(used) else _working_set(used, correlations, level)
        enough = max(0.1 * unsolved, 0.3 * wanted)
        solved = _descend(regression, working, coef, moments, correlations, square, level, enough)
    assert best is not None
    best.stalled = stalled and not enough_already
    return best


def _rounding(norms: Array, coef: Array, square: float) -> Array:
    """Estimate the rounding error of each feature's correlation with the residuals."""
    return np.asarray(ROUNDING * norms * (np.sqrt(square) + norms @ np.linalg.norm(coef, axis=1)))


def _is_stationary(coef: Array, correlations: Array, beta: float, rounding: Array) -> bool:
    """Return whether the optimality conditions hold up to the rounding of the correlations.

    The conditions are ΦᵀSR = β/2 a_j/‖a_j‖ for non-zero rows, and at most β/2 for the others.
    """
    norms = np.linalg.norm(coef, axis=1)
    used = norms > 0
    units = coef[used] / norms[used, None]
    errors = np.linalg.norm(correlations, axis=1) - beta / 2
    errors[used] = np.linalg.norm(correlations[used] - beta / 2 * units, axis=1)
    return bool(np.all(errors <= rounding))


def duality_gap(
    coef: Array, moments: Array, correlations: Array, square: float, beta: float
) -> tuple[float, float]:
    """Compute the objective and an upper bound of its distance from the minimum.

    For the residuals R = T − ΦA, every αR with 2α ‖φ_j'SR‖ ≤ β for all features j is feasible in
    the dual, max 2⟨T, Z⟩ − ‖Z‖²; the best α is used.

    Parameters
    ----------
    coef, moments, correlations : ndarray of shape (n_features, n_targets)
        A, ΦᵀST and ΦᵀSR.
    square : float
        Weighted sum of squares of T.
    beta : float
        Penalty.
    """
    explained = float(np.vdot(coef, moments))
    with_targets = square - explained  # ⟨T, R⟩
    residual = max(with_targets - float(np.vdot(coef, correlations)), 0.0)  # ‖R‖²
    objective = residual + beta * float(np.linalg.norm(coef, axis=1).sum())
    largest = float(np.sqrt(row_dots(correlations, correlations).max(initial=0.0)))
    scale = max(with_targets / residual, 0.0) if residual > 0 else 1.0
    if largest > 0:
        scale = min(scale, beta / (2 * largest))
    dual = 2 * scale * with_targets - scale**2 * residual
    return objective, max(objective - dual, 0.0)


def _working_set(used: Indices, correlations: Array, beta: float) -> Indices:
    """Return the features in use and the unused ones with the largest correlations.

    At most as many features are added as are in use, or FEW.
    """
    norms = np.linalg.norm(correlations, axis=1)
    norms[used] = 0.0
    wanted = np.flatnonzero(norms > beta / 2)
    most = max(FEW, len(used))
    if len(wanted) > most:
        wanted = wanted[np.argpartition(-norms[wanted], most)[:most]]
    return np.sort(np.concatenate([used, wanted]))


def _descend(
    regression: Features,
    working: Indices,
    coef: Array,
    moments: Array,
    correlations: Array,
    square: float,
    beta: float,
    enough: float,
) -> bool:
    """Solve the problem of the working set, in place, until its gap is at most `enough`.

    Returns whether it is.
    """
    gram = regression.gram_of(working)
    some, of_targets = coef[working], moments[working]
    left = correlations[working]
    with threads_for(PASSES * coef.shape[1] * len(working) ** 2):
        smallest, worse, norms = np.inf, 0, regression.norms[working]
        for _ in range(MAX_LOOKS):
            gram.descend(of_targets, left, some, beta / 2, PASSES)
            _, gap = duality_gap(some, of_targets, left, square, beta)
            worse = 0 if gap < CLEARLY * smallest else worse + 1
            if gap <= enough or worse == STANDSTILL:
                break
            rounding = _rounding(norms, some, square)
            if _is_stationary(some, left, beta, rounding):
                break
            smallest = min(gap, smallest)
            for _ in range(MAX_NEWTON_STEPS):
                if not newton_step(gram, of_targets, some, left, square, beta, rounding):
                    break
    coef[working] = some
    return bool(gap <= enough)
