"""From the columns of a data frame to numbers."""

import pickle
import subprocess
import sys
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone

from discreg import TablePreprocessor, load_model, save_model
from discreg.base.errors import InputError

FRAME = pd.DataFrame(
    {
        "size": [1.0, 2.0, np.nan, 6.0, 7.0, 11.0],
        "flag": [True, False, None, True, True, False],
        "colour": ["red", "blue", "red", None, "green", "red"],
    }
)
NAMES = [
    *("size", "flag", "missingindicator_size", "missingindicator_flag"),
    *("colour_blue", "colour_green", "colour_red", "colour_nan"),
]
FEATURES = [
    [1, 1, 0, 0, 0, 0, 1, 0],
    [2, 0, 0, 0, 1, 0, 0, 0],
    [6, 1, 1, 1, 0, 0, 1, 0],
    [6, 1, 0, 0, 0, 0, 0, 1],
    [7, 1, 0, 0, 0, 1, 0, 0],
    [11, 0, 0, 0, 0, 0, 1, 0],
]


def rich_frame(n_rows=40):
    """A frame with a column of every kind."""
    random = np.random.default_rng(0)
    words = np.array(
        ["ache", "cough", "fever", "pain", "rash", "since", "slight", "strong", "today", "week"]
    )
    return pd.DataFrame(
        {
            "size": np.where(random.random(n_rows) < 0.2, np.nan, random.normal(size=n_rows)),
            "flag": random.random(n_rows) < 0.5,
            "colour": random.choice(["red", "blue", None], n_rows),
            "seen": pd.Timestamp("2023-11-05 07:30")
            + pd.to_timedelta(random.integers(0, 9000, n_rows), unit="h"),
            "note": [" ".join(random.permutation(words)[:5]) for _ in range(n_rows)],
            "patient_id": random.integers(0, 5, n_rows),
            "site": "here",
            "blank": None,
        }
    )


def test_columns_become_filled_numbers_and_indicators():
    preprocessor = TablePreprocessor()
    found = preprocessor.fit_transform(FRAME)
    assert found.dtype == np.float64
    assert preprocessor.get_feature_names_out().tolist() == NAMES
    np.testing.assert_array_equal(found, FEATURES)
    np.testing.assert_array_equal(preprocessor.is_indicator_, [False] + [True] * 7)


def test_the_description_names_every_column_and_what_becomes_of_it():
    preprocessor = TablePreprocessor(scale=True).fit(rich_frame())
    assert preprocessor.left_out_ == {
        "patient_id": "identifier",
        "site": "constant",
        "blank": "empty",
    }
    assert preprocessor.kinds_ == {
        "size": "numeric",
        "flag": "boolean",
        "colour": "categorical",
        "seen": "date",
        "note": "text",
    }
    assert preprocessor.categories_ == {
        "colour": ["blue", "red", pytest.approx(np.nan, nan_ok=True)]
    }
    assert {column["name"]: column["n_features"] for column in preprocessor.columns_} == {
        **{"size": 2, "flag": 1, "colour": 3, "seen": 5, "note": 30},
        **dict.fromkeys(("patient_id", "site", "blank"), 0),
    }
    assert preprocessor.n_features_in_ == 8
    assert preprocessor.feature_names_in_.tolist() == list(rich_frame())


def test_scaling_gives_numbers_and_texts_the_variance_one_and_leaves_indicators():
    frame = rich_frame()
    plain, scaled = (
        TablePreprocessor(scale=scale).set_output(transform="pandas").fit_transform(frame)
        for scale in (False, True)
    )
    texts = [name for name in plain if name.startswith("note")]
    numbers = ["size", *(name for name in plain if name.startswith("seen"))]
    others = plain.columns.difference([*texts, *numbers])
    pd.testing.assert_frame_equal(scaled[others], plain[others])
    expected = (plain[numbers] - plain[numbers].mean()) / plain[numbers].std(ddof=0)
    np.testing.assert_allclose(scaled[numbers], expected, atol=1e-10)
    size = np.sqrt(plain[texts].var(ddof=0).sum())
    np.testing.assert_allclose(scaled[texts], plain[texts] / size, atol=1e-12)


def test_new_rows_depend_on_the_training_rows_only():
    frame = rich_frame()
    preprocessor = TablePreprocessor(scale=True).fit(frame[:30])
    together = preprocessor.transform(frame[30:])
    alone = [preprocessor.transform(frame[row : row + 1])[0] for row in range(30, 40)]
    np.testing.assert_array_equal(together, alone)


def test_dates_become_the_parts_that_differ():
    seen = pd.Series(
        pd.to_datetime(["2023-12-31 18:00", None, "2024-02-29 00:00", "2025-07-04 06:30"])
    )
    preprocessor = TablePreprocessor().fit(seen.to_frame("seen"))
    found = preprocessor.transform(seen.to_frame("seen"))
    names = [f"seen_{part}" for part in ("year", "month", "weekday", "hour", "days")]
    assert preprocessor.get_feature_names_out().tolist() == [*names, "missingindicator_seen"]
    here = seen.notna().to_numpy()
    for part, column in zip(("year", "month", "day_of_week"), found.T, strict=False):
        np.testing.assert_array_equal(column[here], getattr(seen.dt, part)[here])
    np.testing.assert_allclose(found[here, 3], [18, 0, 6.5])
    np.testing.assert_allclose(found[here, 4], (seen - seen.min())[here] / pd.Timedelta(days=1))
    np.testing.assert_array_equal(found[1, :5], np.median(found[here, :5], axis=0))
    days = pd.DataFrame({"day": ["2024-02-01", "2024-02-08", "2024-02-22"]})
    found = TablePreprocessor().fit_transform(days)
    np.testing.assert_array_equal(found, [[0], [7], [21]])


def test_a_column_may_have_the_name_of_a_part_of_a_date():
    days = pd.date_range("2024-02-01", periods=3, freq="YS")
    frame = pd.DataFrame({"day": days, "day_year": [5.0, 3.0, 4.0]})
    found = TablePreprocessor().fit_transform(frame)
    np.testing.assert_array_equal(found[:, :2], [[5, 2025], [3, 2026], [4, 2027]])


def test_dates_before_1970_are_dates_too():
    days = pd.DataFrame({"day": ["1899-12-31", "1969-12-31", "1970-01-01"]})
    found = TablePreprocessor().set_output(transform="pandas").fit_transform(days)
    stamps = pd.to_datetime(days["day"])
    for part, expected in (("year", "year"), ("month", "month"), ("weekday", "day_of_week")):
        np.testing.assert_array_equal(found[f"day_{part}"], getattr(stamps.dt, expected))
    assert "day_hour" not in found


def test_similar_texts_have_similar_features():
    topics = ["fever and coughing", "pain in both legs"]
    note = [f"{topics[row % 2]} on day {row}" for row in range(20)]
    preprocessor = TablePreprocessor(max_text_features=3).fit(pd.DataFrame({"note": note}))
    assert preprocessor.get_feature_names_out().tolist() == ["note_0", "note_1", "note_2"]
    assert not preprocessor.is_indicator_.any()
    new = ["fevers, coughs a lot", "a painful leg", None, "?"]
    first, second, missing, mark = preprocessor.transform(pd.DataFrame({"note": new}))
    known = preprocessor.transform(pd.DataFrame({"note": note}))
    for row, same, other in ((first, known[::2], known[1::2]), (second, known[1::2], known[::2])):
        assert (same @ row).min() > 2 * (other @ row).max() > 0
    np.testing.assert_array_equal(missing, mark)


def test_an_unknown_category_has_no_indicator():
    fitted = TablePreprocessor().fit(FRAME[:3])
    names = fitted.get_feature_names_out()
    (row,) = fitted.transform(FRAME[4:5])
    assert row[np.char.startswith(names.astype(str), "colour")].tolist() == [0, 0]


def test_rare_and_unknown_categories_share_the_last_indicator():
    cities = [f"c{row % 49}" for row in range(196)] + [f"rare{row % 30}" for row in range(60)]
    fitted = TablePreprocessor().fit(pd.DataFrame({"city": cities}))
    rows = fitted.transform(pd.DataFrame({"city": ["c3", "rare29", "never seen"]}))
    assert rows.shape == (3, 50)
    np.testing.assert_array_equal(rows.sum(axis=1), [1, 1, 1])
    assert rows[0, -1] == 0
    np.testing.assert_array_equal(rows[1:, -1], [1, 1])
    few = TablePreprocessor(max_categories=7).fit(pd.DataFrame({"city": cities}))
    assert len(few.get_feature_names_out()) == 7


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_missing_cells_are_equal_however_they_are_written(missing):
    frame = FRAME.astype(object).where(FRAME.notna(), missing)
    np.testing.assert_array_equal(TablePreprocessor().fit_transform(frame), FEATURES)


@pytest.mark.parametrize(
    "dtypes",
    [
        {"size": "Float64", "flag": "boolean", "colour": "string"},
        {"size": "Int64", "flag": "boolean", "colour": "category"},
        {"size": "double[pyarrow]", "flag": "bool[pyarrow]", "colour": "string[pyarrow]"},
    ],
)
def test_nullable_dtypes_give_the_same_features(dtypes):
    np.testing.assert_array_equal(TablePreprocessor().fit_transform(FRAME.astype(dtypes)), FEATURES)


def test_polars_gives_the_same_features():
    polars = pytest.importorskip("polars")
    frame = rich_frame()
    other = polars.DataFrame(
        {name: [None if pd.isna(cell) else cell for cell in frame[name]] for name in frame}
    )
    found = TablePreprocessor(scale=True).fit(frame)
    again = TablePreprocessor(scale=True).fit(other)
    assert found.columns_ == again.columns_
    np.testing.assert_array_equal(found.transform(frame), again.transform(other))
    np.testing.assert_array_equal(found.transform(other), again.transform(frame))
    written = again.set_output(transform="polars").transform(other)
    assert isinstance(written, polars.DataFrame)
    assert written.columns == again.get_feature_names_out().tolist()


def test_types_of_polars():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {
            "code": polars.Series(["1", "2", "1"], dtype=polars.Categorical),
            "day": [date(2024, 2, 1), None, date(2024, 2, 8)],
            "time": [datetime(2024, 2, 1, 3), datetime(2024, 2, 1, 9), None],
            "length": [timedelta(days=1), timedelta(hours=12), None],
            "price": polars.Series(["1.5", "2.5", None]).cast(polars.Decimal(10, 2)),
        }
    )
    preprocessor = TablePreprocessor().fit(frame)
    assert list(preprocessor.kinds_.values()) == ["categorical", "date", "date", *["numeric"] * 2]
    found = preprocessor.set_output(transform="pandas").transform(frame)
    np.testing.assert_array_equal(found["length"], [1, 0.5, 0.75])
    np.testing.assert_array_equal(found["price"], [1.5, 2.5, 2])
    np.testing.assert_array_equal(found["code_1"], [1, 0, 1])


def test_columns_are_found_by_name_and_others_ignored():
    frame = rich_frame()
    preprocessor = TablePreprocessor().fit(frame)
    other = frame[list(preprocessor.kinds_)[::-1]].assign(extra=1.0)
    np.testing.assert_array_equal(preprocessor.transform(other), preprocessor.transform(frame))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.drop(columns="size"), "1 of 3 columns are missing: 'size'"),
        (
            lambda frame: frame.rename(columns={"size": "x", "colour": "color"}),
            "2 of 3 columns are missing: 'size', 'colour'; is 'color' the column 'colour'",
        ),
        (
            lambda frame: frame.assign(size="big"),
            "'size' contains text 'big' in data row 1 where num",
        ),
        (
            lambda frame: frame.assign(flag="no"),
            "'flag' contains text 'no' in data row 1 where true",
        ),
        (lambda frame: frame.assign(size=np.inf), "column 'size' is infinite in data row 1"),
    ],
)
def test_new_rows_that_do_not_fit_are_refused(change, said):
    preprocessor = TablePreprocessor().fit(FRAME)
    with pytest.raises(InputError, match=said):
        preprocessor.transform(change(FRAME))


def test_text_among_dates_is_refused():
    preprocessor = TablePreprocessor().fit(rich_frame())
    with pytest.raises(
        InputError, match="'seen' contains text 'soon' in data row 1 where dates such"
    ):
        preprocessor.transform(rich_frame().assign(seen="soon"))


def test_names_that_are_not_strings():
    frame = FRAME.set_axis([0, 1, 2], axis=1)
    preprocessor = TablePreprocessor().fit(frame)
    assert preprocessor.feature_names_in_.tolist() == ["0", "1", "2"]
    np.testing.assert_array_equal(preprocessor.transform(frame), FEATURES)
    with pytest.raises(InputError, match="columns 1 and 3 have the same name '0'"):
        TablePreprocessor().fit(FRAME.set_axis([0, 1, "0"], axis=1))


def test_given_kinds_are_not_inferred():
    frame = pd.DataFrame({"zip": [101, 102] * 10, "patient_id": [1, 2, 3, 4] * 5, "site": "here"})
    kinds = {"zip": "categorical", "patient_id": "numeric", "site": "categorical"}
    preprocessor = TablePreprocessor(kinds=kinds).fit(frame)
    assert preprocessor.kinds_ == kinds
    assert preprocessor.left_out_ == {}
    names = ["patient_id", "zip_101", "zip_102", "site_here"]
    assert preprocessor.get_feature_names_out().tolist() == names


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ({"height": "numeric"}, "kinds names columns that X does not have: 'height'"),
        ({"size": "ordinal"}, "kinds has the type 'ordinal'; types are 'numeric', 'boolean'"),
        ({"colour": "numeric"}, "'colour' contains text 'red' in data row 1 where numbers were"),
    ],
)
def test_kinds_that_do_not_fit_are_refused(kinds, said):
    with pytest.raises(InputError, match=said):
        TablePreprocessor(kinds=kinds).fit(FRAME)
    with pytest.raises(InputError, match="kinds names columns, but X is not a data frame"):
        TablePreprocessor(kinds=kinds).fit(np.eye(3))


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("is_empty", [True, False])
def test_columns_of_given_kinds_keep_their_place_without_information(scale, is_empty):
    frame = rich_frame()
    kinds = TablePreprocessor().fit(frame).kinds_
    train = frame[list(kinds)].iloc[[0] * 6].reset_index(drop=True)
    if is_empty:
        train = train.astype(object).where(pd.DataFrame(False, train.index, train.columns), None)
    preprocessor = TablePreprocessor(scale=scale, kinds=kinds).fit(train)
    assert preprocessor.left_out_ == {}
    for rows in (train, frame):
        assert np.isfinite(preprocessor.transform(rows)).all()


def test_a_table_without_useful_columns_is_refused():
    with pytest.raises(
        InputError, match=r"No column can be used as a feature: 'site', 'blank' \(constant, empty"
    ):
        TablePreprocessor().fit(rich_frame()[["site", "blank"]])
    with pytest.raises(InputError, match="two rows and one column are needed"):
        TablePreprocessor().fit(FRAME[:1])


def test_arrays_are_numeric_columns():
    X = np.array([[1.0, np.nan, 5, 0], [2, 3, 5, 0], [4, 4, 5, 1]])
    preprocessor = TablePreprocessor()
    np.testing.assert_array_equal(
        preprocessor.fit_transform(X), [[1, 3.5, 0, 1], [2, 3, 0, 0], [4, 4, 1, 0]]
    )
    assert preprocessor.left_out_ == {"x2": "constant"}
    assert preprocessor.get_feature_names_out().tolist() == [
        *("x0", "x1", "x3", "missingindicator_x1"),
    ]
    with pytest.raises(ValueError, match="X has 3 features, but TablePreprocessor is expecting 4"):
        preprocessor.transform(X[:, :3])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        preprocessor.fit(sparse.csr_array(X))


def test_arrays_after_a_frame_have_its_columns():
    preprocessor = TablePreprocessor().fit(FRAME)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        found = preprocessor.transform(FRAME.to_numpy())
    np.testing.assert_array_equal(found, FEATURES)


WITHOUT_PANDAS = """
import sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Finder())
import discreg, numpy
print(discreg.TablePreprocessor(scale=True).fit_transform(numpy.eye(3)).shape)
"""


def test_arrays_need_no_pandas():
    command = [sys.executable, "-c", WITHOUT_PANDAS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "(3, 3)\n"


def test_output_can_be_a_frame_with_the_index_of_the_rows():
    frame = rich_frame().iloc[::-1]
    expected = TablePreprocessor().fit_transform(frame)
    with config_context(transform_output="pandas"):
        found = TablePreprocessor().fit_transform(frame)
    pd.testing.assert_index_equal(found.index, frame.index)
    np.testing.assert_array_equal(found, expected)


def test_numbers_that_count_the_rows_are_left_out_of_shuffled_parts_too():
    frame = pd.DataFrame({"x": np.random.default_rng(0).random(40), "n": np.arange(40) + 7})
    part = frame.sample(25, random_state=0)
    for rows in (frame, part, frame.set_index(np.array([f"r{row}" for row in range(40)]))):
        assert TablePreprocessor().fit(rows).left_out_ == {"n": "identifier"}


@pytest.mark.parametrize("scale", [True, False])
def test_copies_and_files_give_the_same_features(tmp_path, scale):
    frame = rich_frame()
    preprocessor = TablePreprocessor(scale=scale, max_categories=2).fit(frame)
    save_model(preprocessor, tmp_path / "model.skops")
    expected = preprocessor.transform(frame)
    for other in (
        pickle.loads(pickle.dumps(preprocessor)),
        load_model(tmp_path / "model.skops"),
        clone(preprocessor).fit(frame),
    ):
        np.testing.assert_array_equal(other.transform(frame), expected)
        names = preprocessor.get_feature_names_out()
        np.testing.assert_array_equal(other.get_feature_names_out(), names)
        assert other.left_out_ == preprocessor.left_out_


def test_no_training_rows_are_kept():
    frame = rich_frame(60)
    sizes = [
        len(pickle.dumps(TablePreprocessor().fit(rows)))
        for rows in (frame, pd.concat([frame] * 50, ignore_index=True))
    ]
    assert abs(sizes[1] - sizes[0]) < 100


def test_a_new_fit_forgets_the_old_one():
    preprocessor = TablePreprocessor().fit(rich_frame()).fit(np.eye(3))
    assert not hasattr(preprocessor, "feature_names_in_")
    np.testing.assert_array_equal(preprocessor.transform(np.eye(3)), np.eye(3))


def test_features_have_different_names():
    table = pd.DataFrame({"c": ["a", "b"] * 3, "c_a": np.arange(6) % 4, "c_a_2": np.arange(6) % 5})
    names = TablePreprocessor().fit(table).get_feature_names_out().tolist()
    assert names == ["c_a", "c_a_2", "c_a_3", "c_b"]


def test_true_and_one_are_different_categories():
    table = pd.DataFrame({"c": [True, 1, "x", 1, True, None]}, dtype=object)
    preprocessor = TablePreprocessor().fit(table)
    assert preprocessor.categories_["c"][:3] == ["1", "True", "x"]
    np.testing.assert_array_equal(
        preprocessor.transform(table)[:, :2], [[0, 1], [1, 0], [0, 0], [1, 0], [0, 1], [0, 0]]
    )
