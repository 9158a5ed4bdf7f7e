"""Files of labelled data: one function per format, from bytes to columns or arrays."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from discreg.base.errors import InputError

from .arff import parse_arff

__all__ = [
    "MISSING",
    "UNTITLED",
    "Contents",
    "default_names",
    "nearest",
    "quoted",
    "read_contents",
    "refuse_duplicates",
]

# Not "None", which is a category ("no garage") more often than a gap.
MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "NULL", "null")
UNTITLED = "Unnamed: "  # what pandas calls a column without a name; its position follows


@dataclass(frozen=True)
class FileBytes:
    """The bytes of a file, and the columns that stay text whatever they look like."""

    content: bytes
    text_columns: Collection[str] = ()

    def text(self) -> str:
        """The bytes as UTF-8, with or without a byte order mark."""
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.content.count(b"\n", 0, error.start) + 1
            raise InputError(f"line {line} is not UTF-8; save the file in that encoding") from error


@dataclass(frozen=True)
class Contents:
    """What a file holds: columns with names, or a sparse array."""

    X: pd.DataFrame | sparse.csr_array
    y: NDArray[Any] | None = None
    labels_apart: bool = False  # whether the format has a place for y; else it is a column of X
    others: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # all that are not X or y
    first_index: int | None = None  # svmlight: the index its features begin with, 0 or 1


def read_contents(path: Path, *, text_columns: Collection[str] = ()) -> Contents:
    """Read a file by the format that its suffix names."""
    if not path.exists():
        raise InputError(f"there is no such file{_nearest_file(path)}")
    if path.is_dir():
        raise InputError("this is a folder; name a file in it")
    zipped = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if zipped else path).suffix.lower()
    if suffix not in READERS:
        raise InputError(
            f"files of type '{suffix}' are not read; there are {', '.join(READERS)}, each also "
            "with .gz; save a spreadsheet as CSV"
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}") from error
    if zipped:
        with _intact("gzip file"):
            content = gzip.decompress(content)
    contents = READERS[suffix](FileBytes(content, text_columns))
    if not contents.X.shape[0]:
        raise InputError("the file has no rows of data")
    return contents


@contextmanager
def _intact(kind: str) -> Iterator[None]:
    """Say what the file is not, whatever its reader raises: readers have no error of their own."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the file is no intact {kind}: {error}") from error


def _nearest_file(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; nor is there a folder '{path.parent}'"
    name = nearest(path.name, [each.name for each in path.parent.iterdir() if each.is_file()])
    return f"; did you mean '{path.with_name(name)}'?" if name else ""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of the names that looks most like a mistyped one, if any does."""
    by_lower = {each.lower(): each for each in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[found[0]] if found else None


def quoted(names: Iterable[object], *, at_most: int = 8) -> str:
    """Names in quotes for a message, the first few of many."""
    names = list(names)
    shown = ", ".join(f"'{name}'" for name in names[:at_most])
    return f"{shown} and {len(names) - at_most} more" if len(names) > at_most else shown


def default_names(n_features: int) -> list[str]:
    """The names of columns that have none: x1, x2, ..."""
    return [f"x{place}" for place in range(1, n_features + 1)]


def refuse_duplicates(names: Collection[str]) -> None:
    """Raise if two columns share a name."""
    seen: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name in seen:
            raise InputError(
                f"two columns are called '{name}', the columns {seen[name]} and {place}; "
                f"rename one{_no_header_hint(names)}"
            )
        seen[name] = place


def _no_header_hint(names: Iterable[str]) -> str:
    """What to add to a message if the names look like data."""
    numbers = [name for name in names if re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", name, re.I)]
    return ", or add a header line: the first line looks like data" if numbers else ""


# Numbers between tabs: one whose comma can be no divider of thousands, and one with a point.
WITH_COMMA, WITH_POINT = (
    re.compile(rf"(?<![^\t\n])[-+]?(?:{number})(?=[\t\r\n]|$)")
    for number in (r"\d+,(?!\d{3}(?:\D|$))\d+|(?:0|\d{4})\d*,\d+", r"\d*\.\d+")
)
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+(?:,\d+)?")


def read_csv(file: FileBytes) -> Contents:
    """Cells divided by commas, semicolons or tabs, whichever divides the header most."""
    header, _, _ = file.text().lstrip("\r\n").partition("\n")
    unquoted = re.sub('"[^"]*"', "", header)
    return read_delimited(file, max(",;\t", key=unquoted.count))


def read_delimited(file: FileBytes, delimiter: str = "\t") -> Contents:
    """Cells divided by a delimiter."""
    text = file.text()
    _, header = next(_records(text, delimiter), (1, None))
    if header is None:
        raise InputError("the file is empty")
    names = [name.strip() or f"{UNTITLED}{place}" for place, name in enumerate(header)]
    refuse_duplicates(names)
    decimal = _decimal_sign(text, delimiter)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # of cells beyond the header
            frame = pd.read_csv(
                io.StringIO(text),
                sep=delimiter,
                # Numbers with a point come as text where the comma is the decimal sign, and are
                # recognised as numbers when the columns are parsed.
                decimal=decimal,
                header=0,
                names=names,
                index_col=False,
                dtype={name: str for name in names if name in file.text_columns},
                keep_default_na=False,
                na_values=list(MISSING),
                skipinitialspace=True,
                low_memory=False,
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
        if "EOF inside string" in str(error):
            *_, (line, _) = _records(text, delimiter)
            raise InputError(f"a quote in line {line} is never closed") from error
        _refuse_ragged_line(text, delimiter, len(names))
        raise InputError(f"the file is malformed: {error}") from error
    if frame.iloc[:, -1].isna().any():  # with which pandas fills short lines
        _refuse_ragged_line(text, delimiter, len(names))
    if decimal == ",":
        _refuse_thousands(frame.drop(columns=[*file.text_columns], errors="ignore"))
    return Contents(frame)


def _decimal_sign(text: str, delimiter: str) -> str:
    """The comma where spreadsheets write it: with semicolons, or with tabs and not one point."""
    if delimiter == ";" and "," in text:
        return ","
    if delimiter == "\t" and WITH_COMMA.search(text) and not WITH_POINT.search(text):
        return ","
    return "."


def _refuse_thousands(frame: pd.DataFrame) -> None:
    """Raise if the points of a column may be decimal signs or divide thousands."""
    for name, column in frame.items():
        if pd.api.types.is_numeric_dtype(column.dtype):
            continue
        cells = [cell.strip() for cell in column.dropna().unique() if isinstance(cell, str)]
        pointed = [cell for cell in cells if "." in cell]
        if pointed and all(map(THOUSANDS.fullmatch, pointed)):
            raise InputError(
                f"column '{name}' has cells such as '{pointed[0]}' in a file whose decimal sign is "
                "the comma: does the point divide thousands? Write numbers without points"
            )


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The line a record begins in, and its cells: slower than pandas, which does not know lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"line {line} cannot be read; is a quote never closed? ({error})"
        ) from error


def _refuse_ragged_line(text: str, delimiter: str, n_columns: int) -> None:
    for line, cells in _records(text, delimiter):
        if len(cells) != n_columns:
            raise InputError(
                f"line {line} should have {n_columns} cells, as the header has, but has "
                f"{len(cells)}"
            )


def read_parquet(file: FileBytes) -> Contents:
    """The columns of a Parquet file; an index that pandas stored is one of them."""
    import pyarrow as pa
    import pyarrow.parquet

    with _intact("Parquet file"):
        table = pa.parquet.ParquetFile(io.BytesIO(file.content)).read()
        refuse_duplicates(table.column_names)
        for column in table.schema:
            if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                raise InputError(
                    f"column '{column.name}' is of type {column.type}; a cell can be a number, a "
                    "truth value or a text"
                )
        return Contents(table.to_pandas(ignore_metadata=True))


def read_arff(file: FileBytes) -> Contents:
    """The attributes of an ARFF file; nominal ones are categories even where they are digits."""
    return Contents(parse_arff(file.text()))


NUMBER = r"[-+]?(?:[\d.]+(?:e[-+]?\d+)?|inf|nan)"
SVMLIGHT_LINE = re.compile(rf"{NUMBER}(\s+qid:\d+)?(?P<pairs>(\s+\d+:{NUMBER})*)", re.IGNORECASE)


def read_svmlight(file: FileBytes) -> Contents:
    """Lines of a label and ``index:value`` pairs; column j of X is index j."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(file.content), zero_based=True)
    except (ValueError, OverflowError) as error:
        line = _malformed_svmlight_line(file.text())
        where = f"line {line} is no svmlight" if line else "the file is no svmlight file"
        raise InputError(
            f"{where}: a numeric label and 'index:value' pairs with growing indices are "
            f"expected ({error})"
        ) from error
    X = sparse.csr_array(X)
    first_index = int(X.indices.min() > 0) if X.nnz else 0
    return Contents(X, y, labels_apart=True, first_index=first_index)


def _malformed_svmlight_line(text: str) -> int | None:
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.partition("#")[0].strip()
        found = SVMLIGHT_LINE.fullmatch(content)
        if content and found is None:
            return number
        indices = [int(index) for index in re.findall(r"(\d+):", found["pairs"])] if found else []
        if indices != sorted(set(indices)):
            return number
    return None


def read_txt(file: FileBytes) -> Contents:
    """A text file, if it is svmlight."""
    lines = (line.partition("#")[0].strip() for line in file.text().split("\n"))
    first = SVMLIGHT_LINE.fullmatch(next(filter(None, lines), ""))
    if first is None or not first["pairs"]:
        raise InputError(
            "a .txt file is read as svmlight only, and this is none; rename it to .csv if commas "
            "or semicolons divide its cells, to .tsv if tabs do"
        )
    return read_svmlight(file)


def read_npz(file: FileBytes) -> Contents:
    """Arrays ``X`` and ``y``, or the parts of a CSR matrix (data, indices, indptr, shape) and y."""
    arrays = _arrays(file.content)
    is_sparse = {"data", "indices", "indptr", "shape"} <= set(arrays)
    if not is_sparse and "X" not in arrays:
        raise InputError(
            "an array 'X', or 'data', 'indices', 'indptr' and 'shape' of a CSR matrix, is expected "
            f"beside 'y'; the file holds {quoted(arrays) or 'nothing'}"
        )
    X = _csr(arrays) if is_sparse else _dense(arrays)
    y = arrays.pop("y", None)
    if y is not None and y.shape != X.shape[:1]:
        raise InputError(f"'y' has shape {y.shape}, but X has {X.shape[0]} rows")
    return Contents(X, y, labels_apart=True, others=arrays)


def _arrays(content: bytes) -> dict[str, NDArray[Any]]:
    with (
        _intact("npz file of plain arrays"),
        np.load(io.BytesIO(content), allow_pickle=False) as file,
    ):
        arrays = {name: file[name] for name in file.files}
    for name, array in arrays.items():
        if array.dtype.kind == "S":
            arrays[name] = array.astype(str)
        elif array.dtype.kind not in "biufU":
            raise InputError(f"array '{name}' is of type {array.dtype}; numbers or texts are read")
    return arrays


def _dense(arrays: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
    X = arrays["X"]
    if X.ndim != 2:
        raise InputError(
            f"'X' has shape {X.shape}; one row per sample is expected, such as "
            "X.reshape(len(X), -1)"
        )
    names = arrays["feature_names"].tolist() if "feature_names" in arrays else None
    if names is not None and len(names) != X.shape[1]:
        raise InputError(f"there are {len(names)} 'feature_names' for {X.shape[1]} columns of X")
    names = default_names(X.shape[1]) if names is None else [str(name) for name in names]
    refuse_duplicates(names)
    return pd.DataFrame(X, columns=names)


def _csr(arrays: Mapping[str, NDArray[Any]]) -> sparse.csr_array:
    parts = (arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"])
    try:
        X = sparse.csr_array(parts, shape=tuple(arrays["shape"].tolist()))
        X.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise InputError(f"the parts make no CSR matrix: {error}") from error
    X.sum_duplicates()
    return X


READERS: dict[str, Callable[[FileBytes], Contents]] = {
    ".csv": read_csv,
    ".tsv": read_delimited,
    ".tab": read_delimited,
    ".parquet": read_parquet,
    ".arff": read_arff,
    ".svm": read_svmlight,
    ".svmlight": read_svmlight,
    ".libsvm": read_svmlight,
    ".txt": read_txt,
    ".npz": read_npz,
}
