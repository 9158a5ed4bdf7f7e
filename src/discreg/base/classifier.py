"""Base classes of all classifiers, and of those whose scores are linear in features or a kernel."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from inspect import cleandoc, signature
from operator import add
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if

from discreg.blocks.kept_rows import KeptRows, keep_rows, kept_of_block, reduce_and_keep
from discreg.blocks.mapped import MappedBlocks
from discreg.blocks.moments import (
    MomentRegression,
    Moments,
    block_moments,
    moments_by_group,
    relative_penalty,
)
from discreg.blocks.source import AddableTuple, Block, BlockSource, is_dask
from discreg.linalg.fitted_kernel import FittedKernel, KernelMatrix
from discreg.linalg.kernel_approximation import FeatureMap, mapped_rows
from discreg.linalg.resources import (
    require_memory,
    small_fits_in_one_thread,
    threads_for_fit,
)
from discreg.linalg.ridge import KernelRegression, NormalEquations, Regression, linear_regression
from discreg.linalg.rows import class_sums, varies
from discreg.linalg.types import Array, ClassWeight, Indices, Labels, MatrixLike, RealArray

from .calibration import (
    Calibration,
    check_set_params,
    class_columns,
    log_probabilities,
    probabilities,
)
from .caller import CallbackSupportMixin, Task, unchanged_if_it_fails, with_callbacks
from .held_out import (
    calibrate_in_closed_form,
    calibrate_on_blocks,
    calibrate_on_rows,
    forget_calibration,
)
from .partial_fit import PartialFitState, merge_partial_fits, update_partial_fit
from .validation import (
    LabelledRows,
    check_params,
    components_of,
    fit_map,
    fit_map_to_blocks,
    in_memory_if_small,
    lazily,
    new_rows,
    reason_no_partial_fit,
    require_components_memory,
    require_fitted,
    set_input_tags,
    store_components,
    training_data,
    why_exact_kernel,
)

DOC_LINK_MODULE = "discreg"
DOC_LINK_TEMPLATE = "https://discreg.github.io/discreg/api/discreg.{estimator_name}.html"


def _has_probability(estimator: Any) -> bool:
    """Return True if `probability` is set, otherwise raise AttributeError."""
    if not estimator._template.probability:
        raise AttributeError(
            f"{type(estimator._template).__name__} has no probabilities and prediction sets with "
            "probability=False. Set probability=True before fit."
        )
    return True


class ProbabilityMixin(ABC):
    """Probabilities and prediction sets from decision values."""

    @property
    def _template(self) -> Any:
        """The classifier whose parameters hold."""
        return self

    @abstractmethod
    def decision_function(self, X: MatrixLike) -> RealArray:
        """Compute decision values; for two classes one number, positive for the second."""

    @abstractmethod
    def _calibration(self) -> Calibration:
        """Return what a fit with probability=True has calibrated."""

    @available_if(_has_probability)
    @lazily
    def predict_proba(self, X: MatrixLike) -> RealArray:
        """Predict class probabilities, which estimate the population of the training samples.

        They are the softmax of the decision values times `inverse_temperature_`, where large
        decision values are damped, plus `class_offsets_` if there are any. The predicted class has
        the largest probability, except with class weights: LRLR, LRRR and SLRR, which weigh all
        classes equally, and models with a `class_weight` predict the class with the largest
        decision value, which may be another. Class weights move labels, not probabilities. If
        held-out scores are worse than chance, the probabilities are the class frequencies.

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

    @available_if(_has_probability)
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

    @available_if(_has_probability)
    @lazily
    def predict_set(
        self,
        X: MatrixLike,
        confidence_level: float = 0.9,
        *,
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
        check_set_params(confidence_level, class_conditional, allow_empty)
        shares = np.asarray(self.predict_proba(X), dtype=np.float64)
        return self._calibration().sets(
            shares,
            confidence_level,
            class_conditional=class_conditional,
            allow_empty=allow_empty,
        )


def _supports_partial_fit(estimator: Any) -> bool:
    reason = estimator._why_no_partial_fit()
    if reason is not None:
        raise AttributeError(f"{type(estimator).__name__} has no partial_fit and merge: {reason}")
    return True


class BaseClassifier(ProbabilityMixin, CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Base class of all classifiers: `predict`, `score`, and `partial_fit` where supported.

    Methods that treat rows one by one are lazy on Dask collections.
    """

    _doc_link_module = DOC_LINK_MODULE
    _doc_link_template = DOC_LINK_TEMPLATE
    kernel: Any
    class_weight: ClassWeight
    probability: bool
    classes_: NDArray[Any]
    _constraints: dict[str, Any]
    _calibrated: Calibration
    _ignores_class_shares = False  # whether scores do not depend on how frequent the classes are
    _statistics_depend_on: tuple[str, ...] = ("class_weight",)

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
    @unchanged_if_it_fails
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
    @unchanged_if_it_fails
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


Class = TypeVar("Class", bound=type)
ENTRY = re.compile(r"^(\w+)(?: : .*)?\n(?:(?: .*)?\n)*?(?=\S|\Z)", re.MULTILINE)


def with_inherited_docs(cls: Class) -> Class:
    """Add the parameters and attributes that only the base classes of a class describe."""
    if cls.__doc__ is None:  # with python -OO
        return cls
    doc = cleandoc(cls.__doc__)
    for title in ("Parameters", "Attributes"):
        entries: dict[str, str] = {}
        for each in reversed(cls.__mro__):
            entries |= _entries(vars(each).get("__doc__"), title)
        if title == "Parameters":
            entries = {name: entries[name] for name in signature(cls).parameters}
        before, after = _around(doc, title)
        underline = "-" * len(title)
        doc = f"{before}{title}\n{underline}\n{''.join(entries.values())}\n{after}"
    cls.__doc__ = doc
    return cls


def _around(doc: str, title: str) -> tuple[str, str]:
    """Return what comes before and after a section, which the docstring may lack."""
    found = re.search(rf"^{title}\n-+\n(?:.*\n)*?(?=^\w+.*\n---|\Z)", doc, re.MULTILINE)
    if found is not None:
        return doc[: found.start()], doc[found.end() :]
    first = re.search(r"^(?:See Also|Notes|References|Examples)\n---", doc, re.MULTILINE)
    place = len(doc) if first is None else first.start()
    return doc[:place], doc[place:]


def _entries(doc: str | None, title: str) -> dict[str, str]:
    """Return the entries of a section of a docstring by name."""
    doc = cleandoc(doc or "") + "\n"
    before, after = _around(doc, title)
    section = doc[len(before) : len(doc) - len(after)].partition("---\n")[2]
    return {found[1]: found[0].rstrip() + "\n" for found in ENTRY.finditer(section)}


SMALLEST_TRACE, LARGEST_TRACE = 1e-280, 1e280  # sums of squares of the features


@dataclass
class Prepared:
    """Training data in the form that all penalties of a path use."""

    classes: NDArray[Any]
    sizes: Array  # sum of the sample weights in each class
    class_weights: Array  # sum of sample weight times class weight in each class
    dtype: np.dtype[Any]
    kernel: FittedKernel | None  # None: linear, or approximated by features
    regression: Regression | MomentRegression | KernelMatrix
    X: Any = None  # in memory, mapped to features if there are any
    rows: LabelledRows | None = None  # before they are mapped
    source: BlockSource | None = None  # the rows if they are not in memory
    raw_source: BlockSource | None = None  # the same rows before they are mapped
    features: FeatureMap | None = None  # components that approximate a kernel
    kept: KeptRows | None = None  # rows to hold out, in the features of the regression

    @property
    def y(self) -> Any:
        """Indices of the classes of rows in memory; None for rows in blocks."""
        return None if self.rows is None else self.rows.y

    @property
    def equations(self) -> NormalEquations:
        """The regression, of a solver that does not use the kernel matrix itself."""
        assert isinstance(self.regression, NormalEquations)
        return self.regression

    @property
    def kept_features(self) -> Array:
        """Centred features of the rows to hold out; of a kernel, those of its feature map."""
        kept, regression = self.kept, self.equations
        assert kept is not None
        rows = regression.X[kept.places] if isinstance(regression, Regression) else kept.X
        return regression.centred_rows(rows)

    @property
    def leaving(self) -> Array:
        """Weights of the rows to hold out, which include class weights."""
        assert self.kept is not None
        return np.asarray(self.kept.weights * (self.class_weights / self.sizes)[self.kept.y])

    def cross(self, X: Any) -> Any:
        """Compute what the coefficients multiply for new samples: features or kernel values."""
        if self.features is not None:
            return self.features(X)
        if self.kernel is None or self.kernel.kernel == "precomputed":
            return X
        return self.kernel(X, self.X)


class RegressionClassifier(BaseClassifier):
    """Base class of classifiers whose scores are linear in the features or in a kernel."""

    fit_intercept: bool
    n_features_in_: int
    intercept_: RealArray
    _features: FeatureMap | None = None  # components that approximate the kernel
    # Whether the moments of the rows determine the model. One factorisation then gives the scores
    # without each row.
    _known_by_moments = False

    @with_callbacks
    @small_fits_in_one_thread
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask Array or DataFrame} of shape (n_samples, n_features)
            Training data; with ``kernel="precomputed"`` the square kernel matrix. Models
            with a linear or approximated kernel fit memory maps and Dask collections block by
            block.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            Sample weights; weight k is equivalent to repeating the sample k times.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._check_params()
        task = Task.fit(self, X, y)
        self._fit_and_calibrate(self._prepare(X, y, sample_weight))
        task.end()
        return self

    @abstractmethod
    def _fit_and_calibrate(self, prepared: Prepared) -> None:
        """Fit the model to prepared data and calibrate it."""

    def _prepare(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Prepared:
        """Check the data and do all the work that does not depend on the penalty."""
        self._forget_parts()
        rows, n_components = training_data(self, X, y, sample_weight)
        if isinstance(rows, BlockSource):
            return self._prepare_blocks(rows, n_components)
        X, weights, kernel, features, kept = rows.X, rows.weights, None, None, None
        if self.probability and self._known_by_moments:
            kept = keep_rows(X, rows.keys, rows.y, rows.sample_weights)
        if n_components is not None:
            features = fit_map(self, X, weights, n_components)
            X = mapped_rows(features, X)
        elif self.kernel != "linear":
            kernel = FittedKernel.of(self, X, weights)
        if kernel is None:
            require_memory(
                3 * 8 * min(X.shape) ** 2,
                f"A linear fit of {X.shape[0]} samples with {X.shape[1]} features",
                "Reduce the features first, for example with sklearn.decomposition.TruncatedSVD.",
            )
            with np.errstate(over="ignore", invalid="ignore"):  # overflow shows in the trace
                regression: Regression | KernelMatrix = self._linear_regression(X, weights)
            if features is not None:
                regression.n_features = None  # a relative penalty is in the units of the kernel
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                regression = self._kernel_regression(kernel, X, weights)
        lost = kernel is None and regression.trace < SMALLEST_TRACE and varies(X)
        require_squares_of(regression, self.kernel, lost=lost)
        return Prepared(
            rows.classes,
            rows.sizes,
            class_sums(rows.y, weights, len(rows.classes)),
            rows.X.dtype,
            kernel,
            regression,
            X=X,
            rows=rows,
            features=features,
            kept=kept,
        )

    def _prepare_blocks(self, source: BlockSource, n_components: int | None) -> Prepared:
        """Prepare rows in blocks by one pass that computes their moments."""
        raw, dtype, features = source, source.dtype, None
        keep = self.probability and self._known_by_moments
        if n_components is None:
            penalty = relative_penalty(self)
            moments, kept = reduce_and_keep(source, keep, block_moments, source.n_classes, penalty)
        else:
            features = fit_map_to_blocks(self, source, n_components)
            require_components_memory(features)
            kept = mapped_kept(source, features) if keep else None
            source = MappedBlocks(source, features)
            if not self._known_by_moments:
                source = in_memory_if_small(source)
            moments = source.reduce(block_moments, source.n_classes)
        prepared = self._prepare_moments(
            moments, source.layout.classes, source.sizes, dtype, features
        )
        prepared.source, prepared.raw_source, prepared.kept = source, raw, kept
        return prepared

    def _prepare_moments(
        self,
        moments: Moments,
        classes: NDArray[Any],
        sizes: Array,
        dtype: np.dtype[Any],
        features: FeatureMap | None = None,
    ) -> Prepared:
        """Prepare a fit from the moments of the rows, which are mapped if there are features."""
        with np.errstate(over="ignore", invalid="ignore"):
            regression = self._moment_regression(moments)
        if features is not None:
            regression.n_features = None  # a relative penalty is in the units of the kernel
        lost = regression.trace < SMALLEST_TRACE and moments.differ
        require_squares_of(regression, self.kernel, lost=lost)
        return Prepared(classes, sizes, moments.weights, dtype, None, regression, features=features)

    def _why_in_memory(self, n_rows: int | None) -> str | None:
        """Explain why the rows must be in memory and what to use instead; None if they need not.

        `n_rows` is None if the rows can only be read in blocks.
        """
        return why_exact_kernel(self, n_rows)

    def _linear_regression(self, X: Any, weights: Array) -> Regression:
        """Create the regression of linear models."""
        return linear_regression(X, weights, centre=self.fit_intercept)

    def _kernel_regression(
        self, kernel: FittedKernel, X: Any, weights: Array
    ) -> KernelRegression | KernelMatrix:
        """Create the regression of models with a kernel."""
        centre = weights if self.fit_intercept else None
        matrix, kernel_mean = kernel.centred_matrix(X, centre, copies=3)
        return KernelRegression(matrix, weights, kernel_mean)

    def _moment_regression(self, moments: Moments) -> MomentRegression:
        """Create the regression of linear models from the moments of the rows."""
        return MomentRegression(moments, centre=self.fit_intercept)

    def _why_no_partial_fit(self) -> str | None:
        if not self._known_by_moments:
            return super()._why_no_partial_fit()
        return reason_no_partial_fit(self)

    def _statistics(self, block: Block, n_classes: int) -> Moments | AddableTuple:
        """Compute the additive statistics of a block of rows that `partial_fit` needs."""
        if self.class_weight is None:
            return block_moments(block, n_classes)
        return moments_by_group(block, block.y, n_classes, n_classes)  # weighted in _fit_state

    def _fit_state(self, state: PartialFitState) -> None:
        """Fit the model to the statistics of `partial_fit`."""
        moments = state.statistics
        if isinstance(moments, AddableTuple):
            factors = state.class_factors(self.class_weight).tolist()
            parts = zip(moments, factors, strict=True)
            moments = reduce(add, (part.scaled(factor) for part, factor in parts))
        prepared = self._prepare_moments(
            moments, state.layout.classes, state.sizes, state.layout.dtype, state.features
        )
        if self.probability:
            prepared.kept = state.kept
        self._fit_and_calibrate(prepared)

    def _set_coefficients(
        self,
        prepared: Prepared,
        coef: Array,
        intercept: Array,
        *,
        sparse: bool = False,
    ) -> None:
        """Set the fitted attributes from coefficients with one column per class.

        With `sparse`, training samples whose kernel functions have no coefficients are dropped.
        """
        rows, offset = (
            in_precision(_one_row_if_binary(each), prepared.dtype) for each in (coef.T, intercept)
        )
        # An earlier fit may have had another kernel.
        for name in ("coef_", "dual_coef_", "X_fit_", "support_", "n_components_", "kernel_error_"):
            self.__dict__.pop(name, None)
        self.classes_ = prepared.classes
        self._kernel, self._features = prepared.kernel, prepared.features
        if prepared.features is not None:
            store_components(self, prepared.features)
        if prepared.kernel is None:
            self.coef_ = rows
        else:
            if sparse:
                used = np.flatnonzero(coef.any(axis=1))
                self.support_ = (used if len(used) else np.zeros(1)).astype(np.int32)
                rows = rows[:, self.support_]
            self.dual_coef_ = rows
            if prepared.kernel.kernel != "precomputed":
                self.X_fit_ = prepared.X[self.support_] if sparse else prepared.X
        self.intercept_ = offset

    def _scores_without(self, prepared: Prepared, solution: Any) -> Array:
        """Compute the scores of `prepared.kept`, each without all of the weight of the row.

        Models that moments determine implement this. The model without a row has the same absolute
        penalty, kernel parameters, components and class weights. Scores that the other rows do not
        determine are NaN.
        """
        raise NotImplementedError

    def _start(self, solution: Any) -> Callable[[Any, Indices], None] | None:
        """Return a function that gives a model without some rows a starting point, or None."""
        return None

    def _calibrate(self, prepared: Prepared, solution: Any) -> None:
        """Calibrate the probabilities of a fitted model on held-out scores."""
        forget_calibration(self)
        if not self.probability:
            return
        if self._known_by_moments and self._calibrate_in_closed_form(prepared, solution):
            return
        if prepared.raw_source is not None:
            calibrate_on_blocks(self, prepared.raw_source)
        else:
            assert prepared.rows is not None
            calibrate_on_rows(self, prepared.rows, start=self._start(solution))

    def _calibrate_in_closed_form(self, prepared: Prepared, solution: Any) -> bool:
        assert prepared.kept is not None
        rows = prepared.rows

        def scores_without(kept: KeptRows) -> Array:
            prepared.kept = kept
            return self._scores_without(prepared, solution)

        return calibrate_in_closed_form(
            self,
            prepared.kept,
            prepared.sizes,
            scores_without,
            None if rows is None else lambda unseen: self._scores_of_rows(rows.X[unseen]),
            warn=rows is not None or prepared.source is not None,
        )

    def _fit_blocks(self, source: BlockSource) -> None:
        """Fit the model to rows in blocks."""
        n_components = components_of(self, None)
        self._fit_prepared(self._prepare_blocks(source, n_components), None, to_rounding=False)

    def _scores_of_rows(self, X: Any) -> Array:
        """Compute the scores of rows that were checked, one column per class."""
        coef = self.coef_ if self._kernel is None else self.dual_coef_
        scores = self._linear_scores(X, coef, self.intercept_)
        columns = class_columns(scores.ravel() if scores.shape[1] == 1 else scores)
        return columns.astype(np.float64)

    @lazily
    def decision_function(self, X: MatrixLike) -> RealArray:
        """Compute the decision values of samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; with ``kernel="precomputed"`` the kernel matrix between these and the training
            samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class; for two classes, the score of the second minus that of the first.
        """
        X = self._new_samples(X)
        rows = self.coef_ if self._kernel is None else self.dual_coef_
        with np.errstate(over="ignore", invalid="ignore"):
            scores = finite_scores(self._linear_scores(X, rows, self.intercept_))
        return scores.ravel() if scores.shape[1] == 1 else scores

    def _new_samples(self, X: ArrayLike) -> Any:
        """Check new samples."""
        return new_rows(self, X)

    def _linear_scores(self, X: Any, rows: NDArray[Any], intercept: NDArray[Any]) -> NDArray[Any]:
        """Compute scores of new samples from rows of feature or kernel coefficients."""
        if self._features is not None:
            return self._features.scores(X, rows, intercept)
        if self._kernel is None:
            return np.asarray(safe_sparse_dot(X, rows.T, dense_output=True) + intercept)
        if self._kernel.kernel == "precomputed" and hasattr(self, "support_"):
            X = X[:, self.support_]
        return self._kernel.scores(X, getattr(self, "X_fit_", None), rows, intercept)


def in_precision(numbers: Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert fitted numbers to the precision of the data; refuse those that overflow."""
    with np.errstate(over="ignore"):
        found = numbers.astype(dtype)
    if not np.isfinite(found).all():
        raise ValueError(
            "The coefficients overflow. Scale the features, for example with "
            "sklearn.preprocessing.StandardScaler, or increase the penalty."
        )
    return found


def require_squares_of(
    regression: NormalEquations | KernelMatrix, kernel: Any, *, lost: bool
) -> None:
    """Raise ValueError if squares of the features overflow, or have been `lost` by underflow."""
    if lost or not regression.trace < LARGEST_TRACE:
        what = "squares of the features" if kernel == "linear" else "values of the kernel"
        raise ValueError(
            f"The {what} overflow or underflow. Scale the features: divide them by their largest "
            "values."
        )


def mapped_kept(source: BlockSource, features: FeatureMap) -> KeptRows:
    """Keep rows of a source, mapped to the components of a kernel."""
    factors = source.layout.factors
    kept: KeptRows = source.reduce(kept_of_block, factors)
    return replace(kept, X=mapped_rows(features, kept.X))


def _one_row_if_binary(rows: Array) -> Array:
    """Convert to scikit-learn's shape: for two classes one row, the second minus the first."""
    return rows[1:] - rows[:1] if len(rows) == 2 else rows
