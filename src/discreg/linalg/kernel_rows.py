"""Rows of a kernel matrix, stored or computed on demand, and a regression on them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .centring import uncentred
from .fitted_kernel import FittedKernel
from .types import Array, Indices

__all__ = ["KernelRows", "RowCache"]

BLOCK_ROWS = 256  # number of rows that are computed at once
CHECKED = 500  # number of samples for the check of a kernel whose matrix does not fit


class RowCache:
    """Rows of a matrix that are computed on demand; the most recent ones are kept.

    Parameters
    ----------
    rows_of : callable
        ``rows_of(indices)`` computes some rows.
    n_rows : int
        Number of rows that are kept.
    """

    def __init__(self, rows_of: Callable[[Indices], Array], n_rows: int) -> None:
        self._rows_of, self._n_rows = rows_of, n_rows
        self._kept: OrderedDict[int, Array] = OrderedDict()

    def __call__(self, indices: Indices) -> Array:
        """Return some rows, as a new array."""
        missing = np.array([i for i in indices.tolist() if i not in self._kept], dtype=np.intp)
        new = self._rows_of(missing) if len(missing) else ()
        computed = dict(zip(missing.tolist(), new, strict=True))
        rows = np.array([computed[i] if i in computed else self._kept[i] for i in indices.tolist()])
        for i in indices.tolist():
            if i in computed:
                self._kept[i] = computed[i].copy()  # a view would keep all computed rows
            self._kept.move_to_end(i)
        while len(self._kept) > self._n_rows:
            self._kept.popitem(last=False)
        return rows


class KernelRows:
    """Kernel matrix of the training samples, centred if there is an intercept.

    The matrix is stored if it fits into the given memory; otherwise its rows are computed on
    demand.

    Parameters
    ----------
    kernel : FittedKernel
    X : ndarray or CSR of shape (n_samples, n_features)
    weights : ndarray of shape (n_samples,)
        Sample weights.
    centre : bool
        Whether there is an intercept.
    cache_bytes : float
        Memory for the matrix or its rows.
    """

    n_features = None
    within_class = 0.0  # other weights need the features of the kernel

    def __init__(
        self, kernel: FittedKernel, X: Any, weights: Array, *, centre: bool, cache_bytes: float
    ) -> None:
        self.weights, self.centred = weights, centre
        self.size, self.total = len(weights), float(weights.sum())
        self.mean: Array | None = None
        self.matrix: Array | None = None
        self.beta = 0.0
        if kernel.kernel == "precomputed" or 8 * self.size**2 <= cache_bytes:
            self.matrix, self.mean = kernel.centred_matrix(X, weights if centre else None)
            self.diagonal = self.matrix.diagonal().copy()
        else:
            some = X[np.linspace(0, self.size - 1, CHECKED).astype(np.intp)]
            kernel.centred_matrix(some, None)  # raises if the kernel is not positive semi-definite
            self._compute = partial(_kernel_rows, kernel, X)
            self.diagonal = kernel.diagonal(X)
            if centre:
                shares = weights / self.total
                mean = self.product(shares[:, None])[:, 0]
                middle = float(shares @ mean)
                self._compute = partial(_centred_rows, self._compute, mean, middle)
                self.diagonal += middle - 2 * mean
                self.mean = mean
            self._cached = RowCache(self._compute, max(2, int(cache_bytes // (8 * self.size))))
        self.trace = float(weights @ self.diagonal)

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

    def rows(self, samples: Indices) -> Array:
        """Return the kernel between some samples and all samples."""
        return self._cached(samples) if self.matrix is None else self.matrix[samples]

    def product(self, coef: Array) -> Array:
        """Multiply the centred kernel matrix by coefficients of the samples."""
        used = np.flatnonzero(coef.any(axis=1))
        if self.matrix is not None and 2 * len(used) > self.size:
            return np.asarray(self.matrix @ coef)
        product = np.zeros((self.size, coef.shape[1]))
        for begin in range(0, len(used), BLOCK_ROWS):
            some = used[begin : begin + BLOCK_ROWS]
            rows = self._compute(some) if self.matrix is None else self.matrix[some]
            product += rows.T @ coef[some]
        return product

    def kernel_product(self, coef: Array) -> Array:
        """Multiply the kernel matrix, not centred, by coefficients of the samples."""
        return uncentred(self.product(coef), coef, self.mean, self.weights)

    def predictor(self, residuals: Array) -> tuple[Array, Array]:
        """Compute the coefficients −SG/β of the samples, and their mean scores."""
        coef = residuals * (-self.weights / self.beta)[:, None]
        mean = np.zeros(coef.shape[1]) if self.mean is None else self.mean @ coef
        return coef, mean


def _kernel_rows(kernel: FittedKernel, X: Any, samples: Indices) -> Array:
    return kernel(X[samples], X)


def _centred_rows(
    rows_of: Callable[[Indices], Array], mean: Array, middle: float, samples: Indices
) -> Array:
    rows = rows_of(samples)
    rows -= mean
    rows -= mean[samples, None] - middle
    return rows
