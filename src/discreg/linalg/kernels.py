"""The named kernels: their properties, and their matrices and products, computed tile by tile.

Most kernels are functions of the inner product of two rows, of their squared distance, or of their
L1 distance. BLAS computes the inner products of a tile, or a compiled loop its L1 distances. The
function is applied while the tile is in the cache. For a symmetric matrix, the tile is then copied
to its mirror image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import normalize

from .resources import require_memory, run_in_threads
from .rows import batches, row_norms
from .types import Array

TILE = 384  # rows and columns: about a megabyte, which fits into the second-level cache
SMALL = 512 * 512  # entries of a matrix up to which threads are not faster
HIGH_TILE = 768  # rows per task: many, so that threads rarely wait for each other


class TileFunction(NamedTuple):
    """A kernel as a function of one number for each pair of rows.

    Attributes
    ----------
    of : str
        "products" for inner products, "squares" for squared distances, "distances" for L1
        distances, which sparse rows do not support.
    apply : callable
        ``apply(values, gamma, degree, coef0)`` replaces these numbers by the kernel, in place.
    """

    of: str
    apply: Callable[[Array, float, float, float], object]


@dataclass(frozen=True)
class KernelFacts:
    """Properties of a kernel.

    Attributes
    ----------
    params : tuple of str
        Names of the parameters, among "gamma", "degree" and "coef0".
    on_tiles : TileFunction or None
        How to compute matrices of the kernel tile by tile; None if that is not possible.
    bounded : bool
        Whether all values are at most 1 for any rows.
    diagonal : float or None
        k(x, x) if it is the same for all x, else None.
    is_psd : callable
        ``is_psd(degree, coef0)``, whether all kernel matrices are positive semi-definite.
    matrix : callable or None
        ``matrix(X, Y, **params)``, the kernel matrix between the rows of two arrays or CSR
        matrices. None for the kernels of scikit-learn.
    default_gammas : tuple of float
        Values of gamma that a search tries by default, as multiples of "scale".
    frequencies : callable or None
        ``frequencies(random, shape, gamma)``, samples of the kernel's Fourier transform, of shape
        (n_features, n_samples), for random Fourier features. None if it does not support them.
    of_histograms : bool
        Whether the kernel requires dense rows of non-negative numbers.
    """

    params: tuple[str, ...] = ()
    on_tiles: TileFunction | None = None
    bounded: bool = False
    diagonal: float | None = None
    is_psd: Callable[[float, float], bool] = lambda degree, coef0: False
    matrix: Callable[..., Array] | None = None
    default_gammas: tuple[float, ...] = (1.0,)
    frequencies: Callable[[np.random.RandomState, tuple[int, int], float], Array] | None = None
    of_histograms: bool = False


def _always(degree: float, coef0: float) -> bool:
    return True


def _polynomial_is_psd(degree: float, coef0: float) -> bool:
    return float(degree).is_integer() and coef0 >= 0


def _normal(random: np.random.RandomState, shape: tuple[int, int], gamma: float) -> Array:
    return np.asarray(np.sqrt(2 * gamma) * random.normal(size=shape))


def _cauchy(random: np.random.RandomState, shape: tuple[int, int], gamma: float) -> Array:
    return np.asarray(gamma * random.standard_cauchy(size=shape))


def _keep(values: Array, gamma: float, degree: float, coef0: float) -> None:
    """Compute the inner product itself."""


def _decay(values: Array, gamma: float, degree: float, coef0: float) -> None:
    """Compute exp(−γ v)."""
    values *= -gamma
    np.exp(values, out=values)


def _tanh(values: Array, gamma: float, degree: float, coef0: float) -> None:
    """Compute tanh(γ v + c)."""
    values *= gamma
    values += coef0
    np.tanh(values, out=values)


def _power(values: Array, gamma: float, degree: float, coef0: float) -> None:
    """Compute (γ v + c)ᵈ, by repeated squaring for an integer d ≥ 0."""
    values *= gamma
    values += coef0
    if not (0 <= degree < 1 << 32 and float(degree).is_integer()):
        np.power(values, degree, out=values)
        return
    square, exponent = values.copy(), int(degree)
    values[...] = 1.0
    while exponent:
        if exponent & 1:
            values *= square
        exponent >>= 1
        if exponent:
            square *= square


_PRODUCT = TileFunction("products", _keep)
_POLYNOMIAL = KernelFacts(
    ("gamma", "degree", "coef0"), TileFunction("products", _power), is_psd=_polynomial_is_psd
)

# The kernels of sklearn.metrics.pairwise.pairwise_kernels.
KERNELS: dict[str, KernelFacts] = {
    "additive_chi2": KernelFacts(diagonal=0.0, of_histograms=True),
    "chi2": KernelFacts(("gamma",), bounded=True, diagonal=1.0, is_psd=_always, of_histograms=True),
    "cosine": KernelFacts(on_tiles=_PRODUCT, bounded=True, is_psd=_always),
    "laplacian": KernelFacts(
        ("gamma",),
        on_tiles=TileFunction("distances", _decay),
        bounded=True,
        diagonal=1.0,
        is_psd=_always,
        frequencies=_cauchy,
    ),
    "linear": KernelFacts(on_tiles=_PRODUCT, is_psd=_always),
    "poly": _POLYNOMIAL,
    "polynomial": _POLYNOMIAL,
    "rbf": KernelFacts(
        ("gamma",),
        on_tiles=TileFunction("squares", _decay),
        bounded=True,
        diagonal=1.0,
        is_psd=_always,
        default_gammas=(0.1, 0.3, 1.0, 3.0, 10.0),
        frequencies=_normal,
    ),
    "sigmoid": KernelFacts(("gamma", "coef0"), TileFunction("products", _tanh)),
}


OnTile = Callable[[Array, slice, slice], object]  # f(K, rows, cols) writes to K[rows, cols]


def pairs_on_tiles(X: Any, Y: Any, of: str) -> OnTile:
    """Return a function that computes what a kernel is a function of, for the pairs of a tile.

    X and Y have one format; `of` is that of a `TileFunction`.
    """
    if of == "distances":
        from ._loops import distance_tile

        features = np.ascontiguousarray(Y.T)
        return lambda K, rows, cols: distance_tile(K, rows, cols, X, features)
    if sparse.issparse(X):
        from ._loops import sparse_tile

        columns = Y.T.tocsr()
        both = (X.indptr, X.indices, X.data, columns.indptr, columns.indices, columns.data)

        def products(K: Array, rows: slice, cols: slice) -> None:
            sparse_tile(K, rows, cols, *both)
    else:

        def products(K: Array, rows: slice, cols: slice) -> None:
            np.matmul(X[rows], Y[cols].T, out=K[rows, cols])

    if of == "products":
        return products
    of_rows, of_cols = (row_norms(each).astype(X.dtype) for each in (X, Y))

    def squares(K: Array, rows: slice, cols: slice) -> None:
        products(K, rows, cols)
        tile = K[rows, cols]
        tile *= -2.0
        tile += of_rows[rows, None]
        tile += of_cols[cols]
        np.maximum(tile, 0.0, out=tile)

    return squares


def matrix_on_tiles(X: Any, Y: Any, of: str, apply: Callable[[Array], object]) -> Array:
    """Compute the kernel matrix of the rows of X and of Y (None: of X).

    ``apply`` replaces `pairs_on_tiles` by the kernel, in place.
    """
    symmetric = Y is None
    Y = X if symmetric else Y
    pairs = pairs_on_tiles(X, Y, of)
    K = np.empty((X.shape[0], Y.shape[0]), dtype=X.dtype)

    def fill(tile: tuple[slice, slice]) -> None:
        pairs(K, *tile)
        apply(K[tile])
        if symmetric:
            _mirror(K, *tile)

    with np.errstate(over="ignore", invalid="ignore"):  # callers check the values
        run_in_threads(fill, _tiles(K, whole_rows=sparse.issparse(X), lower=symmetric))
    return K


def product_on_tiles(
    X: Array, Y: Array, coef: Array, of: str, apply: Callable[[Array], object]
) -> Array:
    """Compute the product of the kernel matrix of dense rows and coefficients without the matrix.

    The products of tiles are summed in double precision.
    """
    product = np.zeros((len(X), coef.shape[1]))

    def add(rows: slice) -> None:
        part = X[rows]
        step = max(TILE, TILE * HIGH_TILE // len(part))
        buffer = np.empty(len(part) * min(step, len(Y)), dtype=X.dtype)
        for cols in batches(len(Y), step):
            width = cols.stop - cols.start
            tile = buffer[: len(part) * width].reshape(len(part), width)
            pairs_on_tiles(part, Y[cols], of)(tile, slice(0, len(part)), slice(0, width))
            apply(tile)
            product[rows] += tile @ coef[cols]

    with np.errstate(over="ignore", invalid="ignore"):  # callers check the values
        run_in_threads(add, batches(len(X), HIGH_TILE))
    return product


def _mirror(K: Array, rows: slice, cols: slice) -> None:
    """Copy the part of K[rows, cols] below the diagonal to its mirror image."""
    below = slice(cols.start, min(cols.stop, rows.start))
    K[below, rows] = K[rows, below].T
    if cols.stop > rows.start:
        square = K[rows, rows]
        np.copyto(square, square.T.copy(), where=~np.tri(len(square), dtype=bool))


def _tiles(K: Array, *, whole_rows: bool, lower: bool) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and columns of tiles that cover K or its lower triangle, the largest first."""
    n_rows, n_cols = K.shape
    whole = max(n_rows, n_cols)
    height = TILE if K.size > SMALL else whole
    width = whole if whole_rows else height
    for rows in reversed(list(batches(n_rows, height))):
        for cols in batches(rows.stop if lower else n_cols, width):
            yield rows, cols


def rows_for_tiles(X: Any, Y: Any, kernel: str, of: str) -> tuple[Any, Any]:
    """Transform the rows of X and Y (or None) so that a kernel is a function of their pairs."""
    if kernel == "cosine":
        X, Y = normalize(X), None if Y is None else normalize(Y)
    elif of == "squares" and not sparse.issparse(X):
        X, Y = _centre(X, Y)
    return X, Y


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


def as_float64(X: Any) -> Any:
    """Convert rows to double precision; dense ones to C order."""
    if sparse.issparse(X):
        return X.astype(np.float64, copy=False)
    return np.ascontiguousarray(X, dtype=np.float64)


def for_scikit_learn(X: Any) -> Any:
    """Copy what kernels of scikit-learn refuse: read-only arrays and indices of 64 bits."""
    if not sparse.issparse(X):
        return np.require(X, requirements="W")
    if X.indices.dtype != np.int32 and max(*X.shape, X.nnz) <= np.iinfo(np.int32).max:
        parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        return type(X)(parts, shape=X.shape)
    return X


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


@np.errstate(over="ignore", invalid="ignore")  # callers check the kernel matrix
def spread_of_entries(X: Any, weights: Array) -> tuple[float, float, float]:
    """Compute the total weight of all entries of X, their mean, and their squared deviations.

    Every entry has the weight of its row.
    """
    X = as_float64(X)
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
