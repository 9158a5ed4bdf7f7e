"""LRRR with rank and penalty chosen by exact leave-one-out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import gen_batches

from discreg.base.old_search import (
    HeldOut,
    HeldOutScores,
    cv_results,
    warn_of_groups,
    weighted_score,
)
from discreg.linalg.rows import times

from . import LRRRClassifier
from ._indicators import Indicators
from ._leave_one_out import leave_one_out_by_rank
from ._path import scores_by_rank
from ._ridge import ranked_ridge
from ._search import LowRankSearchCV, score_fold, settings

__all__ = ["LRRRClassifierCV"]

MOST_ENTRIES = 20_000_000  # of coefficients that are held at a time
BETAS = tuple(10.0**power for power in range(5, -6, -1))


class LRRRClassifierCV(LowRankSearchCV):
    r"""Low-rank ridge regression with rank and `beta` chosen together, by exact leave-one-out.

    The scores of all samples, each by the models that have not seen it, come for all ranks and all
    penalties from one eigendecomposition and a small eigenproblem a sample and penalty, and equal
    those of n refits. A sample of weight k counts as k copies, one of which is left out. Class
    weights and a kernel's `gamma` are those of all samples.

    Parameters
    ----------
    betas : array-like of float, default=(1e5, 1e4, ..., 1e-5)
        Penalties to choose from.
    ranks : array-like of int, default=None
        Ranks to choose from; None means all.
    fit_intercept, class_weight, kernel, gamma, degree, coef0, kernel_params
        As for :class:`~discreg.LRRRClassifier`.
    cv : int, splitter or iterable of splits, default=None
        How to hold samples out; None means exact leave-one-out, for which the betas must be
        positive and every class needs two samples; a beta so small that a sample would decide its
        own score is left out of the choice, with a warning. With folds, all ranks of a penalty come
        from one solve too.
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
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`; with
        leave-one-out there is one score for all samples together.
    best_estimator_ : LRRRClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes
        (`classes_`, `coef_`, `scalings_`, ...) are those of this estimator too.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has names that are all strings.

    See Also
    --------
    LRRRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from discreg import LRRRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LRRRClassifierCV().fit(X, y)
    >>> sorted(model.best_params_)
    ['beta', 'rank']
    >>> model.best_score_ > 0.97
    True
    """

    _classifier = LRRRClassifier
    _constraints = LowRankSearchCV._constraints | {
        name: constraint
        for name, constraint in LRRRClassifier._constraints.items()
        if name not in ("rank", "beta")
    }

    def __init__(
        self,
        *,
        betas: Sequence[float] = BETAS,
        ranks: Sequence[int] | None = None,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        kernel: str | Callable[..., float] = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.betas = betas
        self.ranks = ranks
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def _search(
        self,
        classifier: LRRRClassifier,
        X: Any,
        y: NDArray[Any],
        weights: NDArray[np.float64] | None,
        groups: ArrayLike | None,
        betas: Sequence[float],
        ranks: Sequence[int],
        scorer: Callable[..., float],
    ) -> dict[str, Any]:
        if self.cv is None:
            warn_of_groups(groups)
            together = np.array(_leave_one_out(classifier, X, y, weights, betas, ranks, scorer))
            failed = np.isnan(together)
            if failed.any():
                self._warn(np.array(betas).repeat(len(ranks))[failed], all_failed=failed.all())
            return cv_results(settings(betas, ranks), together[:, None], failed=failed)
        folds = check_cv(self.cv, y, classifier=True)
        outcomes = Parallel(n_jobs=self.n_jobs)(
            delayed(score_fold)(
                _held_out_path, clone(classifier), X, y, weights, betas, ranks, fold, scorer, number
            )
            for number, fold in enumerate(folds.split(X, y, groups))
        )
        scores, seconds, _ = (np.array(part).T for part in zip(*outcomes, strict=True))
        return cv_results(settings(betas, ranks), scores, seconds)

    def _warn(self, betas: NDArray[np.float64], *, all_failed: bool) -> None:
        """Say which penalties leave-one-out cannot judge."""
        message = (
            f"Leave-one-out is not defined for betas up to {betas.max():g}: they are so small that "
            "a sample decides its own score alone."
        )
        if all_failed:
            raise ValueError(f"{message} Use larger betas, or cv=5.")
        warnings.warn(f"{message} They are left out of the choice.", UserWarning, stacklevel=4)


def _leave_one_out(
    classifier: LRRRClassifier,
    X: Any,
    y: NDArray[Any],
    weights: NDArray[np.float64] | None,
    betas: Sequence[float],
    ranks: Sequence[int],
    scorer: Callable[..., float],
) -> list[float]:
    """Scores of all settings, each of all samples together."""
    if min(betas) == 0:
        raise ValueError(
            "Leave-one-out needs positive betas: without a penalty a sample may decide its own "
            "score alone. Leave 0 out of betas, or set cv=5."
        )
    prepared = classifier._prepare(X, y, weights)
    copies = np.ones(len(y)) if weights is None else np.maximum(weights, 1.0)
    judge = HeldOutScores(prepared.classes)
    by_beta = leave_one_out_by_rank(prepared, 1.0 / copies, betas, ranks)
    return [
        weighted_score(scorer, judge, scores, y, weights) if np.isfinite(scores).all() else np.nan
        for by_rank in by_beta
        for scores in by_rank
    ]


def _held_out_path(
    classifier: LRRRClassifier,
    X: Any,
    y: NDArray[Any],
    sample_weight: NDArray[np.float64] | None,
    X_test: Any,
    betas: Sequence[float],
    ranks: Sequence[int],
) -> Iterator[HeldOut]:
    """Held-out scores for one setting after another; all ranks of a penalty from one solve.

    The test samples are projected for many penalties at a time.
    """
    prepared = classifier._prepare(X, y, sample_weight)
    largest = classifier._largest_rank(prepared)  # a fold may lack a class
    indicators = Indicators.of(prepared)
    cross = X_test
    if prepared.kernel is not None and prepared.kernel.kernel != "precomputed":
        cross = prepared.kernel(X_test, prepared.X)
    at_once = max(1, MOST_ENTRIES // (prepared.X.shape[1] * largest))
    for batch in gen_batches(len(betas), at_once):
        fits = [ranked_ridge(prepared, indicators, beta) for beta in betas[batch]]
        projected = np.hstack([fit.projected[:, :largest] for fit in fits])
        scalings, means = prepared.regression.predictor(projected)
        columns = np.hsplit(times(cross, scalings) - means, len(fits))
        for fit, part in zip(fits, columns, strict=True):
            by_rank = list(scores_by_rank(part, fit.directions[:, :largest], indicators.shift))
            for rank in ranks:
                yield HeldOut(by_rank[min(rank, largest) - 1], prepared.classes)
