"""Base class of the regression classifiers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.extmath import safe_sparse_dot

from discreg.blocks.kept_rows import KeptRows, keep_rows, kept_of_block
from discreg.blocks.lazy import lazily
from discreg.blocks.mapped import MappedBlocks
from discreg.blocks.moment_ridge import MomentRegression
from discreg.blocks.moments import (
    Moments,
    block_moments,
    moments_and_rows,
    moments_by_group,
    source_moments,
)
from discreg.blocks.precision import relative_penalty
from discreg.blocks.source import AddableTuple, ArrayBlocks, Block, BlockSource, open_blocks
from discreg.blocks.validation import (
    encode_labels,
    in_blocks,
    new_rows,
    number_of_rows,
    row_weights,
    sample_weights,
    training_rows,
)
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernel_approximation import FeatureMap, mapped_rows
from discreg.linalg.kernel_rows import KernelRows
from discreg.linalg.resources import require_memory
from discreg.linalg.ridge import KernelRegression, NormalEquations, Regression, linear_regression
from discreg.linalg.rows import class_sums, varies
from discreg.linalg.types import Array, Indices, MatrixLike, RealArray

from .calibration import class_columns
from .classifier import BaseClassifier, finite_scores
from .components import (
    components_of,
    fit_map,
    fit_map_to_blocks,
    fits_in_memory,
    in_memory_if_small,
    require_components_memory,
    store_components,
    why_exact_kernel,
    why_no_kernel_in_parts,
)
from .full_sets import TrainingLabels
from .left_out import LeftOut, calibrate, forget_calibration, leavable_rows
from .partial_fit import PartialFitState

__all__ = [
    "SMALLEST_TRACE",
    "Prepared",
    "RegressionClassifier",
    "in_precision",
    "mapped_kept",
    "require_squares_of",
]

SMALLEST_TRACE, LARGEST_TRACE = 1e-280, 1e280  # sums of squares of the features


@dataclass
class Prepared:
    """Training data in the form that all penalties of a path use."""

    classes: NDArray[Any]
    sizes: Array  # sum of the sample weights in each class
    class_weights: Array  # sum of sample weight times class weight in each class
    dtype: np.dtype[Any]
    kernel: FittedKernel | None  # None: linear, or approximated by features
    regression: Any  # a Regression, or a MomentRegression if the rows are not in memory
    X: Any = None
    y: Any = None
    weights: Any = None
    copies: Any = None  # sample weights without class weights
    source: BlockSource | None = None  # the rows if they are not in memory
    features: FeatureMap | None = None  # components that approximate a kernel
    kept: KeptRows | None = None  # rows to hold out, in the features of the regression

    @property
    def kept_features(self) -> Array:
        """Centred features of the rows to hold out; of a kernel, those of its feature map."""
        assert self.kept is not None
        in_memory = self.y is not None
        rows = self.regression.X[self.kept.places] if in_memory else self.kept.X
        return np.asarray(self.regression.centred_rows(rows))

    def cross(self, X: Any) -> Any:
        """Compute what the coefficients multiply for new samples: features or kernel values."""
        if self.features is not None:
            return self.features(X)
        if self.kernel is None or self.kernel.kernel == "precomputed":
            return X
        return self.kernel(X, self.X)

    def in_precision(self, numbers: Array) -> NDArray[Any]:
        """Convert fitted numbers to the precision of the data; refuse those that overflow."""
        return in_precision(numbers, self.dtype)


class RegressionClassifier(BaseClassifier):
    """Base class of classifiers whose scores are linear in the features or in a kernel."""

    fit_intercept: bool
    n_features_in_: int
    intercept_: RealArray
    _features: FeatureMap | None = None  # components that approximate the kernel
    _has_full_sets = False  # whether full conformal prediction is implemented
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
        copies = sample_weights(sample_weight, len(indices))
        sizes, class_weights = (
            class_sums(indices, each, len(classes)) for each in (copies, weights)
        )
        kept = None
        if self.probability:
            hashed = self.kernel != "precomputed"
            kept = keep_rows(X, indices, copies, class_weights / sizes, hashed=hashed)
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
        require_squares_of(regression, self.kernel, lost=lost)
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
            kept=kept,
        )

    def _prepare_blocks(self, source: BlockSource, n_components: int | None) -> Prepared:
        """Prepare rows in blocks by one pass that computes their moments."""
        dtype, features = source.dtype, None
        if n_components is None:
            moments, kept = moments_and_rows(source, relative_penalty(self), keep=self.probability)
        else:
            features, kept = fit_map_to_blocks(self, source, n_components), None
            require_components_memory(features)
            if self.probability:  # drawn by the values of the rows themselves
                kept = mapped_kept(source, features)
            source = MappedBlocks(source, features)
            if not self._known_by_moments:
                source = in_memory_if_small(source)
            moments = source_moments(source)
        prepared = self._prepare_moments(
            moments, source.layout.classes, source.sizes, dtype, features
        )
        prepared.source, prepared.kept = source, kept
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
        prepared = self._prepare_moments(
            moments, state.layout.classes, state.sizes, state.layout.dtype, state.features
        )
        if self.probability:
            prepared.kept = state.kept_rows(self.class_weight)
        self._fit_moments(prepared)

    def _set_coefficients(
        self,
        prepared: Prepared,
        coef: Array,
        intercept: Array,
        *,
        sparse: bool = False,
    ) -> None:
        """Set the fitted attributes from coefficients with one column per class.

        With `sparse`, training samples whose kernel functions have no coefficients are dropped,
        unless full conformal prediction needs them.
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
            store_components(self, prepared.features)
        if prepared.kernel is None:
            self.coef_ = rows
        else:
            if sparse:
                has_coef = coef.any(axis=1)
                if self._has_full_sets and self.probability:
                    has_coef |= prepared.weights > 0
                used = np.flatnonzero(has_coef)
                self.support_ = (used if len(used) else np.zeros(1)).astype(np.int32)
                rows = rows[:, self.support_]
            self.dual_coef_ = rows
            if prepared.kernel.kernel != "precomputed":
                self.X_fit_ = prepared.X[self.support_] if sparse else prepared.X
        self.intercept_ = offset

    @abstractmethod
    def _left_out(self, prepared: Prepared, solution: Any) -> LeftOut:
        """Compute the scores of `prepared.kept`, each without one unit of the weight of the row.

        The model without it has the same absolute penalty, kernel parameters, components and class
        weights.
        """

    def _calibrate(self, prepared: Prepared, solution: Any) -> None:
        """Calibrate the probabilities of a fitted model on held-out scores."""
        forget_calibration(self)
        if not self.probability:
            return
        assert prepared.kept is not None
        in_parts = prepared.y is None and prepared.source is None
        kept = leavable_rows(
            prepared.kept, prepared.class_weights, prepared.classes, warn=not in_parts
        )
        prepared.kept = kept
        with np.errstate(all="ignore"):  # scores that are not finite are not used
            left_out = self._left_out(prepared, solution)
        calibrate(
            self,
            kept,
            left_out,
            seen=None if prepared.y is None else prepared.weights > 0,
            scores_of=lambda rows: class_columns(self._scores_of_training(prepared, rows)),
            warn=not in_parts,
        )
        if self._has_full_sets and hasattr(self, "X_fit_"):
            self._keep_labels(prepared)

    def _keep_labels(self, prepared: Prepared) -> None:
        """Keep the labels and weights of the rows of `X_fit_`."""
        rows = getattr(self, "support_", np.arange(len(prepared.y)))
        factors = prepared.class_weights / prepared.sizes
        y, copies = prepared.y[rows], prepared.copies[rows]
        units = np.minimum(copies, 1.0) * factors[y]
        self._labels = TrainingLabels(
            y, prepared.weights[rows], units, factors, prepared.regression.beta
        )

    def _scores_of_training(self, prepared: Prepared, rows: Indices) -> RealArray:
        """Compute decision values of some training samples in memory."""
        X = prepared.X[rows]
        if prepared.features is not None:
            scores = np.asarray(X @ self.coef_.T + self.intercept_)
        else:
            coef = self.coef_ if self._kernel is None else self.dual_coef_
            scores = self._linear_scores(X, coef, self.intercept_)
        return scores.ravel() if scores.shape[1] == 1 else scores

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


def require_squares_of(regression: NormalEquations, kernel: Any, *, lost: bool) -> None:
    """Raise ValueError if squares of the features overflow, or have been `lost` by underflow."""
    if lost or not regression.trace < LARGEST_TRACE:
        what = "squares of the features" if kernel == "linear" else "values of the kernel"
        raise ValueError(
            f"The {what} overflow or underflow. Scale the features, for example with "
            "sklearn.preprocessing.StandardScaler."
        )


def mapped_kept(source: BlockSource, features: FeatureMap) -> KeptRows:
    """Keep rows of a source, mapped to the components of a kernel."""
    factors = source.layout.factors
    kept: KeptRows = source.reduce(kept_of_block, factors)
    return replace(kept, X=mapped_rows(features, kept.X)).scaled(factors)


def _one_row_if_binary(rows: Array) -> Array:
    """Convert to scikit-learn's shape: for two classes one row, the second minus the first."""
    return rows[1:] - rows[:1] if len(rows) == 2 else rows
