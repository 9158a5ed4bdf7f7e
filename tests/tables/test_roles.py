"""Columns with a role: groups, weights, times, dropped columns and test tables."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from discreg.base.errors import InputError
from discreg.tables.table import as_table

FRAME = pd.DataFrame(
    {
        "size": [1.5, 2.25, 0.5, 4.0, 3.0, 2.0, 9.0],
        "colour": ["red", "blue", "red", None, "blue", "red", "red"],
        "patient": ["p2", "p1", "p2", "p3", "p1", "p3", "p4"],
        "weight": [1, 2, 0.5, 1, 1, 0, 7],
        "seen": pd.date_range("2024-01-01", periods=7),
        "note": [1, 2, 3, 4, 5, 6, 8.5],
        "ill": ["yes", "no", "yes", "no", "no", "yes", "rare"],
    }
)
ROLES = {"groups": "patient", "sample_weight": "weight", "time": "seen"}
ARRAYS = {role: FRAME[name].to_numpy() for role, name in ROLES.items()}


def options(**changes):
    return {"target": "ill", "drop": "note", **ROLES, **changes}


def message(*arguments, **named):
    with pytest.raises(InputError) as caught:
        as_table(*arguments, **named)
    return str(caught.value)


def sources(folder):
    FRAME.to_csv(folder / "t.csv", index=False)
    FRAME.to_parquet(folder / "t.parquet")
    bare = FRAME[["size", "colour"]]
    return {
        "csv": as_table(folder / "t.csv", **options()),
        "parquet": as_table(str(folder / "t.parquet"), "ill", drop=["note"], **ROLES),
        "pandas": as_table(FRAME.set_index("patient", drop=False), **options()),
        "polars": as_table(pl.from_pandas(FRAME), **options()),
        "frame": as_table(FRAME, name="t", **options()),
        "labels": as_table(FRAME.drop(columns="ill"), FRAME["ill"], drop="note", **ROLES),
        "arrays": as_table(bare, FRAME["ill"].tolist(), name="t", **ARRAYS),
        "series": as_table(bare, pl.Series(FRAME["ill"].to_list()), **ARRAYS),
    }


def test_all_sources_give_the_same_table(tmp_path):
    tables = sources(tmp_path)
    assert len({table.fingerprint for table in tables.values()}) == 1
    for table in tables.values():
        assert list(table.X) == ["size", "colour"]
        assert table.groups.tolist() == [1, 0, 1, 2, 0, 2]
        assert table.weights.tolist() == [1, 2, 0.5, 1, 1, 0]
        assert np.diff(table.time).tolist() == [1] * 5
        assert np.flatnonzero(table.kept).tolist() == [0, 1, 2, 3, 4, 5]
    assert tables["labels"].target == tables["csv"].target == "ill"


def test_roles_are_noted(tmp_path):
    notes = sources(tmp_path)["csv"].notes
    assert notes[:5] == (
        "left out by request: 'note'",
        "class 'rare' with fewer than two rows left out: data row 7",
        "column 'patient' defines 3 groups of 2 to 2 rows, which stay together in all folds",
        "column 'weight' holds sample weights from 0 to 2",
        "column 'seen' orders the rows in time, from 2024-01-01 to 2024-01-06, and is not a "
        "feature",
    )


@pytest.mark.parametrize("role", ["groups", "weights", "time"])
def test_other_roles_have_another_fingerprint(tmp_path, role):
    table = sources(tmp_path)["csv"]
    others = dataclasses.replace(table, **{role: getattr(table, role)[::-1].copy()})
    assert others.fingerprint != table.fingerprint


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"groups": "patients"}, "no column 'patients' for the groups; did you mean 'patient'?"),
        ({"sample_weight": "w"}, "there is no column 'w' for the sample_weight"),
        ({"groups": [1, 2]}, "there are 2 values of the groups for 7 rows"),
        ({"groups": FRAME[["size", "note"]]}, "groups must be one column of values"),
        ({"groups": [None, *"aabbcc"]}, "groups 'groups' is missing in data row 1; fill in"),
        ({"groups": [*"aaaaaaa"]}, "groups 'groups' is 'a' in every row"),
        ({"groups": "note", "drop": None}, "has another value in every row"),
        ({"sample_weight": [1, -1, 1, 1, 1, 1, 1]}, "is -1 in data row 2; weights must be finite"),
        ({"sample_weight": [*"abcdefg"]}, "has values that are not numbers, such as 'a'"),
        ({"sample_weight": [0] * 7}, "sample_weight 'sample_weight' is all 0"),
        ({"time": "colour"}, "time 'colour' is missing in data row 4"),
        ({"time": "patient", "groups": None}, "which are neither numbers nor dates in the form"),
        ({"time": [3] * 7}, "time 'time' is '3' in every row"),
        ({"groups": "ill"}, "column 'ill' cannot be both target and groups"),
        ({"time": "weight"}, "column 'weight' cannot be both sample_weight and time"),
        ({"drop": "notes"}, "there is no column 'notes' to drop; did you mean 'note'?"),
        ({"drop": ["ill"]}, "column 'ill' is the target and cannot be dropped"),
        ({"drop": "patient"}, "column 'patient' is the groups and cannot be dropped"),
        ({"target": None}, "which column holds the labels? Name one of 'size', 'colour'"),
    ],
)
def test_unsuitable_roles_are_refused(changes, said):
    assert said in message(FRAME, **options(**changes))


def test_unsuitable_sources_are_refused():
    y = [0, 1] * 3
    assert "X is a ndarray of shape (6,)" in message(np.arange(6.0), y)
    assert "which column holds the labels? Give y" in message(sparse.csr_array(np.eye(6)))
    assert "cannot be dropped" in message(sparse.csr_array(np.eye(6)), y, drop="x1")
    assert "give the labels as y or as column 'ill'" in message(FRAME, y, target="ill")
    assert "give one of them" in message(FRAME, "note", target="ill")
    assert "there are 6 values of the target for 7 rows" in message(FRAME, y)


def test_sparse_arrays_take_arrays_of_roles():
    X = sparse.csr_array(np.eye(6) + 1)
    table = as_table(X, [0, 1] * 3, groups=[1, 1, 2, 2, 3, 3], sample_weight=np.arange(6))
    assert table.groups.tolist() == [0, 0, 1, 1, 2, 2]
    assert table.weights.tolist() == [0, 1, 2, 3, 4, 5]


def test_npz_files_take_arrays_of_the_file(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(4) + 1, y=[0, 1, 0, 1], who=[7, 7, 8, 8], w=[1, 2, 3, 4])
    table = as_table(tmp_path / "t.npz", target=None, groups="who", sample_weight="w", drop="x2")
    assert table.groups.tolist() == [0, 0, 1, 1]
    assert table.weights.tolist() == [1, 2, 3, 4]
    assert list(table.X) == ["x1", "x3", "x4"]


def test_features_that_become_identifiers():
    table = as_table(FRAME, "ill").without(["patient", "colour"])
    assert list(table.X) == ["size", "weight", "seen", "note"]
    assert list(table.identifiers) == ["patient", "colour"]
    kinds = {column.name: column.kind for column in table.columns}
    assert kinds["patient"] == kinds["colour"] == "identifier"
    assert table.notes == (
        "class 'rare' with fewer than two rows left out: data row 7",
        "4 of 6 columns are used: 3 numeric, 1 date",
        "columns 'colour', 'patient' are named or filled like an identifier and left out",
    )
    with pytest.raises(InputError, match="all features look like identifiers: 'size'"):
        as_table(FRAME[["size", "ill"]], "ill").without(["size"])


def test_a_test_table_has_the_columns_of_the_training_table(tmp_path):
    train, test = FRAME.iloc[:6], FRAME.iloc[[1, 0]].iloc[:, ::-1].assign(further=1)
    test.to_csv(tmp_path / "test.csv", index=False)
    for given in (test, tmp_path / "test.csv", pl.from_pandas(test)):
        table = as_table(train, test=given, **options(time=None))
        assert len(table.y) == len(table.X) == 6
        assert list(table.test.X) == list(table.X)
        assert table.test.X["size"].tolist() == [2.25, 1.5]
        assert table.test.y.tolist() == ["no", "yes"]
        assert len(set(table.test.groups)) == 2
        assert "2 rows of the test table are held out from all fits" in table.notes


def test_a_test_table_changes_nothing_in_the_training_table():
    test = FRAME.assign(colour=[f"c{k}" for k in range(len(FRAME))])
    alone, beside = (as_table(FRAME, "ill", test=given) for given in (None, test))
    assert beside.fingerprint == alone.fingerprint
    assert beside.columns == alone.columns


def test_a_test_table_of_arrays():
    X, y = np.arange(12.0).reshape(6, 2) ** 2, [0, 1] * 3
    table = as_table(X, y, test=(X[:2], [1.0, 0.0]), groups=[1, 1, 2, 2, 3, 3])
    assert table.test.y.tolist() == [1, 0]
    assert table.test.groups is table.test.weights is None
    same = as_table(sparse.csr_array(np.eye(6)), y, test=(sparse.csr_array(np.eye(2, 6)), [1, 0]))
    assert same.test.X.shape == (2, 6)


def test_further_features_of_a_sparse_test_file_are_ignored(tmp_path):
    (tmp_path / "train.svm").write_text("1 1:1 3:2\n2 2:3\n" * 2)
    (tmp_path / "test.svm").write_text("2 2:5 7:1\n1 3:4\n")
    table = as_table(tmp_path / "train.svm", test=tmp_path / "test.svm")
    np.testing.assert_array_equal(table.test.X.toarray(), [[0, 5, 0], [0, 0, 4]])
    assert table.test.y.tolist() == [2, 1]


def test_unsuitable_test_tables_are_refused():
    known = options(time=None)
    assert "test table: 1 of 3 columns are missing: 'colour'" in message(
        FRAME, test=FRAME.drop(columns="colour"), **known
    )
    assert "test table: there is no column 'ill' for the target" in message(
        FRAME, test=FRAME.drop(columns="ill"), **known
    )
    assert "both say which rows are held out" in message(FRAME, test=FRAME, **options())
    assert "a tuple (X, y) is expected" in message(FRAME, test=(FRAME,), **known)
    assert "no row has one of the classes 'no', 'yes'" in message(
        FRAME, test=FRAME.assign(ill="rare"), **known
    )
    assert "the model takes a data frame with 'x1'" in message(
        np.eye(4), [0, 1] * 2, test=(sparse.csr_array(np.eye(4)), [0, 1] * 2)
    )


def test_test_rows_of_other_classes_are_left_out():
    test = FRAME.iloc[[0, 1, 6]]
    table = as_table(FRAME.iloc[:6], test=test, **options(time=None))
    assert table.test.y.tolist() == [*FRAME["ill"][:2]]
    assert "test rows of other classes left out: data row 3" in table.notes


def test_scores_are_not_classes():
    scores = np.random.default_rng(0).normal(60, 12, 300).round()
    said = message(np.random.default_rng(1).normal(size=(300, 2)), scores)
    assert "this looks like a score, not classes. Choose a column of classes, or divide" in said


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_column_given_as_values_is_no_feature(make):
    frame = make({"size": np.arange(8.0) % 3, "site": [1, 1, 2, 2, 3, 3, 4, 4]})
    y = [0, 1] * 4
    by_values = as_table(frame, y, groups=frame["site"])
    assert list(by_values.X) == ["size"]
    assert by_values.fingerprint == as_table(frame, y, groups="site").fingerprint
    other = pd.Series([1, 1, 1, 1, 2, 2, 2, 2], name="site")
    assert list(as_table(frame, y, groups=other).X) == ["size", "site"]


def test_booleans_stay_booleans():
    y = np.tile([True, False], 4)
    for labels in (y, y.tolist(), pd.Series(y), pd.Series(y, dtype="boolean"), pl.Series(y)):
        table = as_table(np.arange(8.0)[:, None] % 3, labels)
        assert table.y.dtype == bool
        np.testing.assert_array_equal(table.y, y)
    with pytest.raises(InputError, match="missing in 1 of 8 rows"):
        as_table(np.arange(8.0)[:, None] % 3, pd.Series([None, *y[1:]], dtype="boolean"))


def test_what_is_no_table_is_named():
    assert "X is a NoneType of shape (); a data frame" in message(None, [0, 1])
