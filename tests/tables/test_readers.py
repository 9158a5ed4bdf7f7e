"""Encodings, compression, spreadsheets and JSON: what is read, noted and refused."""

import bz2
import gzip
import io
import json
import lzma
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest

from discreg.base.errors import InputError
from discreg.tables.formats import file_stem, read_contents
from discreg.tables.table import as_table

TEXT = "name,size\nMüller,1.5\nÅse,2\n"
FRAME = pd.DataFrame({"name": ["Müller", "Åse"], "size": [1.5, 2]})
RECORDS = [{"name": "Müller", "size": 1.5}, {"name": "Åse", "size": 2}]


@pytest.fixture
def read(tmp_path):
    """A function that writes bytes or text to a file and reads it."""

    def contents(name, content, **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_contents(path, **options)

    return contents


def zstd(content):
    stream = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stream, "zstd") as compressed:
        compressed.write(content)
    return stream.getvalue().to_pybytes()


def zipped(**files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def book(*sheets):
    """The bytes of an Excel file with these sheets of rows."""
    made = openpyxl.Workbook()
    made.remove(made.active)
    for number, rows in enumerate(sheets, start=1):
        sheet = made.create_sheet(f"Sheet {number}")
        for row in rows:
            sheet.append(row)
    stream = io.BytesIO()
    made.save(stream)
    return stream.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
@pytest.mark.parametrize("ending", ["csv", "txt"])
def test_encodings_are_found(read, encoding, ending):
    contents = read(f"t.{ending}", TEXT.encode(encoding))
    pd.testing.assert_frame_equal(contents.X, FRAME, check_dtype=False)
    if encoding in ("latin-1", "cp1252"):
        assert contents.notes == (
            "the file is not UTF-8 and is read as Windows-1252 (Western European); if letters are "
            "wrong, first in line 2, save it as UTF-8",
        )
    else:
        assert contents.notes == ()


def test_signs_of_windows_are_found(read):
    contents = read("t.csv", "price,kind\n1,€\n2,“b”\n".encode("cp1252"))
    assert contents.X["kind"].tolist() == ["€", "“b”"]
    assert "read as Windows-1252" in contents.notes[0]


def test_the_encoding_is_a_note_of_the_table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("x,y\n1,für\n2,gegen\n3,für\n4,gegen\n".encode("latin-1"))
    table = as_table(path, target="y")
    assert set(table.class_counts) == {"für", "gegen"}
    assert table.notes[0].startswith("the file is not UTF-8 and is read as Windows")


@pytest.mark.parametrize(
    ("ending", "compress"),
    [
        ("gz", gzip.compress),
        ("bz2", bz2.compress),
        ("xz", lzma.compress),
        ("zst", zstd),
        ("zip", lambda content: zipped(**{"inside.csv": content})),
    ],
)
def test_compressed_files_are_read_and_damaged_ones_refused(read, tmp_path, ending, compress):
    compressed = compress(TEXT.encode())
    assert read(f"t.csv.{ending}", compressed).X["name"].tolist() == ["Müller", "Åse"]
    assert file_stem(tmp_path / f"t.csv.{ending}") == "t"
    for damaged in (compressed[:-9], TEXT.encode()):
        with pytest.raises(
            InputError, match=f"the file is not a valid {ending.replace('gz', 'gzip')} file"
        ):
            read(f"t.csv.{ending}", damaged)


def test_a_zip_file_holds_one_file(read):
    junk = {"__MACOSX/._t.csv": "x", ".hidden": "x"}
    assert len(read("t.zip", zipped(**{"folder/t.csv": TEXT}, **junk)).X) == 2
    with pytest.raises(InputError, match="of one file is expected, not of 2"):
        read("t.zip", zipped(**{"a.csv": TEXT, "b.csv": TEXT}))
    with pytest.raises(InputError, match="not of 0"):
        read("t.zip", zipped())
    with pytest.raises(InputError, match=r"files of type '.doc' are not supported"):
        read("t.zip", zipped(**{"t.doc": TEXT}))


@pytest.mark.parametrize("sign", [",", ";", "\t", "|", " "])
def test_text_files_are_tables_with_any_sign(read, sign):
    frame = read("t.txt", "a b c\n1 2 3\n4  5 6\n".replace("  ", " ").replace(" ", sign)).X
    assert frame.to_dict("list") == {"a": [1, 4], "b": [2, 5], "c": [3, 6]}


def test_text_files_with_columns_aligned_by_spaces(read):
    frame = read("t.txt", "size  kind\n 1.5  red\n10.25 blue\n").X
    assert frame.to_dict("list") == {"size": [1.5, 10.25], "kind": ["red", "blue"]}


def test_the_sign_that_a_spreadsheet_states(read):
    frame = read("t.csv", 'sep=;\n"a;b";c,d,e\n1,5;x\n').X
    assert frame.to_dict("list") == {"a;b": [1.5], "c,d,e": ["x"]}
    with pytest.raises(InputError, match="line 3 should have 2 cells"):
        read("t.csv", "sep=;\na;b\n1;2;3\n")


def test_quoted_numbers_with_a_decimal_comma(read):
    contents = read("t.csv", 'a,b,c\n"1,5",2,"1,2,3"\n"-12,25",3,"2,3,4"\n7,4,5\n')
    assert contents.X["a"].tolist() == [1.5, -12.25, 7]
    assert contents.X["c"].tolist() == ["1,2,3", "2,3,4", "5"]
    assert contents.notes == ("the comma is the decimal sign of the quoted numbers in 'a'",)
    with pytest.raises(InputError, match="'1,234' in column 'a': thousands or decimals"):
        read("t.csv", 'a,b\n"1,234",2\n"12,345",3\n')
    kept = read("t.csv", 'a,b\n"1,234",2\n', text_columns={"a"})
    assert kept.X["a"].tolist() == ["1,234"]


def test_excel_files(read):
    rows = [
        ["name", "size", "seen", None, "n"],
        ["Müller", 1.5, pd.Timestamp("2024-01-31"), 1, "NA"],
        [None] * 5,
        ["Åse", None, pd.Timestamp("2024-02-01"), 2, 3],
    ]
    frame = read("t.xlsx", book(rows)).X
    assert list(frame) == ["name", "size", "seen", "Unnamed: 3", "n"]
    assert frame["name"].tolist() == ["Müller", "Åse"]
    np.testing.assert_array_equal(frame["size"], [1.5, np.nan])
    assert frame["seen"].dtype.kind == "M"
    np.testing.assert_array_equal(frame["n"].astype(float), [np.nan, 3])


def test_the_first_sheet_with_cells_is_read(read):
    contents = read("t.xlsx", book([], [["a"], [1], [2]], [["b"], [3]]))
    assert contents.X["a"].tolist() == [1, 2]
    assert contents.notes == ("sheet 'Sheet 2' is read; the others are not: 'Sheet 3'",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (book([["A title"], ["a", "b", "c"], [1, 2, 3]]), "has 1 names for 3 columns; remove titl"),
        (book([["a", "b", "a"], [1, 2, 3]]), "columns 1 and 3 have the same name 'a'"),
        (book([["a", "b"]]), "the file has no rows of data"),
        (book([]), "the file is empty"),
        (b"no", "the file is not a valid Excel file"),
    ],
)
def test_unsuitable_excel_files_are_refused(read, content, said):
    with pytest.raises(InputError, match=said):
        read("t.xlsx", content)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.json", json.dumps(RECORDS)),
        ("t.json", json.dumps({"name": ["Müller", "Åse"], "size": [1.5, 2]})),
        ("t.json", FRAME.to_json()),
        ("t.json", FRAME.to_json(orient="split")),
        ("t.json", FRAME.to_json(orient="table", index=False)),
        ("t.json", FRAME.to_json(orient="records", lines=True)),
        ("t.jsonl", "\n\n".join(map(json.dumps, RECORDS))),
        ("t.ndjson", FRAME.to_json(orient="records", lines=True)),
    ],
)
def test_json_files(read, name, text):
    frame = read(name, text).X
    assert frame["name"].tolist() == ["Müller", "Åse"]
    assert frame["size"].tolist() == [1.5, 2]


def test_records_need_not_have_all_columns(read):
    frame = read("t.jsonl", '{"a": 1}\n{"a": 2, "b": true}\n').X
    assert frame["a"].tolist() == [1, 2]
    assert frame["b"].isna().tolist() == [True, False]
    assert read("t.jsonl", '{"a": 1}\n').X["a"].tolist() == [1]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.json", '[{"a": 1},\n{"a": }]', "not a valid JSON file: Expecting value: line 2"),
        ("t.jsonl", '{"a": 1}\n{"a" 2}\n', "not a valid JSON file: .* line 2"),
        ("t.json", "[[1, 2], [3, 4]]", "a list of records or a mapping of columns to cells"),
        (
            "t.json",
            '{"a": [1], "b": [1, 2]}',
            "not a valid JSON file: All arrays must be of the same length",
        ),
        ("t.json", "7", "a list of records or a mapping"),
        ("t.json", "[]", "the file has no rows of data"),
    ],
)
def test_unsuitable_json_files_are_refused(read, name, text, said):
    with pytest.raises(InputError, match=said):
        read(name, text)


def test_feather_files(tmp_path):
    for name in ("t.feather", "t.arrow"):
        FRAME.to_feather(tmp_path / name)
        frame = read_contents(tmp_path / name).X
        pd.testing.assert_frame_equal(frame, FRAME, check_dtype=False)
    (tmp_path / "t.feather").write_bytes(b"no")
    with pytest.raises(InputError, match="not a valid Feather file"):
        read_contents(tmp_path / "t.feather")
