"""Files of every format: what is read from them, and what is said about malformed ones."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from discreg.base.errors import InputError
from discreg.tables.formats import read_contents
from discreg.tables.frames import nearest, quoted
from discreg.tables.table import as_table

FRAME = pd.DataFrame({"size": [1.5, 2.25, -3e-7], "colour": ["red", "blue", None]})
X = np.array([[0, 1.5, 0], [2, 0, 0], [0, 0, -3]])
Y = np.array([1, -1, 1])


@pytest.fixture
def write(tmp_path):
    """A function that writes text or bytes to a file and returns its path."""

    def to_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return to_file


def message(path):
    with pytest.raises(InputError) as caught:
        read_contents(path)
    return str(caught.value)


def npz(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


def csr_parts(X):
    X = sparse.csr_array(X)
    return {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}


@pytest.mark.parametrize("ending", ["csv", "CSV", "tsv", "tab", "parquet", "arff"])
def test_formats_of_columns_hold_the_same(tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    if ending == "parquet":
        FRAME.to_parquet(path)
    elif ending == "arff":
        path.write_text(
            "@relation r\n@attribute size numeric\n@attribute colour string\n@data\n"
            "1.5,red\n2.25,blue\n-3e-7,?\n"
        )
    else:
        FRAME.to_csv(path, index=False, sep="," if ending.lower() == "csv" else "\t")
    frame = read_contents(path).X.fillna("missing")
    pd.testing.assert_frame_equal(frame, FRAME.fillna("missing"))


@pytest.mark.parametrize("ending", ["svm", "svmlight", "libsvm", "txt", "npz"])
def test_formats_of_sparse_arrays_hold_the_same(tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    if ending == "npz":
        npz(path, y=Y, **csr_parts(X))
    else:
        dump_svmlight_file(X, Y, str(path), zero_based=True)
    contents = read_contents(path)
    assert isinstance(contents.X, sparse.csr_array)
    np.testing.assert_array_equal(contents.X.toarray(), X)
    np.testing.assert_array_equal(contents.arrays["y"], Y)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.npz", "t.svm", "t.arff"])
def test_gzipped_files_are_read_as_what_they_contain(tmp_path, name):
    path = tmp_path / name
    if name == "t.csv":
        FRAME.to_csv(path, index=False)
    elif name == "t.parquet":
        FRAME.to_parquet(path)
    elif name == "t.npz":
        npz(path, X=X, y=Y)
    elif name == "t.svm":
        dump_svmlight_file(X, Y, str(path))
    else:
        path.write_text("@relation r\n@attribute a real\n@data\n1\n2\n")
    zipped = tmp_path / f"{name}.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    plain, unzipped = read_contents(path).X, read_contents(zipped).X
    if isinstance(plain, pd.DataFrame):
        pd.testing.assert_frame_equal(plain, unzipped)
    else:
        assert (plain != unzipped).nnz == 0


def test_csv_may_have_a_byte_order_mark_spaces_quotes_and_missing_codes(write):
    text = '\ufeffname, n ,note\n"a, b", 1,"two\nlines"\nc, ?,NA\n\nd,,None\n'
    frame = read_contents(write("t.csv", text)).X
    assert list(frame) == ["name", "n", "note"]
    assert frame["name"].tolist() == ["a, b", "c", "d"]
    np.testing.assert_array_equal(frame["n"], [1, np.nan, np.nan])
    assert frame["note"].fillna("missing").tolist() == ["two\nlines", "missing", "None"]


def test_semicolons_come_with_decimal_commas(write):
    frame = read_contents(write("t.csv", 'a;"b, c"\n1,5;x\n2,25;y\n')).X
    assert list(frame) == ["a", "b, c"]
    assert frame["a"].tolist() == [1.5, 2.25]


@pytest.mark.parametrize("cells", [["2.472", "939"], ["1.234,5", "12,5"], ["1.234.567", "?"]])
def test_points_that_may_divide_thousands_are_refused(write, cells):
    path = write("t.csv", "mass;temp;y\n" + "".join(f"{cell};-2,56;a\n" for cell in cells))
    with pytest.raises(InputError, match=f"'{cells[0]}' in column 'mass' of a file"):
        read_contents(path)
    assert read_contents(path, text_columns={"mass"}).X["mass"][0] == cells[0]


def test_decimal_points_beside_decimal_commas_are_numbers(write):
    frame = read_contents(write("t.csv", "a;b\n0.5;1,5\n12.125;2,5\n")).X
    assert pd.to_numeric(frame["a"]).tolist() == [0.5, 12.125]


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1,5", "-2,25"], [1.5, -2.25]),
        (["0,125", "1,250"], [0.125, 1.25]),
        (["1234,567", "2"], [1234.567, 2]),
    ],
)
def test_tabs_may_come_with_decimal_commas(write, cells, numbers):
    text = "x\tkind\n" + "".join(f"{cell}\ta\n" for cell in cells)
    assert read_contents(write("t.tsv", text)).X["x"].tolist() == numbers


@pytest.mark.parametrize("cells", [["1,234", "5,678"], ["1,5", "2.5"], ["a,1", "b,2"]])
def test_commas_between_tabs_that_may_be_something_else_are_left_alone(write, cells):
    text = "x\tkind\n" + "".join(f"{cell}\ta\n" for cell in cells)
    assert read_contents(write("t.tsv", text)).X["x"].tolist() == cells


def test_commas_beside_decimal_points_between_tabs_are_left_alone(write):
    frame = read_contents(write("t.tsv", "x\tz\n1,5\t0.25\n2,5\t0.75\n")).X
    assert frame["x"].tolist() == ["1,5", "2,5"]
    assert frame["z"].tolist() == [0.25, 0.75]


def test_csv_columns_can_be_kept_as_text(write):
    path = write("t.csv", "code,n\n007,1\n,2\n")
    frame = read_contents(path, text_columns={"code", "absent"}).X
    assert frame["code"].fillna("missing").tolist() == ["007", "missing"]
    assert frame["n"].tolist() == [1, 2]


def test_a_header_may_end_with_a_delimiter(write):
    frame = read_contents(write("t.csv", "a,b,\n1,2,\n3,4,\n")).X
    assert list(frame) == ["a", "b", "Unnamed: 2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n3,4,5\n", "line 3 should have 2 cells, but has 3"),
        ("a,b\n1,2\n\n3\n", "line 4 should have 2 cells, but has 1"),
        ("a,b\n1,2,3\n4,5,6\n", "line 2 should have 2 cells, but has 3"),
        ('a,b\n1,2\n"3,4\n5,6\n', "a quote in line 3 is not closed"),
        ('a,b\n"1\n",2\n3,"4\n', "a quote in line 4 is not closed"),
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("a,b\n", "the file has no rows of data"),
        ("a,b,a\n1,2,3\n", "columns 1 and 3 have the same name 'a'; rename one"),
        ("a,b, a\n1,2,3\n", "have the same name 'a'"),
        ("5.1,3,5.1\n5,3,1\n", "add a header line: the first line looks like data"),
        (b"a,b\n1,2\nM\xfcller\x81,3\n", "line 3 is not UTF-8"),
        (b"a,b\n1,\xff\0\n", "it contains zero bytes"),
        ("a,b\n1,2\n".encode("utf-16-le"), "it contains zero bytes"),
        ("a,b\n1,2\n".encode("utf-32"), "it contains zero bytes"),
        ("a,b\n1,2\n".encode("utf-16")[:-1], "the file is not valid utf-16: truncated data"),
    ],
)
def test_malformed_csv_is_refused_with_its_place(write, text, said):
    assert said in message(write("t.csv", text))


def test_a_quote_that_swallows_a_long_file_is_found(write):
    text = 'a,b\n1,2\n3,"4\n' + "5,6\n" * 50_000
    assert "line 3: is a quote not closed?" in message(write("t.csv", text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 1:2 2:3\n1 2:3 1:4\n", "line 2 is not svmlight"),
        ("1 1:2\n\n# note\ncat 1:2\n", "line 4 is not svmlight"),
        ("1 1:2\n1,2 1:4\n", "line 2 is not svmlight"),
        ("1 1:2\n2 1:x4\n", "line 2 is not svmlight"),
        ("", "the file has no rows of data"),
    ],
)
def test_malformed_svmlight_is_refused_with_its_place(write, text, said):
    assert said in message(write("t.svm", text))


@pytest.mark.parametrize(
    ("pairs", "first"), [("1:5 3:2", 1), ("0:5 3:2", 0), ("2:5 3:2", 1), ("", 0)]
)
def test_svmlight_says_where_its_indices_begin(write, pairs, first):
    assert read_contents(write("t.svm", f"1 {pairs}\n")).first_index == first


def test_parquet_of_several_kinds(tmp_path):
    path = tmp_path / "t.parquet"
    kinds = {
        "flag": pd.array([True, None], dtype="boolean"),
        "count": pd.array([1, None], dtype="Int64"),
        "level": pd.Categorical(["low", "high"]),
    }
    pd.DataFrame(kinds).to_parquet(path)
    frame = read_contents(path).X
    assert isinstance(frame["level"].dtype, pd.CategoricalDtype)
    np.testing.assert_array_equal(frame["count"], [1, np.nan])


def test_malformed_parquet_is_refused(write, tmp_path):
    assert "not a valid Parquet file" in message(write("t.parquet", b"PAR1 but no more"))
    path = tmp_path / "nested.parquet"
    pd.DataFrame({"a": [1, 2] * 2, "pixels": [[1, 2], [3]] * 2}).to_parquet(path)
    with pytest.raises(InputError, match="column 'pixels' has cells that are neither numbers"):
        as_table(path, target="a")
    twice = pa.table([pa.array([1, 2])] * 2, names=["a", "a"])
    pa.parquet.write_table(twice, path)
    assert "columns 1 and 2 have the same name 'a'" in message(path)


def test_npz_of_a_dense_array_has_named_columns(tmp_path):
    names = np.array(["a", "b", "c"])
    assert list(read_contents(npz(tmp_path / "t.npz", X=X, y=Y)).X) == ["x1", "x2", "x3"]
    named = read_contents(npz(tmp_path / "named.npz", X=X, y=Y, feature_names=names, part=Y > 0))
    assert list(named.X) == ["a", "b", "c"]
    assert named.arrays["part"].tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"Z": X, "y": Y}, "an array 'X', or 'data', 'indices'"),
        ({"X": X, "y": Y[:2]}, "'y' has shape (2,), but X has 3 rows"),
        ({"X": X.reshape(3, 3, 1), "y": Y}, "'X' has shape (3, 3, 1)"),
        ({"X": X, "y": Y, "feature_names": ["a"]}, "there are 1 'feature_names' for 3 columns"),
        ({"X": X, "y": Y, "feature_names": ["a", "b", "a"]}, "have the same name 'a'"),
        ({"X": X * 1j, "y": Y}, "array 'X' is complex128, neither"),
        ({"X": X, "y": np.array([{}] * 3)}, "not a valid npz file of plain arrays"),
        (csr_parts(X) | {"indices": [0, 0, 9], "y": Y}, "the arrays are not a CSR matrix"),
        ({"X": X[:0], "y": Y[:0]}, "the file has no rows of data"),
    ],
)
def test_unsuitable_npz_is_refused(tmp_path, arrays, said):
    assert said in message(npz(tmp_path / "t.npz", **arrays))


def test_malformed_npz_and_gzip_are_refused(write, tmp_path):
    assert "not a valid npz file" in message(write("t.npz", b"PK\x03\x04 cut off"))
    np.save(tmp_path / "one.npy", X)
    assert "not a valid npz file" in message((tmp_path / "one.npy").rename(tmp_path / "one.npz"))
    assert "not a valid gzip file" in message(write("t.csv.gz", b"a,b\n1,2\n"))
    cut_off = gzip.compress(b"a,b\n" + b"1,2\n" * 999)[:-20]
    assert "not a valid gzip file" in message(write("u.csv.gz", cut_off))


def test_a_missing_file_is_answered_with_the_nearest_one(write, tmp_path):
    write("patients.csv", "a,b\n1,2\n")
    said = message(tmp_path / "patient.csv")
    assert "no such file; did you mean" in said
    assert "patients.csv" in said
    assert message(tmp_path / "something else") == "there is no such file"
    assert "does not exist either" in message(tmp_path / "nowhere" / "patients.csv")


def test_folders_and_unknown_types_are_refused(write, tmp_path):
    assert "this is a directory" in message(tmp_path)
    said = message(write("t.xls", ""))
    assert "files of type '.xls' are not supported; save the sheet as .xlsx or .csv; " in said
    assert "supported types are .csv, .tsv, " in said
    assert said.endswith("also with .gz, .zip, .bz2, .xz, .zst")
    assert "files without a type, such as .csv, are not supported" in message(write("t", ""))


def test_nearest_ignores_case_and_leaves_the_unlike():
    assert nearest("SPECIES", ["size", "species"]) == "species"
    assert nearest("xyz", ["size", "species"]) is None


def test_long_lists_are_cut():
    assert quoted("abc", at_most=2) == "'a', 'b' and 1 more"
    assert quoted("abc", at_most=3) == "'a', 'b', 'c'"
