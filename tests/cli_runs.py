"""Runs of the command, in this process and in one of its own, and tables to run it on."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreg.cli import main
from discreg.comparison.running.nested_cv import NestedCrossValidation

PROGRAM = "from discreg.cli import main; main()"


def run(*arguments):
    """The exit code of the command in this process."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def refused(capsys, *arguments):
    """What the command says when it refuses to work."""
    assert run(*arguments) == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    return printed.err


def start(*arguments, program=PROGRAM, script=None, folder=None):
    """The command in a process of its own, or a script that runs it, started in a folder."""
    how = ["-c", program] if script is None else [str(script)]
    return subprocess.Popen(
        [sys.executable, *how, *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )


def interrupt(process):
    """What Ctrl-C does: the process and all that it has started are told."""
    os.killpg(process.pid, signal.SIGINT)


def attempts(output: Path) -> list[tuple[str, bool]]:
    """Fits to folds that a run has begun, and whether each ended; empty before it has begun any."""
    store = output / "results.sqlite"
    if not store.exists():
        return []
    with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as connection:
        try:
            rows = connection.execute(
                "SELECT model, repeat, fold, ended IS NOT NULL FROM attempts WHERE dataset = "
                "(SELECT dataset FROM attempts ORDER BY id LIMIT 1) ORDER BY id"
            ).fetchall()
        except sqlite3.OperationalError:  # the table is about to be made
            return []
    return [(f"{model} {repeat} {fold}", bool(ended)) for model, repeat, fold, ended in rows]


def kept_models(monkeypatch):
    """The models that a comparison fits from now on, in order."""
    kept = []
    make = NestedCrossValidation.pipeline
    monkeypatch.setattr(
        NestedCrossValidation, "pipeline", lambda *given: kept.append(make(*given)) or kept[-1]
    )
    return kept


def easy_frame(n_rows=90, n_columns=4):
    """Numbers of which the first tells three classes apart."""
    chance = np.random.default_rng(0)
    kind = np.arange(n_rows) % 3
    frame = pd.DataFrame(
        chance.normal(size=(n_rows, n_columns)),
        columns=[f"x{place}" for place in range(1, n_columns + 1)],
    )
    frame["x1"] += 4 * kind
    frame["kind"] = np.array(["ash", "beech", "cedar"])[kind]
    return frame


def odd_frame():
    """What people have: texts, truth values, gaps, a constant, names with spaces, a rare class."""
    chance = np.random.default_rng(1)
    kind = np.repeat(["<b>ill</b>", 'well, "so-so"', "rare"], [28, 24, 8])
    frame = pd.DataFrame(
        {
            "Größe (cm)": chance.normal(170, 10, 60) + 40 * (kind == "rare"),
            "a b": chance.normal(size=60) + 3 * (kind == "<b>ill</b>"),
            "colour": chance.choice(["red", "green", "blue"], 60),
            "smokes": chance.choice([True, False], 60),
            "unit": "cm",
            "kind": kind,
        }
    )
    frame.loc[3, "a b"] = np.nan
    frame.loc[[5, 7], "colour"] = None
    return frame
