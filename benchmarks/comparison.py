"""What the studies cost beside fitting: the engine's share of a run, and how long commands take.

Run ``python benchmarks/studies.py``; it runs ``discreg compare`` on its default data set.
"""

from __future__ import annotations

import os
import re
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
RUNS = 5
HELP_RUNS = 9
FITS = """
SELECT began, ended, SUM(value) AS seconds FROM attempts JOIN results
USING (dataset, model, repeat, fold) WHERE metric IN ('fit_seconds', 'predict_seconds')
GROUP BY attempts.id
"""

COMPARISON = """\
With as many processes as cores. The engine's own time is that in which no process fits or predicts,
from the start of the command to its end: "starting" before the first fit, when modules are imported
and the table is read; "between" fits, where every process waits; and "ending", when statistics,
plots and files are made, without the final fit to all rows. Its share is of the whole run. Of a fit
it is known when it was handed out, when its results came, and how many seconds of that it took; it
is taken to be first in that time or last, all fits alike, whichever makes the share larger. "Of the
processes" is stricter about the time between the first and the last fit: the share of all
processes' time there that is not in fit or predict, which is splitting, judging, storing, and
waiting for the last fits of the others. Starting and ending do not grow with the number of fits.
"""
FINAL = re.compile(r'<time datetime="PT([0-9.]+)S">')  # of the report: seconds of the final fit


def seconds(arguments: list[str], folder: Path) -> float:
    """Seconds of the command with these arguments."""
    began = time.perf_counter()
    subprocess.run([*COMMAND, *arguments], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - began


def comparisons():
    """Seconds of the parts of a comparison, a row a run."""
    n_jobs = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:  # compiles what a fresh checkout has not yet
        seconds(["compare", "--models", "LSR", "--output", "out"], Path(folder))
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "out"
            started = time.time()
            whole = seconds(["compare", "--output", "out", "--n-jobs", str(n_jobs)], Path(folder))
            with sqlite3.connect(output / "results.sqlite") as store:
                fits = pd.read_sql(FITS, store)
            final = float(FINAL.search((output / "report.html").read_text(encoding="utf-8"))[1])
        run = started, started + whole - final
        taken = fits["seconds"]
        early, late = idle(run, fits["began"], taken), idle(run, fits["ended"] - taken, taken)
        starting, between, ending = max(early, late, key=sum)
        first, last = fits["began"].min(), fits["ended"].max()
        yield (
            f"{whole:.1f}",
            len(fits),
            f"{last - first:.1f}",
            f"{final:.1f}",
            f"{starting:.2f}",
            f"{between:.2f}",
            f"{ending:.2f}",
            f"{100 * (starting + between + ending) / whole:.1f} %",
            f"{100 * (1 - taken.sum() / (n_jobs * (last - first))):.1f} %",
        )


def idle(run, begins, taken):
    """Seconds of a run before the first of these intervals, in none of them, and after the last."""
    before, total, until = 0.0, 0.0, None
    for begin, end in sorted(zip(begins, begins + taken, strict=True)):
        if until is None:
            before, until = begin - run[0], begin
        total += max(0.0, begin - until)
        until = max(until, end)
    return before, total, run[1] - until


def helps():
    """Seconds of ``discreg --help``."""
    with tempfile.TemporaryDirectory() as folder:
        taken = [seconds(["--help"], Path(folder)) for _ in range(HELP_RUNS)]
    yield f"{median(taken):.2f}", f"{max(taken):.2f}"


if __name__ == "__main__":
    header = (
        "whole (s)",
        "fits",
        "fits (s)",
        "final fit (s)",
        "starting (s)",
        "between (s)",
        "ending (s)",
        "engine's share",
        "of the processes",
    )
    tables = [
        Table("`discreg compare` on its default data set", COMPARISON, header, comparisons()),
        Table("`discreg --help`", "In a fresh process.", ("median (s)", "slowest (s)"), helps()),
    ]
    print(write_page("studies", tables))
