"""Reduced-rank regression with rank and penalty selected on held-out samples."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, Self

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
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupKFold

from discreg.base.caller import CallbackSupportMixin, Task, warn_of_equal_weights, with_callbacks
from discreg.base.classifier import DOC_LINK_MODULE, DOC_LINK_TEMPLATE
from discreg.base.held_out import BY_ROW, N_FOLDS, Fold, how_held_out
from discreg.base.search import (
    SEARCH_CONSTRAINTS,
    adopt_attributes,
    candidates_of,
    given_folds,
    group_numbers,
)
from discreg.base.trials import Setting, cv_results
from discreg.base.validation import (
    check_params,
    lazily,
    require_fitted,
    target_rows,
)
from discreg.blocks.opening import positive_weights
from discreg.blocks.source import is_out_of_core
from discreg.linalg.rows import matmul
from discreg.linalg.types import Array, MatrixLike, RealArray, Scoring, Splitting

from ._low_rank_search import given_ranks
from ._reduced_rank import ReducedRankRegression, TargetProblem, leave_one_out_of_targets
from ._ridge import scores_by_rank

POWERS = range(3, -6, -1)  # of ten, the default penalties


class PredictedTargets(RegressorMixin, BaseEstimator):
    """Regressor that takes predictions as its input, so that any scorer can be applied."""

    def fit(self, X: Any, y: Any) -> Self:
        """Do nothing."""
        return self

    def predict(self, X: Any) -> Any:
        """Return the predictions."""
        return X


class WeightedScorer:
    """Scorer of predictions, with sample weights if they are given and the scorer accepts them."""

    def __init__(self, scoring: Scoring, *, weighted: bool) -> None:
        self.scoring, self.weighted = scoring, weighted
        self.judge = PredictedTargets()
        self.scorer: Any = check_scoring(self.judge, scoring=scoring)

    def __call__(self, predicted: Array, y: Array, weights: Array) -> float:
        if self.weighted:
            try:
                return float(self.scorer(self.judge, predicted, y, sample_weight=weights))
            except TypeError as error:
                if "sample_weight" not in str(error):
                    raise
            warn_of_equal_weights(self.scoring)
            self.weighted = False
        return float(self.scorer(self.judge, predicted, y))


def left_out_predictions(problem: TargetProblem, grid: Sequence[Setting]) -> Iterator[Array]:
    """Yield the leave-one-out predictions of each setting of ridge."""
    betas = list(dict.fromkeys(setting["beta"] for setting in grid))
    ranks = list(dict.fromkeys(setting["rank"] for setting in grid))
    for by_rank in leave_one_out_of_targets(problem, betas, ranks):
        yield from by_rank


class FoldPredictions(NamedTuple):
    """Predictions of the test rows of a fold and seconds of each setting."""

    predictions: list[Array]
    seconds: list[float]


def predict_fold(
    grid: Sequence[Setting], X: Any, y: Array, weights: Array, fold: Fold, *, centre: bool
) -> FoldPredictions:
    """Fit each setting to the training rows of a fold and predict its test rows.

    One solve per penalty gives all ranks.
    """
    train, test = fold
    found, targets = FoldPredictions([], []), y[train].reshape(len(train), -1)
    started = time.perf_counter()
    problem = TargetProblem.of_rows(X[train], targets, weights[train], centre=centre)
    for beta, settings in groupby(grid, key=itemgetter("beta")):
        ranked = problem.ranked(beta)
        scalings, means = problem.regression.predictor(ranked.projected)
        along = matmul(X[test], scalings) - means
        by_rank = list(scores_by_rank(along, ranked.directions, problem.mean))
        for setting in settings:
            found.predictions.append(by_rank[setting["rank"] - 1].reshape(y[test].shape))
            found.seconds.append(time.perf_counter() - started)
            started = time.perf_counter()
    return found


class ReducedRankRegressionCV(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    MultiOutputMixin,
    RegressorMixin,
    BaseEstimator,
):
    """Reduced-rank regression with rank and `beta` selected on held-out samples.

    The default is exact leave-one-out: the predictions equal those of n refits. One
    eigendecomposition, and one small eigenproblem per sample and penalty, give the predictions of
    all ranks and penalties. A sample is left out with all of its weight, and together with those
    that are equal to it, so that weights are equivalent to repeating rows.

    Parameters
    ----------
    betas : array-like of float, default=None
        Candidates for `beta`. None means 1e3, 1e2, ..., 1e-5 times the mean over the features of
        their sum of squares about the mean.
    ranks : array-like of int, default=None
        Candidates for the rank. None means all ranks.
    fit_intercept
        As for :class:`~discreg.ReducedRankRegression`.
    cv : int, splitter or iterable of splits, default=None
        Cross-validation splitter. None means exact leave-one-out, and with `groups` in `fit` five
        folds of whole groups.
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
        fit_intercept: bool = True,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.betas = betas
        self.ranks = ranks
        self.fit_intercept = fit_intercept
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
        if np.count_nonzero(weights) < 2:
            raise ValueError(
                "A search holds samples out and needs at least two of positive weight; there is "
                "only one sample."
            )
        data = rows, targets[:, 0] if flat else targets, weights
        problem = TargetProblem.of_rows(rows, targets, weights, centre=self.fit_intercept)
        grid = self._grid(problem)
        scorer = WeightedScorer(self.scoring, weighted=sample_weight is not None)
        numbers = group_numbers(groups, rows, weights)
        self.__dict__.pop("loo_predictions_", None)
        by = BY_ROW
        task = Task.fit(self, *data[:2], n_subtasks=2)
        started = time.perf_counter()
        if self.cv is None and numbers is None:
            scores, times = self._leave_one_out(problem, grid, scorer, task, *data), None
        else:
            folds = self._folds(rows, data[1], weights, numbers)
            by = how_held_out(folds, numbers) if self.cv is None else f"{len(folds)} folds"
            scores, times = self._cross_validate(grid, scorer, task, folds, *data)
        failed, n_rows = np.zeros(len(grid), dtype=bool), np.full(len(grid), len(targets))
        self.cv_results_ = cv_results(grid, scores, times, failed, n_rows)
        best = int(np.argmax(self.cv_results_["mean_test_score"]))
        self.cv_results_["held_out"] = [by] * len(grid)
        self.best_params_, self.best_score_ = grid[best], float(scores[best].mean())
        if self.verbose:
            print(
                f"{len(grid)} settings on {len(targets):,} samples in "
                f"{time.perf_counter() - started:.1f} s, best score {self.best_score_:.4g} with "
                f"{self.best_params_}"
            )
        self.best_estimator_ = model.set_params(**self.best_params_)
        refit = task.begin("refit")
        self.best_estimator_.fit(*data)
        refit.end()
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
        model = ReducedRankRegression(fit_intercept=self.fit_intercept)
        check_params(self, SEARCH_CONSTRAINTS)
        check_params(model, model._constraints)
        return model

    def _grid(self, problem: TargetProblem) -> list[Setting]:
        """List the settings to try: the largest penalty first, and the smallest rank."""
        largest = problem.largest_rank
        ranks = list(range(1, largest + 1))
        if self.ranks is not None:
            ranks = given_ranks(self.ranks, largest)
        if self.betas is None:
            betas = [10.0**power * (problem.regression.scale or 1.0) for power in POWERS]
        else:
            betas = candidates_of("betas", self.betas, lambda values: values >= 0, "not negative")
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
        """Score each setting by leave-one-out, and keep the best predictions."""
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
        grid: list[Setting],
        scorer: WeightedScorer,
        task: Task,
        folds: list[Any],
        X: Any,
        y: Array,
        weights: Array,
    ) -> tuple[Array, Array]:
        """Score each setting on each fold; return scores and seconds, one column per fold."""
        jobs = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(predict_fold)(grid, X, y, weights, fold, centre=self.fit_intercept)
            for fold in folds
        )
        part = task.begin("round 1", len(folds))
        found = part.steps("path of fits", jobs, len(folds))
        scores, seconds = [], []
        for (_, test), of_fold in zip(folds, found, strict=True):
            scores.append([scorer(each, y[test], weights[test]) for each in of_fold.predictions])
            seconds.append(of_fold.seconds)
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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
