"""Tables from files: labels, folds, notes, fingerprints, and what is refused."""

import dataclasses
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_iris

from discreg.base.errors import InputError
from discreg.tables.classifier import expected_columns, read_new_rows
from discreg.tables.table import as_table

PEOPLE = """age,smoker,town,centre,group
41,true,Rome,here,ill
52,false,?,here,well
,true,Oslo,here,ill
33,false,Oslo,here,well
64,,Rome,here,ill
29,false,Rome,here,rare
"""
SPARSE = sparse.csr_array([[0, 1.5, 0], [2, 0, 0], [0, 0, -3], [1, 1, 0]])
SIGNS = np.array([1, -1, 1, -1])


@pytest.fixture
def write(tmp_path):
    """A function that writes a text to a file and returns its path."""

    def to_file(text, name="people.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return to_file


def labelled(labels, **columns):
    """A CSV of one informative column and a target ``y``."""
    frame = pd.DataFrame({"x": np.linspace(0, 1, len(labels)) ** 2, **columns, "y": labels})
    return frame.to_csv(index=False)


def refusal(path, **options):
    with pytest.raises(InputError) as caught:
        as_table(path, **{"target": "y", **options})
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


def test_a_table_with_texts_gaps_and_a_rare_class(write):
    table = as_table(write(PEOPLE), target="group")
    assert table.name == "people"
    assert table.y.tolist() == ["ill", "well", "ill", "well", "ill"]
    assert table.class_counts == {"ill": 3, "well": 2}
    assert table.folds is None
    assert list(table.X) == ["age", "smoker", "town"]
    np.testing.assert_array_equal(table.X["age"], [41, 52, np.nan, 33, 64])
    np.testing.assert_array_equal(table.X["smoker"], [1, 0, 1, 0, np.nan])
    assert table.notes == (
        "class 'rare' with fewer than two rows left out: data row 6",
        "3 of 4 columns are used: 1 numeric, 1 boolean, 1 categorical",
        "column 'centre' is constant and left out",
        "3 missing values in 3 columns ('age', 'smoker', 'town'): the median of the training rows "
        "replaces numbers, with an indicator, and a missing category is a category of its own",
    )


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([2, 1, 2, 1], [2, 1, 2, 1]),
        (["2.0", "1.0"] * 2, [2, 1, 2, 1]),
        (["b", "a"] * 2, ["b", "a", "b", "a"]),
        ([True, False] * 2, ["True", "False", "True", "False"]),
        ([0.5, 1] * 2, ["0.5", "1.0", "0.5", "1.0"]),
        (["007", "7"] * 2, ["007", "7", "007", "7"]),
        (
            ["9007199254740992", "9007199254740993"] * 2,
            ["9007199254740992", "9007199254740993"] * 2,
        ),
    ],
)
def test_labels_are_whole_numbers_or_texts(write, labels, expected):
    y = as_table(write(labelled(labels)), target="y").y
    assert y.tolist() == expected
    assert y.dtype.kind in "iU"


def test_semicolons_go_with_decimal_commas_and_with_points(write):
    text = "a;b;y\n1,5;2.5;u, v\n2;3;w\n4,25;3.5;u, v\n2;3;w\n"
    table = as_table(write(text), target="y")
    np.testing.assert_array_equal(table.X, [[1.5, 2.5], [2, 3], [4.25, 3.5], [2, 3]])


def test_folds_are_numbered(write):
    path = write(labelled([0, 1] * 3, part=["b", "a", "b", "c", "a", "a"]))
    table = as_table(path, target="y", fold="part")
    assert table.folds.tolist() == [1, 0, 1, 2, 0, 0]
    assert "part" not in table.X
    assert table.notes[0] == "column 'part' defines 3 folds of 1 to 3 rows"


def test_folds_and_labels_of_a_row_stay_together_when_another_is_left_out(write):
    path = write(labelled(["rare", 0, 1, 0, 1], part=[3, 1, 1, 2, 2]))
    table = as_table(path, target="y", fold="part")
    assert table.y.tolist() == ["0", "1", "0", "1"]
    assert table.folds.tolist() == [0, 0, 1, 1]


def test_a_missing_target_is_asked_for_with_the_columns(write):
    said = refusal(write(PEOPLE), target=None)
    assert "Name one of 'age', 'smoker', 'town', 'centre', 'group' with --target" in said


@pytest.mark.parametrize("role", ["target", "fold"])
def test_a_wrong_name_is_answered_with_the_nearest_and_all(write, role):
    said = refusal(write(PEOPLE), **{"target": "group", role: "Centr"})
    assert f"there is no column 'Centr' for the {role}; did you mean 'centre'?" in said
    assert "There are 'age', 'smoker', 'town', 'centre', 'group'" in said


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            ["a", None, "b", "?", "b"],
            "is missing in 2 of 5 rows: data rows 2, 4; complete or remove",
        ),
        (["a"] * 5, "target 'y' has only one class, 'a'"),
        (["a", "b", "c"], "has 3 classes, of which 0 has two rows or more"),
        (["a", "b", "a"], "has 2 classes, of which 1 has two rows or more"),
        (
            np.repeat(np.arange(30) / 7, 2),
            "30 different numbers in 60 rows: this looks like a measured",
        ),
        (np.arange(30), "30 different numbers in 30 rows: this looks like a score"),
    ],
)
def test_labels_that_are_no_classes_are_refused(write, labels, said):
    assert said in refusal(write(labelled(labels)))


def test_many_classes_of_whole_numbers_are_classes(write):
    table = as_table(write(labelled(np.repeat(np.arange(30), 2))), target="y")
    assert len(table.class_counts) == 30


@pytest.mark.parametrize(
    ("folds", "said"),
    [
        ([1, None, 1, 2], "fold 'part' is missing in data row 2"),
        ([1, 1, 1, 1], "fold 'part' is '1' in every row"),
    ],
)
def test_unsuitable_folds_are_refused(write, folds, said):
    path = write(labelled([0, 1, 0, 1], part=pd.array(folds, dtype="Int64")))
    assert said in refusal(path, fold="part")
    assert "cannot be both" in refusal(path, target="part", fold="part")


def test_unsuitable_features_are_refused(write):
    labels = [0, 1, 0, 1]
    infinite = labelled(labels, z=[1, 2, np.inf, 3])
    assert "column 'z' is infinite in data row 3" in refusal(write(infinite))
    assert "no column can be used as a feature" in refusal(write("x,y\n1,0\n1,1\n1,0\n1,1\n"))
    assert "columns 1 and 2 have the same name 'x'" in refusal(write("x,x,y\n1,2,0\n"))
    assert "no such file" in refusal(write("", "there.csv").with_name("elsewhere.csv"))


@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight_files_bring_their_labels(tmp_path, zero_based):
    path = tmp_path / "signs.svm"
    dump_svmlight_file(SPARSE, SIGNS, str(path), zero_based=zero_based)
    for target in (None, "y"):
        table = as_table(path, target=target)
        np.testing.assert_array_equal(table.X.toarray(), SPARSE.toarray())
        assert table.y.tolist() == SIGNS.tolist()
        assert table.columns == ()
        assert table.class_counts == {"-1": 2, "1": 2}
        assert table.notes == ("3 features, 41.67% of the values are nonzero",)
    assert "no column 'sign' for the target. There are 'y'" in refusal(path, target="sign")
    assert "there is no column 'part' for the fold. There are 'y'" in refusal(path, fold="part")


def test_npz_files_bring_their_labels_and_folds(tmp_path):
    path = tmp_path / "arrays.npz"
    np.savez(path, X=SPARSE.toarray(), y=SIGNS, part=[0, 0, 5, 5])
    table = as_table(path, target=None, fold="part")
    assert list(table.X) == ["x1", "x2", "x3"]
    assert table.folds.tolist() == [0, 0, 1, 1]
    np.savez(path, X=SPARSE.toarray())
    assert "there is no column 'y' for the target" in refusal(path, target=None)


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_sparse_data_that_are_not_finite_are_refused_with_their_place(write, value, zero_based):
    first = 0 if zero_based else 1
    text = f"1 {first}:1\n2 {first}:1\n1 {first}:2 {first + 3}:{value}\n2 {first}:1\n"
    said = refusal(write(text, "t.svm"))
    assert f"feature {first + 3} is {value} in data row 3" in said


def read_features(path, expected):
    return read_new_rows(path, expected)[0]


def test_data_in_memory():
    iris = load_iris()
    table = as_table(pd.DataFrame(iris.data, columns=iris.feature_names), iris.target)
    np.testing.assert_array_equal(table.X.to_numpy(), iris.data)
    assert list(table.X) == iris.feature_names
    assert list(as_table(iris.data, iris.target, name="iris").X) == ["x1", "x2", "x3", "x4"]
    assert table.notes == ("4 of 4 columns are used: 4 numeric",)
    with pytest.raises(InputError, match="iris: there are 149 values of the target for 150 rows"):
        as_table(iris.data, iris.target[1:], name="iris")


def test_the_fingerprint_is_that_of_the_contents(write, tmp_path):
    path = write(PEOPLE)
    table = as_table(path, target="group")
    parquet = tmp_path / "other name.parquet"
    pd.read_csv(path, na_values=["?"]).to_parquet(parquet)
    assert as_table(parquet, target="group").fingerprint == table.fingerprint
    changes = [
        ("41", "42"),
        ("Rome", "Roma"),
        ("age", "years"),
        ("64,,Rome,here,ill", "64,,Rome,here,well"),
    ]
    prints = {
        as_table(write(PEOPLE.replace(*change, 1), "changed.csv"), target="group").fingerprint
        for change in changes
    }
    assert len(prints | {table.fingerprint}) == len(changes) + 1


def test_the_fingerprint_tells_truths_from_numbers():
    labels = ["a", "b"] * 3
    truths, numbers = (
        as_table(pd.DataFrame({"x": column}), labels, name="t")
        for column in ([True, False, False] * 2, [1, 0, 0] * 2)
    )
    np.testing.assert_array_equal(truths.X, numbers.X)
    assert truths.fingerprint != numbers.fingerprint


def test_other_folds_have_another_fingerprint(write):
    path = write(labelled([0, 1] * 3, one=[1, 2] * 3, two=[1, 1, 2] * 2))
    table = as_table(path, target="y", fold="one")
    others = table.folds[::-1]
    assert dataclasses.replace(table, folds=others).fingerprint != table.fingerprint


@pytest.mark.full
def test_the_fingerprint_does_not_depend_on_the_process(write):
    path = write(PEOPLE)
    program = (
        "import sys; from discreg.tables.table import as_table; "
        "print(as_table(sys.argv[1], target='group').fingerprint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == as_table(path, target="group").fingerprint


def test_new_rows_are_read_as_the_table_was(write):
    table = as_table(write(PEOPLE), target="group")
    found = read_features(write(PEOPLE, "new.csv"), expected_columns(table))
    pd.testing.assert_frame_equal(found[:5], table.X)


def test_digits_stay_the_texts_they_were(write):
    table = as_table(write(labelled([0, 1] * 4, code=["007", "x"] * 4)), target="y")
    new = write("x,code\n1,007\n2,10\n", "new.csv")
    assert read_features(new, expected_columns(table))["code"].tolist() == ["007", "10"]


def test_new_rows_that_do_not_fit_are_refused_with_their_file(write):
    expected = expected_columns(as_table(write(PEOPLE), target="group"))
    wrong = write("age,smoker,town\n41,true,Rome\nold,true,Rome\n", "new.csv")
    with pytest.raises(
        InputError, match=r"new\.csv: column 'age' contains text 'old' in data row 2"
    ):
        read_features(wrong, expected)
    with pytest.raises(InputError, match=r"new\.svm: the model takes a data frame with 'age', "):
        read_features(write("1 1:2\n", "new.svm"), expected)


def test_new_sparse_rows_are_as_wide_as_those_of_the_model(write):
    expected = expected_columns(as_table(write("1 1:1 4:2\n2 2:3\n" * 2, "t.svm"), target=None))
    found = read_features(write("0 1:5\n0 3:1\n", "new.svm"), expected)
    np.testing.assert_array_equal(found.toarray(), [[5, 0, 0, 0], [0, 0, 1, 0]])
    for text, said in [
        ("0 0:1\n", "a feature has index 0, but those of the model begin at 1"),
        ("0 4:nan\n", "feature 4 is nan in data row 1"),
    ]:
        with pytest.raises(InputError, match=said):
            read_features(write(text, "wrong.svm"), expected)


def test_zero_based_sparse_rows_stay_so(write):
    expected = expected_columns(as_table(write("1 0:1 2:2\n2 1:3\n" * 2, "t.svm"), target=None))
    found = read_features(write("0 1:5\n", "new.svm"), expected)
    np.testing.assert_array_equal(found.toarray(), [[0, 5, 0]])


def test_new_rows_of_arrays(tmp_path):
    path = tmp_path / "arrays.npz"
    parts = {"data": SPARSE.data, "indices": SPARSE.indices, "indptr": SPARSE.indptr}
    np.savez(path, shape=SPARSE.shape, y=SIGNS, **parts)
    expected = expected_columns(as_table(path, target=None))
    np.savez(path, shape=SPARSE.shape, **parts)
    np.testing.assert_array_equal(read_features(path, expected).toarray(), SPARSE.toarray())
    np.savez(path, shape=(4, 9), **parts)
    with pytest.raises(InputError, match="9 features, but the model has 3"):
        read_features(path, expected)
    named = path.with_suffix(".csv")
    named.write_text("a,b,c\n1,2,3\n")
    with pytest.raises(InputError, match="takes 3 sparse features, not DataFrame"):
        read_features(named, expected)
