"""Ridge regression, factored once and solved for many targets.

A regression stores centred features and sample weights; `at` sets the penalty β and factors
ΦᵀSΦ + βI. `Regression` uses the features themselves. `KernelRegression` uses the coordinates of a
kernel's feature map in the span of the training samples, for non-linear kernels and for data with
more features than samples. `MomentRegression` uses only the moments of the rows. `psd_solver`
factors a linear system; `conjugate_gradients` solves a system given by its matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.utils import gen_batches

from discreg.linalg.types import Array

from .factorisation import EPS, pivoted_cholesky, rounding_of
from .resources import (
    threads_for,
)
from .rows import (
    CONSTANT,
    batches,
    centred_gram,
    class_sums,
    class_totals,
    clear_constant,
    matmul,
    rmatmul,
    row_blocks,
    row_dots,
    weighted_mean,
)

__all__ = [
    "KernelRegression",
    "NormalEquations",
    "PsdSolver",
    "Regression",
    "RowBlocks",
    "centre_kernel",
    "conjugate_gradients",
    "largest_before_centring",
    "linear_gram",
    "linear_regression",
    "psd_inverse",
    "psd_root",
    "psd_solver",
    "solve_each",
    "uncentred",
    "within_class_scatter",
]

WIDE_BLOCK = 1 << 20  # entries of a block of columns: many, so that adding its product is cheap
SMALL_SYSTEM = 256
ROUNDING = 1e-12  # relative, of the square of a feature map
MIRRORED = 128  # rows of a triangle that are copied at once
Solve = Callable[[Array], Array]
RowBlocks = Callable[[], Iterator[tuple[slice, Array]]]


class NormalEquations:
    """Normal equations of ridge regression for any targets.

    Attributes
    ----------
    beta : float
        Penalty, set by `at`.
    trace : float
        Weighted sum of squares of the centred features.
    n_features : int or None
        Number of features; None for a kernel's feature map.
    size : int
        Number of rows of the coefficients.
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
    size: int
    centred: bool
    mean: Array | None
    gram: Array
    trace: float
    total: float
    solve: PsdSolver
    _solve_penalty: PsdSolver

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
        self.size = self.n_features = X.shape[1]
        self.mean = weighted_mean(X, weights) if centre else None
        self.gram = centred_gram(X, weights, self.mean)
        self.trace = float(self.gram.trace())

    def scores(self, coef: Array, offset: Array) -> Array:
        """Compute the scores ΦW + 1bᵀ of the training rows; b is their mean if Φ is centred."""
        product = matmul(self.X, coef)
        product += self.shift(coef, offset)
        return product

    def gradient(self, weighted_residuals: Array, totals: Array) -> Array:
        """Compute ΦᵀG from weighted residuals G and the sums of their columns."""
        return self.centre(rmatmul(self.X, weighted_residuals), totals)

    def class_totals(self, y: NDArray[np.intp], n_classes: int) -> tuple[Array, Array]:
        """Compute ΦᵀSY for the zero-one matrix Y of the classes, and the weight of each class."""
        weights = class_sums(y, self.weights, n_classes)
        return self.centre(class_totals(self.X, y, self.weights, n_classes), weights), weights

    def eigen(self) -> tuple[Array, RowBlocks]:
        """Compute the eigenvalues of ΦᵀSΦ + ωS_w, and blocks of Φ times its eigenvectors."""
        values, vectors = _eigh(self.with_scatter(self.gram))
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
    def _factored(self) -> tuple[Array, NDArray[np.intp]]:
        """The features L and the rows of L that form a triangular matrix."""
        kernel, self._kernel = self._kernel, None
        assert kernel is not None
        with threads_for(len(kernel) ** 3 / 6):
            factor, pivots = _features_of_kernel(kernel, self.weights > 0, self._largest)
        if self.centred and _is_rounding(factor[:, -1:], self.weights):
            factor, pivots = factor[:, :-1], pivots[:-1]
        return factor, pivots

    @cached_property
    def X(self) -> Array:
        """The features L."""
        return self._factored[0]

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        """Number of features."""
        return int(self.X.shape[1])

    @cached_property
    def gram(self) -> Array:  # type: ignore[override]
        """The matrix LᵀSL."""
        with threads_for(len(self.X) ** 3 / 6):
            return centred_gram(self.X, self.weights, None)

    def eigen(self) -> tuple[Array, RowBlocks]:
        """Compute the eigenvalues of ΦᵀSΦ + ωS_w, and blocks of Φ times its eigenvectors.

        Without S_w, those of S^½KS^½ are the same. Its eigenvectors U with the eigenvalues Λ are
        S^½ΦV Λ^-½, where V are those of ΦᵀSΦ.
        """
        if self._kernel is None or self.within_class > 0:
            values, vectors = _eigh(self.with_scatter(self.gram))
            features = self.X @ vectors
        else:
            values, features = _eigen_features(self._kernel, self.weights, self._largest)

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

    def features_of(self, cross: Array, diagonal: Array) -> tuple[Array, Array]:
        """Compute the features of new samples, and their squares outside of the features' span.

        `cross` is the kernel matrix between the new and the training samples, and `diagonal` the
        kernel of each new sample with itself; neither is centred.
        """
        if self.kernel_mean is not None:
            shares = self.weights / self.weights.sum()
            middle, means = float(shares @ self.kernel_mean), cross @ shares
            cross = cross - self.kernel_mean - means[:, None] + middle
            diagonal = diagonal - 2 * means + middle
        pivots = self._factored[1]
        features = linalg.solve_triangular(
            self.X[pivots], cross[:, pivots].T, lower=True, check_finite=False
        ).T
        rest = diagonal - row_dots(features, features)
        return features, np.where(rest > ROUNDING * np.abs(diagonal), rest, 0.0)

    def kernel_product(self, coef: Array) -> Array:
        """Multiply the kernel matrix by coefficients of the samples."""
        return uncentred(self.X @ (self.X.T @ coef), coef, self.kernel_mean, self.weights)


def _eigh(gram: Array) -> tuple[Array, Array]:
    """Compute all eigenvalues and eigenvectors by the faster method, divide and conquer."""
    driver = "evd" if len(gram) > 1 else "evr"  # SciPy 1.11 fails for one value
    values, vectors = linalg.eigh(gram, driver=driver, check_finite=False)
    return np.asarray(values), np.asarray(vectors)


def _features_of_kernel(
    kernel: Array, seen: NDArray[np.bool_], largest: float
) -> tuple[Array, NDArray[np.intp]]:
    """Factor a kernel matrix by `pivoted_cholesky`, within the span of the samples that are seen.

    Of the others, only the parts in this span have scores.
    """
    if seen.all():
        return pivoted_cholesky(kernel, largest)
    rows = np.flatnonzero(seen)
    of_seen, pivots = pivoted_cholesky(kernel[np.ix_(rows, rows)], largest)
    factor = np.empty((len(kernel), len(pivots)))
    factor[seen] = of_seen
    if len(pivots):
        factor[~seen] = linalg.solve_triangular(
            of_seen[pivots], kernel[np.ix_(rows[pivots], ~seen)], lower=True, check_finite=False
        ).T
    return factor, rows[pivots]


def _eigen_features(kernel: Array, weights: Array, largest: float) -> tuple[Array, Array]:
    """Compute the positive eigenvalues of S^½KS^½, and the features of all samples along them."""
    roots = np.sqrt(weights)
    seen = roots > 0
    inner = kernel if seen.all() else kernel[np.ix_(seen, seen)]
    values, vectors = _eigh(inner * roots[seen] * roots[seen, None])
    kept = values > rounding_of(len(kernel), largest) * weights.max()
    values, vectors = values[kept], vectors[:, kept]
    if seen.all():
        return values, vectors * np.sqrt(values) / roots[:, None]
    return values, kernel[:, seen] @ (roots[seen, None] * vectors / np.sqrt(values))


def _is_rounding(last: Array, weights: Array) -> bool:
    """Return whether rounding has made the last feature of a centred kernel.

    The mean of a centred feature is zero. One feature too many has its mean: the last pivot is the
    sum of the rounding errors of all entries, which can exceed the rounding error of one.
    """
    return bool(np.any(np.abs(weights @ last) > 0.5 * (weights @ np.abs(last))))


def largest_before_centring(diagonal: Array, mean: Array | None, weights: Array) -> float:
    """Compute the largest entry of a kernel matrix, whose rounding errors the centred one has."""
    if mean is not None:
        diagonal = diagonal + 2.0 * mean - float(weights @ mean) / weights.sum()
    return float(np.abs(diagonal).max(initial=0.0))


def uncentred(product: Array, coef: Array, mean: Array | None, weights: Array) -> Array:
    """Compute the product of a kernel matrix and coefficients from that of the centred matrix.

    With the mean row m and the shares s of the weights, K is the centred matrix plus
    1m' + m1' − (s'm) 11'.
    """
    if mean is None:
        return product
    middle = float(weights @ mean / weights.sum())
    return np.asarray(product + np.outer(mean - middle, coef.sum(axis=0)) + mean @ coef)


def centre_kernel(kernel: Array, weights: Array) -> Array:
    """Centre the feature map of a kernel at its weighted mean, in place; return the mean row."""
    shares = weights / weights.sum()
    size = _largest(kernel)
    mean = kernel @ shares
    kernel -= mean
    kernel -= mean[:, None]
    kernel += shares @ mean
    if _largest(kernel) <= CONSTANT * size:
        kernel[...] = 0.0
    return np.asarray(mean)


def _largest(matrix: Array) -> float:
    """Compute the largest absolute value without a copy of the matrix."""
    return float(max(matrix.max(), -matrix.min()))


def linear_regression(X: Any, weights: Array, *, centre: bool) -> Regression:
    """Create a linear regression in its cheaper form: d × d, or n × n if d > n."""
    n_samples, n_features = X.shape
    if n_features <= n_samples:
        return Regression(X, weights, centre=centre)
    mean = weighted_mean(X, weights) if centre else None
    gram = linear_gram(X, mean)
    kernel_mean = centre_kernel(gram, weights) if centre else None
    return KernelRegression(gram, weights, kernel_mean, original=X, original_mean=mean)


def within_class_scatter(gram: Array, totals: Array, weights: Array) -> Array:
    """Compute Σ s (φ − m_k)(φ − m_k)ᵀ, where m_k is the mean of the class of a row.

    Parameters
    ----------
    gram : ndarray of shape (size, size)
        ΦᵀSΦ.
    totals : ndarray of shape (size, n_classes)
        Weighted sums of the rows of each class.
    weights : ndarray of shape (n_classes,)
        Sums of the weights of the classes.
    """
    scaled = totals / np.sqrt(np.where(weights > 0, weights, 1.0))
    scatter = gram - scaled @ scaled.T
    clear_constant(scatter, gram.diagonal(), is_sparse=True)
    return np.asarray(scatter)


def linear_gram(X: Any, mean: Array | None) -> Array:
    """Compute ``(X - mean)(X - mean)ᵀ``, n × n; a sparse X is not centred.

    A dense X is centred in blocks of columns; columns that are constant up to rounding become zero.
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


@dataclass(frozen=True)
class PsdSolver:
    """A positive semi-definite matrix M that is factored, for B in its range."""

    solve: Solve
    """Computes Z of shape (m, k) with MZ = B, of B of shape (m, k)."""
    whiten: Solve
    """Computes C of m or fewer rows, for which CᵀC = BᵀM⁻¹B."""

    def __call__(self, right: Array) -> Array:
        return self.solve(right)


def psd_solver(matrix: Array) -> PsdSolver:
    """Return a solver of ``matrix @ Z = B`` for B in the range of a positive semi-definite matrix.

    The matrix is first scaled to a unit diagonal, so that the test for singularity does not depend
    on the units of the features. A well-conditioned matrix is factored by Cholesky. Otherwise,
    eigenvalues of the scaled matrix below its rounding error count as zero, and the solver returns
    the solution of least norm, which is the pseudo-inverse times B.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        Positive semi-definite matrix; it is overwritten.

    Returns
    -------
    solve : PsdSolver
        Takes B of shape (m, k) and returns Z of shape (m, k).

    Examples
    --------
    >>> import numpy as np
    >>> solve = psd_solver(np.array([[2.0, 2.0], [2.0, 2.0]]))
    >>> solve(np.array([[4.0], [4.0]])).round(12).ravel()
    array([1., 1.])
    """
    if not len(matrix):
        return PsdSolver(np.copy, np.copy)
    factor, scale = _scaled_cholesky(matrix)
    if factor is None:
        return _least_norm_solver(matrix, scale)
    column = scale[:, None]
    if len(matrix) <= SMALL_SYSTEM:
        # For small systems, products with the inverse of the factor are faster than a triangular
        # solve, whose threads wait for each other.
        inverse, _ = linalg.lapack.dtrtri(np.tril(factor), lower=1)
        inverse *= scale
        return PsdSolver(lambda right: inverse.T @ (inverse @ right), inverse.__matmul__)
    return PsdSolver(
        lambda right: column * linalg.cho_solve((factor, True), column * right, check_finite=False),
        lambda right: linalg.solve_triangular(
            factor, column * right, lower=True, overwrite_b=True, check_finite=False
        ),
    )


def psd_inverse(matrix: Array) -> Array:
    """Compute the inverse of a positive semi-definite matrix, which is overwritten.

    If it is singular up to rounding, the product with B in its range is the solution of least norm.
    """
    if not len(matrix):
        return matrix
    factor, scale = _scaled_cholesky(matrix)
    if factor is None:
        root = _least_norm_root(matrix, scale)
        return np.asarray(root.T @ root)
    inverse, _ = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    inverse *= scale[:, None]
    inverse *= scale
    for rows in batches(len(inverse), MIRRORED):  # only the lower triangle was computed
        inverse[: rows.start, rows] = inverse[rows, : rows.start].T
        corner = inverse[rows, rows]
        inverse[rows, rows] = np.tril(corner) + np.tril(corner, -1).T
    return np.asarray(inverse)


def psd_root(matrix: Array) -> Array:
    """Compute B for which BᵀB is the inverse of a matrix as in `psd_inverse`."""
    if not len(matrix):
        return matrix
    factor, scale = _scaled_cholesky(matrix)
    if factor is None:
        return _least_norm_root(matrix, scale)
    root, _ = linalg.lapack.dtrtri(np.tril(factor), lower=1)
    root *= scale
    return np.asarray(root)


def solve_each(matrices: Array, right: Array) -> Array:
    """Solve a system of equations for each row of `right`; NaN where its matrix is singular."""
    try:
        return np.asarray(np.linalg.solve(matrices, right[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:
        singular = np.linalg.det(matrices) == 0
        matrices = np.where(singular[:, None, None], np.nan, matrices)
        return np.asarray(np.linalg.solve(matrices, right[:, :, None])[:, :, 0])


def _scaled_cholesky(matrix: Array) -> tuple[Array | None, Array]:
    """Scale a matrix to a unit diagonal and factor it in place; return the factor and the scale.

    The factor is None if the matrix is singular up to rounding.
    """
    diagonal = matrix.diagonal()
    positive = diagonal > 0
    scale = np.where(positive, 1 / np.sqrt(np.where(positive, diagonal, 1.0)), 0.0)
    matrix *= scale[:, None]
    matrix *= scale
    return _cholesky(matrix) if positive.all() else None, scale


def _cholesky(unit: Array) -> Array | None:
    """Factor a matrix of unit diagonal in place; return its lower factor, or None if singular.

    If the matrix is singular up to rounding, its entries are restored.
    """
    size = len(unit)
    norm = linalg.lapack.dlange("1", unit.T)
    # unit.T has LAPACK's column order: its lower triangle is overwritten, the upper one is kept.
    factor, failed = linalg.lapack.dpotrf(unit.T, lower=1, clean=0, overwrite_a=1)
    if not failed:
        reciprocal_condition, _ = linalg.lapack.dpocon(factor, norm, uplo="L")
        if reciprocal_condition > 10 * size * EPS:
            return np.asarray(factor)
    below = np.tril(unit, -1)
    unit[...] = below + below.T
    unit[np.diag_indices(size)] = 1.0
    return None


def _least_norm_basis(unit: Array, scale: Array) -> tuple[Array, Array]:
    """Compute a basis of the range of the matrix that `scale` has scaled, and of its null space."""
    values, vectors = linalg.eigh(unit, check_finite=False)
    kept = values > 10 * len(unit) * EPS * values[-1]
    basis = scale[:, None] * (vectors[:, kept] / np.sqrt(values[kept]))
    # Null space in the original units: the solution of least norm is orthogonal to it.
    null = np.where(scale > 0, scale, 1.0)[:, None] * vectors[:, ~kept]
    if null.shape[1]:
        null, _ = linalg.qr(null, mode="economic", check_finite=False)
    return basis, null


def _least_norm_root(unit: Array, scale: Array) -> Array:
    basis, null = _least_norm_basis(unit, scale)
    return np.asarray((basis - null @ (null.T @ basis)).T)


def _least_norm_solver(unit: Array, scale: Array) -> PsdSolver:
    """Return a solver of least norm for the matrix that `scale` has scaled to a unit diagonal."""
    basis, null = _least_norm_basis(unit, scale)

    def solve(right: Array) -> Array:
        solution = basis @ (basis.T @ right)
        return np.asarray(solution - null @ (null.T @ solution))

    return PsdSolver(solve, basis.T.__matmul__)


def conjugate_gradients(
    matvec: Callable[[Array], Array],
    rhs: Array,
    preconditioner: Callable[[Array], Array],
    *,
    tol: float,
    max_iter: int,
) -> Array:
    r"""Minimise :math:`\tfrac12 \langle z, Az\rangle - \langle b, z\rangle`, starting from zero.

    For a symmetric positive semi-definite A this solves Az = b. Arrays of any shape are
    treated as vectors.

    Parameters
    ----------
    matvec : callable
        ``matvec(z)`` computes Az.
    rhs : ndarray
        Right-hand side b.
    preconditioner : callable
        ``preconditioner(r)`` computes :math:`M^{-1}r` for a positive definite M that resembles A.
    tol : float
        Stop once the residual :math:`r = b - Az` has
        :math:`\langle r, M^{-1}r\rangle \le tol^2 \langle b, M^{-1}b\rangle`.
    max_iter : int
        Maximum number of products with A.

    Returns
    -------
    z : ndarray
        Approximate solution. The iteration stops early at a direction without curvature.

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
        if curvature <= 0 or energy <= 0:
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
