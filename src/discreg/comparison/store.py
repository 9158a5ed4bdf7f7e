"""Results on disk as they come: one SQLite file that survives a killed process.

A fit is in the store wholly or not at all. Its attempt is recorded when it begins, so that an
attempt without an end tells of a fit that was under way when the process died.
"""

from __future__ import annotations

import io
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.errors import InputError

from .experiment import Key, Outcome

__all__ = ["Store"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY,
    dataset TEXT NOT NULL, model TEXT NOT NULL, repeat INTEGER NOT NULL, fold INTEGER NOT NULL,
    began REAL NOT NULL, ended REAL, error TEXT, warnings TEXT
);
CREATE TABLE IF NOT EXISTS results (
    dataset TEXT NOT NULL, model TEXT NOT NULL, repeat INTEGER NOT NULL, fold INTEGER NOT NULL,
    metric TEXT NOT NULL, value REAL,
    PRIMARY KEY (dataset, model, repeat, fold, metric)
);
CREATE TABLE IF NOT EXISTS arrays (
    dataset TEXT NOT NULL, model TEXT NOT NULL, repeat INTEGER NOT NULL, fold INTEGER NOT NULL,
    name TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (dataset, model, repeat, fold, name)
);
"""
OF_KEY = "dataset = ? AND model = ? AND repeat = ? AND fold = ?"


class Store:
    """The results of one experiment, in one file; one process at a time writes to it.

    Parameters
    ----------
    path : Path
        The file, made where there is none.
    settings : mapping of str to str
        What the results depend on. A file that was begun under other settings is refused.
    """

    def __init__(self, path: Path, settings: Mapping[str, str]) -> None:
        self.path = path
        try:
            self._guard = _only_writer(path.with_name(path.name + ".lock"))
        except sqlite3.Error as error:
            if "locked" not in str(error):
                raise InputError(_unusable(path, error)) from error
            raise InputError(
                f"{path} is in use by another run. Wait for it, or give another --output directory."
            ) from error
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
        except sqlite3.Error as error:
            self._guard.close()
            raise InputError(_unusable(path, error)) from error
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(SCHEMA)
        except sqlite3.DatabaseError as error:
            self.close()
            raise InputError(_unusable(path, error)) from error
        try:
            self._agree_on(settings)
        except InputError:
            self.close()
            raise

    def _agree_on(self, settings: Mapping[str, str]) -> None:
        stored = dict(self._connection.execute("SELECT name, value FROM settings"))
        differing = [
            f"{name} was {stored.get(name, 'not set')}, now it is {settings.get(name, 'not set')}"
            for name in {**stored, **settings}
            if stored and stored.get(name) != settings.get(name)
        ]
        if differing:
            raise InputError(
                f"{self.path} holds results of another run: {'; '.join(differing)}. "
                "Give another --output directory, or delete that file to begin anew."
            )
        with self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO settings VALUES (?, ?)", settings.items()
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def begin(self, key: Key) -> int:
        """Record that a fit begins; the number of this attempt."""
        cursor = self._connection.execute(
            "INSERT INTO attempts (dataset, model, repeat, fold, began) VALUES (?, ?, ?, ?, ?)",
            (*key, time.time()),
        )
        return int(cursor.lastrowid or 0)

    def finish(self, attempt: int, key: Key, outcome: Outcome) -> None:
        """Keep what a fit gave, and that its attempt has ended, at once."""
        values = [(*key, metric, _finite(value)) for metric, value in outcome.values.items()]
        arrays = [(*key, name, _packed(array)) for name, array in outcome.arrays.items()]
        with self._transaction():
            self._connection.executemany("INSERT INTO results VALUES (?, ?, ?, ?, ?, ?)", values)
            self._connection.executemany("INSERT INTO arrays VALUES (?, ?, ?, ?, ?, ?)", arrays)
            self._end(attempt, None, "\n".join(outcome.warnings))

    def fail(self, attempt: int, error: str) -> None:
        """Keep that a fit could not be made, and why; it is not tried again."""
        self._end(attempt, error, None)

    def lose(self, attempt: int, error: str) -> None:
        """Keep why a fit did not come to its end; the next run tries it again."""
        self._connection.execute("UPDATE attempts SET error = ? WHERE id = ?", (error, attempt))

    def _end(self, attempt: int, error: str | None, warnings: str | None) -> None:
        self._connection.execute(
            "UPDATE attempts SET ended = ?, error = ?, warnings = ? WHERE id = ?",
            (time.time(), error, warnings, attempt),
        )

    def ended(self) -> set[Key]:
        """The keys that need no further attempt: those that gave a result and those that failed."""
        return {
            Key(*row)
            for row in self._connection.execute(
                "SELECT dataset, model, repeat, fold FROM attempts WHERE ended IS NOT NULL"
            )
        }

    def attempts(self) -> list[tuple[Key, bool]]:
        """Every attempt in order, and whether it ended."""
        rows = self._connection.execute(
            "SELECT dataset, model, repeat, fold, ended IS NOT NULL FROM attempts ORDER BY id"
        )
        return [(Key(*row[:4]), bool(row[4])) for row in rows]

    def failures(self) -> dict[Key, str]:
        """Why fits could not be made or did not come to their end."""
        rows = self._connection.execute(
            "SELECT dataset, model, repeat, fold, error FROM attempts ORDER BY id"
        )
        latest = {Key(*row[:4]): row[4] for row in rows}
        return {key: error for key, error in latest.items() if error is not None}

    def warnings(self) -> dict[Key, list[str]]:
        """What fits warned of."""
        rows = self._connection.execute(
            "SELECT dataset, model, repeat, fold, warnings FROM attempts WHERE warnings != ''"
        )
        return {Key(*row[:4]): row[4].split("\n") for row in rows}

    def results(self) -> list[tuple[str, str, int, int, str, float]]:
        """Every number: data set, model, repeat, fold, metric, value; unique on the first five."""
        rows = self._connection.execute("SELECT * FROM results ORDER BY rowid")
        return [(*row[:5], np.nan if row[5] is None else row[5]) for row in rows]

    def array(self, key: Key, name: str) -> NDArray[Any] | None:
        """One array that a fit gave; None where it gave none of this name."""
        row = self._connection.execute(
            f"SELECT value FROM arrays WHERE {OF_KEY} AND name = ?", (*key, name)
        ).fetchone()
        return None if row is None else np.load(io.BytesIO(row[0]), allow_pickle=False)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        self._guard.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _only_writer(path: Path) -> sqlite3.Connection:
    """A lock that the system lets go of when the process ends, however it ends.

    It is a file of its own, so that results can be read while a run goes on.
    """
    guard = sqlite3.connect(path, isolation_level=None, timeout=0.5)
    try:
        guard.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error:
        guard.close()
        raise
    return guard


def _unusable(path: Path, error: sqlite3.Error) -> str:
    return (
        f"{path} cannot be used as a store of results ({error}). Give another --output directory, "
        "or move that file away and run again."
    )


def _finite(value: float) -> float | None:
    """SQLite has no NaN; what could not be computed is NULL."""
    return float(value) if np.isfinite(value) else None


def _packed(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
