"""Kernel matrices, their diagonals and products, the value of gamma, and memory checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import normalize

from discreg.linalg.types import Array

from .kernel_registry import KERNELS
from .kernel_tiles import TILE, kernel_on_tiles, map_pairs, pairs_on_tiles
from .resources import (
    require_memory,
    run_in_threads,
)
from .rows import batches, row_norms

__all__ = [
    "gamma_from_variance",
    "kernel_diagonal",
    "kernel_matrix",
    "kernel_product",
    "require_kernel_memory",
    "resolve_gamma",
    "spread_of_entries",
]

Kernel = str | Callable[..., float]

HIGH_TILE = 768  # rows per task: many, so that threads rarely wait for each other


def kernel_matrix(
    X: Any,
    Y: Any = None,
    *,
    kernel: Kernel = "linear",
    gamma: float | None = None,
    degree: float = 3,
    coef0: float = 1.0,
    kernel_params: Mapping[str, Any] | None = None,
    dtype: type[np.floating[Any]] = np.float64,
) -> Array:
    """Compute the kernel matrix between the rows of X and the rows of Y.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_features)
    Y : ndarray or CSR matrix of shape (n_cols, n_features), optional
        If None, X is used and the result is exactly symmetric.
    kernel : str or callable
        A kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed" (X is returned
        unchanged), or a function of two rows.
    gamma, degree, coef0 : float
        Parameters of the named kernels; gamma must not be negative. If gamma is None, the default
        of scikit-learn is used.
    kernel_params : mapping, optional
        Keyword arguments of a callable kernel.
    dtype : float64 or float32
        Precision of the result and of its computation.

    Returns
    -------
    ndarray of shape (n_rows, n_cols)

    Examples
    --------
    >>> from discreg.linalg.kernels import kernel_matrix
    >>> kernel_matrix([[0.0, 1.0], [1.0, 1.0]], kernel="poly", gamma=1.0, degree=2)
    array([[4., 4.],
           [4., 9.]])
    """
    if not callable(kernel):
        if kernel == "precomputed":
            return np.asarray(X)
        _require_known(kernel)
    X, Y = _as_float64(X), None if Y is None else _as_float64(Y)
    if Y is not None and sparse.issparse(X) != sparse.issparse(Y):
        X, Y = sparse.csr_array(X), sparse.csr_array(Y)
    if callable(kernel):
        with np.errstate(over="ignore", invalid="ignore"):  # callers check the values
            matrix = pairwise_kernels(X, Y, metric=kernel, **(kernel_params or {}))
        return np.asarray(matrix.astype(dtype))
    facts = KERNELS[kernel]
    if not facts.on_tiles:
        # Not every kernel accepts None for its default.
        given = {"gamma": gamma, "degree": degree, "coef0": coef0}
        params = {name: given[name] for name in facts.params if given[name] is not None}
        matrix = facts.matrix or partial(pairwise_kernels, metric=kernel)
        X = _for_scikit_learn(X)
        with np.errstate(over="ignore"):  # training matrices are checked
            return matrix(X, X if Y is None else _for_scikit_learn(Y), **params).astype(dtype)
    X, Y = _for_inner_products(X, Y, kernel, dtype)
    function = kernel_on_tiles(X, X if Y is None else Y, kernel, gamma, degree, coef0)
    with np.errstate(over="ignore"):
        K = map_pairs(X, Y, kernel, function)
    if facts.diagonal is not None and Y is None:
        np.fill_diagonal(K, facts.diagonal)
    return K


def kernel_product(
    X: Any,
    Y: Any,
    coef: NDArray[Any],
    *,
    kernel: str,
    gamma: float | None = None,
    degree: float = 3,
    coef0: float = 1.0,
    dtype: type[np.floating[Any]] = np.float64,
) -> Array:
    """Compute the product of a kernel matrix and coefficients without storing the matrix.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    Y : ndarray of shape (n_cols, n_features)
    coef : ndarray of shape (n_cols, n_outputs)
    kernel : str
        Name of a kernel that is computed tile by tile; see `KernelFacts`.
    gamma, degree, coef0
        As in :func:`kernel_matrix`.
    dtype : float64 or float32
        Precision of the kernel; the products of tiles are summed in double precision.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs), float64

    Examples
    --------
    >>> import numpy as np
    >>> from discreg.linalg.kernels import kernel_product
    >>> kernel_product([[0.0, 1.0]], [[1.0, 2.0], [3.0, 4.0]], np.eye(2), kernel="linear")
    array([[2., 4.]])
    """
    if not KERNELS[kernel].on_tiles:
        raise ValueError(f"The kernel {kernel!r} is not computed tile by tile.")
    coef = np.asarray(coef, dtype=dtype)
    product = np.zeros((len(X), coef.shape[1]))
    if not len(X) or not len(Y):
        return product
    X, Y = _for_inner_products(_as_float64(X), _as_float64(Y), kernel, dtype)
    function = kernel_on_tiles(X, Y, kernel, gamma, degree, coef0)

    def add(rows: slice) -> None:
        part = X[rows]
        step = max(TILE, TILE * HIGH_TILE // len(part))
        buffer = np.empty(len(part) * min(step, len(Y)), dtype=dtype)
        for cols in batches(len(Y), step):
            width = cols.stop - cols.start
            tile = buffer[: len(part) * width].reshape(len(part), width)
            here = slice(0, len(part)), slice(0, width)
            pairs_on_tiles(part, Y[cols], kernel)(tile, *here)
            function(tile, *here, (rows.start, cols.start))
            product[rows] += tile @ coef[cols]

    with np.errstate(over="ignore"):  # bounded kernels stay finite
        run_in_threads(add, batches(len(X), HIGH_TILE))
    return product


def kernel_diagonal(
    X: Any,
    *,
    kernel: Kernel = "linear",
    gamma: float | None = None,
    degree: float = 3,
    coef0: float = 1.0,
    kernel_params: Mapping[str, Any] | None = None,
) -> Array:
    """Compute the kernel of each row of X with itself, without the matrix.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_features)
        Rows, or the kernel matrix if the kernel is "precomputed".
    kernel, gamma, degree, coef0, kernel_params
        As in :func:`kernel_matrix`.

    Returns
    -------
    ndarray of shape (n_rows,), float64

    Examples
    --------
    >>> from discreg.linalg.kernels import kernel_diagonal
    >>> kernel_diagonal([[3.0, 4.0], [0.0, 1.0]], kernel="linear")
    array([25.,  1.])
    """
    if not callable(kernel):
        if kernel == "precomputed":
            return np.array(X.diagonal(), dtype=np.float64)
        _require_known(kernel)
    X = _as_float64(X)
    if callable(kernel):
        rows = (X[[i]] for i in range(X.shape[0])) if sparse.issparse(X) else X
        return np.array([kernel(x, x, **(kernel_params or {})) for x in rows], dtype=np.float64)
    facts = KERNELS[kernel]
    if facts.diagonal is not None:
        return np.full(X.shape[0], facts.diagonal)
    if not facts.on_tiles:
        own: dict[str, Any] = {"gamma": gamma, "degree": degree, "coef0": coef0}
        rows = (X[[i]] for i in range(X.shape[0]))
        return np.array([kernel_matrix(row, kernel=kernel, **own).item() for row in rows])
    diagonal = row_norms(X)  # of a kernel that is a function of inner products
    if kernel == "cosine":
        return np.sign(diagonal)
    function = kernel_on_tiles(X, X, kernel, gamma, degree, coef0)
    function(diagonal[np.newaxis], slice(0, 1), slice(0, diagonal.size))
    return diagonal


def resolve_gamma(
    gamma: float | str | None, X: Any, sample_weight: NDArray[Any] | None = None
) -> float:
    """Convert the parameter `gamma` of a kernel to a number for training data.

    Parameters
    ----------
    gamma : float, "scale", "auto" or None
        "scale" is 1 / (n_features · variance of all entries of X), or 1 if they are all equal;
        "auto" and None are 1 / n_features.
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    sample_weight : ndarray of shape (n_samples,), optional
        Sample weights; weight k is equivalent to repeating the row k times.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from discreg.linalg.kernels import resolve_gamma
    >>> resolve_gamma("scale", np.array([[1.0, 3.0], [3.0, 1.0]]))
    0.5
    """
    n_samples, n_features = X.shape
    weights = np.ones(n_samples) if sample_weight is None else np.asarray(sample_weight, float)
    return gamma_from_variance(gamma, n_features, lambda: _variance_of_entries(X, weights))


def gamma_from_variance(
    gamma: float | str | None, n_features: int, variance: Callable[[], float]
) -> float:
    """Convert `gamma` to a number; the variance of all entries is computed only for "scale"."""
    if gamma is None or gamma == "auto":
        return 1 / n_features
    if gamma != "scale":
        return float(gamma)
    scaled = n_features * variance()
    # If the inverse of the variance overflows, all entries are equal.
    return 1 / scaled if scaled > np.finfo(np.float64).tiny else 1.0


def require_kernel_memory(n_rows: int, *, copies: int = 1, has_components: bool = True) -> None:
    """Raise MemoryError if the kernel matrix of training rows would not fit into the free memory.

    Parameters
    ----------
    n_rows : int
    copies : int
        Number of arrays of this size that are in memory at once.
    has_components : bool
        Whether the parameter `n_components` can approximate the kernel.
    """
    entry = 8 * copies

    def remedy(free: int) -> str:
        # Half of the memory is for the features, half for the solver of the model.
        n_components = max(1, free // (2 * 8 * n_rows))
        fewer = f"Fit on at most {isqrt(free // entry):,} samples"
        if has_components:
            return f"{fewer}, or approximate the kernel: set n_components={n_components}."
        return f"{fewer}."

    held = "" if copies == 1 else f", held {copies} times,"
    what = f"A kernel matrix of {n_rows:,} x {n_rows:,}{held}"
    require_memory(entry * n_rows**2, what, remedy)


def _require_known(kernel: str) -> None:
    if kernel not in KERNELS:
        names = ", ".join(map(repr, KERNELS))
        raise ValueError(
            f"There is no kernel {kernel!r}. Use 'precomputed', a function of two rows, or one of "
            f"{names}."
        )


def _as_float64(X: Any) -> Any:
    if sparse.issparse(X):
        return X.astype(np.float64, copy=False)
    return np.ascontiguousarray(X, dtype=np.float64)


def _for_scikit_learn(X: Any) -> Any:
    """Copy what kernels of scikit-learn refuse: read-only arrays and indices of 64 bits."""
    if not sparse.issparse(X):
        return np.require(X, requirements="W")
    if X.indices.dtype != np.int32 and max(*X.shape, X.nnz) <= np.iinfo(np.int32).max:
        parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        return type(X)(parts, shape=X.shape)
    return X


def _for_inner_products(
    X: Any, Y: Any, kernel: Kernel, dtype: type[np.floating[Any]]
) -> tuple[Any, Any]:
    """Transform the rows so that the kernel is a function of their inner products or distances."""
    if kernel == "cosine":
        X, Y = normalize(X), None if Y is None else normalize(Y)
    elif kernel == "rbf" and not sparse.issparse(X):
        X, Y = _centre(X, Y)
    elif kernel == "laplacian" and sparse.issparse(X):
        X, Y = _nearer_zero(X, Y)
    return X.astype(dtype, copy=False), None if Y is None else Y.astype(dtype, copy=False)


def _centre(X: Array, Y: Array | None) -> tuple[Array, Array | None]:
    """Subtract the median of some rows of Y (None: of X); distances do not change.

    Far from the origin, the rounding error of the norms would exceed small distances. Medians are
    robust to outliers, and they are entries of the data, so that integers stay integers.
    """
    rows = X if Y is None else Y
    rows = rows[:: max(1, len(rows) // 32)]
    middle = len(rows) // 2
    origin = np.partition(rows, middle, axis=0)[middle]
    return X - origin, None if Y is None else Y - origin


def _nearer_zero(X: Any, Y: Any) -> tuple[Any, Any]:
    """Subtract the value nearest to zero from each feature of sparse rows; distances do not change.

    Distances are differences of sums of entries and would lose precision if the offset is large.
    Features that are zero in some row do not change.
    """
    both = [rows for rows in (X, Y) if rows is not None and rows.shape[0]]
    lowest = np.min([rows.min(axis=0).toarray().ravel() for rows in both], axis=0)
    highest = np.max([rows.max(axis=0).toarray().ravel() for rows in both], axis=0)
    offset = np.clip(0.0, lowest, highest)
    if not offset.any():
        return X, Y

    def shifted(rows: Any) -> Any:
        parts = rows.data - offset[rows.indices], rows.indices, rows.indptr
        return sparse.csr_array(parts, shape=rows.shape)

    return shifted(X), None if Y is None else shifted(Y)


@np.errstate(over="ignore", invalid="ignore")  # callers check the kernel matrix
def spread_of_entries(X: Any, weights: Array) -> tuple[float, float, float]:
    """Compute the total weight of all entries of X, their mean, and their squared deviations.

    Every entry has the weight of its row.
    """
    X = _as_float64(X)
    total = float(weights.sum()) * X.shape[1]
    origin = 0.0
    if not sparse.issparse(X):
        origin = float(X[0, 0])
        X = X - origin  # exactly zero if all entries are equal
    mean = float(weights @ np.asarray(X.sum(axis=1)).ravel()) / total
    if sparse.issparse(X):
        deviations = X.copy()
        deviations.data -= mean
        n_zeros = X.shape[1] - np.diff(X.indptr)
        squares = row_norms(deviations) + n_zeros * (mean * mean)
    else:
        squares = row_norms(X - mean)
    return total, origin + mean, float(weights @ squares)


def _variance_of_entries(X: Any, weights: Array) -> float:
    total, _, squares = spread_of_entries(X, weights)
    return squares / total
