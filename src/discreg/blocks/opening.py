"""Open training data that is read in blocks, whatever its kind; moments of continuous targets.

Continuous targets are further columns of the rows, so that the scatter of both contains XᵀX, XᵀY
and YᵀY about the mean, and blocks are added as `moments` adds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from discreg.linalg.rows import checked_weights, weighted_mean
from discreg.linalg.types import Array

from .moments import Moments, block_moments
from .source import (
    ArrayBlocks,
    Block,
    RawBlocks,
    is_dask,
    is_out_of_core,
    labels_of_block,
    rows_of_block,
)


def open_blocks(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    class_weight: Mapping[Any, float] | str | None,
) -> RawBlocks:
    """Create the source of streamed training data and set the features of the estimator."""
    if is_dask(X):
        from .dask_source import DaskBlocks

        return DaskBlocks(estimator, X, y, sample_weight, class_weight)
    if is_out_of_core(X):
        if np.isscalar(sample_weight) and y is not None:
            sample_weight = np.broadcast_to(sample_weight, len(y))
        source: RawBlocks = X.open_blocks(y, sample_weight, class_weight)
        validate_data(estimator, np.zeros((1, source.n_features)))
        return source
    validate_data(estimator, X[:1], accept_sparse="csr", dtype=None, ensure_all_finite=False)
    labels = labels_of_block(y)
    if labels.shape != (X.shape[0],):
        raise ValueError(
            f"y must contain one label for each of the {X.shape[0]} rows of X; its shape is "
            f"{labels.shape}."
        )
    return ArrayBlocks(X, labels, sample_weight, class_weight)


def is_flat(y: Any) -> bool:
    """Return whether targets have one dimension."""
    return bool((y.ndim if hasattr(y, "ndim") else np.ndim(y)) == 1)


def target_columns(y: Any) -> Array:
    """Check targets, and return them in float64 with one column per target."""
    if sparse.issparse(y):
        raise ValueError("y is a sparse matrix. Pass y.toarray().")
    targets = check_array(
        y, dtype=np.float64, ensure_2d=False, input_name="y", ensure_min_samples=0
    )
    return np.asarray(targets[:, None] if targets.ndim == 1 else targets)


def positive_weights(sample_weight: ArrayLike | None, n_samples: int) -> Array:
    """Check sample weights as `sample_weights` does; one of them must be positive."""
    weights = checked_weights(sample_weight, n_samples)
    require_positive(float(weights.sum()))
    return weights


def require_positive(total: float) -> None:
    """Raise ValueError if the weights of all rows are zero."""
    if total <= 0:
        raise ValueError("All rows have weight zero by sample_weight. Give some a positive weight.")


def open_targets(estimator: Any, X: Any, y: Any, sample_weight: Any) -> RawBlocks:
    """Create the source of streamed rows and targets, and set the features of the estimator."""
    if is_dask(X):
        from .dask_source import DaskBlocks

        return DaskBlocks(estimator, X, y, sample_weight, None, many_targets=True)
    if is_out_of_core(X):
        return open_blocks(estimator, X, y, sample_weight, None)
    validate_data(estimator, X[:1], dtype=None, ensure_all_finite=False)
    targets = target_columns(y)
    if len(targets) != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows, but y has {len(targets)}.")
    return ArrayBlocks(X, targets, sample_weight, None)


def chunk_moments(
    X: Any, y: Any, sample_weight: Any, first: int, n_features: int, dtype: np.dtype[Any]
) -> Moments:
    """Compute the moments of the rows and targets of a raw block, as a statistic of a source."""
    rows = rows_of_block(X, n_features).astype(dtype, copy=False)
    targets = target_columns(y)
    if len(targets) != rows.shape[0]:
        raise ValueError(f"X has {rows.shape[0]} rows, but y has {len(targets)}.")
    weights = checked_weights(sample_weight, len(targets), in_part=True)
    middle = weighted_mean(targets, weights) if np.any(weights) else np.zeros(targets.shape[1])
    # About their mean, also for sparse rows, which are centred after squaring.
    columns = (targets - middle).astype(dtype)
    if sparse.issparse(rows):
        both = sparse.hstack([rows, sparse.csr_array(columns)], format="csr")
    else:
        both = np.hstack([rows, columns])
    found = block_moments(Block(both, np.zeros(len(targets), dtype=np.intp), weights), 1)
    means = found.means.copy()
    means[:, n_features:] += middle
    return replace(found, means=means)
