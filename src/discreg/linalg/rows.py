"""Rows with their labels and weights: checks, products, sums and means in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import check_array, compute_class_weight

from .resources import run_in_threads
from .types import Array, Indices

SMALLEST_SQUARE = 1e-300  # below it squares lose precision or are zero
BLOCK_BYTES = 1 << 20  # a block and its products stay in a core's cache
WIDE_BLOCK = 1 << 20  # entries of a block of columns: many, so that adding its product is cheap
HASHED_ENTRIES = 4 << 20  # that one thread hashes at once
MIN_STEP = 64  # minimum number of rows of a block
LARGEST = 1 << 62  # differences of smaller integers do not overflow
SMALL_RANGE = 1 << 16  # range of integers that are encoded by a lookup array
CONSTANT = 32 * float(np.finfo(np.float64).eps)  # less relative variation counts as constant


def batches(n_rows: int, size: int) -> Iterator[slice]:
    """Yield slices of `size` consecutive rows, the last one shorter.

    This is `gen_batches` of scikit-learn without its checks, which take longer than a prediction.
    """
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def row_blocks(n_rows: int, n_columns: int, least: int = MIN_STEP) -> Iterator[slice]:
    """Return slices of consecutive rows, each about BLOCK_BYTES of float64."""
    return batches(n_rows, max(least, BLOCK_BYTES // (8 * max(n_columns, 1))))


def sum_over_blocks(
    block_statistics: Callable[[slice], Any], n_rows: int, n_columns: int, least: int = MIN_STEP
) -> Any:
    """Compute the sum of ``block_statistics(rows)`` over the blocks of rows."""
    blocks = row_blocks(n_rows, n_columns, least)
    total = block_statistics(next(blocks))
    for rows in blocks:
        total += block_statistics(rows)
    return total


def weighted_mean(X: Any, weights: Array) -> Array:
    """Compute the weighted mean of the rows of X."""
    total = rmatmul(X, weights[:, None])[:, 0]
    return np.asarray(total / weights.sum())


def class_totals(X: Any, y: Indices, weights: Array, n_classes: int) -> Array:
    """Compute XᵀSY for the zero-one matrix Y: weighted sums of rows, one column per class."""
    n_rows, n_features = X.shape
    memberships = sparse.csr_array((weights, y, np.arange(n_rows + 1)), shape=(n_rows, n_classes))
    if sparse.issparse(X):
        return np.asarray((X.T @ memberships).toarray())
    totals = np.zeros((n_classes, n_features))
    for rows in row_blocks(n_rows, n_features):
        totals += memberships[rows].T @ X[rows]
    return totals.T


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


def centred_gram(X: Any, weights: Array, mean: Array | None) -> Array:
    """Compute ``(X - mean)ᵀ diag(weights) (X - mean)``; a dense X is centred block by block.

    The row and column of a feature that is constant up to rounding are zero.
    """
    if not X.shape[0]:
        return np.zeros((X.shape[1], X.shape[1]))
    if sparse.issparse(X):
        weighted = X.astype(np.float64).multiply(weights[:, None]).tocsr()
        gram = np.asarray((weighted.T @ X).toarray())
        if mean is not None:
            gram -= np.outer(mean * weights.sum(), mean)
            constant = clear_constant(gram, weights.sum() * mean**2, is_sparse=True)
            require_centrable(X, constant)
        return gram
    root = np.sqrt(weights)[:, None]

    def block_gram(rows: slice) -> Array:
        block = X[rows] * root[rows] if mean is None else (X[rows] - mean) * root[rows]
        return np.asarray(block.T @ block)

    n_rows, n_columns = X.shape
    # With fewer rows, adding the Gram matrix of a block would take as long as computing it.
    least = max(MIN_STEP, n_columns // 2)
    gram = sum_over_blocks(block_gram, n_rows, n_columns, least)
    if mean is not None:
        clear_constant(gram, weights.sum() * mean**2, is_sparse=False)
    return np.asarray(gram)


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
    for columns in batches(n_features, max(WIDE_BLOCK // n_samples, 64)):
        block = np.asarray(X[:, columns], dtype=np.float64)
        if mean is not None:
            block = block - mean[columns]
            rounding = CONSTANT * np.abs(mean[columns])
            suspects = np.flatnonzero(np.abs(block[0]) <= rounding)
            constant = np.abs(block[:, suspects]).max(axis=0) <= rounding[suspects]
            block[:, suspects[constant]] = 0.0
        gram += block @ block.T
    return gram


def require_centrable(X: Any, constant: NDArray[np.bool_]) -> None:
    """Raise ValueError if a feature of a sparse X seems constant only because of rounding."""
    if constant.any() and varies(X[:, constant]):
        raise ValueError(
            "A feature of the sparse X varies by less than the rounding of its mean, and a sparse "
            "matrix cannot be centred. Subtract a constant from the feature, or pass X as a dense "
            "array."
        )


def column_squares(X: Any, weights: Array, mean: Array | None) -> Array:
    """Compute the diagonal of `centred_gram`: weighted squares of each feature about its mean."""
    if sparse.issparse(X):
        squares = np.asarray(X.astype(np.float64).power(2).T @ weights).ravel()
        if mean is not None:
            squares -= weights.sum() * mean**2
        return squares

    def block_squares(rows: slice) -> Array:
        block = X[rows].astype(np.float64, copy=False)
        block = block if mean is None else block - mean
        return np.asarray(weights[rows] @ (block * block))

    return np.asarray(sum_over_blocks(block_squares, *X.shape), dtype=np.float64)


def varies(X: Any) -> bool:
    """Return whether any feature has more than one value."""
    highest, lowest = X.max(axis=0), X.min(axis=0)
    if sparse.issparse(X):
        highest, lowest = highest.toarray(), lowest.toarray()
    return bool(np.any(highest != lowest))


def row_norms(X: Any) -> Array:
    """Compute the squared norms of the rows in float64."""
    if sparse.issparse(X):
        return np.asarray(X.astype(np.float64).multiply(X).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))


def require_squares(X: Any) -> None:
    """Raise ValueError if the squares of the features overflow, or if all of them underflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        norms = row_norms(X)
    lost = norms.max() < SMALLEST_SQUARE and varies(X)
    if lost or not np.all(np.isfinite(norms)):
        raise ValueError(
            f"The squares of the features {'underflow' if lost else 'overflow'}. Scale the "
            "features: divide them by their largest values."
        )


def row_dots(A: Array, B: Array) -> Array:
    """Compute the inner product of each row of A with the same row of B."""
    return np.asarray(np.einsum("ij,ij->i", A, B))


def weighted_square(residuals: Array, weights: Array) -> float:
    """Compute the weighted sum of the squared residuals; rows of weight zero have no effect."""
    squares = row_dots(residuals, residuals)
    if not np.isfinite(squares).all():
        squares[weights == 0] = 0.0
    return float(weights @ squares)


def has_distinct_rows(X: Any, n_rows: int) -> bool:
    """Return whether X has at least `n_rows` distinct rows, by a random combination of entries."""
    direction = np.random.default_rng(0).standard_normal(X.shape[1])
    # BLAS may sum the entries of equal rows in different orders.
    sums = X @ direction if sparse.issparse(X) else np.einsum("ij,j->i", X, direction)
    return len(np.unique(sums)) >= n_rows


def hash_rows(X: Any, seed: int) -> NDArray[np.uint64]:
    """Compute a random number from the values of each row; zeros have no effect."""
    from ._loops import hash_dense_rows, hash_sparse_rows

    hashes = np.empty(X.shape[0], dtype=np.uint64)
    if sparse.issparse(X):
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        hash_sparse_rows(X.data, X.indices, X.indptr, seed, hashes)
    else:
        parts = batches(len(X), max(1, HASHED_ENTRIES // X.shape[1]))

        @np.errstate(over="ignore")  # without numba, products of integers warn
        def hash_part(rows: slice) -> None:
            hash_dense_rows(X[rows], seed, hashes[rows])

        run_in_threads(hash_part, parts)
    return hashes


def clear_constant(gram: Array, square_of_mean: Array, *, is_sparse: bool) -> NDArray[np.bool_]:
    """Zero the rows and columns of features that are constant up to rounding.

    The tolerance is larger for sparse rows, which are centred after squaring. Returns a mask of
    the constant features.
    """
    fraction = CONSTANT if is_sparse else CONSTANT**2
    constant = np.isfinite(gram.diagonal()) & (gram.diagonal() <= fraction * square_of_mean)
    gram[constant] = 0.0
    gram[:, constant] = 0.0
    return constant


def matmul(X: Any, coef: Array) -> Array:
    """Compute ``X @ coef`` in float64, without a float64 copy of a float32 X."""
    if sparse.issparse(X) or X.dtype == np.float64:
        return np.asarray(X @ coef)
    product = np.empty((len(X), coef.shape[1]))
    for rows in row_blocks(*X.shape):
        np.matmul(X[rows], coef, out=product[rows])
    return product


def rmatmul(X: Any, residuals: Array) -> Array:
    """Compute ``Xᵀ @ residuals`` in float64, without a float64 copy of a float32 X."""
    if sparse.issparse(X) or X.dtype == np.float64:
        return np.asarray(X.T @ residuals)
    total = np.zeros((X.shape[1], residuals.shape[1]))
    for rows in row_blocks(*X.shape):
        total += X[rows].T @ residuals[rows]
    return total


def class_sums(indices: Indices, values: Array | None, n_classes: int) -> Array:
    """Compute the sum of the values of each class; None means ones."""
    return np.asarray(np.bincount(indices, values, n_classes), dtype=np.float64)


def one_hot(indices: Indices, n_classes: int) -> Array:
    """Return the zero-one targets Y of least squares regression."""
    targets = np.zeros((len(indices), n_classes))
    targets[np.arange(len(indices)), indices] = 1.0
    return targets


def find_labels(
    labels: NDArray[Any], classes: NDArray[Any] | None = None
) -> tuple[NDArray[Any], Indices]:
    """Return the distinct labels in ascending order, or `classes`, and the index of each label.

    If a label is not in `classes`, its index is that of another class. Integers in a small range
    are encoded by a lookup array, which is many times faster than sorting.
    """
    known = labels if classes is None else classes
    if labels.dtype.kind in "iub" and known.dtype.kind in "iub" and len(labels) and len(known):
        low, high = int(known.min()), int(known.max())
        if high - low < SMALL_RANGE and max(-low, high) < LARGEST:
            offsets = labels.astype(np.intp)  # labels outside the classes may wrap around
            offsets -= low
            if classes is None:
                classes = np.flatnonzero(np.bincount(offsets)).astype(labels.dtype) + low
                classes = classes.astype(labels.dtype)
            places = np.zeros(high - low + 1, dtype=np.intp)
            places[classes.astype(np.intp) - low] = np.arange(len(classes))
            return classes, np.take(places, offsets, mode="clip")
    if classes is None:
        found, indices = np.unique(labels, return_inverse=True)
        return found, indices.astype(np.intp, copy=False)
    return classes, np.searchsorted(classes, labels).clip(max=len(classes) - 1)


def require_two_classes(classes: NDArray[Any]) -> None:
    """Raise ValueError if there are fewer than two classes."""
    if len(classes) < 2:
        what = f"one class only: {classes.tolist()[0]!r}" if len(classes) else "no labels"
        raise ValueError(
            f"A classifier needs samples of at least 2 classes, but y contains {what}. Add samples "
            "of the other classes."
        )


def checked_weights(
    sample_weight: ArrayLike | None, n_samples: int, *, in_part: bool = False
) -> Array:
    """Check sample weights and return a new array with one weight per sample.

    Sample weights are equivalent to repeating rows. With `in_part`, the samples are a part of the
    data, and the sum of their weights is not checked.
    """
    if sample_weight is None:
        return np.ones(n_samples)
    if np.isscalar(sample_weight):
        weights = np.full(n_samples, sample_weight, dtype=np.float64)
    else:
        weights = check_array(
            sample_weight,
            ensure_2d=False,
            dtype=np.float64,
            input_name="sample_weight",
            copy=True,
            ensure_min_samples=0,
        )
        if weights.shape != (n_samples,):
            raise ValueError(
                f"sample_weight must contain one number for each of the {n_samples} samples; "
                f"its shape is {weights.shape}."
            )
    if np.any(weights < 0) or not np.all(np.isfinite(weights)):
        raise ValueError(
            "sample_weight must be finite and non-negative. The smallest weight is "
            f"{weights.min():g}."
        )
    if not in_part:
        require_sum_of_weights(float(weights.sum()))
    return weights


def require_sum_of_weights(total: float) -> None:
    """Raise ValueError if the sum of the weights is too large or too small to be squared.

    A sum of zero is accepted here.
    """
    if total != 0 and not 1e-100 < total < 1e100:
        raise ValueError(
            f"sample_weight sums to {total:g}, which is too large or too small to be squared. "
            "Divide the weights by their mean."
        )


def class_weights(
    class_weight: Mapping[Any, float] | str | None,
    classes: NDArray[Any],
    sizes: Array,
) -> Array:
    """Compute the weight of each class from the sums of the sample weights."""
    if class_weight is None:
        return np.ones(len(classes))
    if class_weight == "balanced":
        return np.asarray(sizes.sum() / (len(classes) * sizes))
    factors = compute_class_weight(class_weight, classes=classes, y=classes)
    if np.any(factors < 0) or not np.all(np.isfinite(factors)):
        raise ValueError(f"class_weight must be finite and non-negative, got {class_weight!r}.")
    return np.asarray(factors, dtype=np.float64)


def require_weight_in_each_class(totals: Array, classes: NDArray[Any], source: str) -> None:
    """Raise ValueError if the weights of a class sum to zero."""
    if not np.all(totals > 0):
        empty = ", ".join(repr(label) for label in classes[totals <= 0].tolist())
        raise ValueError(
            f"The samples of class {empty} have zero total weight by {source}: the class cannot be "
            "learned. Remove its rows or give them a positive weight."
        )


def canonical(rows: Any) -> Any:
    """Add up entries of a sparse matrix that have the same position, in a copy.

    Norms and kernels, unlike products, would count such entries separately.
    """
    if sparse.issparse(rows) and rows.nnz:
        columns = rows.indices[: rows.nnz]
        if columns.min() < 0 or columns.max() >= rows.shape[1]:  # SciPy would leave its memory
            raise ValueError(
                f"X has {rows.shape[1]} columns, and entries in column {columns.max()}."
            )
    if sparse.issparse(rows) and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows
