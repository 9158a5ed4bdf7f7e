"""Bytes of a file: decompression, encodings, and what a reader makes of them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import sys
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from discreg.base.errors import InputError

from .names import intact, quoted

__all__ = ["COMPRESSED", "Contents", "FileBytes", "file_stem", "open_bytes"]

COMPRESSED = (".gz", ".zip", ".bz2", ".xz", ".zst")
OF_CP1252 = re.compile(rb"[\x80-\x9f]")  # control characters in Latin-1
WORD = re.compile(r"\w*[^\x00-\x7f]\w*")


@dataclass(frozen=True)
class FileBytes:
    """The bytes of a file, and the columns to read as text."""

    content: bytes
    text_columns: Collection[str] = ()

    def text(self) -> str:
        """Decode the bytes."""
        return self._decoded[0]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed to decode the bytes."""
        return self._decoded[1] if "_decoded" in self.__dict__ else ()

    @cached_property
    def _decoded(self) -> tuple[str, tuple[str, ...]]:
        """Decode UTF-8, UTF-16 or a Western European encoding."""
        content = self.content
        encoding = _unicode_encoding(content)
        try:
            return content.decode(encoding), ()
        except UnicodeDecodeError as error:
            if encoding != "utf-8-sig":
                raise InputError(
                    f"the file is not valid {encoding.upper()} ({error.reason}); save it as UTF-8"
                ) from error
            first_line = content.count(b"\n", 0, error.start) + 1
        if b"\0" in content:
            raise InputError("the file is not a text file: it contains zero bytes")
        encoding = "cp1252" if OF_CP1252.search(content) else "latin-1"
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError as error:
            raise InputError(
                f"line {first_line} is not UTF-8; save the file in that encoding"
            ) from error
        example = WORD.search(text)
        such_as = "" if example is None else f", such as '{example[0]}' in line {first_line}"
        return text, (
            f"the file is not UTF-8 and is read as {encoding} (Western European); if letters are "
            f"wrong{such_as}, save it as UTF-8",
        )


def _unicode_encoding(content: bytes) -> str:
    """Infer UTF-16 from a byte order mark, or from zeros in every second byte."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    beginning = content[:200]
    for first, encoding in ((0, "utf-16-be"), (1, "utf-16-le")):
        zeros, others = beginning[first::2], beginning[1 - first :: 2]
        if len(zeros) > 1 and zeros.count(0) > 0.8 * len(zeros) and not others.count(0):
            return encoding
    return "utf-8-sig"


@dataclass(frozen=True)
class Contents:
    """The contents of a file: named columns or a sparse array."""

    X: pd.DataFrame | sparse.csr_array
    y: NDArray[Any] | None = None
    labels_apart: bool = False  # whether the format separates y; otherwise y is a column of X
    others: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # arrays other than X and y
    first_index: int | None = None  # svmlight: index of the first feature, 0 or 1
    notes: tuple[str, ...] = ()  # what was assumed to read the file


def file_stem(path: Path) -> str:
    """Return the name of a file without the suffixes of its format and compression."""
    stem = (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).stem
    return stem.encode("utf-8", "replace").decode()  # file names need not be UTF-8


def open_bytes(path: Path) -> tuple[str, bytes]:
    """Return the suffix of the format of a file, and its bytes without compression."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}") from error
    compression = path.suffix.lower()
    if compression not in COMPRESSED:
        return compression, content
    suffix = path.with_suffix("").suffix.lower()
    if compression == ".zip":
        with intact("zip file"):
            return _unzipped(content)
    with intact(f"{'gzip' if compression == '.gz' else compression[1:]} file"):
        return suffix, DECOMPRESS[compression](content)


def _unzipped(content: bytes) -> tuple[str, bytes]:
    """Return the suffix and the bytes of the only file in a zip file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [
            name
            for name in archive.namelist()
            if not name.endswith("/")
            and not name.startswith("__MACOSX/")
            and not PurePosixPath(name).name.startswith(".")
        ]
        if len(names) != 1:
            found = quoted(names) if names else "none"
            raise InputError(f"a zip file with one file is expected; it has {found}")
        if archive.getinfo(names[0]).flag_bits & 1:
            raise InputError("the zip file has a password; unpack it first")
        return PurePosixPath(names[0]).suffix.lower(), archive.read(names[0])


def _zstd(content: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd

        return bytes(zstd.decompress(content))
    try:
        import zstandard
    except ModuleNotFoundError as error:
        raise InputError(
            "zst files need the package zstandard: pip install 'discreg[compare]'"
        ) from error
    parts = []
    while content:  # a file may have several frames
        frame = zstandard.ZstdDecompressor().decompressobj()
        parts.append(frame.decompress(content))
        if not frame.eof:
            raise InputError("the file is not a valid zst file: it is cut off")
        content = frame.unused_data
    return b"".join(parts)


DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": _zstd,
}
