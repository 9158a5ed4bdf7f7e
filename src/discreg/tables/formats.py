"""Readers of data files, one function per format."""

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

# Without "None", which is more often a category ("no garage") than a missing value.
MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "NULL", "null")
UNTITLED = "Unnamed: "  # pandas' name of a column without a name, followed by its position


@dataclass(frozen=True)
class FileBytes:
    """The bytes of a file, and the columns to read as text."""

    content: bytes
    text_columns: Collection[str] = ()

    def text(self) -> str:
        """Decode the bytes as UTF-8, with or without a byte order mark."""
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.content.count(b"\n", 0, error.start) + 1
            raise InputError(f"line {line} is not UTF-8; save the file in that encoding") from error


@dataclass(frozen=True)
class Contents:
    """The contents of a file: named columns or a sparse array."""

    X: pd.DataFrame | sparse.csr_array
    y: NDArray[Any] | None = None
    labels_apart: bool = False  # whether the format separates y; otherwise y is a column of X
    others: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # arrays other than X and y
    first_index: int | None = None  # svmlight: index of the first feature, 0 or 1


def read_contents(path: Path, *, text_columns: Collection[str] = ()) -> Contents:
    """Read a file in the format of its suffix."""
    if not path.exists():
        raise InputError(f"there is no such file{_nearest_file(path)}")
    if path.is_dir():
        raise InputError("this is a directory; give a file")
    zipped = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if zipped else path).suffix.lower()
    if suffix not in READERS:
        raise InputError(
            f"files of type '{suffix}' are not supported; supported types are "
            f"{', '.join(READERS)}, also with .gz; save a spreadsheet as CSV"
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
    """Convert any exception of a reader, which can be of any type, to an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the file is not a valid {kind}: {error}") from error


def _nearest_file(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; the directory '{path.parent}' does not exist either"
    name = nearest(path.name, [each.name for each in path.parent.iterdir() if each.is_file()])
    return f"; did you mean '{path.with_name(name)}'?" if name else ""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Find the name that is most similar to a mistyped one; None if none is similar."""
    by_lower = {each.lower(): each for each in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[found[0]] if found else None


def quoted(names: Iterable[object], *, at_most: int = 8) -> str:
    """Write the first few names in quotes, for a message."""
    names = list(names)
    shown = ", ".join(f"'{name}'" for name in names[:at_most])
    return f"{shown} and {len(names) - at_most} more" if len(names) > at_most else shown


def default_names(n_features: int) -> list[str]:
    """Return the names x1, x2, ... for columns without names."""
    return [f"x{place}" for place in range(1, n_features + 1)]


def refuse_duplicates(names: Collection[str]) -> None:
    """Raise an error if two columns have the same name."""
    seen: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name in seen:
            raise InputError(
                f"columns {seen[name]} and {place} have the same name '{name}'; rename one"
                f"{_no_header_hint(names)}"
            )
        seen[name] = place


def _no_header_hint(names: Iterable[str]) -> str:
    """Return a hint for a message if the names look like data."""
    numbers = [name for name in names if re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", name, re.I)]
    return ", or add a header line: the first line looks like data" if numbers else ""


# Numbers between tabs: with a comma that cannot separate thousands, and with a point.
WITH_COMMA, WITH_POINT = (
    re.compile(rf"(?<![^\t\n])[-+]?(?:{number})(?=[\t\r\n]|$)")
    for number in (r"\d+,(?!\d{3}(?:\D|$))\d+|(?:0|\d{4})\d*,\d+", r"\d*\.\d+")
)
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+(?:,\d+)?")


def read_csv(file: FileBytes) -> Contents:
    """Read cells separated by commas, semicolons or tabs: the most frequent one in the header."""
    header, _, _ = file.text().lstrip("\r\n").partition("\n")
    unquoted = re.sub('"[^"]*"', "", header)
    return read_delimited(file, max(",;\t", key=unquoted.count))


def read_delimited(file: FileBytes, delimiter: str = "\t") -> Contents:
    """Read cells separated by a delimiter."""
    text = file.text()
    _, header = next(_records(text, delimiter), (1, None))
    if header is None:
        raise InputError("the file is empty")
    names = [name.strip() or f"{UNTITLED}{place}" for place, name in enumerate(header)]
    refuse_duplicates(names)
    decimal = _decimal_sign(text, delimiter)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # more cells than the header
            frame = pd.read_csv(
                io.StringIO(text),
                sep=delimiter,
                # With a decimal comma, numbers with a point are read as text and converted when
                # the columns are parsed.
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
            raise InputError(f"a quote in line {line} is not closed") from error
        _refuse_ragged_line(text, delimiter, len(names))
        raise InputError(f"the file is malformed: {error}") from error
    if frame.iloc[:, -1].isna().any():  # pandas fills short lines with NaN
        _refuse_ragged_line(text, delimiter, len(names))
    if decimal == ",":
        _refuse_thousands(frame.drop(columns=[*file.text_columns], errors="ignore"))
    return Contents(frame)


def _decimal_sign(text: str, delimiter: str) -> str:
    """Infer a decimal comma, as in spreadsheets: with semicolons, or with tabs and no point."""
    if delimiter == ";" and "," in text:
        return ","
    if delimiter == "\t" and WITH_COMMA.search(text) and not WITH_POINT.search(text):
        return ","
    return "."


def _refuse_thousands(frame: pd.DataFrame) -> None:
    """Raise an error if the points of a column may be decimal points or separate thousands."""
    for name, column in frame.items():
        if pd.api.types.is_numeric_dtype(column.dtype):
            continue
        cells = [cell.strip() for cell in column.dropna().unique() if isinstance(cell, str)]
        pointed = [cell for cell in cells if "." in cell]
        if pointed and all(map(THOUSANDS.fullmatch, pointed)):
            raise InputError(
                f"column '{name}' has cells such as '{pointed[0]}' in a file with decimal commas: "
                "does the point separate thousands? Write numbers without points"
            )


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of each record; slower than pandas, which has no lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"line {line} cannot be read; is a quote not closed? ({error})") from error


def _refuse_ragged_line(text: str, delimiter: str, n_columns: int) -> None:
    for line, cells in _records(text, delimiter):
        if len(cells) != n_columns:
            raise InputError(
                f"line {line} should have {n_columns} cells like the header, but has {len(cells)}"
            )


def read_parquet(file: FileBytes) -> Contents:
    """Read the columns of a Parquet file, including an index stored by pandas."""
    import pyarrow as pa
    import pyarrow.parquet

    with _intact("Parquet file"):
        table = pa.parquet.ParquetFile(io.BytesIO(file.content)).read()
        refuse_duplicates(table.column_names)
        for column in table.schema:
            if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                raise InputError(
                    f"column '{column.name}' has type {column.type}; cells must be numbers, "
                    "booleans or strings"
                )
        return Contents(table.to_pandas(ignore_metadata=True))


def read_arff(file: FileBytes) -> Contents:
    """Read an ARFF file; nominal attributes are categories even if they are digits."""
    return Contents(parse_arff(file.text()))


NUMBER = r"[-+]?(?:[\d.]+(?:e[-+]?\d+)?|inf|nan)"
SVMLIGHT_LINE = re.compile(rf"{NUMBER}(\s+qid:\d+)?(?P<pairs>(\s+\d+:{NUMBER})*)", re.IGNORECASE)


def read_svmlight(file: FileBytes) -> Contents:
    """Read lines of a label and ``index:value`` pairs; column j of X is index j."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(file.content), zero_based=True)
    except (ValueError, OverflowError) as error:
        line = _malformed_svmlight_line(file.text())
        where = f"line {line} is not svmlight" if line else "the file is not an svmlight file"
        raise InputError(
            f"{where}: a numeric label and 'index:value' pairs with increasing indices are "
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
    """Read a text file in svmlight format."""
    lines = (line.partition("#")[0].strip() for line in file.text().split("\n"))
    first = SVMLIGHT_LINE.fullmatch(next(filter(None, lines), ""))
    if first is None or not first["pairs"]:
        raise InputError(
            "a .txt file must be in svmlight format, and this file is not; rename it to .csv if "
            "commas or semicolons separate its cells, to .tsv if tabs do"
        )
    return read_svmlight(file)


def read_npz(file: FileBytes) -> Contents:
    """Read arrays X and y, or the arrays data, indices, indptr and shape of a CSR matrix and y."""
    arrays = _arrays(file.content)
    is_sparse = {"data", "indices", "indptr", "shape"} <= set(arrays)
    if not is_sparse and "X" not in arrays:
        raise InputError(
            "the file must contain an array 'X', or 'data', 'indices', 'indptr' and 'shape' of a "
            f"CSR matrix, and 'y'; it contains {quoted(arrays) or 'nothing'}"
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
            raise InputError(
                f"array '{name}' has type {array.dtype}; arrays must contain numbers or strings"
            )
    return arrays


def _dense(arrays: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
    X = arrays["X"]
    if X.ndim != 2:
        raise InputError(
            f"'X' has shape {X.shape}; two dimensions with one row per sample are expected, such "
            "as X.reshape(len(X), -1)"
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
        raise InputError(f"the arrays are not a CSR matrix: {error}") from error
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
