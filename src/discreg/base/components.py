"""The parameters `n_components` and `approximation`, by which kernels scale to many rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from discreg.blocks.mapped import MappedBlocks, kernel_of_blocks, map_of_blocks
from discreg.blocks.source import BlockSource
from discreg.blocks.validation import Choice, Number
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernel_approximation import (
    APPROXIMATIONS,
    FeatureMap,
    map_of_rows,
)
from discreg.linalg.resources import require_memory
from discreg.linalg.types import Array

from .caller import user_stacklevel

__all__ = [
    "COMPONENT_CONSTRAINTS",
    "EXACT_ROWS",
    "components_of",
    "fit_map",
    "fit_map_to_blocks",
    "fits_in_memory",
    "in_memory_if_small",
    "is_exact",
    "require_components_memory",
    "settle_components",
    "store_components",
    "why_exact_kernel",
    "why_no_kernel_in_parts",
]

EXACT_ROWS = 10_000  # n_components="auto": number of rows up to which a kernel is exact
AUTO_COMPONENTS = 1_000  # n_components="auto": number of components for more rows
LARGEST_FEATURES = 1 << 30  # bytes of mapped rows that are kept in memory

COMPONENT_CONSTRAINTS: dict[str, Any] = {
    "n_components": Choice(("auto", None), others=(Number(1, closed="left", integer=True),)),
    "approximation": Choice(APPROXIMATIONS),
}


def components_of(estimator: Any, n_rows: int | None) -> int | None:
    """Return the number of components that approximate the kernel; None for an exact kernel.

    Parameters
    ----------
    estimator : object
        Estimator with the parameters `kernel` and `n_components`.
    n_rows : int or None
        Number of training rows; None if the rows come in blocks, whose kernel matrix is not
        computed.
    """
    if estimator.kernel == "linear" or estimator.n_components is None:
        return None
    given: int | str = estimator.n_components
    if estimator.kernel == "precomputed":
        if given == "auto":
            return None
        raise ValueError(
            "n_components cannot approximate a precomputed kernel, because it needs the features. "
            "Set n_components=None, or pass the features and the name of the kernel."
        )
    if given != "auto":
        if n_rows is None or estimator.approximation != "nystroem":
            return int(given)
        return min(int(given), n_rows)  # rows of the basis
    if n_rows is not None and n_rows <= EXACT_ROWS:
        return None
    cause, advice = "X is not in memory", "Set n_components to choose their number."
    if n_rows is not None:
        cause = f"there are {n_rows:,} rows"
        advice = f"{advice[:-1]}, or n_components=None for the exact kernel."
    warnings.warn(
        f"{type(estimator).__name__} approximates the kernel by {AUTO_COMPONENTS:,} components, "
        f"because {cause}; it is exact for at most {EXACT_ROWS:,} rows in memory. {advice}",
        UserWarning,
        stacklevel=user_stacklevel(),
    )
    return AUTO_COMPONENTS


def is_exact(estimator: Any) -> bool:
    """Return whether a kernel other than the linear one is exact, or may be so by "auto"."""
    return estimator.kernel != "linear" and estimator.n_components in (None, "auto")


def why_no_kernel_in_parts(estimator: Any) -> str | None:
    """Explain why `partial_fit` does not approximate the kernel; None if it does or need not."""
    if is_exact(estimator):
        return f"kernel is {estimator.kernel!r} and n_components is not a number."
    return why_exact_kernel(estimator, None)


def settle_components(classifier: Any, n_rows: int) -> None:
    """Replace "auto" by the number of components for all rows, also for folds of fewer rows."""
    if vars(classifier).get("n_components") == "auto":
        classifier.n_components = components_of(classifier, n_rows) or "auto"


def store_components(estimator: Any, features: FeatureMap) -> None:
    """Set the fitted attributes of a kernel that components approximate."""
    estimator.n_components_, estimator.kernel_error_ = features.n_components, features.error


def why_exact_kernel(estimator: Any, n_rows: int | None) -> str | None:
    """Explain why a kernel needs its rows in memory; None if it does not.

    `n_rows` is None if the rows can only be read in blocks.
    """
    if estimator.kernel == "linear":
        return None
    if estimator.kernel == "precomputed":
        return "A precomputed kernel has to be in memory. Use kernel='linear' or kernel='rbf'."
    few = n_rows is not None and n_rows <= EXACT_ROWS
    if estimator.n_components is None or (few and estimator.n_components == "auto"):
        return (
            f"kernel={estimator.kernel!r} needs the rows in memory. Set n_components to "
            "approximate it, or use kernel='linear'."
        )
    return None


def require_components_memory(features: FeatureMap) -> None:
    """Raise MemoryError if a fit by sums over rows does not fit into memory."""
    require_memory(
        3 * 8 * features.n_components**2,
        f"A fit in blocks with {features.n_components:,} components",
        "Use fewer n_components.",
    )


def in_memory_if_small(source: MappedBlocks) -> BlockSource:
    """Map the rows once for a model that reads them many times, if the result is small."""
    if not fits_in_memory(source.n_rows, source.n_features):
        return source
    return source.in_memory()


def fits_in_memory(n_rows: int, n_components: int) -> bool:
    """Return whether the components of all rows are kept; otherwise they are read in blocks.

    With fewer rows than components, a fit in blocks would take more memory.
    """
    return n_rows <= n_components or 8 * n_rows * n_components <= LARGEST_FEATURES


def fit_map(
    estimator: Any,
    X: Any,
    weights: Array,
    n_components: int,
    random: np.random.RandomState | None = None,
) -> FeatureMap:
    """Create the components that approximate an estimator's kernel on rows X.

    Rows of weight zero have no effect.
    """
    random = check_random_state(estimator.random_state) if random is None else random
    kernel = FittedKernel.of(estimator, X, weights)
    seen = X if np.all(weights > 0) else X[weights > 0]
    return map_of_rows(estimator.approximation, kernel, seen, n_components, random)


def fit_map_to_blocks(
    estimator: Any,
    source: BlockSource,
    n_components: int,
    random: np.random.RandomState | None = None,
) -> FeatureMap:
    """Create the components that approximate an estimator's kernel on rows in blocks."""
    random = check_random_state(estimator.random_state) if random is None else random
    kernel = kernel_of_blocks(estimator, source)
    return map_of_blocks(estimator.approximation, kernel, source, n_components, random)
