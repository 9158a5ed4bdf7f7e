"""LDM with its penalties and gamma selected by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from discreg.base.candidates import candidates_of
from discreg.base.held_out import Setting
from discreg.linalg.types import ClassWeight, KernelParams, Scoring, Splitting

from ._ldm import LDMClassifier
from ._search import MarginSearch

__all__ = ["LDMClassifierCV"]


class LDMClassifierCV(MarginSearch):
    """Large margin distribution machine with its parameters selected by cross-validation.

    There is one kernel matrix per fold and gamma, factored once for each `lambda1`, and each fit
    starts from the previous solution. A setting without a minimum (``lambda1=0``, an intercept and
    a large `lambda2`) gets no score.

    Parameters
    ----------
    Cs : array-like of float, default=(1e3,)
        Candidates for the weight of the hinge losses, positive and finite: classes that cannot be
        separated have no hard margin. More candidates take more time, and were about as accurate
        on average.
    lambda1s : array-like of float, default=(0, 1e3, 1e4)
        Candidates for the weight of the variance of the margins, not negative. If the best of the
        default values is the largest, up to three larger values are tried, each after the first
        only if the one before increased the score by more than 0.1 %; see
        ``cv_results_["beyond_grid"]``.
    lambda2s : array-like of float, default=(0,)
        Candidates for the weight of the mean of the margins, not negative.
    kernel : str or callable, default="rbf"
        As for :class:`~discreg.LDMClassifier`.
    gammas : array-like of float or str, default=None
        Candidates for `gamma`: numbers, "scale" or "auto". None means 0.1, 0.3, 1 and 3 times
        "scale" for "rbf", continued like `lambda1s`, and "scale" for the other kernels that have
        this parameter.
    degrees : array-like of float, default=(3,)
        Candidates for the degree of the kernel "poly".
    coef0, kernel_params, n_components, approximation, fit_intercept, class_weight, \
probability, solver, selection, shrinking, svrg_step, cache_size, tol, max_iter, random_state
        As for :class:`~discreg.LDMClassifier`. Fits on parts of the samples stop at 30 times `tol`.
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
    best_estimator_ : LDMClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes are also
        set on this estimator.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

    See Also
    --------
    LDMClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from discreg import LDMClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LDMClassifierCV(Cs=[10, 100], lambda1s=[1, 10], gammas=["scale"]).fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['C', 'gamma', 'lambda1', 'lambda2']
    >>> model.best_score_ > 0.9
    True
    """

    _classifier = LDMClassifier
    _continued = {"lambda1": "lambda1s", "gamma": "gammas"}

    def __init__(
        self,
        *,
        Cs: Sequence[float] = (1e3,),
        lambda1s: Sequence[float] = (0.0, 1e3, 1e4),
        lambda2s: Sequence[float] = (0.0,),
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
        svrg_step: float = 0.1,
        cache_size: float = 1000,
        tol: float = 1e-3,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = None,
        cv: Splitting = None,
        scoring: Scoring = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.lambda1s = lambda1s
        self.lambda2s = lambda2s
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
        """List all combinations of the penalties, sorted by `lambda1` to share factorisations."""
        Cs = candidates_of("Cs", self.Cs, lambda values: values > 0, "positive")
        lambda1s, lambda2s = (
            candidates_of(name, values, lambda values: values >= 0, "not negative")
            for name, values in (("lambda1s", self.lambda1s), ("lambda2s", self.lambda2s))
        )
        return [
            {"C": C, "lambda1": lambda1, "lambda2": lambda2}
            for lambda1, lambda2, C in product(lambda1s[::-1], lambda2s[::-1], Cs[::-1])
        ]
