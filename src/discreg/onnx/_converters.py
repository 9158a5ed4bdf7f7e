"""Converters of skl2onnx: nodes of classifiers, regressions and the preprocessing of tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from discreg.auto import AutoClassifier
from discreg.tables.frames import MISSING
from discreg.tables.preprocessor import TablePreprocessor

from ._graph import Graph
from ._scores import class_scores, decide, fitted_model, probabilities

CLASSIFIER_OPTIONS: dict[str, list[Any]] = {  # those of skl2onnx
    "zipmap": [True, False, "columns"],
    "raw_scores": [True, False],
    "nocl": [True, False],
    "output_class_labels": [False, True],
}
MICROSECONDS = 86_400e6  # per day
NOT_A_TIME = np.iinfo(np.int64).min
UNKNOWN = "\0"  # no cell of a table
SPACES = (  # what str.strip removes
    r"\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}"
    r"\x{3000}"
)
# Categories that can be written in two ways: 3 and 3.0, a day and its midnight.
WHOLE, DAY = re.compile(r"[-+]?\d{1,15}"), re.compile(r"\d{4}-\d\d-\d\d")
Cells = dict[str, str]  # name of a column to the name of its values, one column of a tensor


def has_probabilities(model: Any) -> bool:
    """Return whether a fitted classifier has probabilities."""
    return hasattr(fitted_model(model), "_calibrated")


def preprocessor_of(model: Any) -> TablePreprocessor | None:
    """Return the preprocessor of an AutoClassifier, or the model itself if it is one."""
    is_table = isinstance(model, TablePreprocessor)
    return model if is_table else getattr(model, "preprocessor_", None)


def convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a classifier: label, and probabilities or scores."""
    graph, model = Graph(scope, container), fitted_model(operator.raw_operator)
    label, second = operator.outputs[:2]
    scores, rejected = decide(graph, model, _rows(graph, operator, model))
    classes = _labels(scope, operator.raw_operator)
    n_classes = len(model.classes_)
    columns = class_scores(graph, scores, n_classes)
    places = graph("ArgMax", columns, axis=1, keepdims=0)
    if rejected is not None:
        places = graph("Where", graph("Squeeze", rejected, np.array([1])), len(classes), places)
        unknown, is_text = model._label_of_rejected(), classes.dtype.kind == "U"
        unknown = str(unknown) if is_text else _integers(unknown, model.classes_.dtype)
        classes = np.append(classes, unknown)
    graph.output(graph("Gather", classes, places), label)
    options = container.get_options(operator.raw_operator, {"raw_scores": False})
    if options["raw_scores"] or not has_probabilities(model):
        found = class_scores(graph, scores, n_classes, first=-1.0)
    else:
        if isinstance(model, AutoClassifier):  # class weights move decisions only
            columns = graph("Sub", columns, np.log(model._factors))
        found = probabilities(graph, columns, model._calibrated.temperature)
    graph.output(found, second)


def classifier_shapes(operator: Any) -> None:
    """Set the types and shapes of the label and of the probabilities or scores."""
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    model, n_rows = fitted_model(operator.raw_operator), operator.inputs[0].get_first_dimension()
    classes = _labels(operator.scope_inst, operator.raw_operator)
    kind = StringTensorType if classes.dtype.kind in "OU" else Int64TensorType
    operator.outputs[0].set_type(kind([n_rows]))
    if preprocessor_of(model) is not None:
        operator.outputs[1].set_type(DoubleTensorType())
    operator.outputs[1].type.shape = [n_rows, len(model.classes_)]


def _labels(scope: Any, model: Any) -> NDArray[Any]:
    """Return the class labels as ONNX can contain them: strings or integers."""
    from skl2onnx.common.utils_classifier import get_label_classes

    check_is_fitted(model)
    classes = np.asarray(get_label_classes(scope, model))
    return classes.astype(str) if classes.dtype.kind in "OU" else _integers(classes, classes.dtype)


def _integers(labels: Any, dtype: np.dtype[Any]) -> NDArray[np.int64]:
    """Convert labels, or raise NotImplementedError if they are no integers."""
    found = np.asarray(labels)
    with np.errstate(invalid="ignore"):
        whole = found.astype(np.int64)
    if dtype.kind in "mM" or not np.array_equal(whole, found):
        raise NotImplementedError(
            f"The labels are of type {dtype}, and ONNX cannot contain {found.tolist()!r} among "
            "them. Fit with labels that are strings or integers, for example y.astype(str)."
        )
    return whole


def convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a linear regression."""
    graph, model = Graph(scope, container), fitted_model(operator.raw_operator)
    x = _rows(graph, operator, model)
    coef, offset = (np.asarray(each, dtype=np.float64) for each in (model.coef_, model.intercept_))
    graph.output(graph.product(x, coef.T, offset), operator.outputs[0])


def regressor_shapes(operator: Any) -> None:
    """Set the shape of the predicted targets."""
    check_is_fitted(operator.raw_operator)
    model, n_rows = fitted_model(operator.raw_operator), operator.inputs[0].get_first_dimension()
    operator.outputs[0].type.shape = [n_rows, len(model.coef_)]


def convert_features(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a TablePreprocessor, or join inputs of numbers."""
    graph = Graph(scope, container)
    graph.output(_rows(graph, operator, operator.raw_operator), operator.outputs[0])


def feature_shapes(operator: Any) -> None:
    """Set the type of the features, which are in double precision as in Python."""
    from skl2onnx.common.data_types import DoubleTensorType

    step = operator.raw_operator
    is_table = isinstance(step, TablePreprocessor)
    features = step.get_feature_names_out() if is_table else operator.inputs
    n_rows = operator.inputs[0].get_first_dimension()
    operator.outputs[0].set_type(DoubleTensorType([n_rows, len(features)]))


def _rows(graph: Graph, operator: Any, model: Any) -> str:
    """Return the features of new rows in double precision."""
    from skl2onnx.common.data_types import StringTensorType

    preprocessor = preprocessor_of(model)
    if preprocessor is not None:
        cells = cells_of(graph, preprocessor, operator.inputs)
        return table_features(graph, preprocessor, cells)
    texts = [each.raw_name for each in operator.inputs if isinstance(each.type, StringTensorType)]
    if texts:
        raise TypeError(
            f"{type(model).__name__} takes numbers, but the input {texts[0]!r} is of strings. "
            "Put a TablePreprocessor or a OneHotEncoder before the model."
        )
    parts = [graph.double(each.full_name) for each in operator.inputs]
    return parts[0] if len(parts) == 1 else graph("Concat", *parts, axis=1)


def input_kinds(preprocessor: TablePreprocessor) -> dict[str, str]:
    """Return the type of the ONNX input of each column: "double", "int64" or "string"."""
    types = {"numeric": "double", "boolean": "double", "date": "int64", "categorical": "string"}
    for name, kind in preprocessor.kinds_.items():
        if kind == "text":
            raise NotImplementedError(
                f"The column {name!r} contains texts, whose n-grams of characters have no "
                "conversion to ONNX. Leave the column out, or compute numbers from it before."
            )
    return {name: types[kind] for name, kind in preprocessor.kinds_.items()}


def cells_of(graph: Graph, preprocessor: TablePreprocessor, inputs: Sequence[Any]) -> Cells:
    """Find the columns among the inputs: one input per column, or one array of numbers."""
    kinds = input_kinds(preprocessor)
    by_name = {each.raw_name: each for each in inputs}
    if all(name in by_name for name in kinds):
        cells = {name: by_name[name].full_name for name in kinds}
        return {
            name: graph.double(cell) if kinds[name] == "double" else cell
            for name, cell in cells.items()
        }
    names = [f"x{place}" for place in range(preprocessor.n_features_in_)]
    names = list(getattr(preprocessor, "feature_names_in_", names))
    if len(inputs) != 1 or set(kinds.values()) - {"double"}:
        missing = [name for name in kinds if name not in by_name]
        raise ValueError(
            f"TablePreprocessor needs one input per column, but there is none for {missing[0]!r}. "
            "Convert with rows of a data frame like those of fit."
        )
    whole = graph.double(inputs[0].full_name)
    places = {name: np.array([names.index(name)]) for name in kinds}
    return {name: graph("Gather", whole, place, axis=1) for name, place in places.items()}


def table_features(graph: Graph, preprocessor: TablePreprocessor, cells: Cells) -> str:
    """Compute the features of the columns, in the order of their names."""
    kinds = preprocessor.kinds_
    dates = {name: date_parts(graph, cells[name]) for name in kinds if kinds[name] == "date"}
    numbers = [graph.double(cells[name]) for name in kinds if kinds[name] == "numeric"]
    for name, parts in preprocessor._date_parts.items():
        first = preprocessor._first_days[name]
        numbers += [
            graph("Sub", dates[name][part], first) if part == "days" else dates[name][part]
            for part in parts
        ]
    numbers += [graph.double(cells[name]) for name in kinds if kinds[name] == "boolean"]
    blocks = []
    if numbers:
        blocks.append(_filled(graph, preprocessor, graph("Concat", *numbers, axis=1)))
    for name in preprocessor._with_gaps:
        values = dates[name]["days"] if name in dates else graph.double(cells[name])
        blocks.append(graph.double(graph("IsNaN", values)))
    for place, name in enumerate(preprocessor.categories_):
        blocks.append(_indicators(graph, preprocessor, place, cells[name]))
    return blocks[0] if len(blocks) == 1 else graph("Concat", *blocks, axis=1)


def _filled(graph: Graph, preprocessor: TablePreprocessor, numbers: str) -> str:
    """Replace missing numbers by the medians, and standardise."""
    medians, scaler = preprocessor._medians, preprocessor._scaler
    filled = graph("Where", graph("IsNaN", numbers), medians, numbers)
    if scaler is None:
        return filled
    n_others = len(medians) - len(scaler.mean_)
    means = np.append(scaler.mean_, np.zeros(n_others))
    return graph("Div", graph("Sub", filled, means), np.append(scaler.scale_, np.ones(n_others)))


def _indicators(graph: Graph, preprocessor: TablePreprocessor, place: int, texts: str) -> str:
    """Compare the cells with each category that has other indicators than unknown ones."""
    encoder = preprocessor._encoder
    assert encoder is not None
    categories = encoder.categories_[place].tolist()
    cells = np.array([[each[0] for each in encoder.categories_]] * (len(categories) + 1), object)
    cells[:, place] = [*categories, UNKNOWN]
    columns = preprocessor.columns_of_features()
    widths = [int(np.sum(columns == name)) for name in preprocessor.categories_]
    first = sum(widths[:place])
    *known, unknown = np.asarray(encoder.transform(cells))[:, first : first + widths[place]]
    differ = [(name, row - unknown) for name, row in zip(categories, known, strict=True)]
    differ = [(name, row) for name, row in differ if row.any()]
    found = [graph.double(graph.full_match(texts, _pattern(name))) for name, _ in differ]
    matches = graph("Concat", *found, axis=1)
    return graph.product(matches, np.array([row for _, row in differ]), unknown[None])


def _pattern(category: Any) -> str:
    """Return a regular expression of the strings that are this category, or a missing value."""
    if not isinstance(category, str):
        written = "|".join(map(re.escape, MISSING))
    elif category == "0":
        written = r"0|-?0\.0+"
    elif WHOLE.fullmatch(category) and category != "-0":
        written = rf"{re.escape(category)}(?:\.0+)?"
    elif DAY.fullmatch(category):
        written = rf"{re.escape(category)}(?:[ T]00:00:00(?:\.0+)?)?"
    else:
        written = re.escape(category)
    return f"[{SPACES}]*(?:{written})[{SPACES}]*"


def date_parts(graph: Graph, microseconds: str) -> dict[str, str]:
    """Compute the parts of dates as `TablePreprocessor` does; NaN where one is missing.

    Years and months follow from the days by the arithmetic of the Gregorian calendar, in which
    400 years have 146,097 days and years begin in March.
    """

    def floored(numerator: str, divisor: float) -> str:
        return graph("Floor", graph("Div", numerator, divisor))

    is_missing = graph("Equal", microseconds, np.array(NOT_A_TIME))
    days = graph(
        "Where", is_missing, np.nan, graph("Div", graph.double(microseconds), MICROSECONDS)
    )
    whole = graph("Floor", days)
    since_march = graph("Add", whole, 719_468.0)  # from March 1st of the year 0
    era = floored(since_march, 146_097.0)
    day_of_era = graph("Sub", since_march, graph("Mul", era, 146_097.0))
    leap_days = graph("Sub", floored(day_of_era, 36_524.0), floored(day_of_era, 1_460.0))
    leap_days = graph("Sub", leap_days, floored(day_of_era, 146_096.0))
    year_of_era = floored(graph("Add", day_of_era, leap_days), 365.0)
    before = graph("Mul", year_of_era, 365.0)
    before = graph("Add", before, floored(year_of_era, 4.0))
    before = graph("Sub", before, floored(year_of_era, 100.0))
    day_of_year = graph("Sub", day_of_era, before)
    month = floored(graph("Add", graph("Mul", day_of_year, 5.0), 2.0), 153.0)  # from March
    is_next_year = graph.double(graph("GreaterOrEqual", month, 10.0))
    year = graph("Add", graph("Add", graph("Mul", era, 400.0), year_of_era), is_next_year)
    month = graph("Sub", graph("Add", month, 3.0), graph("Mul", is_next_year, 12.0))
    from_monday = graph("Add", whole, 3.0)  # January 1st, 1970 was a Thursday
    weeks = floored(from_monday, 7.0)
    return {
        "year": year,
        "month": month,
        "weekday": graph("Sub", from_monday, graph("Mul", weeks, 7.0)),
        "hour": graph("Mul", graph("Sub", days, whole), 24.0),
        "days": days,
    }
