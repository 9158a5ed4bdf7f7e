"""Reduced-rank regression with rank and penalty selected on held-out samples."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
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
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from discreg.base.caller import collected_convergence, user_stacklevel, warn_of_convergence
from discreg.base.candidates import candidates_of
from discreg.base.doc_links import DOC_LINK_MODULE, DOC_LINK_TEMPLATE
from discreg.base.held_out import Fold, Setting, cv_results
from discreg.base.missing_params import with_missing_params
from discreg.base.search import SEARCH_CONSTRAINTS
from discreg.blocks.lazy import lazily
from discreg.blocks.targets import positive_weights, target_rows
from discreg.blocks.validation import check_params, is_out_of_core, require_fitted
from discreg.linalg.rows import matmul
from discreg.linalg.sparse_rank import SparseRankSolution
from discreg.linalg.types import Array, MatrixLike, RealArray, Scoring, Splitting

from ._ranks import scores_by_rank
from ._reduced_rank import ReducedRankRegression
from ._sparse import largest_beta
from ._targets import TargetProblem, leave_one_out_of_targets

__all__ = ["ReducedRankRegressionCV"]

POWERS = range(3, -6, -1)
FRACTIONS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)
MAX_RANKS = 5
N_FOLDS = 5


class ReducedRankRegressionCV(
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
        "l21".
    scoring : str or callable, default=None
        Any scikit-learn scorer, by name or as a callable; None means R². The scorer receives
        predictions in place of X, and sample weights if it accepts them.

    Attributes
    ----------
    best_params_ : dict
        The best setting; ties go to the largest penalty and the smallest rank.
    best_score_ : float
        Mean held-out score of the best setting.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`; with
        leave-one-out there is one score for all samples together.
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
    ) -> None:
        self.betas = betas
        self.ranks = ranks
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.scoring = scoring

    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Select the best setting on held-out samples and fit it to all samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Sample weights, for the fits and for the held-out scores.

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
        early: list[float] = []  # gaps of fits that stopped before `tol`
        self.__dict__.pop("loo_predictions_", None)
        if self.cv is None and self.penalty == "ridge":
            scores, times = self._leave_one_out(problem, grid, scorer, *data), None
        else:
            scores, times = self._cross_validate(model, grid, scorer, early, *data)
        failed, n_rows = np.zeros(len(grid), dtype=bool), np.full(len(grid), len(targets))
        self.cv_results_ = cv_results(grid, scores, times, failed, n_rows)
        best = int(np.argmax(self.cv_results_["mean_test_score"]))
        self.best_params_, self.best_score_ = grid[best], float(scores[best].mean())
        self.best_estimator_ = model.set_params(**self.best_params_)
        with collected_convergence() as last:
            self.best_estimator_.fit(*data)
        if early or last:
            worst = f", the worst at a gap of {max(early):.2g}" if early else ""
            final = f" So did the final fit: {last[0]}" if last else ""
            warn_of_convergence(
                f"{len(early)} of {scores.size} fits on held-out samples stopped before tol was "
                f"reached{worst}. Increase max_iter or tol, leave out the weakest penalties, or "
                f"scale the features.{final}"
            )
        self.__dict__.update({k: v for k, v in vars(model).items() if k.endswith("_")})
        if hasattr(self, "feature_names_in_"):  # the best estimator was fitted to a plain array
            self.best_estimator_.feature_names_in_ = self.feature_names_in_
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
        check_params(self, {"scoring": SEARCH_CONSTRAINTS["scoring"]})
        model._check_params()
        return model

    def _grid(self, problem: TargetProblem) -> list[Setting]:
        """List the settings to try: the largest penalty first, and the smallest rank."""
        ridge, largest = self.penalty == "ridge", problem.largest_rank
        if self.ranks is None:
            steps = largest if ridge else min(largest, MAX_RANKS)
            ranks = np.linspace(1, largest, steps).round().astype(int).tolist()
        else:
            given = candidates_of(
                "ranks",
                self.ranks,
                lambda values: (values >= 1) & (values <= largest) & (values == np.round(values)),
                f"whole and from 1 to {largest}, the largest rank of these data",
            )
            ranks = [int(rank) for rank in given[::-1]]
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
        X: Any,
        y: Array,
        weights: Array,
    ) -> Array:
        """Score each setting of ridge by leave-one-out, and keep the best predictions."""
        kept, scores = np.flatnonzero(weights), []
        for predicted in _left_out_predictions(problem, grid):
            predicted = predicted.reshape(y.shape)
            scores.append(scorer(predicted[kept], y[kept], weights[kept]))
            if scores[-1] > max(scores[:-1], default=-np.inf):
                self.loo_predictions_ = predicted.astype(X.dtype)
        return np.array(scores)[:, None]

    def _cross_validate(
        self,
        model: ReducedRankRegression,
        grid: list[Setting],
        scorer: WeightedScorer,
        early: list[float],
        X: Any,
        y: Array,
        weights: Array,
    ) -> tuple[Array, Array]:
        """Score each setting on each fold; return scores and seconds, one column per fold."""
        scores, seconds = [], []
        for train, test in self._folds(X, y, weights):
            targets = y[train].reshape(len(train), -1)
            problem = model._problem(X[train], targets, weights[train])
            started = time.perf_counter()
            for predicted in _held_out_predictions(model, problem, X[test], grid, early):
                seconds.append(time.perf_counter() - started)
                predicted = predicted.reshape(y[test].shape)
                scores.append(scorer(predicted, y[test], weights[test]))
                started = time.perf_counter()
        shape = -1, len(grid)
        return np.array(scores).reshape(shape).T, np.array(seconds).reshape(shape).T

    def _folds(self, X: Any, y: Array, weights: Array) -> Iterator[Fold]:
        """Yield the training and test rows of each fold."""
        places = np.arange(len(y))
        splitter = check_cv(N_FOLDS if self.cv is None else self.cv)
        for number, (train, test) in enumerate(splitter.split(X, y)):
            train, test = places[train], places[test]
            if not weights[train].any() or not weights[test].any():
                raise ValueError(
                    f"Fold {number} has no training or no test sample of positive weight."
                )
            yield train, test

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
            warnings.warn(
                f"The scorer {self.scoring!r} does not accept sample_weight: its score weighs all "
                "held-out samples equally.",
                UserWarning,
                stacklevel=user_stacklevel(),
            )
            self.weighted = False
        return float(self.scorer(self.judge, predicted, y))


def _left_out_predictions(problem: TargetProblem, grid: Sequence[Setting]) -> Iterator[Array]:
    """Yield the leave-one-out predictions of each setting of ridge."""
    betas = list(dict.fromkeys(setting["beta"] for setting in grid))
    ranks = list(dict.fromkeys(setting["rank"] for setting in grid))
    for by_rank in leave_one_out_of_targets(problem, betas, ranks):
        yield from by_rank


def _held_out_predictions(
    model: ReducedRankRegression,
    problem: TargetProblem,
    X: Any,
    grid: Sequence[Setting],
    early: list[float],
) -> Iterator[Array]:
    """Yield the predictions of test rows by each setting.

    With ridge, one solve per penalty gives all ranks. With "l21", the fits of a rank start from the
    solution of the next larger penalty; the gaps of fits that stop early are added to `early`.
    """
    latest: dict[int, SparseRankSolution] = {}
    by_rank: list[Array] = []
    for number, setting in enumerate(grid):
        beta, rank = setting["beta"], setting["rank"]
        if model.penalty == "ridge":
            if number == 0 or beta != grid[number - 1]["beta"]:
                ranked = problem.ranked(beta)
                scalings, means = problem.regression.predictor(ranked.projected)
                along = matmul(X, scalings) - means
                by_rank = list(scores_by_rank(along, ranked.directions, problem.mean))
            yield by_rank[rank - 1]
        else:
            solution = model._solve(problem.with_rows_penalty(beta, rank), latest.get(rank))
            if not model._has_converged(solution):
                early.append(solution.gap)
            latest[rank] = solution
            coef, means = problem.regression.predictor(solution.coef @ solution.directions.T)
            yield matmul(X, coef) + (problem.mean - means)
