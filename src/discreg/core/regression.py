"""The regression engine: ridge regression onto any targets, factored once and used many times.

A regression holds centred features and sample weights; `at` fixes the penalty. Its coefficients
live in one of two coordinates:

* primal, one row a feature, with the d × d matrix XᵀSX + βI;
* dual, one row a sample (W = ΦᵀA with Φ the centred features), with the n × n matrix SK + βI.

Both give the same scores, gradients and inner products of the same W, so that a solver written
on this interface takes the same steps whichever form is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from .linalg import psd_solver
from .rows import CONSTANT, centred_gram, pull_back, row_blocks, times, weighted_mean

__all__ = ["DualRegression", "PrimalRegression", "Regression", "linear_gram", "linear_regression"]

Array = NDArray[np.float64]
RowBlocks = Callable[[], Iterator[tuple[slice, Array]]]


class Regression(Protocol):
    """What a solver may ask of a regression, whatever its coordinates."""

    weights: Array
    beta: float
    trace: float  # weighted sum of squares of the centred features
    n_features: int | None  # None: a kernel's feature map
    size: int  # rows of the coefficients
    centred: bool

    @property
    def scale(self) -> float:
        """The unit of a relative penalty, equation (15) of ReLSR; for a kernel tr(HKH)/n."""

    def at(self, beta: float) -> None:
        """Fix the penalty and factor the normal equations."""

    def scores(self, coef: Array) -> Array:
        """Centred scores of the training rows."""

    def gradient(self, weighted_residuals: Array) -> Array:
        """ΦᵀG for residuals G already multiplied by the weights."""

    def precondition(self, gradient: Array) -> tuple[Array, Array]:
        """Coefficients (ΦᵀSΦ + βI)⁻¹ gradient, and their scores."""

    def inner(self, left: Array, right: Array, right_scores: Array) -> float:
        """Inner product ⟨left, right⟩ of two W, given the centred scores of the right one."""

    def square(self, coef: Array) -> float:
        """Squared norm ‖W‖² when the scores are not at hand."""

    def predictor(self, coef: Array) -> tuple[Array, Array]:
        """Coefficients of the raw features or of the raw kernel, and their mean score."""

    def eigen(self) -> tuple[Array, RowBlocks]:
        """Eigenvalues of ΦᵀSΦ, and the rows of Φ in its eigenvectors, block by block."""


class _WeightedRows:
    """What both coordinates share."""

    weights: Array
    trace: float
    n_features: int | None

    @property
    def scale(self) -> float:
        return float(self.trace / (self.n_features or self.weights.sum()))


class PrimalRegression(_WeightedRows):
    """Coefficients of the features: for no more features than samples.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_samples, n_features)
    weights : ndarray of shape (n_samples,)
        Sample weights; a row of weight zero takes no part in the fit, but has scores.
    centre : bool
        Whether the weighted mean of the features is taken out (an unpenalised intercept).
    """

    beta = 0.0

    def __init__(self, X: Any, weights: Array, *, centre: bool) -> None:
        self.X, self.weights, self.centred = X, weights, centre
        self.size = self.n_features = X.shape[1]
        self.mean = weighted_mean(X, weights) if centre else None
        self.gram = centred_gram(X, weights, self.mean)
        self.trace = float(self.gram.trace())

    def at(self, beta: float) -> None:
        self.beta = beta
        matrix = self.gram.copy()
        matrix[np.diag_indices_from(matrix)] += beta
        self._solve = psd_solver(matrix)

    def scores(self, coef: Array) -> Array:
        product = times(self.X, coef)
        if self.mean is not None:
            product -= self.mean @ coef
        return product

    def gradient(self, weighted_residuals: Array) -> Array:
        product = pull_back(self.X, weighted_residuals)
        if self.mean is not None:
            product -= np.outer(self.mean, np.ones(len(weighted_residuals)) @ weighted_residuals)
        return product

    def precondition(self, gradient: Array) -> tuple[Array, Array]:
        coef = self._solve(gradient)
        return coef, self.scores(coef)

    def inner(self, left: Array, right: Array, right_scores: Array) -> float:
        return float(np.vdot(left, right))

    def square(self, coef: Array) -> float:
        return float(np.vdot(coef, coef))

    def predictor(self, coef: Array) -> tuple[Array, Array]:
        return coef, np.zeros(coef.shape[1]) if self.mean is None else self.mean @ coef

    def eigen(self) -> tuple[Array, RowBlocks]:
        values, vectors = linalg.eigh(self.gram, check_finite=False)
        mean_part = 0.0 if self.mean is None else self.mean @ vectors

        def blocks() -> Iterator[tuple[slice, Array]]:
            for rows in row_blocks(*self.X.shape):
                yield rows, self.X[rows] @ vectors - mean_part

        return values.clip(min=0.0), blocks


class DualRegression(_WeightedRows):
    """Coefficients of the training samples: for a kernel, or more features than samples.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)
        Kernel matrix; it is centred in place when `centre`.
    weights : ndarray of shape (n_samples,)
        Sample weights; a row of weight zero takes no part in the fit, but has scores.
    centre : bool
        Whether the weighted mean of the feature map is taken out (an unpenalised intercept).
    X : ndarray or CSR, default=None
        The features, when the kernel is their inner product.
    mean : ndarray of shape (n_features,), default=None
        Their weighted mean, when `centre`.
    """

    beta = 0.0

    def __init__(
        self,
        kernel: Array,
        weights: Array,
        *,
        centre: bool,
        X: Any = None,
        mean: Array | None = None,
    ) -> None:
        self.weights, self.centred, self.X, self.mean = weights, centre, X, mean
        self.size = len(kernel)
        self.kernel_mean = np.zeros(len(kernel))
        if centre:
            size = np.abs(kernel).max()
            self.kernel_mean = kernel @ weights / weights.sum()
            kernel -= self.kernel_mean
            kernel -= self.kernel_mean[:, None]
            kernel += weights @ self.kernel_mean / weights.sum()
            if np.abs(kernel).max() <= CONSTANT * size:
                kernel[...] = 0.0
        self.kernel = kernel
        self.n_features = None if X is None else X.shape[1]
        self.trace = float(weights @ kernel.diagonal())

    def at(self, beta: float) -> None:
        self.beta = beta
        root = np.sqrt(self.weights)
        matrix = self.kernel * root[:, None]
        matrix *= root
        matrix[np.diag_indices_from(matrix)] += beta
        self._solve = psd_solver(matrix)

    def scores(self, coef: Array) -> Array:
        return self.kernel @ coef

    def gradient(self, weighted_residuals: Array) -> Array:
        if not self.centred:
            return weighted_residuals
        # Φᵀs = 0: of all coordinates of the same W, those whose columns sum to zero.
        shares = self.weights / self.weights.sum()
        return weighted_residuals - np.outer(shares, weighted_residuals.sum(axis=0))

    def precondition(self, gradient: Array) -> tuple[Array, Array]:
        weightless = self.weights == 0
        divisor = np.where(weightless, 1.0, self.weights)[:, None]
        coef = np.sqrt(self.weights)[:, None] * self._solve(gradient / np.sqrt(divisor))
        if self.beta == 0:
            return coef, self.scores(coef)
        # (SK + βI) coef = gradient gives the scores without another product.
        scores = (gradient - self.beta * coef) / divisor
        scores[weightless] = self.kernel[weightless] @ coef
        return coef, scores

    def inner(self, left: Array, right: Array, right_scores: Array) -> float:
        return float(np.vdot(left, right_scores))

    def square(self, coef: Array) -> float:
        return max(float(np.vdot(coef, self.scores(coef))), 0.0)

    def predictor(self, coef: Array) -> tuple[Array, Array]:
        if self.X is None:
            return coef, self.kernel_mean @ coef
        coef = pull_back(self.X, coef)
        return coef, np.zeros(coef.shape[1]) if self.mean is None else self.mean @ coef

    def eigen(self) -> tuple[Array, RowBlocks]:
        root = np.sqrt(self.weights)
        values, vectors = linalg.eigh(root[:, None] * self.kernel * root, check_finite=False)
        values = values.clip(min=0.0)
        vectors *= np.sqrt(values)
        vectors /= np.where(root > 0, root, 1.0)[:, None]

        def blocks() -> Iterator[tuple[slice, Array]]:
            for rows in row_blocks(*vectors.shape):
                yield rows, vectors[rows]

        return values, blocks


def linear_regression(X: Any, weights: Array, *, centre: bool) -> PrimalRegression | DualRegression:
    """Linear regression in the cheaper of its two coordinates."""
    n_samples, n_features = X.shape
    if n_features <= n_samples:
        return PrimalRegression(X, weights, centre=centre)
    mean = weighted_mean(X, weights) if centre else None
    return DualRegression(linear_gram(X, mean), weights, centre=centre, X=X, mean=mean)


def linear_gram(X: Any, mean: Array | None) -> Array:
    """``(X - mean)(X - mean)ᵀ``, n × n; a dense X is centred a block of columns at a time."""
    n_samples, n_features = X.shape
    gram = np.zeros((n_samples, n_samples))
    if sparse.issparse(X):
        for rows in row_blocks(n_samples, n_samples):
            gram[rows] = (X[rows] @ X.T).toarray()
        return gram
    for columns in row_blocks(n_features, n_samples):
        block = np.asarray(X[:, columns], dtype=np.float64)
        if mean is not None:
            block = block - mean[columns]
            block[:, np.abs(block).max(axis=0) <= CONSTANT * np.abs(mean[columns])] = 0.0
        gram += block @ block.T
    return gram
