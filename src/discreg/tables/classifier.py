"""A classifier fitted to a table, and the columns that it expects."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from discreg.base.errors import InputError

from .expected import ExpectedColumns, expected_columns
from .frames import is_frame

if TYPE_CHECKING:
    from .table import Table

__all__ = ["TableClassifier"]


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
    def categories(self) -> dict[str, list[Any]]:
        """The categories of the training table, by column."""
        return self.pipeline[0].categories_ if self.expected.kinds else {}

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels of the rows of a data frame, or of a sparse array if fitted to one."""
        return np.asarray(self.pipeline.predict(self._checked(X)))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict class probabilities, in the order of `classes_`."""
        return np.asarray(self.pipeline.predict_proba(self._checked(X)))

    def _checked(self, X: Any) -> Any:
        """Check the type of X; the preprocessor checks the columns of a data frame."""
        is_right = is_frame(X) if self.expected.kinds else sparse.issparse(X)
        if not is_right:
            kind = "a data frame" if self.expected.kinds else "a sparse array"
            raise InputError(f"The model takes {kind}, not {type(X).__name__}.")
        return X

    def __sklearn_is_fitted__(self) -> bool:
        return True
