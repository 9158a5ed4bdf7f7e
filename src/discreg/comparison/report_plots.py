"""The plots of the page: which models they show, and their words."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .figures import (
    MAX_NAMED_CLASSES,
    confusion_figure,
    convergence_figure,
    critical_difference_figure,
    margins_figure,
    rank_figure,
    scores_figure,
    svg,
)
from .findings import Findings
from .statistics import LEVEL, Verdict, friedman_nemenyi, summary
from .words import listed, percent, title

__all__ = ["Plot", "plots"]

MAX_CURVES = 6  # models in one plot of curves
MAX_MISTAKES = 5  # that are told in words


@dataclass(frozen=True)
class Plot:
    """A drawing with its words."""

    title: str
    source: str
    alt: str
    caption: str
    lines: tuple[str, ...] = ()  # what it shows, in words


def plots(findings: Findings, verdict: Verdict, judged: pd.DataFrame) -> Iterator[Plot]:
    """The plots that there are arrays for, in the order of the page."""
    if verdict.best is None:
        return
    chosen = verdict.best
    order = list(summary(judged, findings.metric).index)
    yield _scores(judged, findings.metric, order, chosen)
    if len(order) > 1 and verdict.n_folds > 1:
        yield _ranks(judged, findings.metric)
    if chosen in findings.confusion:
        yield _confusion(findings.confusion[chosen], findings.labels, chosen)
    if margins := _several(findings.margins, chosen, order):
        yield _margins(margins)
    if findings.rank_scores:
        yield _rank_scores(findings.rank_scores)
    falling = {m: values for m, values in findings.histories.items() if _falls(values)}
    if histories := _several(falling, chosen, order):
        yield _convergence(histories)


def _scores(judged: pd.DataFrame, metric: str, order: Sequence[str], chosen: str) -> Plot:
    of_metric = judged[judged["metric"] == metric].groupby("model")["value"]
    scores = {model: of_metric.get_group(model).to_numpy() for model in order}
    return _plot(
        "Scores per fold",
        scores_figure(scores, label=title(metric), marked=chosen),
        alt=f"{title(metric)} of {len(order)} models on each fold, the best mean at the top",
        caption=f"A point for each fold, a line at the mean. {chosen} is in orange.",
    )


def _ranks(judged: pd.DataFrame, metric: str) -> Plot:
    ranking = friedman_nemenyi(judged, metric)
    first, *_, last = ranking.mean_ranks.items()
    return _plot(
        "Ranks and critical difference",
        critical_difference_figure(ranking),
        alt=f"Mean ranks of {len(ranking.mean_ranks)} models, "
        f"from {first[0]} at {first[1]:.1f} to {last[0]} at {last[1]:.1f}",
        caption=f"Mean ranks over the {ranking.n_blocks} {ranking.blocks}. A bar at the right "
        "joins models whose ranks are within Nemenyi's critical difference at the "
        f"{percent(LEVEL)} level. {ranking.caution}".rstrip(),
    )


def _confusion(counts: NDArray[Any], labels: Sequence[str], chosen: str) -> Plot:
    numbered = (
        " The axes have the numbers of the classes, which are listed under “The data”."
        if len(labels) > MAX_NAMED_CLASSES
        else ""
    )
    right = f"{int(np.trace(counts))} of {int(counts.sum())} held-out predictions are right"
    return _plot(
        "Confusion matrix",
        confusion_figure(counts, labels),
        alt=f"Confusion matrix of {chosen}: {right}",
        caption=f"{chosen}, all folds together: {right}. Colours are shares of the true class: "
        f"green is right, blue is wrong.{numbered}",
        lines=_mistakes(counts, labels),
    )


def _margins(margins: Mapping[str, NDArray[Any]]) -> Plot:
    return _plot(
        "Margins",
        margins_figure(margins),
        alt=f"Cumulative distribution of the held-out margins of {listed(list(margins))}",
        caption="How far held-out samples are on the right side. A curve further to the right "
        "has larger margins; its height at 0 is the share of wrong predictions.",
    )


def _rank_scores(rank_scores: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]) -> Plot:
    return _plot(
        "Accuracy against rank",
        rank_figure(rank_scores),
        alt=f"Accuracy of {listed(list(rank_scores))} at each rank",
        caption="What a smaller rank of the coefficients costs.",
    )


def _convergence(histories: Mapping[str, NDArray[Any]]) -> Plot:
    return _plot(
        "Convergence",
        convergence_figure(histories),
        alt=f"Objective of {listed(list(histories))} above its last value by iteration",
        caption="The objective of one fit after each iteration, above its last value and relative "
        "to it.",
    )


def _plot(
    title: str, figure: Figure, *, alt: str, caption: str, lines: tuple[str, ...] = ()
) -> Plot:
    encoded = base64.b64encode(svg(figure).encode("utf-8")).decode()
    return Plot(title, f"data:image/svg+xml;base64,{encoded}", alt, caption, lines)


def _several(
    arrays: Mapping[str, NDArray[Any]], chosen: str, order: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Arrays of the recommended model and the best others, no more than a plot can tell apart."""
    models = [chosen, *(model for model in order if model != chosen)]
    there = [model for model in models if model in arrays and len(arrays[model])]
    return {model: arrays[model] for model in there[:MAX_CURVES]}


def _falls(history: NDArray[Any]) -> bool:
    return len(history) > 1 and bool(np.max(history) > history[-1])


def _mistakes(counts: NDArray[Any], labels: Sequence[str]) -> tuple[str, ...]:
    """The most frequent ones, in words."""
    wrong = np.where(np.eye(len(counts), dtype=bool), 0, counts)
    worst = np.argsort(-wrong, axis=None, kind="stable")[:MAX_MISTAKES]
    return tuple(
        f"{labels[true]} taken for {labels[taken]}: {counts[true, taken]} of {counts[true].sum()}"
        for true, taken in zip(*np.unravel_index(worst, counts.shape), strict=True)
        if wrong[true, taken]
    )
