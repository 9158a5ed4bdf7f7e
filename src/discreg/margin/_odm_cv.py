"""ODM with its penalties and the kernel's width chosen by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.validation import validate_data

from discreg.base.best import BestClassifier
from discreg.base.candidates import candidates_of, kernel_settings
from discreg.base.old_search import (
    Fold,
    HeldOut,
    Setting,
    best_setting,
    cv_results,
    score_held_out,
    split,
)
from discreg.base.search import SEARCH_CONSTRAINTS
from discreg.blocks.validation import (
    check_params,
    encode_labels,
    row_weights,
    sample_weights,
)
from discreg.linalg.rows import matmul

from . import ODMClassifier

__all__ = ["ODMClassifierCV"]

DECADES = (1.0, 10.0, 100.0, 1e3, 1e4)


class ODMClassifierCV(BestClassifier):
    """Optimal margin distribution machine with its parameters chosen by cross-validation.

    For each fold and width there is one kernel matrix, and each setting begins at the multipliers
    of the one before it.

    Parameters
    ----------
    C1s, C2s : array-like of float, default=(1, 10, 100, 1e3, 1e4)
        Weights of margins that are too small and too large to choose from, positive.
    Ds : array-like of float, default=(0, 0.2, 0.4)
        Free deviations to choose from, at least 0 and below 1.
    kernel : str or callable, default="rbf"
        As for :class:`~discreg.ODMClassifier`.
    gammas : array-like of float or str, default=None
        Widths to choose from: numbers, "scale" or "auto". None means 0.1, 0.3, 1, 3 and 10 times
        "scale" for "rbf" and "scale" for the other kernels that have a width.
    degrees : array-like of float, default=(3,)
        Degrees of a polynomial kernel to choose from.
    coef0, kernel_params, fit_intercept, class_weight, solver, selection, shrinking, cache_size, \
tol, max_iter, random_state
        As for :class:`~discreg.ODMClassifier`.
    cv : int, splitter or iterable of splits, default=None
        How to hold samples out; None means five folds, stratified.
    scoring : str or callable, default=None
        Any scorer of scikit-learn that judges labels or decision values; None means accuracy. It is
        given the decision values in the place of X, and the sample weights if it takes them.
    n_jobs : int, default=None
        Number of folds that are fitted at the same time.

    Attributes
    ----------
    best_params_ : dict
        The best setting; the first among equals, in the order of `cv_results_`: smaller penalties
        and larger D first.
    best_score_ : float
        Its mean held-out score.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`.
    best_estimator_ : ODMClassifier
        The classifier with the best setting, fitted on all samples. Its fitted attributes are those
        of this estimator too.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has names that are all strings.

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

    _constraints = {
        **{
            name: constraint
            for name, constraint in ODMClassifier._constraints.items()
            if name not in ("C1", "C2", "D", "gamma", "degree", "warm_start")
        },
        **{name: SEARCH_CONSTRAINTS[name] for name in ("scoring", "n_jobs")},
    }

    def __init__(
        self,
        *,
        C1s: Sequence[float] = DECADES,
        C2s: Sequence[float] = DECADES,
        Ds: Sequence[float] = (0.0, 0.2, 0.4),
        kernel: str | Callable[..., float] = "rbf",
        gammas: Sequence[float | str] | None = None,
        degrees: Sequence[float] = (3,),
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        solver: str = "auto",
        selection: str = "random",
        shrinking: bool = True,
        cache_size: float = 1000,
        tol: float = 1e-3,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = None,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.C1s = C1s
        self.C2s = C2s
        self.Ds = Ds
        self.kernel = kernel
        self.gammas = gammas
        self.degrees = degrees
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.selection = selection
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> ODMClassifierCV:
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
        penalties = self._penalties()
        classifier = self._model()
        rows, labels = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        given = None if sample_weight is None else sample_weights(sample_weight, len(labels))
        weights = row_weights(given, self.class_weight, *encode_labels(labels))
        kernels = kernel_settings(self, rows, weights)
        scorer = check_scoring(classifier, scoring=self.scoring)
        folds = check_cv(5 if self.cv is None else self.cv, labels, classifier=True)
        outcomes = Parallel(n_jobs=self.n_jobs)(
            delayed(_score_fold)(
                clone(classifier), rows, labels, given, kernels, penalties, fold, scorer, number
            )
            for number, fold in enumerate(folds.split(rows, labels, groups))
        )
        scores, seconds, gaps = (np.array(part).T for part in zip(*outcomes, strict=True))
        self._warn(gaps)
        grid = [penalty | kernel for kernel, penalty in product(kernels, penalties)]
        self.cv_results_ = cv_results(grid, scores, seconds)
        self.best_params_, self.best_score_ = best_setting(self.cv_results_)
        self.best_estimator_ = clone(classifier).set_params(**self.best_params_)
        self.best_estimator_.fit(rows, labels, given)
        self._adopt()
        return self

    def _warn(self, gaps: NDArray[np.float64]) -> None:
        """Say how many of the fits along the grid have stopped early."""
        early = gaps > self.tol
        if early.any() and self.tol > 0:
            warnings.warn(
                f"{early.sum()} of {gaps.size} fits on the folds stopped before tol={self.tol:g}, "
                f"the worst at a relative duality gap of {gaps.max():.2g}. Increase max_iter or "
                "tol, leave out the largest penalties, or scale the features.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _penalties(self) -> list[Setting]:
        """All combinations of the penalties, in an order in which neighbours are alike."""
        C1s = candidates_of("C1s", self.C1s, lambda values: values > 0, "positive")
        C2s = candidates_of("C2s", self.C2s, lambda values: values > 0, "positive")
        Ds = candidates_of(
            "Ds", self.Ds, lambda values: (values >= 0) & (values < 1), "at least 0 and below 1"
        )
        return [{"C1": C1, "C2": C2, "D": D} for D, C2, C1 in product(Ds, C2s[::-1], C1s[::-1])]

    def _model(self) -> ODMClassifier:
        """The classifier with the parameters that are not chosen."""
        shared = (ODMClassifier().get_params().keys() & self.get_params().keys()) - {"n_jobs"}
        return ODMClassifier(**{name: getattr(self, name) for name in shared})


def _score_fold(
    classifier: ODMClassifier,
    X: Any,
    y: NDArray[Any],
    sample_weight: NDArray[np.float64] | None,
    kernels: Sequence[Setting],
    penalties: Sequence[Setting],
    fold: Fold,
    scorer: Callable[..., float],
    number: int,
) -> tuple[list[float], list[float], list[float]]:
    """Held-out scores, fitting times and gaps of all settings on one fold."""
    train, test = fold
    X_train, X_test = split(X, fold, pairwise=classifier.kernel == "precomputed")
    train_weight = None if sample_weight is None else sample_weight[train]
    test_weight = None if sample_weight is None else sample_weight[test]

    def path() -> Iterator[HeldOut]:
        for kernel in kernels:
            classifier.set_params(**kernel)
            yield from _held_out_path(
                classifier, X_train, y[train], train_weight, X_test, penalties
            )

    return score_held_out(path(), y[test], test_weight, scorer, number)


def _held_out_path(
    classifier: ODMClassifier,
    X: Any,
    y: NDArray[Any],
    sample_weight: NDArray[np.float64] | None,
    X_test: Any,
    penalties: Sequence[Setting],
) -> Iterator[HeldOut]:
    """Held-out scores for one setting after another."""
    prepared = classifier._prepare(X, y, sample_weight)
    training = prepared.training
    cross = None
    if training.kernel is not None:
        precomputed = training.kernel.kernel == "precomputed"
        cross = X_test[:, prepared.seen] if precomputed else training.kernel(X_test, training.X)
    starts: list[Any] = [None] * len(prepared.signs)
    for penalty in penalties:
        for name, value in penalty.items():  # checked before; set_params takes as long as a fit
            setattr(classifier, name, value)
        fits = classifier._fit_all(prepared, starts, exact=False)
        starts = [fit.warm for fit in fits]
        if cross is None:
            columns = matmul(
                X_test, np.column_stack([fit.coef for fit in fits if fit.coef is not None])
            )
        else:
            columns = np.asarray(
                cross @ np.column_stack([fit.theta for fit in fits if fit.theta is not None])
            )
        columns = columns + np.array([fit.intercept for fit in fits])
        if columns.shape[1] == 1:
            columns = np.column_stack([np.zeros(len(columns)), columns])
        yield HeldOut(columns, prepared.classes, max(fit.gap for fit in fits))
