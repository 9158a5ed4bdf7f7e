"""GReLSR with its penalty and group weight chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import GReLSRClassifier
from ._search import BETAS, IterativeSearchCV

__all__ = ["GReLSRClassifierCV"]

GROUPWISES = (10.0, 1.0, 0.1, 0.0)


class GReLSRClassifierCV(IterativeSearchCV):
    r"""Groupwise retargeted regression with `beta` and `group_penalty` chosen by cross-validation.

    Each fold is prepared once; along the grid each fit starts from the one before it.

    Parameters
    ----------
    group_penalties : array-like of float, default=(10.0, ..., 0.0)
        Group weights to choose from.
    betas : array-like of float, default=(10.0, ..., 1e-3)
        Penalties to choose from.
    scale_beta, fit_intercept, class_weight, kernel, gamma, degree, coef0, kernel_params
        As for :class:`~discreg.GReLSRClassifier`.
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
    best_estimator_ : GReLSRClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes
        (`classes_`, `coef_`, `intercept_`, `gap_`, ...) are those of this estimator too.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has names that are all strings.

    See Also
    --------
    GReLSRClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import GReLSRClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = GReLSRClassifierCV().fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['beta', 'group_penalty']
    >>> model.best_score_ > 0.97
    True
    """

    _classifier = GReLSRClassifier
    _grid_names = {"group_penalties": "group_penalty", "betas": "beta"}

    def __init__(
        self,
        *,
        group_penalties: Sequence[float] = GROUPWISES,
        betas: Sequence[float] = BETAS,
        scale_beta: bool = True,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        kernel: str | Callable[..., float] = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            betas=betas,
            scale_beta=scale_beta,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            cv=cv,
            scoring=scoring,
            n_jobs=n_jobs,
        )
        self.group_penalties = group_penalties
