"""The kernel of training data: resolved parameters, matrix, products and scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.metrics.pairwise import pairwise_kernels

from .factorisation import clip_negative_eigenvalues
from .kernels import (
    KERNELS,
    KernelFacts,
    as_float64,
    for_scikit_learn,
    matrix_on_tiles,
    product_on_tiles,
    require_kernel_memory,
    resolve_gamma,
    rows_for_tiles,
)
from .rows import CONSTANT, batches, require_squares, row_norms
from .types import Array

BATCH_BYTES = 64 << 20
CHECK_BYTES = 1 << 20  # of a batch; small compared with the matrix
LARGEST_ASYMMETRY = 1e-5  # relative to the largest entry


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


def largest_before_centring(diagonal: Array, mean: Array | None, weights: Array) -> float:
    """Compute the largest entry of a kernel matrix, whose rounding errors the centred one has."""
    if mean is not None:
        diagonal = diagonal + 2.0 * mean - float(weights @ mean) / weights.sum()
    return float(np.abs(diagonal).max(initial=0.0))


def require_square(matrix: Any) -> None:
    """Raise ValueError if a precomputed kernel matrix is not square."""
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"A precomputed kernel must be a square matrix of the training samples; its shape is "
            f"{matrix.shape}."
        )


@dataclass(frozen=True)
class FittedKernel:
    """Kernel function with resolved gamma.

    Attributes
    ----------
    kernel : str or callable
        Name of a scikit-learn kernel, "precomputed", or a function of two rows.
    gamma : float or None
    degree, coef0 : float
    params : mapping or None
        Further parameters of a callable.
    """

    kernel: str | Callable[..., float]
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1.0
    params: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, estimator: Any, X: Any, weights: Array) -> FittedKernel:
        """Create the kernel from the parameters of an estimator and training data X."""
        known = KERNELS.get(estimator.kernel) if isinstance(estimator.kernel, str) else None
        has_gamma = known is not None and "gamma" in known.params
        gamma = resolve_gamma(estimator.gamma, X, weights) if has_gamma else None
        kernel = cls(
            estimator.kernel, gamma, estimator.degree, estimator.coef0, estimator.kernel_params
        )
        squared = kernel.has_product and estimator.kernel not in ("linear", "laplacian")
        if squared or (has_gamma and estimator.gamma == "scale"):
            require_squares(X)
        return kernel

    @property
    def facts(self) -> KernelFacts:
        """Properties of the kernel; the defaults for a callable or a precomputed matrix."""
        known = KERNELS.get(self.kernel) if isinstance(self.kernel, str) else None
        return KernelFacts() if known is None else known

    @property
    def description(self) -> str:
        """How messages name the kernel, a function by its name."""
        if isinstance(self.kernel, str):
            return f"kernel {'matrix' if self.kernel == 'precomputed' else repr(self.kernel)}"
        return f"kernel {getattr(self.kernel, '__name__', type(self.kernel).__name__)}"

    @property
    def is_bounded(self) -> bool:
        """Whether all values are at most 1 for any samples."""
        return self.facts.bounded

    @property
    def has_product(self) -> bool:
        """Whether `product` is available, because the matrices are computed tile by tile."""
        return self.facts.on_tiles is not None

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Compute the kernel matrix between the rows of X and of Y (None: of X).

        Rows are dense or in CSR. Without Y the matrix is exactly symmetric.
        """
        if self.kernel == "precomputed":
            return np.asarray(X)
        X, Y = as_float64(X), None if Y is None else as_float64(Y)
        if Y is not None and sparse.issparse(X) != sparse.issparse(Y):
            X, Y = sparse.csr_array(X), sparse.csr_array(Y)
        on_tiles = self.facts.on_tiles
        if on_tiles is None or (on_tiles.of == "distances" and sparse.issparse(X)):
            return self._matrix(X, Y)
        X, Y = rows_for_tiles(X, Y, str(self.kernel), on_tiles.of)
        K = matrix_on_tiles(X, Y, on_tiles.of, partial(self._apply, X.shape[1]))
        if self.facts.diagonal is not None and Y is None:
            np.fill_diagonal(K, self.facts.diagonal)
        return K

    def _matrix(self, X: Any, Y: Any) -> Array:
        """Compute the matrix by the kernel's own function, or by scikit-learn."""
        params = dict(self.params or {})
        if isinstance(self.kernel, str):
            given = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
            # Not every kernel accepts None for its default.
            params = {name: given[name] for name in self.facts.params if given[name] is not None}
        function = self.facts.matrix or partial(pairwise_kernels, metric=self.kernel)
        X = for_scikit_learn(X)
        with np.errstate(over="ignore", invalid="ignore"):  # callers check the values
            matrix = function(X, X if Y is None else for_scikit_learn(Y), **params)
        return np.asarray(matrix, dtype=np.float64)

    def _apply(self, n_features: int, values: Array) -> None:
        """Replace inner products or distances by the kernel, in place."""
        assert self.facts.on_tiles is not None
        gamma = 1 / n_features if self.gamma is None else float(self.gamma)
        self.facts.on_tiles.apply(values, gamma, self.degree, float(self.coef0))

    def product(self, X: Any, Y: Any, coef: NDArray[Any]) -> Array:
        """Compute ``k(X, Y) @ coef`` for dense rows without the matrix; requires `has_product`."""
        on_tiles, coef = self.facts.on_tiles, np.asarray(coef, dtype=np.float64)
        assert on_tiles is not None
        if not len(X) or not len(Y):
            return np.zeros((len(X), coef.shape[1]))
        X, Y = rows_for_tiles(as_float64(X), as_float64(Y), str(self.kernel), on_tiles.of)
        return product_on_tiles(X, Y, coef, on_tiles.of, partial(self._apply, X.shape[1]))

    def diagonal(self, X: Any) -> Array:
        """Compute the kernel of each row of X with itself, without the matrix."""
        if self.kernel == "precomputed":
            return np.array(X.diagonal(), dtype=np.float64)
        X = as_float64(X)
        if self.facts.diagonal is not None:
            return np.full(X.shape[0], self.facts.diagonal)
        if self.facts.on_tiles is None:
            rows = (X[[i]] for i in range(X.shape[0]))
            return np.array([self._matrix(row, None).item() for row in rows], dtype=np.float64)
        diagonal = row_norms(X)  # of a kernel that is a function of inner products
        if self.kernel == "cosine":
            return np.sign(diagonal)
        with np.errstate(over="ignore", invalid="ignore"):  # callers check the values
            self._apply(X.shape[1], diagonal)
        return diagonal

    def training_matrix(self, X: Any, *, copies: int = 1, has_components: bool = True) -> Array:
        """Compute and check the kernel matrix of the training rows; return a new array.

        `copies` is the number of arrays of this size that the caller needs. MemoryError is raised
        before the computation if they do not fit into memory; `has_components` selects its advice.
        """
        has_components = has_components and self.kernel not in ("linear", "precomputed")
        require_kernel_memory(X.shape[0], copies=copies, has_components=has_components)
        if not isinstance(self.kernel, str) or self.kernel != "precomputed":
            matrix = self(X)
        else:
            matrix = np.array(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
            require_square(matrix)
        if self.is_bounded and self.has_product and np.all(np.isfinite(row_norms(X))):
            return matrix  # finite because it is bounded, and symmetric by construction
        parts = list(batches(len(matrix), max(1, CHECK_BYTES // (8 * len(matrix)))))
        # Infinite distances of sparse rows do not show in the matrix of the training samples.
        if self.kernel == "rbf" or not all(np.isfinite(matrix[rows]).all() for rows in parts):
            raise ValueError(
                f"The {self.description} gives infinite or undefined values on these data. "
                "Scale the features, for example with sklearn.preprocessing.StandardScaler, or "
                "lower gamma or degree."
            )
        if self.has_product:  # symmetric by construction
            return matrix
        asymmetry = max(float(np.abs(matrix[rows] - matrix[:, rows].T).max()) for rows in parts)
        if asymmetry > LARGEST_ASYMMETRY * float(np.abs(matrix).max()):
            raise ValueError(
                f"The kernel matrix is not symmetric: entries (i, j) and (j, i) differ by up to "
                f"{asymmetry:.3g}. A kernel must satisfy k(x, z) = k(z, x)."
            )
        if asymmetry > 0:
            matrix += matrix.T
            matrix *= 0.5
        return matrix

    def centred_matrix(
        self, X: Any, weights: Array | None, **options: Any
    ) -> tuple[Array, Array | None]:
        """Compute the training matrix, centred for an intercept and positive semi-definite.

        Small negative eigenvalues, which rounding of the entries causes, are set to zero; larger
        ones raise ValueError.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
        weights : ndarray of shape (n_samples,) or None
            Sample weights; the matrix is not centred if they are None.
        **options
            Options of `training_matrix`.

        Returns
        -------
        matrix : ndarray of shape (n_samples, n_samples)
        mean : ndarray of shape (n_samples,) or None
            Mean row of the kernel if it was centred.
        """
        matrix = self.training_matrix(X, **options)
        is_psd = self.facts.is_psd(self.degree, self.coef0)
        norm = 0.0 if is_psd else float(linalg.lapack.dlange("F", matrix.T))
        mean = None if weights is None else centre_kernel(matrix, weights)
        if not is_psd:
            clip_negative_eigenvalues(
                matrix,
                norm,
                f"The {self.description}",
                "Use a positive semi-definite kernel such as 'rbf'. If the features have a large "
                "mean, centre them before you compute the kernel, in double precision.",
            )
        return matrix, mean

    @np.errstate(over="ignore", invalid="ignore")  # callers check the values
    def scores(
        self, X: Any, X_fit: Any, coef: NDArray[Any], intercept: NDArray[Any]
    ) -> NDArray[Any]:
        """Compute ``k(X, X_fit) @ coef.T + intercept`` in batches of rows."""
        if self.kernel == "precomputed":
            return np.asarray(X @ coef.T + intercept)
        in_tiles = self.has_product and not (sparse.issparse(X) or sparse.issparse(X_fit))
        width = X.shape[1] if in_tiles else X_fit.shape[0]  # of a copy of the rows, or of a kernel
        scores = np.empty((X.shape[0], len(coef)), dtype=coef.dtype)
        for rows in batches(X.shape[0], max(1, BATCH_BYTES // (8 * max(1, width)))):
            part = X[rows]
            product = self.product(part, X_fit, coef.T) if in_tiles else self(part, X_fit) @ coef.T
            scores[rows] = product + intercept
        return scores


LINEAR = FittedKernel("linear")


class KernelMatrix:
    """Kernel matrix of the training samples, centred if there is an intercept.

    Parameters
    ----------
    kernel : FittedKernel
    X : ndarray or CSR of shape (n_samples, n_features)
    weights : ndarray of shape (n_samples,)
        Sample weights.
    centre : bool
        Whether there is an intercept.
    """

    n_features = None
    within_class = 0.0  # other weights need the features of the kernel

    def __init__(self, kernel: FittedKernel, X: Any, weights: Array, *, centre: bool) -> None:
        self.weights, self.centred = weights, centre
        self.size, self.total = len(weights), float(weights.sum())
        self.matrix, self.mean = kernel.centred_matrix(X, weights if centre else None)
        self.diagonal = self.matrix.diagonal().copy()
        self.trace = float(weights @ self.diagonal)
        self.beta = 0.0

    @property
    def scale(self) -> float:
        """Unit of a relative penalty, tr(HKH)/n."""
        return self.trace / self.total

    def at(self, beta: float) -> None:
        """Set the penalty; any positive number if the matrix is zero, where it has no effect."""
        self.beta = 1.0 if self.trace <= 0 else beta
        if self.beta < np.finfo(np.float64).tiny:
            raise ValueError(
                f"beta is {beta:g} in units of the kernel, which is too small for double "
                "precision. Increase beta."
            )

    def predictor(self, residuals: Array) -> tuple[Array, Array]:
        """Compute the coefficients −SG/β of the samples, and their mean scores."""
        coef = residuals * (-self.weights / self.beta)[:, None]
        mean = np.zeros(coef.shape[1]) if self.mean is None else self.mean @ coef
        return coef, mean
