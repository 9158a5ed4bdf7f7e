"""ODM with its penalties and gamma selected by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from discreg.base.candidates import candidates_of
from discreg.base.held_out import Setting
from discreg.linalg.types import ClassWeight, KernelParams, Scoring, Splitting

from ._odm import ODMClassifier
from ._search import MarginSearch

__all__ = ["ODMClassifierCV"]


class ODMClassifierCV(MarginSearch):
    """Optimal margin distribution machine with its parameters selected by cross-validation.

    There is one kernel matrix per fold and gamma, and each fit starts from the previous solution.

    Parameters
    ----------
    C1s : array-like of float, default=(100, 1e3, 1e4)
        Candidates for the weight of margins that are too small, positive. If the best of the
        default values is at an edge, up to three values beyond it are tried, each after the first
        only if the one before increased the score by more than 0.1 %; see
        ``cv_results_["beyond_grid"]``.
    C2s : array-like of float, default=(1e3,)
        Candidates for the weight of margins that are too large, positive. More candidates for C2
        and D take more time, and were about as accurate on average.
    Ds : array-like of float, default=(0.2,)
        Candidates for the deviation without a loss, at least 0 and below 1.
    kernel : str or callable, default="rbf"
        As for :class:`~discreg.ODMClassifier`.
    gammas : array-like of float or str, default=None
        Candidates for `gamma`: numbers, "scale" or "auto". None means 0.1, 0.3, 1 and 3 times
        "scale" for "rbf", continued like `C1s`, and "scale" for the other kernels that have this
        parameter.
    degrees : array-like of float, default=(3,)
        Candidates for the degree of the kernel "poly".
    coef0, kernel_params, n_components, approximation, fit_intercept, class_weight, \
probability, solver, selection, shrinking, svrg_step, cache_size, tol, max_iter, random_state
        As for :class:`~discreg.ODMClassifier`. Fits on parts of the samples stop at 30 times `tol`.
    cv : int, splitter or iterable of splits, default=None
        Cross-validation splitter; None means five stratified folds.
        With None and more than 900 samples, all settings are tried on a part of the samples and
        the best ones on more, see ``cv_results_["n_samples"]``.
    scoring : str or callable, default=None
        Any scikit-learn scorer, by name or as a callable, or "g_mean", the geometric mean of the
        recalls; None means accuracy. The scorer receives decision values in place of X, and sample
        weights if it accepts them.
    n_jobs : int, default=None
        Number of parallel jobs, as for joblib. One job fits all settings of a fold that have the
        same kernel parameters.
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
    best_estimator_ : ODMClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes are also
        set on this estimator.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

    See Also
    --------
    ODMClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from discreg import ODMClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ODMClassifierCV(C1s=[10, 100], C2s=[10], gammas=["scale"]).fit(minmax_scale(X), y)
    >>> sorted(model.best_params_)
    ['C1', 'C2', 'D', 'gamma']
    >>> model.best_score_ > 0.95
    True
    """

    _classifier = ODMClassifier
    _continued = {"C1": "C1s", "gamma": "gammas"}

    def __init__(
        self,
        *,
        C1s: Sequence[float] = (100.0, 1e3, 1e4),
        C2s: Sequence[float] = (1e3,),
        Ds: Sequence[float] = (0.2,),
        kernel: str | Callable[..., float] = "rbf",
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] = (3,),
        coef0: float = 1,
        kernel_params: KernelParams = None,
        n_components: int | str | None = "auto",
        approximation: str = "nystroem",
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        probability: bool = True,
        solver: str = "auto",
        selection: str = "random",
        shrinking: bool = True,
        svrg_step: float = 0.5,
        cache_size: float = 1000,
        tol: float = 1e-3,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C1s = C1s
        self.C2s = C2s
        self.Ds = Ds
        self.kernel = kernel
        self.gammas = gammas
        self.degrees = degrees
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.approximation = approximation
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.solver = solver
        self.selection = selection
        self.shrinking = shrinking
        self.svrg_step = svrg_step
        self.cache_size = cache_size
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _penalties(self, classifier: Any, X: Any, y: Any, weights: Any) -> list[Setting]:
        """List all combinations of the penalties, with similar ones next to each other."""
        C1s = candidates_of("C1s", self.C1s, lambda values: values > 0, "positive")
        C2s = candidates_of("C2s", self.C2s, lambda values: values > 0, "positive")
        Ds = candidates_of(
            "Ds", self.Ds, lambda values: (values >= 0) & (values < 1), "at least 0 and below 1"
        )
        return [{"C1": C1, "C2": C2, "D": D} for D, C2, C1 in product(Ds, C2s[::-1], C1s[::-1])]
