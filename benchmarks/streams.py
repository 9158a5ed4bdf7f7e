"""Fits to memory maps and on Dask: speed, memory, two workers, and passes over the rows.

Run ``python benchmarks/streams.py``, or name some of its tables to look at them only; see
`_stream_rows` for the rows. The sampling of memory needs Linux.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from time import perf_counter

import numpy as np
from _stream_rows import (
    MAP_FEATURES,
    MAP_ROWS,
    NOISE,
    ONE_THREAD,
    SCALE,
    Rows,
    bare,
    batches,
    noisy_rule,
    under,
    workers,
)
from _timing import Table, ratio_to_peer, side_by_side, write_page
from sklearn.linear_model import SGDClassifier

from discreg import (
    DLSRClassifier,
    DRMClassifier,
    GReLSRClassifier,
    LRRRClassifier,
    LSRClassifier,
    ODMClassifier,
    ReLSRClassifier,
)
from discreg.blocks.source import ArrayBlocks, count_block

REPEATS = 3
DASK_ROWS, DASK_FEATURES = int(5_000_000 * SCALE), 100
FOLD_ROWS = DASK_ROWS
ODM_ROWS = MAP_ROWS // 2
PASS_ROWS, PASS_CLASSES = max(MAP_ROWS // 10, 400_000), 5
HELD_OUT = 100_000

MODELS = {
    "LSR": partial(LSRClassifier, probability=False),
    "LRRR": partial(LRRRClassifier, probability=False),
    "LRRR with probabilities": LRRRClassifier,
    "DRM, linear": partial(DRMClassifier, kernel="linear", probability=False),
}


def held_out():
    """Rows that no fit has seen."""
    return noisy_rule(HELD_OUT, MAP_FEATURES, 1_000_000)


def fit(model, X, y):
    return lambda: model.fit(X, y)


def apart(function: Callable, *args, **environment: str):
    """What a function gives in a fresh process with some variables in its environment."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(function, *args).result()
    finally:
        os.environ.clear()
        os.environ.update(before)


def anonymous_bytes() -> int:
    """Memory of this process that is no page of a file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("RssAnon"))
    return 1024 * int(line.split()[1])


def peak_of_fit(name: str, n_rows: int) -> float:
    """Megabytes that a fit to a memory map takes at most, beyond those before it."""
    X, y = noisy_rule(1_000, MAP_FEATURES, 0)
    MODELS[name]().partial_fit(X, y, classes=[0, 1])  # imports and compiled code come before
    X, y = Rows(MAP_ROWS, MAP_FEATURES).map(n_rows)
    before = anonymous_bytes()
    found, done = [before], Event()

    def sample() -> None:
        while not done.wait(0.001):
            found.append(anonymous_bytes())

    sampler = Thread(target=sample)
    sampler.start()
    MODELS[name]().fit(X, y)
    done.set()
    sampler.join()
    return (max(found) - before) / 1e6


def memory_map():
    """Seconds and memory of fits to a memory map, beside bare products."""
    rows = Rows(MAP_ROWS, MAP_FEATURES)
    for n_rows in (MAP_ROWS // 4, MAP_ROWS):
        X, y = rows.map(n_rows)
        fits = {name: fit(model(), X, y) for name, model in MODELS.items()}
        seconds = side_by_side({"bare products": partial(bare, X), **fits}, REPEATS)
        for name, spent in seconds.items():
            if name in MODELS:
                what = f"{name}, memory map of {n_rows:,} x {MAP_FEATURES}"
                ratio_to_peer("stream", what, spent, seconds["bare products"])
            yield (
                f"{n_rows:,} x {MAP_FEATURES}",
                name,
                f"{spent:.2f}",
                f"{X.nbytes / spent / 1e9:.2f}",
                f"{seconds['bare products'] / spent:.2f}",
                f"{apart(peak_of_fit, name, n_rows):.0f}" if name in MODELS else "",
            )


def two_workers():
    """Seconds of fits on Dask with one worker and with two."""
    X, y = Rows(DASK_ROWS, DASK_FEATURES).collections()
    with ExitStack() as stack:
        clients = {number: stack.enter_context(workers(number)) for number in (1, 2)}
        for name, model in MODELS.items():
            function = fit(model(), X, y)
            seconds = side_by_side(
                {str(number): under(client, function) for number, client in clients.items()},
                REPEATS,
            )
            yield (
                f"{DASK_ROWS:,} x {DASK_FEATURES}",
                X.npartitions,
                name,
                f"{seconds['1']:.2f}",
                f"{seconds['2']:.2f}",
                f"{seconds['1'] / seconds['2']:.2f}",
            )


def executors() -> list[dict[str, float]]:
    """Seconds of fits in this process and on Dask, for each model."""
    rows = Rows(DASK_ROWS, DASK_FEATURES)
    found = []
    with workers(1) as client:
        for name in ("LSR", "LRRR"):
            model = MODELS[name]()
            on_dask = fit(model, *rows.collections(FOLD_ROWS))
            functions = {
                "memory map": partial(map_and_fit, model, rows),
                "Dask, synchronous": under("synchronous", on_dask),
                "Dask, one worker": under(client, on_dask),
            }
            found.append(side_by_side(functions, REPEATS))
    return found


def map_and_fit(model, rows: Rows):
    """Fit to a new map, as Dask maps its chunks anew."""
    return model.fit(*rows.map(FOLD_ROWS))


def beside_the_fold():
    """What Dask costs beside the same work in one thread."""
    Rows(DASK_ROWS, DASK_FEATURES)
    for name, seconds in zip(("LSR", "LRRR"), apart(executors, **ONE_THREAD), strict=True):
        alone = seconds["memory map"]
        for executor, spent in seconds.items():
            yield (
                f"{FOLD_ROWS:,} x {DASK_FEATURES}",
                name,
                executor,
                f"{spent:.2f}",
                f"{100 * (spent / alone - 1):+.0f} %",
            )


@contextmanager
def counted_passes() -> Iterator[list[object]]:
    """The statistics of all passes over the rows meanwhile."""
    passes: list[object] = []
    fold = ArrayBlocks.reduce_raw

    def counting(self, statistic, *args):
        if statistic is not count_block:  # which looks at labels only
            passes.append(statistic)
        return fold(self, statistic, *args)

    ArrayBlocks.reduce_raw = counting
    try:
        yield passes
    finally:
        ArrayBlocks.reduce_raw = fold


def objectives(coef, intercept: float, X, y, odm: ODMClassifier) -> tuple[float, float]:
    """The objective of ODM, and that of the squared hinge of the same weight, of a solution."""
    odm_loss = hinge_loss = 0.0
    for rows in batches(X):
        margins = np.where(y[rows] > 0, 1.0, -1.0) * (X[rows] @ coef + intercept)
        odm_loss += odm.C1 * float((np.maximum(0.0, 1 - odm.D - margins) ** 2).sum())
        odm_loss += odm.C2 * float((np.maximum(0.0, margins - 1 - odm.D) ** 2).sum())
        hinge_loss += odm.C1 * float((np.maximum(0.0, 1 - margins) ** 2).sum())
    half = 0.5 * float(coef @ coef)
    return half + odm_loss / len(y), half + hinge_loss / len(y)


def by_newton():
    """Linear ODM beside stochastic gradients with as many passes over the same blocks."""
    X, y = Rows(MAP_ROWS, MAP_FEATURES).map(ODM_ROWS)
    X_test, y_test = held_out()
    odm = ODMClassifier(probability=False, kernel="linear")
    odm.fit(*Rows(MAP_ROWS, MAP_FEATURES).map(min(ODM_ROWS, 500_000)))  # compiles
    bare(X)  # reads the file
    start = perf_counter()
    with counted_passes() as passes:
        odm.fit(X, y)
    seconds = {"ODM": perf_counter() - start}
    models = {"ODM": odm}
    for label, average in (("SGD, squared hinge", False), ("SGD, averaged", len(y))):
        sgd = SGDClassifier(loss="squared_hinge", alpha=1 / odm.C1, average=average, random_state=0)
        start = perf_counter()
        for _ in passes:
            for rows in batches(X):
                sgd.partial_fit(X[rows], y[rows], classes=[0, 1])
        seconds[label] = perf_counter() - start
        models[label] = sgd
    reached = {
        label: objectives(model.coef_[0], float(model.intercept_[0]), X, y, odm)
        for label, model in models.items()
    }
    for label, model in models.items():
        yield (
            f"{ODM_ROWS:,} x {MAP_FEATURES}",
            label,
            len(passes),
            f"{seconds[label]:.2f}",
            f"{model.gap_:.0e}" if label == "ODM" else "",
            *(f"{a / b:.4f}" for a, b in zip(reached[label], reached["ODM"], strict=True)),
            f"{100 * model.score(X_test, y_test):.2f}",
        )


def passes_of_models():
    """Passes over the rows of all models, for more than two classes."""
    X, _ = Rows(MAP_ROWS, MAP_FEATURES).map(PASS_ROWS)
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(MAP_FEATURES, PASS_CLASSES))
    noise = NOISE * np.sqrt(MAP_FEATURES) * rng.normal(size=(PASS_ROWS, PASS_CLASSES))
    y = (X @ directions + noise).argmax(axis=1)
    rbf = DRMClassifier(probability=False, n_components=100, random_state=0)
    models = {
        "LSR": LSRClassifier(probability=False),
        "LRRR": LRRRClassifier(probability=False),
        "DRM, linear": DRMClassifier(probability=False, kernel="linear"),
        "DRM, RBF of 100 features": rbf,
        "DLSR": DLSRClassifier(probability=False),
        "ReLSR": ReLSRClassifier(probability=False),
        "GReLSR": GReLSRClassifier(probability=False),
        "ODM, linear": ODMClassifier(probability=False, kernel="linear"),
    }
    for name, model in models.items():
        model.fit(X[:350_000], y[:350_000])  # compiles
        with counted_passes() as passes:
            start = perf_counter()
            model.fit(X, y)
            seconds = perf_counter() - start
        gap = getattr(model, "gap_", None)
        yield (
            name,
            len(passes),
            f"{seconds:.2f}",
            "" if gap is None else f"{gap:.0e}",
        )


TABLES = {
    "map": lambda: Table(
        "Memory map",
        f"Seconds to fit float32 rows of two classes in a memory map whose file is in the page "
        f"cache, medians of {REPEATS} runs that take turns, beside bare products "
        "`total += X[block].T @ X[block]` over the same blocks of 64 MB; the rows read a second; "
        "the speed relative to the bare products; and by how much the memory of a fresh process "
        "grows at most during the fit, pages of the file not counted.",
        ["rows", "model", "seconds", "GB/s", "speed", "memory in MB"],
        memory_map(),
    ),
    "workers": lambda: Table(
        "Two workers",
        "Seconds to fit Dask arrays with one and with two worker processes of one thread on this "
        f"machine, medians of {REPEATS} runs that take turns. Chunks of at most 100 MB are mapped "
        "on the workers.",
        ["rows", "chunks", "model", "one worker", "two workers", "ratio"],
        two_workers(),
    ),
    "fold": lambda: Table(
        "Dask beside the fold",
        "Seconds to fit the same rows in one thread: as a memory map, and as a Dask array of "
        "chunks of at most 100 MB, in the same process or on a worker.",
        ["rows", "model", "executor", "seconds", "overhead"],
        beside_the_fold(),
    ),
    "odm": lambda: Table(
        "Linear ODM by Newton",
        "Passes over a memory map (the first finds the moments), seconds of one run, and the gap. "
        "SGDClassifier takes the same blocks by `partial_fit`, as often, with the squared hinge "
        "and alpha = 1 / C1; averaged, its coefficients are means over all passes but the first. "
        "Both objectives at each solution are relative to their values at ODM's: that of ODM, and "
        f"that of the squared hinge. Accuracy on {HELD_OUT:,} other rows.",
        [
            "rows",
            "model",
            "passes",
            "seconds",
            "gap",
            "ODM's objective",
            "squared hinge's",
            "accuracy",
        ],
        by_newton(),
    ),
    "passes": lambda: Table(
        "Passes over the rows",
        f"Defaults, {PASS_ROWS:,} x {MAP_FEATURES} rows of {PASS_CLASSES} classes in a memory map: "
        "passes, and seconds of one run.",
        ["model", "passes", "seconds", "gap"],
        passes_of_models(),
    ),
}


def main() -> None:
    chosen = sys.argv[1:]
    if chosen:  # some tables only, to look at
        for name in chosen:
            print(TABLES[name]())
    else:
        print(write_page("streams", [make() for make in TABLES.values()]))


if __name__ == "__main__":
    main()
