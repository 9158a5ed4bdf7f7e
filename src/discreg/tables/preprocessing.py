"""How the columns of a table become numbers inside a fold."""

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
    """An unfitted transformer from the features of a table to float64.

    Missing values are filled by the median or the most frequent value, categories become
    indicators, and with ``scale`` the numeric columns are standardised; all by what the rows it is
    fitted to say. A category that was not among them counts as one of the rare ones, which share
    an indicator, or has none if there are no rare ones. Both indicators of a two-valued column are
    kept, since leaving one out makes an unknown category look like the other. Sparse data stay
    sparse, scaled by their largest values.
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
    # Without keep_empty_features a fold in which a column is empty would lose that column.
    return SimpleImputer(strategy=strategy, keep_empty_features=True)


def _numeric_steps(*, scale: bool) -> Any:
    filled = _filled("median")
    return make_pipeline(filled, StandardScaler()) if scale else filled


def _categorical_steps() -> Pipeline:
    indicators = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=MAX_CATEGORIES, sparse_output=False
    )
    return make_pipeline(_filled("most_frequent"), indicators)
