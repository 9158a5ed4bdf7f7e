"""SLRR, equation (24): few features, few directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from discreg.base.caller import warn_of_convergence, warn_user
from discreg.base.classifier import Prepared, with_inherited_docs
from discreg.base.validation import Boolean, Choice, Number
from discreg.blocks.moments import FeatureMoments, Moments
from discreg.linalg.factorisation import psd_solver
from discreg.linalg.group_lasso import (
    SMALLEST,
    FeatureRegression,
    Features,
    SparseRankProblem,
    SparseRankSolution,
    alternate,
)
from discreg.linalg.ridge import (
    Regression,
    gap_with_error,
    linear_regression,
    rank_coefficients,
)
from discreg.linalg.types import Array, ClassWeight, Indices, MatrixLike

from ._subspace import Indicators, LowRankClassifier, largest_rank

FEW_COEFFICIENTS = 2_000  # up to this size, solving to rounding costs little
EXACT = 1e-14
NEAR = 1e-12  # relative distance from the largest useful penalty that is rounding
MAX_POLISHING = 10  # working sets
STALLED = (
    "Rounding errors prevent a smaller gap, because beta is tiny for features of this size or the "
    "features have a large mean. Standardise the features, or increase beta; beta=0 fits without "
    "a penalty."
)


@with_inherited_docs
class SLRRClassifier(LowRankClassifier):
    r"""Sparse low-rank regression: few features, few directions.

    Minimises equation (24) of [1]_, for centred X and the normalised indicators
    :math:`Y_{ij} = 1/\sqrt{n_j}` for samples i of class j, else 0:

    .. math:: \min_W\; \|Y - XW\|_F^2 + \beta \sum_j \|w_j\|_2
              \quad\text{subject to}\quad \operatorname{rank}(W) \le s .

    The penalty sets whole rows :math:`w_j` to zero: a feature is used for all classes or for none.
    The columns of W span the leading directions of a regularised linear discriminant analysis
    (Theorem 4).

    The fitted coefficients are W times :math:`\sqrt{n/c}` for n samples of c classes, those of
    targets of 1 for classes of equal size. Scores therefore do not depend on the number of samples.

    Y gives all classes the same weight, and the scores contain no class frequencies. On imbalanced
    data, rare classes are predicted often, and accuracy can be below the share of the largest
    class. If accuracy matters, let a classifier with priors follow in a pipeline, such as
    :class:`sklearn.discriminant_analysis.LinearDiscriminantAnalysis`.

    At full rank the problem is convex and `gap_` bounds the distance from the minimum. At a lower
    rank the problem is not convex: `gap_` bounds how much the objective can decrease by changing
    the projection alone, plus how much it can decrease by changing the directions alone.

    Parameters
    ----------
    rank : int, default=None
        The rank s, at most n_classes - 1 and n_features. None means the largest rank, which is
        sparse regression of full rank.
    beta : float, default=1.0
        The paper's :math:`\lambda`, at least 0. It depends on the units of X: standardise the
        features, or select `beta` by :class:`~discreg.SLRRClassifierCV`. From
        :math:`2 \max_j \|(X^\top Y)_j\|` on, see :func:`~discreg.beta_max`, all coefficients are
        zero, with a warning; at 0 the model is :class:`~discreg.LRLRClassifier`.
    solver : {"alternating", "reweighted"}, default="alternating"
        "alternating" alternates between a group lasso and an orthogonal Procrustes problem and
        gives exact zeros. "reweighted" is Algorithm 3 of [1]_: reweighted ridge regressions, whose
        rows never become exactly zero.
    stopping : {"gap", "change"}, default="gap"
        Quantity that is compared with `tol`. "gap" is `gap_`. "change", for
        ``solver="reweighted"`` only, is the relative change of the objective in an iteration, the
        paper's rule with ``tol=1e-5``.
    tol : float, default=1e-4
        Tolerance of the stopping rule. "alternating" solves small problems of full rank to
        rounding.
    max_iter : int, default=500
        Maximum number of iterations.
    warm_start : bool, default=False
        Whether to start from the solution of the previous call of `fit`, if its shape fits the new
        data.

    Attributes
    ----------
    intercept_ : ndarray of shape (n_classes,) or (1,)
        Intercepts :math:`-\sqrt{n/c}\, W^\top \bar x`, plus the shift of class weights. If all
        coefficients are zero, the logarithms of the classes' shares of the total weight, about
        their mean: the model then predicts the largest class, and probabilities are about the
        shares.
    selected_features_ : ndarray of int
        Indices of the features with nonzero coefficients.
    rank_ : int
        Upper bound of the rank of the coefficients.
    objective_history_ : ndarray of shape (`n_iter_`,)
        Smallest objective up to each iteration.
    gap_ : float
        Bound described above, relative to the objective.
    n_iter_ : int
        Number of iterations.
    solver_ : str
        Solver that ran.

    See Also
    --------
    SLRRClassifierCV : Selects rank and `beta` by cross-validation.
    beta_max : The smallest `beta` at which all coefficients are zero.
    LRRRClassifier : Uses all features and has a closed-form solution.
    sklearn.feature_selection.SelectFromModel : Transformer that keeps the selected features; use
        ``threshold=1e-10``.

    References
    ----------
    .. [1] X. Cai, C. Ding, F. Nie, H. Huang, "On the Equivalent of Low-Rank Regressions and Linear
           Discriminant Analysis Based Regressions", KDD 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import scale
    >>> from discreg import SLRRClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SLRRClassifier(beta=10.0).fit(scale(X)[::2], y[::2])
    >>> len(model.selected_features_)
    41
    """

    _constraints = LowRankClassifier._constraints | {
        "beta": Number(0, closed="left"),
        "solver": Choice(("alternating", "reweighted")),
        "stopping": Choice(("gap", "change")),
        "tol": Number(0, closed="left"),
        "max_iter": Number(1, closed="left", integer=True),
        "warm_start": Boolean(),
    }
    kernel = "linear"
    _to_rounding = True  # whether small problems are solved to rounding; held-out scores need `tol`

    def __init__(
        self,
        *,
        rank: int | None = None,
        beta: float = 1.0,
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        probability: bool = True,
        solver: str = "alternating",
        stopping: str = "gap",
        tol: float = 1e-4,
        max_iter: int = 500,
        warm_start: bool = False,
    ) -> None:
        self.rank = rank
        self.beta = beta
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.solver = solver
        self.stopping = stopping
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start

    def _fit_and_calibrate(self, prepared: Prepared) -> None:
        start = vars(self).get("_previous") if self.warm_start else None
        problem, solution = self._fit_prepared(prepared, start, to_rounding=self._to_rounding)
        self._warn(problem, solution)
        self._calibrate(prepared, solution)

    def _check_params(self) -> None:
        super()._check_params()
        if self.stopping == "change" and self.solver != "reweighted":
            raise ValueError(
                "stopping='change' requires solver='reweighted'. Use stopping='gap', or that "
                "solver."
            )

    def _linear_regression(self, X: Any, weights: Array) -> Regression:
        return FeatureRegression(X, weights, centre=self.fit_intercept)

    def _moment_regression(self, moments: Moments) -> FeatureMoments:
        return FeatureMoments(moments, centre=self.fit_intercept)

    def _problem(self, prepared: Prepared, rank: int, beta: float) -> SparseRankProblem:
        """Set up sparse low-rank regression onto the normalised indicators."""
        regression, indicators = prepared.regression, Indicators.of(prepared)
        assert isinstance(regression, Features)
        totals, _ = regression.class_totals(prepared.y, len(prepared.classes))
        moments, second = totals * indicators.entries, indicators.second
        constraint = rank if rank < largest_rank(prepared) else None
        return SparseRankProblem(regression, moments, second, beta, constraint, indicators.constant)

    def _solve(
        self,
        problem: SparseRankProblem,
        prepared: Prepared,
        start: SparseRankSolution | None,
        *,
        tol: float,
        to_rounding: bool = False,
    ) -> SparseRankSolution:
        """Solve the problem, from a start if its shape fits."""
        if is_null(problem.beta, largest_beta(problem)):
            return null_solution(problem)
        if problem.beta == 0:  # without a penalty, one regression is exact up to rounding
            solution = reweight(problem, prepared, tol=0.0, max_iter=1, by_change=True)
            solution.gap = gap_without_penalty(problem, solution)
            return solution
        if self.solver == "reweighted":
            by_change = self.stopping == "change"
            return reweight(problem, prepared, tol=tol, max_iter=self.max_iter, by_change=by_change)
        n_features, n_classes = problem.moments.shape
        if start is not None and (len(start.coef), len(start.directions)) != (
            n_features,
            n_classes,
        ):
            start = None
        solution = alternate(problem, tol=tol, max_iter=self.max_iter, start=start)
        return polish(problem, solution, tol=tol) if to_rounding else solution

    def _fit_prepared(
        self, prepared: Prepared, start: SparseRankSolution | None, *, to_rounding: bool
    ) -> tuple[SparseRankProblem, SparseRankSolution]:
        """Fit with the current parameters on prepared data."""
        rank = self._checked_rank(prepared)
        problem = self._problem(prepared, rank, float(self.beta))
        solution = self._solve(problem, prepared, start, tol=self.tol, to_rounding=to_rounding)
        self._store(prepared, solution, rank)
        return problem, solution

    def _start(self, solution: SparseRankSolution) -> Callable[[SLRRClassifier, Indices], None]:
        def start(model: SLRRClassifier, rows: Indices) -> None:
            model.warm_start, model._previous = True, solution
            model._to_rounding = False

        return start

    def _converged(self, solution: SparseRankSolution) -> bool:
        return self.stopping == "change" or not solution.gap > self.tol > 0

    def _warn(self, problem: SparseRankProblem, solution: SparseRankSolution) -> None:
        """Warn if the solver stopped before it reached `tol`, or if all coefficients are zero."""
        if not self._converged(solution):
            advice = "Increase max_iter, tol or beta, or standardise the features."
            if self.solver == "reweighted":
                advice = "Use solver='alternating', or increase max_iter, tol or beta."
            elif solution.stalled:
                advice = STALLED
            warn_of_convergence(
                f"SLRRClassifier stopped at a relative gap of {solution.gap:.2g} after "
                f"{len(solution.objective_history)} iterations; tol is {self.tol:g}. {advice}"
            )
        largest = largest_beta(problem)
        if largest > 0 and is_null(problem.beta, largest):
            warn_user(
                f"All coefficients are zero with beta={self.beta:g}, so that the predictions do "
                f"not depend on X. Use a beta below {largest:.6g}, the value of "
                "discreg.beta_max for these data."
            )

    def _store(self, prepared: Prepared, solution: SparseRankSolution, rank: int) -> None:
        """Set the fitted attributes, with directions in decreasing order of singular values."""
        _, turn = linalg.eigh(solution.coef.T @ solution.coef, check_finite=False)
        turn, shift = turn[:, ::-1][:, :rank], Indicators.of(prepared).offset(solution.coef)
        self._store_subspace(prepared, solution.coef @ turn, solution.directions @ turn, shift)
        self.selected_features_ = np.flatnonzero(solution.coef.any(axis=1))
        self.objective_history_ = np.array(solution.objective_history)
        self.gap_ = self._gap_with_error(prepared, solution)
        self.n_iter_ = len(solution.objective_history)
        self.solver_ = self.solver
        self.__dict__.pop("_previous", None)
        if self.warm_start:
            self._previous = solution

    def _gap_with_error(self, prepared: Prepared, solution: SparseRankSolution) -> float:
        """Compute the relative gap, with that of a Gram matrix in single precision."""
        regression, unit = prepared.regression, max(solution.objective_history[-1], SMALLEST)
        assert isinstance(regression, Features)
        used = np.flatnonzero(solution.coef.any(axis=1))
        image = regression.gram_matmul(used, solution.coef[used])
        size = float(np.sqrt(max(float(np.vdot(solution.coef, image)), 0.0)))
        return gap_with_error(solution.gap * unit, size, regression.error) / unit


def beta_max(
    X: MatrixLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    class_weight: ClassWeight = None,
    fit_intercept: bool = True,
) -> float:
    r"""Compute the smallest `beta` at which all coefficients of SLRR are zero.

    W = 0 is optimal, for any rank, if and only if no row of the gradient of
    :math:`\|Y - XW\|_F^2` at 0 is longer than `beta`. So the number is
    :math:`2 \max_j \|(X^\top S Y)_j\|` for centred X, the normalised indicators Y and weights S
    of the samples.

    Parameters
    ----------
    X : {array-like, sparse matrix, dask Array or DataFrame} of shape (n_samples, n_features)
        Training data, as for :class:`~discreg.SLRRClassifier`.
    y : array-like of shape (n_samples,)
        Class labels.
    sample_weight : array-like of shape (n_samples,) or float, default=None
        Sample weights.
    class_weight, fit_intercept
        As for :class:`~discreg.SLRRClassifier`.

    Returns
    -------
    beta_max : float
        Zero if all features are constant.

    See Also
    --------
    SLRRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import SLRRClassifier, beta_max
    >>> X, y = load_wine(return_X_y=True)
    >>> largest = beta_max(scale(X), y)
    >>> model = SLRRClassifier(beta=0.99 * largest).fit(scale(X), y)
    >>> len(model.selected_features_)
    1
    """
    model = SLRRClassifier(class_weight=class_weight, fit_intercept=fit_intercept)
    model.set_params(probability=False)._check_params()
    return largest_beta(model._problem(model._prepare(X, y, sample_weight), 1, 0.0))


def largest_beta(problem: SparseRankProblem) -> float:
    """Compute the smallest penalty at which all coefficients are zero, for any rank."""
    return 2 * float(np.linalg.norm(problem.moments, axis=1).max(initial=0.0))


def is_null(beta: Any, largest: float) -> Any:
    """Return whether all coefficients are zero for a penalty, up to rounding."""
    return (beta > 0) & (beta >= (1 - NEAR) * largest)


def null_solution(problem: SparseRankProblem) -> SparseRankSolution:
    """Return the solution without coefficients."""
    directions = np.eye(len(problem.second))[:, : problem.rank]
    coef = np.zeros((problem.regression.size, directions.shape[1]))
    objective, gap = problem.certify(coef, directions)
    return SparseRankSolution(coef, directions, [objective], gap)


def polish(
    problem: SparseRankProblem, solution: SparseRankSolution, *, tol: float
) -> SparseRankSolution:
    """Solve a small problem of full rank to rounding, from a solution that has reached `tol`."""
    small = problem.rank is None and problem.moments.size <= FEW_COEFFICIENTS
    if not small or solution.gap > tol:
        return solution
    finer = alternate(problem, tol=EXACT, max_iter=MAX_POLISHING, start=solution)
    finer.objective_history = [*solution.objective_history, finer.objective_history[-1]]
    return finer if finer.gap < solution.gap else solution


def reweight(
    problem: SparseRankProblem,
    prepared: Prepared,
    *,
    tol: float,
    max_iter: int,
    by_change: bool,
) -> SparseRankSolution:
    """Solve by Algorithm 3: ridge regression with weights 1/(2‖w_j‖) of the last iteration.

    Stops when the relative gap is at most `tol` or, with `by_change` as in the paper, when the
    relative change of the objective is. Features are scaled by the inverse square roots of the
    weights, which avoids division by zero for rows near zero.
    """
    scales = np.ones(problem.regression.size)
    history: list[float] = []
    best: SparseRankSolution | None = None
    for _ in range(max_iter):
        ranked = rank_coefficients(_scaled_ridge(problem, prepared, scales), problem.moments)
        coef = ranked.projected[:, : problem.rank]
        directions = ranked.directions[:, : problem.rank]
        objective, gap = problem.certify(coef, directions)
        change = abs(history[-1] - objective) / max(objective, SMALLEST) if history else np.inf
        history.append(objective)
        if by_change or best is None or gap < best.gap:
            best = SparseRankSolution(coef, directions, history, gap)
        if (change if by_change else gap) <= tol:
            break
        scales = np.sqrt(2 * np.linalg.norm(coef, axis=1))
    assert best is not None
    return best


def gap_without_penalty(problem: SparseRankProblem, solution: SparseRankSolution) -> float:
    """Compute the relative gap due to rounding of a regression for β = 0.

    For given V, the objective exceeds its minimum by ⟨R, (ΦᵀSΦ)⁺R⟩ with half its gradient R.
    """
    regression = problem.regression
    gain = problem.procrustes(solution.coef, solution.directions)[1]
    if regression.is_tall:
        residual = problem.moments @ solution.directions - regression.gram @ solution.coef
        step = psd_solver(regression.gram.copy())(residual)
        gain += max(float(np.vdot(residual, step)), 0.0)
    return gain / max(solution.objective_history[-1], SMALLEST)


def _scaled_ridge(problem: SparseRankProblem, prepared: Prepared, scales: Array) -> Array:
    """Solve (ΦᵀSΦ + βD)⁻¹ΦᵀSY for D = diag(scales)⁻², as an n × n system for many features."""
    regression, column = problem.regression, scales[:, None]
    if regression.is_tall:
        matrix = regression.gram * scales * column
        matrix[np.diag_indices_from(matrix)] += problem.beta
        return column * psd_solver(matrix)(column * problem.moments)
    assert isinstance(regression, FeatureRegression)
    X: Any = regression.X
    scaled = X.multiply(scales).tocsr() if sparse.issparse(X) else X * scales
    wide = linear_regression(scaled, regression.weights, centre=regression.centred)
    wide.at(problem.beta)
    totals, _ = wide.class_totals(prepared.y, len(prepared.classes))
    rows, _ = wide.predictor(wide.solve(totals * Indicators.of(prepared).entries))
    return column * rows
