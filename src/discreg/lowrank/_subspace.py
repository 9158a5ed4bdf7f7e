"""Shared parts of the low-rank models: the rank, and the fitted projection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreg.base.regression import Prepared
from discreg.blocks.validation import (
    CLASS_WEIGHT,
    Boolean,
    Choice,
    Number,
)
from discreg.linalg.types import Array

from ._indicators import Indicators

__all__ = ["CONSTRAINTS", "checked_rank", "largest_rank", "project", "signs_of", "store_subspace"]

SAME = 1e-6  # relative difference below which entries count as equal
CONSTRAINTS: dict[str, Any] = {
    "rank": Choice((None,), others=(Number(1, closed="left", integer=True),)),
    "fit_intercept": Boolean(),
    "class_weight": CLASS_WEIGHT,
    "probability": Boolean(),
}


def largest_rank(prepared: Prepared) -> int:
    """Compute the largest possible rank; centring removes one direction of the classes."""
    of_classes = len(prepared.classes) - int(prepared.regression.centred)
    if prepared.kernel is not None:
        return of_classes
    return int(min(of_classes, prepared.regression.n_features or prepared.regression.size))


def checked_rank(rank: int | None, prepared: Prepared) -> int:
    """Check the parameter `rank`; None means the largest rank."""
    largest = largest_rank(prepared)
    if rank is None:
        return largest
    if rank > largest:
        what = f"{len(prepared.classes)} classes"
        if prepared.regression.centred:
            what += ", whose centred targets have one direction fewer,"
        if prepared.features is not None:
            what += f" and {prepared.features.n_components} components"
        elif prepared.kernel is None:
            what += f" and {prepared.regression.n_features} features"
        raise ValueError(
            f"rank={rank} is too large: with {what} the largest rank is {largest}. Use a rank from "
            f"1 to {largest}, or None for the largest."
        )
    return rank


def store_subspace(
    estimator: Any,
    prepared: Prepared,
    projected: Array,
    directions: Array,
    shift: Array | None = None,
) -> tuple[Array, Array]:
    """Set the fitted attributes from the projection A and the directions V of equation (3).

    The shift of the scores is that of the class weights if it is None. Returns the coefficients,
    one column per class, and the intercepts in float64.
    """
    signs, indicators = signs_of(directions), Indicators.of(prepared)
    projected, directions = projected * signs * indicators.scale, directions * signs
    if shift is None:
        shift = indicators.shift * indicators.scale
    scalings, means = prepared.regression.predictor(projected)
    estimator.rank_ = projected.shape[1]
    estimator.directions_ = directions.astype(prepared.dtype)
    estimator.scalings_ = prepared.in_precision(scalings)
    estimator._means = prepared.in_precision(means)
    estimator._shift = prepared.in_precision(shift)
    exact = scalings @ directions.T, shift - directions @ means
    estimator._set_coefficients(prepared, *exact)
    return exact


def project(estimator: Any, X: ArrayLike) -> NDArray[Any]:
    """Project new samples onto the subspace of a fitted estimator."""
    rows = estimator._new_samples(X)
    return np.asarray(estimator._linear_scores(rows, estimator.scalings_.T, -estimator._means))


def signs_of(directions: Array) -> Array:
    """Compute signs that make the first of the largest entries of every direction positive."""
    sizes = np.abs(directions)
    first = np.argmax(sizes >= (1 - SAME) * sizes.max(axis=0), axis=0)
    return np.where(directions[first, np.arange(len(first))] < 0, -1.0, 1.0)
