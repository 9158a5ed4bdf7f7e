"""Ridge regression, factored once and solved for many targets and ranks.

A regression stores centred features and sample weights; `at` sets the penalty β and factors
ΦᵀSΦ + βI. `Regression` uses the features themselves. `KernelRegression` uses the coordinates of a
kernel's feature map in the span of the training samples, for non-linear kernels and for data with
more features than samples.

`rank_coefficients` limits the rank. For the targets T let W = (ΦᵀSΦ + βI)⁻¹ΦᵀST. Let V be the
eigenvectors of M = (ΦᵀST)ᵀW in descending order of the eigenvalues, and V_s its first s columns.
Then W V_s V_sᵀ minimises the penalised squared error over all coefficients B of rank at most s.
This error is a constant plus tr((W − B)ᵀ(ΦᵀSΦ + βI)(W − B)). By the Eckart-Young theorem, the best
B of rank s keeps the s largest singular values of (ΦᵀSΦ + βI)^½ W, whose right singular vectors are
the columns of V.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from .factorisation import EPS, PsdSolver, cholesky_features, eigen_features, eigh, psd_solver
from .fitted_kernel import centre_kernel, largest_before_centring
from .resources import threads_for
from .rows import (
    centred_gram,
    class_sums,
    class_totals,
    linear_gram,
    matmul,
    rmatmul,
    row_blocks,
    row_dots,
    weighted_mean,
)
from .types import Array, Indices

ZERO = 1e-13  # relative size below which an eigenvalue is a rounding error
TIED = 1e-9  # relative difference below which eigenvalues count as equal

RowBlocks = Callable[[], Iterator[tuple[slice, Array]]]


class NormalEquations(ABC):
    """Normal equations of ridge regression for any targets.

    Attributes
    ----------
    beta : float
        Penalty, set by `at`.
    trace : float
        Weighted sum of squares of the centred features.
    n_features : int or None
        Number of features; None for a kernel's feature map.
    centred : bool
        Whether there is an intercept.
    error : float
        Relative error of the Gram matrix beyond rounding in float64.
    within_class : float
        Weight ω of the penalty tr(WᵀS_wW), set before `at`.
    scatter : ndarray of shape (size, size) or None
        Within-class scatter S_w of the features; needed if `within_class` is positive.
    """

    beta = error = within_class = 0.0
    scatter: Any = None
    n_features: int | None
    centred: bool
    mean: Array | None
    trace: float
    total: float
    solve: PsdSolver
    _solve_penalty: PsdSolver

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of columns of Φ, and of rows of the coefficients."""

    @property
    @abstractmethod
    def gram(self) -> Array:
        """The matrix ΦᵀSΦ."""

    @abstractmethod
    def class_totals(self, y: Any, n_classes: int) -> tuple[Array, Array]:
        """Compute ΦᵀSY for the zero-one matrix Y of the classes, and the weight of each class."""

    @property
    def scale(self) -> float:
        """Unit of a relative penalty, equation (15) of ReLSR; for a kernel tr(HKH)/n."""
        return float(self.trace / (self.n_features or self.total))

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Whether each feature is constant up to rounding."""
        return np.asarray(self.gram.diagonal() == 0)

    def at(self, beta: float) -> None:
        """Set the penalty and factor the normal equations."""
        self.beta = beta
        matrix = self.with_scatter(self.gram)
        matrix[np.diag_indices_from(matrix)] += beta
        self.solve = psd_solver(matrix)
        if self.within_class > 0:
            penalty = self.with_scatter(np.zeros_like(self.gram))
            penalty[np.diag_indices_from(penalty)] += beta
            self._solve_penalty = psd_solver(penalty)

    def with_scatter(self, matrix: Array) -> Array:
        """Return the sum of a matrix and ωS_w."""
        if self.within_class == 0:
            return matrix.copy()
        return np.asarray(matrix + self.within_class * self.scatter)

    def penalised(self, coef: Array) -> Array:
        """Compute (βI + ωS_w)W, half the gradient of the penalty."""
        product = self.beta * coef
        if self.within_class > 0:
            product += self.within_class * (self.scatter @ coef)
        return product

    def penalty(self, coef: Array, other: Array) -> float:
        """Compute ⟨W, (βI + ωS_w)V⟩; without β the norms, which may overflow, do not count."""
        product = self.beta * float(np.vdot(coef, other)) if self.beta > 0 else 0.0
        if self.within_class > 0:
            product += self.within_class * float(np.vdot(coef, self.scatter @ other))
        return product

    def dual_square(self, gradient: Array) -> float:
        """Compute ⟨G, (βI + ωS_w)⁻¹G⟩ for β > 0, or slightly more due to rounding.

        For an approximate solution Z with the residual R it is at most ⟨Z, G + R⟩ + ‖R‖²/β.
        """
        if self.within_class == 0:
            return float(np.vdot(gradient, gradient)) / self.beta
        solved = self._solve_penalty(gradient)
        rest = gradient - self.penalised(solved)
        square = float(np.vdot(solved, gradient + rest)) + float(np.vdot(rest, rest)) / self.beta
        return max(square, 0.0)

    def shift(self, coef: Array, offset: Array) -> Array:
        """Compute the row that is added to the scores XW of the raw features to obtain ΦW + 1bᵀ."""
        return offset if self.mean is None else offset - self.mean @ coef

    def centre(self, product: Array, totals: Array) -> Array:
        """Compute ΦᵀG from XᵀG and the column sums of G; constant features are exactly zero."""
        if self.mean is None:
            return product
        return self.without_constant(product - np.outer(self.mean, totals))

    def centred_rows(self, X: Any) -> Array:
        """Convert rows of the features to a dense array of rows of Φ."""
        rows = X.toarray() if sparse.issparse(X) else X
        if self.mean is None:
            return np.asarray(rows, dtype=np.float64)
        rows = rows - self.mean
        rows[:, self.constant] = 0.0
        return np.asarray(rows)

    def leverages(self, features: Array) -> Array:
        """Compute the derivatives of the scores of rows of Φ by targets of their own, for weight 1.

        They are φᵀ(ΦᵀSΦ + βI)⁻¹φ + 1/Σs, the latter with an intercept.
        """
        own = self.quadratic_forms(features)
        return own + 1.0 / self.total if self.centred else own

    def quadratic_forms(self, features: Array) -> Array:
        """Compute φᵀ(ΦᵀSΦ + βI)⁻¹φ of rows of Φ."""
        whitened = self.solve.whiten(features.T).T
        return row_dots(whitened, whitened)

    def without_constant(self, products: Array) -> Array:
        """Set the rows of constant features, which are rounding errors, to zero in place."""
        products[self.constant] = 0.0
        return products

    def predictor(self, coef: Array) -> tuple[Array, Array]:
        """Compute the coefficients of the raw features or the raw kernel, and their mean scores."""
        return coef, np.zeros(coef.shape[1]) if self.mean is None else self.mean @ coef


class Regression(NormalEquations):
    """Ridge regression on features, for no more features than samples.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_samples, n_features)
        Features.
    weights : ndarray of shape (n_samples,)
        Sample weights; rows of weight zero do not affect the fit, but have scores.
    centre : bool
        Whether to subtract the weighted mean of the features, for an unpenalised intercept.
    """

    def __init__(self, X: Any, weights: Array, *, centre: bool) -> None:
        self.X, self.weights, self.centred = X, weights, centre
        self.total = float(weights.sum())
        self.n_features = X.shape[1]
        self.mean = weighted_mean(X, weights) if centre else None
        self.trace = float(self.gram.trace())

    @property
    def size(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def gram(self) -> Array:
        return centred_gram(self.X, self.weights, self.mean)

    def scores(self, coef: Array, offset: Array) -> Array:
        """Compute the scores ΦW + 1bᵀ of the training rows; b is their mean if Φ is centred."""
        product = matmul(self.X, coef)
        product += self.shift(coef, offset)
        return product

    def gradient(self, weighted_residuals: Array, totals: Array) -> Array:
        """Compute ΦᵀG from weighted residuals G and the sums of their columns."""
        return self.centre(rmatmul(self.X, weighted_residuals), totals)

    def class_totals(self, y: Indices, n_classes: int) -> tuple[Array, Array]:
        weights = class_sums(y, self.weights, n_classes)
        return self.centre(class_totals(self.X, y, self.weights, n_classes), weights), weights

    def eigen(self) -> tuple[Array, RowBlocks]:
        """Compute the eigenvalues of ΦᵀSΦ + ωS_w, and blocks of Φ times its eigenvectors."""
        values, vectors = eigh(self.with_scatter(self.gram))
        mean_part = 0.0 if self.mean is None else self.mean @ vectors

        def blocks() -> Iterator[tuple[slice, Array]]:
            for rows in row_blocks(*self.X.shape):
                yield rows, self.X[rows] @ vectors - mean_part

        return values.clip(min=0.0), blocks


class KernelRegression(Regression):
    """Ridge regression on a kernel's feature map, or on more features than samples.

    The centred kernel matrix is factored as K = LLᵀ, when this is first needed. The columns of L
    are the features; their number is the rank of K.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)
        Kernel matrix, centred by `centre_kernel` if there is an intercept; it is overwritten.
    weights : ndarray of shape (n_samples,)
        Sample weights.
    kernel_mean : ndarray of shape (n_samples,) or None
        Mean returned by `centre_kernel`; None without an intercept.
    original : ndarray or CSR of shape (n_samples, n_features), default=None
        Features, if the kernel is their inner product.
    original_mean : ndarray of shape (n_features,), default=None
        Weighted mean of these features, if there is an intercept.
    """

    def __init__(
        self,
        kernel: Array,
        weights: Array,
        kernel_mean: Array | None,
        *,
        original: Any = None,
        original_mean: Array | None = None,
    ) -> None:
        self.weights, self.total = weights, float(weights.sum())
        self.mean, self.centred = None, kernel_mean is not None
        self.kernel_mean, self._original = kernel_mean, original
        self.n_features = None if original is None else original.shape[1]
        self._original_mean = original_mean
        self.trace = float(weights @ kernel.diagonal())
        self._kernel: Array | None = kernel
        self._largest = largest_before_centring(kernel.diagonal(), kernel_mean, weights)

    @cached_property
    def _factored(self) -> tuple[Array, Indices]:
        """The features L and the rows of L that form a triangular matrix."""
        kernel, self._kernel = self._kernel, None
        assert kernel is not None
        with threads_for(len(kernel) ** 3 / 6):
            factor, pivots = cholesky_features(kernel, self.weights > 0, self._largest)
        if self.centred and _is_rounding(factor[:, -1:], self.weights):
            factor, pivots = factor[:, :-1], pivots[:-1]
        return factor, pivots

    @cached_property
    def X(self) -> Array:
        """The features L."""
        return self._factored[0]

    @cached_property
    def gram(self) -> Array:
        with threads_for(len(self.X) ** 3 / 6):
            return centred_gram(self.X, self.weights, None)

    def eigen(self) -> tuple[Array, RowBlocks]:
        """Compute the eigenvalues of ΦᵀSΦ + ωS_w, and blocks of Φ times its eigenvectors.

        Without S_w, those of S^½KS^½ are the same. Its eigenvectors U with the eigenvalues Λ are
        S^½ΦV Λ^-½, where V are those of ΦᵀSΦ.
        """
        if self._kernel is None or self.within_class > 0:
            values, vectors = eigh(self.with_scatter(self.gram))
            features = self.X @ vectors
        else:
            values, features = eigen_features(self._kernel, self.weights, self._largest)

        def blocks() -> Iterator[tuple[slice, Array]]:
            for rows in row_blocks(*features.shape):
                yield rows, features[rows]

        return values.clip(min=0.0), blocks

    @np.errstate(over="ignore", invalid="ignore")  # coefficients that overflow are refused later
    def predictor(self, coef: Array) -> tuple[Array, Array]:
        # W = Lᵀ samples is a triangular system if only the pivots are not zero.
        samples, pivots = np.zeros((len(self.weights), coef.shape[1])), self._factored[1]
        if len(pivots):  # all samples can be equal
            samples[pivots] = linalg.solve_triangular(
                self.X[pivots], coef, lower=True, trans="T", check_finite=False
            )
        if self.kernel_mean is not None:
            samples -= np.outer(self.weights / self.weights.sum(), samples.sum(axis=0))
        mean, rows = self.kernel_mean, samples
        if self._original is not None:
            mean, rows = self._original_mean, rmatmul(self._original, samples)
        return rows, np.zeros(coef.shape[1]) if mean is None else mean @ rows


def _is_rounding(last: Array, weights: Array) -> bool:
    """Return whether rounding has made the last feature of a centred kernel.

    The mean of a centred feature is zero. One feature too many has its mean: the last pivot is the
    sum of the rounding errors of all entries, which can exceed the rounding error of one.
    """
    return bool(np.any(np.abs(weights @ last) > 0.5 * (weights @ np.abs(last))))


def linear_regression(X: Any, weights: Array, *, centre: bool) -> Regression:
    """Create a linear regression in its cheaper form: d × d, or n × n if d > n."""
    n_samples, n_features = X.shape
    if n_features <= n_samples:
        return Regression(X, weights, centre=centre)
    mean = weighted_mean(X, weights) if centre else None
    gram = linear_gram(X, mean)
    kernel_mean = centre_kernel(gram, weights) if centre else None
    return KernelRegression(gram, weights, kernel_mean, original=X, original_mean=mean)


def gap_with_error(gap: float, size: float, error: float) -> float:
    """Bound the gap of a problem with the Gram matrix G from that with G + E.

    Let P(W) be the objective with G, and P(W) + ⟨W, EW⟩ the one that was solved. Half its Hessian
    is at least A = G + βI, and ±E ≤ error · A. With the minimum W* of P and D = W* − W, convexity
    bounds P(W) − P(W*) by gap − (‖D‖ − √gap)² + 2 error ‖D‖ ‖W‖ + error ‖D‖² for ‖D‖ ≥ √gap, in the
    norm of A. Its maximum over ‖D‖ is at most the value returned.

    Parameters
    ----------
    gap : float
        Bound of the objective minus its minimum for G + E.
    size : float
        ‖W‖ in the norm of A.
    error : float
    """
    if error == 0:
        return gap
    root = np.sqrt(gap)
    return float((root + error * (size + root)) ** 2 / (1 - error))


def objective_unit(objective: float, total: float) -> float:
    """Return the denominator of relative gaps.

    It is the objective, but at least the rounding error for samples of this total weight.
    """
    return max(objective, EPS * total)


class RankedCoefficients(NamedTuple):
    """Coefficients of every rank, from directions of the targets in order of importance."""

    projected: Array  # W V; the coefficients of rank s use its first s columns
    directions: Array  # V
    explained: Array  # eigenvalues of M in descending order


def rank_coefficients(full: Array, moments: Array) -> RankedCoefficients:
    """Compute the directions of the targets in descending order of their eigenvalues.

    Directions with equal eigenvalues are ordered by the norm of their coefficients, the smallest
    first. This order is the limit of a vanishing additional penalty.

    Parameters
    ----------
    full : ndarray of shape (n_features, n_targets)
        W, the solution of (ΦᵀSΦ + βI) W = moments.
    moments : ndarray of shape (n_features, n_targets)
        ΦᵀST.

    Examples
    --------
    >>> import numpy as np
    >>> moments = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> rank_coefficients(moments / 2, moments).explained
    array([2. , 0.5])
    """
    explained = moments.T @ full
    values, vectors = linalg.eigh((explained + explained.T) / 2, check_finite=False)
    values, vectors = values[::-1].clip(min=0.0), np.ascontiguousarray(vectors[:, ::-1])
    projected = full @ vectors
    for tied in find_ties(values):
        _, turned = linalg.eigh(projected[:, tied].T @ projected[:, tied], check_finite=False)
        vectors[:, tied] = vectors[:, tied] @ turned
        projected[:, tied] = projected[:, tied] @ turned
    return RankedCoefficients(projected, vectors, values)


def find_ties(values: Array) -> list[slice]:
    """Return runs of two or more eigenvalues that differ only by rounding.

    Eigenvalues that are zero up to rounding are left out.
    """
    values = values[values > ZERO * values[0]]
    if len(values) < 2:
        return []
    steps = np.flatnonzero(-np.diff(values) > TIED * values[0]) + 1
    ends = [0, *steps.tolist(), len(values)]
    runs = [slice(start, stop) for start, stop in pairwise(ends)]
    return [run for run in runs if run.stop - run.start > 1]
