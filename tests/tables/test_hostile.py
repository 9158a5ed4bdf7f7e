"""Tables that break readers and converters: what is right, and what is refused with a reason."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context

from discreg import TablePreprocessor
from discreg.base.errors import InputError
from discreg.tables.table import as_table

FRAME = pd.DataFrame({"x": [1.0, 2.0, np.nan, 4.0], "c": ["a", "b", "b", "a"]})
BLANKS = pd.DataFrame(
    {
        "answer": ["yes", None] * 3,
        "number": [1.0, np.nan] * 3,
        "truth": [True, None] * 3,
        "day": [datetime(2024, 1, 31), None] * 3,
        "same": [1.0] * 6,
        "patient_id": ["p", None] * 3,
    }
)


def arrow(kind, *cells):
    return pd.DataFrame({"a": pd.Series(cells, dtype=pd.ArrowDtype(kind))})


def test_one_value_and_blanks_are_two_categories():
    preprocessor = TablePreprocessor().fit(BLANKS)
    assert preprocessor.left_out_ == {"same": "constant", "patient_id": "identifier"}
    assert preprocessor.get_feature_names_out().tolist() == [
        *("answer_yes", "answer_nan", "number_1", "number_nan", "truth_True", "truth_nan"),
        *("day_2024-01-31", "day_nan"),
    ]
    np.testing.assert_array_equal(preprocessor.transform(BLANKS[:2]), [[1, 0] * 4, [0, 1] * 4])
    table = as_table(BLANKS, [0, 1] * 3)
    assert list(table.X) == ["answer", "number", "truth", "day"]
    array = BLANKS[["number", "same"]].to_numpy()
    found = TablePreprocessor().fit_transform(array)
    np.testing.assert_array_equal(found[:, 1], np.isnan(array[:, 0]))


def test_labels_do_not_matter():
    frame = FRAME.assign(z=[np.nan, 1, 2, 3])
    expected = TablePreprocessor().fit_transform(frame)
    for y in ([0, 0, 1, 1], [1, 0, 0, 0]):
        np.testing.assert_array_equal(TablePreprocessor().fit_transform(frame, y), expected)
    gaps = [
        name for name in TablePreprocessor().fit(frame).get_feature_names_out() if "miss" in name
    ]
    assert gaps == ["missingindicator_x", "missingindicator_z"]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("ms"), pa.timestamp("ns", "UTC")])
def test_dates_of_arrow_may_be_missing(kind):
    cells = [date(2024, 1, day) for day in (5, 7, 9)]
    found = TablePreprocessor(kinds={"a": "date"}).fit_transform(arrow(kind, *cells, None))
    plain = pd.DataFrame({"a": pd.to_datetime([*cells, None])})
    np.testing.assert_array_equal(found, TablePreprocessor().fit_transform(plain))


@pytest.mark.parametrize(
    "table",
    [
        arrow(pa.list_(pa.int64()), [1], [2], None),
        arrow(pa.struct([("k", pa.int64())]), {"k": 1}, {"k": 2}, None),
        pl.DataFrame({"a": [[1], [2]]}),
        pd.DataFrame({"a": [10**5000, 1]}, dtype=object),
    ],
)
def test_cells_that_cannot_be_used_name_their_column(table):
    with pytest.raises(InputError, match="column 'a' has cells that are neither numbers"):
        TablePreprocessor().fit(table)


def test_integers_of_128_bits_are_numbers():
    frame = pl.DataFrame({"a": pl.Series([1, 2, None]).cast(pl.Int128)})
    np.testing.assert_array_equal(
        TablePreprocessor().fit_transform(frame), [[1, 0], [2, 0], [1.5, 1]]
    )


@pytest.mark.parametrize(
    ("rows", "advice"),
    [
        (FRAME.iloc[0], r"For one row write X.to_frame\(\).T"),
        (pl.from_pandas(FRAME).lazy(), r"Write X.collect\(\)"),
        (FRAME.to_dict("list"), r"Write pandas.DataFrame\(X\)"),
        (pa.table(FRAME), r"Write X.to_pandas\(\)"),
    ],
)
def test_what_is_nearly_a_table_is_refused_with_advice(rows, advice):
    for call in (TablePreprocessor().fit, TablePreprocessor().fit(FRAME).transform):
        with pytest.raises(InputError, match=advice):
            call(rows)
    row = FRAME.iloc[0].to_frame().T
    np.testing.assert_array_equal(TablePreprocessor().fit(FRAME).transform(row), [[1, 0, 1, 0]])


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["a", "b", pd.NA, "a"], dtype="string"),
        pd.Series(["a", "b", None, "a"], dtype=pd.ArrowDtype(pa.string())),
        pd.Series([1, 2, None, 1], dtype="Int64"),
        [1, 2, np.nan, 1],
    ],
)
def test_missing_labels_are_said_to_be_labels(labels):
    with pytest.raises(InputError, match="target 'y' is missing in 1 of 4 rows: data row 3"):
        as_table(FRAME, labels)


@pytest.mark.parametrize("dtype", ["S1", object])
def test_labels_may_be_bytes(dtype):
    assert as_table(FRAME, np.array([b"a", b"b"] * 2, dtype)).y.tolist() == ["a", "b"] * 2


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"kinds": "numeric"}, "The 'kinds' parameter .* must be None or a dict of types"),
        ({"kinds": {"x": ["numeric"]}}, "kinds has the type"),
        ({"max_categories": 0}, "'max_categories' parameter .* must be an int in .2, inf.. Got 0"),
        ({"max_categories": None}, "'max_categories' parameter .* Got None"),
        (
            {"max_text_features": None},
            "'max_text_features' parameter .* an int in .1, inf.",
        ),
        ({"scale": "no"}, "'scale' parameter .* must be a bool. Got 'no'"),
    ],
)
def test_unsuitable_parameters_are_refused(params, said):
    with pytest.raises(ValueError, match=said):
        TablePreprocessor(**params).fit(FRAME)


def test_parameters_that_are_set_after_fit_wait_for_the_next_one():
    frame = pd.DataFrame({"c": list("abcdef") * 3, "note": [f"word {k} more" for k in range(18)]})
    preprocessor = TablePreprocessor().fit(frame).set_params(max_categories=3, max_text_features=2)
    width = preprocessor.transform(frame).shape[1]
    assert len(preprocessor.columns_of_features()) == width
    assert len(preprocessor.get_feature_names_out()) == width


@pytest.mark.parametrize("table", [pd.DataFrame({"x": [1, np.inf]}), FRAME.iloc[0], np.eye(1)])
def test_a_failed_fit_changes_nothing(table):
    fitted, fresh = TablePreprocessor().fit(FRAME), TablePreprocessor()
    before = fitted.transform(FRAME)
    for each in (fitted, fresh):
        with pytest.raises(ValueError, match=r"infinite|Series|minimum of 2"):
            each.fit(table)
    np.testing.assert_array_equal(fitted.transform(FRAME), before)
    assert vars(fresh) == vars(TablePreprocessor())


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_the_global_output_is_that_of_the_last_step_alone(output):
    frame = FRAME.assign(note=["one two three", "four five six", "seven eight nine", "ten or so"])
    preprocessor = TablePreprocessor(scale=True).fit(frame)
    with config_context(transform_output=output):
        found = TablePreprocessor(scale=True).fit_transform(frame)
        again = preprocessor.transform(frame)
    assert type(found).__module__.split(".")[0] == output
    for each in (found, again):
        np.testing.assert_array_equal(each.to_numpy(), preprocessor.transform(frame))


def test_spaces_and_minus_zero_are_no_part_of_a_category():
    words = pd.DataFrame({"c": ["a", " a", "b\t", " ", "?", "\xa0b"] * 3})
    preprocessor = TablePreprocessor().fit(words)
    np.testing.assert_array_equal(
        preprocessor.transform(words[:6]),
        [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]],
    )
    numbers = pd.DataFrame({"c": pd.Categorical([0.0, 1.0, 2.5])})
    preprocessor = TablePreprocessor(kinds={"c": "categorical"}).fit(numbers)
    for cells in ([-0.0, 1.0, 2.5], ["-0.0", "1.0", "2.5"], ["0", " 1", "2.5 "]):
        found = preprocessor.transform(pd.DataFrame({"c": cells}))
        np.testing.assert_array_equal(found, np.eye(3))


def test_long_cells_are_cut_in_messages():
    preprocessor = TablePreprocessor().fit(FRAME)
    with pytest.raises(InputError, match=r"'zzz.*\.\.\. \(5,000,000 characters\)") as told:
        preprocessor.transform(FRAME.assign(x="z" * 5_000_000))
    assert len(str(told.value)) < 300


@pytest.mark.parametrize("scale", [True, False])
def test_numbers_near_the_largest_are_refused_without_a_warning(scale):
    with pytest.raises(InputError, match="numbers of 'x' are too large"):
        TablePreprocessor(scale=scale).fit(pd.DataFrame({"x": [1.7e308, 1.6e308]}))


def test_a_table_keeps_at_least_one_column():
    with pytest.raises(InputError, match="every column is dropped; at least one"):
        as_table(FRAME, [0, 1] * 2, drop=["x", "c"])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.json", "[" * 100_000 + "]" * 100_000, "maximum recursion depth exceeded"),
        ("t.jsonl", '{"a": 1}\n{"a": ' + "[" * 100_000, "maximum recursion depth exceeded"),
        ("t.json", f'[{{"a": {"9" * 5000}}}]', "Exceeds the limit .* for integer"),
        ("t.json", '{"columns": ["n"], "data": [[1, 2]]}', "1 columns passed, passed data had 2"),
        ("t.json", '{"columns": ["n"], "data": [{"n": 1}]}', "a list of records or a mapping"),
        ("t.json", '{"a": [1, [1], 2, 3], "y": [1, 2, 1, 2]}', "'a' has cells that are neither"),
        ("t.json", '[{"a": "x\\ud800"}]', r"character '\\ud800'"),
        ("t.json", '{"\\udc00": [1, 2]}', r"character '\\udc00'"),
    ],
    ids=["deep", "deep line", "digits", "wide row", "record", "list", "half", "half name"],
)
def test_hostile_json_is_refused(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=said):
        as_table(tmp_path / name, "y")
