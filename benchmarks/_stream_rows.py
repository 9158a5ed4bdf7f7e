"""Rows in files and worker processes for measurements of fits beyond memory.

The rows are made once, some 4 GB in the folder ``discreg-streams`` of the temporary folder, and are
left there. ``DISCREG_STREAM_SCALE`` multiplies their number, for a quick look; below 0.2 some maps
are too small to be fitted block by block.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from sklearn.utils import gen_batches

from discreg.blocks.source import LARGEST_BLOCK

SCALE = float(os.environ.get("DISCREG_STREAM_SCALE", "1"))
MAP_ROWS, MAP_FEATURES = int(10_000_000 * SCALE), 50
CHUNK_BYTES = 100_000_000
FEWEST_CHUNKS = 10
NOISE = 1.0  # standard deviations of the rule's scores
FOLDER = Path(tempfile.gettempdir()) / "discreg-streams"
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class Rows:
    """Rows in a file, with the labels of a noisy linear rule of two classes."""

    def __init__(self, n_rows: int, n_features: int) -> None:
        self.shape = n_rows, n_features
        self.path = FOLDER / f"{n_rows}x{n_features}.f32"
        self.label_path = self.path.with_suffix(".u1")
        if not self.label_path.exists():
            self._write()

    def _write(self) -> None:
        """Make the rows, some at a time."""
        FOLDER.mkdir(exist_ok=True)
        n_rows, n_features = self.shape
        labels = []
        part = self.path.with_suffix(".part")
        with part.open("wb") as file:
            for number, rows in enumerate(gen_batches(n_rows, 250_000)):
                X, y = noisy_rule(rows.stop - rows.start, n_features, number)
                X.tofile(file)
                labels.append(y)
        part.rename(self.path)
        np.concatenate(labels).tofile(self.label_path)

    def map(self, n_rows: int | None = None):
        """A memory map of the first rows, and their labels."""
        n_rows = n_rows or self.shape[0]
        X = np.memmap(self.path, np.float32, "r", shape=(n_rows, self.shape[1]))
        return X, np.fromfile(self.label_path, np.uint8, n_rows)

    def collections(self, n_rows: int | None = None):
        """The first rows and their labels as Dask arrays, whose chunks are mapped where they go."""
        n_rows, n_features = n_rows or self.shape[0], self.shape[1]
        width = 4 * n_features
        step = min(CHUNK_BYTES // width, -(-n_rows // FEWEST_CHUNKS))
        X, y = [], []
        for rows in gen_batches(n_rows, step):
            shape = rows.stop - rows.start, n_features
            of_rows = dask.delayed(np.memmap)(
                str(self.path), np.float32, "r", rows.start * width, shape
            )
            of_labels = dask.delayed(np.fromfile)(
                str(self.label_path), np.uint8, shape[0], "", rows.start
            )
            X.append(da.from_delayed(of_rows, shape, np.float32))
            y.append(da.from_delayed(of_labels, shape[:1], np.uint8))
        return da.concatenate(X), da.concatenate(y)


def noisy_rule(n_rows: int, n_features: int, number: int):
    """A batch of rows and labels, which is the same whenever it is made."""
    direction = np.random.default_rng(n_features).normal(size=n_features)
    rng = np.random.default_rng([n_features, number])
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    noise = NOISE * float(np.linalg.norm(direction)) * rng.standard_normal(n_rows)
    return X, (X @ direction + noise > 0).astype(np.uint8)


def batches(X) -> Iterator[slice]:
    """The blocks in which a memory map is read."""
    return gen_batches(len(X), max(1, LARGEST_BLOCK // (X.shape[1] * X.itemsize)))


def bare(X):
    """The least that any of the fits has to do."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for rows in batches(X):
        total += X[rows].T @ X[rows]
    return total


@contextmanager
def workers(number: int) -> Iterator[Client]:
    """A client of so many worker processes of one thread each."""
    with (
        LocalCluster(
            n_workers=number,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit=0,
            env=ONE_THREAD,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def under(scheduler, function: Callable) -> Callable:
    """The function with Dask's work done by a scheduler."""

    def run():
        with dask.config.set(scheduler=scheduler):
            return function()

    return run
