"""The section of a report on one model: numbers, classes, thresholds, plots, and mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from discreg.comparison.statistics.performance import (
    Measured,
    OperatingPoint,
    calibration,
    decision_curve,
    measure,
    operating_points,
    precision_recall,
    roc,
)
from discreg.comparison.statistics.sample import Interval, Proportion, Sample
from discreg.comparison.words import listed, number

from .figures import (
    MAX_IMPORTANT,
    CurvePoint,
    calibration_figure,
    decision_curve_figure,
    image_source,
    importance_figure,
    learning_curve_figure,
    precision_recall_figure,
    roc_figure,
    shortened,
    svg,
)

MAX_TABLE = 12  # most classes of a confusion matrix that is a table
MAX_MISTAKES = 5  # most confusions that are listed as text
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
    """Rows of one class that are labelled as another, and their fraction of the class."""

    n_rows: int
    opacity: float
    is_right: bool


class ModelSection(NamedTuple):
    """What a report shows of a model."""

    numbers: list[Measured]
    rule: str
    labels: list[str]
    classes: list[tuple[str, Proportion, Proportion]]  # recall and precision
    confusion: list[list[ConfusionCell]] | None  # None if there are too many classes for a table
    mistakes: list[str]
    thresholds: Sequence[OperatingPoint]
    positive: str | None
    plots: list[Plot]


def model_section(sample: Sample, model: str) -> ModelSection:
    """Collect what is known of a model from its predictions of rows that it has not seen."""
    labels = [str(label) for label in sample.classes]
    matrix = sample.confusion
    points = operating_points(sample)
    classes = [
        (
            label,
            sample.proportion(sample.labels == place, sample.y == place),
            sample.proportion(sample.y == place, sample.labels == place),
        )
        for place, label in enumerate(labels)
    ]
    return ModelSection(
        measure(sample),
        sample.rule.text,
        labels,
        classes if sample.positive is None else [],
        _cells(matrix) if len(labels) <= MAX_TABLE else None,
        [] if len(labels) == 2 else _mistakes(matrix, labels),
        points,
        None if sample.positive is None else labels[sample.positive],
        list(_plots(sample, model, points)),
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


def _mistakes(matrix: NDArray[Any], labels: Sequence[str]) -> list[str]:
    """Write the most frequent confusions."""
    wrong = np.where(np.eye(len(matrix), dtype=bool), 0, matrix)
    worst = np.argsort(-wrong, axis=None, kind="stable")[:MAX_MISTAKES]
    return [
        f"{labels[true]} labelled {labels[other]}: {wrong[true, other]} of {matrix[true].sum()}"
        for true, other in zip(*np.unravel_index(worst, matrix.shape), strict=True)
        if wrong[true, other]
    ]


def _plots(sample: Sample, model: str, points: Sequence[OperatingPoint]) -> Iterator[Plot]:
    """Yield the plots of predictions for which there are data."""
    if sample.positive is None:
        x, y = "probability of the most probable class", "fraction that is correct"
    else:
        label = str(sample.classes[sample.positive])
        x, y = f"predicted probability of {label}", f"observed fraction of {label}"
        yield from _two_class_plots(sample, model, label, points)
    groups = calibration(sample)
    yield Plot(
        "Calibration",
        calibration_figure(groups, label=shortened(x, 48), observed=shortened(y, 40)),
        f"Calibration curve of {model}",
        f"Slope {_with_interval(groups.slope)}, ideally 1 (below 1: too extreme, above 1: too "
        f"cautious); intercept {_with_interval(groups.intercept)}, ideally 0. {len(groups.n_rows)} "
        f"groups of {min(groups.n_rows):,.0f} to {max(groups.n_rows):,.0f} rows with 95 % "
        "intervals.",
    )


def _with_interval(found: Interval) -> str:
    if not np.isfinite(found.value):
        return "not defined"
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def _two_class_plots(
    sample: Sample, model: str, label: str, points: Sequence[OperatingPoint]
) -> Iterator[Plot]:
    place = sample.positive
    assert place is not None
    curve = roc(sample, place)
    if curve is None:
        return
    marked, text = [each for each in points if each.wanted == MARKED], f"recall {MARKED:g}"
    others = sample.counts.sum() - sample.counts[place]
    false_rates = [(p.alarms.hits - p.precision.hits) / others for p in marked]
    yield Plot(
        "ROC curve",
        roc_figure(
            curve,
            [
                CurvePoint(rate, p.recall.value, text)
                for rate, p in zip(false_rates, marked, strict=True)
            ],
        ),
        f"ROC curve of {model} for the class {label}",
        f"All held-out rows together; the AUC above compares rows of the same fold. The dot is the "
        f"threshold for a recall of {MARKED:g}.",
    )
    share = float(np.average(sample.y == place, weights=sample.base))
    yield Plot(
        "Precision and recall",
        precision_recall_figure(
            precision_recall(sample, place),
            [CurvePoint(p.recall.value, p.precision.value, text) for p in marked],
            share=share,
        ),
        f"Precision-recall curve of {model} for the class {label}",
        f"The dashed line is the fraction of “{label}” in all rows, {number(share)}.",
    )
    benefit = decision_curve(sample)
    if benefit is not None:
        yield Plot(
            "Decision curve",
            decision_curve_figure(benefit),
            f"Net benefit of {model} by the threshold",
            "True positives per row, less the price of false alarms. At a threshold t, one found "
            "case is worth (1 − t) / t false alarms: 9 at 0.1.",
        )


def inspection_plots(
    importance: Sequence[Mapping[str, Any]],
    curve: Sequence[Mapping[str, float]],
    *,
    model: str,
    title: str,
    is_share: bool,
) -> Iterator[Plot]:
    """Yield the permutation importance and the learning curve of a model."""
    if importance:
        n_more = max(len(importance) - MAX_IMPORTANT, 0)
        rest = f" {n_more} more columns are not shown." if n_more else ""
        related = [
            f"{each['feature']} with {listed(each['correlated'], 3)}"
            for each in importance[:MAX_IMPORTANT]
            if each["correlated"]
        ]
        shared = (
            f" Correlated columns share their importance, so that each looks small: "
            f"{'; '.join(related[:3])}."
            if related
            else ""
        )
        yield Plot(
            "Permutation importance",
            importance_figure(importance, label="increase of the log-loss"),
            f"Permutation importance of the columns for {model}",
            "Increase of the log-loss when the cells of a column are shuffled among held-out rows, "
            f"with 95 % intervals over all folds.{rest}{shared}",
        )
    if curve:
        if is_share:
            curve = [
                {**each, "low": max(each["low"], 0.0), "high": min(each["high"], 1.0)}
                for each in curve
            ]
        yield Plot(
            "Learning curve",
            learning_curve_figure(curve, label=title),
            f"Held-out {title} of {model} by the number of training rows",
            "Means over a few of the folds with 95 % intervals: the right end can differ from the "
            "estimate above. If the curve still improves there, more rows would help.",
        )
