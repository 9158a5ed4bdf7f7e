"""Parameter search of all ...CV classifiers: candidates, held-out scores, fit of the best setting.

A subclass of `ClassifierSearch` names its classifier and implements two methods:

- `_penalties` returns the settings to try, in the order of a path of fits;
- `_held_out` fits each setting to training samples and yields the scores of the test samples.

A subclass whose model has leave-one-out scores from one fit also implements `_leave_one_out` and
sets `_has_leave_one_out`; ``cv=None`` then means leave-one-out, otherwise five stratified folds.
The same holds for whole groups with `_leave_groups_out` and `_has_leave_group_out`. Every
combination with the candidates for the kernel's parameters (`gammas`, `degrees`) is tried; the
kernel's parameters are already set when these methods are called.

With many samples and ``cv=None``, all settings are tried on a part of the samples and the best ones
on more. If penalties depend on the number of samples, `_for_share` converts them for a part.
`_continued` names the parameters whose default candidates are continued beyond the edge of the
grid, and `_beyond` returns the next settings there.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.metaestimators import available_if

from discreg.blocks.lazy import lazily
from discreg.blocks.validation import (
    Choice,
    Number,
    check_params,
    encode_labels,
    is_out_of_core,
    require_fitted,
    row_weights,
    sample_weights,
    set_input_tags,
    training_rows,
)
from discreg.linalg.fitted_kernel import require_square
from discreg.linalg.types import (
    ClassWeight,
    Indices,
    Labels,
    MatrixLike,
    RealArray,
    Scoring,
    Splitting,
)

from .callbacks import CallbackSupportMixin, Task, with_callbacks
from .caller import (
    collected_convergence,
    user_stacklevel,
    warn_of_early_stops,
    warn_of_equal_weights,
)
from .candidates import group_numbers, kernel_settings
from .classifier import has_probability
from .components import settle_components
from .doc_links import DOC_LINK_MODULE, DOC_LINK_TEMPLATE
from .early_checks import (
    check_scorer,
    check_settings,
    is_of_single_samples,
    leavable_rows,
    scorer_of,
)
from .folds import check_folds, how_held_out, split_rows, warn_of_classes
from .held_out import (
    HeldOut,
    Judged,
    Setting,
    Weights,
    cv_results,
)
from .left_out import classes_named
from .missing_params import with_missing_params
from .rounds import best_of, beyond, try_all, try_beyond
from .trials import Trials

__all__ = ["SEARCH_CONSTRAINTS", "ClassifierSearch", "adopt_attributes"]

SEARCH_CONSTRAINTS = {
    "scoring": Choice(
        (None,),
        test=lambda value: isinstance(value, str) or callable(value),
        described="the name of a scorer or a callable",
    ),
    "n_jobs": Choice((None,), others=(Number(integer=True),)),
    "verbose": Choice((True, False), others=(Number(0, closed="left", integer=True),)),
}


class ClassifierSearch(CallbackSupportMixin, ClassifierMixin, BaseEstimator, ABC):
    """Base of the ...CV classifiers: predictions and fitted attributes of `best_estimator_`."""

    _doc_link_module = DOC_LINK_MODULE
    _doc_link_template = DOC_LINK_TEMPLATE
    kernel: Any
    class_weight: ClassWeight
    cv: Splitting
    scoring: Scoring
    n_jobs: int | None
    verbose: int
    best_estimator_: Any

    _classifier: type[Any]
    _has_leave_one_out = False
    _has_leave_group_out = False
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

    @staticmethod
    def _leave_one_out(
        classifier: Any,
        X: Any,
        y: NDArray[Any],
        sample_weight: Weights,
        penalties: Sequence[Setting],
    ) -> Iterator[HeldOut]:
        """Yield the leave-one-out scores of all samples for each setting in turn."""
        raise ValueError("This model has no leave-one-out.")

    @staticmethod
    def _leave_groups_out(
        classifier: Any,
        X: Any,
        y: NDArray[Any],
        sample_weight: Weights,
        penalties: Sequence[Setting],
        groups: Indices,
    ) -> Iterator[HeldOut]:
        """Yield the scores of all samples without their groups for each setting in turn."""
        raise ValueError("This model has no formulas that leave out groups.")

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
            are held out together: one group after the other if the model has formulas for it
            (LSR, LRLR, LRRR, DRM), otherwise in five folds; ``cv_results_["held_out"]`` says which.
            A `cv` that splits by groups gets them too. "duplicates" makes equal rows of X a group.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._check_params()
        self._require_rows_in_memory(X)
        classifier = self._unfitted().set_params(probability=False)
        classifier._check_params()
        rows, labels = training_rows(self, X, y)
        if self.kernel == "precomputed":
            require_square(rows)
        settle_components(classifier, rows.shape[0])
        weights = None if sample_weight is None else sample_weights(sample_weight, len(labels))
        classes, indices = encode_labels(labels)
        kernels = kernel_settings(
            self, rows, row_weights(weights, self.class_weight, classes, indices)
        )
        scorer = scorer_of(self.scoring, classifier, classes)
        check_scorer(scorer, self.scoring, classes, indices, weights)
        numbers = group_numbers(groups, rows, weights)
        left_out = self._leaves_out(numbers, scorer)
        counts = np.ones(len(labels), dtype=bool)
        if self.cv is None:
            counts = leavable_rows(indices, weights, numbers, by_units=left_out)
            warn_of_classes(classes, indices, counts, numbers, probability=self.probability)
            counts &= True if weights is None else weights > 0
        folds = [None] if left_out else split_rows(self.cv, rows, labels, numbers, counts)
        check_folds(folds, classes, indices, weights, counts)
        penalties = self._penalties(classifier, rows, labels, weights)
        check_settings(classifier, [*kernels, *penalties])
        grid = [(kernel, penalty) for kernel in kernels for penalty in penalties]
        data = rows, labels, weights
        whole = numbers if folds == [None] else None
        trials = Trials(type(self), classifier, *data, folds, scorer, self.n_jobs, counts, whole)
        task = Task.fit(self, rows, labels)
        judged = try_all(self, trials, grid, indices, task, by_groups=numbers is not None)
        n_given = len(grid)
        try_beyond(self, trials, grid, judged, task)
        every = [penalty | kernel for kernel, penalty in grid]
        self.cv_results_ = self._results(every, judged, n_given, per_fold=folds != [None])
        self.cv_results_["beyond_grid"] = np.arange(len(every)) >= n_given
        best = best_of(judged)
        self.cv_results_["held_out"] = [how_held_out(folds, self.cv, numbers)] * len(every)
        self.best_params_ = every[best]
        self.best_score_ = float(self.cv_results_["mean_test_score"][best])
        self.best_estimator_ = clone(classifier).set_params(
            probability=self.probability, **self.best_params_
        )
        refit = task.begin("refit")
        self._fit_best(rows, labels, weights, judged)
        if numbers is not None and self.probability:
            trials.calibrate(self.best_estimator_, *grid[best])
        adopt_attributes(self)
        refit.end()
        task.end()
        return self

    def _check_params(self) -> None:
        shared = {k: v for k, v in self._classifier._constraints.items() if hasattr(self, k)}
        check_params(self, shared | SEARCH_CONSTRAINTS)

    def _require_rows_in_memory(self, X: Any) -> None:
        if is_out_of_core(X):
            raise ValueError(
                f"{type(self).__name__} holds rows out and needs them in memory. On Dask use "
                "discreg.penalty_path for LSRClassifier and LRRRClassifier, or search on a sample "
                "of the rows and fit the best classifier to all rows."
            )

    def _unfitted(self) -> Any:
        """Create the classifier with the parameters that are not searched."""
        classifier = self._classifier()
        shared = classifier.get_params().keys() - {"n_jobs", "verbose"}
        # Attributes rather than parameters, because a subclass may fix some parameters.
        return classifier.set_params(**{k: getattr(self, k) for k in shared if hasattr(self, k)})

    def _leaves_out(self, groups: Indices | None, scorer: Callable[..., float]) -> bool:
        """Return whether samples or groups are left out one by one.

        Their scores cannot be ranked: the model without a sample of a class favours the others.
        """
        formulas = self._has_leave_one_out if groups is None else self._has_leave_group_out
        known = self.scoring is None or is_of_single_samples(scorer)
        return self.cv is None and formulas and known

    def _for_share(self, penalty: Setting, share: float) -> Setting:
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
            warnings.warn(
                f"{failed[:n_given].sum()} of {n_given} settings cannot be fitted; their scores "
                f"are nan. The first error: {first}",
                FitFailedWarning,
                stacklevel=user_stacklevel(),
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
        self, X: Any, y: NDArray[Any], weights: Weights, judged: list[list[Judged]]
    ) -> None:
        """Fit the best setting to all samples; one warning counts all fits that stopped early."""
        # Without a `cv`, the search has already named the classes of one sample.
        with collected_convergence() as last, classes_named(self.cv is None):
            self.best_estimator_.fit(X, y, weights)
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

    @available_if(has_probability)
    @lazily
    def predict_proba(self, X: MatrixLike) -> RealArray:
        """Predict class probabilities with the best classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for the classifier.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            The predicted class has the largest probability.
        """
        return np.asarray(self._best().predict_proba(X))

    @available_if(has_probability)
    @lazily
    def predict_log_proba(self, X: MatrixLike) -> RealArray:
        """Predict the logarithms of the class probabilities with the best classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for the classifier.

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
        """
        return np.asarray(self._best().predict_log_proba(X))

    @available_if(has_probability)
    @lazily
    def predict_set(
        self,
        X: MatrixLike,
        confidence_level: float = 0.9,
        *,
        method: str = "loo",
        class_conditional: bool = False,
        allow_empty: bool = False,
    ) -> NDArray[np.bool_]:
        """Predict sets of classes that contain the true class with a given probability.

        The choice of the setting has seen the training samples, so that with many settings the sets
        may contain the true class slightly less often.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for the classifier.
        confidence_level : float, default=0.9
            Share of new samples whose sets should contain the true class, between 0 and 1.
        method : {"loo", "full"}, default="loo"
            As in the classifier.
        class_conditional : bool, default=False
            Whether the confidence level should hold for the samples of each class.
        allow_empty : bool, default=False
            Whether sets may be empty. Otherwise an empty set gets the predicted class.

        Returns
        -------
        sets : ndarray of bool of shape (n_samples, n_classes)
            Whether each class is in the set of each sample.
        """
        options = {"class_conditional": class_conditional, "allow_empty": allow_empty}
        best = self._best()
        return np.asarray(best.predict_set(X, confidence_level, method=method, **options))

    def _best(self) -> Any:
        """Return the best classifier, which checks new samples."""
        require_fitted(self)
        return self.best_estimator_

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(with_missing_params(type(self), state))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        set_input_tags(tags.input_tags, self.kernel)
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
