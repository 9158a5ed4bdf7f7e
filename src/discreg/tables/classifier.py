"""A classifier fitted to a table, and the columns that it expects."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from discreg.base.errors import InputError

from .expected import ExpectedColumns, check_columns, expected_columns
from .frames import as_pandas, is_frame
from .packed import pack, unpack
from .preprocessor import TablePreprocessor

if TYPE_CHECKING:
    from .table import Table

__all__ = ["TableClassifier"]


def _has_probabilities(model: TableClassifier) -> bool:
    return hasattr(model.pipeline, "predict_proba")


def _has_sets(model: TableClassifier) -> bool:
    return hasattr(model.pipeline[-1], "predict_set")


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
    thresholds : dict, optional
        With two classes, by recall of the positive class, the probability of it from which on a row
        is predicted as positive. They are chosen on held-out rows.
    positive : label, optional
        The positive class.
    """

    # Model files of earlier versions do not have these attributes.
    thresholds: dict[float, float] | None = None
    positive: Any = None

    def __init__(
        self,
        pipeline: Pipeline,
        columns: dict[str, Any],
        thresholds: dict[float, float] | None = None,
        positive: Any = None,
    ) -> None:
        self.pipeline = pipeline
        self.columns = columns
        self.thresholds = thresholds
        self.positive = positive

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        table: Table,
        *,
        thresholds: dict[float, float] | None = None,
        positive: Any = None,
    ) -> TableClassifier:
        """Create the classifier from a pipeline that was fitted to this table.

        The positive class is the rarer one by default.
        """
        if thresholds and positive is None:
            classes, counts = np.unique(table.y, return_counts=True)
            positive = classes[counts.argmin()].item()
        return cls(pipeline, asdict(expected_columns(table)), thresholds or None, positive)

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
        first = self.pipeline[0]
        return first.categories_ if isinstance(first, TablePreprocessor) else {}

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the pipeline again, to the expected columns of other rows."""
        X, kinds = self._checked(X), self.expected.kinds
        features = check_columns(as_pandas(X), kinds) if kinds else X
        self.pipeline = clone(self.pipeline).fit(features, y)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels of the rows of a data frame, or of a sparse array if fitted to one."""
        return np.asarray(self.pipeline.predict(self._checked(X)))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict class probabilities, in the order of `classes_`."""
        return np.asarray(self.pipeline.predict_proba(self._checked(X)))

    @available_if(_has_sets)
    def predict_set(self, X: Any, confidence_level: float = 0.9) -> NDArray[np.bool_]:
        """Predict sets of classes that contain the true class with a given probability.

        The columns are in the order of `classes_`.
        """
        features = self.pipeline[:-1].transform(self._checked(X))
        return np.asarray(self.pipeline[-1].predict_set(features, confidence_level))

    def stored_recall(self, recall: float) -> float:
        """Return the smallest recall with a stored threshold that is not below the wanted one."""
        if not 0 < recall < 1:
            raise InputError(f"A recall is between 0 and 1, not {recall:g}.")
        if not self.thresholds:
            raise InputError(
                "The model has no thresholds for a wanted recall. They are stored by a comparison "
                "of two classes if the model has probabilities."
            )
        stored = sorted(each for each in self.thresholds if each >= recall)
        if not stored:
            raise InputError(
                f"There is no threshold for a recall of {recall:g}; the largest stored recall is "
                f"{max(self.thresholds):g}."
            )
        return stored[0]

    def predict_at(self, X: Any, recall: float) -> NDArray[Any]:
        """Predict labels so that at least this share of the positive class is found.

        The recall was reached on held-out rows of the comparison; `stored_recall` returns the one
        whose threshold is used.
        """
        threshold = (self.thresholds or {})[self.stored_recall(recall)]
        place = int(np.flatnonzero(self.classes_ == self.positive)[0])
        is_positive = self.predict_proba(X)[:, place] >= threshold
        return self.classes_[np.where(is_positive, place, 1 - place)]

    def _checked(self, X: Any) -> Any:
        """Check the type of X; a `TablePreprocessor` checks the columns of a data frame."""
        is_right = is_frame(X) if self.expected.kinds else sparse.issparse(X)
        if not is_right:
            kind = "a data frame" if self.expected.kinds else "a sparse array"
            raise InputError(f"The model takes {kind}, not {type(X).__name__}.")
        if self.expected.kinds and not isinstance(self.pipeline[0], TablePreprocessor):
            return check_columns(as_pandas(X), self.expected.kinds)
        return X

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__()}
        columns = state["columns"]
        return state | {"columns": columns | {"kinds": pack(columns["kinds"])}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        columns = state["columns"]
        super().__setstate__(state | {"columns": columns | {"kinds": unpack(columns["kinds"])}})

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.pipeline.__sklearn_is_fitted__())
