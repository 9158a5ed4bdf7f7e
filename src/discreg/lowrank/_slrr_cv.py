"""SLRR with rank and penalty chosen by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from discreg.base.old_search import HeldOut, cv_results
from discreg.linalg.rows import times

from . import SLRRClassifier
from ._indicators import Indicators
from ._search import LowRankSearchCV, score_fold, settings
from ._sparse import largest_beta

__all__ = ["SLRRClassifierCV"]

FRACTIONS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)
MAX_RANKS = 5


class SLRRClassifierCV(LowRankSearchCV):
    """Sparse low-rank regression with rank and `beta` chosen together by cross-validation.

    For each rank the fits go from the largest penalty down, each from the solution before it.

    Parameters
    ----------
    betas : array-like of float, default=None
        Penalties to choose from. None means 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003 and 0.001 times
        that above which no feature is left.
    ranks : array-like of int, default=None
        Ranks to choose from. None means at most five from half the largest rank to the largest,
        the upper part of the paper's range.
    fit_intercept, class_weight, solver, stopping, tol, max_iter
        As for :class:`~discreg.SLRRClassifier`.
    cv : int, splitter or iterable of splits, default=None
        How to hold samples out; None means five folds, stratified.
    scoring : str or callable, default=None
        Any scorer of scikit-learn that judges labels or decision values; None means accuracy. It is
        given the decision values in the place of X, and the sample weights if it takes them.
    n_jobs : int, default=None
        Number of folds fitted at once, as joblib counts.

    Attributes
    ----------
    best_params_ : dict
        The best setting; of equally good ones that with the largest penalty, then with the lowest
        rank.
    best_score_ : float
        Its mean held-out score.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`.
    best_estimator_ : SLRRClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes
        (`classes_`, `coef_`, `selected_features_`, ...) are those of this estimator too.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has names that are all strings.

    See Also
    --------
    SLRRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import SLRRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SLRRClassifierCV().fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['beta', 'rank']
    >>> model.best_score_ > 0.97
    True
    """

    _classifier = SLRRClassifier
    _constraints = LowRankSearchCV._constraints | {
        name: SLRRClassifier._constraints[name]
        for name in ("fit_intercept", "class_weight", "solver", "stopping", "tol", "max_iter")
    }
    kernel = "linear"

    def __init__(
        self,
        *,
        betas: Sequence[float] | None = None,
        ranks: Sequence[int] | None = None,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        solver: str = "alternating",
        stopping: str = "gap",
        tol: float = 1e-4,
        max_iter: int = 500,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.betas = betas
        self.ranks = ranks
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.stopping = stopping
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def _betas(self, classifier: Any, X: Any, y: Any, weights: Any) -> list[float]:
        if self.betas is not None:
            return super()._betas(classifier, X, y, weights)
        prepared = classifier._prepare(X, y, weights)
        largest = largest_beta(classifier._problem(prepared, 1))
        return [fraction * largest for fraction in FRACTIONS] if largest > 0 else [1.0]

    def _default_ranks(self, largest: int) -> list[int]:
        chosen = np.linspace((largest + 1) // 2, largest, MAX_RANKS).round().astype(int)
        return sorted(set(chosen.tolist()))

    def _search(
        self,
        classifier: SLRRClassifier,
        X: Any,
        y: NDArray[Any],
        weights: NDArray[np.float64] | None,
        groups: ArrayLike | None,
        betas: Sequence[float],
        ranks: Sequence[int],
        scorer: Callable[..., float],
    ) -> dict[str, Any]:
        folds = check_cv(5 if self.cv is None else self.cv, y, classifier=True)
        outcomes = Parallel(n_jobs=self.n_jobs)(
            delayed(score_fold)(
                _held_out_path, clone(classifier), X, y, weights, betas, ranks, fold, scorer, number
            )
            for number, fold in enumerate(folds.split(X, y, groups))
        )
        # A fold goes through the penalties of one rank after another.
        shape = (len(outcomes), len(ranks), len(betas))
        scores, seconds, gaps = (
            np.array(part).reshape(shape).transpose(2, 1, 0).reshape(-1, shape[0])
            for part in zip(*outcomes, strict=True)
        )
        self._warn(gaps)
        return cv_results(settings(betas, ranks), scores, seconds)

    def _warn(self, gaps: NDArray[np.float64]) -> None:
        """Say how many of the fits along the grid have stopped early."""
        early = gaps > self.tol
        if early.any() and self.tol > 0 and self.stopping == "gap":
            warnings.warn(
                f"{early.sum()} of {gaps.size} fits on the folds stopped before tol={self.tol:g}, "
                f"the worst at a relative gap of {gaps.max():.2g}. Increase max_iter or tol, leave "
                "out the smallest penalties, or standardise the features.",
                ConvergenceWarning,
                stacklevel=4,
            )


def _held_out_path(
    classifier: SLRRClassifier,
    X: Any,
    y: NDArray[Any],
    sample_weight: NDArray[np.float64] | None,
    X_test: Any,
    betas: Sequence[float],
    ranks: Sequence[int],
) -> Iterator[HeldOut]:
    """Held-out scores along the penalties of one rank after another."""
    prepared = classifier._prepare(X, y, sample_weight)
    largest = classifier._largest_rank(prepared)  # a fold may lack a class
    shift = Indicators.of(prepared).shift
    for rank in ranks:
        solution = None
        for beta in betas:
            classifier.beta = beta
            solution = classifier._fit_prepared(
                prepared, min(rank, largest), solution, to_rounding=False
            )
            coef, means = prepared.regression.predictor(solution.coef @ solution.directions.T)
            scores = times(X_test, coef) + (shift - means)
            yield HeldOut(scores, prepared.classes, solution.gap)
