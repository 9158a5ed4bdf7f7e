"""A classifier fitted to a table, and the columns that it expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from discreg.base.errors import InputError

from .column_types import USED, Kind, checked_cells
from .formats import read_contents
from .frames import as_pandas, is_frame, located, quoted, rows_text, unknown_column
from .preprocessor import TablePreprocessor, pack, unpack

if TYPE_CHECKING:
    from .table import Table


@dataclass(frozen=True)
class ExpectedColumns:
    """Columns that a model was fitted to; ``dataclasses.asdict`` converts them for JSON."""

    kinds: dict[str, Kind]  # column name to type, in order; empty for sparse data
    n_features: int
    first_index: int = 0  # index of the first feature in svmlight files

    def checked(self, X: Any, first_index: int | None = None) -> pd.DataFrame | sparse.csr_array:
        """Select and convert the columns of a frame, or check the features of a sparse array.

        If X is from an svmlight file, `first_index` is the index of its first feature. Further
        features are then ignored, as further columns are.
        """
        if is_frame(X) and self.kinds:
            return pd.DataFrame(checked_cells(as_pandas(X), self.kinds))
        if self.kinds or not sparse.issparse(X):
            named = f"a data frame with {quoted(self.kinds)}"
            needed = named if self.kinds else f"{self.n_features} sparse features"
            raise InputError(f"the model takes {needed}, not {type(X).__name__}")
        if first_index is not None:
            if first_index < self.first_index:
                raise InputError("a feature has index 0, but those of the model begin at 1")
            X = X[:, self.first_index :]
            X.resize(X.shape[0], self.n_features)
        if X.shape[1] != self.n_features:
            raise InputError(f"{X.shape[1]} features, but the model has {self.n_features}")
        refuse_non_finite(X, self.first_index)
        return X


def expected_columns(table: Table) -> ExpectedColumns:
    """Return the columns that a model of this table is fitted to."""
    kinds = {column.name: column.kind for column in table.columns if column.kind in USED}
    return ExpectedColumns(kinds, table.X.shape[1], table.first_index)


def read_new_rows(
    path: str | PathLike[str], expected: ExpectedColumns, keep: Sequence[str] = ()
) -> tuple[pd.DataFrame | sparse.csr_array, pd.DataFrame]:
    """Read the features of new rows, and columns to keep as they are in the file."""
    path, kinds = Path(path), expected.kinds
    as_text = {name for name, kind in kinds.items() if kind in ("categorical", "text")}
    with located(path):
        contents = read_contents(path, text_columns=as_text | (set(keep) - set(kinds)))
        X, n_rows = contents.X, contents.X.shape[0]
        columns: dict[str, Any] = {} if sparse.issparse(X) else dict(X.items())
        columns |= contents.arrays or {}
        for name in keep:
            if name not in columns:
                raise InputError(unknown_column("in the file", name, list(columns)))
        kept = pd.DataFrame({name: columns[name] for name in keep}, index=range(n_rows))
        return expected.checked(X, contents.first_index), kept


def refuse_non_finite(X: sparse.csr_array, first_index: int) -> None:
    """Raise an error if sparse data have missing or infinite values."""
    places = np.flatnonzero(~np.isfinite(X.data))
    if places.size:
        row = rows_text([np.searchsorted(X.indptr, places[0], side="right") - 1])
        name, value = X.indices[places[0]] + first_index, X.data[places[0]]
        raise InputError(f"feature {name} is {value} in {row}; sparse numbers must be finite")


MOST_PROBABLE = "the most probable class"


@dataclass(frozen=True)
class Rule:
    """A decision rule: the class with the largest product of weight and probability.

    Attributes
    ----------
    name : str
        For reports, such as "the most probable class".
    weights : tuple of float
        One weight per class; empty for equal weights.
    positive : int or None
        With two classes, index of the class whose threshold is shown.
    """

    name: str = MOST_PROBABLE
    weights: tuple[float, ...] = ()
    positive: int | None = None

    @classmethod
    def from_threshold(cls, name: str, threshold: float, positive: int) -> Rule:
        """Predict the positive one of two classes from this probability on."""
        rest = 1 - threshold
        return cls(name, (threshold, rest) if positive else (rest, threshold), positive)

    @property
    def threshold(self) -> float | None:
        """With two classes, the probability of the positive class from which on it is predicted."""
        if self.positive is None:
            return None
        if not self.weights:
            return 0.5
        return self.weights[1 - self.positive] / sum(self.weights)

    @property
    def text(self) -> str:
        """The rule in words, with its threshold."""
        if self.threshold is None or not self.weights:
            return self.name
        return f"{self.name} (probability of at least {self.threshold:.3g})"

    def labels(self, probabilities: ArrayLike) -> NDArray[np.intp]:
        """Compute the index of the class of each row."""
        shares = np.asarray(probabilities)
        if not self.weights:
            return np.asarray(shares.argmax(axis=1))
        if self.positive is None or self.threshold is None:
            return np.asarray((shares * np.asarray(self.weights)).argmax(axis=1))
        is_positive = shares[:, self.positive] >= self.threshold
        return np.where(is_positive, self.positive, 1 - self.positive)


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
    rule : dict, optional
        The decision rule by which labels follow from probabilities: `Rule` as a dict. Without it,
        labels are those of the pipeline.
    target : str, optional
        Name of the column of labels.
    recalls : list of dict, optional
        With two classes, thresholds for wanted recalls: "wanted", "threshold", and what was reached
        on held-out rows, "recall", "low" and "high".
    """

    def __init__(
        self,
        pipeline: Pipeline,
        columns: dict[str, Any],
        rule: dict[str, Any] | None = None,
        target: str | None = None,
        recalls: list[dict[str, float]] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.columns = columns
        self.rule = rule
        self.target = target
        self.recalls = recalls

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        table: Table,
        *,
        rule: Rule | None = None,
        recalls: list[dict[str, float]] | None = None,
    ) -> TableClassifier:
        """Create the classifier from a pipeline that was fitted to this table."""
        columns = asdict(expected_columns(table))
        return cls(pipeline, columns, None if rule is None else asdict(rule), table.target, recalls)

    def following(self, rule: Rule) -> TableClassifier:
        """Return the classifier with another decision rule."""
        return TableClassifier(**self.get_params(deep=False) | {"rule": asdict(rule)})

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels."""
        return np.asarray(self.pipeline.classes_)

    @property
    def expected(self) -> ExpectedColumns:
        """The expected columns."""
        return ExpectedColumns(**self.columns)

    @property
    def decision(self) -> Rule:
        """The decision rule."""
        return Rule(**self.rule or {})

    @property
    def categories(self) -> dict[str, list[Any]]:
        """The categories of the training table, by column."""
        first = self.pipeline[0]
        return first.categories_ if isinstance(first, TablePreprocessor) else {}

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the pipeline again, to the expected columns of other rows; the rule stays."""
        self.pipeline = clone(self.pipeline).fit(self.expected.checked(X), y)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels of the rows of a data frame, or of a sparse array if fitted to one."""
        if self.rule is None:
            return np.asarray(self.pipeline.predict(self.expected.checked(X)))
        return np.asarray(self.classes_[self.decision.labels(self.predict_proba(X))])

    @available_if(lambda self: hasattr(self.pipeline, "predict_proba"))
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict class probabilities, in the order of `classes_`."""
        return np.asarray(self.pipeline.predict_proba(self.expected.checked(X)))

    @available_if(lambda self: hasattr(self.pipeline[-1], "predict_set"))
    def predict_set(self, X: Any, confidence_level: float = 0.9) -> NDArray[np.bool_]:
        """Predict sets of classes that contain the true class with a given probability.

        The columns are in the order of `classes_`.
        """
        features = self.pipeline[:-1].transform(self.expected.checked(X))
        return np.asarray(self.pipeline[-1].predict_set(features, confidence_level))

    def predict_at(self, X: Any, recall: float) -> NDArray[Any]:
        """Predict labels by the stored threshold for a wanted recall; see `point_at`."""
        threshold, positive = self.point_at(recall)["threshold"], self.decision.positive
        assert positive is not None
        return self.following(Rule.from_threshold("", threshold, positive)).predict(X)

    def point_at(self, recall: float) -> dict[str, float]:
        """Return the stored threshold for the smallest wanted recall that is not below `recall`.

        Returns
        -------
        dict
            "wanted" and "threshold", and the recall that held-out rows reached with its 95 %
            interval: "recall", "low" and "high".
        """
        if not 0 < recall < 1:
            raise InputError(f"A recall is between 0 and 1, not {recall:g}.")
        if not self.recalls:
            raise InputError(
                "The model has no thresholds for a wanted recall. A comparison of two classes "
                "stores them."
            )
        enough = [point for point in self.recalls if point["wanted"] >= recall]
        if not enough:
            most = max(point["wanted"] for point in self.recalls)
            raise InputError(
                f"There is no threshold for a recall of {recall:g}; the largest stored recall is "
                f"{most:g}."
            )
        return min(enough, key=lambda point: point["wanted"])

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__()}
        columns = state["columns"]
        return state | {"columns": columns | {"kinds": pack(columns["kinds"])}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        columns = state["columns"]
        known = self._get_param_names()  # files of version 0.2.0 contain others, and not all
        state = dict.fromkeys(known) | {name: state[name] for name in known if name in state}
        super().__setstate__(state | {"columns": columns | {"kinds": unpack(columns["kinds"])}})

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.pipeline.__sklearn_is_fitted__())
