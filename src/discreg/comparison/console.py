"""Output of the command: a progress bar, tables, and the paths of written files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import isnan
from pathlib import Path

import pandas as pd
from rich import progress
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from discreg.base.metrics import METRICS, metric
from discreg.tables.table import Table

from .engine import Progress
from .findings import Findings
from .run import ComparisonResult
from .statistics import judged_results, summary
from .words import duration, number, percent, printable

__all__ = [
    "ProgressBar",
    "plain_console",
    "show_comparison",
    "show_files",
    "show_predictions",
    "show_table",
]

MANY_CLASSES = 12
UNBROKEN = 10_000  # width for files and pipes, where lines are not wrapped
SHOWN = tuple(
    name
    for name, each in METRICS.items()
    if each.needs in ("labels", "probabilities") and name != "accuracy"
)


class ProgressBar:
    """Context manager of a live progress bar; it returns the function that updates the bar."""

    def __init__(self) -> None:
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[left]}"),
            console=plain_console(stderr=True),
            redirect_stdout=False,  # the command escapes control characters in these streams
            redirect_stderr=False,
        )

    def __enter__(self) -> Callable[[Progress], None]:
        return self._update

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


def show_table(table: Table) -> None:
    """Print the shape, the classes and the notes of a table."""
    out = plain_console()
    n_samples, n_features = table.X.shape
    counts = table.class_counts
    shape = f": {n_samples} rows, {n_features} features, {len(counts)} classes"
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


def show_comparison(result: ComparisonResult, output: Path) -> None:
    """Print the evaluation, the ranking, the conclusion and the paths of the files."""
    out = plain_console()
    findings, verdict = result.findings, result.verdict
    for sentence in findings.judged_by:
        out.print(printable(sentence))
    if verdict is None:
        out.print("No model has finished a fold.")
        reasons = (
            f"{key.model} failed: {error.splitlines()[0]}"
            for key, error in findings.failures.items()
        )
        for reason in dict.fromkeys(reasons):
            out.print(printable(reason))
    else:
        if verdict.best is not None:
            out.print(_ranking(findings))
        out.print(printable(verdict.sentence))
        for model, reason in verdict.incomplete.items():
            out.print(printable(f"{model} is not ranked: {reason}"))
    if findings.incomplete:
        out.print(printable(findings.incomplete[0].upper() + findings.incomplete[1:]))
    # A model file of an earlier run may be there although this run could not write one.
    show_files(output, (".html", ".parquet", *([".skops"] if findings.model_file else [])))


def _ranking(findings: Findings) -> Grid:
    """Build the table of mean scores of the ranked models over the folds that they share."""
    judged = judged_results(findings.results, findings.metric, failures=findings.failures)
    grid = Grid(box=None, pad_edge=False)
    grid.add_column("model")
    for name in ("accuracy", *SHOWN, "fit_seconds"):
        grid.add_column(metric(name).title, justify="right")
    means = judged.pivot_table(index="model", columns="metric", values="value", sort=False)
    table = summary(judged, findings.metric, n_folds=findings.n_folds)
    for model, row in table.iterrows():
        others = means.loc[model]
        spread = "" if isnan(row["std"]) else f" ± {row['std']:.4f}"
        grid.add_row(
            str(model),
            f"{row['mean']:.4f}{spread}",
            *(_score(others.get(name)) for name in SHOWN),
            duration(others["fit_seconds"]),
        )
    grid.add_row("majority class", number(findings.majority_rate))
    return grid


def show_predictions(predicted: pd.DataFrame) -> None:
    """Print labels as CSV: on a terminal with control characters escaped, elsewhere unchanged."""
    out = plain_console()
    text = predicted.to_csv(index=False)
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
