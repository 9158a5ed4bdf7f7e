"""Ridge systems: regression onto any targets, factored once and used many times.

A regression holds centred features and sample weights; `at` fixes the penalty β and factors
ΦᵀSΦ + βI. `Regression` works on the features themselves. `KernelRegression` works on the
coordinates of a kernel's feature map in the span of the training samples, which serves non-linear
kernels and data with more features than samples. `MomentRegression` knows of the rows their moments
alone, and serves models that need no more. `psd_solver` factors such a system;
`conjugate_gradients` solves one that is known by its products alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.utils import gen_batches

from discreg.linalg.types import Array

from .factorisation import EPS, pivoted_cholesky
from .resources import (
    one_blas_thread,
)
from .rows import (
    CONSTANT,
    centred_gram,
    class_sums,
    class_totals,
    matmul,
    rmatmul,
    row_blocks,
    weighted_mean,
)

__all__ = [
    "KernelRegression",
    "NormalEquations",
    "Regression",
    "centre_kernel",
    "conjugate_gradients",
    "linear_gram",
    "linear_regression",
    "psd_solver",
]

WIDE_BLOCK = 1 << 20  # entries of a block of columns, so large that adding up its products is cheap
SMALL_KERNEL = 1_000  # samples whose factor two threads would wait for longer than one takes
SMALL_SYSTEM = 256
Solve = Callable[[Array], Array]
RowBlocks = Callable[[], Iterator[tuple[slice, Array]]]


class NormalEquations:
    """The system that ridge regression onto any targets solves.

    Attributes
    ----------
    beta : float
        The penalty fixed by `at`.
    trace : float
        Weighted sum of squares of the centred features.
    n_features : int or None
        Number of features; None for a kernel's feature map.
    size : int
        Number of rows of the coefficients.
    centred : bool
        Whether there is an intercept.
    """

    beta = 0.0
    n_features: int | None
    size: int
    centred: bool
    mean: Array | None
    gram: Array
    trace: float
    total: float
    solve: Solve

    @property
    def scale(self) -> float:
        """The unit of a relative penalty, equation (15) of ReLSR; for a kernel tr(HKH)/n."""
        return float(self.trace / (self.n_features or self.total))

    def at(self, beta: float) -> None:
        """Fix the penalty and factor the normal equations."""
        self.beta = beta
        matrix = self.gram.copy()
        matrix[np.diag_indices_from(matrix)] += beta
        self.solve = psd_solver(matrix)

    def shift(self, coef: Array, offset: Array) -> Array:
        """What to add to the scores XW of the raw features for ΦW + 1bᵀ."""
        return offset if self.mean is None else offset - self.mean @ coef

    def centre(self, product: Array, totals: Array) -> Array:
        """ΦᵀG from XᵀG and the column sums of G."""
        return product if self.mean is None else product - np.outer(self.mean, totals)

    def predictor(self, coef: Array) -> tuple[Array, Array]:
        """Coefficients of the raw features or of the raw kernel, and their mean score."""
        return coef, np.zeros(coef.shape[1]) if self.mean is None else self.mean @ coef


class Regression(NormalEquations):
    """Ridge regression on features, for no more features than samples.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_samples, n_features)
        Features.
    weights : ndarray of shape (n_samples,)
        Sample weights; a row of weight zero takes no part in the fit, but has scores.
    centre : bool
        Whether the weighted mean of the features is taken out, for an unpenalised intercept.
    """

    def __init__(self, X: Any, weights: Array, *, centre: bool) -> None:
        self.X, self.weights, self.centred = X, weights, centre
        self.total = float(weights.sum())
        self.size = self.n_features = X.shape[1]
        self.mean = weighted_mean(X, weights) if centre else None
        self.gram = centred_gram(X, weights, self.mean)
        self.trace = float(self.gram.trace())

    def scores(self, coef: Array, offset: Array) -> Array:
        """Scores ΦW + 1bᵀ of the training rows; b, the offset, is their mean where Φ is centred."""
        product = matmul(self.X, coef)
        product += self.shift(coef, offset)
        return product

    def gradient(self, weighted_residuals: Array, totals: Array) -> Array:
        """ΦᵀG for residuals G already multiplied by the weights, and the sums of their columns."""
        return self.centre(rmatmul(self.X, weighted_residuals), totals)

    def class_totals(self, y: NDArray[np.intp], n_classes: int) -> tuple[Array, Array]:
        """ΦᵀSY for the zero-one matrix Y of the classes, and the weights of the classes."""
        weights = class_sums(y, self.weights, n_classes)
        return self.centre(class_totals(self.X, y, self.weights, n_classes), weights), weights

    def eigen(self) -> tuple[Array, RowBlocks]:
        """Eigenvalues of ΦᵀSΦ, and the rows of Φ in its eigenvectors, block by block."""
        values, vectors = linalg.eigh(self.gram, check_finite=False)
        mean_part = 0.0 if self.mean is None else self.mean @ vectors

        def blocks() -> Iterator[tuple[slice, Array]]:
            for rows in row_blocks(*self.X.shape):
                yield rows, self.X[rows] @ vectors - mean_part

        return values.clip(min=0.0), blocks


class KernelRegression(Regression):
    """Ridge regression on a kernel's feature map, or on more features than samples.

    The centred kernel matrix is factored, K = LLᵀ, and the rows of L are the features: as many as
    the rank of K.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)
        Kernel matrix, centred by `centre_kernel` when there is an intercept; it is overwritten.
    weights : ndarray of shape (n_samples,)
        Sample weights.
    kernel_mean : ndarray of shape (n_samples,) or None
        What `centre_kernel` returned; None without an intercept.
    original : ndarray or CSR of shape (n_samples, n_features), default=None
        The features, when the kernel is their inner product.
    original_mean : ndarray of shape (n_features,), default=None
        Their weighted mean, when there is an intercept.
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
        with one_blas_thread() if len(kernel) <= SMALL_KERNEL else nullcontext():
            factor, self._pivots = pivoted_cholesky(kernel)
            super().__init__(factor, weights, centre=False)
        self.centred = kernel_mean is not None
        self.n_features = None if original is None else original.shape[1]
        self._kernel_mean, self._original = kernel_mean, original
        self._original_mean = original_mean

    def predictor(self, coef: Array) -> tuple[Array, Array]:
        # W = Lᵀ samples, with the samples of the pivots alone: a triangular system.
        samples = np.zeros((len(self.weights), coef.shape[1]))
        samples[self._pivots] = linalg.solve_triangular(
            self.X[self._pivots], coef, lower=True, trans="T", check_finite=False
        )
        if self._kernel_mean is not None:
            samples -= np.outer(self.weights / self.weights.sum(), samples.sum(axis=0))
        mean, rows = self._kernel_mean, samples
        if self._original is not None:
            mean, rows = self._original_mean, rmatmul(self._original, samples)
        return rows, np.zeros(coef.shape[1]) if mean is None else mean @ rows


def centre_kernel(kernel: Array, weights: Array) -> Array:
    """Take the weighted mean out of a kernel's feature map, in place; returns the mean row."""
    shares = weights / weights.sum()
    size = np.abs(kernel).max()
    mean = kernel @ shares
    kernel -= mean
    kernel -= mean[:, None]
    kernel += shares @ mean
    if np.abs(kernel).max() <= CONSTANT * size:
        kernel[...] = 0.0
    return np.asarray(mean)


def linear_regression(X: Any, weights: Array, *, centre: bool) -> Regression:
    """Linear regression in its cheaper form: d × d, or n × n for more features than samples."""
    n_samples, n_features = X.shape
    if n_features <= n_samples:
        return Regression(X, weights, centre=centre)
    mean = weighted_mean(X, weights) if centre else None
    gram = linear_gram(X, mean)
    kernel_mean = centre_kernel(gram, weights) if centre else None
    return KernelRegression(gram, weights, kernel_mean, original=X, original_mean=mean)


def linear_gram(X: Any, mean: Array | None) -> Array:
    """``(X - mean)(X - mean)ᵀ``, n × n; a sparse X is not centred.

    A dense X is centred a block of columns at a time; columns constant to rounding become zero.
    """
    n_samples, n_features = X.shape
    gram = np.zeros((n_samples, n_samples))
    if sparse.issparse(X):
        for rows in row_blocks(n_samples, n_samples):
            gram[rows] = (X[rows] @ X.T).toarray()
        return gram
    for columns in gen_batches(n_features, max(WIDE_BLOCK // n_samples, 64)):
        block = np.asarray(X[:, columns], dtype=np.float64)
        if mean is not None:
            block = block - mean[columns]
            rounding = CONSTANT * np.abs(mean[columns])
            suspects = np.flatnonzero(np.abs(block[0]) <= rounding)
            constant = np.abs(block[:, suspects]).max(axis=0) <= rounding[suspects]
            block[:, suspects[constant]] = 0.0
        gram += block @ block.T
    return gram


def psd_solver(matrix: Array) -> Solve:
    """Solver of ``matrix @ Z = B`` for B in the range of a positive semi-definite matrix.

    The matrix is brought to a unit diagonal first, so that what counts as singular does not
    depend on the units of the features. Well-conditioned: one Cholesky factorisation.
    Otherwise: eigenvalues of the unit-diagonal matrix below its rounding error count as zero and
    the solution of least norm is returned, which is the pseudo-inverse times B.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        It is overwritten.

    Returns
    -------
    solve : callable
        Takes B of shape (m, k) and returns Z of shape (m, k).

    Examples
    --------
    >>> import numpy as np
    >>> solve = psd_solver(np.array([[2.0, 2.0], [2.0, 2.0]]))
    >>> solve(np.array([[4.0], [4.0]])).round(12).ravel()
    array([1., 1.])
    """
    if not len(matrix):
        return lambda rhs: rhs
    diagonal = matrix.diagonal()
    positive = diagonal > 0
    scale = np.where(positive, 1 / np.sqrt(np.where(positive, diagonal, 1.0)), 0.0)
    matrix *= scale[:, None]
    matrix *= scale
    factor = _cholesky(matrix) if positive.all() else None
    if factor is None:
        return _least_norm_solver(matrix, scale)
    column = scale[:, None]
    if len(matrix) <= SMALL_SYSTEM:
        # Products with the inverse of the factor: the threads of a triangular solve would wait for
        # each other longer than this takes.
        inverse, _ = linalg.lapack.dtrtri(np.tril(factor), lower=1)
        inverse *= scale
        return lambda rhs: inverse.T @ (inverse @ rhs)
    return lambda rhs: column * linalg.cho_solve((factor, True), column * rhs, check_finite=False)


def _cholesky(unit: Array) -> Array | None:
    """Lower factor of a matrix of unit diagonal, in its memory; None when it is singular.

    When it is singular to rounding the matrix is handed back as it was.
    """
    size = len(unit)
    norm = linalg.lapack.dlange("1", unit.T)
    # unit.T has LAPACK's column order: its lower triangle is overwritten, its upper stays.
    factor, failed = linalg.lapack.dpotrf(unit.T, lower=1, clean=0, overwrite_a=1)
    if not failed:
        reciprocal_condition, _ = linalg.lapack.dpocon(factor, norm, uplo="L")
        if reciprocal_condition > 10 * size * EPS:
            return np.asarray(factor)
    below = np.tril(unit, -1)
    unit[...] = below + below.T
    unit[np.diag_indices(size)] = 1.0
    return None


def _least_norm_solver(unit: Array, scale: Array) -> Solve:
    """Pseudo-inverse, on its range, of the matrix that `scale` brought to a unit diagonal."""
    values, vectors = linalg.eigh(unit, check_finite=False)
    kept = values > 10 * len(unit) * EPS * values[-1]
    basis = scale[:, None] * (vectors[:, kept] / np.sqrt(values[kept]))
    # The null space in the original units: the solution of least norm has no part in it.
    null = np.where(scale > 0, scale, 1.0)[:, None] * vectors[:, ~kept]
    if null.shape[1]:
        null, _ = linalg.qr(null, mode="economic", check_finite=False)

    def solve(rhs: Array) -> Array:
        solution = basis @ (basis.T @ rhs)
        return np.asarray(solution - null @ (null.T @ solution))

    return solve


def conjugate_gradients(
    matvec: Callable[[Array], Array],
    rhs: Array,
    preconditioner: Callable[[Array], Array],
    *,
    tol: float,
    max_iter: int,
) -> Array:
    r"""Minimise :math:`\tfrac12 \langle z, Az\rangle - \langle b, z\rangle` from zero.

    For a symmetric positive semi-definite A this solves Az = b. Arrays of any shape count as one
    long vector.

    Parameters
    ----------
    matvec : callable
        ``matvec(z)`` is Az.
    rhs : ndarray
        The right-hand side b.
    preconditioner : callable
        ``preconditioner(r)`` is :math:`M^{-1}r` for a positive definite M that resembles A.
    tol : float
        Stop once the residual :math:`r = b - Az` has
        :math:`\langle r, M^{-1}r\rangle \le tol^2 \langle b, M^{-1}b\rangle`.
    max_iter : int
        Largest number of products with A.

    Returns
    -------
    z : ndarray
        The approximate solution. The iteration ends early along a direction without curvature.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> z = conjugate_gradients(A.__matmul__, np.array([3.0, 4.0]), np.copy, tol=1e-12, max_iter=5)
    >>> z.round(12)
    array([1., 1.])
    """
    solution, residual = np.zeros_like(rhs), rhs
    direction = preconditioner(residual)
    energy = float(np.vdot(residual, direction))
    enough = tol**2 * energy
    for _ in range(max_iter):
        image = matvec(direction)
        curvature = float(np.vdot(direction, image))
        if curvature <= 0:
            break
        length = energy / curvature
        solution = solution + length * direction
        residual = residual - length * image
        preconditioned = preconditioner(residual)
        energy, previous = float(np.vdot(residual, preconditioned)), energy
        if energy <= enough:
            break
        direction = preconditioned + energy / previous * direction
    return solution
