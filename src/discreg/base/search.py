"""Parameter search of all ...CV classifiers: candidates, held-out scores, fit of the best setting.

A subclass of `ClassifierSearch` names its classifier and implements two methods:

- `_penalties` returns the settings to try, in the order of a path of fits;
- `_held_out` fits each setting to training samples and yields the scores of the test samples.

A subclass whose model has leave-one-out scores from one fit also implements `_leave_one_out`;
``cv=None`` then means leave-one-out, otherwise five stratified folds. The same holds for whole
groups with `_leave_groups_out`. Every combination with the candidates for the kernel's parameters
(`gammas`, `degrees`) is tried; these are already set when the methods are called.

With many samples and ``cv=None``, all settings are tried on a part of the samples and the best ones
on more. If penalties depend on the number of samples, `_for_share` converts them for a part.
`_continued` names the parameters whose default candidates are continued beyond the edge of the
grid, and `_beyond` returns the next settings there.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import (
    brier_score_loss,
    check_scoring,
    get_scorer,
    log_loss,
    make_scorer,
)
from sklearn.model_selection import check_cv
from sklearn.utils import check_consistent_length, check_random_state

from discreg.blocks.kept_rows import distinct_rows
from discreg.blocks.source import is_missing, is_out_of_core
from discreg.linalg.fitted_kernel import require_square
from discreg.linalg.kernels import KERNELS, KernelFacts, resolve_gamma
from discreg.linalg.rows import class_sums, hash_rows, one_hot, require_two_classes
from discreg.linalg.types import Array, Indices, Labels, MatrixLike, RealArray, Scoring, Splitting

from .calibration import Calibration, Temperature
from .caller import (
    CallbackSupportMixin,
    Task,
    collected_convergence,
    warn_of_early_stops,
    warn_of_equal_weights,
    warn_user,
    with_callbacks,
)
from .classifier import DOC_LINK_MODULE, DOC_LINK_TEMPLATE, ProbabilityMixin
from .held_out import (
    BY_GROUP,
    BY_ROW,
    Fold,
    calibrate_on_rows,
    classes_named,
    holdout_folds,
    holdout_mask,
    how_held_out,
    judged_rows,
    warn_of_lost_classes,
)
from .metrics import METRICS
from .trials import (
    HeldOut,
    Judged,
    Setting,
    Trials,
    Weights,
    best_of,
    beyond,
    cv_results,
    try_all,
    try_beyond,
    weighted_score,
)
from .validation import (
    Choice,
    LabelledRows,
    Number,
    check_params,
    dispatched,
    lazily,
    require_fitted,
    resolve_n_components,
    set_input_tags,
    training_rows,
)

# What a search checks before its first fit: folds, scorer and candidates.
SCORER = type(get_scorer("accuracy"))  # of `make_scorer`
LOSSES = (log_loss, brier_score_loss)


def scorer_of(scoring: Scoring, classifier: Any, classes: NDArray[Any]) -> Callable[..., float]:
    """Return the scorer that `scoring` means.

    Held-out samples may lack some classes: the log-loss and the Brier score get the labels of all,
    and the metrics of `METRICS` do not warn of missing ones as those of scikit-learn do.
    """
    known = METRICS.get(scoring) if isinstance(scoring, str) else None
    if known is not None and known.score:
        scorer: Callable[..., float] = make_scorer(
            known.of_labels, greater_is_better=not known.lower_is_better, labels=classes
        )
    else:
        scorer = check_scoring(classifier, scoring=scoring)
    if isinstance(scorer, SCORER) and scorer._score_func in LOSSES:
        loss, options = scorer._score_func, {"response_method": scorer._response_method}
        if "labels" in inspect.signature(loss).parameters:
            options |= {"labels": classes}
        scorer = make_scorer(loss, greater_is_better=scorer._sign > 0, **options | scorer._kwargs)
    return scorer


def check_scorer(scorer: Callable[..., float], scoring: Scoring, rows: LabelledRows) -> None:
    """Refuse a scorer that cannot score perfect decision values of these labels.

    Only scorers of scikit-learn are tried; other callables may count their calls.
    """
    if not isinstance(scorer, SCORER):
        return
    perfect = HeldOut(one_hot(rows.y, len(rows.classes)), rows.classes)
    try:
        weighted_score(scorer, perfect, rows, Temperature(1.0))
    except Exception as error:
        if isinstance(scoring, str):  # a user's metric may be undefined for perfect scores
            raise ValueError(f"scoring={scoring!r} cannot be used. {error}") from error


def is_of_single_samples(scorer: Callable[..., float]) -> bool:
    """Return whether a scorer is known to need only labels, or to be the log-loss or Brier score.

    Others, such as the area under a curve, may compare scores of samples with each other.
    """
    if not isinstance(scorer, SCORER):
        return False
    return scorer._response_method == "predict" or scorer._score_func in LOSSES


def check_settings(classifier: Any, settings: Sequence[Setting]) -> None:
    """Check the candidates against what the classifier accepts."""
    trial = clone(classifier)
    for setting in settings:
        vars(trial).update(setting)
        trial._check_params()


def given_folds(cv: Splitting, X: Any, y: NDArray[Any], groups: Indices | None) -> list[Fold]:
    """Return the training and test rows of each fold of a given `cv`."""
    folds = list(check_cv(cv, y, classifier=True).split(X, y, groups))
    if not folds:
        raise ValueError(f"cv={cv!r} gives no splits. Use cv=5, or a list of splits.")
    places = np.arange(len(y))
    try:
        return [(places[train], places[test]) for train, test in folds]
    except IndexError as error:
        raise ValueError(f"cv gives rows that X does not have: {error}.") from error


def check_folds(
    folds: Sequence[Fold | None], rows: LabelledRows, counts: NDArray[np.bool_]
) -> None:
    """Refuse folds that cannot be fitted or scored; warn of classes that folds do not learn.

    Samples of weight zero, and classes of which no sample `counts`, are left out.
    """
    classes, y, weights = rows.classes, rows.y, rows.sample_weights
    counted = np.bincount(y[counts], minlength=len(classes)) > 0
    missing = []
    for number, fold in enumerate(folds):
        if fold is None:
            continue
        train, test = fold
        if not np.any(weights[test]):
            raise ValueError(
                f"The test part of fold {number} has no sample of positive weight. Leave "
                "samples of weight zero out, or use fewer folds."
            )
        learned = class_sums(y[train], weights[train], len(classes)) > 0
        try:
            require_two_classes(classes[learned])
        except ValueError as error:
            raise ValueError(
                f"The training part of fold {number} cannot be fitted. {error}"
            ) from error
        missing += [(number, label) for label in classes[counted & ~learned].tolist()[:1]]
    if missing:
        number, label = missing[0]
        warn_user(
            f"The training parts of {len(missing)} of {len(folds)} folds lack a class, first "
            f"that of fold {number}, which has no sample of class {label!r}. Held-out samples "
            "of such a class count as errors. Use stratified folds, or fewer folds."
        )


def kernel_settings(search: Any, classifier: Any, X: Any, weights: Array) -> list[Setting]:
    """List all combinations of the candidates for `gamma` and `degree` that the kernel uses."""
    settings: dict[str, list[Any]] = {}
    kernel = classifier.kernel
    known = KERNELS.get(kernel) if isinstance(kernel, str) else None
    facts = known or KernelFacts()
    if "gamma" in facts.params:
        gammas = search.gammas
        if gammas is None and len(facts.default_gammas) > 1:
            scale = resolve_gamma("scale", X, weights)
            gammas = [scale * each for each in facts.default_gammas[: search._most_gammas]]
        elif gammas is not None:
            gammas = gammas if np.iterable(gammas) and not isinstance(gammas, str) else [gammas]
            gammas = [
                resolve_gamma(gamma, X, weights) if str(gamma) in ("scale", "auto") else gamma
                for gamma in gammas
            ]
        if gammas is not None:
            settings["gamma"] = candidates_of(
                "gammas", gammas, lambda values: values > 0, "positive"
            )
    if "degree" in facts.params and search.degrees is not None:
        degrees = candidates_of(
            "degrees", search.degrees, lambda values: values >= 0, "not negative"
        )
        settings["degree"] = [int(degree) if degree.is_integer() else degree for degree in degrees]
    return [dict(zip(settings, values, strict=True)) for values in product(*settings.values())]


def group_numbers(groups: Any, X: Any, weights: Array) -> Indices | None:
    """Return the number of the group of each sample, or None without groups.

    Parameters
    ----------
    groups : array-like of shape (n_samples,), "duplicates" or None
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    weights : ndarray of shape (n_samples,)
        At least two groups must have positive weight.
    """
    if groups is None:
        return None
    if isinstance(groups, str):
        if groups != "duplicates":
            raise ValueError(f"groups must be labels or 'duplicates', got {groups!r}.")
        labels: NDArray[Any] = hash_rows(X, 0)
    else:
        groups = dispatched(groups)
        # A list of strings and NaN would become an array of strings.
        labels = np.asarray(groups, dtype=None if hasattr(groups, "dtype") else object)
        if labels.ndim != 1:
            raise ValueError(f"groups must be one-dimensional, got the shape {labels.shape}.")
        check_consistent_length(X, labels)
        if any(map(is_missing, labels.tolist())):
            raise ValueError("groups has missing values. Give each such sample a group of its own.")
    try:
        numbers: Indices = np.unique(labels, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError("groups has labels of different types, which cannot be sorted.") from error
    held_out = numbers[weights > 0]
    if np.all(held_out == held_out[0]):
        of_weight = "" if np.all(weights > 0) else " of positive weight"
        raise ValueError(f"groups has only one group{of_weight}, so that none can be held out.")
    return numbers.astype(np.intp, copy=False)


def rows_of_groups(groups: Indices) -> list[Indices]:
    """Return the rows of each group."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def groups_by_size(groups: Indices) -> list[Indices]:
    """Return the rows of the groups of each size, one array (n_groups, size) per size."""
    by_size: dict[int, list[Indices]] = {}
    for rows in rows_of_groups(groups):
        by_size.setdefault(len(rows), []).append(rows)
    return [np.array(each) for each in by_size.values()]


def candidates_of(
    name: str, values: Any, allowed: Callable[[Array], NDArray[np.bool_]], described: str
) -> list[float]:
    """Check the candidates for a parameter and return distinct values, the largest first."""
    try:
        numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([np.nan])
    if numbers.ndim != 1 or not numbers.size or not np.all(np.isfinite(numbers) & allowed(numbers)):
        raise ValueError(
            f"{name} must hold one or more finite numbers, each {described}; got {values!r}."
        )
    return sorted(set(numbers.tolist()), reverse=True)


SEARCH_CONSTRAINTS = {
    "scoring": Choice(
        (None,),
        test=lambda value: isinstance(value, str) or callable(value),
        described="the name of a scorer or a callable",
    ),
    "n_jobs": Choice((None,), others=(Number(integer=True),)),
    "verbose": Choice((True, False), others=(Number(0, closed="left", integer=True),)),
}


class ClassifierSearch(ProbabilityMixin, CallbackSupportMixin, ClassifierMixin, BaseEstimator, ABC):
    """Base of the ...CV classifiers: predictions and fitted attributes of `best_estimator_`.

    Parameters
    ----------
    estimator : object, default=None
        The classifier whose other parameters are kept, such as `kernel` and `class_weight`. It is
        not fitted itself. None means one with its default parameters.
    gammas : array-like of float or str, default=None
        Candidates for `gamma`: numbers, "scale" or "auto". For the kernel "rbf", None means 0.1,
        0.3, 1, 3 and 10 times "scale" (without 10 for ODM and LDM), continued beyond an edge; for
        the other kernels, the `gamma` of `estimator`.
    degrees : array-like of float, default=None
        Candidates for the degree of the kernel "poly"; None means that of `estimator`.
    cv : int, splitter or iterable of splits, default=None
        Cross-validation splitter. None means leave-one-out for LSR, LRLR, LRRR and DRM with the
        ridge penalty, where one factorisation gives it, if the scorer needs only labels or is the
        log-loss or the Brier score; otherwise five stratified folds, or above 10,000 samples one
        part of 2,000. A sample leaves with all of its weight, and equal samples of a class
        together. With None and more than 900 samples, all settings are tried on a part of the
        samples and the best ones on more.
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
        Held-out score of the best setting: the mean over the folds, or that of all samples.
    cv_results_ : dict
        Settings and scores, under the names of :class:`~sklearn.model_selection.GridSearchCV`; with
        leave-one-out there is one score for all samples together. `held_out` says how samples were
        held out, `n_samples` how many took part, and `mean_log_loss` is the log-loss of all
        held-out samples. The score of a setting that cannot be fitted is nan. If the best of the
        default values of a parameter is at an edge of the grid, up to three values beyond it are
        tried, each after the first only if the one before increased the score by more than 0.1 %;
        `beyond_grid` marks them.
    best_estimator_ : object
        The classifier with the best setting, fitted to all samples. Its fitted attributes
        (`classes_`, `held_out_decision_function_`, ...) are also set on this estimator.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only defined if X has feature names that are all strings.
    """

    _doc_link_module = DOC_LINK_MODULE
    _doc_link_template = DOC_LINK_TEMPLATE
    estimator: Any
    cv: Splitting
    scoring: Scoring
    n_jobs: int | None
    verbose: int
    best_estimator_: Any

    _classifier: type[Any]
    # Functions that yield the scores of all samples, each without itself or without its group, for
    # each setting in turn; None if this takes more than one factorisation.
    _leave_one_out: Any = None
    _leave_groups_out: Any = None
    # Parameters whose default candidates are continued beyond the edge, and the candidates' names.
    _continued: dict[str, str] = {"beta": "betas", "gamma": "gammas"}
    _beyond = staticmethod(beyond)
    _most_gammas: int | None = None  # number of default candidates for gamma, the smallest ones

    @abstractmethod
    def _penalties(self, classifier: Any, X: Any, y: NDArray[Any], weights: Weights) -> list[Any]:
        """List the settings to try, kernel parameters aside; ties go to the first."""

    @staticmethod
    @abstractmethod
    def _held_out(
        classifier: Any,
        X: Any,
        y: NDArray[Any],
        sample_weight: Weights,
        X_test: Any,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        """Fit each setting to X and y in turn and yield the scores of the test samples."""

    @with_callbacks
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Select the best setting on held-out samples and fit it to all samples.

        Parameters, folds and labels are checked before the first fit. A sample without which its
        class would have no samples is not held out, and a warning names the class. Where the
        training part of a fold of a given `cv` lacks a class, a warning names the fold and the
        class, and held-out samples of the class count as errors.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; with ``kernel="precomputed"`` the square kernel matrix.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Sample weights, for the fits and for the held-out scores.
        groups : array-like of shape (n_samples,) or "duplicates", default=None
            Group labels of the samples, such as patients. With ``cv=None`` the samples of a group
            are held out together: one group after the other for LSR, otherwise in five folds;
            ``cv_results_["held_out"]`` says which. A `cv` that splits by groups gets them too.
            "duplicates" makes equal rows of X a group.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        check_params(self, SEARCH_CONSTRAINTS)
        self._require_rows_in_memory(X)
        classifier = self._unfitted()
        classifier._check_params()
        probability = classifier.probability
        classifier.set_params(probability=False)
        X, labels = training_rows(self, X, y)
        if classifier.kernel == "precomputed":
            require_square(X)
        resolve_n_components(classifier, X.shape[0])
        given = LabelledRows.of(classifier, X, labels, sample_weight)
        kernels = kernel_settings(self, classifier, X, given.weights)
        scorer = scorer_of(self.scoring, classifier, given.classes)
        check_scorer(scorer, self.scoring, given)
        numbers = group_numbers(groups, X, given.sample_weights)
        penalties = self._penalties(classifier, X, labels, given.sample_weights)
        check_settings(classifier, [*kernels, *penalties])
        grid = [(kernel, penalty) for kernel in kernels for penalty in penalties]
        rows, folds, counts = self._split(classifier, given, numbers, scorer)
        if not counts.any():
            what = "distinct row" if numbers is None else "group"
            raise ValueError(
                f"Each class has only one {what}, so that none can be held out. Add samples."
            )
        both = " and probabilities calibrated" if probability else ""
        done = f"The settings are compared{both}"
        warn_of_lost_classes(given.classes, rows.y, counts, numbers, judged_on_others=done)
        check_folds(folds, rows, counts)
        trials = Trials(
            type(self),
            self._for_trials(classifier),
            rows,
            folds,
            scorer,
            self.n_jobs,
            counts,
            numbers,
        )
        task = Task.fit(self, X, labels)
        judged = try_all(self, trials, grid, task)
        n_given = len(grid)
        try_beyond(self, trials, grid, judged, task)
        every = [penalty | kernel for kernel, penalty in grid]
        self.cv_results_ = self._results(every, judged, n_given, per_fold=folds != [None])
        self.cv_results_["beyond_grid"] = np.arange(len(every)) >= n_given
        best = best_of(judged)
        by = BY_ROW if numbers is None else BY_GROUP
        if folds != [None]:
            by = how_held_out(folds, numbers) if self.cv is None else f"{len(folds)} folds"
        self.cv_results_["held_out"] = [by] * len(every)
        self.best_params_ = every[best]
        self.best_score_ = float(self.cv_results_["mean_test_score"][best])
        self.best_estimator_ = clone(classifier).set_params(
            probability=probability, **self.best_params_
        )
        refit = task.begin("refit")
        self._fit_best(given, judged, numbers)
        adopt_attributes(self)
        refit.end()
        task.end()
        return self

    def _require_rows_in_memory(self, X: Any) -> None:
        if is_out_of_core(X):
            raise ValueError(
                f"{type(self).__name__} holds rows out and needs them in memory. On Dask use "
                "discreg.penalty_path for LSRClassifier and LRRRClassifier, or search on a sample "
                "of the rows and fit the best classifier to all rows."
            )

    @property
    def _template(self) -> Any:
        """The classifier whose parameters are not searched."""
        return self._classifier() if self.estimator is None else self.estimator

    def _unfitted(self) -> Any:
        """Create a new classifier with the parameters that are not searched."""
        if not isinstance(self._template, self._classifier):
            raise TypeError(
                f"estimator must be an instance of {self._classifier.__name__} or None, "
                f"got {self.estimator!r}."
            )
        classifier = clone(self._template)
        state = classifier.get_params().get("random_state")
        if state is not None and not isinstance(state, int | np.integer):
            # One seed for all settings and the last fit, so that they use the same features.
            seed = check_random_state(state).randint(np.iinfo(np.int32).max)
            classifier.set_params(random_state=int(seed))
        return classifier

    def _split(
        self,
        classifier: Any,
        rows: LabelledRows,
        groups: Indices | None,
        scorer: Callable[..., float],
    ) -> tuple[LabelledRows, list[Any], NDArray[np.bool_]]:
        """Return the rows of the trials, their folds, and which rows count.

        Without a `cv` and groups, equal rows of a class become one row, so that they are held out
        together.
        """
        if self.cv is not None:
            folds = given_folds(self.cv, rows.X, rows.y, groups)
            return rows, folds, np.ones(len(rows.y), dtype=bool)
        if groups is None and not rows.is_kernel:
            numbers = distinct_rows(rows.keys, rows.y, rows.sample_weights)
            firsts = np.sort(np.unique(numbers, return_index=True)[1][int(numbers.min() < 0) :])
            # If all rows of each class are equal, merging them would leave none to hold out.
            if len(rows.classes) < len(firsts) < len(rows.y):
                seen = numbers >= 0
                merged = np.bincount(numbers[seen], rows.sample_weights[seen])[numbers[firsts]]
                rows = replace(rows.take(firsts), sample_weights=merged.astype(np.float64))
        y, weights = rows.y, rows.sample_weights
        if self._leaves_out(classifier, groups, scorer):
            return rows, [None], holdout_mask(y, weights, groups)
        folds = holdout_folds(rows.keys, y, weights, groups)
        return rows, folds, judged_rows(folds, len(y))

    def _leaves_out(
        self, classifier: Any, groups: Indices | None, scorer: Callable[..., float]
    ) -> bool:
        """Return whether samples or groups are left out one by one.

        Their scores cannot be ranked: the model without a sample of a class favours the others.
        """
        formulas = self._leave_one_out if groups is None else self._leave_groups_out
        known = self.scoring is None or is_of_single_samples(scorer)
        return self.cv is None and formulas is not None and known

    def _for_trials(self, classifier: Any) -> Any:
        """Return the classifier whose fits compare settings; they may be less accurate."""
        return classifier

    def _for_share(self, classifier: Any, penalty: Setting, share: float) -> Setting:
        """Return the penalties for a share of the samples that correspond to those for all."""
        return penalty

    def _results(
        self, grid: list[Setting], judged: list[list[Judged]], n_given: int, *, per_fold: bool
    ) -> dict[str, Any]:
        """Build `cv_results_`; warn of failures among the `n_given` settings of the grid."""
        reasons = [on_folds[0].failure for on_folds in judged]
        failed = np.array([reason is not None for reason in reasons])
        first = next((reason for reason in reasons if reason is not None), None)
        if failed.all():
            raise ValueError(f"None of the {len(grid)} settings can be fitted. {first}")
        if failed[:n_given].any():
            warn_user(
                f"{failed[:n_given].sum()} of {n_given} settings cannot be fitted; their scores "
                f"are nan. The first error: {first}",
                FitFailedWarning,
            )
        if not all(each.used_weights for on_folds in judged for each in on_folds):
            warn_of_equal_weights(self.scoring)
        scores = np.array([[each.score for each in on_folds] for on_folds in judged])
        times = np.array([[each.seconds for each in on_folds] for on_folds in judged])
        n_rows = np.array([on_folds[0].n_rows for on_folds in judged])
        results = cv_results(grid, scores, times if per_fold else None, failed, n_rows)
        losses = np.array([on_folds[0].log_loss for on_folds in judged])
        results["mean_log_loss"] = np.where(failed, np.inf, losses)
        return results

    def _fit_best(
        self, rows: LabelledRows, judged: list[list[Judged]], groups: Indices | None
    ) -> None:
        """Fit the best setting to all samples; one warning counts all fits that stopped early."""
        best = self.best_estimator_
        # Without a `cv`, the search has already named the classes of one sample.
        with collected_convergence() as last, classes_named(self.cv is None):
            data = rows.X, rows.labels, rows.sample_weights
            if groups is None or not best.probability:
                best.fit(*data)
            else:
                best.set_params(probability=False).fit(*data)
                best.set_params(probability=True)
                calibrate_on_rows(best, rows, groups)
        fits = [each for on_folds in judged for each in on_folds]
        gaps = [each.gap for each in fits if not each.converged]
        warn_of_early_stops(gaps, len(fits), last)

    @lazily
    def decision_function(self, X: MatrixLike) -> RealArray:
        """Compute the decision values of the best classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for the classifier.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class; for two classes, the score of the second minus that of the first.
        """
        return np.asarray(self._best().decision_function(X))

    @lazily
    def predict(self, X: MatrixLike) -> Labels:
        """Predict labels with the best classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for the classifier.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return np.asarray(self._best().predict(X))

    def _calibration(self) -> Calibration:
        calibration: Calibration = self._best()._calibration()
        return calibration

    def _best(self) -> Any:
        """Return the best classifier, which checks new samples."""
        require_fitted(self)
        return self.best_estimator_

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Searches of release 0.2.0 had the parameters of their models in place of an estimator.
        super().__setstate__({"estimator": None} | state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        set_input_tags(tags.input_tags, self._template.kernel)
        return tags


def adopt_attributes(search: Any) -> None:
    """Copy the fitted attributes of the best estimator; drop those of an earlier search."""
    for name in search.__dict__.pop("_adopted", ()):
        search.__dict__.pop(name, None)
    fitted = {k: v for k, v in vars(search.best_estimator_).items() if k.endswith("_")}
    search.__dict__.update(fitted)
    search._adopted = [name for name in fitted if not name.endswith("_in_")]
    if hasattr(search, "feature_names_in_"):  # the best estimator was fitted to a plain array
        search.best_estimator_.feature_names_in_ = search.feature_names_in_
