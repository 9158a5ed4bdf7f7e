"""LRLR with the rank chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.held_out import Setting

from ._lrlr import LRLRClassifier
from ._search import LowRankSearch, held_out_by_rank

__all__ = ["LRLRClassifierCV"]


class LRLRClassifierCV(LowRankSearch):
    """Low-rank linear regression with the rank chosen by cross-validation.

    All ranks of a fold come from one solve.

    Parameters
    ----------
    ranks : array-like of int, default=None
        Ranks to choose from; None means all.
    fit_intercept, class_weight, kernel
        As for :class:`~discreg.LRLRClassifier`.
    gammas : array-like of float or str, default=None
        Widths of the kernel to choose from: numbers, "scale" or "auto". None means 0.1, 0.3, 1, 3
        and 10 times "scale" for "rbf" and "scale" for the other kernels that have a width.
    degrees : array-like of float, default=(3,)
        Degrees of a polynomial kernel to choose from.
    coef0 : float, default=1
        Constant term of the kernels "poly" and "sigmoid".
    kernel_params : dict, default=None
        Further arguments of a callable kernel.
    cv : int, splitter or iterable of splits, default=None
        How to hold samples out; None means five folds, stratified.
    scoring : str or callable, default=None
        Any scorer of scikit-learn that judges labels or decision values, or "g_mean"; None means
        accuracy. It is given the decision values in the place of X, and the sample weights if it
        takes them.
    n_jobs : int, default=None
        Number of folds fitted at once, as joblib counts.
    verbose : int, default=0
        Whether to print a line per fold and kernel.

    Attributes
    ----------
    best_params_ : dict
        The best setting; of equally good ones that with the lowest rank.
    best_score_ : float
        Its mean held-out score.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`.
    best_estimator_ : LRLRClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes
        (`classes_`, `coef_`, `scalings_`, ...) are those of this estimator too.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has names that are all strings.

    See Also
    --------
    LRLRClassifier : The model.
    LRRRClassifierCV : With a penalty, for many features or few samples.

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
    _held_out = staticmethod(held_out_by_rank)

    def __init__(
        self,
        *,
        ranks: Sequence[int] | None = None,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        kernel: str | Callable[..., float] = "linear",
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] = (3,),
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.ranks = ranks
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.kernel = kernel
        self.gammas = gammas
        self.degrees = degrees
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _penalties(
        self, classifier: Any, X: Any, y: NDArray[Any], weights: NDArray[np.float64] | None
    ) -> list[Setting]:
        return [{"rank": rank} for rank in self._rank_candidates(X, y)]
