"""Reduced-rank regression with rank and penalty selected on held-out samples."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.model_selection import GroupKFold

from discreg.base.callbacks import CallbackSupportMixin, Task, with_callbacks
from discreg.base.caller import collected_convergence, warn_of_early_stops
from discreg.base.candidates import candidates_of, group_numbers
from discreg.base.doc_links import DOC_LINK_MODULE, DOC_LINK_TEMPLATE
from discreg.base.folds import N_FOLDS, given_folds, how_held_out
from discreg.base.held_out import Fold, Setting, cv_results
from discreg.base.missing_params import with_missing_params
from discreg.base.search import SEARCH_CONSTRAINTS, adopt_attributes
from discreg.blocks.lazy import lazily
from discreg.blocks.targets import positive_weights, target_rows
from discreg.blocks.validation import check_params, is_out_of_core, require_fitted
from discreg.linalg.types import Array, MatrixLike, RealArray, Scoring, Splitting

from ._reduced_rank import ReducedRankRegression
from ._search import given_ranks
from ._sparse import largest_beta
from ._target_search import WeightedScorer, left_out_predictions, predict_fold
from ._targets import TargetProblem

__all__ = ["ReducedRankRegressionCV"]

POWERS = range(3, -6, -1)
FRACTIONS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)
MAX_RANKS = 5


class ReducedRankRegressionCV(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    MultiOutputMixin,
    RegressorMixin,
    BaseEstimator,
):
    """Reduced-rank regression with rank and `beta` selected on held-out samples.

    With the ridge penalty, the default is exact leave-one-out: the predictions equal those of n
    refits. One eigendecomposition, and one small eigenproblem per sample and penalty, give the
    predictions of all ranks and penalties. A sample of weight k is equivalent to k samples of
    weight 1, one of which is left out.

    Parameters
    ----------
    betas : array-like of float, default=None
        Candidates for `beta`. None means, for ridge, 1e3, 1e2, ..., 1e-5 times the mean over the
        features of their sum of squares about the mean, and for "l21" 0.5, 0.2, 0.1, 0.05, 0.02,
        0.01, 0.003 and 0.001 times the smallest penalty for which all coefficients are zero.
    ranks : array-like of int, default=None
        Candidates for the rank. None means all ranks for ridge, and at most five for "l21".
    penalty, fit_intercept, tol, max_iter
        As for :class:`~discreg.ReducedRankRegression`.
    cv : int, splitter or iterable of splits, default=None
        Cross-validation splitter. None means exact leave-one-out for ridge, and five folds for
        "l21". With `groups` in `fit`, None means five folds of whole groups.
    scoring : str or callable, default=None
        Any scikit-learn scorer, by name or as a callable; None means R². The scorer receives
        predictions in place of X, and sample weights if it accepts them.
    n_jobs : int, default=None
        Number of parallel jobs, as for joblib. One job fits all settings of a fold; leave-one-out
        is one job.
    verbose : int, default=0
        If positive, print a line with the best setting.

    Attributes
    ----------
    best_params_ : dict
        The best setting; ties go to the largest penalty and the smallest rank.
    best_score_ : float
        Mean held-out score of the best setting.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`; with
        leave-one-out there is one score for all samples together. `held_out` says how samples
        were held out.
    best_estimator_ : ReducedRankRegression
        The model with the best setting, fitted on all samples. Its fitted attributes (`coef_`,
        `scalings_`, ...) are also set on this estimator.
    loo_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Predictions of the training samples by the best setting, each from the model without the
        sample. Only set by leave-one-out.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

    See Also
    --------
    ReducedRankRegression : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from discreg import ReducedRankRegressionCV
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> model = ReducedRankRegressionCV(scoring="neg_mean_squared_error").fit(X, Y)
    >>> model.best_params_["rank"], model.loo_predictions_.shape
    (1, (20, 3))
    """

    _doc_link_module = DOC_LINK_MODULE
    _doc_link_template = DOC_LINK_TEMPLATE
    kernel = "linear"
    best_estimator_: ReducedRankRegression

    def __init__(
        self,
        *,
        betas: Sequence[float] | None = None,
        ranks: Sequence[int] | None = None,
        penalty: str = "ridge",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 500,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.betas = betas
        self.ranks = ranks
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Select the best setting on held-out samples and fit it to all samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Sample weights, for the fits and for the held-out scores.
        groups : array-like of shape (n_samples,) or "duplicates", default=None
            Group labels of the samples, such as patients. With ``cv=None`` the samples of a group
            are held out together, in five folds. A `cv` that splits by groups gets them too.
            "duplicates" makes equal rows of X a group.

        Returns
        -------
        self : object
            The fitted model.
        """
        model = self._checked_model()
        if is_out_of_core(X):
            raise ValueError(
                f"{type(self).__name__} holds rows out and needs them in memory. Search on a "
                "sample of the rows and fit ReducedRankRegression to all rows."
            )
        rows, targets, flat = target_rows(self, X, y)
        weights = positive_weights(sample_weight, len(targets))
        if np.count_nonzero(weights) < 2 and weights.sum() <= 1:
            raise ValueError(
                "A search holds samples out and needs at least two of positive weight; there is "
                "only one sample."
            )
        data = rows, targets[:, 0] if flat else targets, weights
        problem = model._problem(rows, targets, weights)
        grid = self._grid(problem)
        scorer = WeightedScorer(self.scoring, weighted=sample_weight is not None)
        numbers = group_numbers(groups, rows, weights)
        early: list[float] = []  # gaps of fits that stopped before `tol`
        self.__dict__.pop("loo_predictions_", None)
        folds: list[Fold | None] = [None]
        task = Task.fit(self, *data[:2], n_subtasks=2)
        started = time.perf_counter()
        if self.cv is None and self.penalty == "ridge" and numbers is None:
            scores, times = self._leave_one_out(problem, grid, scorer, task, *data), None
        else:
            folds = [*self._folds(rows, data[1], weights, numbers)]
            scores, times = self._cross_validate(model, grid, scorer, task, early, folds, *data)
        failed, n_rows = np.zeros(len(grid), dtype=bool), np.full(len(grid), len(targets))
        self.cv_results_ = cv_results(grid, scores, times, failed, n_rows)
        best = int(np.argmax(self.cv_results_["mean_test_score"]))
        self.cv_results_["held_out"] = [how_held_out(folds, self.cv, numbers)] * len(grid)
        self.best_params_, self.best_score_ = grid[best], float(scores[best].mean())
        if self.verbose:
            print(
                f"{len(grid)} settings on {len(targets):,} samples in "
                f"{time.perf_counter() - started:.1f} s, best score {self.best_score_:.4g} with "
                f"{self.best_params_}"
            )
        self.best_estimator_ = model.set_params(**self.best_params_)
        refit = task.begin("refit")
        with collected_convergence() as last:
            self.best_estimator_.fit(*data)
        refit.end()
        warn_of_early_stops(early, scores.size, last)
        adopt_attributes(self)
        task.end()
        return self

    @lazily
    def predict(self, X: MatrixLike) -> RealArray:
        """Predict the targets of samples with the best model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        targets : ndarray of shape (n_samples,) or (n_samples, n_targets)
            In the shape of the y of `fit`.
        """
        require_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    @lazily
    def transform(self, X: MatrixLike) -> RealArray:
        """Project samples onto the directions of the best model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        projected : ndarray of shape (n_samples, `rank_`)
        """
        require_fitted(self)
        return np.asarray(self.best_estimator_.transform(X))

    def _checked_model(self) -> ReducedRankRegression:
        """Check the parameters, and create the model with those that are not searched."""
        model = ReducedRankRegression(
            penalty=self.penalty,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        check_params(self, SEARCH_CONSTRAINTS)
        model._check_params()
        return model

    def _grid(self, problem: TargetProblem) -> list[Setting]:
        """List the settings to try: the largest penalty first, and the smallest rank."""
        ridge, largest = self.penalty == "ridge", problem.largest_rank
        if self.ranks is None:
            steps = largest if ridge else min(largest, MAX_RANKS)
            ranks = np.linspace(1, largest, steps).round().astype(int).tolist()
        else:
            ranks = given_ranks(self.ranks, largest)
        if self.betas is not None:
            allowed = "not negative" if ridge else "positive"
            betas = candidates_of(
                "betas", self.betas, lambda values: (values > 0) | (ridge & (values == 0)), allowed
            )
        elif ridge:
            betas = [10.0**power * (problem.regression.scale or 1.0) for power in POWERS]
        else:
            top = largest_beta(problem.with_rows_penalty(1.0, largest)) or 1.0
            betas = [fraction * top for fraction in FRACTIONS]
        return [{"beta": beta, "rank": rank} for beta in betas for rank in ranks]

    def _leave_one_out(
        self,
        problem: TargetProblem,
        grid: list[Setting],
        scorer: WeightedScorer,
        task: Task,
        X: Any,
        y: Array,
        weights: Array,
    ) -> Array:
        """Score each setting of ridge by leave-one-out, and keep the best predictions."""
        kept, scores = np.flatnonzero(weights), []
        part = task.begin("round 1", len(grid))
        found = left_out_predictions(problem, grid)
        for predicted in part.steps("setting", found, len(grid)):
            predicted = predicted.reshape(y.shape)
            scores.append(scorer(predicted[kept], y[kept], weights[kept]))
            if scores[-1] > max(scores[:-1], default=-np.inf):
                self.loo_predictions_ = predicted.astype(X.dtype)
        part.end()
        return np.array(scores)[:, None]

    def _cross_validate(
        self,
        model: ReducedRankRegression,
        grid: list[Setting],
        scorer: WeightedScorer,
        task: Task,
        early: list[float],
        folds: list[Any],
        X: Any,
        y: Array,
        weights: Array,
    ) -> tuple[Array, Array]:
        """Score each setting on each fold; return scores and seconds, one column per fold."""
        jobs = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(predict_fold)(model, grid, X, y, weights, fold) for fold in folds
        )
        part = task.begin("round 1", len(folds))
        found = part.steps("path of fits", jobs, len(folds))
        scores, seconds = [], []
        for (_, test), of_fold in zip(folds, found, strict=True):
            scores.append([scorer(each, y[test], weights[test]) for each in of_fold.predictions])
            seconds.append(of_fold.seconds)
            early += of_fold.early
        part.end()
        return np.array(scores).T, np.array(seconds).T

    def _folds(self, X: Any, y: Array, weights: Array, groups: Any) -> list[Fold]:
        """Return the training and test rows of each fold."""
        cv = N_FOLDS if self.cv is None else self.cv
        if self.cv is None and groups is not None:
            cv = GroupKFold(min(N_FOLDS, int(groups.max()) + 1))
        folds = given_folds(cv, X, y, groups, classifier=False)
        for number, (train, test) in enumerate(folds):
            if not weights[train].any() or not weights[test].any():
                raise ValueError(
                    f"Fold {number} has no training or no test sample of positive weight."
                )
        return folds

    @property
    def _n_features_out(self) -> int:
        return self.best_estimator_._n_features_out

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(with_missing_params(type(self), state))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
