"""Fits to memory maps and on Dask: speed, memory, two workers, passes, and constants of the costs.

Run ``python benchmarks/streams.py``, or name some of its tables to look at them only. The rows are
made once, some 4 GB in the folder ``discreg-streams`` of the temporary folder, and are left there.
``DISCREG_STREAM_SCALE`` multiplies the numbers of rows, for a quick look; below 0.2 some maps are
too small to be fitted block by block. The sampling of memory needs Linux.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import get_context
from operator import add
from pathlib import Path
from threading import Event, Thread
from time import perf_counter

import dask
import dask.array as da
import numpy as np
from _timing import Table, side_by_side, write_page
from distributed import Client, LocalCluster
from sklearn.linear_model import SGDClassifier
from sklearn.utils import gen_batches
from threadpoolctl import threadpool_limits

from discreg import (
    DLSRClassifier,
    DRMClassifier,
    GReLSRClassifier,
    LRRRClassifier,
    LSRClassifier,
    ODMClassifier,
    ReLSRClassifier,
)
from discreg.core.moments import block_moments, class_scatters
from discreg.core.rows import pull_back, times
from discreg.core.table import LARGEST_BLOCK, ArrayTable, Block, count_block
from discreg.margin._table_pass import Losses, Point, block_sums

SCALE = float(os.environ.get("DISCREG_STREAM_SCALE", "1"))
REPEATS = 3
MAP_ROWS, MAP_FEATURES = int(10_000_000 * SCALE), 50
DASK_ROWS, DASK_FEATURES = int(5_000_000 * SCALE), 100
FOLD_ROWS = DASK_ROWS
ODM_ROWS = MAP_ROWS // 2
PASS_ROWS, PASS_CLASSES = max(MAP_ROWS // 10, 400_000), 5
HELD_OUT = 100_000
CHUNK_BYTES = 100_000_000
FEWEST_CHUNKS = 10
WIDTHS = (50, 100, 1000)
GEMM_BYTES = 1 << 26
STATISTICS = (1000, 2000)  # features, of statistics that are moved
MOVES = 11
TASKS = 1000
NOISE = 1.0  # standard deviations of the rule's scores
FOLDER = Path(tempfile.gettempdir()) / "discreg-streams"
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

MODELS = {
    "LSR": LSRClassifier,
    "LRRR": LRRRClassifier,
    "DRM, linear": partial(DRMClassifier, kernel="linear"),
}


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


def held_out():
    """Rows that no fit has seen."""
    return noisy_rule(HELD_OUT, MAP_FEATURES, 1_000_000)


def batches(X) -> Iterator[slice]:
    """The blocks in which a memory map is read."""
    return gen_batches(len(X), max(1, LARGEST_BLOCK // (X.shape[1] * X.itemsize)))


def bare(X):
    """The least that any of the fits has to do."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for rows in batches(X):
        total += X[rows].T @ X[rows]
    return total


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
            yield (
                f"{n_rows:,} x {MAP_FEATURES}",
                name,
                f"{spent:.2f}",
                f"{X.nbytes / spent / 1e9:.2f}",
                f"{seconds['bare products'] / spent:.2f}",
                f"{apart(peak_of_fit, name, n_rows):.0f}" if name in MODELS else "",
            )


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
def counted_passes() -> Iterator[list[str]]:
    """Names of the statistics of all passes over the rows meanwhile."""
    passes: list[str] = []
    fold = ArrayTable.raw_fold

    def counting(self, statistic, *args):
        if statistic is not count_block:  # which looks at labels only
            inner = next((each for each in args if callable(each)), statistic)
            passes.append(inner.__name__)
        return fold(self, statistic, *args)

    ArrayTable.raw_fold = counting
    try:
        yield passes
    finally:
        ArrayTable.raw_fold = fold


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
    odm = ODMClassifier(kernel="linear")
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
    rbf = DRMClassifier(n_components=100, random_state=0)
    models = {
        "LSR": LSRClassifier(),
        "LRRR": LRRRClassifier(),
        "DRM, linear": DRMClassifier(kernel="linear"),
        "DRM, RBF of 100 features": rbf,
        "DLSR": DLSRClassifier(),
        "ReLSR": ReLSRClassifier(),
        "GReLSR": GReLSRClassifier(),
        "ODM, linear": ODMClassifier(kernel="linear"),
    }
    for name, model in models.items():
        model.fit(X[:350_000], y[:350_000])  # compiles
        with counted_passes() as passes:
            start = perf_counter()
            model.fit(X, y)
            seconds = perf_counter() - start
        squares = sum(each in SQUARES for each in passes)
        gap = getattr(model, "gap_", None)
        yield (
            name,
            len(passes),
            squares,
            f"{seconds:.2f}",
            "" if gap is None else f"{gap:.0e}",
        )


EVALUATION = "X W and Xᵀ R of 10 columns (DLSR, ReLSR, GReLSR)"
SQUARES = (
    "block_moments",
    "_labelled_moments",
    "_scatters",
    "block_sums",
)  # statistics that multiply p x p numbers


def constants():
    """The numbers that a plan needs."""
    with threadpool_limits(1):
        yield from products()
    X, _ = Rows(MAP_ROWS, MAP_FEATURES).map()
    seconds = side_by_side({"": read_afresh}, REPEATS)[""]
    yield "read a memory map, in the page cache", "", f"{X.nbytes / seconds / 1e9:.1f}", "GB/s"
    with workers(2) as client:
        for n_features in STATISTICS:
            yield (
                "move a statistic between workers",
                f"{n_features:,} features, {8 * n_features**2 / 1e6:.0f} MB",
                f"{moved_a_second(client, n_features) / 1e6:.0f}",
                "MB/s",
            )
        for scheduler, label in ((client, "two workers"), ("synchronous", "synchronous")):
            spent = side_by_side({"": under(scheduler, many_tasks)}, REPEATS)[""]
            yield "overhead of a Dask task", label, f"{1e3 * spent / TASKS:.2f}", "ms"


def products():
    """Gigaflops of one thread for the statistics of rows."""
    rng = np.random.default_rng(0)
    for n_features in WIDTHS:
        for dtype in (np.float32, np.float64):
            n_rows = GEMM_BYTES // (n_features * np.dtype(dtype).itemsize)
            X = rng.standard_normal((n_rows, n_features), dtype=dtype)
            block = Block(X, rng.integers(0, 10, n_rows), np.ones(n_rows))
            functions = {
                "Σ x xᵀ, bare": partial(by_small_blocks, X),
                "moments (LSR, LRLR, LRRR, SLRR)": partial(block_moments, block, 10),
                "scatters of 10 classes (DRM)": partial(class_scatters, block, 10, 1.0, 1.0),
                "Newton pass over rows that all curve (ODM)": partial(
                    block_sums,
                    block,
                    np.zeros(n_features),
                    Losses(0.8, 1.2, 1.0, 0.1),
                    (Point(0, np.zeros(n_features), 0.0),),
                    (),
                ),
                EVALUATION: partial(there_and_back, X, np.ones((n_features, 10))),
            }
            seconds = side_by_side(functions, REPEATS)
            for label, spent in seconds.items():
                flops = n_rows * n_features * (40 if label == EVALUATION else n_features)
                yield (
                    label,
                    f"{n_features:,} features, {np.dtype(dtype).name}",
                    f"{flops / spent / 1e9:.1f}",
                    "GFLOP/s",
                )


def there_and_back(X, coef):
    """The products of an evaluation."""
    return pull_back(X, times(X, coef))


def by_small_blocks(X):
    """Σ x xᵀ by blocks that stay in the cache."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for rows in gen_batches(len(X), max(2 * X.shape[1], (1 << 19) // (X.shape[1] * X.itemsize))):
        total += X[rows].T @ X[rows]
    return total


def read_afresh() -> None:
    """Read all rows of a new map into a buffer that stays in the cache."""
    X, _ = Rows(MAP_ROWS, MAP_FEATURES).map()
    numbers = X.reshape(-1)
    buffer = np.empty(1 << 16, dtype=np.float32)
    for some in gen_batches(len(numbers), len(buffer)):
        np.copyto(buffer[: some.stop - some.start], numbers[some])


def moved_a_second(client: Client, n_features: int) -> float:
    """Bytes a second from one worker to another, without the time of a task that moves nothing."""
    here, there = client.scheduler_info(n_workers=-1)["workers"]
    spent = []
    for _ in range(MOVES):
        statistic = client.submit(np.ones, (n_features, n_features), workers=[here], pure=False)
        nothing = client.submit(np.ones, (1, 1), workers=[here], pure=False)
        client.gather(
            [client.submit(np.shape, each, workers=[here]) for each in (statistic, nothing)]
        )
        times = []
        for each in (nothing, statistic):
            start = perf_counter()
            client.submit(np.shape, each, workers=[there], pure=False).result()
            times.append(perf_counter() - start)
        spent.append(times[1] - times[0])
    return 8 * n_features**2 / float(np.median(spent[1:]))


def many_tasks():
    """Tasks that do next to nothing."""
    return dask.compute(*(dask.delayed(add, pure=False)(number, 1) for number in range(TASKS)))


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
        "all passes, those of them whose work is proportional to the square of the features, and "
        "seconds of one run.",
        ["model", "passes", "squares", "seconds", "gap"],
        passes_of_models(),
    ),
    "constants": lambda: Table(
        "Constants",
        "What plans need. Products are those of one thread; a matrix Σ x xᵀ of p features counts "
        "as p² flops a row, because it is symmetric; the two products with 10 columns are 40 p. "
        "Statistics that are moved are in double precision.",
        ["what", "setting", "value", "unit"],
        constants(),
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
