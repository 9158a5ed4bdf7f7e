"""From the columns of a table to numbers."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from discreg.base.classifier import DOC_LINK_MODULE, DOC_LINK_TEMPLATE
from discreg.base.errors import InputError
from discreg.base.validation import Boolean, Choice, Number, check_params

from .frames import as_pandas, is_frame, quoted

if TYPE_CHECKING:
    from .column_types import Kind


# A model file describes every string of a list or dict in several lines, but an array by its bytes.
# Names and types of thousands of columns are therefore packed.
def pack(value: Any) -> Any:
    """Convert lists and dicts of strings and numbers to bytes; return anything else as it is."""
    plain = value.tolist() if isinstance(value, np.ndarray) else value
    try:
        text = json.dumps(plain)
    except TypeError:
        return value
    is_same = plain is not None and json.loads(text) == plain
    return ("json", np.frombuffer(text.encode(), np.uint8)) if is_same else value


def unpack(value: Any) -> Any:
    """Convert what `pack` returned, here or in version 0.2.0, to the value that it was."""
    if not isinstance(value, tuple):
        return value
    kind, *parts = value
    if kind == "json":
        return json.loads(parts[0].tobytes())
    if kind == "list":
        return parts[0].tolist()
    if kind == "dict":
        return dict(zip(*(part.tolist() for part in parts), strict=True))
    names, columns = parts[0].keys(), (column.tolist() for column in parts[0].values())
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


Cells = dict[str, NDArray[Any]]
ARRAY = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
# Parameters and attributes with one entry per column.
PER_COLUMN = ("kinds", "kinds_", "columns_", "left_out_", "feature_names_in_")
N_GRAMS = 5000  # the most frequent ones of a column of texts
MISSING_TEXT = "missing"


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
                  value is a category of its own. Spaces around a category are no part of it;
                  3 and 3.0 are the same category.
    text          Strings of at least three words that hardly repeat: latent semantic analysis, that
                  is the largest principal directions of tf-idf weights of n-grams of characters.
    constant      The column is left out. Empty columns are constant.
    identifier    The column is left out: other strings of which nearly all are different, numbers
                  that count the rows, and columns with names such as id and patient_id.
    ============= =============================================================================

    A column with one value and blanks has two categories: the value, and missing.

    Missing numbers, booleans and dates are replaced by the median. Each such column with missing
    values in the training rows also has an indicator of them, whether they are frequent or depend
    on the class or not. Labels are never used: a preprocessor that was fitted to all rows tells a
    model nothing about the labels of rows that are held out from it.

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
        Largest number of indicators per column, at least 2; rarer categories share one.
    max_text_features : int, default=30
        Largest number of features per column of texts.

    Attributes
    ----------
    columns_ : list of dict
        Name, kind, numbers of distinct and of missing values, and of features, of each column;
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

    _constraints: ClassVar = {
        "scale": Boolean(),
        "kinds": Choice(
            (None,),
            test=lambda kinds: isinstance(kinds, Mapping),
            described="a dict of types by column, such as {'zip': 'categorical'}",
        ),
        "max_categories": Number(2, closed="left", integer=True),
        "max_text_features": Number(1, closed="left", integer=True),
    }
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
        check_params(self, self._constraints)
        fitted = copy.copy(self)
        fitted._fit(X)
        self.__dict__ = fitted.__dict__  # only now, so that a failed fit changes nothing
        return self

    def _fit(self, X: Any) -> None:
        columns, cells = self._inferred(X)
        self.left_out_, self.kinds_ = {}, {}
        for column in columns:
            if column["kind"] in ("constant", "identifier"):
                reason = column["kind"] if column["n_distinct"] else "empty"
                self.left_out_[column["name"]] = reason
            else:
                self.kinds_[column["name"]] = column["kind"]
        if not self.kinds_:
            found = ", ".join(sorted(set(self.left_out_.values())))
            raise InputError(
                f"No column can be used as a feature: {quoted(self.left_out_)} ({found})."
            )
        self._fit_numbers(cells)
        self._fit_categories(cells)
        self._fit_texts(cells)
        n_of_texts = sum(len(each[-1].components_) for each in self._analyses.values())
        n_features = len(self._features())
        self.is_indicator_ = np.zeros(n_features, dtype=bool)
        self.is_indicator_[self._n_scaled : n_features - n_of_texts] = True
        counts = Counter(column for _, column in self._features())
        self.columns_ = [{**column, "n_features": counts[column["name"]]} for column in columns]

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
        return np.array(_unique([name for name, _ in self._features()]), dtype=object)

    def columns_of_features(self) -> NDArray[Any]:
        """Return the name of the column that each feature is made of.

        Returns
        -------
        ndarray of str
            In the order of `get_feature_names_out`.
        """
        return np.array([column for _, column in self._features()], dtype=object)

    def _features(self) -> list[tuple[str, str]]:
        """Return the name of each feature, and the column that it is made of."""
        check_is_fitted(self)
        features = [(name, name) for name in self._of_kind("numeric")]
        for name, parts in self._date_parts.items():
            features += [(f"{name}_{part}", name) for part in parts]
        features += [(name, name) for name in self._of_kind("boolean")]
        features += [(f"missingindicator_{name}", name) for name in self._with_gaps]
        features += self._indicators()
        for name, analysis in self._analyses.items():
            places = range(len(analysis[-1].components_))
            features += [(f"{name}_{place}", name) for place in places]
        return features

    def _inferred(self, X: Any) -> tuple[list[dict[str, Any]], Cells]:
        """Return the description and the cells of each column, and store their names."""
        if not is_frame(X):
            if self.kinds:
                raise InputError("kinds names columns, but X is not a data frame.")
            return _array_columns(validate_data(self, X, **ARRAY, ensure_min_samples=2))
        from .column_types import USED, infer

        frame = as_pandas(X)
        if len(frame) < 2 or not frame.shape[1]:
            raise InputError(f"X has shape {frame.shape}; two rows and one column are needed.")
        kinds = {str(name): kind for name, kind in (self.kinds or {}).items()}
        if unknown := [name for name in kinds if name not in frame]:
            raise InputError(f"kinds names columns that X does not have: {quoted(unknown)}.")
        if wrong := [kind for kind in kinds.values() if kind not in USED]:
            raise InputError(f"kinds has the type {wrong[0]!r}; types are {quoted(USED)}.")
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

        from .column_types import checked_cells

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
        self._first_days = {name: _reduced(np.min, parts["days"]) for name, parts in dates.items()}
        names = self._of_kind("numeric", "date", "boolean")
        self._with_gaps = [name for name in names if _is_missing(cells[name]).any()]
        numbers = self._numbers(cells)
        self._n_scaled = len(numbers) - len(self._of_kind("boolean"))
        self._scaler = None
        with np.errstate(over="ignore", invalid="ignore"):
            self._medians = np.array([_reduced(np.median, values) for _, values in numbers])
            moments = [self._medians]
            if self.scale and self._n_scaled:
                scaler = StandardScaler().set_output(transform="default")
                self._scaler = scaler.fit(self._filled(numbers)[:, : self._n_scaled])
                moments += [scaler.mean_, scaler.var_]
        for each in moments:
            if not np.isfinite(each).all():
                name = numbers[np.flatnonzero(~np.isfinite(each))[0]][0]
                raise InputError(
                    f"The numbers of '{name}' are too large. Divide them by the largest."
                )

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
            encoder = OneHotEncoder(
                handle_unknown="infrequent_if_exist",
                max_categories=self.max_categories,
                sparse_output=False,
            )
            # Whatever the global configuration says, arrays are stacked here.
            self._encoder = encoder.set_output(transform="default").fit(_strings(cells, names))
            categories = (each.tolist() for each in self._encoder.categories_)
            self.categories_ = dict(zip(names, categories, strict=True))

    def _indicators(self) -> list[tuple[str, str]]:
        """Return name and column of each indicator of a category."""
        if self._encoder is None:
            return []
        pairs = zip(self._encoder.categories_, self._encoder.infrequent_categories_, strict=True)
        counts = [len(every) - (0 if rare is None else len(rare) - 1) for every, rare in pairs]
        names = list(self.categories_)
        features = self._encoder.get_feature_names_out(names).tolist()
        return list(zip(features, np.repeat(names, counts).tolist(), strict=True))

    def _fit_texts(self, cells: Cells) -> None:
        self._analyses, self._text_scales = {}, {}
        for name in self._of_kind("text"):
            texts = _texts(cells[name])
            analysis = _latent_semantic_analysis(texts, self.max_text_features)
            variance = analysis.transform(texts).var(axis=0).sum()
            self._analyses[name] = analysis
            self._text_scales[name] = float(np.sqrt(variance)) if self.scale and variance else 1.0

    def _blocks(self, cells: Cells) -> Iterator[NDArray[np.float64]]:
        """Yield the features in the order of their names."""
        if self._medians.size:
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

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        return state | {name: pack(state[name]) for name in PER_COLUMN if name in state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = state | {name: unpack(state[name]) for name in PER_COLUMN if name in state}
        if "feature_names_in_" in state:
            state["feature_names_in_"] = np.array(state["feature_names_in_"], dtype=object)
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _array_columns(X: NDArray[np.float64]) -> tuple[list[dict[str, Any]], Cells]:
    """Describe the columns of an array, with the names x0, x1, ... that scikit-learn gives them."""
    columns, cells = [], {}
    for place, values in enumerate(X.T):
        name, n_missing = f"x{place}", int(np.isnan(values).sum())
        n_distinct = len(np.unique(values)) - (n_missing > 0)
        kind = "numeric" if n_distinct > 1 or (n_distinct and n_missing) else "constant"
        counts = {"n_distinct": n_distinct, "n_missing": n_missing}
        columns.append({"name": name, "kind": kind, **counts})
        cells[name] = values
    return columns, cells


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


def _reduced(function: Callable[..., Any], values: NDArray[np.float64]) -> float:
    """Reduce the values that are present; a column of a given kind can be empty."""
    present = values[~np.isnan(values)]
    return float(function(present)) if present.size else 0.0


def _strings(cells: Cells, names: list[str]) -> NDArray[Any]:
    return np.column_stack([cells[name].astype(object) for name in names])


def _texts(values: NDArray[Any]) -> NDArray[Any]:
    return np.where(_is_missing(values), MISSING_TEXT, values)


def _latent_semantic_analysis(texts: NDArray[np.object_], most_features: int) -> Pipeline:
    """Fit principal directions of the tf-idf weights of n-grams of characters.

    N-grams relate words with the same stem, and need no list of words of a language.
    """
    vectorizer = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 4), max_features=N_GRAMS, sublinear_tf=True
    )
    weights = vectorizer.fit_transform(texts)
    if weights.shape[1] < 2:  # for which scikit-learn has no decomposition
        weights = vectorizer.fit([*texts, MISSING_TEXT]).transform(texts)
    reduction = TruncatedSVD(min(most_features, *weights.shape), random_state=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # of the explained share of no variance
        reduction.set_output(transform="default").fit(weights)
    return make_pipeline(vectorizer, reduction)


def date_parts(
    dates: NDArray[np.datetime64], first_day: float = 0.0
) -> dict[str, NDArray[np.float64]]:
    """Return year, month, weekday, hour and elapsed days of dates; NaN where one is missing.

    Days are counted from `first_day`, which is itself counted from the beginning of 1970.
    """
    days = _count(dates, "us") / 86_400e6
    parts = {
        "year": _count(dates, "Y") + 1970,
        "month": _count(dates, "M") % 12 + 1,
        "weekday": (np.floor(days) + 3) % 7,  # January 1st, 1970 was a Thursday
        "hour": days % 1 * 24,
        "days": days - first_day,
    }
    missing = np.isnat(dates)
    return {name: np.where(missing, np.nan, part) for name, part in parts.items()}


def _count(dates: NDArray[np.datetime64], unit: str) -> NDArray[np.float64]:
    """Return the number of whole units since the beginning of 1970."""
    return dates.astype(f"datetime64[{unit}]").astype(np.int64).astype(np.float64)
