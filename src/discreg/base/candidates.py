"""Candidate values of parameters and of kernel parameters for a search."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length

from discreg.blocks.validation import dispatched, is_missing
from discreg.linalg.kernel_approximation import hash_rows
from discreg.linalg.kernel_registry import KERNELS, KernelFacts
from discreg.linalg.kernels import resolve_gamma
from discreg.linalg.types import Array, Indices

from .held_out import Setting, Weights

__all__ = ["candidates_of", "group_numbers", "groups_by_size", "kernel_settings", "rows_of_groups"]


def kernel_settings(search: Any, X: Any, weights: Array) -> list[Setting]:
    """List all combinations of the candidates for `gamma` and `degree` that the kernel uses."""
    settings: dict[str, list[Any]] = {}
    known = KERNELS.get(search.kernel) if isinstance(search.kernel, str) else None
    facts = known or KernelFacts()
    if "gamma" in facts.params:
        gammas = search.gammas
        if gammas is None:
            scale = resolve_gamma("scale", X, weights)
            gammas = [scale * each for each in facts.default_gammas[: search._most_gammas]]
        else:
            gammas = gammas if np.iterable(gammas) and not isinstance(gammas, str) else [gammas]
            gammas = [
                resolve_gamma(gamma, X, weights) if str(gamma) in ("scale", "auto") else gamma
                for gamma in gammas
            ]
        settings["gamma"] = candidates_of("gammas", gammas, lambda values: values > 0, "positive")
    if "degree" in facts.params:
        degrees = candidates_of(
            "degrees", search.degrees, lambda values: values >= 0, "not negative"
        )
        settings["degree"] = [int(degree) if degree.is_integer() else degree for degree in degrees]
    return [dict(zip(settings, values, strict=True)) for values in product(*settings.values())]


def group_numbers(groups: Any, X: Any, weights: Weights) -> Indices | None:
    """Return the number of the group of each sample, or None without groups.

    Parameters
    ----------
    groups : array-like of shape (n_samples,), "duplicates" or None
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    weights : ndarray of shape (n_samples,) or None
        At least two groups must have positive weight.
    """
    if groups is None:
        return None
    if isinstance(groups, str):
        if groups != "duplicates":
            raise ValueError(f"groups must be labels or 'duplicates', got {groups!r}.")
        labels: NDArray[Any] = hash_rows(X, 0)
    else:
        groups = dispatched(groups)
        # A list of strings and NaN would become an array of strings.
        labels = np.asarray(groups, dtype=None if hasattr(groups, "dtype") else object)
        if labels.ndim != 1:
            raise ValueError(f"groups must be one-dimensional, got the shape {labels.shape}.")
        check_consistent_length(X, labels)
        if any(map(is_missing, labels.tolist())):
            raise ValueError("groups has missing values. Give each such sample a group of its own.")
    try:
        numbers: Indices = np.unique(labels, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError("groups has labels of different types, which cannot be sorted.") from error
    held_out = numbers if weights is None else numbers[weights > 0]
    if np.all(held_out == held_out[0]):
        of_weight = "" if weights is None else " of positive weight"
        raise ValueError(f"groups has only one group{of_weight}, so that none can be held out.")
    return numbers.astype(np.intp, copy=False)


def rows_of_groups(groups: Indices) -> list[Indices]:
    """Return the rows of each group."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def groups_by_size(groups: Indices) -> list[Indices]:
    """Return the rows of the groups of each size, one array (n_groups, size) per size."""
    by_size: dict[int, list[Indices]] = {}
    for rows in rows_of_groups(groups):
        by_size.setdefault(len(rows), []).append(rows)
    return [np.array(each) for each in by_size.values()]


def candidates_of(
    name: str, values: Any, allowed: Callable[[Array], NDArray[np.bool_]], described: str
) -> list[float]:
    """Check the candidates for a parameter and return distinct values, the largest first."""
    try:
        numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([np.nan])
    if numbers.ndim != 1 or not numbers.size or not np.all(np.isfinite(numbers) & allowed(numbers)):
        raise ValueError(
            f"{name} must hold one or more finite numbers, each {described}; got {values!r}."
        )
    return sorted(set(numbers.tolist()), reverse=True)
