"""SLRR with rank and penalty chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.candidates import candidates_of
from discreg.base.held_out import HeldOut, Setting
from discreg.linalg.rows import matmul
from discreg.linalg.sparse_rank import SparseRankSolution

from ._indicators import Indicators
from ._search import LowRankSearch
from ._slrr import SLRRClassifier
from ._sparse import largest_beta
from ._subspace import largest_rank

__all__ = ["SLRRClassifierCV"]

FRACTIONS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)
MAX_RANKS = 5


class SLRRClassifierCV(LowRankSearch):
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
        Any scorer of scikit-learn that judges labels or decision values, or "g_mean"; None means
        accuracy. It is given the decision values in the place of X, and the sample weights if it
        takes them.
    n_jobs : int, default=None
        Number of folds fitted at once, as joblib counts.
    verbose : int, default=0
        Whether to print a line per fold.

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
        verbose: int = 0,
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
        self.verbose = verbose

    def _penalties(
        self, classifier: Any, X: Any, y: NDArray[Any], weights: NDArray[np.float64] | None
    ) -> list[Setting]:
        ranks = self._rank_candidates(X, y)
        if self.betas is not None:
            betas = candidates_of("betas", self.betas, lambda values: values >= 0, "not negative")
        else:
            prepared = classifier._prepare(X, y, weights)
            largest = largest_beta(classifier._problem(prepared, 1, 0.0))
            betas = [fraction * largest for fraction in FRACTIONS] if largest > 0 else [1.0]
        return [{"beta": beta, "rank": rank} for beta in betas for rank in ranks]

    def _default_ranks(self, largest: int) -> list[int]:
        chosen = np.linspace((largest + 1) // 2, largest, MAX_RANKS).round().astype(int)
        return sorted(set(chosen.tolist()))

    @staticmethod
    def _held_out(
        classifier: SLRRClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: NDArray[np.float64] | None,
        X_test: Any,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        """Held-out scores; the fits of a rank start from that with the next larger penalty."""
        prepared = classifier._prepare(X, y, sample_weight)
        largest = largest_rank(prepared)  # a fold may lack a class
        shift = Indicators.of(prepared).shift
        latest: dict[int, SparseRankSolution] = {}
        for setting in penalties:
            rank = setting["rank"]
            problem = classifier._problem(prepared, min(rank, largest), setting["beta"])
            solution = classifier._solve(problem, prepared, latest.get(rank), to_rounding=False)
            latest[rank] = solution
            coef, means = prepared.regression.predictor(solution.coef @ solution.directions.T)
            scores = matmul(X_test, coef) + (shift - means)
            yield HeldOut(scores, prepared.classes, solution.gap, classifier._converged(solution))
