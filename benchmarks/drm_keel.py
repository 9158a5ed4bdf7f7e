"""Table VII of the DRM paper: G-means on the imbalanced data sets of KEEL, with their own folds.

Run ``python benchmarks/drm_keel.py``, an hour on one core. The data are read from the folder named
by ``DISCREG_DATA``, or from ``../shared/data`` beside the repository; what is missing is named and
left out. Every finished fold is kept in the file named by ``--cache`` and not run again, so a run
that was stopped goes on where it was; delete the file after a change of the package. The page is
written after every part, with what is finished by then.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from _timing import Table, write_page
from threadpoolctl import threadpool_limits

from discreg import DRMClassifierCV
from discreg.selection import g_mean_score

DATA = Path(os.environ.get("DISCREG_DATA", Path(__file__).parents[2] / "shared" / "data")) / "keel"
CACHE = Path(tempfile.gettempdir()) / "discreg_drm_keel.json"
# Mean and standard deviation of DRM(R) and of DRM(P) in the paper; the largest set comes last.
PAPER = {
    "haberman": ((0.6541, 0.0364), (0.6129, 0.0618)),
    "ecoli1": ((0.8714, 0.0366), (0.8728, 0.0466)),
    "glass4": ((0.8926, 0.1290), (0.9219, 0.1257)),
    "new-thyroid2": ((0.9703, 0.0406), (0.9852, 0.0332)),
    "ecoli2": ((0.9415, 0.0510), (0.9057, 0.0573)),
    "glass6": ((0.8995, 0.0940), (0.9323, 0.0496)),
    "ecoli3": ((0.8862, 0.0983), (0.8668, 0.0822)),
    "yeast-2_vs_4": ((0.8822, 0.0459), (0.8765, 0.0582)),
    "yeast-0-5-6-7-9_vs_4": ((0.7911, 0.0945), (0.7915, 0.1058)),
    "glass2": ((0.6652, 0.1441), (0.7370, 0.0869)),
    "cleveland-0_vs_4": ((0.8814, 0.1783), (0.7503, 0.1635)),
    "yeast-1_vs_7": ((0.6633, 0.1161), (0.7174, 0.1029)),
    "ecoli4": ((0.9545, 0.0573), (0.9343, 0.0723)),
    "page-blocks-1-3_vs_4": ((0.9433, 0.0530), (0.9932, 0.0062)),
    "yeast3": ((0.8509, 0.0539), (0.8860, 0.0279)),
}
DECADES = np.logspace(-3, 3, 7)
DEGREES = (2, 3, 4, 5, 8, 10)
KERNELS = {
    "rbf": {"kernel": "rbf", "gammas": 1 / (2 * DECADES)},
    "poly": {"kernel": "poly", "gammas": [1.0], "coef0": 1},
    "libsvm": {"kernel": "poly", "gammas": ["auto"], "coef0": 0},
}
SCALINGS = ("plain", "scaled")
FOLDS = range(1, 6)
Cache = dict[str, dict]


def run_fold(X, y, fold, number: int, kernel: str, scaling: str) -> dict:
    """G-mean on one fold with the setting that leave-one-out on the other four chooses."""
    train, test = fold != number, fold == number
    X_train, X_test = X[train], X[test]
    if scaling == "scaled":
        largest = np.abs(X_train).max(axis=0)
        largest[largest == 0] = 1
        X_train, X_test = X_train / largest, X_test / largest
    degrees, dropped = list(DEGREES), []
    start = perf_counter()
    while True:
        search = DRMClassifierCV(
            alphas=DECADES, betas=DECADES, degrees=degrees, scoring="g_mean", **KERNELS[kernel]
        )
        try:
            search.fit(X_train, y[train])
            break
        except ValueError as error:  # values not finite, or a system singular to rounding
            if kernel == "rbf" or len(degrees) == 1:
                raise
            dropped.append(degrees.pop())
            print(f"  degree {dropped[-1]} dropped: {error}", flush=True)
    return {
        "g_mean": g_mean_score(y[test], search.predict(X_test)),
        "leave_one_out": search.best_score_,
        "params": search.best_params_,
        "dropped": dropped,
        "seconds": perf_counter() - start,
    }


def key(name: str, kernel: str, scaling: str, number: int) -> str:
    return f"{name} {kernel} {scaling} {number}"


def finished(cache: Cache, name: str, kernel: str, scaling: str) -> list[dict] | None:
    """The five folds, once all of them are there."""
    keys = [key(name, kernel, scaling, number) for number in FOLDS]
    return [cache[k] for k in keys] if all(k in cache for k in keys) else None


def run(path: Path, cache: Cache, name: str, kernel: str) -> None:
    """Run what is not in the cache yet of one data set and kernel."""
    table = pd.read_csv(DATA / f"{name}.csv.gz")
    fold, y = table.pop("fold").to_numpy(), table.pop("y").to_numpy()
    X = table.to_numpy(dtype=np.float64)
    for scaling in SCALINGS:
        for number in FOLDS:
            if (k := key(name, kernel, scaling, number)) not in cache:
                cache[k] = run_fold(X, y, fold, number, kernel, scaling)
                path.write_text(json.dumps(cache, indent=1))
                print(f"{k}: {cache[k]['g_mean']:.4f}, {cache[k]['seconds']:.1f} s", flush=True)


def summary(folds: list[dict]) -> tuple[float, float]:
    values = [fold["g_mean"] for fold in folds]
    return float(np.mean(values)), float(np.std(values, ddof=1))


def spread(mean: float, deviation: float) -> str:
    return f"{mean:.4f} ± {deviation:.4f}"


def note(folds: list[dict]) -> str:
    """The degrees that were dropped, and in how many of the folds."""
    dropped = [degree for fold in folds for degree in fold["dropped"]]
    notes = [f"{degree} in {dropped.count(degree)}" for degree in sorted(set(dropped))]
    return f" (without degree {', '.join(notes)} of 5 folds)" if notes else ""


def rows(cache: Cache, kernel: str) -> list[tuple[str, ...]]:
    found = []
    for name, reported in PAPER.items():
        paper = reported[0 if kernel == "rbf" else 1]
        ours = [finished(cache, name, kernel, scaling) for scaling in SCALINGS]
        cells = ["not run" if own is None else spread(*summary(own)) + note(own) for own in ours]
        if not (DATA / f"{name}.csv.gz").exists():
            cells = ["data missing"] * 2 + ["", spread(*paper), ""]
        elif None in ours:
            cells += ["", spread(*paper), ""]
        else:
            best = max(map(summary, ours))
            difference = best[0] - paper[0]
            within = "yes" if abs(difference) <= paper[1] else f"no, {difference:+.4f}"
            cells += [spread(*best), spread(*paper), within]
        found.append((name, *cells))
    return found


def write(cache: Cache) -> str:
    header = ("data set", "plain", "scaled", "better", "paper", "within its deviation")
    seconds = sum(fold["seconds"] for fold in cache.values())
    return write_page(
        "drm_keel",
        [
            Table("DRM on KEEL's imbalanced sets, RBF kernel", TEXT, header, rows(cache, "rbf")),
            Table("The same, polynomial kernel", POLY_TEXT, header, rows(cache, "poly")),
            Table(
                "The same, polynomial kernel as LibSVM has it by default",
                LIBSVM_TEXT + f" All that is on this page took {seconds / 60:.0f} minutes.",
                header,
                rows(cache, "libsvm"),
            ),
        ],
    )


TEXT = ""
POLY_TEXT = ""
LIBSVM_TEXT = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"default: {CACHE}")
    path = parser.parse_args().cache
    cache: Cache = json.loads(path.read_text()) if path.exists() else {}
    names = [name for name in PAPER if (DATA / f"{name}.csv.gz").exists()]
    parts = [(name, kernel) for name in names for kernel in ("rbf", "poly")]
    parts += [(name, "libsvm") for name in names]
    with threadpool_limits(1):
        for name, kernel in parts:
            run(path, cache, name, kernel)
            write(cache)
        print(write(cache))


if __name__ == "__main__":
    main()
