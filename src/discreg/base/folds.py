"""Folds of a search, and warnings of samples that cannot be held out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv

from discreg.linalg.types import Indices, Splitting

from .caller import user_stacklevel
from .early_checks import find_missing_classes
from .held_out import Fold, Weights

__all__ = [
    "N_FOLDS",
    "check_folds",
    "given_folds",
    "how_held_out",
    "split_rows",
    "stratified_folds",
    "warn_of_classes",
]

N_FOLDS = 5


def split_rows(
    cv: Splitting,
    X: Any,
    y: NDArray[Any],
    groups: Indices | None,
    counts: NDArray[np.bool_],
) -> list[Fold | None]:
    """Split the rows into training and test rows of each fold."""
    if cv is None and groups is None:
        return list(stratified_folds(N_FOLDS, y, counts))
    if cv is None and groups is not None:
        splitter = StratifiedGroupKFold(min(N_FOLDS, int(groups.max()) + 1))
        parts = splitter.split(X, y, groups)
        return [(train, test) for train, test in parts if counts[test].any()]
    return [*given_folds(cv, X, y, groups, classifier=True)]


def given_folds(
    cv: Splitting, X: Any, y: NDArray[Any], groups: Indices | None, *, classifier: bool
) -> list[Fold]:
    """Return the training and test rows of each fold of a given `cv`."""
    folds = list(check_cv(cv, y, classifier=classifier).split(X, y, groups))
    if not folds:
        raise ValueError(f"cv={cv!r} gives no splits. Use cv=5, or a list of splits.")
    places = np.arange(len(y))
    try:
        return [(places[train], places[test]) for train, test in folds]
    except IndexError as error:
        raise ValueError(f"cv gives rows that X does not have: {error}.") from error


def stratified_folds(
    n_folds: int, y: NDArray[Any], counts: NDArray[np.bool_]
) -> Iterator[tuple[Indices, Indices]]:
    """Split the samples that count into test parts; all others are in the training part."""
    rows = np.flatnonzero(counts)
    for _, test in StratifiedKFold(n_folds).split(rows, y[rows]):
        yield np.setdiff1d(np.arange(len(y)), rows[test]), rows[test]


def how_held_out(folds: Sequence[Fold | None], cv: Splitting, groups: Any) -> str:
    """Say how samples were held out."""
    what = "sample" if groups is None else "group"
    if folds == [None]:
        return f"one {what} at a time"
    by_groups = cv is None and groups is not None
    return f"{len(folds)} folds" + " of whole groups" * by_groups


def check_folds(
    folds: Sequence[Fold | None],
    classes: NDArray[Any],
    indices: Indices,
    weights: Weights,
    counts: NDArray[np.bool_],
) -> None:
    """Refuse folds that cannot be fitted or scored; warn of classes that folds do not learn."""
    missing = find_missing_classes(folds, classes, indices, weights, counts)
    if missing:
        number, label = missing[0]
        warnings.warn(
            f"The training parts of {len(missing)} of {len(folds)} folds lack a class, first "
            f"that of fold {number}, which has no sample of class {label!r}. Held-out samples "
            "of such a class count as errors. Use stratified folds, or fewer folds.",
            UserWarning,
            stacklevel=user_stacklevel(),
        )


def warn_of_classes(
    classes: NDArray[Any],
    indices: Indices,
    counts: NDArray[np.bool_],
    groups: Indices | None,
    *,
    probability: bool,
) -> None:
    """Warn of classes whose samples are not held out; raise ValueError if no sample is."""
    if counts.all():
        return
    what = "sample" if groups is None else "group"
    if not counts.any():
        raise ValueError(
            f"Each class has only one {what}, so that none can be held out. Add samples."
        )
    labels = [repr(label) for label in classes[np.unique(indices[~counts])].tolist()]
    named = ", ".join(labels[:3]) + ", ..." * (len(labels) > 3)
    verb = f"Class {named} has" if len(labels) == 1 else f"Classes {named} have"
    done = "compared, and probabilities calibrated," if probability else "compared"
    warnings.warn(
        f"{verb} only one {what}, which cannot be held out. The settings are {done} on the other "
        "classes.",
        UserWarning,
        stacklevel=user_stacklevel(),
    )
