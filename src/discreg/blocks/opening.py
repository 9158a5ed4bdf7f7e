"""Open training data that is read in blocks, whatever its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from .source import (
    ArrayBlocks,
    RawBlocks,
    is_dask,
    is_out_of_core,
    labels_of_block,
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
