"""Comparisons that the G-mean rules, and that accuracy rules, on imbalanced data sets.

Run ``python benchmarks/g_mean.py``. The data are read from the folder named by ``DISCREG_DATA``, or
from ``../shared/data`` beside the repository.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from _timing import Table, write_page
from default_penalties import load

import discreg

SETS = (
    *("cleveland-0_vs_4", "ecoli1", "ecoli2", "ecoli3", "glass4", "glass6", "new-thyroid2"),
    *("page-blocks-1-3_vs_4", "yeast-0-5-6-7-9_vs_4", "yeast-2_vs_4"),
)
RULES = ("g_mean", "accuracy")
HEADER = (
    *("data set", "rows", "rare", "by G-mean", "G-mean", "by accuracy", "G-mean"),
    *("DRM: G-mean", "seconds"),
)
TEXT = (
    "`discreg.compare` with all candidates and 5 folds, with `scoring` g_mean and accuracy: the "
    "recommended model (none: no model beats the majority class, whose G-mean is 0), and its "
    "G-mean on the outer folds. DRM: its G-mean where the G-mean rules. The seconds are those of "
    "both comparisons."
)


def row(name: str) -> tuple[list[str], list[float]]:
    """Compare by both rules; return a row of the page and the G-means."""
    X, y = load(f"keel/{name}")
    chosen, scores, seconds = [], [], 0.0
    drm = ""
    for rule in RULES:
        began = perf_counter()
        found = discreg.compare(X, y, scoring=rule, cv=5)
        seconds += perf_counter() - began
        recommended = found.verdict.recommended
        chosen.append(recommended or "none")
        scores.append(0.0 if recommended is None else found.table.loc[recommended, "g_mean"])
        if rule == "g_mean":
            drm = found.table.loc["DRM", "reason"] or f"{found.table.loc['DRM', 'g_mean']:.3f}"
    cells = [f"{score:.3f}" for score in scores]
    sizes = [str(len(y)), str(np.unique(y, return_counts=True)[1].min())]
    return [name, *sizes, chosen[0], cells[0], chosen[1], cells[1], drm, f"{seconds:.0f}"], scores


def main() -> None:
    """Compare on all data sets and write the page after each."""
    rows, scores = [], []
    for name in SETS:
        cells, found = row(name)
        rows.append(cells)
        scores.append(found)
        means = [f"{mean:.3f}" for mean in np.mean(scores, axis=0)]
        last = ["mean", "", "", "", means[0], "", means[1], "", ""]
        print(*cells, sep=" | ", flush=True)
        write_page("g_mean", [Table("Comparison by G-mean", TEXT, HEADER, [*rows, last])])


if __name__ == "__main__":
    main()
