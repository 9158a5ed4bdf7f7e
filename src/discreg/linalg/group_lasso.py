"""Regression with a penalty on the norms of the rows of the coefficients, also of limited rank.

The group lasso has one row a_j of A per feature; the penalty sets whole rows to zero:

    min over A of  Σ_i s_i ‖t_i − A'φ_i‖² + β Σ_j ‖a_j‖

The solver needs the moments ΦᵀST and the weighted sum of squares of the targets T, the Gram matrix
of a few features, and ΦᵀSΦA for an A with few non-zero rows. With more features than samples, no
d × d array is formed.

Sparse reduced-rank regression has the same objective, over all W of rank at most s. With W = A Vᵀ
and VᵀV = I, the rows of A and of W have the same norms, and

    ‖T − ΦW‖² + β‖W‖₂₁ = ‖T‖² − ‖TV‖² + ‖TV − ΦA‖² + β‖A‖₂₁.

For a given V the best A solves a group lasso; for a given A the best V solves a Procrustes problem.
The certificate is the sum of two terms: the duality gap of the group lasso, which bounds the
decrease of the objective by changing A alone, and the exact decrease by changing V alone. At full
rank V is the identity, the problem is convex, and the certificate bounds the distance from the
minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from .factorisation import EPS, conjugate_gradients, psd_solver
from .resources import threads_for
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
from .types import Array, Indices

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
# Unknowns times targets up to which a Newton step uses a factorisation: its cost, relative to that
# of conjugate gradients, is proportional to this number.
SMALL_SYSTEM = 1_500
SHIFT = 1e-10  # relative, of the diagonal: with more rows than samples, the Hessian is singular
MAX_CG_STEPS = 50
CG_ACCURACY = 0.01
VANISHING = (63, 31, 15, 7, 3, 1, 0)  # numbers of rows to set to zero besides the first to vanish
SHORTER = (0.5, 0.2, 0.05, 0.01)  # lengths relative to a step without zeros
TINY = 1e-14  # relative norm below which a row counts as zero
MAX_SETS = 200  # working sets of a group lasso
SMALLEST = 1e-15  # objective relative to which a certificate is computed
EMPTY = 1e-12  # relative square of the targets in a direction that counts as zero
SMALL_STEP = 1e-12  # relative decrease of the objective that is not progress
MAX_IDLE = 10  # steps without progress after which only rounding errors are left
ROUGH_START = 1e-3  # certificate at which a candidate for the start is accurate enough
MAX_ROUGH = 50  # maximum number of steps for a candidate
RANDOM_STARTS = 6
FURTHER = 1e-6  # weight of directions in which all coefficients are zero
ROUGH = 1e-2  # gap of the full-rank regression that gives the first directions


class WorkingGram:
    """The Gram matrix G = ΦᵀSΦ of a working set of features."""

    def __init__(self, gram: Array) -> None:
        self._gram = gram

    def descend(
        self, moments: Array, correlations: Array, coef: Array, threshold: float, n_passes: int
    ) -> None:
        """Do passes of coordinate descent; update `coef` and `correlations`, C − GA, in place."""
        from ._loops import descend

        descend(self._gram, correlations, coef, threshold, n_passes, np.empty(coef.shape[1]))

    def matmul(self, coef: Array) -> Array:
        """Compute GA."""
        return self._gram @ coef

    def rows(self, used: Indices) -> Array:
        """Compute the matrix of a subset of the features."""
        return self._gram[np.ix_(used, used)]

    def matmul_rows(self, used: Indices, coef: Array) -> Array:
        """Compute GA for a subset of the features and their coefficients."""
        return self.rows(used) @ coef

    def solver(self, used: Indices, diagonal: Array) -> Callable[[Array], Array]:
        """Return a solver of (2G + diag) Z = B for a subset of the features."""
        matrix = 2 * self.rows(used)
        matrix[np.diag_indices_from(matrix)] += diagonal
        return psd_solver(matrix)


class WideGram(WorkingGram):
    """The Gram matrix G = FFᵀ of more features than samples, stored as F.

    F has one row per feature, centred and scaled by √weights. Passes, products and systems take
    less time and memory than with G.
    """

    def __init__(self, features: Array) -> None:
        self._features = features
        self._squares = row_dots(features, features)

    def descend(
        self, moments: Array, correlations: Array, coef: Array, threshold: float, n_passes: int
    ) -> None:
        from ._loops import descend_on_features

        fitted, change = self._features.T @ coef, np.empty(coef.shape[1])
        descend_on_features(
            self._features, self._squares, moments, fitted, coef, threshold, n_passes, change
        )
        correlations[...] = moments - self.matmul(coef)

    def matmul(self, coef: Array) -> Array:
        return self._features @ (self._features.T @ coef)

    def rows(self, used: Indices) -> Array:
        features = self._features[used]
        return features @ features.T

    def matmul_rows(self, used: Indices, coef: Array) -> Array:
        features = self._features[used]
        return features @ (features.T @ coef)

    def solver(self, used: Indices, diagonal: Array) -> Callable[[Array], Array]:
        """Return a solver by Woodbury's identity, for a system of size n_samples."""
        features = self._features[used]
        scaled = features / diagonal[:, None]
        inner = features.T @ scaled
        inner[np.diag_indices_from(inner)] += 0.5
        solve = psd_solver(inner)

        def solved(right: Array) -> Array:
            rest = right / diagonal[:, None]
            return rest - scaled @ solve(features.T @ rest)

        return solved


@np.errstate(over="ignore", invalid="ignore")  # a trial that overflows has no smaller objective
def newton_step(
    gram: WorkingGram,
    moments: Array,
    coef: Array,
    correlations: Array,
    square: float,
    beta: float,
    rounding: Array,
) -> bool:
    """Do a Newton step, in place, that sets rows to zero whose direction it would reverse.

    The whole step may reverse many rows that a shorter one would keep. Shorter steps end where a
    row vanishes, or before. The arguments are those of `duality_gap`, for a working set, and the
    rounding errors of the correlations, within which the objective may increase.

    Returns
    -------
    shortened : bool
        Whether the objective decreased, but not by a whole step that keeps all rows.
    """
    norms = np.linalg.norm(coef, axis=1)
    used = np.flatnonzero(norms > TINY * norms.max(initial=0.0))
    curvature = beta / norms[used]
    if not len(used) or not np.all(curvature > 0):  # the penalty underflows
        return False
    units = coef[used] / norms[used, None]
    step = _direction(gram, used, units, curvature, beta * units - 2 * correlations[used])
    along = row_dots(units, step)
    vanish = np.divide(-norms[used], along, out=np.full(len(used), np.inf), where=along < 0)
    ends = np.sort(vanish[vanish <= 1])
    lengths = [1.0, *(ends[k] for k in VANISHING if k < len(ends))]
    lengths += [lengths[-1] * part for part in SHORTER]
    smallest = _objective(coef, moments, correlations, square, beta) + float(norms @ rounding)
    found, reached = None, 0.0
    for length in lengths:
        trial = np.zeros_like(coef)
        trial[used] = np.where((vanish > length)[:, None], coef[used] + length * step, 0.0)
        left = moments - gram.matmul(trial)
        objective = _objective(trial, moments, left, square, beta)
        if objective < smallest:
            smallest, found, reached = objective, (trial, left), length
        elif found is not None:
            break
    if found is None:
        return False
    coef[...], correlations[...] = found
    return reached < 1 or len(ends) > 0


def _direction(
    gram: WorkingGram, used: Indices, units: Array, curvature: Array, gradient: Array
) -> Array:
    """Solve for the Newton step: the Hessian is 2G + β(I − uu')/‖a_j‖, u the direction of a row."""
    n_rows, n_targets = units.shape
    if units.size * n_targets <= SMALL_SYSTEM:
        hessian = np.zeros((n_rows, n_targets, n_rows, n_targets))
        own = np.arange(n_targets)
        hessian[:, own, :, own] = 2 * gram.rows(used)
        flat = np.eye(n_targets) - units[:, :, None] * units[:, None, :]
        hessian[np.arange(n_rows), :, np.arange(n_rows)] += curvature[:, None, None] * flat
        matrix = hessian.reshape(units.size, units.size)
        matrix[np.diag_indices_from(matrix)] *= 1 + SHIFT
        return psd_solver(matrix)(-gradient.reshape(-1, 1)).reshape(units.shape)

    def hessp(step: Array) -> Array:
        across = step - row_dots(units, step)[:, None] * units
        return np.asarray(2 * gram.matmul_rows(used, step) + curvature[:, None] * across)

    # The preconditioner 2G + βI/‖a_j‖ is the matrix of a reweighted ridge regression.
    precondition = gram.solver(used, curvature)
    return conjugate_gradients(
        hessp, -gradient, precondition, tol=CG_ACCURACY, max_iter=MAX_CG_STEPS
    )


def _objective(
    coef: Array, moments: Array, correlations: Array, square: float, beta: float
) -> float:
    residual = square - float(np.vdot(coef, moments + correlations))
    return max(residual, 0.0) + beta * float(np.linalg.norm(coef, axis=1).sum())


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

    def gram_of(self, features: Indices) -> WorkingGram:
        """Return ΦᵀSΦ of some features in its smaller form."""
        return WorkingGram(np.ascontiguousarray(self.gram[np.ix_(features, features)]))

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
            return WorkingGram(centred_gram(columns, self.weights, mean))
        rows = columns.T * np.sqrt(self.weights)
        if mean is not None:
            rows -= mean[:, None] * np.sqrt(self.weights)
        return WideGram(np.ascontiguousarray(rows, dtype=np.float64))

    def gram_matmul(self, features: Indices, coef: Array) -> Array:
        if self.is_tall:
            return super().gram_matmul(features, coef)
        scores = matmul(self._columns(features), coef)
        if self.mean is not None:
            scores -= self.mean[features] @ coef
        return self.moments_of(scores)

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
        if n_sets > 0 or enough_already or stalled:  # the start is not an iteration
            history.append(min([objective, *history[-1:]]))
        if best is None or gap < best.gap:
            best = GroupLassoFit(coef.copy(), correlations, objective, gap, history)
        if enough_already or stalled or n_sets == max_iter:
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


@dataclass
class SparseRankProblem:
    """Sparse reduced-rank problem, given by the moments of its targets.

    Attributes
    ----------
    regression : Features
        Features.
    moments : ndarray of shape (n_features, n_targets)
        ΦᵀST.
    second : ndarray of shape (n_targets, n_targets)
        TᵀST; the targets are centred if there is an intercept.
    beta : float
        Penalty.
    rank : int or None
        Maximum rank; None for full rank.
    constant : float
        Constant added to the objective.
    """

    regression: Features
    moments: Array
    second: Array
    beta: float
    rank: int | None
    constant: float = 0.0

    def square(self, directions: Array) -> float:
        """Compute the weighted sum of squares of TV."""
        return float(np.vdot(directions, self.second @ directions))

    def rest(self, directions: Array) -> float:
        """Compute the part of the objective that is independent of A: ‖T‖² − ‖TV‖² + constant."""
        return self.constant + max(float(self.second.trace()) - self.square(directions), 0.0)

    def row_space(self) -> Array:
        """Compute orthonormal directions of the row space of T, where all rows of a minimum are."""
        values, vectors = linalg.eigh(self.second, check_finite=False)
        return np.asarray(vectors[:, values > EMPTY * values[-1]])

    def certify(self, coef: Array, directions: Array) -> tuple[float, float]:
        """Compute the objective at A and V, and the relative certificate."""
        used = np.flatnonzero(coef.any(axis=1))
        moments = self.moments @ directions
        correlations = moments - self.regression.gram_matmul(used, coef[used])
        square = self.square(directions)
        objective, gap = duality_gap(coef, moments, correlations, square, self.beta)
        objective += self.rest(directions)
        if self.rank is not None:
            gap += self.procrustes(coef, directions)[1]
        return objective, gap / max(objective, SMALLEST)

    def procrustes(self, coef: Array, directions: Array) -> tuple[Array, float]:
        """Compute the best V for A, and the decrease of the objective."""
        explained = self.moments.T @ coef
        left, values, right = linalg.svd(explained, full_matrices=False, check_finite=False)
        gain = 2 * float(values.sum() - np.vdot(directions, explained))
        return left @ right, max(gain, 0.0)

    def lasso(
        self,
        directions: Array,
        *,
        tol: float,
        max_iter: int,
        start: Array | None,
    ) -> SparseRankSolution:
        """Compute the best A for a given V, with a gap relative to the whole objective."""
        rest = self.rest(directions)
        fit = group_lasso(
            self.regression,
            self.moments @ directions,
            self.square(directions),
            self.beta,
            tol=tol,
            max_iter=max_iter,
            start=start,
            constant=rest,
        )
        history = [value + rest for value in fit.history]
        gap = fit.gap / max(fit.objective + rest, SMALLEST)
        return SparseRankSolution(fit.coef, directions, history, gap, fit.stalled)


@dataclass
class SparseRankSolution:
    """A and V with the history of the objective and the relative certificate.

    `stalled` is whether rounding errors prevent a smaller certificate.
    """

    coef: Array
    directions: Array
    objective_history: list[float]
    gap: float
    stalled: bool = False


def _has_rank(start: SparseRankSolution, rank: int) -> bool:
    """Return whether the coefficients of a start have this rank."""
    return start.coef.shape[1] == rank and int(np.linalg.matrix_rank(start.coef)) == rank


def _first_directions(problem: SparseRankProblem, full: Array) -> Array:
    """Compute the directions that a full-rank regression explains best, from its coefficients.

    If the coefficients have too low a rank, directions of features with large moments come next. If
    no feature would be used with these directions, the direction of the feature with the largest
    moments comes first.
    """
    assert problem.rank is not None
    norms = np.linalg.norm(problem.moments, axis=1)
    wanted = np.maximum(norms - problem.beta / 2, 0.0)
    rows = problem.moments / np.where(norms > 0, norms, 1.0)[:, None]
    explained = problem.moments.T @ full
    explained = explained + explained.T
    further = rows.T @ (wanted[:, None] * rows)
    parts = [part / (np.abs(part).max() or 1.0) for part in (explained, further)]
    _, vectors = linalg.eigh(parts[0] + FURTHER * parts[1], check_finite=False)
    directions = vectors[:, ::-1][:, : problem.rank]
    used = np.linalg.norm(problem.moments @ directions, axis=1).max(initial=0.0)
    if used <= problem.beta / 2 < norms.max(initial=0.0):
        first = np.column_stack([rows[norms.argmax()], directions[:, :-1]])
        directions, _ = linalg.qr(first, mode="economic", check_finite=False)
    return np.asarray(directions)


def alternate(
    problem: SparseRankProblem,
    *,
    tol: float,
    max_iter: int,
    start: SparseRankSolution | None,
) -> SparseRankSolution:
    """Alternate group lasso and Procrustes until the relative certificate is at most `tol`."""
    everything = np.eye(len(problem.second))
    if problem.rank is None:
        space = problem.row_space()
        first = None if start is None else start.coef @ (start.directions.T @ space)
        solution = problem.lasso(space, tol=tol, max_iter=max_iter, start=first)
        solution.coef, solution.directions = solution.coef @ space.T, everything
        # The objective could decrease by at most the squares of T outside of these directions.
        outside = problem.rest(space) - problem.constant
        solution.gap += outside / max(solution.objective_history[-1], SMALLEST)
        return solution
    if start is None or not _has_rank(start, problem.rank):
        start = _best_start(problem, everything, tol, max_iter)
        left = max(max_iter - len(start.objective_history), 1)
        solution = _alternate(problem, start, tol, left)
        history = [*start.objective_history, *solution.objective_history]
        solution.objective_history = np.minimum.accumulate(history).tolist()
        return solution
    return _alternate(problem, start, tol, max_iter)


def _best_start(
    problem: SparseRankProblem, everything: Array, tol: float, max_iter: int
) -> SparseRankSolution:
    """Find the best of a few rough solutions, from the full-rank regression and random starts.

    The problem has local minima. Random combinations of the moments, drawn with a fixed seed, lead
    to other minima than the full-rank regression does.
    """
    assert problem.rank is not None
    full = problem.lasso(everything, tol=max(tol, ROUGH), max_iter=max_iter, start=None).coef
    random = np.random.default_rng(0)
    candidates = [_first_directions(problem, full)]
    for _ in range(RANDOM_STARTS):
        mixed = problem.moments.T @ random.standard_normal((len(problem.moments), problem.rank))
        candidates.append(linalg.qr(mixed, mode="economic", check_finite=False)[0])
    rough = []
    for number, directions in enumerate(candidates):
        coef = full @ directions if number == 0 else np.zeros((len(full), problem.rank))
        start = SparseRankSolution(coef, directions, [], np.inf)
        rough.append(_alternate(problem, start, max(tol, ROUGH_START), min(max_iter, MAX_ROUGH)))
    return min(rough, key=lambda solution: solution.objective_history[-1])


def _alternate(
    problem: SparseRankProblem,
    start: SparseRankSolution,
    tol: float,
    max_iter: int,
) -> SparseRankSolution:
    """Alternate group lasso and Procrustes from a start."""
    coef, directions = start.coef, start.directions
    history: list[float] = []
    best: SparseRankSolution | None = None
    accuracy, worse = ROUGH, 0
    for _ in range(max_iter):
        fit = problem.lasso(directions, tol=accuracy, max_iter=MAX_SETS, start=coef)
        coef, objective = fit.coef, fit.objective_history[-1]
        turned, gain = problem.procrustes(coef, directions)
        gap = fit.gap + gain / max(objective, SMALLEST)
        history.append(min([objective, *history[-1:]]))
        falls = len(history) == 1 or history[-1] < history[-2] * (1 - SMALL_STEP)
        worse = 0 if best is None or falls or gap < CLEARLY * best.gap else worse + 1
        if best is None or gap < best.gap:
            best = SparseRankSolution(coef, directions, history, gap)
        if gap <= tol:
            break
        if worse == MAX_IDLE or (fit.stalled and gap - fit.gap <= tol):
            best.stalled = True
            break
        directions = turned if gain > 0 else directions  # zero coefficients do not determine V
        accuracy = max(0.3 * tol, min(accuracy, 0.1 * gap), SMALLEST)
    assert best is not None
    return best
