"""The default grid of DRMClassifierCV beside all decades, by measurement on real data.

Run ``python benchmarks/default_grids_drm.py``. The data are those of ``probabilities.py``.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from time import process_time

import numpy as np
from _timing import write_table
from default_penalties import load
from probabilities import SETS, halves
from threadpoolctl import threadpool_limits

from discreg import DRMClassifierCV

REPEATS = 3
DECADES = [10.0**power for power in range(-3, 4)]
GRIDS = {"default": {}, "decades": {"alphas": DECADES, "betas": DECADES}}
HEADER = (
    *("kernel", "grid", "settings", "best beyond", "held-out score", "test accuracy"),
    *("better", "worse", "CPU seconds"),
)
TEXT = (
    f"Means over {REPEATS} random halves of each data set of `probabilities.py`, of at most 300 "
    "training samples with standardised features. Decades: seven values each of alpha and beta, "
    "from 0.001 to 1000. Best beyond: share of searches whose best setting is beyond the edge of "
    "the given grid; only default values are continued. Better, worse: data sets on which the "
    "test accuracy is higher or lower than with the decades."
)


def is_beyond(search: DRMClassifierCV) -> bool:
    """Whether the best setting is beyond the edge of the grid."""
    results = search.cv_results_
    return bool(results["beyond_grid"][results["params"].index(search.best_params_)])


def measure(kernel: str) -> dict[str, dict[str, list[float]]]:
    """Figures of each grid, one number per data set."""
    found: dict = {grid: defaultdict(list) for grid in GRIDS}
    for name in SETS:
        if load(name) is None:
            continue
        parts = list(islice(halves(name), REPEATS))
        for grid, params in GRIDS.items():
            figures = []
            for X, X_test, y, y_test in parts:
                search = DRMClassifierCV(kernel=kernel, probability=False, **params)
                start = process_time()
                search.fit(X, y)
                seconds = process_time() - start
                n_settings = len(search.cv_results_["params"])
                accuracy = search.score(X_test, y_test)
                figures.append(
                    (n_settings, is_beyond(search), search.best_score_, accuracy, seconds)
                )
            for key, value in zip(
                ("settings", "beyond", "score", "accuracy", "seconds"),
                np.mean(figures, axis=0),
                strict=True,
            ):
                found[grid][key].append(value)
        print(kernel, name, flush=True)
    return found


def rows() -> Iterator[tuple[object, ...]]:
    warnings.simplefilter("ignore")
    for kernel in ("rbf", "linear"):
        found = measure(kernel)
        peer = np.array(found["decades"]["accuracy"])
        for grid, figures in found.items():
            mean = {key: np.mean(values) for key, values in figures.items()}
            gain = np.array(figures["accuracy"]) - peer
            yield (
                *(kernel, grid, f"{mean['settings']:.1f}", f"{mean['beyond']:.2f}"),
                *(f"{mean['score']:.4f}", f"{mean['accuracy']:.4f}"),
                *(int((gain > 0).sum()), int((gain < 0).sum()), f"{mean['seconds']:.2f}"),
            )


if __name__ == "__main__":
    with threadpool_limits(1):
        print(write_table("default_grids_drm", "Default grid of DRM", TEXT, HEADER, rows()))
