"""
Learned targets, and how fast they are found
============================================

Left and middle: three classes in a row. Regression onto zero-one targets masks the middle class.
ReLSR does not, because it depends only on differences between the scores of a sample. Right:
distance of ReLSR from its optimum on the digits by computing time, for Newton's method and for
the papers' algorithm.

The picture of the guide is made by ``python examples/plot_retargeted.py
docs/images/retargeted.png``.
"""

from __future__ import annotations

import sys
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from sklearn.datasets import load_digits
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from discreg import LSRClassifier, ReLSRClassifier

COLOURS = ["#0072B2", "#E69F00", "#009E73"]
PALE = ["#CFE5F2", "#FBE8C3", "#CBEBDF"]
MARKERS = ["o", "s", "^"]
SOLVER_COLOURS = {"newton": "#D55E00", "alternating": "#4D4D4D"}
BETA, TOL = 0.01, 1e-6
NEWTON_STEPS = range(1, 40)
SCHEDULE = 30  # iterations of the papers
ALTERNATIONS = (1, 2, 4, 8, 15, SCHEDULE, 50, 80, 130, 200, 300, 450, 650, 1000)


class Fit(NamedTuple):
    """Processor time, certificate and objective of a fit."""

    seconds: float
    gap: float
    objective: float


def classes_in_a_row(n_samples: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Draw samples of three classes whose centres are on a line."""
    rng = np.random.default_rng(3)
    centres = np.array([[-2.4, -1.2], [0.0, 0.0], [2.4, 1.2]])
    X = np.concatenate([centre + 0.5 * rng.standard_normal((n_samples, 2)) for centre in centres])
    return X, np.repeat(np.arange(3), n_samples)


def draw_regions(axes: Axes, model: Any, X: np.ndarray, y: np.ndarray, title: str) -> None:
    """Draw the training samples over the decision regions of a model."""
    low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
    grid = np.meshgrid(*(np.linspace(*ends, 500) for ends in zip(low, high, strict=True)))
    points = np.stack([coordinate.ravel() for coordinate in grid], axis=1)
    predicted = model.fit(X, y).predict(points).reshape(grid[0].shape)
    axes.pcolormesh(*grid, predicted, cmap=ListedColormap(PALE), vmin=0, vmax=2)
    axes.contour(*grid, predicted, levels=[0.5, 1.5], colors="#555555", linewidths=0.8)
    for label, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True)):
        across, up = X[y == label].T
        axes.scatter(across, up, c=colour, marker=marker, s=16, linewidths=0.4, edgecolors="white")
    right = f"{model.score(X, y):.0%} of the training samples are correct"
    axes.set(xticks=[], yticks=[], title=title, xlabel=right)


def fit(solver: str, max_iter: int, X: np.ndarray, y: np.ndarray) -> Fit:
    """Fit ReLSR several times with a number of iterations and keep the shortest time."""
    model = ReLSRClassifier(beta=BETA, solver=solver, tol=0, max_iter=max_iter, probability=False)
    times = []
    for _ in range(3):
        start = process_time()
        model.fit(X, y)
        times.append(process_time() - start)
    return Fit(min(times), model.gap_, model.objective_history_[-1])


def draw_gaps(axes: Axes) -> None:
    """Draw certified and true gaps of both solvers."""
    X, y = load_digits(return_X_y=True)
    X = scale(X)
    lowest = ReLSRClassifier(beta=BETA, tol=0).fit(X, y).objective_history_[-1]
    newton = []
    for max_iter in NEWTON_STEPS:
        newton.append(fit("newton", max_iter, X, y))
        if newton[-1].gap < 1e-3 * TOL:
            break
    alternating = [fit("alternating", max_iter, X, y) for max_iter in ALTERNATIONS]
    for solver, fits in (("newton", newton), ("alternating", alternating)):
        colour = SOLVER_COLOURS[solver]
        # A longer fit contains the shorter ones, so that it bounds their times.
        seconds = np.minimum.accumulate([each.seconds for each in fits[::-1]])[::-1]
        excess = [(each.objective - lowest) / each.objective for each in fits]
        axes.loglog(seconds, [each.gap for each in fits], "o-", c=colour, markersize=4)
        axes.loglog(seconds, excess, "--", c=colour, linewidth=1)
    _label(axes, dict(zip(ALTERNATIONS, alternating, strict=True)))


def _label(axes: Axes, alternating: dict[int, Fit]) -> None:
    scheduled = alternating[SCHEDULE]
    axes.annotate(
        f"the papers' {SCHEDULE} alternations",
        (scheduled.seconds, scheduled.gap),
        xytext=(6, 16),
        textcoords="offset points",
        arrowprops={"arrowstyle": "-", "color": "#777777", "linewidth": 0.8},
        color="#555555",
        fontsize=9,
    )
    for solver, x, y in (("newton", 0.6, 0.2), ("alternating", 0.78, 0.87)):
        colour = SOLVER_COLOURS[solver]
        axes.text(x, y, solver, color=colour, weight="bold", transform=axes.transAxes)
    axes.axhline(TOL, color="#999999", linestyle=":", linewidth=1)
    beside = axes.get_yaxis_transform()
    axes.text(0.84, TOL * 1.5, "default tol", color="#777777", fontsize=9, transform=beside)
    axes.plot([], [], "o-", c="#777777", markersize=4, label="certified: gap_")
    axes.plot([], [], "--", c="#777777", linewidth=1, label="true distance")
    axes.legend(frameon=False, loc="lower left", fontsize=9)
    axes.set(
        title=f"ReLSR on digits, beta={BETA:g}",
        xlabel="seconds of one processor",
        ylabel="distance from the optimum, relative",
        ylim=(1e-12, 60),
    )
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Draw the picture, and save it if a file is named."""
    plt.rcParams.update({"font.size": 10, "axes.titlesize": 11})
    X, y = classes_in_a_row()
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(11.5, 3.6), width_ratios=(1, 1, 1.35), layout="constrained"
    )
    draw_regions(left, LSRClassifier(), X, y, "LSR: zero-one targets")
    draw_regions(middle, ReLSRClassifier(), X, y, "ReLSR: learned targets")
    with threadpool_limits(limits=1):
        draw_gaps(right)
    if len(sys.argv) > 1:
        figure.savefig(sys.argv[1], dpi=144, pil_kwargs={"optimize": True})


main()
