"""SLRR: sparse low-rank regression."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from discreg.base.callbacks import Task, with_callbacks
from discreg.base.caller import user_stacklevel
from discreg.base.left_out import LeftOut
from discreg.base.regression import Prepared, RegressionClassifier
from discreg.blocks.lazy import lazily
from discreg.blocks.moment_ridge import FeatureMoments
from discreg.blocks.moments import Moments
from discreg.blocks.validation import (
    Boolean,
    Choice,
    Number,
)
from discreg.linalg.group_lasso import FeatureRegression
from discreg.linalg.iterations import Report, unreported
from discreg.linalg.resources import small_fits_in_one_thread
from discreg.linalg.ridge import Regression
from discreg.linalg.sparse_rank import (
    SparseRankProblem,
    SparseRankSolution,
    alternate,
)
from discreg.linalg.types import Array, ClassWeight, MatrixLike, RealArray

from ._held_out_folds import left_out_by_folds
from ._indicators import Indicators
from ._sparse import (
    STALLED,
    by_singular_value,
    gap_without_penalty,
    indicator_problem,
    is_null,
    largest_beta,
    null_solution,
    polish,
    reweight,
    stored_gap,
    warn_of_gap,
)
from ._subspace import CONSTRAINTS, checked_rank, largest_rank, project, store_subspace

__all__ = ["SLRRClassifier", "beta_max"]

LOOSER = 30.0  # factor of `tol` for the folds that calibrate probabilities


class SLRRClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RegressionClassifier):
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
    fit_intercept : bool, default=True
        Whether to centre X, so that scores are those of :math:`x - \bar x` (38). Without centring
        the largest rank is min(n_features, n_classes).
    class_weight : dict or "balanced", default=None
        Class weights, which multiply the weights of the rows. Unlike the same factors in
        `sample_weight`, they do not change Y, and the scores are shifted by what they change in
        the mean of Y. "balanced" gives every class the same total weight, taking sample weights
        into account.
    probability : bool, default=True
        Whether `fit` also computes held-out scores of training samples, which `predict_proba`,
        `predict_log_proba` and `predict_set` need.
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
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    coef_ : ndarray of shape (n_classes, n_features) or (1, n_features)
        Coefficients; for two classes, those of the second minus those of the first.
    intercept_ : ndarray of shape (n_classes,) or (1,)
        Intercepts :math:`-\sqrt{n/c}\, W^\top \bar x`, plus the shift of class weights. If all
        coefficients are zero, the logarithms of the classes' shares of the total weight, about
        their mean: the model then predicts the largest class, and probabilities are about the
        shares.
    selected_features_ : ndarray of int
        Indices of the features with nonzero coefficients.
    rank_ : int
        Upper bound of the rank of the coefficients.
    scalings_ : ndarray of shape (n_features, `rank_`)
        The projection A of `transform`.
    directions_ : ndarray of shape (n_classes, `rank_`)
        Orthonormal directions V of the classes, with :math:`\sqrt{n/c}\, W = A V^\top`.
    objective_history_ : ndarray of shape (`n_iter_`,)
        Smallest objective up to each iteration.
    gap_ : float
        Bound described above, relative to the objective.
    n_iter_ : int
        Number of iterations.
    solver_ : str
        Solver that ran.
    inverse_temperature_ : float
        Factor of the decision values in `predict_proba`, fitted to held-out scores. This and the
        next two attributes are only set with ``probability=True``.
    loo_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values of the training samples, each from the model without a fifth of the samples
        and the sample among them. Only set if all samples were held out: at most 2,000 rows in
        memory, with more than one distinct row in each class.
    loo_is_exact_ : bool
        False: the scores are not those of the model without one sample.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

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

    _constraints = CONSTRAINTS | {
        "beta": Number(0, closed="left"),
        "solver": Choice(("alternating", "reweighted")),
        "stopping": Choice(("gap", "change")),
        "tol": Number(0, closed="left"),
        "max_iter": Number(1, closed="left", integer=True),
        "warm_start": Boolean(),
    }
    kernel = "linear"

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

    @with_callbacks
    @small_fits_in_one_thread
    def fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> SLRRClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask Array or DataFrame} of shape (n_samples, n_features)
            Training data. Memory maps and Dask collections are fitted block by block.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Sample weights; weight k is equivalent to repeating the sample k times.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._check_params()
        task = Task.fit(self, X, y)
        prepared = self._prepare(X, y, sample_weight)
        rank = checked_rank(self.rank, prepared)
        problem = self._problem(prepared, rank, float(self.beta))
        start = vars(self).get("_previous") if self.warm_start else None
        solution = self._solve(
            problem, prepared, start, tol=self.tol, to_rounding=True, report=task.iterated
        )
        if not task.is_stopped:
            self._warn(solution)
        self._warn_of_null(problem)
        self._store(prepared, solution, rank)
        self._calibrate(prepared, (problem, solution))
        task.end()
        return self

    @lazily
    def transform(self, X: MatrixLike) -> RealArray:
        """Project samples onto the discriminative subspace.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        projected : ndarray of shape (n_samples, `rank_`)
            The samples, centred if `fit_intercept`, times `scalings_`. Components are in decreasing
            order of how well they separate the classes.
        """
        return project(self, X)

    @property
    def _n_features_out(self) -> int:
        return int(self.scalings_.shape[1])

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
        constraint = rank if rank < largest_rank(prepared) else None
        return indicator_problem(prepared, Indicators.of(prepared), beta, constraint)

    def _solve(
        self,
        problem: SparseRankProblem,
        prepared: Prepared,
        start: SparseRankSolution | None,
        *,
        tol: float,
        to_rounding: bool = False,
        report: Report = unreported,
    ) -> SparseRankSolution:
        """Solve the problem, from a start if its shape fits."""
        if is_null(problem.beta, largest_beta(problem)):
            report(1)
            return null_solution(problem)
        if problem.beta == 0:  # without a penalty, one regression is exact up to rounding
            solution = reweight(
                problem, prepared, tol=0.0, max_iter=1, by_change=True, report=report
            )
            solution.gap = gap_without_penalty(problem, solution)
        elif self.solver == "reweighted":
            solution = reweight(
                problem,
                prepared,
                tol=tol,
                max_iter=self.max_iter,
                by_change=self.stopping == "change",
                report=report,
            )
        else:
            if start is not None and not _fits(start, problem):
                start = None
            solution = alternate(
                problem, tol=tol, max_iter=self.max_iter, start=start, report=report
            )
            if to_rounding:
                solution = polish(problem, solution, tol=tol, report=report)
        return solution

    def _left_out(
        self, prepared: Prepared, solution: tuple[SparseRankProblem, SparseRankSolution]
    ) -> LeftOut:
        """Compute held-out scores by folds, whose fits start from the model of all samples."""
        problem, start = solution

        def refit(rest: Prepared) -> Array:
            other = indicator_problem(rest, Indicators.of(rest), problem.beta, problem.rank)
            found = self._solve(other, rest, start, tol=LOOSER * self.tol)
            return found.coef @ found.directions.T

        return left_out_by_folds(prepared, problem.moments / Indicators.of(prepared).entries, refit)

    def _converged(self, solution: SparseRankSolution) -> bool:
        return self.stopping == "change" or not solution.gap > self.tol > 0

    def _warn(self, solution: SparseRankSolution) -> None:
        """Warn if the solver stopped before it reached `tol`."""
        if self._converged(solution):
            return
        advice = None
        if self.solver == "reweighted":
            advice = "Use solver='alternating', or increase max_iter, tol or beta."
        elif solution.stalled:
            advice = STALLED + "; beta=0 fits without a penalty."
        warn_of_gap(self, solution, advice)

    def _warn_of_null(self, problem: SparseRankProblem) -> None:
        """Warn if the penalty makes all coefficients zero."""
        largest = largest_beta(problem)
        if largest > 0 and is_null(problem.beta, largest):
            warnings.warn(
                f"All coefficients are zero with beta={self.beta:g}, so that the predictions do "
                f"not depend on X. Use a beta below {largest:.6g}, the value of "
                "discreg.beta_max for these data.",
                UserWarning,
                stacklevel=user_stacklevel(),
            )

    def _gap(
        self, prepared: Prepared, solution: SparseRankSolution, exact: tuple[RealArray, RealArray]
    ) -> float:
        """Compute the relative gap of the stored coefficients."""
        scale = Indicators.of(prepared).scale  # of the stored coefficients
        stored = self.coef_, self.intercept_
        return stored_gap(solution, float(self.beta), prepared, stored, exact, scale)

    def _store(self, prepared: Prepared, solution: SparseRankSolution, rank: int) -> None:
        """Set the fitted attributes, with directions in decreasing order of singular values."""
        shift = Indicators.of(prepared).offset(solution.coef)
        exact = store_subspace(self, prepared, *by_singular_value(solution, rank), shift)
        self.selected_features_ = np.flatnonzero(solution.coef.any(axis=1))
        self.objective_history_ = np.array(solution.objective_history)
        self.gap_ = self._gap(prepared, solution, exact)
        self.n_iter_ = len(solution.objective_history)
        self.solver_ = self.solver
        self.__dict__.pop("_previous", None)
        if self.warm_start:
            self._previous = solution


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


def _fits(start: SparseRankSolution, problem: SparseRankProblem) -> bool:
    """Return whether a start has the features and the classes of a problem."""
    n_features, n_classes = problem.moments.shape
    return bool(len(start.coef) == n_features and len(start.directions) == n_classes)
