"""Critical-difference diagram of mean ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from discreg.comparison.report.figures import ACCENT, INK, PLAIN, WIDTH, shortened, styled

from .ranks import Ranking

__all__ = ["critical_difference_figure"]

ROW = 0.40  # inches per model


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
