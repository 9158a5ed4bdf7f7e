"""Store of results in one SQLite file that survives a killed process, and atomic writing of files.

An experiment is a list of keys and a function that runs the fit of a key. A fit is stored
completely or not at all. Its attempt is recorded when it begins; an attempt without an end belongs
to a fit that was running when the process died.
"""

from __future__ import annotations

import glob
import io
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreg.base.errors import InputError

CPU_SECONDS = "cpu_seconds"  # value of an outcome that estimates the time of further fits


class Key(NamedTuple):
    """Identifier of a fit of an experiment."""

    dataset: str
    model: str
    repeat: int
    fold: int


@dataclass(frozen=True)
class Outcome:
    """Result of one fit: numbers for the tables, arrays for the plots, warning messages."""

    values: Mapping[str, float]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Experiment(Protocol):
    """Fits that can run in any order and in any process; pickled once for all workers."""

    def settings(self) -> Mapping[str, str]:
        """Settings; stored results are only reused if their settings are equal."""

    def keys(self) -> Sequence[Key]:
        """Keys of all fits, in the order in which they should run."""

    def run(self, key: Key) -> Outcome:
        """Run one fit and score it; deterministic except for the measured time."""


def make_folder(path: Path) -> None:
    """Create a directory for results if it does not exist."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file. Give a directory for the output.")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The directory {path} cannot be created ({error.strerror}). Give another one for the "
            "output."
        ) from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically."""
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def remove_drafts(path: Path) -> None:
    """Remove drafts of a file that a killed process left."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.[0-9]*"):
        draft.unlink()


KEY = "dataset TEXT NOT NULL, model TEXT NOT NULL, repeat INTEGER NOT NULL, fold INTEGER NOT NULL"
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY, {KEY}, began REAL NOT NULL, ended REAL, error TEXT, warnings TEXT
);
CREATE TABLE IF NOT EXISTS results (
    {KEY}, metric TEXT NOT NULL, value REAL, PRIMARY KEY (dataset, model, repeat, fold, metric)
);
CREATE TABLE IF NOT EXISTS arrays (
    {KEY}, name TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (dataset, model, repeat, fold, name)
);
CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY);
"""


class Store:
    """Results of one experiment in one file; only one process at a time can write to it.

    Parameters
    ----------
    path : Path
        The file, which is created if it does not exist.
    settings : mapping of str to str
        Settings that the results depend on. A file with other settings raises an error.
    """

    def __init__(self, path: Path, settings: Mapping[str, str]) -> None:
        self.path = path
        self._open = ExitStack()
        try:
            # The operating system releases the lock when the process ends or dies. The lock is a
            # separate file, so that results can be read during a run.
            self._lock(path.with_name(path.name + ".lock"))
            for left in path.parent.glob(glob.escape(self._temporary) + "*"):
                shutil.rmtree(left, ignore_errors=True)  # of a killed process
            with _explained(path):
                self._connection = self._open.enter_context(closing(sqlite3.connect(path)))
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._connection.executescript(SCHEMA)
            self._check()
            self._agree_on(settings)
        except BaseException:
            self.close()
            raise

    def _lock(self, path: Path) -> None:
        with _explained(path):
            lock = self._open.enter_context(closing(sqlite3.connect(path, timeout=0.5)))
            lock.execute("BEGIN EXCLUSIVE")

    def _check(self) -> None:
        """Raise an error if the file is damaged, or if results and attempts do not agree."""
        with _explained(self.path):
            ((found, *_),) = self._select("PRAGMA quick_check(1)")
            if found != "ok":
                raise ValueError(found)
            key = ", ".join(Key._fields)
            finished = f"SELECT {key} FROM attempts WHERE ended IS NOT NULL AND error IS NULL"
            stored = f"SELECT {key} FROM (SELECT {key} FROM results UNION SELECT {key} FROM arrays)"
            for one, other in ((finished, stored), (stored, finished)):
                if rows := self._select(f"{one} EXCEPT {other}"):
                    fit = " ".join(map(str, rows[0]))
                    raise ValueError(f"attempts and results do not agree on the fit {fit}")

    @property
    def _temporary(self) -> str:
        return f".{self.path.name}.workers-"

    def temporary_folder(self) -> TemporaryDirectory[str]:
        """Create a directory beside the file; if this process is killed, the next removes it."""
        return TemporaryDirectory(prefix=self._temporary, dir=self.path.parent.absolute())

    def _agree_on(self, settings: Mapping[str, str]) -> None:
        stored = dict(self._select("SELECT name, value FROM settings"))
        differing = [
            f"{name} was {stored.get(name, 'not set')} and is now {settings.get(name, 'not set')}"
            for name in {**stored, **settings}
            if stored and stored.get(name) != settings.get(name)
        ]
        if differing:
            raise InputError(
                f"{self.path} contains results of another run: {'; '.join(differing)}. "
                "Give another directory for the output, or delete that file to start again."
            )
        with _explained(self.path), self._connection as transaction:
            transaction.executemany("REPLACE INTO settings VALUES (?, ?)", settings.items())

    def _select(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with _explained(self.path):
            return self._connection.execute(query, values).fetchall()

    def claim(self, path: Path) -> None:
        """Record that runs of this store write a file; refuse one that others have written."""
        if not self._select("SELECT name FROM files WHERE name = ?", (path.name,)):
            if path.exists():
                raise InputError(
                    f"{path} exists and was not written by this comparison. Move it away, or give "
                    "another directory for the output."
                )
            with _explained(self.path), self._connection as transaction:
                transaction.execute("INSERT INTO files VALUES (?)", (path.name,))

    def begin(self, key: Key) -> int:
        """Record that a fit begins, and return the number of this attempt."""
        with _explained(self.path), self._connection as transaction:
            cursor = transaction.execute(
                "INSERT INTO attempts (dataset, model, repeat, fold, began) VALUES (?, ?, ?, ?, ?)",
                (*key, time.time()),
            )
        return int(cursor.lastrowid or 0)

    def finish(self, attempt: int, key: Key, outcome: Outcome) -> None:
        """Store the outcome of a fit and the end of its attempt in one transaction."""
        values = [(*key, metric, _finite(value)) for metric, value in outcome.values.items()]
        arrays = [(*key, name, _packed(array)) for name, array in outcome.arrays.items()]
        with _explained(self.path), self._connection as transaction:
            transaction.executemany("INSERT INTO results VALUES (?, ?, ?, ?, ?, ?)", values)
            transaction.executemany("INSERT INTO arrays VALUES (?, ?, ?, ?, ?, ?)", arrays)
            transaction.execute(
                "UPDATE attempts SET ended = ?, warnings = ? WHERE id = ?",
                (time.time(), "\n".join(outcome.warnings), attempt),
            )

    def fail(self, attempt: int, error: str, *, retry: bool = False) -> None:
        """Store the error of a fit, and whether the next run tries it again."""
        ended = None if retry else time.time()
        with _explained(self.path), self._connection as transaction:
            transaction.execute(
                "UPDATE attempts SET ended = ?, error = ? WHERE id = ?", (ended, error, attempt)
            )

    def ended(self) -> set[Key]:
        """Return the keys that need no further attempt: those with an outcome or an error."""
        return {key for key, ended in self.attempts() if ended}

    def attempts(self) -> list[tuple[Key, bool]]:
        """List all attempts in order, and whether they ended."""
        rows = self._select(
            "SELECT dataset, model, repeat, fold, ended IS NOT NULL FROM attempts ORDER BY id"
        )
        return [(Key(*row[:4]), bool(row[4])) for row in rows]

    def failures(self) -> dict[Key, str]:
        """Return the errors of the fits whose latest attempt failed or did not end."""
        rows = self._select("SELECT dataset, model, repeat, fold, error FROM attempts ORDER BY id")
        latest = {Key(*row[:4]): row[4] for row in rows}
        return {key: error for key, error in latest.items() if error is not None}

    def warnings(self) -> dict[Key, list[str]]:
        """Return the warnings of the fits."""
        rows = self._select(
            "SELECT dataset, model, repeat, fold, warnings FROM attempts WHERE warnings != ''"
        )
        return {Key(*row[:4]): row[4].split("\n") for row in rows}

    def results(self) -> pd.DataFrame:
        """Return all numbers in a frame that is unique on all columns but the value."""
        columns = [*Key._fields, "metric", "value"]
        rows = self._select("SELECT * FROM results ORDER BY rowid")
        with _explained(self.path):
            return pd.DataFrame(rows, columns=columns).astype({"value": float})

    def array(self, key: Key, name: str) -> NDArray[Any] | None:
        """Return the named array of a fit; None if there is none."""
        rows = self._select(
            "SELECT value FROM arrays WHERE (dataset, model, repeat, fold, name) = (?, ?, ?, ?, ?)",
            (*key, name),
        )
        with _explained(self.path):
            return np.load(io.BytesIO(rows[0][0]), allow_pickle=False) if rows else None

    def close(self) -> None:
        """Close the file and release the lock."""
        self._open.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Convert errors of SQLite, and of values that this program has not written, to messages."""
    another = "or give another directory for the output."
    try:
        yield
    except InputError:
        raise
    except (sqlite3.Error, ValueError, TypeError, EOFError) as error:
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:  # the remaining bits are details
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                trouble = f"{path} is in use by another run. Wait until it has finished, {another}"
            case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
                raise OSError(
                    f"{path} cannot be written ({error}). Is the disk full? Finished fits are "
                    "stored; make room and run the same command again."
                ) from error
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
                trouble = f"{path} cannot be written ({error}). Change its permissions, {another}"
            case _:
                trouble = (
                    f"{path} cannot be used, because it is damaged or was changed by another "
                    f"program ({error}). Move that file away to run all fits again, {another}"
                )
        raise InputError(trouble) from error


def _finite(value: float) -> float | None:
    """Convert NaN and infinity to NULL, because SQLite has no NaN."""
    return float(value) if np.isfinite(value) else None


def _packed(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
