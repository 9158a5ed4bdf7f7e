"""Base class of all classifiers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if

from discreg.blocks.lazy import lazily
from discreg.blocks.source import Block
from discreg.blocks.validation import check_params, is_dask, require_fitted, set_input_tags
from discreg.linalg.resources import threads_for_fit
from discreg.linalg.types import Array, ClassWeight, Labels, MatrixLike, RealArray

from .calibration import (
    Calibration,
    check_set_params,
    class_columns,
    log_probabilities,
    probabilities,
)
from .callbacks import CallbackSupportMixin
from .doc_links import DOC_LINK_MODULE, DOC_LINK_TEMPLATE
from .full_sets import Augmented, TrainingLabels, full_sets
from .left_out import forget_calibration
from .missing_params import with_missing_params
from .partial_fit import PartialFitState, merge_partial_fits, update_partial_fit

__all__ = ["BaseClassifier", "finite_scores", "has_probability"]


def has_probability(estimator: Any) -> bool:
    """Return True if `probability` is set, otherwise raise AttributeError."""
    if not estimator.probability:
        raise AttributeError(
            f"{type(estimator).__name__} has no probabilities and prediction sets with "
            "probability=False. Set probability=True before fit."
        )
    return True


def _supports_partial_fit(estimator: Any) -> bool:
    reason = estimator._why_no_partial_fit()
    if reason is not None:
        raise AttributeError(f"{type(estimator).__name__} has no partial_fit and merge: {reason}")
    return True


class BaseClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator, ABC):
    """Base class of all classifiers: `predict`, `score`, and `partial_fit` where supported.

    Methods that treat rows one by one are lazy on Dask collections.
    """

    _doc_link_module = DOC_LINK_MODULE
    _doc_link_template = DOC_LINK_TEMPLATE
    kernel: Any
    class_weight: ClassWeight
    probability: bool
    classes_: NDArray[Any]
    _labels: TrainingLabels  # of the models that predict sets by full conformal prediction
    _constraints: dict[str, Any]
    _calibrated: Calibration
    _statistics_depend_on: tuple[str, ...] = ("class_weight",)

    @abstractmethod
    def decision_function(self, X: MatrixLike) -> RealArray:
        """Compute decision values; for two classes one number, positive for the second."""

    @lazily
    def predict(self, X: MatrixLike) -> Labels:
        """Predict the class with the largest score.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        winners = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[winners])

    @available_if(has_probability)
    @lazily
    def predict_proba(self, X: MatrixLike) -> RealArray:
        """Predict class probabilities; the predicted class has the largest.

        They are the softmax of the decision values times `inverse_temperature_`, where large
        decision values are damped. With class or sample weights they refer to the weighted
        population.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        scores = class_columns(self.decision_function(X))
        return probabilities(scores, self._calibration().temperature, scores.dtype.type)

    @available_if(has_probability)
    @lazily
    def predict_log_proba(self, X: MatrixLike) -> RealArray:
        """Predict the logarithms of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
        """
        scores = class_columns(self.decision_function(X))
        return log_probabilities(scores, self._calibration().temperature, scores.dtype.type)

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

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.
        confidence_level : float, default=0.9
            Share of new samples whose sets should contain the true class, between 0 and 1.
        method : {"loo", "full"}, default="loo"
            "loo" compares the probabilities of new samples with those of held-out training samples.
            "full" is full conformal prediction, for models that keep their training samples:
            LSRClassifier, LRRRClassifier and DRMClassifier (with ``penalty="ridge"``) with an
            exact kernel of the rows. It takes more time and guarantees the confidence level for
            exchangeable samples.
        class_conditional : bool, default=False
            Whether the confidence level should hold for the samples of each class. The sets are
            then larger; classes with few samples are in most sets.
        allow_empty : bool, default=False
            Whether sets may be empty. Otherwise an empty set gets the predicted class.

        Returns
        -------
        sets : ndarray of bool of shape (n_samples, n_classes)
            Whether each class is in the set of each sample.
        """
        check_set_params(confidence_level, method, class_conditional, allow_empty)
        options = {"class_conditional": class_conditional, "allow_empty": allow_empty}
        if method == "full":
            own, augmented = self._augmented(X)
            temperature = self._calibration().temperature
            return full_sets(self._labels, own, augmented, temperature, confidence_level, **options)
        shares = np.asarray(self.predict_proba(X), dtype=np.float64)
        return self._calibration().sets(shares, confidence_level, **options)

    def _augmented(self, X: MatrixLike) -> tuple[Array, Augmented]:
        """Compute the scores of new samples, and those of the training samples with each of them.

        Models that keep the labels of their training samples implement this.
        """
        raise ValueError(
            "method='full' needs a model that keeps its training samples: LSRClassifier, "
            "LRRRClassifier or DRMClassifier (with penalty='ridge') with an exact kernel of the "
            "rows, such as 'rbf' with n_components=None. Use such a model, or method='loo'."
        )

    def _calibration(self) -> Calibration:
        """Return what a fit with probability=True has calibrated."""
        require_fitted(self)
        if not hasattr(self, "_calibrated"):
            raise NotFittedError("The model has no probabilities. Fit it with probability=True.")
        return self._calibrated

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Compute the mean accuracy of the predicted labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as for `decision_function`.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        score : float
        """
        if not is_dask(X):
            return float(super().score(X, y, sample_weight))
        labels = np.asarray(self.predict(X))
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(accuracy_score(np.asarray(y), labels, sample_weight=weights))

    @available_if(_supports_partial_fit)
    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the model incrementally on a batch of rows.

        Up to rounding, the model equals that of `fit` on all rows passed so far, in any order. With
        a kernel, the rows of the first call determine its components and ``gamma="scale"``. The
        model can predict once every class has been seen. A call of `fit` starts a new model and
        keeps no statistics that a later `partial_fit` could add to.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Some rows of the training data.
        y : array-like of shape (n_samples,)
            Labels of these rows.
        classes : array-like of shape (n_classes,), default=None
            All class labels. Required in the first call, unless `fit` was called before.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Sample weights; weight k is equivalent to repeating the sample k times.

        Returns
        -------
        self : object
            The classifier, fitted to all rows passed so far.
        """
        with threads_for_fit(X, self.kernel, of_features=True):
            update_partial_fit(self, X, y, classes, sample_weight)
        return self

    @available_if(_supports_partial_fit)
    def merge(self, other: Self) -> Self:
        """Merge another model fitted by `partial_fit` into this one.

        Parameters
        ----------
        other : object
            A classifier of the same type, parameters, classes and features that `partial_fit` has
            fitted to other rows. It is not modified.

        Returns
        -------
        self : object
            This classifier, fitted to the rows of both.
        """
        merge_partial_fits(self, other)
        return self

    def _check_params(self) -> None:
        """Check the parameters, each alone and together, as far as this needs no data."""
        check_params(self, self._constraints)

    def _why_no_partial_fit(self) -> str | None:
        """Explain why the model has no `partial_fit`; None if it has."""
        return "it needs all rows at once."

    def _statistics(self, block: Block, n_classes: int) -> Any:
        """Compute the additive statistics of a block of rows that `partial_fit` needs."""
        raise AttributeError(self._why_no_partial_fit())

    def _fit_state(self, state: PartialFitState) -> None:
        """Fit the model to the statistics of `partial_fit`."""
        raise AttributeError(self._why_no_partial_fit())

    def _forget_parts(self) -> None:
        """Drop the statistics of `partial_fit` before a new fit."""
        self.__dict__.pop("_partial_fit_state", None)

    def _forget_fit(self) -> None:
        """Drop the fitted attributes, except those of the features."""
        forget_calibration(self)
        for name in list(vars(self)):
            if name.endswith("_") and not name.startswith("_") and not name.endswith("_in_"):
                delattr(self, name)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        parts = state.get("_partial_fit_state")
        if parts is not None:  # a saved model contains no training rows
            state = state | {"_partial_fit_state": replace(parts, kept=None)}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(with_missing_params(type(self), state))

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the model can predict: with `partial_fit`, once every class was seen."""
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        set_input_tags(tags.input_tags, self.kernel)
        return tags


def finite_scores(scores: RealArray) -> RealArray:
    """Return scores of new samples; raise ValueError if they are infinite or NaN."""
    if not np.isfinite(scores).all():
        raise ValueError(
            "The scores of these samples overflow or are NaN. Scale the features as in training, "
            "for example with sklearn.preprocessing.StandardScaler in a pipeline."
        )
    return scores
