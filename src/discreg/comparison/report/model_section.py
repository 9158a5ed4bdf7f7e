"""The section of a report on one model: classes, thresholds, plots, and mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from discreg.base.metrics import metric
from discreg.comparison.statistics.curves import (
    ClassScores,
    calibration,
    class_scores,
    confusion,
    one_prediction_per_row,
    precision_recall_curves,
    roc_curves,
)
from discreg.comparison.statistics.evidence import HeldOutPredictions
from discreg.comparison.statistics.thresholds import OperatingPoint, operating_points
from discreg.comparison.words import number

from .figures import MAX_NAMED_CLASSES, confusion_figure, image_source, shortened, svg
from .findings import Findings
from .model_figures import (
    MAX_IMPORTANT,
    CurvePoint,
    calibration_figure,
    importance_figure,
    learning_curve_figure,
    one_against_rest_figure,
    precision_recall_figure,
    roc_figure,
)

__all__ = ["ConfusionCell", "Mistake", "ModelSection", "Plot", "model_section"]

MAX_TABLE = 12  # most classes of a confusion matrix that is a table
MAX_MISTAKES = 5  # most confusions that are listed as text
MAX_WRONG_ROWS = 10
MARKED = 0.9  # wanted recall that the curves show


class Plot(NamedTuple):
    """A figure with its title, alternative text and caption."""

    title: str
    figure: Figure
    alt: str
    caption: str

    @property
    def source(self) -> str:
        """The figure as a data URL."""
        return image_source(svg(self.figure))


class ConfusionCell(NamedTuple):
    """Rows of one class that are predicted as another, and their fraction of the class."""

    n_rows: int
    opacity: float
    is_right: bool


class Mistake(NamedTuple):
    """A row that is predicted wrongly."""

    row: int  # from 1
    label: str
    predicted: str
    probability: str


class ModelSection(NamedTuple):
    """What the report shows of a model."""

    name: str
    is_recommended: bool
    n_rows: int
    n_right: int
    labels: list[str]
    classes: list[tuple[str, ClassScores]]
    rarest: str
    confusion: list[list[ConfusionCell]] | None  # None if there are too many classes for a table
    confusion_plot: Plot | None
    mistakes: list[str]
    thresholds: Sequence[OperatingPoint]
    positive: str | None
    plots: list[Plot]
    wrong_rows: list[Mistake]


def model_section(findings: Findings, model: str) -> ModelSection | None:
    """Collect what is known of a model; None without held-out predictions."""
    evidence = findings.evidence
    held = one_prediction_per_row(evidence, model)
    if held is None:
        return None
    labels = [str(label) for label in evidence.classes]
    scores = class_scores(evidence, held)
    matrix = confusion(evidence, held)
    is_table = len(labels) <= MAX_TABLE
    place = evidence.positive
    points = [] if place is None else operating_points(evidence, held, place)
    return ModelSection(
        model,
        model == findings.verdict.recommended,
        int(matrix.sum()),
        int(np.trace(matrix)),
        labels,
        list(zip(labels, scores, strict=True)),
        labels[evidence.rarest],
        _cells(matrix) if is_table else None,
        None if is_table else _confusion_plot(matrix, labels, model),
        [] if len(labels) == 2 else _mistakes(matrix, labels),
        points,
        None if place is None else labels[place],
        list(_plots(findings, model, held, scores, points)),
        _wrong_rows(findings, held, labels) if findings.show_rows else [],
    )


def _cells(matrix: NDArray[Any]) -> list[list[ConfusionCell]]:
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    return [
        [
            # The root makes rare confusions visible.
            ConfusionCell(int(count), round(0.5 * float(np.sqrt(share)), 3), row == column)
            for column, (count, share) in enumerate(zip(counts, shares[row], strict=True))
        ]
        for row, counts in enumerate(matrix)
    ]


def _confusion_plot(matrix: NDArray[Any], labels: Sequence[str], model: str) -> Plot:
    numbers = (
        " The axes show the numbers of the classes in the table."
        if len(labels) > MAX_NAMED_CLASSES
        else ""
    )
    return Plot(
        "Confusion matrix",
        confusion_figure(matrix, labels),
        f"Confusion matrix of {model} for {len(labels)} classes",
        f"Colours show fractions of the true class: green is correct, blue is wrong.{numbers}",
    )


def _mistakes(matrix: NDArray[Any], labels: Sequence[str]) -> list[str]:
    """Write the most frequent confusions."""
    wrong = np.where(np.eye(len(matrix), dtype=bool), 0, matrix)
    worst = np.argsort(-wrong, axis=None, kind="stable")[:MAX_MISTAKES]
    return [
        f"{labels[true]} predicted as {labels[other]}: {wrong[true, other]} of {matrix[true].sum()}"
        for true, other in zip(*np.unravel_index(worst, matrix.shape), strict=True)
        if wrong[true, other]
    ]


def _wrong_rows(
    findings: Findings, held: HeldOutPredictions, labels: Sequence[str]
) -> list[Mistake]:
    """List the wrong predictions with the highest probabilities."""
    wrong = np.flatnonzero(findings.evidence.y[held.rows] != held.labels)
    sure = np.full(len(held.rows), np.nan)
    if held.probabilities is not None:
        sure = held.probabilities[np.arange(len(held.rows)), held.labels]
        wrong = wrong[np.argsort(-sure[wrong], kind="stable")]
    return [
        Mistake(
            int(held.rows[place]) + 1,
            labels[findings.evidence.y[held.rows[place]]],
            labels[held.labels[place]],
            "–" if np.isnan(sure[place]) else number(sure[place]),
        )
        for place in wrong[:MAX_WRONG_ROWS]
    ]


# Plots


def _plots(
    findings: Findings,
    model: str,
    held: HeldOutPredictions,
    scores: Sequence[ClassScores],
    points: Sequence[OperatingPoint],
) -> Iterator[Plot]:
    """Yield the plots for which there are data."""
    if findings.evidence.positive is not None:
        yield from _two_class_plots(findings, model, held, points)
    else:
        yield from _one_against_rest(findings, model, held, scores)
    yield from _calibration(findings, model, held)
    if findings.importance is not None and len(findings.importance):
        n_more = max(len(findings.importance) - MAX_IMPORTANT, 0)
        rest = f" {n_more} more columns are not shown." if n_more else ""
        yield Plot(
            "Permutation importance",
            importance_figure(findings.importance, label=f"loss of {findings.metric_title}"),
            f"Permutation importance of the columns for {model}",
            f"How much {findings.metric_title} is lost when a column of the held-out rows is "
            f"shuffled, with 95 % intervals over the folds.{rest}",
        )
    if findings.learning_curve is not None and len(findings.learning_curve):
        curve = findings.learning_curve
        if metric(findings.evidence.metric).is_share:
            curve = curve.assign(low=curve["low"].clip(0, 1), high=curve["high"].clip(0, 1))
        yield Plot(
            "Learning curve",
            learning_curve_figure(curve, label=findings.metric_title),
            f"Held-out {findings.metric_title} of {model} by the number of training rows",
            "A curve that still rises at its right end means that more rows would help.",
        )


def _two_class_plots(
    findings: Findings, model: str, held: HeldOutPredictions, points: Sequence[OperatingPoint]
) -> Iterator[Plot]:
    evidence = findings.evidence
    place = evidence.positive
    assert place is not None
    label = str(evidence.classes[place])
    roc = roc_curves(evidence, held, place)
    precision_recall = precision_recall_curves(evidence, held, place)
    if roc is None or precision_recall is None:
        return
    share = float(np.mean(evidence.y[held.rows] == place))
    marked = [each for each in points if each.wanted == MARKED]
    text = f"recall {MARKED:g}"
    yield Plot(
        "ROC curve",
        roc_figure(
            roc,
            [CurvePoint(each.false_positive_rate, each.recall, text) for each in marked],
        ),
        f"ROC curve of {model} for the class {label}",
        f"{_mean_text(findings, model, 'roc_auc')}Grey lines are single folds. The dot is the "
        f"threshold for a recall of {MARKED:g}.",
    )
    yield Plot(
        "Precision and recall",
        precision_recall_figure(
            precision_recall,
            [CurvePoint(each.recall, each.precision, text) for each in marked],
            share=share,
        ),
        f"Precision-recall curve of {model} for the class {label}",
        f"{_mean_text(findings, model, 'average_precision')}The dashed line is the fraction of "
        f"“{label}” in all rows, {number(share)}.",
    )


def _one_against_rest(
    findings: Findings, model: str, held: HeldOutPredictions, scores: Sequence[ClassScores]
) -> Iterator[Plot]:
    curves, aucs = {}, {}
    for place, label in enumerate(findings.evidence.classes):
        curve = roc_curves(findings.evidence, held, place)
        if curve is not None:
            curves[str(label)] = curve.whole
            aucs[str(label)] = scores[place].auc
    if curves:
        yield Plot(
            "ROC curves",
            one_against_rest_figure(curves, sorted(curves, key=lambda label: aucs[label])),
            f"ROC curves of {model}, each class against the others",
            f"{_mean_text(findings, model, 'roc_auc')}Each class against all others; the classes "
            "with the smallest areas have colours.",
        )


def _calibration(findings: Findings, model: str, held: HeldOutPredictions) -> Iterator[Plot]:
    evidence = findings.evidence
    groups = calibration(evidence, held)
    if groups is None:
        return
    if evidence.positive is None:
        x, y = "probability of the predicted class", "fraction that is correct"
    else:
        label = evidence.classes[evidence.positive]
        x, y = f"predicted probability of {label}", f"observed fraction of {label}"
    balanced = "class_weight=balanced" in str(findings.table.loc[model, "parameters"])
    raised = " Balanced class weights raise the probabilities of rare classes." if balanced else ""
    yield Plot(
        "Calibration",
        calibration_figure(groups, label=shortened(x, 48), observed=shortened(y, 40)),
        f"Calibration curve of {model}",
        f"{_mean_text(findings, model, 'brier')}Dots on the dashed line are "
        f"well calibrated. {len(groups.n_rows)} groups of rows, with 95 % intervals.{raised}",
    )


def _mean_text(findings: Findings, model: str, name: str) -> str:
    """Write the mean of a metric over the folds as a sentence; empty if it is unknown."""
    if name not in findings.table or not np.isfinite(value := findings.table.loc[model, name]):
        return ""
    title = metric(name).title
    return f"{title[0].upper()}{title[1:]} {number(value)}. "
