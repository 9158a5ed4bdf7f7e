"""LSR with its penalty chosen by exact leave-one-out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreg.base.old_search import (
    HeldOutScores,
    Setting,
    cv_results,
    warn_of_groups,
    weighted_score,
)
from discreg.linalg.rows import one_hot

from . import LSRClassifier
from ._leave_one_out import leave_one_out_scores
from ._search import RetargetedSearchCV

__all__ = ["LSRClassifierCV"]


class LSRClassifierCV(RetargetedSearchCV):
    r"""Least squares regression with `beta` chosen by exact leave-one-out.

    The scores of all samples, each by the model that has not seen it, come for every `beta` from
    one eigendecomposition and equal those of n refits: with weights s, leverage h and u the unit
    of weight that is left out, they are :math:`(r - u h y) / (1 - u h)`. A sample of weight k
    counts as k copies, one of which is left out. Class weights and a kernel's `gamma` are those
    of all samples.

    Parameters
    ----------
    betas : array-like of float, default=(10.0, ..., 1e-3)
        Penalties to choose from.
    scale_beta, fit_intercept, class_weight, kernel, gamma, degree, coef0, kernel_params
        As for :class:`~discreg.LSRClassifier`.
    cv : int, splitter or iterable of splits, default=None
        How to hold samples out; None means exact leave-one-out, for which the betas must be
        positive.
    scoring : str or callable, default=None
        Any scorer of scikit-learn that judges labels or decision values; None means accuracy.
        It is given the sample weights if it takes them.
    n_jobs : int, default=None
        Number of folds fitted at once, as joblib counts.

    Attributes
    ----------
    best_params_ : dict
        The best setting; of equally good ones the one with the largest penalty.
    best_score_ : float
        Its mean held-out score.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`; with
        leave-one-out there is one score for all samples together.
    best_estimator_ : LSRClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes
        (`classes_`, `coef_`, `intercept_`, `gap_`, ...) are those of this estimator too.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has names that are all strings.

    See Also
    --------
    LSRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import LSRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LSRClassifierCV().fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['beta']
    >>> model.best_score_ > 0.97
    True
    """

    _classifier = LSRClassifier

    def _search(
        self,
        classifier: Any,
        X: Any,
        y: NDArray[Any],
        weights: NDArray[np.float64] | None,
        groups: ArrayLike | None,
        grid: list[Setting],
        scorer: Callable[..., float],
    ) -> dict[str, Any]:
        if self.cv is not None:
            return super()._search(classifier, X, y, weights, groups, grid, scorer)
        warn_of_groups(groups)
        betas = [setting["beta"] for setting in grid]
        if min(betas) == 0:
            raise ValueError(
                "Leave-one-out needs positive betas: without a penalty a sample may decide its own "
                "score alone. Leave 0 out of betas, or set cv=5."
            )
        prepared = classifier._prepare(X, y, weights)
        copies = 1.0 if weights is None else np.maximum(weights, 1.0)
        held_out = leave_one_out_scores(
            prepared.regression,
            one_hot(prepared.y, len(prepared.classes)),
            prepared.weights / copies,
            betas,
            scale_beta=self.scale_beta,
        )
        judge = HeldOutScores(prepared.classes)
        scores = [weighted_score(scorer, judge, each, y, weights) for each in held_out]
        return cv_results(grid, np.array(scores)[:, None])
