"""Labels and weights: from what a user passes to class indices and one weight a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .params import Choice

__all__ = ["CLASS_WEIGHT", "encode_labels", "one_hot", "row_weights", "sample_weights"]


CLASS_WEIGHT = Choice(
    (None, "balanced"), test=lambda value: isinstance(value, dict), described="a dict"
)


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Sorted class labels and, for each sample, the index of its label."""
    try:
        check_classification_targets(y)
        classes, indices = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            "y holds labels of different types, which cannot be sorted. Make them all strings or "
            "all numbers."
        ) from error
    if len(classes) < 2:
        raise ValueError(
            f"A classifier needs samples of at least 2 classes, but y holds one class only: "
            f"{classes.tolist()[0]!r}. Add samples of the other classes."
        )
    return classes, indices.astype(np.intp, copy=False)


def one_hot(indices: NDArray[np.intp], n_classes: int) -> NDArray[np.float64]:
    """Zero-one targets Y of least squares regression."""
    targets = np.zeros((len(indices), n_classes))
    targets[np.arange(len(indices)), indices] = 1.0
    return targets


def sample_weights(sample_weight: ArrayLike | None, n_samples: int) -> NDArray[np.float64]:
    """A fresh array with one weight a sample: the number of copies that it stands for."""
    if sample_weight is None:
        weights = np.ones(n_samples)
    elif np.isscalar(sample_weight):
        weights = np.full(n_samples, sample_weight, dtype=np.float64)
    else:
        weights = check_array(
            sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight", copy=True
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
    if weights.any() and not 1e-100 < weights.sum() < 1e100:
        raise ValueError(
            f"sample_weight sums to {weights.sum():g}, beyond what can be squared. Divide it by "
            "its mean."
        )
    return weights


def row_weights(
    sample_weight: ArrayLike | None,
    class_weight: Mapping[Any, float] | str | None,
    classes: NDArray[Any],
    indices: NDArray[np.intp],
) -> NDArray[np.float64]:
    """One weight a row: sample weight times the weight of its class.

    ``class_weight="balanced"`` counts samples with their weights, so that a sample of weight k
    still equals k copies.
    """
    weights = sample_weights(sample_weight, len(indices))
    _require_weight_in_each_class(weights, classes, indices, "sample_weight")
    if class_weight is None:
        return weights
    per_class = _class_weights(class_weight, classes, indices, weights)
    weights *= per_class[indices]
    _require_weight_in_each_class(weights, classes, indices, "class_weight")
    return weights


def _class_weights(
    class_weight: Mapping[Any, float] | str,
    classes: NDArray[Any],
    indices: NDArray[np.intp],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    if class_weight == "balanced":
        counts = np.bincount(indices, weights=weights, minlength=len(classes))
        return weights.sum() / (len(classes) * counts)
    per_class = compute_class_weight(class_weight, classes=classes, y=classes[indices])
    if np.any(per_class < 0) or not np.all(np.isfinite(per_class)):
        raise ValueError(f"class_weight must be finite and non-negative, got {class_weight!r}.")
    return np.asarray(per_class, dtype=np.float64)


def _require_weight_in_each_class(
    weights: NDArray[np.float64], classes: NDArray[Any], indices: NDArray[np.intp], source: str
) -> None:
    totals = np.bincount(indices, weights=weights, minlength=len(classes))
    if not np.all(totals > 0):
        empty = ", ".join(repr(label) for label in classes[totals <= 0].tolist())
        raise ValueError(
            f"The samples of class {empty} have zero total weight by {source}: nothing can be "
            "learnt of that class. Remove its rows or give them a positive weight."
        )
