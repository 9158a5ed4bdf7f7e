"""The ``discreg-reproduce`` command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from discreg.cli import INTERRUPTED, parse_path, parse_seconds, reports_errors, run_app
from discreg.comparison.console import ProgressBar, plain_console, show_files

from .registry import availability, entries
from .run import reproduce

__all__ = ["main"]

DATA_DIR = typer.Option(help="Directory with data sets; by default the variable DISCREG_DATA.")

app = typer.Typer(
    help="Reproduce the tables and figures of the papers behind discreg.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command with these arguments, by default those of the process, and exit."""
    run_app(app, "discreg-reproduce", argv)


@app.command(help="Run studies of the papers and write a report.")
@reports_errors
def run(
    study: Annotated[
        str | None,
        typer.Argument(
            help="Paper or study, for example odm or odm/table2; all studies by default."
        ),
    ] = None,
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    output: Annotated[
        Path,
        typer.Option(
            help="Directory for the results; fits stored there are not repeated.",
            parser=parse_path,
            metavar="PATH",
        ),
    ] = Path("discreg-reproduction"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Run only some of the fits, in minutes.")
    ] = False,
    n_jobs: Annotated[
        int | None, typer.Option(help="Number of processes; one per core by default.", min=1)
    ] = None,
    earlier: Annotated[
        Path | None,
        typer.Option(
            help="results.csv of an earlier run: its means are shown where it has more fits.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(
            help="Stop after this time, for example 90s, 10m or 1h; the same command continues."
        ),
    ] = None,
) -> int:
    seconds = parse_seconds(time_budget)
    with ProgressBar() as on_progress:
        result = reproduce(
            study,
            output,
            data_dir=data_dir,
            quick=quick,
            n_jobs=n_jobs or os.cpu_count() or 1,
            time_budget=seconds,
            earlier=earlier,
            on_progress=on_progress,
        )
    for text in result.texts:
        print(text)
    show_files(output, (".html", ".parquet", ".md"))
    return INTERRUPTED if result.progress.stopped_by == "interrupt" else 0


@app.command(help="List the data sets of the papers and their sources.")
@reports_errors
def datasets(data_dir: Annotated[Path | None, DATA_DIR] = None) -> int:
    found = availability(data_dir)
    table = Table(box=None, pad_edge=False)
    for title in ("name", "in the paper", "papers", "paper's shape", "copy", "classes", "from"):
        table.add_column(title)
    for entry in entries().values():
        shapes = ((entry.n_samples, entry.n_features), entry.shape)
        table.add_row(
            entry.name,
            entry.title,
            " ".join(entry.papers),
            *(" x ".join(str(each or "?") for each in shape) for shape in shapes),
            str(entry.n_classes or "?"),
            found[entry.name] or "not available",
        )
    plain_console().print(table)
    print("\nDifferences from the papers' versions:")
    for entry in entries().values():
        if entry.difference:
            print(f"  {entry.name}: {entry.difference}")
    print("\nAddresses that the papers give:")
    for url in dict.fromkeys(entry.url for entry in entries().values() if entry.url):
        names = (entry.name for entry in entries().values() if entry.url == url)
        print(f"  {url}: {', '.join(names)}")
    print(f"{sum(map(bool, found.values()))} of {len(found)} data sets are available.")
    return 0
