"""ReLSR with `beta` selected by leave-one-out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from discreg.linalg.types import ClassWeight, KernelParams, Scoring, Splitting

from ._relsr import ReLSRClassifier
from ._search import BETAS, RetargetedSearch

__all__ = ["ReLSRClassifierCV"]


class ReLSRClassifierCV(RetargetedSearch):
    r"""Retargeted least squares regression with `beta` selected by leave-one-out.

    For each setting, the leave-one-out scores of all samples follow from one fit by Newton steps
    without the sample; they are close to those of refits. With more than 2,000 samples, 2,000 of
    them are left out. The data are prepared once, and each fit starts from the previous solution.

    Parameters
    ----------
    betas : array-like of float, default=(10.0, ..., 1e-3)
        Candidates for `beta`. If the best of the default values is at an edge, up to three values
        beyond it are tried, each after the first only if the one before increased the score by more
        than 0.1 %; see ``cv_results_["beyond_grid"]``.
    within_classes : array-like of float, default=(0.0,)
        Candidates for `within_class`, each tried with all `betas`; for example
        ``(10.0, 1.0, 0.1, 0.0)``.
    scale_beta, fit_intercept, class_weight, probability, kernel
        As for :class:`~discreg.ReLSRClassifier`.
    gammas : array-like of float or str, default=None
        Candidates for `gamma`: numbers, "scale" or "auto". None means 0.1, 0.3, 1, 3 and 10 times
        "scale" for "rbf", continued like `betas`, and "scale" for the other kernels that have this
        parameter.
    degrees : array-like of float, default=(3,)
        Candidates for the degree of the kernel "poly".
    coef0 : float, default=1
        Constant term of the kernels "poly" and "sigmoid".
    kernel_params : dict, default=None
        Additional keyword arguments for a callable kernel; refused with other kernels.
    n_components, approximation, random_state
        As for :class:`~discreg.ReLSRClassifier`; "auto" refers to the rows of all folds together.
    solver, cache_size, tol, max_iter
        As for the classifier; `tol` and `max_iter` apply to each fit. With ``cv=None``, the fits
        to compare settings stop at a gap of 3e-4 if `tol` is smaller.
    cv : int, splitter or iterable of splits, default=None
        Cross-validation splitter; None means leave-one-out from the fits, by Newton steps
        without the sample. Scorers other than those of labels, the log-loss and the Brier score,
        such as AUC or a callable, use five stratified folds.
        With None and more than 900 samples, all settings are tried on a part of the samples and
        the best ones on more, see ``cv_results_["n_samples"]``.
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
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`.
    best_estimator_ : ReLSRClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes
        (`classes_`, `coef_`, `intercept_`, `gap_`, ...) are also set on this estimator.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

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

    def __init__(
        self,
        *,
        betas: Sequence[float] = BETAS,
        within_classes: Sequence[float] = (0.0,),
        scale_beta: bool = True,
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
        solver: str = "auto",
        cache_size: float = 1000,
        tol: float = 1e-6,
        max_iter: int = 1000,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.betas = betas
        self.within_classes = within_classes
        self.scale_beta = scale_beta
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
        self.solver = solver
        self.cache_size = cache_size
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose
