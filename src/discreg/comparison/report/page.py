"""HTML reports: of a comparison with its ranking, and of the evaluation of a saved model.

A report is one file without network requests, scripts or embedded fonts. Text from the user's table
is escaped.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from discreg.base.metrics import metric
from discreg.comparison.candidates.registry import MAJORITY
from discreg.comparison.command import remedied
from discreg.comparison.running.store import write_whole
from discreg.comparison.statistics.performance import Measured
from discreg.comparison.statistics.scores import equivalence
from discreg.comparison.statistics.verdict import Verdict
from discreg.comparison.words import duration, number, printable

from .checklist import checklist
from .model_section import inspection_plots, model_section

TAKES = {
    "red flag": "Do not use these scores",
    "nothing is better than the class frequencies": "No model is better than the class frequencies",
    "not enough evidence": "Not enough evidence",
}


def write_report(path: Path, comparison: Any) -> None:
    """Write the report of a comparison atomically."""
    findings, verdict = comparison.findings, comparison.verdict
    evidence, decisive = comparison.evidence, metric(comparison.evidence.metric)
    shown = verdict.best if verdict.kind != "red flag" else None
    flags = sorted(comparison.flags, key=lambda flag: flag.level != "danger")
    section = None
    if shown is not None:
        section = model_section(evidence.sample(shown), shown)
        section.plots.extend(
            inspection_plots(
                findings.importance,
                findings.learning_curve,
                model=shown,
                title=decisive.title,
                is_share=decisive.is_share,
            )
        )
    told = {name: each for name, each in evidence.contenders.items() if each.n_failures}
    _write(
        path,
        "report.html",
        findings=findings,
        verdict=verdict,
        evidence=evidence,
        title=decisive.title,
        rope=equivalence(decisive.name),
        take=TAKES.get(verdict.kind, f"Use {verdict.recommended}"),
        flags=flags,
        remedy=remedied(flags, findings.command),
        ranking=ranking_of(comparison.table, verdict),
        model=section,
        keeps_rows=shown is not None and evidence.contenders[shown].keeps_rows,
        checklist=checklist(findings, evidence, verdict),
        failures=[(name, each.failure, each.n_failures) for name, each in told.items()],
        warnings=[
            (name, text, count)
            for name, each in evidence.contenders.items()
            for text, count in each.warnings.items()
        ],
    )


def write_evaluation(path: Path, evaluated: Any) -> None:
    """Write the report of the evaluation of a saved model atomically."""
    section = model_section(evaluated.sample, evaluated.model)
    _write(path, "evaluation.html", evaluated=evaluated, model=section)


def _write(path: Path, template: str, **contents: Any) -> None:
    environment = Environment(
        loader=PackageLoader("discreg.comparison.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"number": number, "interval": _interval}
    write_whole(path, environment.get_template(template).render(**contents))


def _visible(value: Any) -> Any:
    """Escape control characters of names, which could change the direction of other text."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(map(printable, value.split("\n")))
    return value


def _interval(measured: Measured) -> str:
    if measured.low != measured.low:
        return "–"
    return f"{number(measured.low)} to {number(measured.high)}"


NOTHING = "–"
SHOWN = ("log_loss", "brier", "roc_auc", "accuracy", "balanced_accuracy", "fit_seconds")
PAD = 0.04  # of the axis, left and right of the outermost interval
EDGE = 0.02  # of the axis, left and right of the outermost mark


class Cell(NamedTuple):
    """A number in the table."""

    title: str
    text: str
    remark: str = ""


@dataclass(frozen=True)
class Axis:
    """Scale of the intervals; places are percentages of its width."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Position of a value; the ends of the axis stand for all beyond."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(max(share, EDGE), 1 - EDGE), 2)

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
    range: tuple[float, ...] | None
    difference: Cell
    better: Cell
    cells: list[Cell]
    params: str
    reason: str  # why the model is not judged; empty if it is
    kind: str  # "recommended", "majority", "unjudged" or ""


class RankingTable(NamedTuple):
    """Table of all models, the best first and those that are not judged last."""

    titles: list[str]  # of further columns
    axis: Axis | None
    baseline: tuple[float, str] | None  # place and label of the class frequencies
    rows: list[Row]
    origins: list[str]


def ranking_of(table: pd.DataFrame, verdict: Verdict) -> RankingTable:
    """Compute the ranking from the summary table."""
    shown = [name for name in SHOWN if name in table and name != verdict.metric]
    shown = [name for name in shown if table[name].notna().any()]
    judged = table[table["reason"] == ""]
    axis = _axis(judged)
    baseline = None
    if axis is not None and MAJORITY in judged.index:
        value = float(judged.loc[MAJORITY, "mean"])
        baseline = axis.place(value), f"class frequencies {number(value)}"
    return RankingTable(
        [_title(name) for name in shown],
        axis,
        baseline,
        [_row(str(name), row, axis, shown, verdict) for name, row in table.iterrows()],
        sorted({*table["origin"]} - {""}),
    )


def _axis(judged: pd.DataFrame) -> Axis | None:
    if "mean" not in judged:
        return None
    ends = judged[["low", "mean", "high"]].to_numpy(dtype=float)
    known = ends[np.isfinite(ends)]
    if not len(known):
        return None
    low, high = known.min(), known.max()
    # A model that is certain and wrong has a log-loss far beyond all others.
    if MAJORITY in judged.index:
        reach = 3 * max(abs(judged.loc[MAJORITY, "mean"] - judged["mean"].iloc[0]), 1e-3)
        high = min(high, max(judged["high"].iloc[0], judged.loc[MAJORITY, "mean"]) + reach)
    pad = PAD * (high - low) or 0.01
    return Axis(float(low - pad), float(high + pad))


def _row(model: str, row: pd.Series, axis: Axis | None, shown: list[str], verdict: Verdict) -> Row:
    reason = str(row["reason"])
    kind = ""
    if reason:
        kind = "unjudged"
    elif model == verdict.recommended:
        kind = "recommended"
    elif model == MAJORITY:
        kind = "majority"
    places = None
    if axis is not None and not reason:
        ends = row[["low", "mean", "high"]].astype(float).fillna(row["mean"])
        places = tuple(map(axis.place, ends))
    return Row(
        model,
        str(row["origin"]),
        _cell(metric(verdict.metric).title, row.get("mean")),
        places,
        _difference(row),
        _better(row),
        [_cell(_title(name), row[name], name) for name in shown],
        str(row["parameters"]),
        reason,
        kind,
    )


def _difference(row: pd.Series) -> Cell:
    title = "difference from the best"
    mean, low, high = (row.get(f"difference{end}") for end in ("", "_low", "_high"))
    if not _known(mean) or mean == low == high == 0:  # the best one
        return Cell(title, NOTHING)
    return Cell(title, signed(mean), f"({signed(low)} to {signed(high)})")


def _better(row: pd.Series) -> Cell:
    """The probability that the best model is better."""
    title, p = "P(best is better)", row.get("p_better")
    if not _known(p) or row["difference"] == row["difference_low"] == 0:
        return Cell(title, NOTHING)
    return Cell(title, ">\N{NO-BREAK SPACE}0.99" if p > 0.99 else f"{p:.2f}")


def _cell(title: str, value: Any, name: str = "") -> Cell:
    if not _known(value):
        return Cell(title, NOTHING)
    is_time = metric(name).needs == "clock"
    return Cell(title, duration(value) if is_time else number(value))


def _known(value: Any) -> bool:
    return value is not None and bool(np.isfinite(value))


def _title(name: str) -> str:
    return "AUC" if name == "roc_auc" else metric(name).title.removesuffix(" score")


def signed(value: float) -> str:
    """Format a difference with its sign, and a minus sign instead of a hyphen."""
    text = f"{value:+.3f}".replace("-", "\N{MINUS SIGN}")
    return text[1:] if float(f"{value:.3f}") == 0 else text
