"""Columns that predict the label alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

__all__ = ["telling_columns"]

N_FOLDS = 5
MOST_ROWS = 10_000  # of each class, more rows are left out
FEWEST_ROWS = 10  # of the rarest class; with fewer, a column can fit by chance
NEAR_ONE = 0.99
FURTHER_LEAVES = 2  # of a tree, beyond the number of classes


def telling_columns(X: pd.DataFrame, y: NDArray[np.intp]) -> dict[str, float]:
    """Find the columns that alone predict the class of nearly all rows.

    Parameters
    ----------
    X : DataFrame
        Numbers, dates and categories.
    y : ndarray of shape (n_samples,)
        Class indices.

    Returns
    -------
    dict
        Column names and their cross-validated balanced accuracies, if at least 0.99. Numbers are
        divided by a small tree, and of each category the most frequent class is predicted.
    """
    if np.bincount(y).min() < FEWEST_ROWS:
        return {}
    rows = _some_rows(y)
    y = y[rows]
    folds = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(y, y))
    found = {}
    for name in X:
        values = X[name].to_numpy()[rows]
        score = (
            _of_categories(values, y, folds)
            if values.dtype == object
            else _of_numbers(_as_numbers(values), y, folds)
        )
        if score >= NEAR_ONE:
            found[str(name)] = score
    return found


def _some_rows(y: NDArray[np.intp]) -> NDArray[np.intp]:
    """Choose at most `MOST_ROWS` rows of each class."""
    rng = np.random.default_rng(0)
    places = [np.flatnonzero(y == label) for label in np.unique(y)]
    chosen = [
        rng.choice(each, MOST_ROWS, False) if len(each) > MOST_ROWS else each for each in places
    ]
    return np.sort(np.concatenate(chosen))


def _as_numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    if values.dtype.kind == "M":
        numbers = values.astype("datetime64[us]").astype(np.int64).astype(np.float64)
        return np.where(np.isnat(values), np.nan, numbers)
    return values.astype(np.float64)


def _of_numbers(values: NDArray[np.float64], y: NDArray[np.intp], folds: Any) -> float:
    if not _may_separate(values, y):
        return 0.0
    limits = np.finfo(np.float32)
    column = np.clip(values, limits.min, limits.max)[:, None]  # trees have 32-bit numbers
    tree = DecisionTreeClassifier(
        max_leaf_nodes=len(np.unique(y)) + FURTHER_LEAVES, class_weight="balanced", random_state=0
    )
    predicted = np.empty_like(y)
    for train, test in folds:
        predicted[test] = tree.fit(column[train], y[train]).predict(column[test])
    return float(balanced_accuracy_score(y, predicted))


def _may_separate(values: NDArray[np.float64], y: NDArray[np.intp]) -> bool:
    """Return False if sorted values have labels that change too often for a small tree.

    Each leaf begins with a change of the label, and each row in the wrong leaf makes two.
    """
    sizes = np.bincount(y)
    most_errors = np.ceil((1 - NEAR_ONE) * len(sizes) * sizes.max())
    labels = y[np.lexsort((y, values))]
    n_changes = np.count_nonzero(labels[1:] != labels[:-1])
    return bool(n_changes < len(sizes) + FURTHER_LEAVES + 2 * most_errors)


def _of_categories(values: NDArray[Any], y: NDArray[np.intp], folds: Any) -> float:
    codes, _ = pd.factorize(values, use_na_sentinel=False)
    n_classes, n_categories = int(y.max()) + 1, int(codes.max()) + 1
    sizes = np.bincount(y, minlength=n_classes)
    cells = codes * n_classes + y
    predicted = np.empty_like(y)
    for train, test in folds:
        counts = np.bincount(cells[train], minlength=n_categories * n_classes)
        shares = counts.reshape(n_categories, n_classes) / sizes
        predicted[test] = shares.argmax(axis=1)[codes[test]]
    return float(balanced_accuracy_score(y, predicted))
