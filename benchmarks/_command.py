"""Runs of the command ``discreg compare`` in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from discreg import Comparison

PROGRAM = "from discreg.cli import main; main()"
TIME_LIMIT = 900  # seconds


@dataclass(frozen=True)
class Run:
    """What a run of the command ended in, and the CPU time of all its processes."""

    comparison: Comparison | None
    message: str
    seconds: float

    @property
    def outcome(self) -> str:
        """The verdict, or the message."""
        return self.message if self.comparison is None else self.comparison.verdict.kind


def run_compare(*arguments: object) -> Run:
    """Run ``discreg compare`` with these arguments and load the comparison."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["compare", *map(str, arguments), "--output", folder]
        began = _cpu_seconds()
        try:
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, *command],
                capture_output=True,
                text=True,
                timeout=TIME_LIMIT,
            )
        except subprocess.TimeoutExpired:
            return Run(None, f"ERROR: no end after {TIME_LIMIT} s", TIME_LIMIT)
        seconds = _cpu_seconds() - began
        if "Traceback" in done.stderr or "An error inside discreg" in done.stderr:
            return Run(None, f"ERROR: {_last_line(done.stderr)}", seconds)
        if not (Path(folder) / "report.html").exists():
            return Run(None, f"message: {_last_line(done.stderr)}", seconds)
        return Run(Comparison.load(folder), "", seconds)


def _cpu_seconds() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].replace("|", "/") if lines else "nothing was printed"
