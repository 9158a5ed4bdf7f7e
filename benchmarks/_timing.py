"""Timing side by side, and tables of the results that say on which machine they were measured.

Ratios to peers are also stored as JSON, from which ``run.py`` makes an overview. Where
scikit-learn-intelex is installed, its estimators are further peers.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

RESULTS = Path(os.environ.get("DISCREG_RESULTS", Path(__file__).parent / "results"))
REST = 0.15  # seconds: OpenBLAS keeps its threads spinning for a tenth of a second
LIBRARIES = (
    *("numpy", "scipy", "scikit-learn", "scikit-learn-intelex", "numba"),
    *("skl2onnx", "onnx", "onnxruntime"),
)
KINDS = ("fit", "search", "predict", "stream")  # what is compared with a peer
_ratios: dict[str, dict[str, float]] = {}


def one_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Limit the threads of BLAS to one in calls of a function, also in worker processes."""

    @wraps(function)
    def limited(*args: Any) -> Any:
        with threadpool_limits(1):
            return function(*args)

    return limited


def side_by_side(
    functions: Mapping[str, Callable[[], object]],
    repeats: int = 7,
    clock: Callable[[], float] = perf_counter,
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
            start = clock()
            function()
            seconds[name].append(clock() - start)
    return {name: median(times) for name, times in seconds.items()}


def machine() -> str:
    """Processor, number of CPUs, threads of BLAS and versions of the libraries, in one sentence."""
    blas = {
        f"{library['internal_api']} with {library['num_threads']} threads"
        for library in threadpool_info()
        if library["user_api"] == "blas"
    }
    versions = ", ".join(
        f"{library} {number}" for library in LIBRARIES if (number := _version(library))
    )
    return (
        f"{_processor()}, {os.cpu_count()} CPUs, {' and '.join(sorted(blas))}, "
        f"Python {platform.python_version()}, {versions}."
    )


def measured_on() -> str:
    """The commit that was measured, or that was changed for it, in one sentence."""
    shown = ["git", "log", "-1", "--format=%h (%as)"]
    commit = subprocess.run(
        shown, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    return f"Measured on commit {commit.stdout.strip()}."


def ratio_to_peer(kind: str, what: str, seconds: float, *peers: float) -> float:
    """Return how many times longer discreg takes than the fastest peer, and store the ratio.

    `kind` is one of KINDS, and `what` names the model and the data.
    """
    ratio = seconds / min(peers)
    _ratios.setdefault(kind, {})[what] = float(f"{ratio:.3g}")
    return ratio


def intel_peers(*models: Any) -> dict[str, Any]:
    """Return the estimators of scikit-learn-intelex with the names and parameters of given ones.

    Those that it does not have are left out, and all of them where it is not installed.
    """
    found = {}
    for model in models:
        name, module = type(model).__name__, type(model).__module__.split(".")[1]
        try:
            known = import_module(f"sklearnex.{module}")
        except ImportError:
            continue
        if name == "RidgeClassifier":
            found["Ridge (Intel)"] = _RidgeOnIndicators(known.Ridge(alpha=model.alpha))
        elif hasattr(known, name):
            found[f"{name} (Intel)"] = getattr(known, name)(**model.get_params())
    return found


@dataclass
class _RidgeOnIndicators:
    """Ridge regression onto indicators of the classes 0, 1, ..., as RidgeClassifier does it."""

    ridge: Any

    def fit(self, X: Any, y: Any) -> Any:
        self.ridge.fit(X, 2.0 * (y[:, None] == np.arange(y.max() + 1)) - 1)
        return self

    def predict(self, X: Any) -> Any:
        return self.ridge.predict(X).argmax(axis=1)


@dataclass(frozen=True)
class Table:
    """One table of a page: a title, a text below it, a header and rows."""

    title: str
    text: str
    header: Sequence[str]
    rows: Iterable[Sequence[object]] = ()

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
    """Write ``results/<name>.md`` with the tables and the machine; return it too.

    The ratios that `ratio_to_peer` stored are written to ``results/<name>.json``.
    """
    page = "\n".join(["\n".join(map(str, tables)), machine(), "", measured_on(), ""])
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(page)
    if _ratios:
        stored = {"machine": machine(), "ratios": _ratios}
        (RESULTS / f"{name}.json").write_text(json.dumps(stored, indent=2) + "\n")
    return page


def write_table(
    name: str, title: str, text: str, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> str:
    """Write ``results/<name>.md`` with one table and the machine; return it too."""
    return write_page(name, [Table(title, text, header, rows)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
