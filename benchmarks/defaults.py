"""Default penalties by measurement on real data. Run as ``python benchmarks/defaults.py``.

The data are read from the folder that DISCREG_DATA names, or from ``../shared/data`` beside the
repository; what is missing there is skipped and named on the page.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pandas as pd
from _timing import RESULTS, machine
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from discreg import DLSRClassifier, GReLSRClassifier, LSRClassifier, ReLSRClassifier
from discreg.retargeted import _base
from discreg.retargeted._path import fit_path

BETA, GROUPWISE = 0.3, 0.1  # the choice that the page explains
BETAS = (100, 30, 10, 3, 1, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4)
GROUPWISES = (0.01, 0.1, 1, 10)  # 0 is ReLSR
SMALLEST = 1e-3  # beta of GReLSR: below it fits are slow and no better
MODELS = ("LSR", "DLSR", "ReLSR", "GReLSR")
CLASSES = dict(
    zip(MODELS, (LSRClassifier, DLSRClassifier, ReLSRClassifier, GReLSRClassifier), strict=True)
)
PEERS = {
    "RidgeClassifier": RidgeClassifier(),
    "LinearSVC": LinearSVC(random_state=0),
    "LogisticRegression": LogisticRegression(max_iter=1000),
}
KERNEL_PEERS = {"SVC": SVC()}
SCALINGS = ("raw", "standardised")
REPEATS = 3
TRAIN_SHARE, MAX_TRAIN, MAX_TRAIN_WIDE, MAX_TEST = 0.4, 800, 300, 2000
WIDE = 200  # features
SMALL = 1000  # rows
STOP = {"tol": 1e-3, "max_iter": 50}
GROUPS = {
    "few features": ("iris", "wine", "glass", "vowel", "vehicle", "tic-tac-toe", "shuttle"),
    "digits, letters, DNA": (
        *("dna", "optdigits_1797", "pendigits", "usps_9298", "mnist", "binalpha36"),
    ),
    "faces and objects": ("coil20_16x16", "att_28x23", "umist_28x23", "jaffe_26x26"),
    "gene expression": ("colon", "leukemia_golub38", "lung_gordon", "nci9"),
    "two classes": tuple(
        f"odm/{name}"
        for name in (
            *("echocardiogram", "balloons", "hepatitis", "promoters", "planning", "colic"),
            *("parkinsons", "sonar", "house-votes", "heart-h", "heart-c", "breast"),
            *("cylinder-bands", "liverDisorders", "clean1", "wdbc", "isolet", "credit-a"),
            *("australian", "diabetes", "fourclass", "german"),
        )
    ),
    "imbalanced (KEEL)": tuple(
        f"keel/{name}"
        for name in (
            *("haberman", "ecoli1", "ecoli2", "ecoli3", "ecoli4", "glass2", "glass4", "glass6"),
            *("new-thyroid2", "yeast3", "yeast-2_vs_4", "yeast-0-5-6-7-9_vs_4", "yeast-1_vs_7"),
            *("cleveland-0_vs_4", "page-blocks-1-3_vs_4"),
        )
    ),
}
DRAWN = {"usps_9298": 2000, "mnist": 2000, "shuttle": 2000}  # rows drawn first
BALANCED_DRAW = {"usps_9298"}  # as many rows of every class, as in the ReLSR paper


# Data ------------------------------------------------------------------------------------------


def data_folder():
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("DISCREG_DATA", beside))


def load(name, folder):
    """Features and labels, or None where the file is missing."""
    packed, table = folder / f"{name}.npz", folder / f"{name}.csv.gz"
    if packed.exists():
        with np.load(packed) as arrays:
            return arrays["X"].astype(np.float64), arrays["y"].astype(str)
    if table.exists():
        frame = pd.read_csv(table)
        features = frame.drop(columns=["y", "fold", "split"], errors="ignore")
        return features.to_numpy(np.float64), frame["y"].to_numpy().astype(str)
    return None


def draw(name, X, y, seed):
    """Training and test rows of one repeat: a stratified split of 40 % to 60 %, capped."""
    random = np.random.default_rng(seed)
    rows = np.arange(len(y))
    if name in BALANCED_DRAW:
        classes = np.unique(y)
        size = DRAWN[name] // len(classes)
        rows = np.concatenate(
            [random.choice(np.flatnonzero(y == k), size, replace=False) for k in classes]
        )
    elif name in DRAWN:
        rows = random.choice(rows, DRAWN[name], replace=False)
    classes, counts = np.unique(y[rows], return_counts=True)
    rows = rows[np.isin(y[rows], classes[counts > 1])]  # a single row cannot be split
    most = MAX_TRAIN_WIDE if X.shape[1] >= WIDE else MAX_TRAIN
    n_train = min(round(TRAIN_SHARE * len(rows)), most)
    n_test = min(len(rows) - round(TRAIN_SHARE * len(rows)), MAX_TEST)
    train, test = train_test_split(
        rows, train_size=n_train, test_size=n_test, stratify=y[rows], random_state=seed
    )
    return X[train], y[train], X[test], y[test]


# Measurement -----------------------------------------------------------------------------------


def scores(y, predicted):
    """Accuracy and the mean recall of the classes, in per cent."""
    right = y == predicted
    recalls = [right[y == label].mean() for label in np.unique(y)]
    return 100 * float(right.mean()), 100 * float(np.mean(recalls))


def along_grid(classifier, X, y, X_test, y_test, smallest=0.0):
    """Scores for every beta."""
    grid = [{"beta": float(beta)} for beta in BETAS if beta >= smallest]
    fits = fit_path(classifier, X, y, None, grid)
    return [scores(y_test, fit.predict(X_test)) for fit in fits]


def measure(name, X, y, scaling, seed):
    """Scores of all models and peers on one split."""
    X, y, X_test, y_test = draw(name, X, y, seed)
    if scaling != "raw":
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    kernel = scaling == "rbf"
    options = {"kernel": "rbf"} if kernel else {}
    values, counts = np.unique(y, return_counts=True)
    constant = np.full(len(y_test), values[counts.argmax()])
    found = {"majority": [scores(y_test, constant)]}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        _base.NEXT_TO_NOTHING = 0  # small problems stop there too
        data = (X, y, X_test, y_test)
        found["LSR"] = along_grid(LSRClassifier(**options), *data)
        for model in ("DLSR", "ReLSR"):
            found[model] = along_grid(CLASSES[model](**STOP, **options), *data)
        for groupwise in (GROUPWISE,) if kernel else GROUPWISES:
            classifier = GReLSRClassifier(groupwise=groupwise, **STOP, **options)
            found[_grelsr(groupwise)] = along_grid(classifier, *data, smallest=SMALLEST)
        for peer, classifier in (KERNEL_PEERS if kernel else PEERS).items():
            found[peer] = [scores(y_test, classifier.fit(X, y).predict(X_test))]
    return found


def _grelsr(groupwise):
    return f"GReLSR {groupwise:g}"


def run(folder, repeats, n_jobs):
    """Measure everything; the scores by kind of features and data set, averaged over repeats."""
    start = perf_counter()
    result = {"missing": [], "shapes": {}, "scores": {}, "repeats": repeats}
    for name in (name for group in GROUPS.values() for name in group):
        data = load(name, folder)
        if data is None:
            result["missing"].append(name)
            print(f"{name}: missing", flush=True)
            continue
        X, y = data
        before, cpu = perf_counter(), process_time()
        result["shapes"][name] = (*X.shape, len(np.unique(y)))
        kinds = SCALINGS if X.shape[1] >= WIDE or len(y) > SMALL else (*SCALINGS, "rbf")
        for kind in kinds:
            parts = Parallel(n_jobs=n_jobs)(
                delayed(measure)(name, X, y, kind, seed) for seed in range(repeats)
            )
            result["scores"].setdefault(kind, {})[name] = {
                key: np.mean([part[key] for part in parts], axis=0).tolist() for key in parts[0]
            }
        print(
            f"{name}: {perf_counter() - before:.1f} s, {process_time() - cpu:.1f} s of CPU",
            flush=True,
        )
    result["seconds"] = perf_counter() - start
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--scores", type=Path)
    arguments = parser.parse_args()
    r = run(data_folder(), arguments.repeats, arguments.n_jobs)
    arguments.scores.write_text(json.dumps(r))
