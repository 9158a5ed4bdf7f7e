"""What the command prints: a progress bar, tables, and what was written where."""

from __future__ import annotations

from collections import Counter
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from discreg.tables.table import Table

from .statistics import judged_results, summary
from .words import duration, number, percent

if TYPE_CHECKING:
    from discreg_reproduction.reproduce import Reproduced

    from .compare import Compared
    from .engine import Progress as Done
    from .experiment import Key
    from .findings import Findings

__all__ = [
    "Bar",
    "show_comparison",
    "show_datasets",
    "show_predictions",
    "show_reproduction",
    "show_table",
]

MANY_CLASSES = 12
UNBROKEN = 10_000  # columns of what is no terminal: a file or another program, which breaks no line
SHOWN = {
    "balanced_accuracy": "balanced",
    "g_mean": "G-mean",
    "macro_f1": "macro F1",
    "log_loss": "log-loss",
}


class Bar:
    """A live bar with the time left; a context that gives the function to tell of progress."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=_console(stderr=True),
        )
        self._task: Any = None

    def __enter__(self) -> Any:
        return self._tell

    def _tell(self, done: Done) -> None:
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task("fits", total=done.n_fits, left="")
        left = f"about {duration(done.seconds_left)} left" if done.seconds_left else ""
        latest = "" if done.latest is None else f" {done.latest.dataset} {done.latest.model}"
        self._progress.update(
            self._task,
            completed=done.n_ended + done.n_dropped,
            description=f"fits{latest}",
            left=left,
        )

    def __exit__(self, *exception: object) -> None:
        if self._task is not None:
            self._progress.stop()


def show_table(table: Table) -> None:
    """What was found in a file and what is done about it."""
    out = _console()
    n_samples, n_features = table.X.shape
    counts = table.class_counts
    shape = f": {n_samples} rows, {n_features} features, {len(counts)} classes"
    out.print(Text.assemble((table.name, "bold"), shape))
    shown = Counter(counts).most_common(MANY_CLASSES)
    listed = ", ".join(f"{label} ({count})" for label, count in shown)
    more = "" if len(shown) == len(counts) else f" and {len(counts) - len(shown)} more"
    share = max(counts.values()) / sum(counts.values())
    out.print(f"classes and their rows: {listed}{more}; majority rate {percent(share)}")
    for note in table.notes:
        out.print(note)


def show_comparison(compared: Compared, output: Path) -> None:
    """How models were judged, their ranking, what can be said about it, and where everything is."""
    out = _console()
    findings, verdict = compared.findings, compared.verdict
    for sentence in findings.judged_by:
        out.print(sentence)
    if verdict is None:
        out.print("No model has finished a fold.")
        for reason in dict.fromkeys(_reason(*failure) for failure in findings.failures.items()):
            out.print(reason)
    else:
        if verdict.best is not None:
            out.print(_ranking(findings))
        out.print(verdict.sentence)
        for model, reason in verdict.incomplete.items():
            out.print(f"{model} was not judged: {reason}")
    if findings.incomplete:
        out.print(findings.incomplete[0].upper() + findings.incomplete[1:])
    _show_files(out, output, (".html", ".parquet", ".skops"))


def _reason(key: Key, error: str) -> str:
    return f"{key.model} failed: {error.splitlines()[0]}"


def _ranking(findings: Findings) -> Grid:
    """Mean scores of the models that were judged, over the folds that they were judged on."""
    judged = judged_results(findings.results, findings.metric, failures=findings.failures)
    grid = Grid(box=None, pad_edge=False)
    grid.add_column("model")
    for title in ("accuracy", *SHOWN.values(), "fit"):
        grid.add_column(title, justify="right")
    means = judged.pivot_table(index="model", columns="metric", values="value", sort=False)
    table = summary(judged, findings.metric, n_folds=findings.n_folds)
    for model, row in table.iterrows():
        others = means.loc[model]
        spread = "" if isnan(row["std"]) else f" ± {row['std']:.4f}"
        grid.add_row(
            str(model),
            f"{row['mean']:.4f}{spread}",
            *(_known(others.get(name)) for name in SHOWN),
            duration(others["fit_seconds"]),
        )
    grid.add_row("majority class", number(findings.majority_rate))
    return grid


def show_predictions(predicted: pd.DataFrame) -> None:
    """Labels as CSV."""
    _console().out(predicted.to_csv(index=False), end="")


def show_datasets(data_dir: Path | None) -> None:
    """Every data set that the papers name: shape, papers, and where it is to be had."""
    from discreg_reproduction.registry import availability, entries

    grid = Grid(box=None, pad_edge=False)
    for title in ("name", "in the paper", "papers", "samples x features", "classes", "from"):
        grid.add_column(title)
    found = availability(data_dir)
    for entry in entries().values():
        shape = f"{entry.n_samples or '?'} x {entry.n_features or '?'}"
        source = found[entry.name] or "nowhere"
        grid.add_row(
            entry.name,
            entry.title,
            " ".join(entry.papers),
            shape,
            str(entry.n_classes or "?"),
            source,
        )
    out = _console()
    out.print(grid)
    n_found = sum(bool(source) for source in found.values())
    out.print(f"{n_found} of {len(found)} are to be had here.")


def show_reproduction(reproduced: Reproduced, output: Path) -> None:
    """Ours beside theirs, study by study, and where everything is."""
    out = _console()
    for text in reproduced.texts:
        out.print(text)
    _show_files(out, output, (".html", ".parquet", ".md"))


def _show_files(out: Console, folder: Path, suffixes: tuple[str, ...]) -> None:
    for path in sorted(folder.iterdir()):
        if path.suffix in suffixes:
            out.print(str(path), soft_wrap=True)  # a path in two lines cannot be copied


def _known(value: float | None) -> str:
    return "–" if value is None or isnan(value) else f"{value:.4f}"


def _console(*, stderr: bool = False) -> Console:
    """A console that prints names as they are: no markup, no emoji codes, no coloured numbers."""
    out = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not out.is_terminal:
        out.width = UNBROKEN
    return out
