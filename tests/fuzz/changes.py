"""Changes of the data, or of the way they are passed, that leave the minimum of a model as it is.

A change takes rows, class indices, weights and a random generator. It returns two training sets
whose models have the same minimum; a set is (X, y, weights), with X as it is given to `fit`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import Case, in_form


def permuted(X: Any, y: Any, weights: Any, random: Any) -> Any:
    order = random.permutation(len(y))
    other = X[order], y[order], None if weights is None else weights[order]
    return (X, y, weights), other


def repeated(X: Any, y: Any, weights: Any, random: Any) -> Any:
    counts = random.integers(1, 4, len(y))
    return (X, y, counts), (np.repeat(X, counts, axis=0), np.repeat(y, counts), None)


def rotated(X: Any, y: Any, weights: Any, random: Any) -> Any:
    turn, _ = np.linalg.qr(random.normal(size=(X.shape[1], X.shape[1])))
    return (X, y, weights), (X.astype(float) @ turn, y, weights)


def renamed(X: Any, y: Any, weights: Any, random: Any) -> Any:
    return (X, y, weights), (X, y.max() - y, weights)


def in_float32(X: Any, y: Any, weights: Any, random: Any) -> Any:
    narrow = X.astype(np.float32)
    return (narrow.astype(np.float64), y, weights), (narrow, y, weights)


def as_sparse(X: Any, y: Any, weights: Any, random: Any) -> Any:
    return (X, y, weights), (in_form(X, "unsorted"), y, weights)


def in_blocks(X: Any, y: Any, weights: Any, random: Any) -> Any:
    return (X, y, weights), (in_form(X, "memmap"), y, weights)


def in_parts(X: Any, y: Any, weights: Any, random: Any) -> Any:
    """The rows of the second set are given to `partial_fit`, half by half."""
    return (X, y, weights), (X, y, weights)


CHANGES = {
    "permuted": permuted,
    "repeated": repeated,
    "rotated": rotated,
    "renamed": renamed,
    "float32": in_float32,
    "sparse": as_sparse,
    "memmap": in_blocks,
    "parts": in_parts,
    "merged": in_parts,
}


def applies(change: str, case: Case) -> bool:
    """Whether a change leaves the minimum of this model as it is."""
    model = case.model()
    given = model.get_params().get("n_components", None)
    has_components = model.kernel != "linear" and given is not None
    if change in ("parts", "merged"):  # the first part determines the components
        return hasattr(model, "partial_fit") and not has_components
    if change in ("rotated", "float32") and has_components and given != "auto":
        return False  # other rows are drawn
    class_weight = model.get_params().get("class_weight")
    if change == "renamed":
        return not case.is_regression and not isinstance(class_weight, dict)
    if change == "rotated":
        by_feature = "SLRR" in case.estimator or getattr(model, "penalty", None) == "l21"
        # "scale" is the variance of all entries, which a rotation changes.
        is_turned = model.kernel in ("linear", "precomputed") or (
            model.kernel == "rbf" and model.gamma != "scale"
        )
        return is_turned and not by_feature
    if change == "sparse":
        # Sparse rows are not centred, so that rounding errors are relative to the total weight.
        return "chi2" not in str(model.kernel) and not isinstance(class_weight, dict)
    return model.kernel != "precomputed" or change in ("permuted", "repeated")
