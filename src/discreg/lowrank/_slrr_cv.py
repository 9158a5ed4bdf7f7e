"""SLRR with rank and penalty selected by cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.candidates import candidates_of
from discreg.base.held_out import HeldOut, Judged, Setting
from discreg.base.rounds import beyond
from discreg.linalg.rows import matmul
from discreg.linalg.sparse_rank import SparseRankSolution
from discreg.linalg.types import Array, ClassWeight, Scoring, Splitting

from ._indicators import Indicators
from ._search import LowRankSearch
from ._slrr import SLRRClassifier
from ._sparse import is_null, largest_beta
from ._subspace import largest_rank

__all__ = ["SLRRClassifierCV"]

FRACTIONS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)
MAX_RANKS = 5


class SLRRClassifierCV(LowRankSearch):
    """Sparse low-rank regression with rank and `beta` selected by cross-validation.

    For each rank, penalties are fitted in decreasing order, each fit starting from the previous
    solution.

    Parameters
    ----------
    betas : array-like of float, default=None
        Candidates for `beta`. None means 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003 and 0.001 times the
        smallest penalty for which all coefficients are zero. If the best of the default values is
        the smallest, up to three smaller values are tried, each after the first only if the one
        before increased the score by more than 0.1 %; see ``cv_results_["beyond_grid"]``. All
        candidates from `beta_max_` on give the same model, whose coefficients are zero and which
        predicts the largest class. They are scored without a fit and marked in
        ``cv_results_["is_null"]``.
    ranks : array-like of int, default=None
        Candidates for the rank. None means at most five ranks between half the largest rank and
        the largest rank, the upper part of the paper's range.
    fit_intercept, class_weight, probability, solver, stopping, tol, max_iter
        As for :class:`~discreg.SLRRClassifier`.
    cv : int, splitter or iterable of splits, default=None
        Cross-validation splitter; None means five stratified folds.
        With None and more than 900 samples, all settings are tried on a part of the samples and
        the best ones on more, see ``cv_results_["n_samples"]``.
    scoring : str or callable, default=None
        Any scikit-learn scorer, by name or as a callable, or "g_mean", the geometric mean of the
        recalls; None means accuracy. The scorer receives decision values in place of X, and sample
        weights if it accepts them.
    n_jobs : int, default=None
        Number of parallel jobs, as for joblib. One job fits all settings of a fold.
    verbose : int, default=0
        If positive, print one line per round, with the best setting so far.

    Attributes
    ----------
    best_params_ : dict
        The best setting; ties go to the smallest log-loss.
    best_score_ : float
        Mean held-out score of the best setting.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`.
        `is_null` says which settings have no coefficients on all samples.
    beta_max_ : float
        The smallest `beta` at which all coefficients are zero on all samples, see
        :func:`~discreg.beta_max`.
    best_estimator_ : SLRRClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes
        (`classes_`, `coef_`, `selected_features_`, ...) are also set on this estimator.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

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
        class_weight: ClassWeight = None,
        probability: bool = True,
        solver: str = "alternating",
        stopping: str = "gap",
        tol: float = 1e-4,
        max_iter: int = 500,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.betas = betas
        self.ranks = ranks
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.solver = solver
        self.stopping = stopping
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _penalties(
        self, classifier: Any, X: Any, y: NDArray[Any], weights: Array | None
    ) -> list[Setting]:
        ranks = self._rank_candidates(X, y)
        prepared = classifier._prepare(X, y, weights)
        largest = self.beta_max_ = largest_beta(classifier._problem(prepared, 1, 0.0))
        if self.betas is not None:
            betas = candidates_of("betas", self.betas, lambda values: values >= 0, "not negative")
        else:
            betas = [fraction * largest for fraction in FRACTIONS] if largest > 0 else [1.0]
        return [{"beta": beta, "rank": rank} for beta in betas for rank in ranks]

    @staticmethod
    def _beyond(tried: Sequence[Setting], best: Setting, names: Sequence[str]) -> list[Setting]:
        """Continue to smaller penalties only: larger ones make all coefficients zero."""
        return [each for each in beyond(tried, best, names) if each["beta"] < best["beta"]]

    def _results(
        self, grid: list[Setting], judged: list[list[Judged]], n_given: int, *, per_fold: bool
    ) -> dict[str, Any]:
        results = super()._results(grid, judged, n_given, per_fold=per_fold)
        betas = np.array([setting["beta"] for setting in grid])
        results["is_null"] = is_null(betas, self.beta_max_)
        return results

    def _for_share(self, penalty: Setting, share: float) -> Setting:
        return penalty | {"beta": np.sqrt(share) * penalty["beta"]}

    def _default_ranks(self, largest: int) -> list[int]:
        chosen = np.linspace((largest + 1) // 2, largest, MAX_RANKS).round().astype(int)
        return sorted(set(chosen.tolist()))

    @staticmethod
    def _held_out(
        classifier: SLRRClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: Array | None,
        X_test: Any,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        """Yield held-out scores; fits start from the solution of the next larger penalty."""
        prepared = classifier._prepare(X, y, sample_weight)
        largest = largest_rank(prepared)  # a fold may lack a class
        indicators = Indicators.of(prepared)
        latest: dict[int, SparseRankSolution] = {}
        for setting in penalties:
            rank = setting["rank"]
            problem = classifier._problem(prepared, min(rank, largest), setting["beta"])
            solution = classifier._solve(problem, prepared, latest.get(rank), tol=classifier.tol)
            latest[rank] = solution
            coef, means = prepared.regression.predictor(solution.coef @ solution.directions.T)
            scores = indicators.scale * (matmul(X_test, coef) - means) + indicators.offset(coef)
            yield HeldOut(scores, prepared.classes, solution.gap, classifier._converged(solution))
