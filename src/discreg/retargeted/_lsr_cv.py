"""LSR with `beta` selected by exact leave-one-out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.held_out import HeldOut, Setting
from discreg.base.regression import Prepared
from discreg.linalg.rows import one_hot
from discreg.linalg.types import Array, ClassWeight, Indices, KernelParams, Scoring, Splitting

from ._fit import set_within_class
from ._leave_one_out import leave_groups_out_scores, leave_one_out_scores
from ._lsr import LSRClassifier
from ._search import BETAS, RetargetedSearch

__all__ = ["LSRClassifierCV"]


class LSRClassifierCV(RetargetedSearch):
    r"""Least squares regression with `beta` selected by exact leave-one-out.

    One eigendecomposition gives the leave-one-out scores of all samples for every `beta`. They
    equal those of n refits. For a sample with score r, target y and leverage h, the score without a
    weight u of the sample is :math:`(r - u h y) / (1 - u h)`. A sample of weight k is equivalent to
    k samples of weight 1, one of which is left out. Class weights and the kernel's `gamma` are
    computed once, from all samples.

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
        As for :class:`~discreg.LSRClassifier`.
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
        As for :class:`~discreg.LSRClassifier`; "auto" refers to the rows of all folds together.
    cv : int, splitter or iterable of splits, default=None
        Cross-validation splitter; None means exact leave-one-out, which requires positive betas.
        Scorers other than those of labels, the log-loss and the Brier score, such as AUC or a
        callable, use five stratified folds. With None and more than
        900 samples, all settings are tried on a part of the samples and the best ones on more, see
        ``cv_results_["n_samples"]``.
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
    best_estimator_ : LSRClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes
        (`classes_`, `coef_`, `intercept_`, `gap_`, ...) are also set on this estimator.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.

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
    _has_leave_group_out = True

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
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    @staticmethod
    def _leave_one_out(
        classifier: LSRClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: Array | None,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        prepared = classifier._prepare(X, y, sample_weight)
        copies = 1.0 if sample_weight is None else np.maximum(sample_weight, 1.0)
        for path in _paths_of_betas(classifier, prepared, penalties):
            held_out = leave_one_out_scores(
                prepared.regression,
                one_hot(prepared.y, len(prepared.classes)),
                prepared.weights / copies,
                [setting["beta"] for setting in path],
                scale_beta=classifier.scale_beta,
            )
            yield from _each_beta(held_out, prepared.classes, path)

    @staticmethod
    def _leave_groups_out(
        classifier: LSRClassifier,
        X: Any,
        y: NDArray[Any],
        sample_weight: Array | None,
        penalties: Sequence[Setting],
        groups: Indices,
    ) -> Iterator[HeldOut]:
        prepared = classifier._prepare(X, y, sample_weight)
        for path in _paths_of_betas(classifier, prepared, penalties):
            held_out = leave_groups_out_scores(
                prepared.regression,
                one_hot(prepared.y, len(prepared.classes)),
                groups,
                [setting["beta"] for setting in path],
                scale_beta=classifier.scale_beta,
            )
            yield from _each_beta(held_out, prepared.classes, path)


def _paths_of_betas(
    classifier: LSRClassifier, prepared: Prepared, penalties: Sequence[Setting]
) -> Iterator[list[Setting]]:
    """Yield the settings of each weight of the within-class scatter, which is set."""
    for _, path in groupby(penalties, key=lambda setting: setting.get("within_class")):
        settings = list(path)
        set_within_class(classifier.set_params(**settings[0]), prepared)
        yield settings


def _each_beta(
    held_out: Array, classes: NDArray[Any], penalties: Sequence[Setting]
) -> Iterator[HeldOut]:
    """Yield the scores of each penalty."""
    for scores, setting in zip(held_out, penalties, strict=True):
        if setting["beta"] > 0:
            yield HeldOut(scores, classes)
        else:
            yield HeldOut.failed(
                "Leave-one-out needs positive betas: for beta=0 the other samples may not "
                "determine the score of a sample. Remove 0 from betas, or set cv=5."
            )
