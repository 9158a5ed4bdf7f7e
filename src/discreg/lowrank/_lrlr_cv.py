"""LRLR with the rank selected by exact leave-one-out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.held_out import Setting
from discreg.linalg.types import Array, ClassWeight, KernelParams, Scoring, Splitting

from ._lrlr import LRLRClassifier
from ._search import LowRankSearch, held_out_by_rank, leave_groups_out, leave_one_out

__all__ = ["LRLRClassifierCV"]


class LRLRClassifierCV(LowRankSearch):
    """Low-rank linear regression with the rank selected by exact leave-one-out.

    The leave-one-out scores equal those of n refits. One solve, and one small eigenproblem per
    sample, give the scores of all ranks. A sample of weight k is equivalent to k samples of weight
    1, one of which is left out. Class weights and the kernel's `gamma` are computed once, from all
    samples.

    Parameters
    ----------
    ranks : array-like of int, default=None
        Candidates for the rank; None means all ranks.
    fit_intercept, class_weight, probability, kernel
        As for :class:`~discreg.LRLRClassifier`.
    gammas : array-like of float or str, default=None
        Candidates for `gamma`: numbers, "scale" or "auto". None means 0.1, 0.3, 1, 3 and 10 times
        "scale" for "rbf", and "scale" for the other kernels that have this parameter. If the best
        of the default values is at an edge, up to three values beyond it are tried, each after the
        first only if the one before increased the score by more than 0.1 %; see
        ``cv_results_["beyond_grid"]``.
    degrees : array-like of float, default=(3,)
        Candidates for the degree of the kernel "poly".
    coef0 : float, default=1
        Constant term of the kernels "poly" and "sigmoid".
    kernel_params : dict, default=None
        Additional keyword arguments for a callable kernel; refused with other kernels.
    n_components, approximation, random_state
        As for :class:`~discreg.LRLRClassifier`; "auto" refers to the rows of all folds together.
    cv : int, splitter or iterable of splits, default=None
        Cross-validation splitter; None means exact leave-one-out. Scorers other than those
        of labels, the log-loss and the Brier score, such as AUC or a callable, use five stratified
        folds. With None and more than 900 samples, all settings are tried on a part of the samples
        and the best ones on more, see ``cv_results_["n_samples"]``.
    scoring : str or callable, default=None
        Any scikit-learn scorer, by name or as a callable, or "g_mean", the geometric mean of the
        recalls; None means accuracy. The scorer receives decision values in place of X, and sample
        weights if it accepts them.
    n_jobs : int, default=None
        Number of parallel jobs, as for joblib. One job fits all settings of a fold that have the
        same kernel parameters; leave-one-out counts as one fold.
    verbose : int, default=0
        If positive, print one line per round, with the best setting so far.

    Attributes
    ----------
    best_params_ : dict
        The best setting; ties go to the smallest log-loss.
    best_score_ : float
        Mean held-out score of the best setting.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`; with
        leave-one-out there is one score for all samples together.
    best_estimator_ : LRLRClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes
        (`classes_`, `coef_`, `scalings_`, ...) are also set on this estimator.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

    See Also
    --------
    LRLRClassifier : The model.
    LRRRClassifierCV : The same search with a penalty, for many features or few samples.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from discreg import LRLRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LRLRClassifierCV().fit(X, y)
    >>> model.best_params_
    {'rank': 2}
    >>> model.transform(X).shape
    (178, 2)
    """

    _classifier = LRLRClassifier
    _has_leave_one_out = _has_leave_group_out = True
    _held_out = staticmethod(held_out_by_rank)
    _leave_one_out = staticmethod(leave_one_out)
    _leave_groups_out = staticmethod(leave_groups_out)

    def __init__(
        self,
        *,
        ranks: Sequence[int] | None = None,
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        probability: bool = True,
        kernel: str | Callable[..., float] = "linear",
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] = (3,),
        coef0: float = 1,
        kernel_params: KernelParams = None,
        n_components: int | str | None = "auto",
        approximation: str = "nystroem",
        random_state: int | np.random.RandomState | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.ranks = ranks
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.kernel = kernel
        self.gammas = gammas
        self.degrees = degrees
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.approximation = approximation
        self.random_state = random_state
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _penalties(
        self, classifier: Any, X: Any, y: NDArray[Any], weights: Array | None
    ) -> list[Setting]:
        return [{"rank": rank} for rank in self._rank_candidates(X, y)]
