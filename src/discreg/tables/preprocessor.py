"""From the columns of a table to numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from discreg.base.doc_links import DOC_LINK_MODULE, DOC_LINK_TEMPLATE
from discreg.base.errors import InputError

from .dates import date_parts
from .frames import as_pandas, is_frame
from .packed import pack, unpack
from .texts import latent_semantic_analysis

if TYPE_CHECKING:
    from .column_types import Kind

__all__ = ["TablePreprocessor"]

Cells = dict[str, NDArray[Any]]
ARRAY = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
PER_COLUMN = ("kinds", "kinds_", "columns_", "left_out_", "_number_names")  # one entry per column


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Convert the columns of a table to numeric features.

    The type of each column is inferred from its cells when fitting:

    ============= =============================================================================
    numeric       The numbers. Time differences are in days.
    boolean       0 and 1.
    date          Year, month, weekday (Monday is 0), hour, and the days since the earliest date.
                  Parts that are the same in all rows are left out. Times are in UTC.
    categorical   One indicator per category. Rare categories share one, and an unknown category is
                  treated as a rare one; without rare categories, its indicators are zero. A missing
                  value is a category of its own.
    text          Strings of at least three words that hardly repeat: latent semantic analysis, that
                  is the largest principal directions of tf-idf weights of n-grams of characters.
    constant      The column is left out. Empty columns are constant.
    identifier    The column is left out: other strings of which nearly all are different, numbers
                  that count the rows, and columns with names such as id and patient_id.
    ============= =============================================================================

    Missing numbers, booleans and dates are replaced by the median. Each such column with missing
    values also has an indicator of them.

    Parameters
    ----------
    scale : bool, default=False
        Whether to standardise numbers and parts of dates to mean 0 and variance 1, and to scale the
        features of each text to a total variance of 1. Indicators and booleans stay 0 and 1:
        standardised, rare categories would have a large weight in the distances of RBF kernels.
    kinds : dict, optional
        Types of some columns by name, which are then not inferred: ``{"zip": "categorical"}``.
        These columns are always used, even if they are constant.
    max_categories : int, default=50
        Largest number of indicators per column; rarer categories share one.
    max_text_features : int, default=30
        Largest number of features per column of texts.

    Attributes
    ----------
    columns_ : list of dict
        Name, kind, number of distinct and of missing values of each column, and its treatment;
        ``pandas.DataFrame(preprocessor.columns_)`` shows them.
    left_out_ : dict
        Names of the columns that are not used, with the reason: "constant", "empty" or
        "identifier".
    kinds_ : dict
        Types of the columns that are used.
    categories_ : dict
        Categories of each categorical column.
    is_indicator_ : ndarray of bool
        Which features are indicators of categories, missing values or true cells.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, if X was a data frame.

    Notes
    -----
    X is a data frame of pandas or polars, or an array of numbers that may contain NaN. All columns
    of an array are numeric. New rows may have their columns in another order and further columns,
    which are ignored. Missing columns, and cells that cannot be converted to the type of
    their column, raise an error. No training rows are stored.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreg import TablePreprocessor
    >>> table = pd.DataFrame({
    ...     "size": [1.5, None, 2.5, 4.0],
    ...     "colour": ["red", "blue", None, "red"],
    ...     "patient_id": [7, 7, 8, 9],
    ... })
    >>> preprocessor = TablePreprocessor().set_output(transform="pandas")
    >>> preprocessor.fit_transform(table)
       size  missingindicator_size  colour_blue  colour_red  colour_nan
    0   1.5                    0.0          0.0         1.0         0.0
    1   2.5                    1.0          1.0         0.0         0.0
    2   2.5                    0.0          0.0         0.0         1.0
    3   4.0                    0.0          0.0         1.0         0.0
    >>> preprocessor.left_out_
    {'patient_id': 'identifier'}
    """

    _doc_link_module = DOC_LINK_MODULE
    _doc_link_template = DOC_LINK_TEMPLATE

    def __init__(
        self,
        *,
        scale: bool = False,
        kinds: Mapping[str, Kind] | None = None,
        max_categories: int = 50,
        max_text_features: int = 30,
    ) -> None:
        self.scale = scale
        self.kinds = kinds
        self.max_categories = max_categories
        self.max_text_features = max_text_features

    def fit(self, X: Any, y: Any = None) -> TablePreprocessor:
        """Infer the types of the columns and compute medians, categories and deviations.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
            The training rows.
        y : ignored

        Returns
        -------
        TablePreprocessor
            The fitted preprocessor.
        """
        columns, cells = self._inferred(X)
        self.left_out_ = {
            column["name"]: "empty" if column["n_distinct"] == 0 else column["kind"]
            for column in columns
            if column["kind"] in ("constant", "identifier")
        }
        self.kinds_ = {
            column["name"]: column["kind"]
            for column in columns
            if column["name"] not in self.left_out_
        }
        if not self.kinds_:
            raise InputError(f"No column can be used as a feature: {_reasons(self.left_out_)}.")
        self._fit_numbers(cells)
        self._fit_categories(cells)
        self._fit_texts(cells)
        n_features = len(self.get_feature_names_out())
        n_of_texts = sum(len(each[-1].components_) for each in self._analyses.values())
        self.is_indicator_ = np.zeros(n_features, dtype=bool)
        self.is_indicator_[self._n_scaled : n_features - n_of_texts] = True
        self.columns_ = [{**column, "treatment": self._treatment(column)} for column in columns]
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Convert rows to features.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
            Rows with the columns of the training rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            The features, or a data frame of them; see `set_output`.
        """
        check_is_fitted(self)
        return np.hstack(list(self._blocks(self._cells(X))))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features.

        Parameters
        ----------
        input_features : ignored
            The names of the columns are known from fitting.

        Returns
        -------
        ndarray of str
            Names such as ``size``, ``missingindicator_size``, ``colour_red`` and ``when_year``.
        """
        check_is_fitted(self)
        names = [*self._number_names, *(f"missingindicator_{name}" for name in self._with_gaps)]
        if self._encoder is not None:
            names += list(self._encoder.get_feature_names_out(list(self.categories_)))
        for name, analysis in self._analyses.items():
            names += [f"{name}_{place}" for place in range(len(analysis[-1].components_))]
        return np.array(_unique(names), dtype=object)

    def columns_of_features(self) -> NDArray[Any]:
        """Return the name of the column that each feature is made of.

        Returns
        -------
        ndarray of str
            In the order of `get_feature_names_out`.
        """
        check_is_fitted(self)
        names = self._of_kind("numeric")
        names += [name for name, parts in self._date_parts.items() for _ in parts]
        names += [*self._of_kind("boolean"), *self._with_gaps]
        for name, categories in self.categories_.items():
            names += [name] * min(len(categories), self.max_categories)
        for name, analysis in self._analyses.items():
            names += [name] * len(analysis[-1].components_)
        return np.array(names, dtype=object)

    def _inferred(self, X: Any) -> tuple[list[dict[str, Any]], Cells]:
        """Return the description and the cells of each column, and store their names."""
        if not is_frame(X):
            if self.kinds:
                raise InputError("kinds names columns, but X is not a data frame.")
            return _array_columns(validate_data(self, X, **ARRAY, ensure_min_samples=2))
        from .column_types import infer

        frame = as_pandas(X)
        if len(frame) < 2 or not frame.shape[1]:
            raise InputError(f"X has shape {frame.shape}; two rows and one column are needed.")
        kinds = _checked_kinds(self.kinds or {}, list(frame))
        self.feature_names_in_ = np.array(list(frame), dtype=object)
        self.n_features_in_ = frame.shape[1]
        columns, cells = infer(frame, kinds)
        return [dict(vars(column)) for column in columns], cells

    def _cells(self, X: Any) -> Cells:
        """Return the cells of the columns that are used, converted to their types."""
        if not hasattr(self, "feature_names_in_"):
            values = validate_data(self, X, **ARRAY, reset=False)
            return {name: values[:, int(name[1:])] for name in self.kinds_}
        import pandas as pd

        from .expected import checked_cells

        if not is_frame(X):
            X = validate_data(self, X, dtype=None, ensure_all_finite=False, reset=False)
            X = pd.DataFrame(X, columns=self.feature_names_in_)
        return checked_cells(as_pandas(X), self.kinds_)

    def _of_kind(self, *kinds: Kind) -> list[str]:
        return [name for name, kind in self.kinds_.items() if kind in kinds]

    def _fit_numbers(self, cells: Cells) -> None:
        """Find the parts of dates to use, missing values, medians, means and deviations."""
        dates = {name: date_parts(cells[name]) for name in self._of_kind("date")}
        self._date_parts = {
            name: [part for part in parts if _varies(parts[part])] or ["days"]
            for name, parts in dates.items()
        }
        self._first_days = {name: _smallest(parts["days"]) for name, parts in dates.items()}
        names = self._of_kind("numeric", "date", "boolean")
        self._with_gaps = [name for name in names if _is_missing(cells[name]).any()]
        numbers = self._numbers(cells)
        self._number_names = [name for name, _ in numbers]
        self._n_scaled = len(numbers) - len(self._of_kind("boolean"))
        # A column of a given kind can be empty in the training rows.
        self._medians = np.array([_median(values) for _, values in numbers])
        self._scaler = None
        if self.scale and self._n_scaled:
            self._scaler = StandardScaler().fit(self._filled(numbers)[:, : self._n_scaled])

    def _numbers(self, cells: Cells) -> list[tuple[str, NDArray[np.float64]]]:
        """Return names and values of the numeric features; booleans are the last."""
        numbers = [(name, cells[name]) for name in self._of_kind("numeric")]
        for name, parts in self._date_parts.items():
            found = date_parts(cells[name], self._first_days[name])
            numbers += [(f"{name}_{part}", found[part]) for part in parts]
        return numbers + [(name, cells[name]) for name in self._of_kind("boolean")]

    def _filled(self, numbers: list[tuple[str, NDArray[np.float64]]]) -> NDArray[np.float64]:
        """Stack numeric features, with medians in place of missing values."""
        stacked = np.column_stack([values for _, values in numbers])
        return np.where(np.isnan(stacked), self._medians, stacked)

    def _fit_categories(self, cells: Cells) -> None:
        names = self._of_kind("categorical")
        self.categories_: dict[str, list[Any]] = {}
        self._encoder = None
        if names:
            self._encoder = OneHotEncoder(
                handle_unknown="infrequent_if_exist",
                max_categories=self.max_categories,
                sparse_output=False,
            ).fit(_strings(cells, names))
            categories = (each.tolist() for each in self._encoder.categories_)
            self.categories_ = dict(zip(names, categories, strict=True))

    def _fit_texts(self, cells: Cells) -> None:
        self._analyses, self._text_scales = {}, {}
        for name in self._of_kind("text"):
            texts = _texts(cells[name])
            analysis = latent_semantic_analysis(texts, self.max_text_features)
            variance = np.asarray(analysis.transform(texts)).var(axis=0).sum()
            self._analyses[name] = analysis
            self._text_scales[name] = float(np.sqrt(variance)) if self.scale and variance else 1.0

    def _blocks(self, cells: Cells) -> Iterator[NDArray[np.float64]]:
        """Yield the features in the order of their names."""
        if self._number_names:
            numbers = self._filled(self._numbers(cells))
            if self._scaler is not None:
                scaled = slice(self._n_scaled)
                numbers[:, scaled] = np.asarray(self._scaler.transform(numbers[:, scaled]))
            yield numbers
        for name in self._with_gaps:
            yield _is_missing(cells[name])[:, None].astype(np.float64)
        if self._encoder is not None:
            yield np.asarray(self._encoder.transform(_strings(cells, list(self.categories_))))
        for name, analysis in self._analyses.items():
            yield np.asarray(analysis.transform(_texts(cells[name]))) / self._text_scales[name]

    def _treatment(self, column: dict[str, Any]) -> str:
        """Describe what becomes of a column."""
        name = column["name"]
        if name in self.left_out_:
            return f"left out: {self.left_out_[name]}"
        match column["kind"]:
            case "categorical":
                n_categories = len(self.categories_[name])
                n_indicators = min(n_categories, self.max_categories)
                return f"{n_indicators} indicators of {n_categories} categories"
            case "text":
                n_features = len(self._analyses[name][-1].components_)
                return f"{n_features} features of latent semantic analysis"
            case "date":
                treatment = ", ".join(self._date_parts[name])
            case "numeric" if self.scale:
                treatment = "standardised"
            case kind:
                treatment = "0 and 1" if kind == "boolean" else "unchanged"
        if name in self._with_gaps:
            treatment += "; missing values replaced by the median, with an indicator"
        return treatment

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__()}
        if "feature_names_in_" in state:
            state["feature_names_in_"] = pack(state["feature_names_in_"].tolist())
        return state | {name: pack(state[name]) for name in PER_COLUMN if name in state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        names = unpack(state.get("feature_names_in_"))
        state = state | {name: unpack(state[name]) for name in PER_COLUMN if name in state}
        if names is not None:
            state["feature_names_in_"] = np.array(names, dtype=object)
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _array_columns(X: NDArray[np.float64]) -> tuple[list[dict[str, Any]], Cells]:
    """Describe the columns of an array, with the names x0, x1, ... that scikit-learn gives them."""
    columns, cells = [], {}
    for place, values in enumerate(X.T):
        name, missing = f"x{place}", np.isnan(values)
        n_distinct = len(np.unique(values[~missing]))
        kind = "numeric" if n_distinct > 1 else "constant"
        columns.append(
            {"name": name, "kind": kind, "n_distinct": n_distinct, "n_missing": int(missing.sum())}
        )
        cells[name] = values
    return columns, cells


def _checked_kinds(kinds: Mapping[Any, Kind], names: list[str]) -> dict[str, Kind]:
    from .column_types import USED
    from .formats import quoted

    kinds = {str(name): kind for name, kind in kinds.items()}
    known = set(names)
    if unknown := [name for name in kinds if name not in known]:
        raise InputError(f"kinds names columns that X does not have: {quoted(unknown)}.")
    if wrong := [kind for kind in kinds.values() if kind not in USED]:
        raise InputError(f"kinds has the type {wrong[0]!r}; types are {quoted(USED)}.")
    return kinds


def _unique(names: list[str]) -> list[str]:
    """Number the repetitions of a name, as of column c with category a and a column c_a."""
    unique: dict[str, None] = {}
    for name in names:
        found, number = name, 2
        while found in unique or (found != name and found in names):
            found, number = f"{name}_{number}", number + 1
        unique[found] = None
    return list(unique)


def _is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(values != values)  # true for NaN and NaT, also among strings


def _varies(values: NDArray[np.float64]) -> bool:
    return len(np.unique(values[~np.isnan(values)])) > 1


def _smallest(values: NDArray[np.float64]) -> float:
    present = values[~np.isnan(values)]
    return float(present.min()) if present.size else 0.0


def _median(values: NDArray[np.float64]) -> float:
    present = values[~np.isnan(values)]
    return float(np.median(present)) if present.size else 0.0


def _strings(cells: Cells, names: list[str]) -> NDArray[Any]:
    return np.column_stack([cells[name].astype(object) for name in names])


def _texts(values: NDArray[Any]) -> NDArray[Any]:
    return np.where(_is_missing(values), "missing", values)


def _reasons(left_out: dict[str, str]) -> str:
    names = [f"'{name}' is {reason}" for name, reason in left_out.items()]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
