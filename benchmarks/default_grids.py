"""Default searches beside five folds of all samples and larger grids: accuracy, edges, and time.

Run ``python benchmarks/default_grids.py``, or name models; the page keeps the rows of the others.
The data are read from the folder named by ``DISCREG_DATA``, or from ``../shared/data`` beside the
repository; what is missing is left out.
"""

from __future__ import annotations

import warnings
from time import process_time

import numpy as np
from _by_model import measure_models
from _timing import Table, one_thread
from default_penalties import load
from joblib import Parallel, delayed
from probabilities import MOST_ROWS, halves
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from discreg import (
    DLSRClassifierCV,
    DRMClassifierCV,
    GReLSRClassifierCV,
    LDMClassifier,
    LDMClassifierCV,
    LRLRClassifierCV,
    LRRRClassifierCV,
    LSRClassifier,
    LSRClassifierCV,
    ODMClassifier,
    ODMClassifierCV,
    ReLSRClassifierCV,
    SLRRClassifierCV,
)

SETS = (
    *("wine", "odm/heart", "glass", "keel/ecoli3", "odm/diabetes", "vehicle", "odm/clean1"),
    *("optdigits_1797", "vowel", "odm/colic", "odm/liverDisorders", "usps_9298"),
)
FIRST_SEED, REPEATS = 100, 3  # the grids were chosen on other halves
MARGIN_DECADES = (1.0, 10.0, 100.0, 1e3, 1e4)
DECADES = tuple(10.0**power for power in range(-3, 4))
WIDE = (0.1, 0.3, 1.0, 3.0, 10.0)  # gamma relative to "scale", which is 1 / n_features here
# The search with its defaults, and the candidates of a larger grid, if there is one.
SEARCHES = {
    "LSR": (LSRClassifierCV(), {}),
    "LSR, rbf": (LSRClassifierCV(LSRClassifier(kernel="rbf")), {}),
    "DLSR": (DLSRClassifierCV(), {}),
    "ReLSR": (ReLSRClassifierCV(), {}),
    "GReLSR": (GReLSRClassifierCV(), {}),
    "LRLR": (LRLRClassifierCV(), {}),
    "LRRR": (LRRRClassifierCV(), {}),
    "SLRR": (SLRRClassifierCV(), {}),
    "DRM": (DRMClassifierCV(), {"alphas": DECADES, "betas": DECADES}),
    "ODM": (
        ODMClassifierCV(ODMClassifier(random_state=0)),
        {"C1s": MARGIN_DECADES[::2], "C2s": MARGIN_DECADES[::2], "Ds": (0.0, 0.2)},
    ),
    "LDM": (
        LDMClassifierCV(LDMClassifier(random_state=0)),
        {"Cs": MARGIN_DECADES, "lambda1s": (0.0, 10.0, 1e3)},
    ),
}
HEADER = (
    *("model", "settings", "in five folds", "accuracy", "by five folds", "difference"),
    *("standard error", "at an edge", "beyond the grid", "digits: time / SVC", "accuracy"),
)
TEXT = (
    f"Mean accuracy (in percent) on the other half of {REPEATS} random halves of each of "
    f"{len(SETS)} data sets of at most {MOST_ROWS} samples, with standardised features: of the "
    "default search, and of a search in five folds of all samples, over a larger grid for DRM, ODM "
    "and LDM (of ODM, whose grid has one dimension more, every second power of ten). The standard "
    "error of the difference is over data sets. At an edge: share of the "
    "searches whose best value of a parameter is the largest or the smallest one tried, other than "
    "zero, of at least three; all ranks are tried, so that none is at an edge. Beyond the grid: "
    "share of the searches that continued their grid and found the best setting there. Last, the "
    "CPU time of a search on 80 % of digits, in one thread, relative to GridSearchCV of SVC with "
    "three values of C and four of gamma, and the accuracy on the rest."
)


def place_of_best(search) -> tuple[bool, bool]:
    """Whether the best setting is at an edge of the grid, and whether it is beyond the grid."""
    results = search.cv_results_
    if results["beyond_grid"][results["params"].index(search.best_params_)]:
        return False, True
    for name, best in search.best_params_.items():
        values = {setting[name] for setting in results["params"]}
        inside = name == "rank" or len(values) < 3 or min(values) < best < max(values)
        if not inside and best > 0:
            return True, False
    return False, False


@one_thread
def on_digits(search) -> tuple[float, float]:
    """The time of a search relative to that of SVC, and its accuracy."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, train_size=0.8, random_state=0, stratify=y)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    grid = {"C": [1, 10, 100], "gamma": [0.001, 0.003, 0.01, 0.03]}
    clone(search).fit(X, y)  # compiles loops, some of which only large problems use
    started = process_time()
    GridSearchCV(SVC(), grid, cv=5).fit(X, y)
    middle = process_time()
    search = clone(search).fit(X, y)
    return (process_time() - middle) / (middle - started), 100 * search.score(X_test, y_test)


@one_thread
def compare(model: str, name: str) -> tuple[list, list, list]:
    """Accuracies of both searches on the halves of a data set, places of the best, and settings."""
    warnings.simplefilter("ignore")
    search, candidates = SEARCHES[model]
    scores, places, sizes = [], [], []
    for X, X_test, y, y_test in halves(name, range(FIRST_SEED, FIRST_SEED + REPEATS)):
        wide = clone(search).set_params(**candidates, cv=5)
        if candidates:
            wide.set_params(gammas=[each / X.shape[1] for each in WIDE])
        found = [clone(each).fit(X, y) for each in (search, wide)]
        scores.append([100 * each.score(X_test, y_test) for each in found])
        places.append(place_of_best(found[0]))
        sizes.append([len(each.cv_results_["params"]) for each in found])
    print(model, name, np.mean(scores, axis=0).round(2), flush=True)
    return scores, places, sizes


def measure(model: str, n_jobs: int) -> list[list]:
    """Row of the table."""
    warnings.simplefilter("ignore")
    names = [name for name in SETS if load(name) is not None]
    found = Parallel(n_jobs=n_jobs)(delayed(compare)(model, name) for name in names)
    scores, places, sizes = (np.array([each[k] for each in found]) for k in range(3))
    of_sets = scores.mean(axis=1)
    apart = of_sets[:, 0] - of_sets[:, 1]
    ratio, accuracy = on_digits(SEARCHES[model][0])
    row = (
        model,
        *(f"{size:.0f}" for size in sizes.mean(axis=(0, 1))),
        *(f"{value:.2f}" for value in (*of_sets.mean(axis=0), apart.mean())),
        f"{apart.std(ddof=1) / np.sqrt(len(apart)):.2f}",
        *(f"{share:.0%}" for share in places.mean(axis=(0, 1))),
        *(f"{ratio:.2f}", f"{accuracy:.1f}"),
    )
    return [[row]]


if __name__ == "__main__":
    table = Table("Default searches", TEXT, HEADER)
    measure_models("default_grids", [table], SEARCHES, measure)
