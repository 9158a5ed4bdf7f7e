"""Features of the columns of a table, as `TablePreprocessor` computes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from discreg.tables.names import MISSING
from discreg.tables.preprocessor import TablePreprocessor

from ._graph import Graph

__all__ = ["cells_of", "input_kinds", "table_features"]

MICROSECONDS = 86_400e6  # per day
NOT_A_TIME = np.iinfo(np.int64).min
UNKNOWN = "\0"  # no cell of a table
# Categories that can be written in two ways: 3 and 3.0, a day and its midnight.
WHOLE, DAY = re.compile(r"[-+]?\d{1,15}"), re.compile(r"\d{4}-\d\d-\d\d")
Cells = dict[str, str]  # name of a column to the name of its values, one column of a tensor


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
        return {
            name: by_name[name].full_name if kind == "string" else _number(graph, by_name[name])
            for name, kind in kinds.items()
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


def _number(graph: Graph, variable: Any) -> str:
    from skl2onnx.common.data_types import Int64TensorType

    is_whole = isinstance(variable.type, Int64TensorType)
    return variable.full_name if is_whole else graph.double(variable.full_name)


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
    """Look up the indicators of categories; the last row of the table is for unknown ones."""
    encoder = preprocessor._encoder
    assert encoder is not None
    categories = encoder.categories_[place].tolist()
    known = {text: code for code, category in enumerate(categories) for text in _written(category)}
    cells = np.array([[each[0] for each in encoder.categories_]] * (len(categories) + 1), object)
    cells[:, place] = [*categories, UNKNOWN]
    columns = preprocessor.columns_of_features()
    widths = [int(np.sum(columns == name)) for name in preprocessor.categories_]
    first = sum(widths[:place])
    indicators = np.asarray(encoder.transform(cells))[:, first : first + widths[place]]
    codes = graph(
        "LabelEncoder",
        texts,
        domain="ai.onnx.ml",
        keys_strings=list(known),
        values_int64s=list(known.values()),
        default_int64=len(categories),
        op_version=2,
    )
    return graph("Gather", indicators, graph("Squeeze", codes, np.array([1])))


def _written(category: Any) -> list[str]:
    """Return the strings that are this category, which may be a missing value."""
    if not isinstance(category, str):
        return list(MISSING)
    if WHOLE.fullmatch(category):
        return [category, f"{category}.0"]
    if DAY.fullmatch(category):
        return [category, f"{category} 00:00:00"]
    return [category]


def date_parts(graph: Graph, microseconds: str) -> dict[str, str]:
    """Compute the parts of dates as `discreg.tables.dates.date_parts`; NaN where one is missing.

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
