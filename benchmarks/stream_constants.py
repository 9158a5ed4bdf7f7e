"""Constants of the costs of fits beyond memory, which plans need.

Run ``python benchmarks/stream_constants.py``; see `_stream_rows` for the rows it reads.
"""

from __future__ import annotations

from functools import partial
from operator import add
from time import perf_counter

import dask
import numpy as np
from _stream_rows import MAP_FEATURES, MAP_ROWS, Rows, under, workers
from _timing import Table, side_by_side, write_page
from distributed import Client
from sklearn.utils import gen_batches
from threadpoolctl import threadpool_limits

from discreg.blocks.moments import block_moments, class_scatters
from discreg.blocks.source import Block
from discreg.linalg.rows import matmul, rmatmul
from discreg.margin._newton import PrimalPoint, block_sums

REPEATS = 3
WIDTHS = (50, 100, 1000)
GEMM_BYTES = 1 << 26
STATISTICS = (1000, 2000)  # features, of statistics that are moved
MOVES = 11
TASKS = 1000
EVALUATION = "X W and Xᵀ R of 10 columns (DLSR, ReLSR, GReLSR)"


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
                    (0.8, 1.2, 1.0, 10.0, np.inf),
                    (PrimalPoint(0, np.zeros(n_features), 0.0),),
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
    return rmatmul(X, matmul(X, coef))


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


if __name__ == "__main__":
    table = Table(
        "Constants",
        "What plans need. Products are those of one thread; a matrix Σ x xᵀ of p features counts "
        "as p² flops a row, because it is symmetric; the two products with 10 columns are 40 p. "
        "Statistics that are moved are in double precision.",
        ["what", "setting", "value", "unit"],
        constants(),
    )
    print(write_page("stream_constants", [table]))
