"""Kernels whose parameters are resolved on the training data, and their matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from .centring import centre_kernel
from .factorisation import clip_negative_eigenvalues
from .kernel_registry import KERNELS, KernelFacts
from .kernels import (
    kernel_diagonal,
    kernel_matrix,
    kernel_product,
    require_kernel_memory,
    resolve_gamma,
)
from .rows import batches, require_squares, row_norms
from .types import Array

__all__ = ["FittedKernel", "require_square"]

BATCH_BYTES = 64 << 20
CHECK_BYTES = 1 << 20  # of a batch; small compared with the matrix
LARGEST_ASYMMETRY = 1e-5  # relative to the largest entry


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
    gamma: float | None
    degree: float
    coef0: float
    params: Mapping[str, Any] | None

    @classmethod
    def of(cls, estimator: Any, X: Any, weights: Array) -> FittedKernel:
        """Create the kernel from the parameters of an estimator and training data X."""
        named = isinstance(estimator.kernel, str) and estimator.kernel != "precomputed"
        gamma = resolve_gamma(estimator.gamma, X, weights) if named else None
        kernel = cls(
            estimator.kernel, gamma, estimator.degree, estimator.coef0, estimator.kernel_params
        )
        by_variance = "gamma" in kernel.facts.params and estimator.gamma == "scale"
        squared = kernel.has_product and estimator.kernel not in ("linear", "laplacian")
        if squared or by_variance:
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
        return self.facts.on_tiles

    def __call__(
        self, X: Any, Y: Any = None, *, dtype: type[np.floating[Any]] = np.float64
    ) -> Array:
        """Compute the kernel matrix between the rows of X and of Y (None: of X)."""
        return kernel_matrix(
            X,
            Y,
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.params,
            dtype=dtype,
        )

    def product(
        self, X: Any, Y: Any, coef: NDArray[Any], *, dtype: type[np.floating[Any]] = np.float64
    ) -> Array:
        """Compute ``k(X, Y) @ coef`` for dense rows without the matrix; requires `has_product`."""
        return kernel_product(
            X,
            Y,
            coef,
            kernel=str(self.kernel),
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            dtype=dtype,
        )

    def diagonal(self, X: Any) -> Array:
        """Compute the kernel of each row of X with itself."""
        return kernel_diagonal(
            X,
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.params,
        )

    def training_matrix(
        self,
        X: Any,
        *,
        copies: int = 1,
        has_components: bool = True,
        dtype: type[np.floating[Any]] = np.float64,
    ) -> Array:
        """Compute and check the kernel matrix of the training rows; return a new array.

        `copies` is the number of arrays of this size that the caller needs. MemoryError is raised
        before the computation if they do not fit into memory; `has_components` selects its advice.
        """
        has_components = has_components and self.kernel not in ("linear", "precomputed")
        require_kernel_memory(X.shape[0], copies=copies, has_components=has_components)
        if not isinstance(self.kernel, str) or self.kernel != "precomputed":
            matrix = self(X, dtype=dtype)
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
