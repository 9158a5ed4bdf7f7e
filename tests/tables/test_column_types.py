"""The kinds of columns."""

from datetime import date

import numpy as np
import pandas as pd
import pytest

from discreg.base.errors import InputError
from discreg.tables.column_types import as_categories, as_texts, infer, parse

NAN = np.nan
DATES = np.array(["2001-02-03", "NaT"], dtype="datetime64[us]")
EARLIER = np.array(["2001-02-03T01", "NaT"], dtype="datetime64[us]")


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        ([1, 2, 3], "numeric", [1, 2, 3]),
        (pd.array([1, None], dtype="Int64"), "numeric", [1, NAN]),
        (["1", "?", "NA", "", "nan", " 2.5 ", None], "numeric", [1, NAN, NAN, NAN, NAN, 2.5, NAN]),
        ([True, False], "boolean", [1, 0]),
        (pd.array([True, None], dtype="boolean"), "boolean", [1, NAN]),
        ([True, None, False], "boolean", [1, NAN, 0]),
        (["true", "False", "?", "TRUE"], "boolean", [1, 0, NAN, 1]),
        (pd.Categorical(["true", "false"]), "boolean", [1, 0]),
        (["a", "1", "?", None, " a"], "categorical", ["a", "1", NAN, NAN, "a"]),
        (["true", "maybe"], "categorical", ["true", "maybe"]),
        (pd.Categorical(["1", "2", None]), "categorical", ["1", "2", NAN]),
        (pd.Categorical([1.0, 2.5]), "categorical", ["1", "2.5"]),
        (pd.to_datetime(["2001-02-03", None]), "date", DATES),
        (pd.to_datetime(["2001-02-03 02:00", None]).tz_localize("Europe/Rome"), "date", EARLIER),
        (["2001-02-03", "?"], "date", DATES),
        (["2001-02-03T02:00:00+01:00", ""], "date", EARLIER),
        ([date(2001, 2, 3), None], "date", DATES),
        (["2001-02-03", "2001-02-30"], "categorical", ["2001-02-03", "2001-02-30"]),
        (["03/02/2001", None], "categorical", ["03/02/2001", NAN]),
        (pd.to_timedelta(["36h", None]), "numeric", [1.5, NAN]),
        (["a", "3.0", "-12.00", "3", "1.50"], "categorical", ["a", "3", "-12", "3", "1.50"]),
        (["2001-02-03T00:00:00", "none", "v1.0"], "categorical", ["2001-02-03", "none", "v1.0"]),
        ([None, "?"], "numeric", [NAN, NAN]),
    ],
)
def test_cells_decide_the_kind(cells, kind, values):
    found, parsed = parse(pd.Series(cells))
    assert found == kind
    pd.testing.assert_series_equal(
        pd.Series(parsed, dtype=parsed.dtype), pd.Series(values, dtype=parsed.dtype)
    )


def test_whole_numbers_are_one_text_however_they_are_stored():
    for column in ([1, 2], [1.0, 2.0], ["1", "2"], pd.Categorical([1.0, 2.0])):
        assert as_texts(pd.Series(column)).tolist() == ["1", "2"]


def test_categories_are_one_however_a_format_stores_them():
    days = pd.to_datetime(["2001-02-03", "2001-02-04"])
    for column in (days, pd.Series(days.astype(str)), ["2001-02-03 00:00:00", "2001-02-04"]):
        assert as_categories(pd.Series(column)).tolist() == ["2001-02-03", "2001-02-04"]
    for column in ([0, 1], [0.0, 1.0], ["0", "1.0"], pd.Categorical(["0.0", "1"])):
        assert as_categories(pd.Series(column)).tolist() == ["0", "1"]


def kind_of(name, cells, **options):
    """The inferred kind of a column."""
    columns, _ = infer(pd.DataFrame({name: pd.Series(cells, **options)}))
    return columns[0].kind


@pytest.mark.parametrize(
    "name", ["id", "ID", "patient_id", "Patient ID", "customerId", "orderID", "row-uuid"]
)
def test_names_of_identifiers(name):
    assert kind_of(name, [7, 7, 8, 9] * 5) == "identifier"
    assert kind_of(name, ["a", "b", "c", "b"] * 5) == "identifier"
    assert kind_of(name, [0.5, 1.5, 2.0, 2.5] * 5) == "numeric"
    assert kind_of(name, [True, False] * 5) == "boolean"


@pytest.mark.parametrize("name", ["paid", "valid", "humid", "idea", "index", "GRID", "id_count"])
def test_names_that_only_look_like_those_of_identifiers(name):
    assert kind_of(name, [7, 7, 8, 9] * 5) == "numeric"


def test_long_strings_that_hardly_repeat_are_texts():
    sentences = [f"this is sentence number {row}" for row in range(60)]
    assert kind_of("note", sentences) == "text"
    assert kind_of("note", sentences * 3) == "text"
    assert kind_of("note", sentences, dtype="category") == "identifier"
    assert kind_of("note", sentences[:5] * 3) == "categorical"
    assert kind_of("code", [f"code {row}" for row in range(60)]) == "identifier"


def test_complex_cells_are_refused_with_the_column():
    with pytest.raises(InputError, match="column 'a' has complex numbers"):
        infer(pd.DataFrame({"a": [1j, 2]}))
