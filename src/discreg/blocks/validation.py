"""Checks of what a user passes: parameters, labels, weights, and where the rows are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.utils import check_array, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from discreg.linalg.kernel_registry import KERNELS
from discreg.linalg.rows import class_sums

__all__ = [
    "CLASS_WEIGHT",
    "KERNEL_CONSTRAINTS",
    "Boolean",
    "Choice",
    "Number",
    "check_params",
    "class_weights",
    "encode_labels",
    "find_labels",
    "in_blocks",
    "is_dask",
    "is_out_of_core",
    "is_streamed",
    "largest_block",
    "require_sum_of_weights",
    "require_two_classes",
    "require_weight_in_each_class",
    "row_weights",
    "sample_weights",
    "why_kernel_in_memory",
]

LARGEST_BLOCK = 64 << 20  # bytes


@dataclass(frozen=True)
class Number:
    """A finite number in an interval; ``closed`` says which ends belong to it."""

    low: float = -np.inf
    high: float = np.inf
    closed: str = "both"
    integer: bool = False

    def accepts(self, value: Any) -> bool:
        kind = Integral if self.integer else Real
        if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
            return False
        number = float(value)
        above = number >= self.low if self.closed in ("both", "left") else number > self.low
        below = number <= self.high if self.closed in ("both", "right") else number < self.high
        return bool(np.isfinite(number) and above and below)

    def __str__(self) -> str:
        left = "[" if self.closed in ("both", "left") and np.isfinite(self.low) else "("
        right = "]" if self.closed in ("both", "right") and np.isfinite(self.high) else ")"
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
    """One of a few values, or what one of the other constraints or tests accepts."""

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
    """Raise ValueError for the first parameter outside what it is declared to accept."""
    for name, constraint in constraints.items():
        value = getattr(estimator, name)
        if not constraint.accepts(value):
            raise ValueError(
                f"The {name!r} parameter of {type(estimator).__name__} must be {constraint}. "
                f"Got {value!r} instead."
            )


CLASS_WEIGHT = Choice(
    (None, "balanced"), test=lambda value: isinstance(value, dict), described="a dict"
)

# Of the parameters that make a kernel.
KERNEL_CONSTRAINTS: dict[str, Any] = {
    "kernel": Choice(("precomputed", *KERNELS), test=callable, described="a callable"),
    "gamma": Choice((None, "scale", "auto"), others=(Number(0, closed="neither"),)),
    "degree": Number(0, closed="left"),
    "coef0": Number(),
    "kernel_params": Choice(
        (None,), test=lambda value: isinstance(value, dict), described="a dict"
    ),
}


LARGEST = 1 << 62  # of whole numbers whose differences are whole numbers too
SMALL_RANGE = 1 << 16  # of whole numbers that are looked up in a table


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Sorted class labels and, for each sample, the index of its label."""
    try:
        check_classification_targets(y)
        classes, indices = find_labels(y)
    except TypeError as error:
        raise ValueError(
            "y holds labels of different types, which cannot be sorted. Make them all strings or "
            "all numbers."
        ) from error
    require_two_classes(classes)
    return classes, indices


def require_two_classes(classes: NDArray[Any]) -> None:
    """Raise ValueError when there is nothing to tell apart."""
    if len(classes) < 2:
        what = f"one class only: {classes.tolist()[0]!r}" if len(classes) else "no labels"
        raise ValueError(
            f"A classifier needs samples of at least 2 classes, but y holds {what}. Add samples of "
            "the other classes."
        )


def find_labels(
    labels: NDArray[Any], classes: NDArray[Any] | None = None
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Different labels in ascending order, or given ones, and the place of each label in them.

    The place of a label that is not among given ones is that of another. Whole numbers of a small
    range are looked up in a table, which is many times faster than sorting them.
    """
    known = labels if classes is None else classes
    if labels.dtype.kind in "iub" and known.dtype.kind in "iub" and len(labels) and len(known):
        low, high = int(known.min()), int(known.max())
        if high - low < SMALL_RANGE and max(-low, high) < LARGEST:
            wide = labels if labels.dtype.itemsize == 8 else labels.astype(np.int64)
            offsets = np.clip(wide, max(low, 0) if wide.dtype.kind == "u" else low, high)
            offsets = offsets.astype(np.intp) - low
            if classes is None:
                classes = np.flatnonzero(np.bincount(offsets)).astype(labels.dtype) + low
                classes = classes.astype(labels.dtype)
            places = np.zeros(high - low + 1, dtype=np.intp)
            places[classes.astype(np.intp) - low] = np.arange(len(classes))
            return classes, places[offsets]
    if classes is None:
        found, indices = np.unique(labels, return_inverse=True)
        return found, indices.astype(np.intp, copy=False)
    return classes, np.searchsorted(classes, labels).clip(max=len(classes) - 1)


def sample_weights(
    sample_weight: ArrayLike | None, n_samples: int, *, in_part: bool = False
) -> NDArray[np.float64]:
    """A fresh array with one weight per sample: the number of copies that it stands for.

    The sum of the weights of a part of the samples is left to who knows them all.
    """
    if sample_weight is None:
        weights = np.ones(n_samples)
    elif np.isscalar(sample_weight):
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
                f"sample_weight must hold one number for each of the {n_samples} samples; "
                f"its shape is {weights.shape}."
            )
    if np.any(weights < 0) or not np.all(np.isfinite(weights)):
        raise ValueError(
            "sample_weight must be finite and non-negative: the weight is the number of copies "
            f"that a sample stands for. The smallest is {weights.min():g}."
        )
    if not in_part:
        require_sum_of_weights(float(weights.sum()))
    return weights


def require_sum_of_weights(total: float) -> None:
    """Refuse weights, unless they are all zero, whose sum is beyond what can be squared."""
    if total != 0 and not 1e-100 < total < 1e100:
        raise ValueError(
            f"sample_weight sums to {total:g}, beyond what can be squared. Divide it by its mean."
        )


def row_weights(
    sample_weight: ArrayLike | None,
    class_weight: Mapping[Any, float] | str | None,
    classes: NDArray[Any],
    indices: NDArray[np.intp],
) -> NDArray[np.float64]:
    """One weight per row: sample weight times the weight of its class.

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
    sizes: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Compute the weight of each class from the sums of the sample weights."""
    if class_weight is None:
        return np.ones(len(classes))
    if class_weight == "balanced":
        return np.asarray(sizes.sum() / (len(classes) * sizes))
    factors = compute_class_weight(class_weight, classes=classes, y=classes)
    if np.any(factors < 0) or not np.all(np.isfinite(factors)):
        raise ValueError(f"class_weight must be finite and non-negative, got {class_weight!r}.")
    return np.asarray(factors, dtype=np.float64)


def require_weight_in_each_class(
    totals: NDArray[np.float64], classes: NDArray[Any], source: str
) -> None:
    """Raise ValueError when the samples of a class have no weight."""
    if not np.all(totals > 0):
        empty = ", ".join(repr(label) for label in classes[totals <= 0].tolist())
        raise ValueError(
            f"The samples of class {empty} have zero total weight by {source}: nothing can be "
            "learned of that class. Remove its rows or give them a positive weight."
        )


def largest_block() -> int:
    """min(scikit-learn's working memory, 64 MB)."""
    return int(min(get_config()["working_memory"] * (1 << 20), LARGEST_BLOCK))


def is_dask(X: Any) -> bool:
    """Whether X is a collection of Dask, told without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def is_out_of_core(X: Any) -> bool:
    """Whether X comes in blocks only: on Dask, or from an object with a method `open_blocks`."""
    return is_dask(X) or hasattr(X, "open_blocks")


def is_streamed(X: Any) -> bool:
    """Whether X comes block by block: out of core, or a memory map of more than one block."""
    if is_out_of_core(X):
        return True
    return isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > largest_block()


def in_blocks(estimator: Any, X: Any) -> bool:
    """Whether an estimator is fitted to X block by block.

    A model that needs its rows in memory reads a memory map as a whole, and refuses the others.
    """
    if not is_streamed(X):
        return False
    reason: str | None = estimator._why_in_memory()
    if reason is not None and is_out_of_core(X):
        raise ValueError(reason)
    return reason is None


def why_kernel_in_memory(kernel: Any) -> str | None:
    """Why a model with this kernel needs its rows in memory, and what to use; None: it does not."""
    if kernel == "linear":
        return None
    return (
        f"kernel={kernel!r} needs the rows in memory. On Dask use kernel='linear', or "
        "DRMClassifier with n_components, which approximates the kernel."
    )
