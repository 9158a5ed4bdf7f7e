"""The page that a comparison ends with: which model to take, and the evidence.

One HTML file without scripts, network or fonts of its own. Everything that comes from a person's
table is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .experiment import Key
from .figures import MAX_NAMED_CLASSES
from .files import write_whole
from .findings import Findings
from .metrics import SHARES
from .pages import rendered, template
from .report_plots import plots
from .statistics import LEVEL, Verdict, below_the_best, judged_results, summary, win_tie_loss
from .words import TITLES, duration, number, p_value, percent, title

__all__ = ["Findings", "page_contents", "write_report"]

TIMES = frozenset({"fit_seconds", "predict_seconds"})
NOTHING = "–"


@dataclass(frozen=True)
class Cell:
    """One number of the ranking."""

    title: str
    text: str
    note: str = ""


@dataclass(frozen=True)
class Bar:
    """An interval as places on a scale from 0 to 100."""

    low: float
    mean: float
    high: float
    text: str


@dataclass(frozen=True)
class Row:
    """One model of the ranking."""

    model: str
    cells: list[Cell]
    note: str
    bar: Bar | None = None
    ranked: bool = False
    recommended: bool = False


def write_report(path: Path, findings: Findings, contents: Mapping[str, Any] | None = None) -> None:
    """Write the page; a reader finds the old one or the new one, never a part.

    Parameters
    ----------
    path : Path
        Of the page.
    findings : Findings
        What it tells.
    contents : mapping of str to anything, optional
        Its `page_contents`, where they are made already.
    """
    if contents is None:
        contents = page_contents(findings)
    seconds = findings.final_seconds
    fitted_in = None if seconds is None else duration(seconds)
    page = rendered("report.html", findings=findings, fitted_in=fitted_in, **contents)
    write_whole(path, page)


def page_contents(findings: Findings) -> dict[str, Any]:
    """Everything on the page that takes time to make; none of it depends on the model file."""
    template("report.html")  # to be ready, too
    verdict = below_the_best(
        findings.results, findings.metric, failures=findings.failures, n_folds=findings.n_folds
    )
    judged = judged_results(findings.results, findings.metric, failures=findings.failures)
    return {
        "verdict": verdict,
        "metric": title(findings.metric),
        "level": percent(LEVEL),
        "confidence": percent(1 - LEVEL),
        "majority": number(findings.majority_rate),
        "assurance": list(_assurance(findings, verdict, judged)),
        "titles": [title(name) for name in _columns(findings)],
        "rows": _rows(findings, verdict, judged),
        "p_values": {model: p_value(p) for model, p in verdict.p_values.items()},
        "duels": _duels(verdict, judged, findings.n_folds),
        "plots": list(plots(findings, verdict, judged)),
        "classes": _classes(findings),
        "failures": _grouped({key: [text] for key, text in findings.failures.items()}),
        "warnings": _grouped(findings.warnings),
    }


def _assurance(findings: Findings, verdict: Verdict, judged: pd.DataFrame) -> Iterator[str]:
    """Sentences on how good the recommended model is, and how sure that is."""
    if verdict.best is None:
        return
    row = _intervals(judged, findings.metric, findings.n_folds).loc[verdict.best]
    interval = (
        f", with a {percent(1 - LEVEL)} interval from {number(row['low'])} to {number(row['high'])}"
        if np.isfinite(row["low"])
        else "; one fold gives no interval"
    )
    yield f"Its mean {title(findings.metric)} is {number(row['mean'])}{interval}."
    accuracy = _intervals(judged, "accuracy", findings.n_folds).loc[verdict.best]
    floor = (
        f"Always answering the most frequent class has accuracy {number(findings.majority_rate)}"
    )
    if accuracy["low"] > findings.majority_rate:
        yield f"{floor}."
    else:
        yield (
            f"{floor}: these folds do not show that {verdict.best} has a higher one "
            f"({number(accuracy['mean'])})."
        )


def _intervals(results: pd.DataFrame, metric: str, n_folds: int) -> pd.DataFrame:
    """Summary whose intervals keep to the values that the metric can have."""
    table = summary(results, metric, n_folds=n_folds)
    lowest, highest = 0.0, 1.0 if metric in SHARES else np.inf
    table[["low", "high"]] = table[["low", "high"]].clip(lowest, highest)
    return table


# The ranking


def _columns(findings: Findings) -> list[str]:
    """Metrics of the ranking that there are, the one that ranks first."""
    there = set(findings.results["metric"])
    return [metric for metric in dict.fromkeys([findings.metric, *TITLES]) if metric in there]


def _rows(findings: Findings, verdict: Verdict, judged: pd.DataFrame) -> list[Row]:
    """Judged models, the best first; then those that were not, with what they have."""
    columns = _columns(findings)
    rows = []
    if verdict.best is not None:
        table = _intervals(judged, findings.metric, findings.n_folds)
        for model in table.index:
            cells = _cells(judged[judged["model"] == model], columns, verdict.n_folds, findings)
            rows.append(
                Row(
                    model,
                    cells,
                    note=_standing(model, verdict),
                    bar=_bar(table.loc[model], table),
                    ranked=True,
                    recommended=model == verdict.best,
                )
            )
    for model, why in verdict.incomplete.items():
        own = findings.results[findings.results["model"] == model]
        rows.append(Row(model, _cells(own, columns, None, findings), note=f"not ranked: {why}"))
    return rows


def _standing(model: str, verdict: Verdict) -> str:
    if model in verdict.below:
        return "below the best"
    return "best mean" if model == verdict.best else "within noise of the best"


def _cells(
    results: pd.DataFrame, columns: Sequence[str], n_folds: int | None, findings: Findings
) -> list[Cell]:
    """Numbers of one model; a score that only some folds have says so."""
    cells = []
    for metric in columns:
        values = results.loc[results["metric"] == metric, "value"].dropna()
        notes = []
        if metric == "accuracy":
            notes.append(f"majority {number(findings.majority_rate)}")
        if n_folds is not None and 0 < len(values) < n_folds:
            notes.append(f"{len(values)} of {n_folds} folds")
        text = _cell_text(values, metric, spread=metric == findings.metric)
        cells.append(Cell(title(metric), text, ", ".join(notes)))
    return cells


def _cell_text(values: pd.Series, metric: str, *, spread: bool) -> str:
    if values.empty:
        return NOTHING
    if metric in TIMES:
        return duration(values.median())
    mean = number(values.mean())
    return f"{mean} ± {number(values.std(ddof=1))}" if spread and len(values) > 1 else mean


def _bar(row: pd.Series, table: pd.DataFrame) -> Bar | None:
    """Ends of the interval and the mean on the scale that all models share."""
    if not np.isfinite(row["low"]):
        return None
    left, right = table["low"].min(), table["high"].max()
    width = max(right - left, np.finfo(float).tiny)
    low, mean, high = (100 * (row[end] - left) / width for end in ("low", "mean", "high"))
    return Bar(low, mean, high, f"{number(row['low'])} to {number(row['high'])}")


# Which differences are noise


def _duels(verdict: Verdict, judged: pd.DataFrame, n_folds: int) -> list[tuple[str, int, int, int]]:
    """How many others each model is better than, not told apart from, and worse than."""
    if not verdict.tied and not verdict.below:
        return []
    pairs = win_tie_loss(judged, verdict.metric, n_folds=n_folds)
    counts = pairs.groupby(level="model", sort=False).sum()
    order = summary(judged, verdict.metric).index
    return [(model, *map(int, counts.loc[model])) for model in order]


# Classes, failures and warnings


def _classes(findings: Findings) -> list[tuple[str, str, int]]:
    """Number in the confusion matrix where it has no names, label and samples."""
    numbers = {label: f"{place}" for place, label in enumerate(findings.labels, start=1)}
    numbered = len(numbers) > MAX_NAMED_CLASSES
    return [
        (numbers.get(label, "") if numbered else "", label, count)
        for label, count in findings.class_counts.items()
    ]


def _grouped(texts: Mapping[Key, Sequence[str]]) -> list[tuple[str, str, int]]:
    """Model, text and the number of fits that said it."""
    counts: dict[tuple[str, str], int] = {}
    for key, said in texts.items():
        for text in said:
            counts[key.model, text] = counts.get((key.model, text), 0) + 1
    return [(model, text, count) for (model, text), count in counts.items()]
