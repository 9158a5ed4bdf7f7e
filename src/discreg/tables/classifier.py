"""A classifier fitted to a table, which checks the columns of new rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from discreg.base.errors import InputError

from .column_types import (
    TRUE_AND_FALSE,
    USED,
    Kind,
    as_categories,
    as_texts,
    parse,
    places_of_text,
    refuse_infinite,
)
from .formats import nearest, quoted

if TYPE_CHECKING:
    from .table import Table

__all__ = ["ExpectedColumns", "TableClassifier", "check_columns", "expected_columns"]

TRUTHS = {**TRUE_AND_FALSE, "1": 1.0, "0": 0.0}


@dataclass(frozen=True)
class ExpectedColumns:
    """Columns that a model was fitted to; ``dataclasses.asdict`` converts them for JSON."""

    kinds: dict[str, Kind]  # column name to type, in order; empty for sparse data
    n_features: int
    first_index: int = 0  # index of the first feature in svmlight files


def expected_columns(table: Table) -> ExpectedColumns:
    """Return the columns that a model of this table is fitted to."""
    kinds = {column.name: column.kind for column in table.columns if column.kind in USED}
    return ExpectedColumns(kinds, table.X.shape[1], table.first_index)


def check_columns(frame: pd.DataFrame, expected: ExpectedColumns) -> pd.DataFrame:
    """Select the expected columns of a frame and convert them to the expected types.

    Other columns, such as the target or unused columns, are ignored.
    """
    if not expected.kinds:
        raise InputError(
            f"the model was fitted to sparse data with {expected.n_features} unnamed features and "
            "cannot be applied to a table with named columns"
        )
    missing = [name for name in expected.kinds if name not in frame]
    if missing:
        others = [str(name) for name in frame if name not in expected.kinds]
        candidates = ((name, nearest(name, others)) for name in missing[:8])
        hints = [f"; is '{near}' the column '{name}'?" for name, near in candidates if near]
        raise InputError(
            f"{len(missing)} of {len(expected.kinds)} columns are missing: {quoted(missing)}"
            + "".join(hints[:1])
        )
    return pd.DataFrame(
        {name: _as_kind(name, frame[name], kind) for name, kind in expected.kinds.items()}
    )


def _as_kind(name: str, column: pd.Series, kind: Kind) -> NDArray[Any]:
    if kind == "categorical":
        return as_categories(column)
    if kind == "boolean":
        texts, expected = as_texts(column), "true or false was"
        values = np.array([TRUTHS.get(str(text).lower(), np.nan) for text in texts])
        wrong = np.flatnonzero(np.isnan(values) & ~pd.isna(texts))
    else:
        # The file may declare categories although the model was fitted to numbers.
        is_category = isinstance(column.dtype, pd.CategoricalDtype)
        found, values = parse(column.astype(object) if is_category else column)
        texts, expected = values, "numbers were"
        wrong = places_of_text(values) if found == "categorical" else np.array([], dtype=np.intp)
    if wrong.size:
        raise InputError(
            f"column '{name}' contains text '{texts[wrong[0]]}' in row {wrong[0] + 1} where "
            f"{expected} expected"
        )
    refuse_infinite(name, values, pd.RangeIndex(len(values)))
    return values


def _has_probabilities(model: TableClassifier) -> bool:
    return hasattr(model.pipeline, "predict_proba")


class TableClassifier(ClassifierMixin, BaseEstimator):
    """A fitted pipeline that predicts from tables like the training table.

    Columns are found by name, in any order. Unknown columns are ignored. Columns that are missing
    or have another type raise an error.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted pipeline from the columns to labels.
    columns : dict
        The expected columns: `ExpectedColumns` as a dict.
    """

    def __init__(self, pipeline: Pipeline, columns: dict[str, Any]) -> None:
        self.pipeline = pipeline
        self.columns = columns

    @classmethod
    def of(cls, pipeline: Pipeline, table: Table) -> TableClassifier:
        """Create the classifier from a pipeline that was fitted to this table."""
        return cls(pipeline, asdict(expected_columns(table)))

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels."""
        return np.asarray(self.pipeline.classes_)

    @property
    def expected(self) -> ExpectedColumns:
        """The expected columns."""
        return ExpectedColumns(**self.columns)

    @property
    def categories(self) -> dict[str, NDArray[Any]]:
        """The categories of the training table, by column."""
        if "categorical" not in self.expected.kinds.values():
            return {}
        parts = self.pipeline[0]
        (names,) = (each for kind, _, each in parts.transformers_ if kind == "categorical")
        encoder = parts.named_transformers_["categorical"][-1]
        return dict(zip(names, encoder.categories_, strict=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels of the rows of a data frame, or of a sparse array if fitted to one."""
        return np.asarray(self.pipeline.predict(self._checked(X)))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict class probabilities, in the order of `classes_`."""
        return np.asarray(self.pipeline.predict_proba(self._checked(X)))

    def _checked(self, X: Any) -> Any:
        if isinstance(X, pd.DataFrame):
            return check_columns(X, self.expected)
        if sparse.issparse(X) and not self.expected.kinds:
            return X
        kind = "a pandas data frame" if self.expected.kinds else "a sparse array"
        raise InputError(f"The model takes {kind}, not {type(X).__name__}.")

    def __sklearn_is_fitted__(self) -> bool:
        return True
