"""Figures of a paper's study: a panel for each data set, a colour for each method.

They share the style of the figures of a comparison. What is drawn is given by data set and then by
method; a method keeps its colour over all panels, and a panel without it leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

from discreg.comparison.report.figures import (
    ACCENT,
    INK,
    PLAIN,
    WIDTH,
    shortened,
    styled,
    thinned,
)

__all__ = [
    "Curve",
    "Rows",
    "bars_figure",
    "coefficients_figure",
    "curves_figure",
    "histories_figure",
    "margins_panels_figure",
    "singular_values_figure",
]

Curve = tuple[ArrayLike, ArrayLike]
Rows = dict[str, dict[str, Any]]  # by data set, then by method

# Eight colours that colour-blind readers can distinguish on white and on near-black.
COLOURS = (PLAIN, ACCENT, "#2ca089", "#b266c9", "#c2952b", "#d6536d", "#7b86d6", "#7a8a5a")
DASHES = ("-", "--", ":", "-.")
MAX_COLUMNS = 3
WIDTHS = {1: WIDTH, 2: 5.4, 3: 7.4}  # inches by the number of columns
HEIGHT = 1.65  # inches of a panel
MAX_POINTS = 60  # most points of a line in a panel
MAX_TICKS = 5
HATCHES = ("", "////", "....")
LETTER = 0.075  # inches per character of the legend


@styled()
def bars_figure(
    scores: Mapping[str, Mapping[str, tuple[float, float]]], *, label: str, from_zero: bool
) -> Figure:
    """Draw mean and standard deviation of each method as a bar.

    Parameters
    ----------
    scores : mapping
        Data set, method, and its mean and standard deviation; the latter may be NaN.
    label : str
        What the scores are.
    from_zero : bool
        Whether axes begin at 0 (or, over many decades, are logarithmic) and not near the lowest
        score, where differences are seen.
    """
    methods = _methods(scores)
    figure, panels = _panels(list(scores), y_label=label)
    numbers = np.array([pair for row in scores.values() for pair in row.values()])
    logarithmic = from_zero and _spans(numbers[:, 0], decades=2)
    for axes, row in zip(panels, scores.values(), strict=True):
        for method, (mean, std) in row.items():
            place = methods.index(method)
            axes.bar(
                place,
                mean,
                yerr=None if np.isnan(std) else std,
                color=COLOURS[place % len(COLOURS)],
                hatch=HATCHES[place // len(COLOURS) % len(HATCHES)],
                edgecolor=INK,
                linewidth=0,
                error_kw={"ecolor": INK, "elinewidth": 0.9},
                label=method,
            )
        axes.set_xlim(-0.7, len(methods) - 0.3)
        axes.set_xticks([])
        if logarithmic:
            axes.set_ylim(*_decades(numbers[:, 0]))
            _logarithmic(axes, "y")
        elif not from_zero:
            axes.set_ylim(*_around(row.values()))
    _legend(figure, panels, methods)
    return figure


@styled()
def curves_figure(
    curves: Mapping[str, Mapping[str, Curve]], *, x_label: str, y_label: str
) -> Figure:
    """Draw lines through points; axes over many decades are logarithmic.

    Parameters
    ----------
    curves : mapping
        Data set, method, and its values x and y in the order of x.
    x_label, y_label : str
        What they are.
    """
    figure, panels = _panels(list(curves), x_label=x_label, y_label=y_label)
    lines = [curve for row in curves.values() for curve in row.values()]
    x = np.unique(np.concatenate([np.asarray(line[0], dtype=np.float64) for line in lines]))
    y = np.concatenate([np.asarray(line[1], dtype=np.float64) for line in lines])
    _draw_lines(panels, curves, marker="o", markersize=2.5)
    for axes in panels:
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=bool((x == x.round()).all())))
        if len(x) <= MAX_TICKS:
            axes.xaxis.set_major_locator(FixedLocator(x.tolist()))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
        if _spans(x, decades=3):
            _logarithmic(axes, "x")
        if _spans(y, decades=2):
            _logarithmic(axes, "y")
    _legend(figure, panels, _methods(curves))
    return figure


@styled()
def histories_figure(histories: Mapping[str, Mapping[str, ArrayLike]], *, label: str) -> Figure:
    """Draw the objective after each iteration."""
    curves = {
        dataset: {method: _thin(np.arange(np.size(h)), h) for method, h in row.items()}
        for dataset, row in histories.items()
    }
    figure, panels = _panels(list(curves), x_label="iteration", y_label=label)
    _draw_lines(panels, curves)
    for axes, row in zip(panels, curves.values(), strict=True):
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        if _spans(np.concatenate([y for _, y in row.values()]), decades=2):
            _logarithmic(axes, "y")
    _legend(figure, panels, _methods(curves))
    return figure


@styled()
def margins_panels_figure(margins: Mapping[str, Mapping[str, ArrayLike]]) -> Figure:
    """Draw the fraction of samples whose margin is at most x."""
    curves = {
        dataset: {method: _cumulative(values) for method, values in row.items()}
        for dataset, row in margins.items()
    }
    figure, panels = _panels(list(curves), x_label="margin", y_label="share")
    _draw_lines(panels, curves, drawstyle="steps-post")
    for axes in panels:
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_ylim(0, 1.02)
    _legend(figure, panels, _methods(curves))
    return figure


@styled()
def singular_values_figure(values: Mapping[str, ArrayLike]) -> Figure:
    """Draw singular values of the coefficients in decreasing order, relative to the largest."""
    figure, panels = _panels(list(values), x_label="place", y_label="singular value")
    for axes, given in zip(panels, values.values(), strict=True):
        sizes = np.asarray(given, dtype=np.float64)
        places = np.arange(1, len(sizes) + 1)
        relative = sizes / max(float(sizes.max()), np.finfo(float).tiny)
        axes.plot(places, relative, "o-", markersize=2.5, linewidth=1, color=PLAIN)
        axes.set_ylim(-0.03, 1.05)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    return figure


@styled()
def coefficients_figure(coefficients: Mapping[str, NDArray[Any]]) -> Figure:
    """Draw absolute coefficients, features in columns and classes in rows; 0 is blank."""
    figure, panels = _panels(list(coefficients), x_label="feature", y_label="class")
    for axes, matrix in zip(panels, coefficients.values(), strict=True):
        sizes = np.abs(np.asarray(matrix, dtype=np.float64)).T
        image = np.empty((*sizes.shape, 4))
        image[..., :3] = to_rgb(PLAIN)
        image[..., 3] = np.sqrt(sizes / max(float(sizes.max()), np.finfo(float).tiny))
        n_classes, n_features = sizes.shape
        axes.imshow(
            image,
            aspect="auto",
            interpolation="none",
            extent=(0.5, n_features + 0.5, n_classes + 0.5, 0.5),
        )
        axes.grid(False)
        axes.spines[:].set_visible(True)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    return figure


def _methods(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """List the methods in order of appearance."""
    return list(dict.fromkeys(method for row in rows.values() for method in row))


def _panels(
    titles: Sequence[str], *, x_label: str = "", y_label: str = ""
) -> tuple[Figure, list[Any]]:
    """Create a figure with one titled panel per data set; outer panels have axis labels."""
    n_columns = min(MAX_COLUMNS, len(titles))
    n_rows = -(-len(titles) // n_columns)
    height = HEIGHT * n_rows + 0.5
    figure = Figure(figsize=(WIDTHS[n_columns], height), layout="constrained")
    panels = []
    for place, title in enumerate(titles):
        axes = figure.add_subplot(n_rows, n_columns, place + 1)
        axes.set_title(shortened(title), fontsize=9)
        axes.set_axisbelow(True)
        axes.grid(axis="y", color=INK, alpha=0.25, linewidth=0.5)
        axes.tick_params(labelsize=8, length=2.5)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        if place % n_columns == 0:
            axes.set_ylabel(y_label)
        if place + n_columns >= len(titles):
            axes.set_xlabel(x_label)
        panels.append(axes)
    return figure, panels


def _draw_lines(
    panels: Sequence[Any], curves: Mapping[str, Mapping[str, Curve]], **line: Any
) -> None:
    """Draw one line per method; the first is the widest, because others may cover it."""
    methods = _methods(curves)
    widths = np.linspace(2.6, 1.1, len(methods)) if len(methods) > 1 else [1.3]
    for axes, row in zip(panels, curves.values(), strict=True):
        for method, (x, y) in row.items():
            place = methods.index(method)
            axes.plot(
                x,
                y,
                color=COLOURS[place % len(COLOURS)],
                linestyle=DASHES[place // len(COLOURS) % len(DASHES)],
                linewidth=widths[place],
                label=method,
                **line,
            )


def _legend(figure: Figure, panels: Sequence[Any], methods: Sequence[str]) -> None:
    """Draw a legend of all methods below the panels."""
    handles: dict[str, Any] = {}
    for axes in panels:
        found, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, found, strict=True))
    names = [shortened(method) for method in methods]
    width = LETTER * max(map(len, names)) + 0.5
    n_columns = min(len(names), max(1, int(figure.get_size_inches()[0] / width)))
    n_rows = -(-len(names) // n_columns)
    figure.set_size_inches(figure.get_size_inches() + np.array([0, 0.19 * n_rows]))
    figure.legend(
        [handles[method] for method in methods],
        names,
        loc="outside lower left",
        ncols=n_columns,
        handlelength=1.6,
        columnspacing=1.2,
    )


def _thin(x: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    kept = thinned(np.size(x), MAX_POINTS)
    return np.asarray(x, dtype=np.float64)[kept], np.asarray(y, dtype=np.float64)[kept]


def _cumulative(values: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    return _thin(ordered, np.arange(1, len(ordered) + 1) / len(ordered))


def _spans(values: NDArray[Any], *, decades: float) -> bool:
    """Return whether all values are positive and their range needs a logarithmic axis."""
    known = values[np.isfinite(values)]
    return bool(len(known) and known.min() > 0 and known.max() >= 10**decades * known.min())


def _decades(values: NDArray[Any]) -> tuple[float, float]:
    """Compute the decades that contain positive values."""
    low, high = np.floor(np.log10(np.nanmin(values))), np.ceil(np.log10(np.nanmax(values)))
    return float(10**low) / 2, float(10**high)


def _around(pairs: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Compute the limits of an axis that shows all means and deviations."""
    means, stds = np.array(list(pairs)).T
    stds = np.nan_to_num(stds)
    low, high = float(np.min(means - stds)), float(np.max(means + stds))
    room = max(high - low, 0.01)
    return max(low - 0.35 * room, 0.0), high + 0.08 * room


def _logarithmic(axes: Any, side: str) -> None:
    """Set a logarithmic axis with ticks written as decimal numbers."""
    getattr(axes, f"set_{side}scale")("log")
    axis = getattr(axes, f"{side}axis")
    axis.set_major_locator(LogLocator(numticks=5))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
