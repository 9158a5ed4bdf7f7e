"""Output of the command: a progress bar, tables, and the paths of written files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import isnan
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import pandas as pd
from rich import progress
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from discreg.base.metrics import metric

from .command import remedied
from .running.engine import Progress
from .statistics.performance import Measured, measure
from .words import capitalised, duration, percent, printable

if TYPE_CHECKING:
    from .prepare import PreparedComparison
    from .result import Comparison

MANY_CLASSES = 12
UNBROKEN = 10_000  # width for files and pipes, where lines are not wrapped
# Metrics beside the one that decides.
SHOWN = ("log_loss", "brier", "roc_auc", "accuracy", "balanced_accuracy")
LINE_SHARE, LINE_SECONDS = 0.1, 30.0  # progress and time after which a log file gets a line


class ProgressBar:
    """Context manager of a live progress bar; it returns the function that updates the bar.

    Where there is no terminal, a line is written for every tenth of the fits, and at least every
    30 seconds.
    """

    def __init__(self) -> None:
        self._console = plain_console(stderr=True)
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[left]}"),
            console=self._console,
            redirect_stdout=False,  # the command escapes control characters in these streams
            redirect_stderr=False,
        )
        self._line = -1, 0.0  # number of ended fits and time of the latest line

    def __enter__(self) -> Callable[[Progress], None]:
        return self._update if self._console.is_terminal else self._write_line

    def _write_line(self, done: Progress) -> None:
        n_ended, then = self._line
        n_now, now = done.n_ended + done.n_dropped, monotonic()
        is_first = n_ended < 0
        steps = (n_now - n_ended) >= max(1, LINE_SHARE * done.n_fits) or n_now == done.n_fits
        if not is_first and not (steps and n_now > n_ended) and now - then < LINE_SECONDS:
            return
        left = f", about {duration(done.seconds_left)} left" if done.seconds_left else ""
        passed = f" after {duration(done.seconds)}" if done.seconds else ""
        latest = f", latest {done.latest.model}" if done.latest else ""
        text = f"{n_now} of {done.n_fits} fits{passed}{latest}{left}"
        self._console.print(printable(text), soft_wrap=True)
        self._line = n_now, now

    def _update(self, done: Progress) -> None:
        if not self._bar.tasks:
            self._bar.start()
            self._bar.add_task("fits", total=done.n_fits, left="")
        latest = f" {done.latest.dataset} {done.latest.model}" if done.latest else ""
        self._bar.update(
            self._bar.task_ids[0],
            completed=done.n_ended + done.n_dropped,
            description=printable(f"fits{latest}"),
            left=f"about {duration(done.seconds_left)} left" if done.seconds_left else "",
        )

    def __exit__(self, *exception: object) -> None:
        if self._bar.tasks:
            self._bar.stop()


def show_prepared(prepared: PreparedComparison) -> None:
    """Print the shape, the classes and the notes of a table, its flags, and what will be done."""
    out = plain_console()
    table = prepared.experiment.table
    n_samples, n_features = table.X.shape
    counts = table.class_counts
    shape = f": {n_samples:,} rows, {n_features:,} features, {len(counts)} classes"
    out.print(Text.assemble((printable(table.name), "bold"), shape))
    shown = Counter(counts).most_common(MANY_CLASSES)
    listed = ", ".join(f"{label} ({count})" for label, count in shown)
    more = "" if len(shown) == len(counts) else f" and {len(counts) - len(shown)} more"
    share = max(counts.values()) / sum(counts.values())
    sentence = (
        f"rows per class: {listed}{more}; the most frequent class has {percent(share)} of the rows"
    )
    for text in (sentence, *table.notes):
        out.print(printable(text))
    for flag in prepared.flags:
        style = "bold red" if flag.level == "danger" else "yellow"
        out.print(Text.assemble((printable(f"{flag.kind}:"), style), printable(f" {flag.text}")))
    for text in prepared.notes:
        out.print(printable(text))


def show_comparison(comparison: Comparison, output: Path) -> None:
    """Print the ranking, the verdict and the paths of the files."""
    out = plain_console()
    findings, verdict = comparison.findings, comparison.verdict
    judged = comparison.table[comparison.table["reason"] == ""]
    if len(judged) and verdict.kind != "red flag":
        out.print(_ranking(judged, verdict.metric))
    style = "bold red" if verdict.kind == "red flag" else "bold"
    for sentence in verdict.sentences:
        out.print(Text(printable(sentence), style))
    for title, value in verdict.beside:
        out.print(f"  {title}: {value}")
    if verdict.kind == "red flag":
        if command := remedied(comparison.flags, findings.command):
            out.print(printable(f"  {command}"), soft_wrap=True)
    elif verdict.best is not None:
        name, rule = printable(verdict.best), comparison.rule.text
        out.print(f"Held-out rows of {name}, not corrected for selection; labels follow {rule}:")
        show_numbers(measure(comparison.evidence.sample(verdict.best)))
    if findings.test:
        out.print(f"On the test table of {findings.n_test:,} rows, scored once:")
        show_numbers(findings.test)
    for model, reason in verdict.not_judged.items():
        if model not in comparison.evidence.left_out:
            out.print(printable(f"{model} is not ranked: {reason}"))
    if findings.incomplete:
        out.print(printable(capitalised(findings.incomplete)))
    if findings.onnx_trouble:
        out.print(printable(findings.onnx_trouble))
    # Model files of an earlier run may be there although this run could not write them.
    models = {".skops": findings.model_file, ".onnx": findings.onnx_file}
    show_files(output, (".html", ".parquet", *(name for name, file in models.items() if file)))


def show_numbers(numbers: Sequence[Measured]) -> None:
    """Print the numbers of a model with their intervals."""
    grid = Grid(box=None, pad_edge=False, show_header=False)
    for each in numbers:
        ends = "" if isnan(each.low) else f"({each.low:.3f} to {each.high:.3f})"
        grid.add_row(f"  {each.title}", _score(each.value), ends, printable(each.remark))
    plain_console().print(grid)


def _ranking(judged: pd.DataFrame, decisive: str) -> Grid:
    """Build the table of mean scores of the ranked models."""
    others = [name for name in SHOWN if name in judged and name != decisive]
    grid = Grid(box=None, pad_edge=False)
    grid.add_column("model")
    grid.add_column(f"{metric(decisive).title} (95 % interval)", justify="right")
    for name in others:
        grid.add_column(metric(name).title, justify="right")
    grid.add_column("fit", justify="right")
    for model, row in judged.iterrows():
        ends = "" if isnan(row["low"]) else f" ({row['low']:.3f} to {row['high']:.3f})"
        grid.add_row(
            printable(str(model)),
            f"{row['mean']:.4f}{ends}",
            *(_score(row[name]) for name in others),
            duration(row["fit_seconds"]),
        )
    return grid


def show_predictions(predicted: pd.DataFrame) -> None:
    """Print labels as CSV: on a terminal with control characters escaped, elsewhere unchanged."""
    out = plain_console()
    text = predicted.to_csv(index=False, lineterminator="\n")  # the stream adds \r on Windows
    try:
        out.file.write("\n".join(map(printable, text.split("\n"))) if out.is_terminal else text)
        out.file.flush()
    except BrokenPipeError:  # the reader, for example head, has enough
        out.on_broken_pipe()


def show_files(folder: Path, suffixes: tuple[str, ...]) -> None:
    """Print the paths of the files with these suffixes."""
    for path in sorted(folder.iterdir()):
        if path.suffix in suffixes:
            plain_console().print(printable(str(path)), soft_wrap=True)  # one line, for copying


def _score(value: float | None) -> str:
    return "–" if value is None or isnan(value) else f"{value:.4f}"


def plain_console(*, stderr: bool = False) -> Console:
    """Create a console without markup, emoji codes and highlighting, which could change names."""
    out = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not out.is_terminal:
        out.width = UNBROKEN
    return out
