"""Reduced-rank regression of continuous targets."""

from __future__ import annotations

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

from discreg.base.caller import CallbackSupportMixin, Task, with_callbacks
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
    sample_weights,
    target_rows,
)
from discreg.linalg.resources import require_memory, small_fits_in_one_thread, threads_for
from discreg.linalg.ridge import linear_regression, rank_coefficients
from discreg.linalg.rows import varies, weighted_mean
from discreg.linalg.types import Array, MatrixLike, RealArray

from ._subspace import signs_of


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
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
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
        rows, targets = target_rows(self, X, y)
        weights = sample_weights(sample_weight, len(targets))
        if not weights.any():
            raise ValueError("All rows have weight zero by sample_weight. Make some positive.")
        self._solve(rows, targets.reshape(len(targets), -1), weights)
        self._is_flat = targets.ndim == 1
        task.end()
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

    def _solve(self, X: Any, targets: Array, weights: Array) -> None:
        """Solve the problem and set the fitted attributes."""
        n_features, n_targets = X.shape[1], targets.shape[1]
        largest = min(n_features, n_targets)
        rank = largest if self.rank is None else self.rank
        if rank > largest:
            raise ValueError(
                f"rank={rank} is too large: with {n_targets} targets and {n_features} features the "
                f"largest rank is {largest}. Use a rank from 1 to {largest}, or None for the "
                "largest."
            )
        size = min(X.shape)
        require_memory(
            3 * 8 * (size + n_targets) ** 2,
            f"A regression of {n_targets} targets with a Gram matrix of {size} rows",
            "Reduce the features first, for example with sklearn.decomposition.TruncatedSVD.",
        )
        with np.errstate(over="ignore", invalid="ignore"):
            regression = linear_regression(X, weights, centre=self.fit_intercept)
            is_lost = regression.trace < SMALLEST_TRACE and varies(X)
            require_squares_of(regression, "linear", lost=is_lost)
            mean = weighted_mean(targets, weights) if self.fit_intercept else np.zeros(n_targets)
            weighted = weights[:, None] * (targets - mean)
            moments = regression.gradient(weighted, weighted.sum(axis=0))
            if not np.isfinite(np.vdot(moments, moments)):
                raise ValueError("The squares of the targets overflow. Scale the targets.")
        with threads_for(regression.size**3 / 6):
            regression.at(float(self.beta))
            ranked = rank_coefficients(regression.solve(moments), moments)
        signs = signs_of(ranked.directions[:, :rank])
        directions = ranked.directions[:, :rank] * signs
        scalings, means = regression.predictor(ranked.projected[:, :rank] * signs)
        coef, intercept = directions @ scalings.T, mean - directions @ means
        self.coef_, self.intercept_, self.scalings_, self.directions_, self._means = (
            in_precision(numbers, X.dtype)
            for numbers in (coef, intercept, scalings, directions, means)
        )
        self.rank_ = rank

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
