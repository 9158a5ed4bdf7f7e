"""DRM with alpha, beta and the kernel chosen by exact leave-one-out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import check_scoring, make_scorer
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from discreg.base.best import BestClassifier
from discreg.base.candidates import kernel_settings
from discreg.base.metrics import g_mean_score
from discreg.base.old_search import cv_results, warn_of_groups
from discreg.base.params import Boolean, Choice, check_params
from discreg.base.progress import with_progress
from discreg.blocks.labels import encode_labels, row_weights, sample_weights

from . import DRMClassifier
from ._held_out_grid import Failure, held_out_by_folds, held_out_one_by_one, penalty_settings

__all__ = ["DRMClassifierCV"]

DECADES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1e3)


class DRMClassifierCV(BestClassifier):
    r"""Discriminative regression machine with its parameters chosen by exact leave-one-out.

    The residuals of all samples, each by the model that has not seen it, cost a few fits for one
    setting and equal those of n refits with the same width and features. A sample of weight k
    counts as k copies, one of which is left out. Of equally good settings the one with the
    smaller held-out log-loss is taken.

    Parameters
    ----------
    alphas : array-like of float, default=(1e-3, ..., 1e3)
        Weights of the within-class scatter to choose from.
    betas : array-like of float, default=(1e-3, ..., 1e3)
        Weights of the penalty to choose from, positive.
    kernel : str or callable, default="rbf"
        As for :class:`~discreg.DRMClassifier`.
    gammas : array-like of float or str, default=None
        Widths to choose from: numbers, "scale" or "auto". None means 0.1, 0.3, 1, 3 and 10 times
        "scale" for "rbf" and "scale" for the other kernels that have a width.
    degrees : array-like of float, default=(3,)
        Degrees of a polynomial kernel to choose from.
    coef0 : float, default=1
        Parameter of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Further parameters of a callable kernel.
    solver, n_components, approximation, class_weight, reject_above, unknown_label, random_state
        As for :class:`~discreg.DRMClassifier`. In features ("scatter") leave-one-out costs no more
        than to predict the training samples, and folds are scored from sums over their samples.
        The search scores without rejection.
    scoring : str or callable, default=None
        Any scorer of scikit-learn, by name or as an object, or "g_mean", the geometric mean of the
        recalls; None means accuracy. It is given the sample weights if it takes them.
    cv : int, splitter or iterable of splits, default=None
        How to hold samples out; None means exact leave-one-out.
    progress : bool, default=False
        Whether to show a progress bar on the standard error stream.

    Attributes
    ----------
    best_params_ : dict
        The best setting.
    best_score_ : float
        Its held-out score.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`, and
        the log-loss of the held-out samples as `mean_log_loss`; with leave-one-out there is one
        score for all samples together. A setting that cannot be fitted, for its beta is too small
        to be seen beside the kernel's values, has the score nan.
    best_estimator_ : DRMClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes are those
        of this estimator too.
    loo_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values of the training samples by leave-one-out with the best setting.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has names that are all strings.

    See Also
    --------
    DRMClassifier : The model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from discreg import DRMClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = DRMClassifierCV(gammas=[0.01, 0.1]).fit(scale(X), y)
    >>> sorted(model.best_params_)
    ['alpha', 'beta', 'gamma']
    >>> model.best_score_ > 0.97
    True
    """

    _constraints = {
        "scoring": Choice(
            (None,),
            test=lambda value: isinstance(value, str) or callable(value),
            described="the name of a scorer or a callable",
        ),
        "progress": Boolean(),
    }

    def __init__(
        self,
        *,
        alphas: Sequence[float] = DECADES,
        betas: Sequence[float] = DECADES,
        kernel: str | Callable[..., float] = "rbf",
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] = (3,),
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        solver: str = "auto",
        n_components: int | None = None,
        approximation: str = "nystroem",
        class_weight: dict[Any, float] | str | None = None,
        reject_above: float | None = None,
        unknown_label: Any = None,
        scoring: Any = None,
        cv: Any = None,
        progress: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.alphas = alphas
        self.betas = betas
        self.kernel = kernel
        self.gammas = gammas
        self.degrees = degrees
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.solver = solver
        self.n_components = n_components
        self.approximation = approximation
        self.class_weight = class_weight
        self.reject_above = reject_above
        self.unknown_label = unknown_label
        self.scoring = scoring
        self.cv = cv
        self.progress = progress
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> DRMClassifierCV:
        """Choose the setting on held-out samples and fit it on all of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; with ``kernel="precomputed"`` the square kernel matrix.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Weights, for the fits and for the held-out scores.
        groups : array-like of shape (n_samples,), default=None
            Groups of the samples, for a `cv` that splits by groups.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        check_params(self, self._constraints)
        self._require_rows_in_memory(X)
        penalties = penalty_settings(self.alphas, self.betas)
        classifier = self._model()
        check_params(classifier, classifier._constraints)
        if not isinstance(self.random_state, int | np.integer):
            # One draw for all settings and the last fit, so that they have the same features.
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            classifier.set_params(random_state=int(seed))
        rows, labels = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        classes, indices = encode_labels(labels)
        given = None if sample_weight is None else sample_weights(sample_weight, len(labels))
        weights = row_weights(given, self.class_weight, classes, indices)
        kernels = kernel_settings(self, rows, weights)
        scorer = self._scorer(classifier)
        if self.cv is None:
            warn_of_groups(groups)
        held_out: Any = (
            held_out_one_by_one(classifier, rows, indices, classes, given, weights)
            if self.cv is None
            else held_out_by_folds(
                classifier, rows, labels, indices, classes, weights, self.cv, groups
            )
        )
        grid = [kernel | penalty for kernel in kernels for penalty in penalties]
        scores, losses, failures = [], [], []
        for judged in with_progress(
            (
                held_out.judge(scorer, delta, labels, given)
                for kernel in kernels
                for delta in held_out.residuals(kernel, penalties)
            ),
            len(grid),
            self.progress,
        ):
            scores.append(judged.scores)
            losses.append(judged.log_loss)
            failures.append(judged.failure)
        self.cv_results_ = cv_results(
            grid,
            np.array(scores),
            per_fold=self.cv is not None,
            failed=_tell_failures(failures),
        )
        self.cv_results_["mean_log_loss"] = np.array(losses)
        means = self.cv_results_["mean_test_score"]
        tied = np.flatnonzero(means == np.nanmax(means))
        best = int(tied[np.argmin(self.cv_results_["mean_log_loss"][tied])])
        self.best_params_, self.best_score_ = grid[best], float(means[best])
        self.best_estimator_ = clone(classifier).set_params(**self.best_params_)
        self.best_estimator_.fit(rows, labels, given)
        self._adopt()
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Probabilities of the classes by the best classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for the classifier.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            The largest is that of the predicted class.
        """
        self._check_new(X)
        return self.best_estimator_.predict_proba(X)

    def _model(self) -> DRMClassifier:
        """The classifier with the parameters that are not chosen."""
        shared = DRMClassifier().get_params().keys() & self.get_params().keys()
        return DRMClassifier(**{name: getattr(self, name) for name in shared}, probability=True)

    def _scorer(self, classifier: DRMClassifier) -> Callable[..., float]:
        if isinstance(self.scoring, str) and self.scoring == "g_mean":
            return make_scorer(g_mean_score)
        return check_scoring(classifier, scoring=self.scoring)


def _tell_failures(failures: Sequence[Failure | None]) -> NDArray[np.bool_]:
    """Which settings failed; a warning says so, or an error where no setting is left."""
    reasons = [failure.reason for failure in failures if failure is not None]
    if len(reasons) == len(failures):
        raise ValueError(f"None of the {len(failures)} settings can be fitted. {reasons[0]}")
    if reasons:
        warnings.warn(
            f"{len(reasons)} of {len(failures)} settings cannot be fitted; their scores are nan. "
            f"The first says: {reasons[0]}",
            FitFailedWarning,
            stacklevel=3,
        )
    return np.array([failure is not None for failure in failures])
