"""Reduced-rank regression of continuous targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.extmath import safe_sparse_dot

from discreg.base.caller import CallbackSupportMixin, Task, warn_user, with_callbacks
from discreg.base.classifier import (
    DOC_LINK_MODULE,
    DOC_LINK_TEMPLATE,
    SMALLEST_TRACE,
    finite_scores,
    in_precision,
    require_squares_of,
)
from discreg.base.validation import (
    Boolean,
    Choice,
    Number,
    check_params,
    lazily,
    new_rows,
    target_rows,
)
from discreg.blocks.moments import MomentRegression, Moments
from discreg.blocks.opening import (
    chunk_moments,
    is_flat,
    open_targets,
    positive_weights,
    require_positive,
)
from discreg.blocks.source import is_out_of_core, is_streamed
from discreg.linalg.resources import require_memory, small_fits_in_one_thread, threads_for
from discreg.linalg.ridge import (
    RankedCoefficients,
    linear_regression,
    rank_coefficients,
)
from discreg.linalg.rows import varies, weighted_mean
from discreg.linalg.types import Array, MatrixLike, RealArray

from ._subspace import signs_of


@dataclass
class TargetProblem:
    """Regression of targets Y on features Φ; both are centred if there is an intercept."""

    regression: Any  # a Regression, or a MomentRegression if the rows are not in memory
    moments: Array  # ΦᵀSY
    mean: Array  # of the raw targets; zero without an intercept
    dtype: np.dtype[Any]

    def __post_init__(self) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            square = float(np.vdot(self.moments, self.moments))
        if not np.isfinite(square):
            raise ValueError("The squares of the targets overflow. Scale the targets.")

    @classmethod
    def of_rows(cls, X: Any, targets: Array, weights: Array, *, centre: bool) -> TargetProblem:
        """Set up the problem of rows in memory."""
        _require_memory(min(X.shape), targets.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            regression = linear_regression(X, weights, centre=centre)
            require_squares_of(
                regression, "linear", lost=regression.trace < SMALLEST_TRACE and varies(X)
            )
            mean = weighted_mean(targets, weights) if centre else np.zeros(targets.shape[1])
            away = targets - mean
            weighted = weights[:, None] * away
            moments = regression.gradient(weighted, weighted.sum(axis=0))
            return cls(regression, moments, mean, X.dtype)

    @classmethod
    def of_moments(
        cls, stacked: Moments, n_features: int, dtype: np.dtype[Any], *, centre: bool
    ) -> TargetProblem:
        """Set up the problem from the moments of rows followed by their targets."""
        _require_memory(n_features, len(stacked.scatter) - n_features)
        extremes = None if stacked.extremes is None else stacked.extremes[:, :n_features]
        features = Moments(
            stacked.weights,
            stacked.means[:, :n_features],
            stacked.scatter[:n_features, :n_features],
            extremes,
            stacked.error,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            regression = MomentRegression(features, centre=centre)
            require_squares_of(regression, "linear", lost=False)
            sums = stacked.scatter if centre else stacked.gram(centre=False)
        moments = regression.without_constant(sums[:n_features, n_features:].copy())
        mean = stacked.mean[n_features:] * centre
        return cls(regression, moments, mean, dtype)

    @property
    def largest_rank(self) -> int:
        """The largest rank of the coefficients."""
        return int(min(self.regression.n_features, len(self.mean)))

    def ranked(self, beta: float) -> RankedCoefficients:
        """Solve ridge regression for every rank."""
        with threads_for(self.regression.size**3 / 6):
            self.regression.at(beta)
            return rank_coefficients(self.regression.solve(self.moments), self.moments)


def _require_memory(size: int, n_targets: int) -> None:
    require_memory(
        3 * 8 * (size + n_targets) ** 2,
        f"A regression of {n_targets} targets with a Gram matrix of {size} rows",
        "Reduce the features first, for example with sklearn.decomposition.TruncatedSVD.",
    )


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

    .. math:: \min_{W, b}\; \|Y - 1b^\top - XW\|_F^2 + \beta \|W\|_F^2
              \quad\text{subject to}\quad \operatorname{rank}(W) \le s .

    The intercepts b are not penalised. All targets depend on the same s combinations of the
    features, which `transform` computes. The solution is :math:`W V V^\top` [1]_ for the ridge
    regression W of full rank and the s leading eigenvectors V of :math:`Y^\top X W` (X and Y
    centred). With more features than samples, the fit solves one n by n system.

    Parameters
    ----------
    rank : int, default=None
        The rank s, at most min(n_features, n_targets). None means this largest rank.
    beta : float, default=1.0
        Penalty, at least 0: the `alpha` of :class:`sklearn.linear_model.Ridge`. It has the units of
        :math:`X^\top X`: standardise the features, or select `beta` and `rank` by
        :class:`~sklearn.model_selection.GridSearchCV`.
    fit_intercept : bool, default=True
        Whether to fit intercepts, by centring X and Y.

    Attributes
    ----------
    coef_ : ndarray of shape (n_targets, n_features)
        Coefficients :math:`W^\top`.
    intercept_ : ndarray of shape (n_targets,)
        Intercepts b.
    rank_ : int
        Rank of the coefficients.
    scalings_ : ndarray of shape (n_features, `rank_`)
        The projection A of `transform`.
    directions_ : ndarray of shape (n_targets, `rank_`)
        Orthonormal directions V of the targets, with :math:`W = A V^\top`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

    See Also
    --------
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
        "fit_intercept": Boolean(),
    }
    kernel = "linear"

    def __init__(
        self,
        *,
        rank: int | None = None,
        beta: float = 1.0,
        fit_intercept: bool = True,
    ) -> None:
        self.rank = rank
        self.beta = beta
        self.fit_intercept = fit_intercept

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
        check_params(self, self._constraints)
        task = Task.fit(self, X, y)
        self.__dict__.pop("_sums", None)
        if is_out_of_core(X) or (is_streamed(X) and not _is_wide(X)):
            source = open_targets(self, X, y, sample_weight)
            n_features, dtype = source.n_features, source.dtype
            moments: Moments = source.reduce_raw(chunk_moments, n_features, dtype)
            flat = len(moments.scatter) == n_features + 1 if y is None else is_flat(y)
            self._fit_sums(TargetSums(moments, dtype, flat))
        else:
            rows, targets, flat = target_rows(self, X, y)
            weights = positive_weights(sample_weight, len(targets))
            problem = TargetProblem.of_rows(rows, targets, weights, centre=self.fit_intercept)
            self._fit_problem(problem, is_flat=flat)
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
        check_params(self, self._constraints)
        before: TargetSums | None = vars(self).get("_sums")
        if before is None and hasattr(self, "coef_"):
            warn_user(
                f"partial_fit starts a new model, because {type(self).__name__}.fit keeps no "
                "statistics of its rows. Pass all rows to partial_fit instead."
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

    def _fit_sums(self, sums: TargetSums) -> None:
        require_positive(sums.moments.total)
        problem = TargetProblem.of_moments(
            sums.moments, self.n_features_in_, sums.dtype, centre=self.fit_intercept
        )
        self._fit_problem(problem, is_flat=sums.is_flat)

    def _fit_problem(self, problem: TargetProblem, *, is_flat: bool) -> None:
        """Solve the problem and set the fitted attributes."""
        largest = problem.largest_rank
        rank = largest if self.rank is None else self.rank
        if rank > largest:
            raise ValueError(
                f"rank={rank} is too large: with {len(problem.mean)} targets and "
                f"{problem.regression.n_features} features the largest rank is {largest}. Use a "
                f"rank from 1 to {largest}, or None for the largest."
            )
        ranked = problem.ranked(float(self.beta))
        signs = signs_of(ranked.directions[:, :rank])
        directions = ranked.directions[:, :rank] * signs
        scalings, means = problem.regression.predictor(ranked.projected[:, :rank] * signs)
        coef, intercept = directions @ scalings.T, problem.mean - directions @ means
        self.coef_, self.intercept_, self.scalings_, self.directions_, self._means = (
            in_precision(numbers, problem.dtype)
            for numbers in (coef, intercept, scalings, directions, means)
        )
        self.rank_, self._is_flat = rank, is_flat

    @property
    def _n_features_out(self) -> int:
        return int(self.scalings_.shape[1])

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
