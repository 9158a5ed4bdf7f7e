"""ReLSR with its penalty chosen by cross-validation."""

from __future__ import annotations

from . import ReLSRClassifier
from ._search import IterativeSearchCV

__all__ = ["ReLSRClassifierCV"]


class ReLSRClassifierCV(IterativeSearchCV):
    r"""Retargeted least squares regression with `beta` chosen by cross-validation.

    Each fold is prepared once; along the betas each fit starts from the one before it.

    Parameters
    ----------
    betas : array-like of float, default=(10.0, ..., 1e-3)
        Penalties to choose from.
    scale_beta, fit_intercept, class_weight, kernel, gamma, degree, coef0, kernel_params
        As for :class:`~discreg.ReLSRClassifier`.
    solver, tol, max_iter
        As for it too; `tol` and `max_iter` hold for each fit.
    cv : int, splitter or iterable of splits, default=None
        How to hold samples out; None means five stratified folds.
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
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`.
    best_estimator_ : ReLSRClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes
        (`classes_`, `coef_`, `intercept_`, `gap_`, ...) are those of this estimator too.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has names that are all strings.

    See Also
    --------
    ReLSRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import ReLSRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = ReLSRClassifierCV().fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['beta']
    >>> model.best_score_ > 0.97
    True
    """

    _classifier = ReLSRClassifier
