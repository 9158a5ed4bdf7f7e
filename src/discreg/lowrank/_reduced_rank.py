"""Reduced-rank regression of continuous targets."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.extmath import safe_sparse_dot

from discreg.base.callbacks import CallbackSupportMixin, Task, with_callbacks
from discreg.base.caller import user_stacklevel
from discreg.base.classifier import finite_scores
from discreg.base.doc_links import DOC_LINK_MODULE, DOC_LINK_TEMPLATE
from discreg.base.missing_params import with_missing_params
from discreg.base.regression import in_precision
from discreg.blocks.lazy import lazily
from discreg.blocks.moments import Moments
from discreg.blocks.targets import (
    chunk_moments,
    is_flat,
    open_targets,
    positive_weights,
    require_positive,
    target_rows,
)
from discreg.blocks.validation import (
    Boolean,
    Choice,
    Number,
    check_params,
    is_out_of_core,
    is_streamed,
    new_rows,
)
from discreg.linalg.iterations import Report, unreported
from discreg.linalg.resources import small_fits_in_one_thread
from discreg.linalg.sparse_rank import SparseRankProblem, SparseRankSolution, alternate
from discreg.linalg.types import Array, MatrixLike, RealArray

from ._sparse import STALLED, by_singular_value, polish, stored_gap, warn_of_gap
from ._subspace import signs_of
from ._targets import TargetProblem

__all__ = ["ReducedRankRegression"]


@dataclass(frozen=True)
class TargetSums:
    """Statistics of the rows seen by `partial_fit`."""

    moments: Moments  # of the features followed by the targets
    dtype: np.dtype[Any]
    is_flat: bool  # whether y has one dimension

    def __add__(self, other: TargetSums) -> TargetSums:
        one, two = (len(each.moments.scatter) for each in (self, other))
        if one != two or self.is_flat != other.is_flat:
            raise ValueError("y must have the same number of targets and dimensions for all rows.")
        dtype = np.promote_types(self.dtype, other.dtype)
        return TargetSums(self.moments + other.moments, dtype, self.is_flat)


class ReducedRankRegression(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    MultiOutputMixin,
    RegressorMixin,
    BaseEstimator,
):
    r"""Reduced-rank regression of several continuous targets on common directions.

    Minimises, for n samples, p features and q targets,

    .. math:: \min_{W, b}\; \|Y - 1b^\top - XW\|_F^2 + \beta R(W)
              \quad\text{subject to}\quad \operatorname{rank}(W) \le s

    with :math:`R(W) = \|W\|_F^2` or the sum of the norms of the rows of W,
    :math:`\sum_j \|w_j\|_2`, which uses a feature for all targets or for none. The intercepts b are
    not penalised. All targets then depend on the same s combinations of the features, which
    `transform` computes.

    The ridge penalty has a closed-form solution [1]_: :math:`W V V^\top` for the ridge regression W
    of full rank and the s leading eigenvectors V of :math:`Y^\top X W` (X and Y centred). With more
    features than samples, the fit solves one n by n system. The penalty of the rows is solved as in
    :class:`~discreg.SLRRClassifier`: at full rank `gap_` bounds the distance from the minimum; at a
    lower rank the problem is not convex, and `gap_` bounds how much the objective can decrease by
    changing the projection alone, plus by changing the directions alone.

    Parameters
    ----------
    rank : int, default=None
        The rank s, at most min(n_features, n_targets). None means this largest rank.
    beta : float, default=1.0
        Penalty; that of ridge is the `alpha` of :class:`sklearn.linear_model.Ridge`. It is not
        relative: it has the units of :math:`X^\top X` (ridge) or :math:`X^\top Y` ("l21").
        Standardise the features, or select `beta` by :class:`~discreg.ReducedRankRegressionCV`.
        It is at least 0 for ridge and positive for "l21".
    penalty : {"ridge", "l21"}, default="ridge"
        The penalty R.
    fit_intercept : bool, default=True
        Whether to fit intercepts, by centring X and Y.
    tol : float, default=1e-4
        Relative gap at which the solver of "l21" stops. Small problems of full rank are solved to
        rounding.
    max_iter : int, default=500
        Maximum number of iterations for "l21".

    Attributes
    ----------
    coef_ : ndarray of shape (n_targets, n_features)
        Coefficients :math:`W^\top`.
    intercept_ : ndarray of shape (n_targets,)
        Intercepts b.
    rank_ : int
        Upper bound of the rank of the coefficients.
    scalings_ : ndarray of shape (n_features, `rank_`)
        The projection A of `transform`.
    directions_ : ndarray of shape (n_targets, `rank_`)
        Orthonormal directions V of the targets, with :math:`W = A V^\top`.
    selected_features_ : ndarray of int
        Indices of the features with nonzero coefficients.
    objective_history_ : ndarray of shape (`n_iter_`,)
        Smallest objective up to each iteration.
    gap_ : float
        Bound described above, relative to the objective; 0 for ridge.
    n_iter_ : int
        Number of iterations; 1 for ridge.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

    See Also
    --------
    ReducedRankRegressionCV : Selects rank and `beta` on held-out samples.
    LRRRClassifier : The same model for class labels.
    sklearn.cross_decomposition.PLSRegression : Directions of large covariance instead of small
        error.

    References
    ----------
    .. [1] A. Mukherjee, J. Zhu, "Reduced Rank Ridge Regression and Its Kernel Extensions",
           Statistical Analysis and Data Mining 4(6), 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from sklearn.preprocessing import scale
    >>> from discreg import ReducedRankRegression
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> model = ReducedRankRegression(rank=1).fit(scale(X), scale(Y))
    >>> model.coef_.shape, model.transform(scale(X)).shape
    ((3, 3), (20, 1))
    >>> round(model.score(scale(X), scale(Y)), 2)
    0.29
    """

    _doc_link_module = DOC_LINK_MODULE
    _doc_link_template = DOC_LINK_TEMPLATE
    _constraints = {
        "rank": Choice((None,), others=(Number(1, closed="left", integer=True),)),
        "beta": Number(0, closed="left"),
        "penalty": Choice(("ridge", "l21")),
        "fit_intercept": Boolean(),
        "tol": Number(0, closed="left"),
        "max_iter": Number(1, closed="left", integer=True),
    }
    kernel = "linear"

    def __init__(
        self,
        *,
        rank: int | None = None,
        beta: float = 1.0,
        penalty: str = "ridge",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 500,
    ) -> None:
        self.rank = rank
        self.beta = beta
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    @with_callbacks
    @small_fits_in_one_thread
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask Array or DataFrame} of shape (n_samples, n_features)
            Training data. Memory maps and Dask collections are fitted block by block.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Sample weights; weight k is equivalent to repeating the sample k times.

        Returns
        -------
        self : object
            The fitted model.
        """
        self._check_params()
        task = Task.fit(self, X, y)
        self.__dict__.pop("_sums", None)
        if is_out_of_core(X) or (is_streamed(X) and not _is_wide(X)):
            source = open_targets(self, X, y, sample_weight)
            n_features, dtype = source.n_features, source.dtype
            moments: Moments = source.reduce_raw(chunk_moments, n_features, dtype)
            flat = len(moments.scatter) == n_features + 1 if y is None else is_flat(y)
            self._fit_sums(TargetSums(moments, dtype, flat), task.iterated)
        else:
            rows, targets, flat = target_rows(self, X, y)
            weights = positive_weights(sample_weight, len(targets))
            problem = self._problem(rows, targets, weights)
            self._fit_problem(problem, task.iterated, is_flat=flat)
        task.end()
        return self

    def partial_fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the model incrementally on a batch of rows.

        Up to rounding, the model equals that of `fit` on all rows passed so far, in any order. A
        call of `fit` starts a new model and keeps no statistics that a later `partial_fit` could
        add to.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Some rows of the training data.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets of these rows.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Sample weights; weight k is equivalent to repeating the sample k times.

        Returns
        -------
        self : object
            The model, fitted to all rows passed so far.
        """
        self._check_params()
        before: TargetSums | None = vars(self).get("_sums")
        if before is None and hasattr(self, "coef_"):
            warnings.warn(
                f"partial_fit starts a new model, because {type(self).__name__}.fit keeps no "
                "statistics of its rows. Pass all rows to partial_fit instead.",
                UserWarning,
                stacklevel=user_stacklevel(),
            )
        rows, targets, flat = target_rows(self, X, y, reset=before is None)
        moments = chunk_moments(rows, targets, sample_weight, 0, rows.shape[1], rows.dtype)
        sums = TargetSums(moments, rows.dtype, flat)
        sums = sums if before is None else before + sums
        self._fit_sums(sums)
        self._sums = sums
        return self

    def merge(self, other: Self) -> Self:
        """Merge another model fitted by `partial_fit` into this one.

        Parameters
        ----------
        other : object
            A model of the same features and targets that `partial_fit` has fitted to other rows.
            It is not modified.

        Returns
        -------
        self : object
            This model, fitted to the rows of both.
        """
        if not isinstance(other, type(self)):
            raise TypeError(
                f"A {type(self).__name__} cannot be merged with a {type(other).__name__}."
            )
        for model, which in ((self, "This model"), (other, "The other model")):
            if "_sums" not in vars(model):
                raise ValueError(f"{which} was not fitted by partial_fit and cannot be merged.")
        mine, its = (
            (model.n_features_in_, list(getattr(model, "feature_names_in_", [])))
            for model in (self, other)
        )
        if mine != its:
            raise ValueError("The two models were fitted to different features.")
        sums = self._sums + other._sums
        self._fit_sums(sums)
        self._sums = sums
        return self

    @lazily
    def predict(self, X: MatrixLike) -> RealArray:
        """Predict the targets of samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        targets : ndarray of shape (n_samples,) or (n_samples, n_targets)
            In the shape of the y of `fit`.
        """
        rows = new_rows(self, X)
        with np.errstate(over="ignore", invalid="ignore"):
            product = safe_sparse_dot(rows, self.coef_.T, dense_output=True) + self.intercept_
        predicted = finite_scores(np.asarray(product))
        return predicted.ravel() if self._is_flat else predicted

    @lazily
    def transform(self, X: MatrixLike) -> RealArray:
        """Project samples onto the directions that predict the targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        projected : ndarray of shape (n_samples, `rank_`)
            The samples, centred if `fit_intercept`, times `scalings_`; the most important component
            first.
        """
        rows = new_rows(self, X)
        return np.asarray(safe_sparse_dot(rows, self.scalings_, dense_output=True) - self._means)

    def _check_params(self) -> None:
        check_params(self, self._constraints)
        if self.penalty == "l21" and self.beta == 0:
            raise ValueError(
                "penalty='l21' needs a positive beta. Without a penalty, use penalty='ridge' and "
                "beta=0."
            )

    def _problem(self, rows: Any, targets: Array, weights: Array) -> TargetProblem:
        """Set up the regression of rows in memory."""
        sparse = self.penalty == "l21"
        return TargetProblem.of_rows(
            rows, targets, weights, centre=self.fit_intercept, sparse=sparse
        )

    def _fit_sums(self, sums: TargetSums, report: Report = unreported) -> None:
        require_positive(sums.moments.total)
        sparse = self.penalty == "l21"
        problem = TargetProblem.of_moments(
            sums.moments,
            self.n_features_in_,
            sums.dtype,
            centre=self.fit_intercept,
            sparse=sparse,
        )
        self._fit_problem(problem, report, is_flat=sums.is_flat)

    def _fit_problem(self, problem: TargetProblem, report: Report, *, is_flat: bool) -> None:
        """Solve the problem and set the fitted attributes."""
        rank = self._checked_rank(problem)
        if self.penalty == "ridge":
            ranked = problem.ranked(float(self.beta))
            objective = float(problem.second.trace() - ranked.explained[:rank].sum())
            solution = SparseRankSolution(
                ranked.projected[:, :rank],
                ranked.directions[:, :rank],
                [max(objective, 0.0)],
                gap=0.0,
            )
            report(1)
        else:
            sparse = problem.with_rows_penalty(float(self.beta), rank)
            solution = self._solve(sparse, None, report)
            solution = polish(sparse, solution, tol=self.tol, report=report)
            if not report(0) and not self._has_converged(solution):
                warn_of_gap(self, solution, f"{STALLED}." if solution.stalled else None)
        self._store(problem, solution, rank, is_flat=is_flat)

    def _solve(
        self,
        problem: SparseRankProblem,
        start: SparseRankSolution | None,
        report: Report = unreported,
    ) -> SparseRankSolution:
        """Solve the problem with a penalty on the rows, from a start if there is one."""
        return alternate(problem, tol=self.tol, max_iter=self.max_iter, start=start, report=report)

    def _has_converged(self, solution: SparseRankSolution) -> bool:
        return not solution.gap > self.tol > 0

    def _checked_rank(self, problem: TargetProblem) -> int:
        largest = problem.largest_rank
        if self.rank is not None and self.rank > largest:
            raise ValueError(
                f"rank={self.rank} is too large: with {len(problem.mean)} targets and "
                f"{problem.regression.n_features} features the largest rank is {largest}. Use a "
                f"rank from 1 to {largest}, or None for the largest."
            )
        return largest if self.rank is None else self.rank

    def _store(
        self, problem: TargetProblem, solution: SparseRankSolution, rank: int, *, is_flat: bool
    ) -> None:
        """Set the fitted attributes; those of a "ridge" solution are in their order already."""
        projected, directions = solution.coef, solution.directions
        if self.penalty == "l21":
            projected, directions = by_singular_value(solution, rank)
        signs = signs_of(directions)
        scalings, means = problem.regression.predictor(projected * signs)
        directions = directions * signs
        exact = scalings @ directions.T, problem.mean - directions @ means

        def stored(numbers: Array) -> NDArray[Any]:
            return in_precision(numbers, problem.dtype)

        self.coef_, self.intercept_ = stored(exact[0].T), stored(exact[1])
        self.scalings_, self._means = stored(scalings), stored(means)
        self.directions_ = stored(directions)
        self.rank_, self._is_flat = rank, is_flat
        self.selected_features_ = np.flatnonzero(self.coef_.any(axis=0))
        self.objective_history_ = np.array(solution.objective_history)
        self.n_iter_ = len(solution.objective_history)
        self.gap_ = 0.0
        if self.penalty == "l21":
            fitted = self.coef_, self.intercept_
            self.gap_ = stored_gap(solution, float(self.beta), problem, fitted, exact)

    @property
    def _n_features_out(self) -> int:
        return int(self.scalings_.shape[1])

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(with_missing_params(type(self), state))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _is_wide(X: Any) -> bool:
    """Return whether there are more features than rows, which a fit in blocks would square."""
    return bool(X.shape[1] > X.shape[0])
