"""What the studies cost beside fitting: the engine's share of a run, and how long commands take.

Run ``python benchmarks/studies.py``; it runs ``discreg compare`` on its default data set.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import pandas as pd
from _timing import Table, write_page

COMMAND = [sys.executable, "-c", "from discreg.cli import main; main()"]
RUNS = 3
HELP_RUNS = 9

COMPARISON = """\
With as many processes as cores. "Starting" is the time before the first fit: importing, in every
process, and reading the table. "Fits" is the time from there to the end of the last fit; of the
processes' time in it, the share beside fit and predict is the engine's own: splitting, judging,
storing, waiting. "Ending" is what comes after: the model fitted to all rows, statistics, plots and
files. Starting and ending do not grow with the number of fits.
"""


def seconds(arguments: list[str], folder: Path) -> float:
    """Seconds of the command with these arguments."""
    began = time.perf_counter()
    subprocess.run([*COMMAND, *arguments], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - began


def comparisons():
    """Seconds of the parts of a comparison, a row a run."""
    n_jobs = os.cpu_count() or 1
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            started = time.time()
            total = seconds(["compare", "--output", "out", "--n-jobs", str(n_jobs)], Path(folder))
            with sqlite3.connect(Path(folder) / "out" / "results.sqlite") as store:
                attempts = pd.read_sql("SELECT began, ended FROM attempts", store)
                results = pd.read_sql("SELECT metric, value FROM results", store)
        at_work = results[results["metric"].isin(["fit_seconds", "predict_seconds"])]["value"].sum()
        starting = attempts["began"].min() - started
        fits = attempts["ended"].max() - attempts["began"].min()
        yield (
            f"{total:.1f}",
            f"{starting:.1f}",
            f"{fits:.1f}",
            len(attempts),
            f"{100 * (1 - at_work / (n_jobs * fits)):.1f} %",
            f"{total - starting - fits:.1f}",
        )


def helps():
    """Seconds of ``discreg --help``."""
    with tempfile.TemporaryDirectory() as folder:
        taken = [seconds(["--help"], Path(folder)) for _ in range(HELP_RUNS)]
    yield f"{median(taken):.2f}", f"{max(taken):.2f}"


if __name__ == "__main__":
    header = ("whole (s)", "starting (s)", "fits (s)", "number", "engine's share", "ending (s)")
    tables = [
        Table("`discreg compare` on its default data set", COMPARISON, header, comparisons()),
        Table("`discreg --help`", "In a fresh process.", ("median (s)", "slowest (s)"), helps()),
    ]
    print(write_page("studies", tables))
