"""What learnt targets change, and how the two solvers reach them.

Left and middle: three classes in a row. Regression onto zero-one targets never predicts the middle
one, whatever the penalty; ReLSR does, because only differences between the scores of a sample
matter to it. Right: the certified gap of ReLSR on the digits, against computing time, for Newton's
method and for the papers' alternation.

    python examples/plot_retargeted.py            # writes docs/images/retargeted.png
    python examples/plot_retargeted.py other.png
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from time import process_time

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from discreg import LSRClassifier, ReLSRClassifier

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "retargeted.png"
COLOURS = ["#0072B2", "#E69F00", "#009E73"]
PALE = ["#CFE5F2", "#FBE8C3", "#CBEBDF"]
MARKERS = ["o", "s", "^"]
BETA = 0.01
TOL = 1e-6
NEWTON, ALTERNATING = "#D55E00", "#4D4D4D"


def classes_in_a_row(n_samples: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Three clouds whose centres are on a line."""
    rng = np.random.default_rng(3)
    centres = np.array([[-2.4, -1.2], [0.0, 0.0], [2.4, 1.2]])
    X = np.concatenate([centre + 0.5 * rng.standard_normal((n_samples, 2)) for centre in centres])
    return X, np.repeat(np.arange(3), n_samples)


def draw_regions(axes: Axes, model, X: np.ndarray, y: np.ndarray, title: str) -> None:
    """Training samples over the regions in which a model predicts their classes."""
    low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
    grid = np.meshgrid(*(np.linspace(*ends, 500) for ends in zip(low, high, strict=True)))
    predicted = model.fit(X, y).predict(np.stack([each.ravel() for each in grid], axis=1))
    predicted = predicted.reshape(grid[0].shape)
    axes.pcolormesh(*grid, predicted, cmap=ListedColormap(PALE), vmin=0, vmax=2, rasterized=True)
    axes.contour(*grid, predicted, levels=[0.5, 1.5], colors="#555555", linewidths=0.8)
    for label, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True)):
        axes.scatter(
            *X[y == label].T, c=colour, marker=marker, s=16, linewidths=0.4, edgecolors="white"
        )
    axes.set(xticks=[], yticks=[], title=title)
    axes.set_xlabel(f"{np.mean(model.predict(X) == y):.0%} of the training samples right")


def gap_against_time(solver: str, iterations: list[int]) -> tuple[list[float], list[float]]:
    """Seconds and certified gap of fits that stop after more and more iterations."""
    X, y = load_digits(return_X_y=True)
    X = scale(X)
    seconds, gaps = [], []
    for max_iter in iterations:
        model = ReLSRClassifier(beta=BETA, solver=solver, tol=0, max_iter=max_iter)
        model.fit(X, y)  # compiled on the first call
        times = []
        for _ in range(5):
            start = process_time()
            model.fit(X, y)
            times.append(process_time() - start)
        seconds.append(min(times))
        gaps.append(model.gap_)
        if gaps[-1] < 0.01 * TOL:
            break
    return seconds, gaps


def draw_gaps(axes: Axes) -> None:
    """Both solvers, from the regression onto zero-one targets onwards."""
    alternations = [1, 2, 4, 7, 12, 20, 30, 50, 80, 130, 200, 300, 450, 650, 1000]
    for solver, iterations, colour, marker in (
        ("newton", list(range(1, 30)), NEWTON, "o"),
        ("alternating", alternations, ALTERNATING, "s"),
    ):
        seconds, gaps = gap_against_time(solver, iterations)
        axes.loglog(seconds, gaps, color=colour, marker=marker, markersize=4, label=solver)
        if solver == "alternating":
            place = alternations.index(30)
            axes.annotate(
                "30 alternations,\nthe papers' schedule",
                (seconds[place], gaps[place]),
                xytext=(8, -50),
                textcoords="offset points",
                arrowprops={"arrowstyle": "->", "color": ALTERNATING},
                color=ALTERNATING,
                fontsize=9,
            )
    axes.axhline(TOL, color="#999999", linestyle=":", linewidth=1)
    axes.text(
        0.02,
        TOL * 1.4,
        "default tol",
        color="#777777",
        fontsize=9,
        transform=axes.get_yaxis_transform(),
    )
    axes.set(
        title=f"ReLSR on digits, beta={BETA:g}",
        xlabel="seconds of one processor",
        ylabel="certified gap_",
    )
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)


def main(path: Path) -> None:
    """Draw the picture into a file."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    plt.rcParams.update({"font.size": 10, "axes.titlesize": 11})
    X, y = classes_in_a_row()
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(11, 3.4), width_ratios=(1, 1, 1.35), layout="constrained"
    )
    draw_regions(left, LSRClassifier(), X, y, "LSR: zero-one targets")
    draw_regions(middle, ReLSRClassifier(), X, y, "ReLSR: learnt targets")
    with threadpool_limits(limits=1):
        draw_gaps(right)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
