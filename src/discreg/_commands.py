"""The jobs of the ``discreg`` command. What a job needs is imported when it runs."""

from __future__ import annotations

import functools
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreg import __version__
from discreg.cli import INSTALL, INTERRUPTED

if TYPE_CHECKING:
    from discreg.tables.table import Table

__all__ = ["app"]

TRACEBACK = "DISCREG_TRACEBACK"  # set it to see where an error inside discreg came from
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
SAVED = "Done so far is kept; the same command goes on from there."


def _told(job: Callable[..., int]) -> Callable[..., None]:
    """A job whose errors are told in a sentence, never as a traceback."""

    @functools.wraps(job)
    def run(*arguments: Any, **options: Any) -> None:
        from discreg.base.errors import InputError

        try:
            code = job(*arguments, **options)
        except InputError as error:
            code = _complain(str(error), 2)
        except KeyboardInterrupt:
            code = _complain(f"Interrupted. {SAVED}", INTERRUPTED)
        except ModuleNotFoundError as error:
            code = _complain(f"{INSTALL} ({error.name} is missing).", 2)
        except sqlite3.Error as error:
            code = _complain(f"Results could not be stored ({error}). Is the disk full?", 2)
        except (OSError, MemoryError) as error:
            code = _complain(f"{type(error).__name__}: {error}", 2)
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            code = _complain(
                f"An error inside discreg: {type(error).__name__}: {error}\n"
                f"Set {TRACEBACK}=1 and run again to see where; please report it.",
                1,
            )
        raise typer.Exit(code)

    return run


def _complain(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code


app = typer.Typer(
    help="Discriminative regression classifiers for scikit-learn: which one suits your table?",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"discreg {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    pass


OUTPUT = typer.Option(help="Directory for the results; what it holds is continued.")
N_JOBS = typer.Option(help="Processes; one for each core unless said otherwise.", min=1)
BUDGET = typer.Option(help="Stop fits after this time: 90s, 10m, 1h. The same command continues.")
DATA_DIR = typer.Option(help="Directory with data sets; or set DISCREG_DATA.")


@app.command(help="Compare all models on a table of your own, and report.")
@_told
def compare(
    file: Annotated[
        Path | None,
        typer.Argument(help="CSV, TSV, Parquet, ARFF, svmlight or npz, also gzipped."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column of labels.")] = None,
    output: Annotated[Path, OUTPUT] = Path("discreg-comparison"),
    fold: Annotated[
        str | None, typer.Option(help="A column that says in which fold a row is tested.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Without a file: one of scikit-learn's data sets.")
    ] = None,
    models: Annotated[str | None, typer.Option(help="Some of them: ReLSR,DRM,SVC.")] = None,
    folds: Annotated[
        int | None, typer.Option(help="Folds of cross-validation; 5 unless said otherwise.", min=2)
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="How often they are drawn; 2 unless said otherwise.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the chance in folds.", min=0, max=2**31)] = 0,
    n_jobs: Annotated[int | None, N_JOBS] = None,
    time_budget: Annotated[str | None, BUDGET] = None,
) -> int:
    from discreg.comparison.importing import import_largest, no_collection

    seconds = _seconds(time_budget)
    with no_collection():
        import_largest()
        from discreg.base.errors import InputError
        from discreg.comparison import console
        from discreg.comparison.compare import compare as run
        from discreg.comparison.nested_cv import N_FOLDS, N_REPEATS
    if fold is not None and (folds is not None or repeats is not None):
        raise InputError("--folds and --repeats draw folds; with --fold the table gives them.")
    table = _table(file, target, fold, dataset)
    console.show_table(table)
    with console.Bar() as tell:
        compared = run(
            table,
            output,
            models=None if models is None else [name.strip() for name in models.split(",")],
            n_repeats=repeats or N_REPEATS,
            n_folds=folds or N_FOLDS,
            seed=seed,
            n_jobs=n_jobs or os.cpu_count() or 1,
            time_budget=seconds,
            tell=tell,
        )
    console.show_comparison(compared, output)
    if compared.progress.stopped_by == "interrupt":
        return INTERRUPTED
    return 0 if compared.verdict is not None else 1  # nothing came out


@app.command(help="Label the rows of a file with a model that compare has written.")
@_told
def predict(
    model: Annotated[Path, typer.Argument(help="The model, such as model.skops.")],
    file: Annotated[Path, typer.Argument(help="New rows, in any format of compare.")],
    output: Annotated[
        Path | None, typer.Option(help="CSV file to write; without it the labels are printed.")
    ] = None,
) -> int:
    from discreg.comparison import console
    from discreg.comparison.predict import predict as run
    from discreg.comparison.predict import write_labels

    predicted = run(model, file)
    for note in predicted.notes:
        print(note, file=sys.stderr)
    if output is None:
        console.show_predictions(predicted.labels)
    else:
        write_labels(predicted, output)
        print(f"{len(predicted.labels)} labels in {output}")
    return 0


@app.command(help="Run the papers' tables and figures again, ours beside theirs.")
@_told
def reproduce(
    study: Annotated[
        str | None, typer.Argument(help="A paper or one of its tables: drm, odm/table2.")
    ] = None,
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    output: Annotated[Path, OUTPUT] = Path("discreg-reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="A first look in minutes.")] = False,
    n_jobs: Annotated[int | None, N_JOBS] = None,
    time_budget: Annotated[str | None, BUDGET] = None,
) -> int:
    from discreg.comparison import console
    from discreg_reproduction.reproduce import reproduce as run

    seconds = _seconds(time_budget)
    with console.Bar() as tell:
        reproduced = run(
            study,
            output,
            data_dir=data_dir,
            quick=quick,
            n_jobs=n_jobs or os.cpu_count() or 1,
            time_budget=seconds,
            tell=tell,
        )
    console.show_reproduction(reproduced, output)
    return INTERRUPTED if reproduced.progress.stopped_by == "interrupt" else 0


@app.command(help="List the data sets that the papers name, and where they are to be had.")
@_told
def datasets(data_dir: Annotated[Path | None, DATA_DIR] = None) -> int:
    from discreg.comparison import console

    console.show_datasets(data_dir)
    return 0


def _table(file: Path | None, target: str | None, fold: str | None, dataset: str | None) -> Table:
    """The table of a file, or one that comes with scikit-learn."""
    from discreg.base.errors import InputError
    from discreg.tables.table import read_table

    if file is not None:
        if dataset is not None:
            raise InputError("Give a FILE or --dataset, not both.")
        return read_table(file, target=target, fold=fold)
    if target is not None or fold is not None:
        raise InputError(
            "--target and --fold name columns of a FILE: discreg compare FILE --target COLUMN"
        )
    from discreg.comparison.bundled import DEFAULT, bundled_table

    return bundled_table(dataset or DEFAULT)


def _seconds(text: str | None) -> float | None:
    """Seconds of "90", "90s", "10m" or "1h"."""
    if text is None:
        return None
    from discreg.base.errors import InputError

    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InputError(f"--time-budget {text} is no time: write 90s, 10m or 1h.")
    return seconds
