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
from itertools import product
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from _timing import Table, write_page
from threadpoolctl import threadpool_limits

from discreg import DRMClassifier, DRMClassifierCV
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
}
SCALINGS = ("plain", "scaled")
FOLDS = range(1, 6)
Cache = dict[str, dict]


def load(name: str):
    table = pd.read_csv(DATA / f"{name}.csv.gz")
    fold, y = table.pop("fold").to_numpy(), table.pop("y").to_numpy()
    return table.to_numpy(dtype=np.float64), y, fold


def split(X, y, fold, number: int, scaling: str):
    """One fold for testing and the others for training, which alone decide the scaling."""
    train, test = fold != number, fold == number
    largest = np.abs(X[train]).max(axis=0) if scaling == "scaled" else np.ones(X.shape[1])
    X = X / np.where(largest > 0, largest, 1)
    return X[train], X[test], y[train], y[test]


def run_fold(X, y, fold, number: int, kernel: str, scaling: str) -> dict:
    """G-mean on one fold with the setting that leave-one-out on the other four chooses."""
    X_train, X_test, y_train, y_test = split(X, y, fold, number, scaling)
    degrees, dropped = list(DEGREES), []
    start = perf_counter()
    while True:
        search = DRMClassifierCV(
            alphas=DECADES, betas=DECADES, degrees=degrees, scoring="g_mean", **KERNELS[kernel]
        )
        try:
            search.fit(X_train, y_train)
            break
        except ValueError as error:  # values not finite, or a system singular to rounding
            if kernel == "rbf" or len(degrees) == 1:
                raise
            dropped.append(degrees.pop())
            print(f"  degree {dropped[-1]} dropped: {error}", flush=True)
    return {
        "g_mean": g_mean_score(y_test, search.predict(X_test)),
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
    X, y, fold = load(name)
    for scaling in SCALINGS:
        for number in FOLDS:
            if (k := key(name, kernel, scaling, number)) not in cache:
                cache[k] = run_fold(X, y, fold, number, kernel, scaling)
                path.write_text(json.dumps(cache, indent=1))
                print(f"{k}: {cache[k]['g_mean']:.4f}, {cache[k]['seconds']:.1f} s", flush=True)


def run_ceiling(path: Path, cache: Cache, name: str) -> None:
    """The best that the RBF grid has on the test folds: by one setting, and by one for each."""
    data = load(name)
    for scaling in SCALINGS:
        if (k := f"{name} ceiling {scaling}") in cache:
            continue
        scores: dict[tuple, list[float]] = {}
        for number in FOLDS:
            X_train, X_test, y_train, y_test = split(*data, number, scaling)
            for setting in product(DECADES, DECADES, KERNELS["rbf"]["gammas"]):
                alpha, beta, gamma = setting
                model = DRMClassifier(kernel="rbf", gamma=gamma, alpha=alpha, beta=beta)
                found = model.fit(X_train, y_train).predict(X_test)
                scores.setdefault(setting, []).append(g_mean_score(y_test, found))
        table = np.array(list(scores.values()))
        cache[k] = {"one": table.mean(axis=1).max(), "each": table.max(axis=0).mean()}
        path.write_text(json.dumps(cache, indent=1))


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
        paper = reported[kernel == "poly"]
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


def outcome(table: list[tuple[str, ...]]) -> str:
    """How many rows come out, and which of them to the last digit."""
    complete = [row for row in table if row[-1]]
    missed = [f"{row[0]} ({row[-1][4:]})" for row in complete if row[-1] != "yes"]
    equal = [f"{row[0]} ({SCALINGS[row[1] != row[4]]})" for row in table if row[4] in row[1:3]]
    within = len(complete) - len(missed)
    text = f"{within} of {len(complete)} finished sets come within one reported deviation"
    if missed:
        text += f", all but {', '.join(missed)}"
    return text + (f". To the last digit: {', '.join(equal)}." if equal else ".")


def write(cache: Cache) -> str:
    header = ("data set", "plain", "scaled", "better", "paper", "within its deviation")
    rbf, poly = rows(cache, "rbf"), rows(cache, "poly")
    missing = [row[0] for row in rbf if row[1] == "data missing"]
    text = f"{PROTOCOL} {outcome(rbf)}"
    ceilings = [cache.get(f"haberman ceiling {scaling}") for scaling in SCALINGS]
    if None not in ceilings:
        plain, scaled = ceilings
        text += (
            " On haberman the setting of the grid that is best on the test folds themselves has a "
            f"mean of {plain['one']:.4f} on plain and {scaled['one']:.4f} "
            "on scaled features, and the best for each fold together have no more than "
            f"{plain['each']:.4f} and {scaled['each']:.4f}. So hardly any choice in this grid "
            "gives the paper's 0.6541 on these folds. Other folds would explain it, but the "
            "polynomial row below has the paper's value on the same folds; the cause is open."
        )
    if yeast3 := finished(cache, "yeast3", "rbf", "plain"):
        chosen = [fold["leave_one_out"] for fold in yeast3]
        text += (
            " On yeast3 the value is above the paper's and in line with the leave-one-out scores "
            f"of the chosen settings, {min(chosen):.3f} to {max(chosen):.3f}; why the paper's is "
            "lower is open too."
        )
    if missing:
        text += f" Not provided: {', '.join(missing)}."
    return write_page(
        "drm_keel",
        [
            Table("DRM on KEEL's imbalanced sets, RBF kernel", text, header, rbf),
            Table("The same, polynomial kernel", f"{POLYNOMIAL} {outcome(poly)}", header, poly),
        ],
    )


PROTOCOL = (
    "Table VII of the DRM paper with `DRMClassifierCV`, on the original five folds: mean and "
    "sample standard deviation of the G-mean over the folds. alpha, beta and v are powers of ten "
    "from 0.001 to 1000, the kernel is exp(−‖x − z‖² / 2v). The setting is chosen by the "
    "leave-one-out G-mean on the four training folds; of equally good ones the one with the "
    "smaller log-loss is taken. Everything is done on plain features and on features divided by "
    "their largest absolute value in the training folds, and the better mean is taken, as in the "
    "paper; only this last choice looks at the test folds."
)
POLYNOMIAL = (
    "The kernel is (xᵀz + 1)^d with d out of 2, 3, 4, 5, 8 and 10, the rest is as above. The paper "
    "does not say which form it has. A degree whose kernel cannot be used on a training fold is "
    "left out there and named in the table. On page-blocks-1-3_vs_4 the scaled features do better "
    "than the paper's value, which the plain ones give: the paper's scaling, or its choice among "
    "equally good settings, is not quite this one."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cache", type=Path, default=CACHE, help="default: %(default)s")
    parser.add_argument("--sets", nargs="*", choices=list(PAPER), help="run only these sets")
    options = parser.parse_args()
    path = options.cache
    cache: Cache = json.loads(path.read_text()) if path.exists() else {}
    chosen = options.sets or list(PAPER)
    names = [name for name in chosen if (DATA / f"{name}.csv.gz").exists()]
    with threadpool_limits(1):
        if "haberman" in names:
            run_ceiling(path, cache, "haberman")
        for name, kernel in product(names, KERNELS):
            run(path, cache, name, kernel)
            write(cache)
        print(write(cache))


if __name__ == "__main__":
    main()
