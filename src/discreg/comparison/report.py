"""HTML report of a comparison: the recommended model and the evidence.

The report is one file without scripts, network requests or embedded fonts. Text from the user's
table is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure
from numpy.typing import NDArray

from discreg.base.metrics import METRICS, metric

from .experiment import Key
from .figures import (
    MAX_NAMED_CLASSES,
    confusion_figure,
    convergence_figure,
    critical_difference_figure,
    image_source,
    margins_figure,
    rank_figure,
    scores_figure,
    svg,
)
from .files import write_whole
from .findings import Findings
from .statistics import (
    LEVEL,
    Verdict,
    below_the_best,
    friedman_nemenyi,
    judged_results,
    summary,
    win_tie_loss,
)
from .words import duration, listed, number, p_value, percent

__all__ = ["Findings", "write_report"]

NOTHING = "–"
MAX_CURVES = 6  # most models in one plot of curves
MAX_MISTAKES = 5  # most confusions that are listed as text


class Cell(NamedTuple):
    """One number in the ranking table."""

    title: str
    text: str
    note: str


class IntervalBar(NamedTuple):
    """An interval on a scale from 0 to 100."""

    low: float
    mean: float
    high: float
    text: str


class Row(NamedTuple):
    """One model in the ranking table; the bar is None if there is no interval."""

    model: str
    cells: list[Cell]
    note: str
    bar: IntervalBar | None = None
    ranked: bool = False
    recommended: bool = False


class Plot(NamedTuple):
    """A figure with its title, alternative text and caption."""

    title: str
    figure: Figure
    alt: str
    caption: str
    lines: Sequence[str] = ()  # list below the caption

    @property
    def source(self) -> str:
        """The figure as a data URL."""
        return image_source(svg(self.figure))


def write_report(path: Path, findings: Findings) -> None:
    """Write the report atomically."""
    environment = Environment(
        loader=PackageLoader("discreg.comparison"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html")
    write_whole(path, template.render(findings=findings, **_contents(findings)))


def _contents(findings: Findings) -> dict[str, Any]:
    """Compute the variables of the template."""
    seconds = findings.final_seconds
    verdict = below_the_best(
        findings.results, findings.metric, failures=findings.failures, n_folds=findings.n_folds
    )
    judged = judged_results(findings.results, findings.metric, failures=findings.failures)
    columns = [
        name
        for name in dict.fromkeys([findings.metric, *METRICS])
        if name in set(findings.results["metric"])
    ]
    has_pairs = bool(verdict.tied or verdict.below)
    return {
        "fitted_in": None if seconds is None else duration(seconds),
        "verdict": verdict,
        "metric": metric(findings.metric).title,
        "level": percent(LEVEL),
        "confidence": percent(1 - LEVEL),
        "majority": number(findings.majority_rate),
        "assurance": list(_assurance(findings, verdict, judged)),
        "titles": [metric(name).title for name in columns],
        "rows": list(_rows(findings, verdict, judged, columns)),
        "p_values": {model: p_value(p) for model, p in verdict.p_values.items()},
        "duels": _duels(judged, findings.metric, findings.n_folds) if has_pairs else [],
        "plots": list(_plots(findings, verdict, judged)),
        "classes": _classes(findings),
        "failures": _grouped({key: [text] for key, text in findings.failures.items()}),
        "warnings": _grouped(findings.warnings),
    }


def _assurance(findings: Findings, verdict: Verdict, judged: pd.DataFrame) -> Iterator[str]:
    """Yield sentences on the score of the recommended model and its uncertainty."""
    if verdict.best is None:
        return
    row = _intervals(judged, findings.metric, findings.n_folds).loc[verdict.best]
    interval = (
        f", with a {percent(1 - LEVEL)} confidence interval from {number(row['low'])} to "
        f"{number(row['high'])}"
        if np.isfinite(row["low"])
        else "; one fold gives no interval"
    )
    title = metric(findings.metric).title
    yield f"The mean {title} of {verdict.best} is {number(row['mean'])}{interval}."
    accuracy = _intervals(judged, "accuracy", findings.n_folds).loc[verdict.best]
    floor = (
        f"Always predicting the most frequent class has accuracy {number(findings.majority_rate)}"
    )
    doubt = (
        f"; the accuracy of {verdict.best} ({number(accuracy['mean'])}) is not significantly "
        "higher on these folds"
    )
    yield f"{floor}{'' if accuracy['low'] > findings.majority_rate else doubt}."


def _intervals(results: pd.DataFrame, name: str, n_folds: int) -> pd.DataFrame:
    """Compute the summary, with intervals clipped to the range of the metric."""
    table = summary(results, name, n_folds=n_folds)
    highest = 1.0 if metric(name).is_share else np.inf
    table[["low", "high"]] = table[["low", "high"]].clip(0.0, highest)
    return table


# The ranking


def _rows(
    findings: Findings, verdict: Verdict, judged: pd.DataFrame, columns: Sequence[str]
) -> Iterator[Row]:
    """Yield the ranked models, the best first, then the models that are not ranked."""
    if verdict.best is not None:
        notes = dict.fromkeys(verdict.tied, "not significantly worse")
        notes |= dict.fromkeys(verdict.below, "significantly worse") | {verdict.best: "best mean"}
        table = _intervals(judged, findings.metric, findings.n_folds)
        for model in table.index:
            cells = _cells(judged[judged["model"] == model], columns, verdict.n_folds, findings)
            bar = _bar(table.loc[model], table)
            yield Row(model, cells, notes[model], bar, True, model == verdict.best)
    for model, why in verdict.incomplete.items():
        own = findings.results[findings.results["model"] == model]
        yield Row(model, _cells(own, columns, None, findings), note=f"not ranked: {why}")


def _cells(
    results: pd.DataFrame, columns: Sequence[str], n_folds: int | None, findings: Findings
) -> list[Cell]:
    """Format the numbers of one model, with a note on scores that some folds do not have."""
    cells = []
    for name in columns:
        values = results.loc[results["metric"] == name, "value"].dropna()
        notes = [f"majority {number(findings.majority_rate)}"] if name == "accuracy" else []
        if n_folds is not None and 0 < len(values) < n_folds:
            notes.append(f"{len(values)} of {n_folds} folds")
        if values.empty:
            text = NOTHING
        elif metric(name).needs == "clock":
            text = duration(values.median())
        else:
            with_spread = name == findings.metric and len(values) > 1
            spread = f" ± {number(values.std(ddof=1))}" if with_spread else ""
            text = number(values.mean()) + spread
        cells.append(Cell(metric(name).title, text, ", ".join(notes)))
    return cells


def _bar(row: pd.Series, table: pd.DataFrame) -> IntervalBar | None:
    """Scale the interval and the mean to the common scale of all models."""
    if not np.isfinite(row["low"]):
        return None
    left, right = table["low"].min(), table["high"].max()
    width = max(right - left, np.finfo(float).tiny)
    low, mean, high = (100 * (row[end] - left) / width for end in ("low", "mean", "high"))
    return IntervalBar(low, mean, high, f"{number(row['low'])} to {number(row['high'])}")


def _duels(judged: pd.DataFrame, name: str, n_folds: int) -> list[tuple[str, int, int, int]]:
    """Count the wins, ties and losses of each model against the others."""
    pairs = win_tie_loss(judged, name, n_folds=n_folds)
    counts = pairs.groupby(level="model", sort=False).sum()
    return [(model, *map(int, counts.loc[model])) for model in summary(judged, name).index]


# Classes, failures and warnings


def _classes(findings: Findings) -> list[tuple[str, str, int]]:
    """List the classes: number in the confusion matrix if it shows no labels, label, samples."""
    numbered = findings.labels if len(findings.labels) > MAX_NAMED_CLASSES else ()
    numbers = {label: str(place) for place, label in enumerate(numbered, start=1)}
    return [
        (numbers.get(label, ""), label, count) for label, count in findings.class_counts.items()
    ]


def _grouped(texts: Mapping[Key, Sequence[str]]) -> list[tuple[str, str, int]]:
    """Group equal messages of a model and count their fits."""
    counts = Counter((key.model, text) for key, said in texts.items() for text in said)
    return [(model, text, count) for (model, text), count in counts.items()]


# Plots


def _plots(findings: Findings, verdict: Verdict, judged: pd.DataFrame) -> Iterator[Plot]:
    """Yield the plots for which there are data, in the order of the report."""
    chosen = verdict.best
    if chosen is None:
        return
    order = list(summary(judged, findings.metric).index)
    title = metric(findings.metric).title
    of_metric = judged[judged["metric"] == findings.metric].groupby("model")["value"]
    scores = {model: of_metric.get_group(model).to_numpy() for model in order}
    yield Plot(
        "Scores per fold",
        scores_figure(scores, label=title, marked=chosen),
        alt=f"{title} of {len(order)} models on each fold, the best mean at the top",
        caption=f"One point per fold; the line is the mean. {chosen} is orange.",
    )
    if len(order) > 1 and verdict.n_folds > 1:
        yield _ranks(judged, findings.metric)
    if chosen in findings.confusion:
        yield _confusion(findings.confusion[chosen], findings.labels, chosen)
    if margins := _several(findings.margins, chosen, order):
        yield Plot(
            "Margins",
            margins_figure(margins),
            alt=f"Cumulative distribution of the held-out margins of {listed(list(margins))}",
            caption="Margins of held-out samples. A curve further to the right has larger margins; "
            "its height at 0 is the error rate.",
        )
    if findings.rank_scores:
        yield Plot(
            "Accuracy by rank",
            rank_figure(findings.rank_scores),
            alt=f"Accuracy of {listed(list(findings.rank_scores))} at each rank",
            caption="Accuracy in the parameter search for each rank of the coefficients.",
        )
    falling = {
        model: history
        for model, history in findings.histories.items()
        if len(history) > 1 and np.max(history) > history[-1]
    }
    if histories := _several(falling, chosen, order):
        yield Plot(
            "Convergence",
            convergence_figure(histories),
            alt=f"Objective of {listed(list(histories))} above its last value by iteration",
            caption="Relative difference between the objective of one fit after each iteration and "
            "its last value.",
        )


def _ranks(judged: pd.DataFrame, name: str) -> Plot:
    ranking = friedman_nemenyi(judged, name)
    first, *_, last = ranking.mean_ranks.items()
    return Plot(
        "Ranks and critical difference",
        critical_difference_figure(ranking),
        alt=f"Mean ranks of {len(ranking.mean_ranks)} models, "
        f"from {first[0]} at {first[1]:.1f} to {last[0]} at {last[1]:.1f}",
        caption=f"Mean ranks over {ranking.n_blocks} {ranking.blocks}. A bar on the right joins "
        "models whose mean ranks differ by less than Nemenyi's critical difference at the "
        f"{percent(LEVEL)} level. {ranking.caution}".rstrip(),
    )


def _confusion(counts: NDArray[Any], labels: Sequence[str], chosen: str) -> Plot:
    numbered = (
        " The axes show class numbers, which are listed under “The data”."
        if len(labels) > MAX_NAMED_CLASSES
        else ""
    )
    right = f"{int(np.trace(counts))} of {int(counts.sum())} held-out predictions are correct"
    wrong = np.where(np.eye(len(counts), dtype=bool), 0, counts)
    worst = np.argsort(-wrong, axis=None, kind="stable")[:MAX_MISTAKES]
    return Plot(
        "Confusion matrix",
        confusion_figure(counts, labels),
        alt=f"Confusion matrix of {chosen}: {right}",
        caption=f"{chosen}, all folds together: {right}. Colours show fractions of the true class: "
        f"green is correct, blue is wrong.{numbered}",
        lines=[
            f"{labels[true]} predicted as {labels[other]}: {wrong[true, other]} of "
            f"{counts[true].sum()}"
            for true, other in zip(*np.unravel_index(worst, counts.shape), strict=True)
            if wrong[true, other]
        ],
    )


def _several(
    arrays: Mapping[str, NDArray[Any]], chosen: str, order: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Select the arrays of the recommended model and of the next best, for one plot."""
    models = [model for model in dict.fromkeys([chosen, *order]) if len(arrays.get(model, ()))]
    return {model: arrays[model] for model in models[:MAX_CURVES]}
