"""The ``discreg`` command. Subcommands import packages when they run, so that help is quick."""

from __future__ import annotations

import csv
import functools
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

from discreg import __version__
from discreg.base.errors import InputError
from discreg.comparison.words import printable

try:
    import typer
except ModuleNotFoundError:
    sys.exit("The discreg command needs additional packages: pip install 'discreg[compare]'")

if TYPE_CHECKING:
    from discreg.tables.table import Table

__all__ = ["INTERRUPTED", "main", "parse_path", "parse_seconds", "reports_errors", "run_app"]

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130  # exit codes
EXIT_CODES = (
    "Exit codes: 0 done; 1 failed, for example if the disk is full or no model could be written; "
    "2 wrong use, for example an unknown option or a file that cannot be read; 130 interrupted."
)
TRACEBACK = "DISCREG_TRACEBACK"  # environment variable that shows tracebacks
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}

app = typer.Typer(
    help="Compare discriminative regression classifiers with scikit-learn's on your own table.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command with these arguments, by default those of the process, and exit."""
    run_app(app, "discreg", argv)


def run_app(app: typer.Typer, name: str, argv: Sequence[str] | None = None) -> None:
    """Run a command that treats SIGTERM and SIGHUP like Ctrl-C."""
    for number in filter(None, (signal.SIGTERM, getattr(signal, "SIGHUP", None))):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # labels may contain characters not in its encoding
            stream.reconfigure(errors="backslashreplace")
    with redirect_stdout(_escaped(sys.stdout)), redirect_stderr(_escaped(sys.stderr)):
        app(args=argv, prog_name=name)


class _EscapedStream:
    """A stream that escapes control characters, such as those in names of files."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # rich writes its own control characters here

    def write(self, text: str) -> int:
        self.rich_proxied_file.write("\n".join(map(printable, text.split("\n"))))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def _escaped(stream: TextIO) -> TextIO:
    return cast(TextIO, _EscapedStream(stream))


def reports_errors(command: Callable[..., int]) -> Callable[..., None]:
    """Decorate a command: print errors without a traceback and exit with the returned code."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            code = command(*arguments, **options)
        except KeyboardInterrupt:
            print("Interrupted. The same command continues from here.", file=sys.stderr)
            code = INTERRUPTED
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            message, code = _explained(error)
            print(message, file=sys.stderr)
        raise typer.Exit(code)

    return run


def _explained(error: Exception) -> tuple[str, int]:
    """Return the message and the exit code of an error."""
    text = printable(str(error))
    if isinstance(error, InputError):
        return text, WRONG_USE
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is missing: pip install 'discreg[compare]'", WRONG_USE
    if isinstance(error, MemoryError):
        return f"There is not enough memory. {text}".strip(), FAILED
    if isinstance(error, OSError):
        reason = f"{error.filename}: {error.strerror}" if error.filename else text
        return printable(reason), FAILED
    advice = f"Please report this error. Set {TRACEBACK}=1 and run again to see the traceback."
    return f"An error inside discreg: {type(error).__name__}: {text}\n{advice}", FAILED


def parse_path(text: str) -> Path:
    """Convert an argument to a path; without a name it would be the current directory."""
    if not text:
        raise typer.BadParameter("the path is empty. Write the name of a file or directory.")
    return Path(text)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"discreg {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command(help="Compare models on a table, recommend one and write a report.", epilog=EXIT_CODES)
@reports_errors
def compare(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Table in CSV, TSV, Excel, JSON, Parquet, Feather, ARFF, svmlight or npz format, "
            "or compressed.",
            parser=parse_path,
            metavar="FILE",
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column with the class labels.")] = None,
    output: Annotated[
        Path,
        typer.Option(
            help="Directory for the results; fits stored there are not repeated.",
            parser=parse_path,
            metavar="PATH",
        ),
    ] = Path("discreg-comparison"),
    scoring: Annotated[
        str | None,
        typer.Option(
            help="Metric that tunes and ranks models: a scorer of scikit-learn, or g_mean; by "
            "default accuracy, or balanced_accuracy if a class is rare."
        ),
    ] = None,
    pos_label: Annotated[
        str | None,
        typer.Option(help="Class that precision and recall refer to; the rarer one by default."),
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            help="Models to compare, for example ReLSR,DRM,SVC or package.module:name; all by "
            "default."
        ),
    ] = None,
    exclude: Annotated[
        str | None, typer.Option(help="Models to leave out, for example LDA,SVC.")
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Column whose rows stay together in all folds, such as patients."),
    ] = None,
    sample_weight: Annotated[str | None, typer.Option(help="Column of sample weights.")] = None,
    fold: Annotated[
        str | None,
        typer.Option(help="Column with the fold that tests each row, instead of random folds."),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(help="Test table, instead of folds.", parser=parse_path, metavar="FILE"),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option(help="Column that orders the rows in time; folds never look ahead."),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Column to leave out; can be repeated.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="scikit-learn data set to use without a FILE: breast_cancer (the default), wine, "
            "iris or digits."
        ),
    ] = None,
    fast: Annotated[
        bool,
        typer.Option("--fast", help="Compare Auto, LSR, ReLSR, Logistic and RandomForest only."),
    ] = False,
    folds: Annotated[
        int | None, typer.Option(help="Number of cross-validation folds; 5 by default.", min=2)
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(help="Number of repeated cross-validations; 2 by default.", min=1),
    ] = None,
    random_state: Annotated[
        int, typer.Option(help="Seed of folds and models.", min=0, max=2**31)
    ] = 0,
    n_jobs: Annotated[
        int | None, typer.Option(help="Number of processes; one per core by default.", min=1)
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(
            help="Stop after this time, for example 90s, 10m or 1h; the same command continues."
        ),
    ] = None,
    show_rows: Annotated[
        bool, typer.Option("--show-rows", help="Show predictions of single rows in the report.")
    ] = False,
    onnx: Annotated[
        bool,
        typer.Option(
            "--onnx", help="Also write the recommended model to model.onnx, for onnxruntime."
        ),
    ] = False,
) -> int:
    seconds = parse_seconds(time_budget)
    splits = {"--fold": fold, "--test": test, "--time-column": time_column}
    given = [option for option, value in splits.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{given[0]} and {given[1]} cannot be combined.")
    if fold is not None and (folds is not None or repeats is not None):
        raise InputError(
            "--fold takes the folds from the table and cannot be combined with --folds or "
            "--repeats."
        )
    if onnx:
        _require_onnx()
    from discreg.comparison import console
    from discreg.comparison.candidates.registry import FAST
    from discreg.comparison.compare import number_of_jobs
    from discreg.comparison.execute import execute
    from discreg.comparison.prepare import prepare_table

    if fast:
        candidates = candidates or ",".join(FAST)
        folds, repeats = folds or (None if fold or test else 3), repeats or 1
    roles = {"groups": groups, "sample_weight": sample_weight, "time": time_column, "fold": fold}
    table = _table(file, target, dataset, drop=drop, test=test, **roles)
    prepared = prepare_table(
        table,
        scoring=scoring,
        pos_label=pos_label,
        candidates=_names(candidates),
        exclude=_names(exclude),
        n_folds=folds,
        n_repeats=repeats,
        random_state=random_state,
        source=None if file is None else str(file),
        command=shlex.join(["discreg", *sys.argv[1:]]),
    )
    console.show_prepared(prepared)
    with console.ProgressBar() as on_progress:
        comparison, progress = execute(
            prepared,
            output,
            n_jobs=number_of_jobs(n_jobs),
            time_budget=seconds,
            on_progress=on_progress,
            show_rows=show_rows,
            onnx=onnx,
        )
    console.show_comparison(comparison, output)
    if progress.stopped_by == "interrupt":
        return INTERRUPTED
    is_lost = comparison.verdict.recommended is not None and comparison.findings.model_file is None
    return FAILED if is_lost or comparison.verdict.best is None else DONE


def _require_onnx() -> None:
    """Raise InputError if the packages that write ONNX files are missing."""
    from discreg.onnx import register

    try:
        register()
    except ModuleNotFoundError as error:
        raise InputError(f"--onnx: {error}") from error


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


PRIVACY = (
    "Privacy: kernel models and DRM keep training rows in the model file, so that sharing the file "
    "shares these rows."
)


@app.command(
    help=f"Predict the labels of new rows with a saved model. {PRIVACY}", epilog=EXIT_CODES
)
@reports_errors
def predict(
    model: Annotated[
        Path,
        typer.Argument(
            help="Model file written by compare: model.skops.", parser=parse_path, metavar="MODEL"
        ),
    ],
    file: Annotated[
        Path,
        typer.Argument(
            help="New rows, in any format that compare reads.", parser=parse_path, metavar="FILE"
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            help="CSV file to write; by default the labels are printed. A file that this command "
            "has not written is not replaced.",
            parser=parse_path,
            metavar="PATH",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of FILE to repeat in the result, such as an identifier; repeatable.",
            metavar="COLUMN",
        ),
    ] = None,
    confidence_level: Annotated[
        float | None,
        typer.Option(
            help="Add sets of labels that contain the true one with this probability, such as 0.9."
        ),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(
            help="With two classes, find at least this share of the positive class: use the "
            "threshold that reached it on held-out rows, such as 0.9."
        ),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="Write texts unchanged that a spreadsheet would execute as formulas; by default "
            "they begin with an apostrophe in the CSV file.",
        ),
    ] = False,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            help="Largest size of the contents of the model file in memory; by default 1 GB, or "
            "twice the size of the file if that is more.",
            min=1,
        ),
    ] = None,
) -> int:
    from discreg.comparison import console
    from discreg.comparison.predict import check_output, predict, without_formulas

    if output is not None:
        check_output(output, model, file)
    predicted = predict(
        model,
        file,
        keep=keep or (),
        confidence_level=confidence_level,
        recall=recall,
        max_bytes=max_bytes,
    )
    if output is not None and not raw:
        predicted = without_formulas(predicted)
    for note in predicted.notes:
        print(printable(note), file=sys.stderr)
    if output is None:
        console.show_predictions(predicted.labels)
    else:
        try:
            # In quotes, a label with a semicolon stays in one cell of every spreadsheet.
            predicted.labels.to_csv(output, index=False, quoting=csv.QUOTE_NONNUMERIC)
        except OSError as error:
            raise InputError(f"{output} cannot be written ({error}).") from error
        print(printable(f"Wrote {len(predicted.labels)} labels to {output}."))
    return DONE


def _table(file: Path | None, target: str | None, dataset: str | None, **columns: Any) -> Table:
    """Read the table from a file, or load a data set of scikit-learn."""
    from discreg.tables.bundled import DEFAULT, bundled_table
    from discreg.tables.table import read_table

    if file is not None:
        if dataset is not None:
            raise InputError("Give a FILE or --dataset, not both.")
        return read_table(file, target=target, **columns)
    if target is not None or any(columns.values()):
        raise InputError(
            "--target and other options that name columns or files need a FILE: discreg compare "
            "FILE --target COLUMN"
        )
    return bundled_table(dataset or DEFAULT)


def parse_seconds(text: str | None) -> float | None:
    """Convert "90", "90s", "10m" or "1h" to seconds."""
    if text is None:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InputError(f"--time-budget {text} is not a time. Write, for example, 90s, 10m or 1h.")
    return seconds
