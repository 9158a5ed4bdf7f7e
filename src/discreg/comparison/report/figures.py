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
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from discreg.comparison.statistics.ranks import Ranking

__all__ = [
    "ACCENT",
    "COLOURS",
    "DASHES",
    "INK",
    "MAX_NAMED_CLASSES",
    "PLAIN",
    "WIDTH",
    "confusion_figure",
    "critical_difference_figure",
    "image_source",
    "margins_figure",
    "scores_figure",
    "shortened",
    "styled",
    "svg",
    "thinned",
]

WIDTH = 3.7  # inches, the width of a phone
ROW = 0.40  # inches per model
INK = "#767676"  # text and axes without a colour scheme: readable on white and on black
ACCENT = "#e0701a"
PLAIN = "#3d8bc9"
# Eight colours that colour-blind readers can distinguish on white and on near-black.
COLOURS = (PLAIN, ACCENT, "#2ca089", "#b266c9", "#c2952b", "#d6536d", "#7b86d6", "#7a8a5a")
DASHES = ("-", "--", ":", "-.")
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
MAX_NAMED_CLASSES = 25
MAX_WRITTEN_COUNTS = 12
MAX_NAME = 32
MAX_CURVE_POINTS = 400


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


@styled()
def scores_figure(
    scores: Mapping[str, ArrayLike], *, label: str, marked: str | None = None
) -> Figure:
    """Draw the scores of each model as points, one per fold, and their mean as a line.

    Parameters
    ----------
    scores : mapping of str to array-like
        Scores by model; NaN if there is none.
    label : str
        Name of the score.
    marked : str, optional
        Model to draw in another colour.
    """
    figure, axes = _rows_of_models(list(scores), label=label)
    for place, (model, values) in enumerate(scores.items()):
        points = np.asarray(values, dtype=np.float64)
        points = points[~np.isnan(points)]
        colour = ACCENT if model == marked else PLAIN
        heights = place + 0.14 * np.linspace(-1, 1, len(points)) if len(points) > 1 else [place]
        axes.plot(points, heights, "o", markersize=4, alpha=0.6, markeredgewidth=0, color=colour)
        if len(points):
            axes.vlines(points.mean(), place - 0.24, place + 0.24, color=colour, linewidth=2.5)
    return figure


@styled()
def critical_difference_figure(ranking: Ranking) -> Figure:
    """Draw mean ranks, and bars that join models within Nemenyi's critical difference."""
    ranks = ranking.mean_ranks
    figure, axes = _rows_of_models(list(ranks.index), label="mean rank (1 is the best)", above=1)
    for place, rank in enumerate(ranks):
        axes.hlines(place, 1, rank, color=INK, linewidth=0.6)
        axes.plot(rank, place, "o", markersize=6, color=PLAIN, markeredgewidth=0)
    axes.set_xlim(0.9, max(len(ranks), 2) + 0.1)
    reach = min(ranking.critical_difference, len(ranks) - 1)
    axes.plot([1, 1 + reach], [-1, -1], "|-", color=ACCENT, linewidth=2, markersize=8)
    axes.text(
        1, -1.25, f"critical difference {ranking.critical_difference:.2f}", va="bottom", color=INK
    )
    for column, (first, last) in enumerate(_groups(ranking)):
        axes.plot(
            [1.03 + 0.025 * column] * 2,
            [first - 0.2, last + 0.2],
            transform=axes.get_yaxis_transform(),
            clip_on=False,
            solid_capstyle="butt",
            color=ACCENT,
            linewidth=3.5,
        )
    return figure


def _groups(ranking: Ranking) -> list[tuple[int, int]]:
    """Find groups of models within the critical difference, as first and last positions."""
    ranks = ranking.mean_ranks.to_numpy()
    groups: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = int(np.flatnonzero(ranks <= rank + ranking.critical_difference)[-1])
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups


def _rows_of_models(names: Sequence[str], *, label: str, above: float = 0) -> tuple[Figure, Any]:
    """Create axes with one row per model, with names above the rows to save width."""
    n_rows = len(names) + above
    figure = Figure(figsize=(WIDTH, ROW * n_rows + 0.7), layout="constrained")
    axes = figure.add_subplot()
    axes.set_ylim(len(names) - 0.5, -0.85 - above)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(label)
    axes.grid(axis="x", color=INK, alpha=0.25, linewidth=0.5)
    for place, name in enumerate(names):
        axes.text(
            0, place - 0.3, shortened(name), transform=axes.get_yaxis_transform(), va="bottom"
        )
    return figure, axes


@styled()
def confusion_figure(counts: NDArray[Any], labels: Sequence[str]) -> Figure:
    """Draw a confusion matrix with true classes in the rows, coloured by fractions of the row.

    Counts are written for up to 12 classes and names for up to 25; with more classes, the axes show
    numbers from 1 in the order of `labels`.
    """
    n_classes = len(labels)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure = Figure(figsize=(WIDTH, WIDTH), layout="constrained")
    axes = figure.add_subplot()
    # Zero is transparent instead of white, for dark pages.
    image = np.empty((n_classes, n_classes, 4))
    image[..., :3] = to_rgb(PLAIN)
    image[np.eye(n_classes, dtype=bool), :3] = to_rgb(COLOURS[2])
    image[..., 3] = 0.75 * np.sqrt(shares)  # the root makes rare confusions visible
    ends = (0.5, n_classes + 0.5)
    axes.imshow(image, interpolation="nearest", extent=(*ends, *ends[::-1]))
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    axes.spines[:].set_visible(True)
    if n_classes <= MAX_NAMED_CLASSES:
        names = [shortened(label, 14) for label in labels]
        axes.set_xticks(range(1, n_classes + 1), names, rotation=90)
        axes.set_yticks(range(1, n_classes + 1), names)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    if n_classes <= MAX_WRITTEN_COUNTS:
        for row, column in np.argwhere(counts > 0):
            place = (column + 1, row + 1)
            axes.text(*place, f"{counts[row, column]:d}", ha="center", va="center", size=8)
    return figure


@styled()
def margins_figure(margins: Mapping[str, ArrayLike]) -> Figure:
    """Draw the cumulative distribution of held-out margins, one curve per model.

    The margins of each model are divided by their mean absolute value, because the scores of
    different models have different scales.
    """
    curves = {}
    for model, values in margins.items():
        scaled = np.sort(np.asarray(values, dtype=np.float64))
        scaled = scaled / max(float(np.abs(scaled).mean()), np.finfo(float).tiny)
        kept = thinned(len(scaled))
        curves[model] = (scaled[kept], (kept + 1) / len(scaled))
    figure, axes = _curves(curves, drawstyle="steps-post")
    axes.axvline(0, color=INK, linewidth=0.8)
    low = min(x[int(0.005 * len(x))] for x, _ in curves.values())
    high = max(x[int(0.995 * (len(x) - 1))] for x, _ in curves.values())
    axes.set_xlim(min(low, 0) - 0.1, high + 0.1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("margin / mean absolute margin (left of 0: wrong)")
    axes.set_ylabel("fraction of samples")
    return figure


def _curves(
    curves: Mapping[str, tuple[NDArray[Any], NDArray[Any]]], **line: Any
) -> tuple[Figure, Any]:
    """Create axes with one line per model and a legend below."""
    n_columns = 1 if any(len(model) > 20 for model in curves) else 2
    n_lines = -(-len(curves) // n_columns)
    figure = Figure(figsize=(WIDTH, 3.0 + 0.19 * n_lines), layout="constrained")
    axes = figure.add_subplot()
    for place, (model, (x, y)) in enumerate(curves.items()):
        colour = COLOURS[place % len(COLOURS)]
        axes.plot(x, y, color=colour, linewidth=1.6, label=shortened(model), **line)
    axes.grid(color=INK, alpha=0.25, linewidth=0.5)
    if curves:
        figure.legend(
            loc="outside lower left", ncols=n_columns, handlelength=1.8, columnspacing=1.2
        )
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
