"""Contents of data files: compression, encodings, and one reader per format."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from discreg.base.errors import InputError

from .frames import (
    MISSING,
    column_names,
    intact,
    nearest,
    quoted,
    refuse_duplicates,
    rows_text,
    shown,
)

# Numbers between tabs: with a comma that cannot separate thousands, and with a point.
WITH_COMMA, WITH_POINT = (
    re.compile(rf"(?<![^\t\n])[-+]?(?:{number})(?=[\t\r\n]|$)")
    for number in (r"\d+,(?!\d{3}(?:\D|$))\d+|(?:0|\d{4})\d*,\d+", r"\d*\.\d+")
)
STATED = re.compile(r"\s*sep=(.)[ \t]*\r?\n", re.IGNORECASE)  # first line, as spreadsheets write it
QUOTED_NUMBER = re.compile(r"[-+]?\d+(?:,\d+)?")
GROUPED = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+(?:,\d+)?")


@dataclass(frozen=True)
class DelimitedText:
    """A text table and the sign between its cells."""

    text: str
    delimiter: str

    def read(self, text_columns: Collection[str]) -> tuple[pd.DataFrame, list[str]]:
        """Return the columns, and notes; `text_columns` are not converted to numbers."""
        _, header = next(self._records(), (1, None))
        if header is None:
            raise InputError("the file is empty")
        names = column_names(header)
        decimal = self._decimal_sign()
        try:
            with warnings.catch_warnings():
                # Lines with more cells than the header are errors.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = pd.read_csv(
                    io.StringIO(self.text),
                    sep=self.delimiter,
                    # With a decimal comma, numbers with a point are read as text and converted
                    # when the columns are parsed.
                    decimal=decimal,
                    header=0,
                    names=names,
                    index_col=False,
                    dtype={name: str for name in names if name in text_columns},
                    keep_default_na=False,
                    na_values=list(MISSING),
                    skipinitialspace=True,
                    low_memory=False,
                )
        except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
            if "EOF inside string" in str(error):
                *_, (line, _) = self._records()
                raise InputError(f"a quote in line {line} is not closed") from error
            self._refuse_ragged_line(len(names))
            raise InputError(f"the file is malformed: {error}") from error
        if frame.iloc[:, -1].isna().any():  # pandas fills short lines with NaN
            self._refuse_ragged_line(len(names))
        if decimal == ",":
            _refuse_thousands(_texts(frame, text_columns))
        return frame, _convert_commas(frame, text_columns) if self.delimiter == "," else []

    def _decimal_sign(self) -> str:
        """Infer a decimal comma as in spreadsheets: with semicolons, or tabs and no point."""
        if self.delimiter == ";" and "," in self.text:
            return ","
        if self.delimiter == "\t" and WITH_COMMA.search(self.text):
            return "." if WITH_POINT.search(self.text) else ","
        return "."

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells of each record; slower than pandas, which does not count lines."""
        lines = io.StringIO(self.text, newline="")
        reader = csv.reader(lines, delimiter=self.delimiter, skipinitialspace=True)
        line = 1
        try:
            for cells in reader:
                if cells:
                    yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            raise InputError(f"line {line}: is a quote not closed? ({error})") from error

    def _refuse_ragged_line(self, n_columns: int) -> None:
        for line, cells in self._records():
            if len(cells) != n_columns:
                raise InputError(f"line {line} should have {n_columns} cells, but has {len(cells)}")


def _texts(frame: pd.DataFrame, text_columns: Collection[str]) -> dict[str, list[str]]:
    """Return the different cells of the columns that pandas has not converted to numbers."""
    return {
        name: [cell.strip() for cell in column.dropna().unique() if isinstance(cell, str)]
        for name, column in frame.items()
        if name not in text_columns and not pd.api.types.is_numeric_dtype(column.dtype)
    }


def _refuse_thousands(texts: dict[str, list[str]]) -> None:
    """Raise an error if the points of a column may be decimal points or separate thousands."""
    for name, cells in texts.items():
        pointed = [cell for cell in cells if "." in cell]
        if pointed and all(map(THOUSANDS.fullmatch, pointed)):
            example = f"'{pointed[0]}' in column '{name}' of a file with decimal commas"
            raise InputError(f"{example}: do points separate thousands? Write numbers without them")


def _convert_commas(frame: pd.DataFrame, text_columns: Collection[str]) -> list[str]:
    """Convert columns of quoted numbers with a comma, such as "1,5", in place; write a note."""
    converted = []
    for name, cells in _texts(frame, text_columns).items():
        with_comma = [cell for cell in cells if "," in cell]
        if not with_comma or not all(map(QUOTED_NUMBER.fullmatch, cells)):
            continue
        if all(map(GROUPED.fullmatch, with_comma)):
            example = f"'{with_comma[0]}' in column '{name}'"
            raise InputError(f"{example}: thousands or decimals? Write numbers without commas")
        numbers = frame[name].str.strip().str.replace(",", ".", regex=False)
        frame[name] = pd.to_numeric(numbers).astype(np.float64)
        converted.append(name)
    note = f"the comma is the decimal sign of the quoted numbers in {quoted(converted)}"
    return [note] if converted else []


# ARFF files with numeric, nominal, string and date attributes. Sparse rows (``{0 1, 3 2}``) and
# relational attributes are not supported.
QUOTED = r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
ATTRIBUTE = re.compile(rf"@attribute\s+({QUOTED}|[^\s{{]+)\s*(.+)", re.IGNORECASE)
NOMINAL = re.compile(r"\{(.*)\}\s*(?:%.*)?")
VALUE = re.compile(rf"(?:{QUOTED}|[^,'\"])+")
QUOTED_CELL = re.compile(rf"(?:^|(?<=,))[ \t]*({QUOTED})[ \t]*(?=,|\r?$)", re.MULTILINE)
NUMERIC = ("numeric", "real", "integer")
TEXT = ("string", "date")


def parse_arff(text: str) -> pd.DataFrame:
    """Parse an ARFF file into columns of floats, categories (nominal attributes) or strings.

    The rows are read as those of a CSV file, after its header in the line of @data.
    """
    lines = ["" if line.lstrip().startswith("%") else line for line in text.split("\n")]
    attributes, first = _attributes(lines)
    for number, line in enumerate(lines[first:], start=first + 1):
        if line.lstrip().startswith("{"):
            raise InputError(f"line {number} is a sparse row; save the file as svmlight")
    header = ",".join(_csv_cell(name) for name, _ in attributes)
    rows = QUOTED_CELL.sub(lambda cell: _csv_cell(_unquoted(cell[1])), "\n".join(lines[first:]))
    table = DelimitedText("\n" * (first - 1) + f"{header}\n{rows}", ",")
    frame, _ = table.read([name for name, kind in attributes if kind not in NUMERIC])
    return pd.DataFrame({name: _declared(frame[name], kind) for name, kind in attributes})


def _attributes(lines: Sequence[str]) -> tuple[list[tuple[str, Any]], int]:
    """Read names and types up to @data, and the number of its line; a nominal type is a list."""
    attributes: list[tuple[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        keyword = line.split(maxsplit=1)[0].lower() if line.strip() else ""
        if keyword == "@data" and attributes:
            return attributes, number
        if keyword == "@data":
            raise InputError(f"no @attribute is declared before @data in line {number}")
        if keyword == "@attribute":
            attributes.append(_attribute(line.strip(), number))
        elif keyword not in ("", "@relation"):
            raise InputError(f"line {number} is not ARFF, but {shown(line.strip())}")
    raise InputError("the file has no @data")


def _attribute(line: str, number: int) -> tuple[str, Any]:
    found = ATTRIBUTE.fullmatch(line)
    if found is None:
        raise InputError(f"line {number}: '@attribute name type' is expected, not {shown(line)}")
    name, kind = _unquoted(found[1]), found[2].strip()
    if nominal := NOMINAL.fullmatch(kind):
        values = [_unquoted(value.strip()) for value in VALUE.findall(nominal[1])]
        return name, list(dict.fromkeys(filter(None, values)))
    kind = kind.split()[0].lower()
    if kind not in (*NUMERIC, *TEXT):
        raise InputError(f"line {number}: attributes of type '{kind}' are not supported")
    return name, kind


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[:1] in ("'", '"') else text


def _csv_cell(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _declared(column: pd.Series, kind: Any) -> Any:
    """Convert cells to the declared type of their column."""
    if kind in TEXT:
        return column
    if kind in NUMERIC:
        found: Any = pd.to_numeric(column, errors="coerce").astype(np.float64)
        expected = f"a number, as '{column.name}' is {kind}"
    else:
        cells = column.str.strip()
        found = pd.Categorical(cells.where(cells.isin(kind)), categories=kind)
        expected = f"a declared value of '{column.name}'"
    wrong = np.flatnonzero(pd.isna(found) & column.notna())[:1]
    if wrong.size:
        raise InputError(f"{shown(column[wrong[0]])} in {rows_text(wrong)} is not {expected}")
    return found


OTHER_SHEETS = (".xls", ".ods", ".numbers", ".xlsb")
NUMBER = r"[-+]?(?:[\d.]+(?:e[-+]?\d+)?|inf|nan)"
SVMLIGHT_LINE = re.compile(rf"{NUMBER}(\s+qid:\d+)?(?P<pairs>(\s+\d+:{NUMBER})*)", re.IGNORECASE)


@dataclass(frozen=True)
class Contents:
    """The contents of a file: named columns or a sparse array."""

    X: pd.DataFrame | sparse.csr_array
    arrays: Mapping[str, NDArray[Any]] | None = None  # beside X; None: labels are a column of X
    first_index: int | None = None  # svmlight: index of the first feature, 0 or 1
    notes: tuple[str, ...] = ()  # what was assumed to read the file


def read_contents(path: Path, *, text_columns: Collection[str] = ()) -> Contents:
    """Read a file in the format of its suffix; `text_columns` of delimited text stay strings."""
    if not path.exists():
        raise InputError(f"there is no such file{_nearest_file(path)}")
    if path.is_dir():
        raise InputError("this is a directory; give a file")
    suffix, content = _open(path)
    if suffix in READERS:
        contents = READERS[suffix](content)
    else:
        text, notes = decode(content)
        contents = TEXT_READERS[suffix](text, text_columns)
        contents = replace(contents, notes=(*notes, *contents.notes))
    if not contents.X.shape[0]:
        raise InputError("the file has no rows of data")
    return contents


def file_stem(path: Path) -> str:
    """Return the name of a file without the suffixes of its format and compression."""
    stem = (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).stem
    return stem.encode("utf-8", "replace").decode()  # file names need not be UTF-8


def _nearest_file(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; the directory '{path.parent}' does not exist either"
    name = nearest(path.name, [each.name for each in path.parent.iterdir() if each.is_file()])
    return f"; did you mean '{path.with_name(name)}'?" if name else ""


def _open(path: Path) -> tuple[str, bytes]:
    """Return the suffix of the format of a file, and its bytes without compression."""
    compression = path.suffix.lower() if path.suffix.lower() in COMPRESSED else ""
    suffix = (path.with_suffix("") if compression else path).suffix.lower()
    if compression != ".zip":  # which contains a name
        _refuse_unknown(suffix)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}") from error
    if compression == ".zip":
        with intact("zip file"):
            suffix, content = _unzipped(content)
        _refuse_unknown(suffix)
    elif compression:
        with intact(f"{'gzip' if compression == '.gz' else compression[1:]} file"):
            content = COMPRESSED[compression](content)
    return suffix, content


def _refuse_unknown(suffix: str) -> None:
    known = [*TEXT_READERS, *READERS]
    if suffix not in known:
        what = f"files of type '{suffix}'" if suffix else "files without a type, such as .csv,"
        hint = "; save the sheet as .xlsx or .csv" if suffix in OTHER_SHEETS else ""
        raise InputError(
            f"{what} are not supported{hint}; supported types are {', '.join(known)}, also with "
            f"{', '.join(COMPRESSED)}"
        )


def _unzipped(content: bytes) -> tuple[str, bytes]:
    """Return the suffix and the bytes of the only file in a zip file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        paths = [PurePosixPath(each) for each in archive.namelist() if not each.endswith("/")]
        # macOS adds files of its own, whose names begin with "._".
        paths = [path for path in paths if not path.name.startswith(".")]
        if len(paths) != 1:
            raise InputError(f"a zip file of one file is expected, not of {len(paths)}")
        if archive.getinfo(str(paths[0])).flag_bits & 1:
            raise InputError("the zip file has a password; unpack it first")
        return paths[0].suffix.lower(), archive.read(str(paths[0]))


def _from_zstd(content: bytes) -> bytes:
    import pyarrow as pa

    return bytes(pa.CompressedInputStream(pa.BufferReader(content), "zstd").read())


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".zip": bytes,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": _from_zstd,
}


def decode(content: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode UTF-8, UTF-16 or Windows-1252, which includes Latin-1; write a note on the last."""
    is_utf_32 = content.startswith(b"\xff\xfe\0\0")
    is_utf_16 = content.startswith((b"\xff\xfe", b"\xfe\xff")) and not is_utf_32
    if b"\0" in content and not is_utf_16:
        raise InputError("the file is not text in UTF-8: it contains zero bytes")
    encoding = "utf-16" if is_utf_16 else "utf-8-sig"
    try:
        return content.decode(encoding), ()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        if is_utf_16:
            raise InputError(f"the file is not valid {encoding}: {error.reason}") from error
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError as error:
        raise InputError(f"line {line} is not UTF-8; save the file in that encoding") from error
    return text, (
        "the file is not UTF-8 and is read as Windows-1252 (Western European); if letters are "
        f"wrong, first in line {line}, save it as UTF-8",
    )


def _read_delimited(text: str, text_columns: Collection[str], delimiters: str) -> Contents:
    """Use the stated delimiter, or the most frequent one in the header; spaces come last."""
    if stated := STATED.match(text):
        text, delimiter = STATED.sub("\n", text, count=1), stated[1]
    else:
        header, _, _ = text.lstrip("\r\n").partition("\n")
        unquoted = re.sub('"[^"]*"', "", header.strip())
        found = max(delimiters.replace(" ", ""), key=unquoted.count)
        delimiter = found if " " not in delimiters or found in unquoted else " "
    frame, notes = DelimitedText(text, delimiter).read(text_columns)
    return Contents(frame, notes=tuple(notes))


def _read_txt(text: str, text_columns: Collection[str]) -> Contents:
    """Read a text file in svmlight format, or else a table of cells."""
    lines = (line.partition("#")[0].strip() for line in text.split("\n"))
    first = SVMLIGHT_LINE.fullmatch(next(filter(None, lines), ""))
    if first is not None and first["pairs"]:
        return _read_svmlight(text, text_columns)
    return _read_delimited(text, text_columns, "\t;,| ")


def _read_svmlight(text: str, _: Collection[str]) -> Contents:
    """Read lines of a label and ``index:value`` pairs; column j of X is index j."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(text.encode()), zero_based=True)
    except (ValueError, OverflowError) as error:
        line = _malformed_svmlight_line(text)
        where = f"line {line} is not svmlight" if line else "the file is not svmlight"
        raise InputError(f"{where}, a number and pairs index:value in order ({error})") from error
    X = sparse.csr_array(X)
    return Contents(X, {"y": y}, first_index=int(X.indices.min() > 0) if X.nnz else 0)


def _malformed_svmlight_line(text: str) -> int | None:
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.partition("#")[0].strip()
        found = SVMLIGHT_LINE.fullmatch(content)
        indices = [int(index) for index in re.findall(r"(\d+):", found["pairs"])] if found else []
        if content and (found is None or indices != sorted(set(indices))):
            return number
    return None


def _read_json(text: str, _: Collection[str]) -> Contents:
    """Read a list of records, a mapping of columns, or one record per line."""
    columns = None
    with intact("JSON file"):
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data":
                raise
            records = ",\n".join(filter(str.strip, text.split("\n")))
            found = json.loads(f"[{records}]")
        if isinstance(found, dict) and isinstance(found.get("data"), list):
            columns = found.get("columns")  # as pandas writes with orient="split" or "table"
            found, columns = found["data"], columns if isinstance(columns, list) else None
        if isinstance(found, dict) and not all(isinstance(v, list | dict) for v in found.values()):
            found = [found]
        kind = list if columns else dict
        are_rows = isinstance(found, list) and all(isinstance(record, kind) for record in found)
        if not are_rows and not isinstance(found, dict):
            raise InputError("a list of records or a mapping of columns to cells is expected")
        json.dumps(found, ensure_ascii=False).encode()  # raises an error for half of a character
        frame = pd.DataFrame(found, columns=columns).reset_index(drop=True)
    frame.columns = pd.Index([str(name) for name in frame], dtype=object)
    refuse_duplicates(frame)
    return Contents(frame)


def _read_excel(content: bytes) -> Contents:
    """Read the first sheet that is not empty; its first row has the names of the columns."""
    with intact("Excel file"):
        sheets = pd.read_excel(
            io.BytesIO(content),
            sheet_name=None,
            header=None,
            dtype=object,
            keep_default_na=False,
            na_values=list(MISSING),
        )
    filled = [title for title, cells in sheets.items() if not cells.isna().all(axis=None)]
    if not filled:
        raise InputError("the file is empty")
    rows = sheets[filled[0]].dropna(how="all").dropna(how="all", axis=1)
    header = rows.iloc[0]
    if 2 * header.notna().sum() < rows.shape[1]:
        found = f"{header.notna().sum()} names for {rows.shape[1]} columns"
        raise InputError(f"the first row of sheet '{filled[0]}' has {found}; remove titles above")
    names = column_names(header.fillna(""))
    frame = rows.iloc[1:].set_axis(names, axis=1).reset_index(drop=True).infer_objects()
    note = f"sheet '{filled[0]}' is read; the others are not: {quoted(filled[1:])}"
    return Contents(frame, notes=(note,) if filled[1:] else ())


def _read_arrow(content: bytes, kind: str) -> Contents:
    """Read all columns, among them an index stored by pandas."""
    from pyarrow import feather, parquet

    with intact(f"{kind} file"):
        file = io.BytesIO(content)
        is_feather = kind == "Feather"
        table = feather.read_table(file) if is_feather else parquet.ParquetFile(file).read()
        refuse_duplicates(table.column_names)
        return Contents(table.to_pandas(ignore_metadata=True))


def _read_npz(content: bytes) -> Contents:
    """Read arrays X and y, or the arrays data, indices, indptr and shape of a CSR matrix and y."""
    with (
        intact("npz file of plain arrays"),
        np.load(io.BytesIO(content), allow_pickle=False) as file,
    ):
        arrays = {name: file[name] for name in file.files}
    for name, array in arrays.items():
        if array.dtype.kind not in "biufUS":
            raise InputError(f"array '{name}' is {array.dtype}, neither numbers nor strings")
    is_sparse = {"data", "indices", "indptr", "shape"} <= set(arrays)
    if not is_sparse and "X" not in arrays:
        raise InputError(
            "an array 'X', or 'data', 'indices', 'indptr' and 'shape' of a CSR matrix, and 'y' are "
            f"expected in the file; it contains {quoted(arrays) or 'nothing'}"
        )
    X = _csr(arrays) if is_sparse else _dense(arrays)
    if "y" in arrays and arrays["y"].shape != X.shape[:1]:
        raise InputError(f"'y' has shape {arrays['y'].shape}, but X has {X.shape[0]} rows")
    return Contents(X, {k: v for k, v in arrays.items() if v.shape == X.shape[:1]})


def _dense(arrays: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
    X = arrays["X"]
    if X.ndim != 2:
        raise InputError(f"'X' has shape {X.shape}; write X.reshape(len(X), -1)")
    names = [str(name) for name in arrays.get("feature_names", [])]
    if names and len(names) != X.shape[1]:
        raise InputError(f"there are {len(names)} 'feature_names' for {X.shape[1]} columns of X")
    refuse_duplicates(names)
    return named_columns(X, names)


def named_columns(X: Any, names: Sequence[str] = ()) -> pd.DataFrame:
    """Make a frame of an array whose columns are called x1, x2, ... without names."""
    frame = pd.DataFrame(X)
    frame.columns = pd.Index(names or [f"x{place}" for place in range(1, frame.shape[1] + 1)])
    return frame


def _csr(arrays: Mapping[str, NDArray[Any]]) -> sparse.csr_array:
    parts = (arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"])
    try:
        X = sparse.csr_array(parts, shape=tuple(arrays["shape"].tolist()))
        X.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise InputError(f"the arrays are not a CSR matrix: {error}") from error
    X.sum_duplicates()
    return X


TEXT_READERS: dict[str, Callable[[str, Collection[str]], Contents]] = {
    ".csv": partial(_read_delimited, delimiters=",;\t|"),
    **dict.fromkeys((".tsv", ".tab"), partial(_read_delimited, delimiters="\t")),
    ".txt": _read_txt,
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), _read_json),
    ".arff": lambda text, _: Contents(parse_arff(text)),
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), _read_svmlight),
}
READERS: dict[str, Callable[[bytes], Contents]] = {
    **dict.fromkeys((".xlsx", ".xlsm"), _read_excel),
    ".parquet": partial(_read_arrow, kind="Parquet"),
    **dict.fromkeys((".feather", ".arrow"), partial(_read_arrow, kind="Feather")),
    ".npz": _read_npz,
}
