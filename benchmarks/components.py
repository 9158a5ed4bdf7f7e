"""Kernels approximated by components: accuracy beside the exact kernel, time and memory.

Run as ``python benchmarks/components.py``, or with the arguments ``accuracy`` or ``time`` for one
of its two pages.

``DISCREG_DATA`` names the folder of the data sets; the default is ``../shared/data``.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from _timing import write_table
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

from discreg import DRMClassifier, LRRRClassifier, ODMClassifier, ReLSRClassifier

DATA = Path(os.environ.get("DISCREG_DATA", "../shared/data"))
SETS = ("pendigits", "shuttle", "ijcnn1_train", "poker_train", "mnist")
N_ROWS, N_TEST = 10_000, 5_000
SIZES, SHOWN = (100, 300, 600, 1_000), 600
MODELS = {
    "ODM": ODMClassifier(probability=False, kernel="rbf", random_state=0),
    "ReLSR": ReLSRClassifier(probability=False, kernel="rbf", beta=0.01, random_state=0),
    "LRRR": LRRRClassifier(probability=False, kernel="rbf", beta=0.1, random_state=0),
    "DRM": DRMClassifier(probability=False, kernel="rbf", random_state=0),
}
ACCURACY = (
    f"Accuracy on up to {N_TEST:,} held-out rows after a fit to up to {N_ROWS:,} standardised rows "
    "(pendigits 7,494 and 3,498), with the exact RBF kernel and with the Nyström method. Other "
    "parameters: ReLSR with beta = 0.01, LRRR with beta = 0.1, otherwise defaults."
)
TIME = (
    "Seconds of one fit with 600 components of the Nyström method and an RBF kernel to rows of 20 "
    "features and two classes, each in a process of its own with two threads, and the memory that "
    "the process gained. Arrays are in float64, memory maps in float32."
)


def one_set(name: str) -> tuple[Any, Any, Any, Any]:
    with np.load(DATA / f"{name}.npz") as data:
        X, y = data["X"].astype(np.float64), data["y"]
    order = np.random.RandomState(0).permutation(len(X))
    n_train = 7_494 if name == "pendigits" else N_ROWS
    train, test = order[:n_train], order[n_train:][:N_TEST]
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def accuracies() -> Iterator[tuple[Any, ...]]:
    for name in SETS:
        X, y, X_test, y_test = one_set(name)
        for title, model in MODELS.items():
            scores, error = [], ""
            for size in (None, *SIZES):
                scores.append(model.set_params(n_components=size).fit(X, y).score(X_test, y_test))
                if size == SHOWN:
                    error = f"{model.kernel_error_:.3f}"
            print(name, title, *(f"{score:.4f}" for score in scores), error, flush=True)
            yield (name, title, *(f"{score:.3f}" for score in scores), error)


def peak() -> float:
    """Largest memory of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one_fit(title: str, n_rows: int, path: str | None) -> tuple[float, float, float]:
    """Fit a model; return the seconds, the additional memory and the accuracy on some rows."""
    X, y = make_classification(2_000, 20, n_informative=10, random_state=0)
    model = MODELS[title].set_params(n_components=600)
    model.fit(X, y)  # compiles
    X, y = rows(n_rows, path)
    before, start = peak(), perf_counter()
    model.fit(X, y)
    seconds, more = perf_counter() - start, peak() - before
    return seconds, more, model.score(np.asarray(X[:20_000]), y[:20_000])


def rows(n_rows: int, path: str | None) -> tuple[Any, Any]:
    """Rows in memory, or a memory map of rows in a file."""
    X, y = make_classification(
        100_000, 20, n_informative=10, n_clusters_per_class=4, random_state=1
    )
    if path is None:
        return X[:n_rows], y[:n_rows]
    copies = n_rows // len(X)
    if not Path(path).exists():
        noise = np.random.default_rng(0)
        with Path(path).open("wb") as file:
            for _ in range(copies):
                (X + 0.1 * noise.standard_normal(X.shape)).astype(np.float32).tofile(file)
    return np.memmap(path, np.float32, "r", shape=(n_rows, 20)), np.tile(y, copies)


def times() -> Iterator[tuple[Any, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        mapped = str(Path(folder) / "rows.f32")
        for n_rows, path in ((100_000, None), (1_000_000, mapped)):
            for title in MODELS:
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    seconds, more, score = pool.submit(one_fit, title, n_rows, path).result()
                where = "array" if path is None else "memory map"
                yield f"{n_rows:,}", where, title, f"{seconds:.1f}", f"{more:.0f}", f"{score:.3f}"


if __name__ == "__main__":
    pages = sys.argv[1:] or ["accuracy", "time"]
    if "accuracy" in pages:
        header = ["data", "model", "exact", *(f"{size:,} components" for size in SIZES)]
        header.append(f"kernel_error_, {SHOWN} components")
        title = "Accuracy of approximated kernels"
        print(write_table("components_accuracy", title, ACCURACY, header, accuracies()))
    if "time" in pages:
        header = ["rows", "from", "model", "seconds", "MB", "accuracy"]
        title = "Time and memory of approximated kernels"
        print(write_table("components_time", title, TIME, header, times()))
