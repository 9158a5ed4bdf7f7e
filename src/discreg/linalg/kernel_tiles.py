"""Kernels that are functions of inner products or L1 distances, computed tile by tile.

BLAS computes the inner products of a tile, or a compiled loop its distances. A compiled loop
applies the kernel function while the tile is in the cache. For a symmetric matrix, the tile is then
copied to its mirror image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from discreg.linalg.types import Array

from .resources import run_in_threads
from .rows import batches, row_norms

__all__ = ["TILE", "kernel_on_tiles", "map_pairs", "pairs_on_tiles"]

OnTile = Callable[[Array, slice, slice], object]  # f(K, rows, cols) writes to K[rows, cols]
Corner = tuple[int, int]  # first row and column of a part of a matrix

TILE = 384  # rows and columns: about a megabyte, which fits into the second-level cache
SMALL = 512 * 512  # entries of a matrix up to which threads and compiled loops are not faster


def kernel_on_tiles(
    X: Any, Y: Any, kernel: str, gamma: float | None, degree: float, coef0: float
) -> Callable[..., object]:
    """Return a function f that computes a kernel from the values of `pairs_on_tiles`.

    f(K, rows, cols) replaces the inner products, or distances, of rows of X and of Y in
    K[rows, cols] by the kernel. If K is a part of the matrix of all of them, f(K, rows, cols,
    corner) needs its first row and column.
    """
    gamma = 1 / X.shape[1] if gamma is None else float(gamma)
    coef0 = float(coef0)

    def real_power(K: Array, rows: slice, cols: slice, corner: Corner = (0, 0)) -> None:
        tile = K[rows, cols]
        with np.errstate(invalid="ignore", over="ignore"):  # powers of negative numbers are NaN
            np.power(gamma * tile + coef0, degree, out=tile)

    match kernel:
        case "rbf":
            of_rows, of_cols = (row_norms(each).astype(X.dtype) for each in (X, Y))
            width = X.dtype.type(gamma)

            loop: Callable[..., object] = _small_rbf_tile
            if X.shape[0] * Y.shape[0] > SMALL:
                from ._kernel_loops import rbf_tile, single_rbf_tile

                loop = single_rbf_tile if X.dtype == np.float32 else rbf_tile

            def rbf(K: Array, rows: slice, cols: slice, corner: Corner = (0, 0)) -> None:
                loop(K, rows, cols, of_rows[corner[0] :], of_cols[corner[1] :], width)

            return rbf
        case "laplacian":
            width = X.dtype.type(gamma)
            decay: Callable[..., object] = _small_laplacian_tile
            if X.shape[0] * Y.shape[0] > SMALL:
                from ._kernel_loops import laplacian_tile, single_laplacian_tile

                decay = single_laplacian_tile if X.dtype == np.float32 else laplacian_tile
            return lambda K, rows, cols, corner=(0, 0): decay(K, rows, cols, width)
        case "sigmoid":
            from ._kernel_loops import tanh_tile

            return lambda K, rows, cols, corner=(0, 0): tanh_tile(K, rows, cols, gamma, coef0)
        case "poly" | "polynomial" if 0 <= degree < 1 << 32 and degree == int(degree):
            from ._kernel_loops import power_tile

            power = int(degree)
            return lambda K, rows, cols, corner=(0, 0): power_tile(
                K, rows, cols, gamma, coef0, power
            )
        case "poly" | "polynomial":
            return real_power
        case _:
            return lambda K, rows, cols, corner=(0, 0): None


def _small_rbf_tile(
    K: Array, rows: slice, cols: slice, of_rows: Array, of_cols: Array, gamma: float
) -> None:
    """Compute exp(−γ ‖x − y‖²) from the inner products xᵀy and the squared norms, in place.

    For small matrices this is faster than loading the compiled loop.
    """
    tile = K[rows, cols]
    with np.errstate(invalid="ignore", over="ignore"):  # squared norms that overflow give NaN
        tile *= 2
        tile -= of_rows[rows, None] + of_cols[cols]
        tile *= gamma
        np.minimum(tile, 0.0, out=tile)
        np.exp(tile, out=tile)


def _small_laplacian_tile(K: Array, rows: slice, cols: slice, gamma: float) -> None:
    """Compute exp(−γ d) from distances d, in place."""
    tile = K[rows, cols]
    np.exp(np.minimum(-gamma * tile, 0.0), out=tile)


def pairs_on_tiles(X: Any, Y: Any, kernel: str) -> OnTile:
    """Return a function that computes what a kernel is a function of, for the pairs of a tile.

    These are the L1 distances for "laplacian", else the inner products. X and Y have one format.
    """
    distances = kernel == "laplacian"
    if not sparse.issparse(X):
        if not distances:
            return lambda K, rows, cols: np.matmul(X[rows], Y[cols].T, out=K[rows, cols])
        if X.shape[0] * Y.shape[0] <= SMALL:
            return lambda K, rows, cols: np.copyto(
                K[rows, cols], cdist(X[rows], Y[cols], "cityblock")
            )
        from ._kernel_loops import distance_tile

        features = np.ascontiguousarray(Y.T)
        return lambda K, rows, cols: distance_tile(K, rows, cols, X, features)
    from ._kernel_loops import sparse_distance_tile, sparse_tile

    columns = Y.T.tocsr()
    of_rows, of_cols = ((each.indptr, each.indices, each.data) for each in (X, columns))
    if not distances:
        return lambda K, rows, cols: sparse_tile(K, rows, cols, *of_rows, *of_cols)
    sums = [np.asarray(abs(each).sum(axis=1)).ravel().astype(X.dtype) for each in (X, Y)]
    return lambda K, rows, cols: sparse_distance_tile(
        K, rows, cols, *of_rows, sums[0], *of_cols, sums[1]
    )


def map_pairs(X: Any, Y: Any, kernel: str, function: OnTile) -> Array:
    """Apply a function to `pairs_on_tiles` of the rows of X and of Y (None: of X)."""
    symmetric = Y is None
    Y = X if symmetric else Y
    pairs = pairs_on_tiles(X, Y, kernel)
    K = np.empty((X.shape[0], Y.shape[0]), dtype=X.dtype)

    def fill(tile: tuple[slice, slice]) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # callers check the values
            pairs(K, *tile)
            function(K, *tile)
        if symmetric:
            _mirror(K, *tile)

    run_in_threads(fill, _tiles(K, whole_rows=sparse.issparse(X), lower=symmetric))
    return K


def _mirror(K: Array, rows: slice, cols: slice) -> None:
    """Copy K[rows, cols] to its mirror image; a tile on the diagonal becomes symmetric."""
    tile = K[rows, cols]
    if rows == cols:
        np.copyto(tile, tile.T.copy(), where=~np.tri(len(tile), dtype=bool))
    else:
        K[cols, rows] = tile.T


def _tiles(K: Array, *, whole_rows: bool, lower: bool) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and columns of tiles that cover K or its lower triangle, the largest first."""
    n_rows, n_cols = K.shape
    whole = max(n_rows, n_cols)
    height = TILE if K.size > SMALL else whole
    width = whole if whole_rows else height
    for rows in reversed(list(batches(n_rows, height))):
        for cols in batches(rows.stop if lower else n_cols, width):
            yield rows, cols
