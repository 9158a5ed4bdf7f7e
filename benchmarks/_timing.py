"""Timing side by side, and tables of the results that say on which machine they were measured."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

from threadpoolctl import threadpool_info

RESULTS = Path(__file__).parent / "results"
REST = 0.15  # seconds: OpenBLAS keeps its threads spinning for a tenth of a second
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


def side_by_side(
    functions: Mapping[str, Callable[[], object]], repeats: int = 7
) -> dict[str, float]:
    """Median seconds of each function, after one call each that is not timed.

    The functions take turns, so that whatever else the machine does falls on all of them alike, and
    rest in between, so that the threads of one that are still spinning do not slow down the next.
    """
    for function in functions.values():
        function()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            sleep(REST)
            start = perf_counter()
            function()
            seconds[name].append(perf_counter() - start)
    return {name: median(times) for name, times in seconds.items()}


def machine() -> str:
    """Processor, number of CPUs, threads of BLAS and versions of the libraries, in one sentence."""
    blas = {
        f"{library['internal_api']} with {library['num_threads']} threads"
        for library in threadpool_info()
        if library["user_api"] == "blas"
    }
    versions = ", ".join(f"{library} {version(library)}" for library in LIBRARIES)
    return (
        f"{_processor()}, {os.cpu_count()} CPUs, {' and '.join(sorted(blas))}, "
        f"Python {platform.python_version()}, {versions}."
    )


@dataclass(frozen=True)
class Table:
    """One table of a page: a title, a text below it, a header and rows."""

    title: str
    text: str
    header: Sequence[str]
    rows: Iterable[Sequence[object]]

    def __str__(self) -> str:
        lines = [
            f"# {self.title}",
            "",
            self.text,
            "",
            _line(self.header),
            _line(["---"] * len(self.header)),
            *(_line([str(cell) for cell in row]) for row in self.rows),
        ]
        return "\n".join(lines) + "\n"


def write_page(name: str, tables: Iterable[Table]) -> str:
    """Write ``results/<name>.md`` with the tables and the machine; return it too."""
    page = "\n".join(["\n".join(map(str, tables)), machine(), ""])
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(page)
    return page


def write_table(
    name: str, title: str, text: str, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> str:
    """Write ``results/<name>.md`` with one table and the machine; return it too."""
    return write_page(name, [Table(title, text, header, rows)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
