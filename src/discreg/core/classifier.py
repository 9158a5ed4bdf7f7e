"""Base of the classifiers that are regressions: data in, coefficients out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from .fitted_kernel import FittedKernel
from .labels import encode_labels, row_weights, sample_weights
from .memory import require_memory
from .regression import KernelRegression, Regression, centre_kernel, linear_regression
from .rows import varies
from .scoring import LargestScoreClassifier

__all__ = ["Prepared", "RegressionClassifier"]

SMALLEST_TRACE = 1e-280


@dataclass
class Prepared:
    """Training data in the form that all penalties of a path share."""

    X: Any
    y: NDArray[np.intp]
    weights: NDArray[np.float64]
    copies: NDArray[np.float64]  # the weights without those of the classes
    classes: NDArray[Any]
    kernel: FittedKernel | None  # None: linear
    regression: Regression


class RegressionClassifier(LargestScoreClassifier):
    """Base of classifiers whose scores are linear in the features or in a kernel."""

    fit_intercept: bool
    class_weight: Any
    n_features_in_: int

    def _prepare(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Prepared:
        """Check the data and do all the work that does not depend on the penalty."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        classes, indices = encode_labels(y)
        weights = row_weights(sample_weight, self.class_weight, classes, indices)
        kernel = None if self.kernel == "linear" else FittedKernel.of(self, X, weights)
        if kernel is None:
            require_memory(
                3 * 8 * min(X.shape) ** 2,
                f"A linear fit of {X.shape[0]} samples with {X.shape[1]} features",
                "Reduce the features first, for example with sklearn.decomposition.TruncatedSVD.",
            )
            with np.errstate(over="ignore", invalid="ignore"):  # the trace tells
                regression = self._linear_regression(X, weights)
        else:
            matrix = kernel.training_matrix(X, copies=3)
            kernel_mean = centre_kernel(matrix, weights) if self.fit_intercept else None
            kernel.require_psd(matrix, X)
            regression = KernelRegression(matrix, weights, kernel_mean)
        lost = kernel is None and regression.trace < SMALLEST_TRACE and varies(X)
        if lost or not np.isfinite(regression.scale):
            raise ValueError(
                "The squares of the features overflow or vanish. Scale the features, for example "
                "with sklearn.preprocessing.StandardScaler."
            )
        copies = sample_weights(sample_weight, len(indices))
        return Prepared(X, indices, weights, copies, classes, kernel, regression)

    def _linear_regression(self, X: Any, weights: NDArray[np.float64]) -> Regression:
        """The regression of linear models."""
        return linear_regression(X, weights, centre=self.fit_intercept)

    def _set_coefficients(
        self, prepared: Prepared, coef: NDArray[np.float64], intercept: NDArray[np.float64]
    ) -> None:
        """Set what predictions need from one column a class, raw as `Regression.predictor`'s."""
        dtype = prepared.X.dtype
        for name in ("coef_", "dual_coef_", "X_fit_"):  # of an earlier fit with another kernel
            self.__dict__.pop(name, None)
        self.classes_ = prepared.classes
        self._kernel = prepared.kernel
        if prepared.kernel is None:
            self.coef_ = _one_row_if_binary(coef.T).astype(dtype)
        else:
            self.dual_coef_ = _one_row_if_binary(coef.T).astype(dtype)
            if prepared.kernel.kernel != "precomputed":
                self.X_fit_ = prepared.X
        self.intercept_ = _one_row_if_binary(intercept).astype(dtype)

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; with ``kernel="precomputed"`` the kernel between them and the training
            samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column a class; for two classes the score of the second minus that of the first.
        """
        X = self._new_samples(X)
        rows = self.coef_ if self._kernel is None else self.dual_coef_
        scores = self._linear_scores(X, rows, self.intercept_)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def _new_samples(self, X: ArrayLike) -> Any:
        """Check samples to be judged."""
        check_is_fitted(self)
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
        )

    def _linear_scores(self, X: Any, rows: NDArray[Any], intercept: NDArray[Any]) -> NDArray[Any]:
        """Scores of new samples by rows of coefficients, of the features or of the kernel."""
        if self._kernel is None:
            return np.asarray(safe_sparse_dot(X, rows.T, dense_output=True) + intercept)
        return self._kernel.scores(X, getattr(self, "X_fit_", None), rows, intercept)


def _one_row_if_binary(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """scikit-learn's shape: for two classes one row, the second minus the first."""
    return rows[1:] - rows[:1] if len(rows) == 2 else rows
