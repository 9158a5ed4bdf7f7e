"""Figures of one model: curves of its held-out predictions, importance and learning curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from discreg.comparison.statistics.curves import CalibrationGroups, Curve, RankingCurves

from .figures import ACCENT, COLOURS, INK, PLAIN, WIDTH, shortened, styled, thinned

__all__ = [
    "MAX_IMPORTANT",
    "CurvePoint",
    "calibration_figure",
    "importance_figure",
    "learning_curve_figure",
    "one_against_rest_figure",
    "precision_recall_figure",
    "roc_figure",
]

HEIGHT = 3.1  # inches
MAX_IMPORTANT = 15  # most features in the figure of importance
ROW = 0.27  # inches per feature
MAX_NAMED_CURVES = 3


class CurvePoint(NamedTuple):
    """A marked point of a curve."""

    x: float
    y: float
    text: str


@styled()
def roc_figure(curves: RankingCurves, points: Sequence[CurvePoint] = ()) -> Figure:
    """Draw the ROC curve of all held-out rows, those of the folds, and marked thresholds."""
    figure, axes = _unit_square("false positive rate", "recall")
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, dashes=(3, 3), alpha=0.7)
    _draw_curves(axes, curves, points)
    return figure


@styled()
def precision_recall_figure(
    curves: RankingCurves, points: Sequence[CurvePoint] = (), *, share: float
) -> Figure:
    """Draw the precision-recall curve; `share` is the fraction of rows of the class."""
    figure, axes = _unit_square("recall", "precision")
    axes.axhline(share, color=INK, linewidth=0.8, dashes=(3, 3), alpha=0.7)
    _draw_curves(axes, curves, points, drawstyle="steps-post")
    return figure


def _draw_curves(
    axes: Any, curves: RankingCurves, points: Sequence[CurvePoint], **style: Any
) -> None:
    for fold in curves.folds:
        _line(axes, fold, color=INK, linewidth=0.6, alpha=0.35, **style)
    _line(axes, curves.whole, color=PLAIN, linewidth=2, **style)
    for point in points:
        axes.plot(point.x, point.y, "o", color=ACCENT, markersize=5.5, markeredgewidth=0, zorder=3)
        left, low = point.x > 0.6, point.y < 0.2
        axes.annotate(
            point.text,
            (point.x, point.y),
            xytext=(-7 if left else 7, 5 if low else -3),
            textcoords="offset points",
            ha="right" if left else "left",
            va="bottom" if low else "top",
            fontsize=8,
        )


@styled()
def one_against_rest_figure(curves: Mapping[str, Curve], hardest: Sequence[str]) -> Figure:
    """Draw a ROC curve for each class; the classes named in `hardest` have colours and a legend."""
    figure, axes = _unit_square("false positive rate", "recall")
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, dashes=(3, 3), alpha=0.7)
    named = list(hardest)[:MAX_NAMED_CURVES]
    for name, curve in curves.items():
        if name not in named:
            _line(axes, curve, color=INK, linewidth=0.8, alpha=0.5)
    for place, name in enumerate(named):
        _line(axes, curves[name], color=COLOURS[place], linewidth=1.8, label=shortened(name, 24))
    axes.legend(loc="lower right", title="hardest classes", title_fontsize=8, alignment="left")
    return figure


@styled()
def calibration_figure(groups: CalibrationGroups, *, label: str, observed: str) -> Figure:
    """Draw observed fractions against predicted probabilities, with 95 % intervals."""
    figure, axes = _canvas(HEIGHT)
    reach = max(groups.predicted.max(), groups.high.max())
    end = 1.0 if reach > 0.6 else min(1.0, 1.1 * float(reach))
    axes.plot([0, end], [0, end], color=INK, linewidth=0.8, dashes=(3, 3), alpha=0.7)
    axes.vlines(groups.predicted, groups.low, groups.high, color=PLAIN, linewidth=1.2, alpha=0.7)
    axes.plot(groups.predicted, groups.observed, "o", color=PLAIN, markersize=5, markeredgewidth=0)
    axes.set_xlim(-0.02 * end, 1.02 * end)
    axes.set_ylim(-0.02 * end, 1.02 * end)
    axes.set_xlabel(label)
    axes.set_ylabel(observed)
    return figure


@styled()
def importance_figure(importance: pd.DataFrame, *, label: str) -> Figure:
    """Draw the permutation importance of the most important features with intervals."""
    top = importance.sort_values("mean", ascending=False, kind="stable")[:MAX_IMPORTANT]
    figure, axes = _canvas(ROW * max(len(top), 3) + 0.75)
    places = np.arange(len(top))
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.hlines(places, top["low"], top["high"], color=PLAIN, linewidth=1.4, alpha=0.6)
    axes.plot(top["mean"], places, "o", color=PLAIN, markersize=5, markeredgewidth=0)
    axes.set_yticks(places, [shortened(str(name), 22) for name in top["feature"]])
    axes.set_ylim(len(top) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(label)
    return figure


@styled()
def learning_curve_figure(curve: pd.DataFrame, *, label: str) -> Figure:
    """Draw the score by the number of training rows, with intervals."""
    figure, axes = _canvas(HEIGHT)
    axes.fill_between(curve["n"], curve["low"], curve["high"], color=PLAIN, alpha=0.18, linewidth=0)
    axes.plot(curve["n"], curve["mean"], "o-", color=PLAIN, linewidth=1.6, markersize=4.5)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, place: f"{n:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("training rows")
    axes.set_ylabel(label)
    return figure


def _line(axes: Any, curve: Curve, **style: Any) -> None:
    x, y = curve
    kept = thinned(len(x))
    axes.plot(x[kept], y[kept], **style)


def _unit_square(x: str, y: str) -> tuple[Figure, Any]:
    figure, axes = _canvas(HEIGHT)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _canvas(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(color=INK, alpha=0.2, linewidth=0.5)
    return figure, axes
