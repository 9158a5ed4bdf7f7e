"""Readers of data files, one function per format."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from discreg.base.errors import InputError

from .arff import parse_arff
from .contents import COMPRESSED, Contents, FileBytes, file_stem, open_bytes
from .delimited import read_csv, read_delimited, read_text_table
from .excel import read_excel
from .names import (
    MISSING,
    UNTITLED,
    default_names,
    intact,
    nearest,
    quoted,
    refuse_duplicates,
)

__all__ = [
    "MISSING",
    "UNTITLED",
    "Contents",
    "default_names",
    "file_stem",
    "nearest",
    "quoted",
    "read_contents",
    "refuse_duplicates",
]


def read_contents(path: Path, *, text_columns: Collection[str] = ()) -> Contents:
    """Read a file in the format of its suffix."""
    if not path.exists():
        raise InputError(f"there is no such file{_nearest_file(path)}")
    if path.is_dir():
        raise InputError("this is a directory; give a file")
    _refuse_unknown(path.with_suffix("") if path.suffix.lower() in COMPRESSED else path, path)
    suffix, content = open_bytes(path)
    _refuse_unknown(Path(f"file{suffix}"), path)
    file = FileBytes(content, text_columns)
    contents = READERS[suffix](file)
    if not contents.X.shape[0]:
        raise InputError("the file has no rows of data")
    return replace(contents, notes=(*file.notes, *contents.notes))


def _refuse_unknown(inner: Path, path: Path) -> None:
    """Raise an error if no reader has this suffix; a zip file need not have a second one."""
    suffix = inner.suffix.lower()
    if suffix in READERS or (path.suffix.lower() == ".zip" and inner.name == path.stem):
        return
    hint = "; save the sheet as .xlsx or .csv" if suffix in OTHER_SHEETS else ""
    what = f"files of type '{suffix}'" if suffix else "files without a type, such as .csv,"
    raise InputError(
        f"{what} are not supported{hint}; supported types are {', '.join(READERS)}, also with "
        f"{', '.join(COMPRESSED)}"
    )


def _nearest_file(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; the directory '{path.parent}' does not exist either"
    name = nearest(path.name, [each.name for each in path.parent.iterdir() if each.is_file()])
    return f"; did you mean '{path.with_name(name)}'?" if name else ""


def read_parquet(file: FileBytes) -> Contents:
    """Read the columns of a Parquet file, including an index stored by pandas."""
    import pyarrow.parquet

    with intact("Parquet file"):
        return _arrow_columns(pyarrow.parquet.ParquetFile(io.BytesIO(file.content)).read())


def read_feather(file: FileBytes) -> Contents:
    """Read the columns of a Feather or Arrow file."""
    import pyarrow.feather

    with intact("Feather file"):
        return _arrow_columns(pyarrow.feather.read_table(io.BytesIO(file.content)))


def _arrow_columns(table: Any) -> Contents:
    import pyarrow as pa

    refuse_duplicates(table.column_names)
    for column in table.schema:
        if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
            raise InputError(
                f"column '{column.name}' has type {column.type}; cells must be numbers, "
                "booleans or strings"
            )
    return Contents(table.to_pandas(ignore_metadata=True))


def read_json(file: FileBytes) -> Contents:
    """Read a list of records, a mapping of columns, or one record per line."""
    try:
        found = json.loads(file.text())
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and error.lineno > 1:
            return read_json_lines(file)
        raise InputError(f"line {error.lineno} is not JSON: {error.msg}") from error
    if isinstance(found, dict) and isinstance(found.get("data"), list):
        columns = found.get("columns")  # as pandas writes with orient="split" or "table"
        found = (
            [dict(zip(map(str, columns), row, strict=True)) for row in found["data"]]
            if isinstance(columns, list)
            else found["data"]
        )
    if isinstance(found, dict):
        found = _json_rows(found)
    return _json_records(found)


def _json_rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Convert a mapping of columns, which are lists or mappings of rows, to records."""
    lists = {
        name: list(cells.values()) if isinstance(cells, dict) else cells
        for name, cells in columns.items()
    }
    if not lists or not all(isinstance(cells, list) for cells in lists.values()):
        raise InputError("a list of records or a mapping of columns is expected, not one record")
    lengths = {name: len(cells) for name, cells in lists.items()}
    if len(set(lengths.values())) > 1:
        short, long = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise InputError(
            f"column '{short}' has {lengths[short]} cells, but '{long}' has {lengths[long]}"
        )
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def read_json_lines(file: FileBytes) -> Contents:
    """Read one record per line."""
    records = []
    for number, line in enumerate(file.text().split("\n"), start=1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise InputError(f"line {number} is not JSON: {error.msg}") from error
    return _json_records(records)


def _json_records(records: Any) -> Contents:
    if not isinstance(records, list):
        raise InputError(f"a list of records is expected, not {type(records).__name__}")
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise InputError(
                f"record {number} is not a mapping of column names to cells, but "
                f"{type(record).__name__}"
            )
        for name, cell in record.items():
            if isinstance(cell, list | dict):
                raise InputError(
                    f"column '{name}' is nested in record {number}; cells must be numbers, "
                    "booleans or strings"
                )
    return Contents(pd.DataFrame.from_records(records))


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
    """Read a text file in svmlight format, or else a table of cells."""
    lines = (line.partition("#")[0].strip() for line in file.text().split("\n"))
    first = SVMLIGHT_LINE.fullmatch(next(filter(None, lines), ""))
    is_svmlight = first is not None and first["pairs"]
    return read_svmlight(file) if is_svmlight else read_text_table(file)


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
        intact("npz file of plain arrays"),
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
    ".xlsx": read_excel,
    ".xlsm": read_excel,
    ".json": read_json,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".parquet": read_parquet,
    ".feather": read_feather,
    ".arrow": read_feather,
    ".arff": read_arff,
    ".svm": read_svmlight,
    ".svmlight": read_svmlight,
    ".libsvm": read_svmlight,
    ".txt": read_txt,
    ".npz": read_npz,
}
OTHER_SHEETS = (".xls", ".ods", ".numbers", ".xlsb")
