"""Figures of a comparison, for small screens and for light and dark pages.

Every function returns a matplotlib Figure without global state; `svg` converts it to text for a
page. Text and axes have one colour, which follows the reader's light or dark colour scheme. Names
from the user's table are never parsed as formulas.
"""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from discreg.comparison.statistics.performance import CalibrationCurve, Curve, DecisionCurve

WIDTH = 3.7  # inches, the width of a phone
INK = "#767676"  # text and axes without a colour scheme: readable on white and on black
ACCENT = "#e0701a"
PLAIN = "#3d8bc9"
INKED = ("axes.edge", "axes.label", "legend.label", "text.", "xtick.", "ytick.")
STYLE: dict[Any, Any] = {
    **{f"{part}color": INK for part in INKED},
    "axes.facecolor": "none",
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text in the reader's fonts, which have every script
    "svg.hashsalt": "discreg",
    "text.parse_math": False,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
}
INKS = (
    f"<style>svg{{color:{INK}}}"
    "@media (prefers-color-scheme:light){svg{color:#3a3f45}}"
    "@media (prefers-color-scheme:dark){svg{color:#c9ced6}}</style>"
)
FONTS = "-apple-system,Segoe UI,Roboto,Helvetica Neue,Arial,sans-serif"
# The list of fonts in an element; matplotlib before 3.10 writes "font: 9px 'DejaVu Sans', ...".
FAMILY = re.compile(r'(<text style="[^"]*?(?:font-family: |font: [^;"]*?px ))[^;"]*')
MAX_NAME = 32
MAX_CURVE_POINTS = 400
HEIGHT = 3.1  # inches
MAX_IMPORTANT = 15  # most features in the figure of importance
ROW = 0.27  # inches per feature


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of the report without changing matplotlib's global settings."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # The font for the layout may lack characters that the reader's font has.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        warnings.filterwarnings("ignore", message=r"Matplotlib currently does not support")
        yield


def svg(figure: Figure) -> str:
    """Convert a figure to SVG without background, in the reader's colour scheme."""
    buffer = io.StringIO()
    with styled():
        figure.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches="tight")
    text = buffer.getvalue().replace(f": {INK}", ": currentColor")
    text = FAMILY.sub(rf"\g<1>{FONTS}", text)
    opening, rest = text[text.index("<svg") :].split(">", 1)
    return f"{opening}>{INKS}{rest}"


def image_source(svg: str) -> str:
    """Convert an SVG document to a data URL."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


class CurvePoint(NamedTuple):
    """A marked point of a curve."""

    x: float
    y: float
    text: str


@styled()
def roc_figure(curve: Curve, points: Sequence[CurvePoint] = ()) -> Figure:
    """Draw a ROC curve and marked thresholds."""
    figure, axes = _unit_square("false positive rate", "recall")
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, dashes=(3, 3), alpha=0.7)
    _draw_curve(axes, curve, points)
    return figure


@styled()
def precision_recall_figure(
    curve: Curve, points: Sequence[CurvePoint] = (), *, share: float
) -> Figure:
    """Draw a precision-recall curve; `share` is the fraction of rows of the class."""
    figure, axes = _unit_square("recall", "precision")
    axes.axhline(share, color=INK, linewidth=0.8, dashes=(3, 3), alpha=0.7)
    _draw_curve(axes, curve, points, drawstyle="steps-post")
    return figure


def _draw_curve(axes: Any, curve: Curve, points: Sequence[CurvePoint], **style: Any) -> None:
    _line(axes, curve, color=PLAIN, linewidth=2, **style)
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
def calibration_figure(groups: CalibrationCurve, *, label: str, observed: str) -> Figure:
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
def decision_curve_figure(curve: DecisionCurve) -> Figure:
    """Draw the net benefit of the model, of treating every row and of treating none."""
    figure, axes = _canvas(HEIGHT)
    axes.plot(curve.thresholds, curve.model, color=PLAIN, linewidth=2, label="model")
    axes.plot(curve.thresholds, curve.everyone, color=ACCENT, linewidth=1.2, label="everyone")
    axes.axhline(0, color=INK, linewidth=1, dashes=(3, 3), label="nobody")
    top = max(float(curve.model.max()), float(curve.everyone.max()))
    axes.set_ylim(-0.25 * top, 1.05 * top)
    axes.set_xlabel("threshold of the probability")
    axes.set_ylabel("net benefit")
    axes.legend(loc="best", title="alarm for", title_fontsize=8)
    return figure


@styled()
def importance_figure(importance: Sequence[Mapping[str, Any]], *, label: str) -> Figure:
    """Draw the permutation importance of the most important features with intervals."""
    top = importance[:MAX_IMPORTANT]
    figure, axes = _canvas(ROW * max(len(top), 3) + 0.75)
    places = np.arange(len(top))
    axes.axvline(0, color=INK, linewidth=0.8)
    ends = [[each[name] for each in top] for name in ("low", "high", "mean")]
    axes.hlines(places, ends[0], ends[1], color=PLAIN, linewidth=1.4, alpha=0.6)
    axes.plot(ends[2], places, "o", color=PLAIN, markersize=5, markeredgewidth=0)
    axes.set_yticks(places, [shortened(str(each["feature"]), 22) for each in top])
    axes.set_ylim(len(top) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(label)
    return figure


@styled()
def learning_curve_figure(curve: Sequence[Mapping[str, float]], *, label: str) -> Figure:
    """Draw the score by the number of training rows, with intervals."""
    figure, axes = _canvas(HEIGHT)
    n, mean, low, high = ([each[k] for each in curve] for k in ("n", "mean", "low", "high"))
    axes.fill_between(n, low, high, color=PLAIN, alpha=0.18, linewidth=0)
    axes.plot(n, mean, "o-", color=PLAIN, linewidth=1.6, markersize=4.5)
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


def thinned(n_points: int, limit: int = MAX_CURVE_POINTS) -> NDArray[np.intp]:
    """Select indices of evenly spaced points, at most `limit`, to draw a long curve."""
    if n_points <= limit:
        return np.arange(n_points)
    return np.unique(np.linspace(0, n_points - 1, limit).round().astype(np.intp))


def shortened(name: str, limit: int = MAX_NAME) -> str:
    """Shorten a name to one line, without characters that SVG does not allow."""
    printable = "".join(letter if letter.isprintable() else " " for letter in name)
    line = " ".join(printable.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
