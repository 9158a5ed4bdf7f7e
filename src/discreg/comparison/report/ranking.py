"""The ranking of a report: one line per model, with intervals on a common axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from discreg.base.metrics import metric
from discreg.comparison.candidates.contender import MAJORITY
from discreg.comparison.words import duration, number

from .figures import shortened
from .findings import Findings

__all__ = ["NOTHING", "Axis", "Cell", "Header", "RankingTable", "Row", "ranking_of", "signed"]

NOTHING = "–"
SHOWN = ("roc_auc", "rare_recall", "brier", "fit_seconds", "predict_seconds")
MARGIN = 0.04  # of the axis, left and right of the outermost interval


class Cell(NamedTuple):
    """A number in the table: its text, the value that it is sorted by, and a shorter remark."""

    title: str
    text: str
    value: float | None
    remark: str = ""


class Header(NamedTuple):
    """Title of a column, and the order that the first click gives."""

    title: str
    first: str  # "ascending" or "descending"


@dataclass(frozen=True)
class Axis:
    """Scale of the intervals; places are percentages of its width."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Position of a value."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Positions and labels."""
        values = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(self.low, self.high)
        inside = [value for value in values if self.low <= value <= self.high]
        gap = min(np.diff(values), default=1.0)
        digits = next((k for k in range(6) if np.isclose(gap, round(gap, k), rtol=1e-6)), 6)
        return [(self.place(value), f"{value:.{digits}f}") for value in inside]


class Row(NamedTuple):
    """One model; `range` has the places of low, mean and high, or is None."""

    model: str
    origin: str
    score: Cell
    range: tuple[float, float, float] | None
    difference: Cell
    against_best: Cell
    cells: list[Cell]
    params: str
    reason: str  # why the model is not judged; empty if it is
    kind: str  # "recommended", "majority", "unjudged" or ""


class RankingTable(NamedTuple):
    """Table of all models, the best first and those that are not judged last."""

    headers: list[Header]
    axis: Axis | None
    baseline: tuple[float, str] | None  # place and label of the majority class
    rows: list[Row]
    origins: list[str]
    first: str  # order of the scores, the best first


def ranking_of(findings: Findings) -> RankingTable:
    """Compute the ranking from the summary table."""
    table = findings.table
    shown = [name for name in SHOWN if name in table and name != findings.evidence.metric]
    shown = [name for name in shown if table[name].notna().any()]
    judged = table[table["reason"] == ""]
    axis = _axis(judged, findings)
    baseline = findings.verdict.baseline
    headers = [
        Header(_title(name, findings), _first(metric(name).lower_is_better)) for name in shown
    ]
    rows = [
        _row(str(model), row, axis, shown, headers, findings) for model, row in table.iterrows()
    ]
    return RankingTable(
        headers,
        axis,
        None
        if axis is None or baseline is None or not np.isfinite(baseline)
        else (axis.place(baseline), f"majority {number(baseline)}"),
        rows,
        [name for name in ("discreg", "scikit-learn", "own") if name in {*table["origin"]}],
        _first(metric(findings.evidence.metric).lower_is_better),
    )


def _axis(judged: pd.DataFrame, findings: Findings) -> Axis | None:
    ends = [*judged["low"], *judged["high"], *judged["mean"], findings.verdict.baseline]
    known = [float(end) for end in ends if end is not None and np.isfinite(end)]
    if not known:
        return None
    if metric(findings.evidence.metric).is_share:
        known = [min(max(end, 0.0), 1.0) for end in known]
    low, high = min(known), max(known)
    pad = MARGIN * (high - low) or 0.01
    return Axis(low - pad, high + pad)


def _row(
    model: str,
    row: pd.Series,
    axis: Axis | None,
    shown: Sequence[str],
    headers: Sequence[Header],
    findings: Findings,
) -> Row:
    reason = str(row["reason"])
    kind = ""
    if reason:
        kind = "unjudged"
    elif model == findings.verdict.recommended:
        kind = "recommended"
    elif model == MAJORITY:
        kind = "majority"
    return Row(
        model,
        str(row["origin"]),
        _cell(findings.metric_title, row["mean"]),
        _places(row, axis, findings) if axis is not None and not reason else None,
        _difference(row),
        _against_best(row),
        [_cell(head.title, row[name], name) for head, name in zip(headers, shown, strict=True)],
        str(row["parameters"]),
        reason,
        kind,
    )


def _places(row: pd.Series, axis: Axis, findings: Findings) -> tuple[float, float, float] | None:
    low, mean, high = (float(row[end]) for end in ("low", "mean", "high"))
    if not np.isfinite(mean):
        return None
    if not np.isfinite(low):
        low = high = mean
    if metric(findings.evidence.metric).is_share:
        low, high = max(low, 0.0), min(high, 1.0)
    return axis.place(low), axis.place(mean), axis.place(high)


def _difference(row: pd.Series) -> Cell:
    mean, low, high = (row[f"difference{end}"] for end in ("", "_low", "_high"))
    title = "difference from the best"
    if not _known(mean):
        return Cell(title, NOTHING, None)
    if mean == low == high == 0:
        return Cell(title, "best mean", 0.0)
    if not _known(low):
        return Cell(title, signed(mean), float(mean))
    return Cell(title, signed(mean), float(mean), f"({signed(low)} to {signed(high)})")


def _against_best(row: pd.Series) -> Cell:
    """The most probable of better, equivalent and worse, with its probability."""
    title = "against the best"
    values = {word: row[f"p_{word}"] for word in ("better", "equivalent", "worse")}
    if row["difference"] == row["difference_low"] == row["difference_high"] == 0:
        return Cell(title, NOTHING, 0.0)  # the best itself
    if not all(_known(value) for value in values.values()):
        return Cell(title, NOTHING, None)
    word = max(values, key=lambda each: float(values[each]))
    return Cell(title, f"{word} {_probability(values[word])}", float(values["worse"]))


def _probability(p: float) -> str:
    """Format a probability, never as 1."""
    return ">\N{NO-BREAK SPACE}0.99" if p > 0.99 else f"{p:.2f}"


def _cell(title: str, value: Any, name: str = "") -> Cell:
    if not _known(value):
        return Cell(title, NOTHING, None)
    is_time = metric(name).needs == "clock"
    return Cell(title, duration(value) if is_time else number(value), float(value))


def _known(value: Any) -> bool:
    return value is not None and bool(np.isfinite(value))


def _title(name: str, findings: Findings) -> str:
    if name == "roc_auc":
        return "AUC"
    if name == "rare_recall":
        rarest = findings.evidence.classes[findings.evidence.rarest]
        return f"recall of {shortened(str(rarest), 14)}"
    return metric(name).title.removesuffix(" score")


def _first(lower_is_better: bool) -> str:
    return "ascending" if lower_is_better else "descending"


def signed(value: float) -> str:
    """Format a difference with its sign, and a minus sign instead of a hyphen."""
    text = f"{value:+.3f}".replace("-", "\N{MINUS SIGN}")
    return text[1:] if float(f"{value:.3f}") == 0 else text
