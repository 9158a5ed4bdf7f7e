"""Default grids of the searches beside larger ones: accuracy, settings at an edge, and time.

Run ``python benchmarks/default_grids.py``, or name models. The data are read from the folder named
by ``DISCREG_DATA``, or from ``../shared/data`` beside the repository; what is missing is left out.
"""

from __future__ import annotations

import sys
import warnings
from time import process_time

import numpy as np
import probabilities
from _timing import write_table
from default_penalties import load
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from discreg import LDMClassifierCV, ODMClassifierCV

SETS = (
    *("wine", "odm/heart", "keel/haberman", "glass", "svmguide2", "keel/ecoli3", "odm/diabetes"),
    *("iris", "odm/german", "vehicle", "odm/clean1", "optdigits_1797", "vowel", "odm/colic"),
    *("odm/liverDisorders", "usps_9298", "odm/wdbc"),
)
REPEATS = 1
DECADES = (1.0, 10.0, 100.0, 1e3, 1e4)
WIDE = (0.1, 0.3, 1.0, 3.0, 10.0)  # gamma relative to "scale", which is 1 / n_features here
# The search with its defaults, and the candidates of a larger grid.
SEARCHES = {
    "ODM": (ODMClassifierCV(), {"C1s": DECADES, "C2s": DECADES, "Ds": (0.0, 0.2, 0.4)}),
    "LDM": (LDMClassifierCV(), {"Cs": DECADES, "lambda1s": (0.0, 10.0, 1e3)}),
}
HEADER = (
    *("model", "settings", "of the larger grid", "accuracy", "with the larger grid"),
    *(
        "standard error of the difference",
        "best at an edge",
        "beyond the grid",
        "digits: time / SVC",
        "accuracy",
    ),
)
TEXT = (
    f"Mean held-out accuracy (in percent) over a random half of each of {{}} data sets "
    f"of at most {probabilities.MOST_ROWS} samples, with standardised features. At an edge: share "
    "of the searches whose best value of a parameter is the largest or the smallest one tried, "
    "other than zero, of at least three. Beyond the grid: share of the searches that continued "
    "their grid and found the best setting there. Last, the CPU time of a search on 80 % of "
    "digits, in one thread, relative to GridSearchCV of SVC with three values of C and four of "
    "gamma, and the accuracy on the rest. The larger grid is tried on all samples in five folds."
)


def place_of_best(search) -> tuple[bool, bool]:
    """Whether the best setting is at an edge of the grid, and whether it is beyond the grid."""
    results = search.cv_results_
    if results["beyond_grid"][results["params"].index(search.best_params_)]:
        return False, True
    for name, best in search.best_params_.items():
        values = {setting[name] for setting in results["params"]}
        if len(values) >= 3 and best in (min(values), max(values)) and best > 0:
            return True, False
    return False, False


def on_digits(search) -> tuple[float, float]:
    """The time of a search relative to that of SVC, and its accuracy."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, train_size=0.8, random_state=0, stratify=y)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    grid = {"C": [1, 10, 100], "gamma": [0.001, 0.003, 0.01, 0.03]}
    clone(search).fit(X[:400], y[:400])  # compiles
    started = process_time()
    GridSearchCV(SVC(), grid, cv=5).fit(X, y)
    middle = process_time()
    search = clone(search).fit(X, y)
    return (process_time() - middle) / (middle - started), 100 * search.score(X_test, y_test)


def row_of(model: str, names: list[str]) -> tuple:
    """Compare the default grid of one model with the larger one."""
    search, candidates = SEARCHES[model]
    differences, scores, places = [], [], []
    for name in names:
        for X, X_test, y, y_test in probabilities.halves(name):
            wide = clone(search).set_params(
                **candidates, gammas=[each / X.shape[1] for each in WIDE], cv=5
            )
            found = [clone(each).fit(X, y) for each in (search, wide)]
            scores.append([100 * each.score(X_test, y_test) for each in found])
            places.append(place_of_best(found[0]))
        differences.append(np.subtract(*np.mean(scores[-REPEATS:], axis=0)))
        print(model, name, np.round(np.mean(scores[-REPEATS:], axis=0), 2), flush=True)
    ratio, accuracy = on_digits(search)
    means = np.mean(scores, axis=0)
    error = np.std(differences, ddof=1) / np.sqrt(len(names))
    sizes = [int((~each.cv_results_["beyond_grid"]).sum()) for each in found]
    cells = [f"{value:.2f}" for value in (*means, error)]
    cells += [f"{share:.0%}" for share in np.mean(places, axis=0)]
    return model, *sizes, *cells, f"{ratio:.2f}", f"{accuracy:.1f}"


def main() -> None:
    warnings.simplefilter("ignore")
    probabilities.REPEATS = REPEATS
    names = [name for name in SETS if load(name) is not None]
    with threadpool_limits(1):
        rows = [row_of(model, names) for model in sys.argv[1:] or SEARCHES]
    text = TEXT.format(len(names))
    print(write_table("default_grids", "Default grids of the searches", text, HEADER, rows))


if __name__ == "__main__":
    main()
