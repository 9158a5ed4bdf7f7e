"""Checks of user input: parameters, labels, weights, and whether rows are in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isnan
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from discreg.linalg.kernel_registry import KERNELS
from discreg.linalg.rows import class_sums
from discreg.linalg.types import Array, Indices

from .namespaces import as_numpy

__all__ = [
    "CLASS_WEIGHT",
    "KERNEL_CONSTRAINTS",
    "Boolean",
    "Choice",
    "Number",
    "canonical",
    "check_params",
    "class_weights",
    "dispatched",
    "encode_labels",
    "find_labels",
    "in_blocks",
    "is_dask",
    "is_missing",
    "is_out_of_core",
    "is_streamed",
    "largest_block",
    "new_rows",
    "number_of_rows",
    "require_fitted",
    "require_sum_of_weights",
    "require_two_classes",
    "require_weight_in_each_class",
    "row_weights",
    "sample_weights",
    "set_input_tags",
    "training_rows",
]

LARGEST_BLOCK = 64 << 20  # bytes
ROWS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


@dataclass(frozen=True)
class Number:
    """Number in an interval; ``closed`` specifies which ends are included.

    Infinity is accepted only if it is an end that is included, and ``infinite``.
    """

    low: float = -np.inf
    high: float = np.inf
    closed: str = "both"
    integer: bool = False
    infinite: bool = False

    def accepts(self, value: Any) -> bool:
        kind = Integral if self.integer else Real
        if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
            return False
        try:
            number = float(value)
        except OverflowError:  # an int beyond the largest float
            return False
        above = number >= self.low if self.closed in ("both", "left") else number > self.low
        below = number <= self.high if self.closed in ("both", "right") else number < self.high
        return bool((self.infinite or np.isfinite(number)) and above and below)

    def __str__(self) -> str:
        known = [self.infinite or np.isfinite(end) for end in (self.low, self.high)]
        left = "[" if self.closed in ("both", "left") and known[0] else "("
        right = "]" if self.closed in ("both", "right") and known[1] else ")"
        kind = "an int" if self.integer else "a float"
        return f"{kind} in {left}{self.low:g}, {self.high:g}{right}"


@dataclass(frozen=True)
class Boolean:
    """True or False."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool | np.bool_)

    def __str__(self) -> str:
        return "a bool"


@dataclass(frozen=True)
class Choice:
    """One of a few values, or a value that another constraint or a test accepts."""

    values: tuple[Any, ...]
    others: tuple[Any, ...] = ()
    test: Callable[[Any], bool] | None = None
    described: str = ""

    def accepts(self, value: Any) -> bool:
        named = any(
            value is v or (isinstance(v, str) and isinstance(value, str) and v == value)
            for v in self.values
        )
        return (
            named
            or any(other.accepts(value) for other in self.others)
            or (self.test is not None and self.test(value))
        )

    def __str__(self) -> str:
        parts = [repr(value) for value in self.values] + [str(other) for other in self.others]
        if self.described:
            parts.append(self.described)
        return " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def check_params(estimator: Any, constraints: Mapping[str, Any]) -> None:
    """Raise ValueError for the first parameter that does not satisfy its constraint.

    Parameters of a kernel function are refused if the kernel is not a function.
    """
    for name, constraint in constraints.items():
        value = getattr(estimator, name)
        if not constraint.accepts(value):
            raise ValueError(
                f"The {name!r} parameter of {type(estimator).__name__} must be {constraint}. "
                f"Got {value!r} instead."
            )
    given = "kernel_params" in constraints and estimator.kernel_params
    if given and not callable(estimator.kernel):
        raise ValueError(
            f"The 'kernel_params' parameter of {type(estimator).__name__} is only for a callable "
            f"kernel, not for kernel={estimator.kernel!r}. Named kernels have the parameters "
            "gamma, degree and coef0."
        )


CLASS_WEIGHT = Choice(
    (None, "balanced"), test=lambda value: isinstance(value, dict), described="a dict"
)

# Constraints on the parameters of a kernel.
KERNEL_CONSTRAINTS: dict[str, Any] = {
    "kernel": Choice(("precomputed", *KERNELS), test=callable, described="a callable"),
    "gamma": Choice((None, "scale", "auto"), others=(Number(0, closed="neither"),)),
    "degree": Number(0, closed="left"),
    "coef0": Number(),
    "kernel_params": Choice(
        (None,), test=lambda value: isinstance(value, dict), described="a dict"
    ),
}


LARGEST = 1 << 62  # differences of smaller integers do not overflow
SMALL_RANGE = 1 << 16  # range of integers that are encoded by a lookup array


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], Indices]:
    """Return the sorted class labels and, for each sample, the index of its label."""
    try:
        check_classification_targets(y)
        classes, indices = find_labels(y)
    except (TypeError, ValueError) as error:
        if any(map(is_missing, y.tolist())):
            raise ValueError("y has missing labels. Leave out the rows without a label.") from error
        if isinstance(error, ValueError):
            raise
        raise ValueError(
            "y contains labels of different types, which cannot be sorted. Make them all strings "
            "or all numbers."
        ) from error
    require_two_classes(classes)
    return classes, indices


def is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN, or NA or NaT of pandas."""
    is_na = type(label).__name__ in ("NAType", "NaTType")
    return label is None or is_na or (isinstance(label, float) and isnan(label))


def require_two_classes(classes: NDArray[Any]) -> None:
    """Raise ValueError if there are fewer than two classes."""
    if len(classes) < 2:
        what = f"one class only: {classes.tolist()[0]!r}" if len(classes) else "no labels"
        raise ValueError(
            f"A classifier needs samples of at least 2 classes, but y contains {what}. Add samples "
            "of the other classes."
        )


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


def sample_weights(
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
            dispatched(sample_weight),
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


def row_weights(
    sample_weight: ArrayLike | None,
    class_weight: Mapping[Any, float] | str | None,
    classes: NDArray[Any],
    indices: Indices,
) -> Array:
    """Compute one weight per row: its sample weight times the weight of its class.

    ``class_weight="balanced"`` uses sums of sample weights, so that sample weights remain
    equivalent to repeating rows.
    """
    weights = sample_weights(sample_weight, len(indices))
    sizes = class_sums(indices, weights, len(classes))
    require_weight_in_each_class(sizes, classes, "sample_weight")
    if class_weight is None:
        return weights
    factors = class_weights(class_weight, classes, sizes)
    weights *= factors[indices]
    require_weight_in_each_class(sizes * factors, classes, "class_weight")
    return weights


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


def training_rows(
    estimator: Any, X: Any, y: Any, *, reset: bool = True
) -> tuple[Any, NDArray[Any]]:
    """Check training data in memory, and return the rows (an array or CSR) and the labels."""
    rows, labels = validate_data(estimator, dispatched(X), dispatched(y), reset=reset, **ROWS)
    return canonical(rows), labels


def new_rows(estimator: Any, X: Any) -> Any:
    """Check samples to predict, and return their rows, an array or CSR."""
    require_fitted(estimator)
    return canonical(validate_data(estimator, dispatched(X), reset=False, **ROWS))


def require_fitted(estimator: Any) -> None:
    """Raise NotFittedError if a model cannot predict; after `partial_fit`, name the reason."""
    state = vars(estimator).get("_partial_fit_state")
    if state is not None and not hasattr(estimator, "classes_"):
        missing = ", ".join(map(repr, state.layout.classes[state.sizes == 0].tolist()))
        raise NotFittedError(
            f"This {type(estimator).__name__} has not seen samples of all classes. Call "
            f"partial_fit with samples of class {missing} first."
        )
    check_is_fitted(estimator)


def dispatched(values: Any) -> Any:
    """Copy an array of another library to NumPy if scikit-learn's `array_api_dispatch` is on."""
    return as_numpy(values) if get_config()["array_api_dispatch"] else values


def canonical(rows: Any) -> Any:
    """Add up entries of a sparse matrix that have the same position, in a copy.

    Norms and kernels, unlike products, would count such entries separately.
    """
    if sparse.issparse(rows) and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def largest_block() -> int:
    """Return the bytes of a block: scikit-learn's working memory, at most 64 MB."""
    return int(min(get_config()["working_memory"] * (1 << 20), LARGEST_BLOCK))


def is_dask(X: Any) -> bool:
    """Return whether X is a Dask collection, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def is_out_of_core(X: Any) -> bool:
    """Return whether X can only be read in blocks: on Dask, or by its method `open_blocks`."""
    return is_dask(X) or hasattr(X, "open_blocks")


def number_of_rows(X: Any) -> int | None:
    """Return the number of rows of an array; None if X can only be read in blocks."""
    return None if is_out_of_core(X) else int(X.shape[0])


def is_streamed(X: Any) -> bool:
    """Return whether X is read in blocks: out of core, or a memory map of more than one block."""
    if is_out_of_core(X):
        return True
    return isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > largest_block()


def in_blocks(estimator: Any, X: Any) -> bool:
    """Return whether an estimator is fitted to X block by block.

    A model that needs its rows in memory reads a memory map as a whole; for other sources of
    blocks, ValueError is raised.
    """
    if not is_streamed(X):
        return False
    reason: str | None = estimator._why_in_memory(number_of_rows(X))
    if reason is not None and is_out_of_core(X):
        raise ValueError(reason)
    return reason is None


def set_input_tags(input_tags: Any, kernel: Any) -> None:
    """Set the tags of the data that a kernel accepts."""
    known = KERNELS.get(kernel) if isinstance(kernel, str) else None
    input_tags.sparse = known is None or not known.of_histograms
    input_tags.positive_only = known is not None and known.of_histograms
    input_tags.pairwise = kernel == "precomputed"
