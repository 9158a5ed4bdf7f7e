"""Preprocessing of the columns of a table, fitted to training rows only."""

from __future__ import annotations

from typing import Any

from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, StandardScaler

from .classifier import expected_columns
from .column_types import MAX_CATEGORIES, USED
from .table import Table

__all__ = ["preprocessor"]


def preprocessor(table: Table, *, scale: bool) -> Any:
    """Create an unfitted transformer from the features of a table to float64.

    It replaces missing values by the median or the most frequent value, encodes categories by
    indicators and, with ``scale``, standardises numeric columns. All statistics come from the rows
    that it is fitted to. An unknown category is treated as a rare one; rare categories share an
    indicator. Without rare categories, all indicators of an unknown category are zero. Both
    indicators of a binary column are kept: dropping one would make an unknown category equal to
    the other. Sparse data stay sparse and are scaled by their largest absolute values.
    """
    if sparse.issparse(table.X):
        return MaxAbsScaler() if scale else FunctionTransformer(accept_sparse=True)
    steps = {
        "numeric": _numeric_steps(scale=scale),
        "boolean": _filled("most_frequent"),
        "categorical": _categorical_steps(),
    }
    kinds = expected_columns(table).kinds
    parts = [
        (kind, steps[kind], [name for name in kinds if kinds[name] == kind])
        for kind in USED
        if kind in kinds.values()
    ]
    return ColumnTransformer(parts, sparse_threshold=0)


def _filled(strategy: str) -> SimpleImputer:
    # keep_empty_features: a column can be empty in the training rows of a fold.
    return SimpleImputer(strategy=strategy, keep_empty_features=True)


def _numeric_steps(*, scale: bool) -> Any:
    filled = _filled("median")
    return make_pipeline(filled, StandardScaler()) if scale else filled


def _categorical_steps() -> Pipeline:
    indicators = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=MAX_CATEGORIES, sparse_output=False
    )
    return make_pipeline(_filled("most_frequent"), indicators)
