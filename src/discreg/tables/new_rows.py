"""Rows that a fitted model predicts, from files."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from discreg.base.errors import InputError

from .contents import Contents
from .expected import ExpectedColumns, check_columns
from .formats import quoted, read_contents
from .roles import unknown_column
from .sources import located

__all__ = ["read_features", "read_new_rows", "refuse_non_finite"]


def read_features(
    path: str | PathLike[str], expected: ExpectedColumns
) -> pd.DataFrame | sparse.csr_array:
    """Read the features of new rows for a model with these expected columns."""
    X, _ = read_new_rows(path, expected)
    return X


def read_new_rows(
    path: str | PathLike[str], expected: ExpectedColumns, keep: Sequence[str] = ()
) -> tuple[pd.DataFrame | sparse.csr_array, pd.DataFrame]:
    """Read the features of new rows, and columns to keep as they are in the file."""
    path = Path(path)
    as_text = {name for name, kind in expected.kinds.items() if kind in ("categorical", "text")}
    as_text |= {name for name in keep if name not in expected.kinds}
    with located(path):
        contents = read_contents(path, text_columns=as_text)
        kept = _kept(contents, keep)
        if sparse.issparse(contents.X):
            return _check_sparse(contents, expected), kept
        if not expected.kinds:
            raise InputError(
                f"the model was fitted to sparse data with {expected.n_features} unnamed features "
                "and cannot be applied to a table with named columns"
            )
        return check_columns(contents.X, expected.kinds), kept


def _kept(contents: Contents, keep: Sequence[str]) -> pd.DataFrame:
    n_rows = contents.X.shape[0]
    columns: dict[str, Any] = {
        name: array for name, array in contents.others.items() if array.shape == (n_rows,)
    }
    if isinstance(contents.X, pd.DataFrame):
        columns |= dict(contents.X.items())
    for name in keep:
        if name not in columns:
            raise InputError(unknown_column("identifiers to keep", name, list(columns)))
    return pd.DataFrame({name: columns[name] for name in keep}, index=range(n_rows))


def _check_sparse(contents: Contents, expected: ExpectedColumns) -> sparse.csr_array:
    if expected.kinds:
        raise InputError(
            f"the model needs named columns ({quoted(expected.kinds)}), but the features of this "
            "file have no names"
        )
    X = contents.X
    if contents.first_index is not None:
        if contents.first_index < expected.first_index:
            raise InputError("a feature has index 0, but the model was fitted to indices from 1")
        X = X[:, expected.first_index :]
        X.resize(len(X.indptr) - 1, max(X.shape[1], expected.n_features))
    if X.shape[1] != expected.n_features:
        raise InputError(
            f"there are {X.shape[1]} features, but the model was fitted to {expected.n_features}"
        )
    refuse_non_finite(X, expected.first_index)
    return X


def refuse_non_finite(X: sparse.csr_array, first_index: int) -> None:
    """Raise an error if sparse data have missing or infinite values."""
    places = np.flatnonzero(~np.isfinite(X.data))
    if places.size:
        row = np.searchsorted(X.indptr, places[0], side="right")
        raise InputError(
            f"feature {X.indices[places[0]] + first_index} is {X.data[places[0]]} in row {row}; "
            "sparse data cannot have missing or infinite values"
        )
