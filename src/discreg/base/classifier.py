"""Base classes of all classifiers and of the regression classifiers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if

from discreg.blocks.lazy import lazily
from discreg.blocks.mapped import MappedBlocks
from discreg.blocks.moment_ridge import MomentRegression
from discreg.blocks.moments import Moments, block_moments, moments_by_group, source_moments
from discreg.blocks.precision import relative_penalty
from discreg.blocks.source import (
    AddableTuple,
    ArrayBlocks,
    Block,
    BlockSource,
    open_blocks,
)
from discreg.blocks.validation import (
    check_params,
    encode_labels,
    in_blocks,
    is_dask,
    new_rows,
    number_of_rows,
    row_weights,
    sample_weights,
    set_input_tags,
    training_rows,
)
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernel_approximation import FeatureMap, mapped_rows
from discreg.linalg.kernel_rows import KernelRows
from discreg.linalg.resources import (
    require_memory,
    threads_for_fit,
)
from discreg.linalg.ridge import (
    KernelRegression,
    NormalEquations,
    Regression,
    linear_regression,
)
from discreg.linalg.rows import class_sums, varies
from discreg.linalg.types import ClassWeight, Labels, MatrixLike, RealArray

from .components import (
    components_of,
    fit_map,
    fit_map_to_blocks,
    fits_in_memory,
    in_memory_if_small,
    require_components_memory,
    why_exact_kernel,
    why_no_kernel_in_parts,
)
from .missing_params import with_missing_params
from .partial_fit import (
    PartialFitState,
    merge_partial_fits,
    update_partial_fit,
)

__all__ = ["BaseClassifier", "Prepared", "RegressionClassifier", "finite_scores"]

SMALLEST_TRACE, LARGEST_TRACE = 1e-280, 1e280  # sums of squares of the features


def _supports_partial_fit(estimator: Any) -> bool:
    reason = estimator._why_no_partial_fit()
    if reason is not None:
        raise AttributeError(f"{type(estimator).__name__} has no partial_fit and merge: {reason}")
    return True


class BaseClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Base class of all classifiers: `predict`, `score`, and `partial_fit` where supported.

    Methods that treat rows one by one are lazy on Dask collections.
    """

    kernel: Any
    class_weight: ClassWeight
    classes_: NDArray[Any]
    _constraints: dict[str, Any]
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
        for name in list(vars(self)):
            if name.endswith("_") and not name.startswith("_") and not name.endswith("_in_"):
                delattr(self, name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(with_missing_params(type(self), state))

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the model can predict: with `partial_fit`, once every class was seen."""
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        set_input_tags(tags.input_tags, self.kernel)
        return tags


@dataclass
class Prepared:
    """Training data in the form that all penalties of a path use."""

    classes: NDArray[Any]
    sizes: NDArray[np.float64]  # sum of the sample weights in each class
    class_weights: NDArray[np.float64]  # sum of sample weight times class weight in each class
    dtype: np.dtype[Any]
    kernel: FittedKernel | None  # None: linear, or approximated by features
    regression: Any  # a Regression, or a MomentRegression if the rows are not in memory
    X: Any = None
    y: Any = None
    weights: Any = None
    copies: Any = None  # sample weights without class weights
    source: BlockSource | None = None  # the rows if they are not in memory
    features: FeatureMap | None = None  # components that approximate a kernel

    def cross(self, X: Any) -> Any:
        """Compute what the coefficients multiply for new samples: features or kernel values."""
        if self.features is not None:
            return self.features(X)
        if self.kernel is None or self.kernel.kernel == "precomputed":
            return X
        return self.kernel(X, self.X)

    def in_precision(self, numbers: NDArray[np.float64]) -> NDArray[Any]:
        """Convert fitted numbers to the precision of the data; refuse those that overflow."""
        with np.errstate(over="ignore"):
            found = numbers.astype(self.dtype)
        if not np.isfinite(found).all():
            raise ValueError(
                "The coefficients overflow. Scale the features, for example with "
                "sklearn.preprocessing.StandardScaler, or increase the penalty."
            )
        return found


class RegressionClassifier(BaseClassifier):
    """Base class of classifiers whose scores are linear in the features or in a kernel."""

    fit_intercept: bool
    n_features_in_: int
    _features: FeatureMap | None = None  # components that approximate the kernel
    _known_by_moments = False  # whether the moments of the rows determine the model

    def _prepare(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Prepared:
        """Check the data and do all the work that does not depend on the penalty."""
        self._forget_parts()
        if in_blocks(self, X):
            n_components = components_of(self, number_of_rows(X))
            source = open_blocks(self, X, y, sample_weight, self.class_weight)
            return self._prepare_blocks(source, n_components)
        X, y = training_rows(self, X, y)
        classes, indices = encode_labels(y)
        weights = row_weights(sample_weight, self.class_weight, classes, indices)
        dtype, kernel, features = X.dtype, None, None
        n_components = None if self.kernel == "linear" else components_of(self, X.shape[0])
        if n_components is not None:
            if self._why_in_memory(None) is None and not fits_in_memory(X.shape[0], n_components):
                source = ArrayBlocks(X, y, sample_weight, self.class_weight)
                return self._prepare_blocks(source, n_components)
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
                regression: Any = self._linear_regression(X, weights)
            if features is not None:
                regression.n_features = None  # a relative penalty is in the units of the kernel
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                regression = self._kernel_regression(kernel, X, weights)
        lost = kernel is None and regression.trace < SMALLEST_TRACE and varies(X)
        self._require_squares(regression, lost=lost)
        copies = sample_weights(sample_weight, len(indices))
        sizes, class_weights = (
            class_sums(indices, each, len(classes)) for each in (copies, weights)
        )
        return Prepared(
            classes,
            sizes,
            class_weights,
            dtype,
            kernel,
            regression,
            X=X,
            y=indices,
            weights=weights,
            copies=copies,
            features=features,
        )

    def _prepare_blocks(self, source: BlockSource, n_components: int | None) -> Prepared:
        """Prepare rows in blocks by one pass that computes their moments."""
        dtype, features, penalty = source.dtype, None, relative_penalty(self)
        if n_components is not None:
            features, penalty = fit_map_to_blocks(self, source, n_components), 0.0
            source = MappedBlocks(source, features)
            require_components_memory(features)
            if not self._known_by_moments:
                source = in_memory_if_small(source)
        moments = source_moments(source, penalty)
        prepared = self._prepare_moments(
            moments, source.layout.classes, source.sizes, dtype, features
        )
        prepared.source = source
        return prepared

    def _prepare_moments(
        self,
        moments: Moments,
        classes: NDArray[Any],
        sizes: NDArray[np.float64],
        dtype: np.dtype[Any],
        features: FeatureMap | None = None,
    ) -> Prepared:
        """Prepare a fit from the moments of the rows, which are mapped if there are features."""
        with np.errstate(over="ignore", invalid="ignore"):
            regression = self._moment_regression(moments)
        if features is not None:
            regression.n_features = None  # a relative penalty is in the units of the kernel
        lost = regression.trace < SMALLEST_TRACE and moments.differ
        self._require_squares(regression, lost=lost)
        return Prepared(classes, sizes, moments.weights, dtype, None, regression, features=features)

    def _require_squares(self, regression: NormalEquations, *, lost: bool) -> None:
        if lost or not regression.trace < LARGEST_TRACE:
            what = "squares of the features" if self.kernel == "linear" else "values of the kernel"
            raise ValueError(
                f"The {what} overflow or underflow. Scale the features, for example with "
                "sklearn.preprocessing.StandardScaler."
            )

    def _why_in_memory(self, n_rows: int | None) -> str | None:
        """Explain why the rows must be in memory and what to use instead; None if they need not.

        `n_rows` is None if the rows can only be read in blocks.
        """
        return why_exact_kernel(self, n_rows)

    def _linear_regression(self, X: Any, weights: NDArray[np.float64]) -> Regression:
        """Create the regression of linear models."""
        return linear_regression(X, weights, centre=self.fit_intercept)

    def _kernel_regression(
        self, kernel: FittedKernel, X: Any, weights: NDArray[np.float64]
    ) -> KernelRegression | KernelRows:
        """Create the regression of models with a kernel."""
        centre = weights if self.fit_intercept else None
        matrix, kernel_mean = kernel.centred_matrix(X, centre, copies=3)
        return KernelRegression(matrix, weights, kernel_mean)

    def _moment_regression(self, moments: Moments) -> MomentRegression:
        """Create the regression of linear models from the moments of the rows."""
        return MomentRegression(moments, centre=self.fit_intercept)

    def _fit_moments(self, prepared: Prepared) -> None:
        """Fit the model from the moments of the rows, if they determine it."""
        raise AttributeError(self._why_no_partial_fit())

    def _why_no_partial_fit(self) -> str | None:
        if not self._known_by_moments:
            return super()._why_no_partial_fit()
        return why_no_kernel_in_parts(self)

    def _statistics(self, block: Block, n_classes: int) -> Moments | AddableTuple:
        if self.class_weight is None:
            return block_moments(block, n_classes)
        return moments_by_group(block, block.y, n_classes, n_classes)  # weighted in _fit_state

    def _fit_state(self, state: PartialFitState) -> None:
        moments = state.statistics
        if isinstance(moments, AddableTuple):
            factors = state.class_factors(self.class_weight).tolist()
            parts = zip(moments, factors, strict=True)
            moments = reduce(add, (part.scaled(factor) for part, factor in parts))
        self._fit_moments(
            self._prepare_moments(
                moments, state.layout.classes, state.sizes, state.layout.dtype, state.features
            )
        )

    def _set_coefficients(
        self,
        prepared: Prepared,
        coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
        *,
        sparse: bool = False,
    ) -> None:
        """Set the fitted attributes from coefficients with one column per class.

        With `sparse`, training samples whose kernel functions have no coefficients are dropped.
        """
        rows, offset = (
            prepared.in_precision(_one_row_if_binary(each)) for each in (coef.T, intercept)
        )
        # An earlier fit may have had another kernel.
        for name in ("coef_", "dual_coef_", "X_fit_", "support_", "n_components_", "kernel_error_"):
            self.__dict__.pop(name, None)
        self.classes_ = prepared.classes
        self._kernel, self._features = prepared.kernel, prepared.features
        if prepared.features is not None:
            self.n_components_ = prepared.features.n_components
            self.kernel_error_ = prepared.features.error
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


def finite_scores(scores: RealArray) -> RealArray:
    """Return scores of new samples; raise ValueError if they are infinite or NaN."""
    if not np.isfinite(scores).all():
        raise ValueError(
            "The scores of these samples overflow or are NaN. Scale the features as in training, "
            "for example with sklearn.preprocessing.StandardScaler in a pipeline."
        )
    return scores


def _one_row_if_binary(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert to scikit-learn's shape: for two classes one row, the second minus the first."""
    return rows[1:] - rows[:1] if len(rows) == 2 else rows
