"""The ``discreg-reproduce`` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from discreg.base.errors import InputError
from discreg.comparison.console import Bar

from .registry import availability, entries
from .run import reproduce

__all__ = ["main"]

INTERRUPTED = 130  # exit code of a process that Ctrl-C has ended
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
DATA_DIR = typer.Option(help="Directory with data sets; or set DISCREG_DATA.")

app = typer.Typer(
    help="Run the tables and figures of the papers behind discreg again.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command(help="Run one study, the studies of a paper, or all; ours beside the paper's.")
def run(
    study: Annotated[
        str | None, typer.Argument(help="A paper or one of its tables: drm, odm/table2.")
    ] = None,
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    output: Annotated[
        Path, typer.Option(help="Directory for the results; what it holds is continued.")
    ] = Path("discreg-reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="A first look in minutes.")] = False,
    n_jobs: Annotated[
        int | None, typer.Option(help="Processes; by default one per core.", min=1)
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(help="Stop after this time: 90s, 10m, 1h. The same command continues."),
    ] = None,
) -> None:
    with Bar() as tell:
        reproduced = reproduce(
            study,
            output,
            data_dir=data_dir,
            quick=quick,
            n_jobs=n_jobs or os.cpu_count() or 1,
            time_budget=_seconds(time_budget),
            tell=tell,
        )
    for text in reproduced.texts:
        print(text)
    for path in sorted(output.iterdir()):
        if path.suffix in (".html", ".parquet", ".md"):
            print(path)
    if reproduced.progress.stopped_by == "interrupt":
        raise typer.Exit(INTERRUPTED)


@app.command(help="List the data sets that the papers name, and where they come from here.")
def datasets(data_dir: Annotated[Path | None, DATA_DIR] = None) -> None:
    found = availability(data_dir)
    table = Table(box=None, pad_edge=False)
    for title in ("name", "in the paper", "papers", "samples x features", "classes", "from"):
        table.add_column(title, no_wrap=True)
    for entry in entries().values():
        table.add_row(
            entry.name,
            entry.title,
            " ".join(entry.papers),
            f"{entry.n_samples or '?'} x {entry.n_features or '?'}",
            str(entry.n_classes or "?"),
            found[entry.name] or "not available",
        )
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000  # a file or another program breaks no line
    console.print(table)
    print(f"{sum(map(bool, found.values()))} of {len(found)} data sets are available.")


def _seconds(text: str | None) -> float | None:
    """Seconds of "90", "90s", "10m" or "1h"."""
    if text is None:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InputError(f"--time-budget {text} is no time: write 90s, 10m or 1h.")
    return seconds


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command with the given arguments, or with those of the process, and exit."""
    try:
        app(args=argv, prog_name="discreg-reproduce")
    except InputError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
