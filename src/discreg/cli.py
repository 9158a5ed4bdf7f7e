"""The ``discreg`` command. Subcommands import packages when they run, so that help is quick."""

from __future__ import annotations

import csv
import functools
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast, get_args, get_type_hints

from discreg import __version__
from discreg.base.errors import InputError
from discreg.comparison.command import OUTPUT, how_to_install
from discreg.comparison.words import printable

try:
    import typer
except ModuleNotFoundError:
    sys.exit("The discreg command needs additional packages: pip install 'discreg[compare]'")

if TYPE_CHECKING:
    from discreg.tables.table import Table


DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130  # exit codes
EXIT_CODES = (
    "Exit codes: 0 done; 1 failed, for example if the disk is full or no model could be written; "
    "2 wrong use, for example an unknown option or a file that cannot be read; 130 interrupted."
)
TRACEBACK = "DISCREG_TRACEBACK"  # environment variable that shows tracebacks
FAST_FOLDS = 5
PATHS = {"file": "FILE", "test": "FILE", "model": "MODEL"}  # names of paths in help texts
LEAST = {"folds": 2, "random_state": 0, "n_jobs": 1, "max_bytes": 1}
MOST = {"random_state": 2**31}
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
    if isinstance(error, ImportError):
        return how_to_install(error), WRONG_USE
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


def _described(
    options: Mapping[str, str], arguments: Mapping[str, str] | None = None
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give the parameters of a command their help texts; their names are those of the options."""
    arguments = arguments or {}

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        for name, hint in get_type_hints(command).items():
            if name == "return":
                continue
            settings: dict[str, Any] = {"help": {**options, **arguments}[name]}
            if Path in (hint, *get_args(hint)):
                settings |= {"parser": parse_path, "metavar": PATHS.get(name, "PATH")}
            if name in LEAST:
                settings |= {"min": LEAST[name], "max": MOST.get(name)}
            kind = typer.Argument if name in arguments else typer.Option
            flag = [f"--{name.replace('_', '-')}"] if hint is bool else []  # without its opposite
            command.__annotations__[name] = Annotated[hint, kind(*flag, **settings)]
        return command

    return decorate


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


FORMATS = "CSV, TSV, Excel, JSON, Parquet, Feather, ARFF, svmlight or npz format, or compressed"
TARGET = "Column with the class labels"
SUBGROUP = "Column for whose values the model is also measured."
COMPARE = {
    "target": f"{TARGET}.",
    "output": "Directory for the results; fits stored there are not repeated.",
    "scoring": "Metric that tunes and ranks models: a scorer of scikit-learn, or g_mean; by "
    "default log-loss.",
    "pos_label": "Class that precision and recall refer to; the rarer one by default.",
    "candidates": "Models to compare, for example ReLSR,DRM,SVC or package.module:name; that "
    "module is executed.",
    "exclude": "Models to leave out, for example LDA,SVC.",
    "groups": "Column whose rows stay together in all folds, such as patients; by default a "
    "repeating identifier all of whose rows have one label.",
    "no_groups": "Do not group rows by default.",
    "sample_weight": "Column of sample weights.",
    "fold": "Column with the fold that tests each row, instead of random folds.",
    "test": "Test table, on which the chosen model is scored once.",
    "time_column": "Column that orders the rows in time; folds never look ahead.",
    "drop": "Column to leave out; can be repeated.",
    "subgroup": SUBGROUP,
    "accept": "Kind of red flag, or column, that is no fault; can be repeated.",
    "recall": "Wanted recall of the positive class, from which labels follow.",
    "precision": "Wanted precision of the positive class, from which labels follow.",
    "costs": "Costs of missed rows by class, from which labels follow, such as case=10,control=1.",
    "dataset": "scikit-learn data set to use without a FILE: breast_cancer (the default), wine, "
    "iris or digits.",
    "fast": "Compare Auto, ReLSR, Logistic and RandomForest with 5 folds.",
    "folds": "Number of cross-validation folds; 10 by default.",
    "random_state": "Seed of folds and models.",
    "n_jobs": "Number of processes; one per core by default.",
    "time_budget": "Stop after this time, for example 90s, 10m or 1h; the same command continues.",
    "onnx": "Also write the recommended model to model.onnx, for onnxruntime.",
}


@app.command(help="Compare models on a table, recommend one and write a report.", epilog=EXIT_CODES)
@reports_errors
@_described(COMPARE, {"file": f"Table in {FORMATS}."})
def compare(
    file: Path | None = None,
    target: str | None = None,
    output: Path = Path(OUTPUT),
    scoring: str | None = None,
    pos_label: str | None = None,
    candidates: str | None = None,
    exclude: str | None = None,
    groups: str | None = None,
    no_groups: bool = False,
    sample_weight: str | None = None,
    fold: str | None = None,
    test: Path | None = None,
    time_column: str | None = None,
    drop: list[str] | None = None,
    subgroup: str | None = None,
    accept: list[str] | None = None,
    recall: float | None = None,
    precision: float | None = None,
    costs: str | None = None,
    dataset: str | None = None,
    fast: bool = False,
    folds: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    time_budget: str | None = None,
    onnx: bool = False,
) -> int:
    seconds = parse_seconds(time_budget)
    for one, other in ((fold, time_column), (groups, no_groups or None)):
        if one is not None and other is not None:
            pair = "--fold and --time-column" if one is fold else "--groups and --no-groups"
            raise InputError(f"{pair} cannot be combined.")
    if fold is not None and folds is not None:
        raise InputError(
            "--fold takes the folds from the table and cannot be combined with --folds."
        )
    if onnx:
        _require_onnx()
    from discreg.comparison import console
    from discreg.comparison.candidates.registry import FAST
    from discreg.comparison.compare import number_of_jobs
    from discreg.comparison.execute import execute
    from discreg.comparison.prepare import Decision, Plan, prepare

    if fast:
        candidates = candidates or ",".join(FAST)
        folds = folds or (None if fold else FAST_FOLDS)
    roles = {"groups": groups, "sample_weight": sample_weight, "time": time_column, "fold": fold}
    table = _table(file, target, dataset, drop=drop, test=test, **roles)
    plan = Plan(
        scoring=scoring,
        pos_label=pos_label,
        candidates=_names(candidates),
        exclude=_names(exclude),
        cv=folds,
        group_by_default=not no_groups,
        subgroup=subgroup,
        accept=accept or (),
        decision=Decision(recall=recall, precision=precision, costs=_costs(costs)),
        random_state=random_state,
        source=None if file is None else str(file),
        command=shlex.join(["discreg", *sys.argv[1:]]),
    )
    prepared = prepare(table, plan)
    console.show_prepared(prepared)
    with console.ProgressBar() as on_progress:
        comparison, progress = execute(
            prepared,
            output,
            n_jobs=number_of_jobs(n_jobs),
            time_budget=seconds,
            on_progress=on_progress,
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


def _costs(text: str | None) -> dict[str, float] | None:
    """Read "case=10,control=1"."""
    if text is None:
        return None
    costs = {}
    for each in text.split(","):
        label, _, cost = each.rpartition("=")
        try:
            costs[label.strip()] = float(cost)
        except ValueError:
            raise InputError(f"--costs {text} is not written as LABEL=COST,LABEL=COST.") from None
    return costs


PRIVACY = (
    "Privacy: kernel models and DRM keep training rows in the model file, so that sharing the file "
    "shares these rows."
)


MODEL = {"model": "Model file written by compare: model.skops."}
MAX_BYTES = (
    "Largest size of the contents of the model file in memory; by default 1 GB, or twice the size "
    "of the file if that is more."
)
PREDICT = {
    "output": "CSV file to write; by default the labels are printed. A file that this command has "
    "not written is not replaced.",
    "keep": "Column of FILE to repeat in the result, such as an identifier; can be repeated.",
    "confidence_level": "Add sets of labels that contain the true one with this probability, such "
    "as 0.9.",
    "recall": "With two classes, find this share of the positive class: use the threshold that "
    "reached it on held-out rows, such as 0.9.",
    "raw": "Write texts unchanged that a spreadsheet would execute as formulas; by default they "
    "begin with an apostrophe in the CSV file.",
    "max_bytes": MAX_BYTES,
}
EVALUATE = {
    "target": f"{TARGET}; by default that of the comparison.",
    "groups": "Column of rows that belong together, for the intervals.",
    "subgroup": SUBGROUP,
    "output": "HTML report to write.",
    "max_bytes": MAX_BYTES,
}


@app.command(
    help=f"Predict the labels of new rows with a saved model. {PRIVACY}", epilog=EXIT_CODES
)
@reports_errors
@_described(PREDICT, MODEL | {"file": "New rows, in any format that compare reads."})
def predict(
    model: Path,
    file: Path,
    output: Path | None = None,
    keep: list[str] | None = None,
    confidence_level: float | None = None,
    recall: float | None = None,
    raw: bool = False,
    max_bytes: int | None = None,
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


@app.command(help="Score a saved model on new labelled rows.", epilog=EXIT_CODES)
@reports_errors
@_described(EVALUATE, MODEL | {"file": "Labelled rows, in any format that compare reads."})
def evaluate(
    model: Path,
    file: Path,
    target: str | None = None,
    groups: str | None = None,
    subgroup: str | None = None,
    output: Path | None = None,
    max_bytes: int | None = None,
) -> int:
    from discreg.comparison import console
    from discreg.comparison.predict import evaluate
    from discreg.comparison.statistics.performance import measure

    if output is not None and output.exists():
        raise InputError(f"{output} exists; give another file with --output, or remove it.")
    found = evaluate(
        model, file, target=target, groups=groups, subgroup=subgroup, max_bytes=max_bytes
    )
    for note in found.notes:
        print(printable(note), file=sys.stderr)
    print(
        printable(
            f"{found.model} on {len(found.sample.y):,} rows; labels follow "
            f"{found.sample.rule.text}."
        )
    )
    console.show_numbers(measure(found.sample))
    for name, n_rows, numbers in found.subgroups:
        print(printable(f"{subgroup} {name}: {n_rows:,} rows"))
        console.show_numbers(numbers)
    if output is not None:
        from discreg.comparison.report.page import write_evaluation

        write_evaluation(output, found)
        print(printable(f"Wrote {output}."))
    return DONE


def _table(file: Path | None, target: str | None, dataset: str | None, **columns: Any) -> Table:
    """Read the table from a file, or load a data set of scikit-learn."""
    from discreg.tables.table import BUNDLED, as_table, bundled_table

    if file is not None:
        if dataset is not None:
            raise InputError("Give a FILE or --dataset, not both.")
        return as_table(file, target=target, **columns)
    if target is not None or any(columns.values()):
        raise InputError(
            "--target and other options that name columns or files need a FILE: discreg compare "
            "FILE --target COLUMN"
        )
    return bundled_table(dataset or BUNDLED[0])


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
