"""Probabilities and prediction sets beside those of several fits, and beside the truth.

Run ``python benchmarks/probabilities.py``, or name models; the page keeps the rows of the others.
The data are read from the folder named by ``DISCREG_DATA``, or from ``../shared/data`` beside the
repository; what is missing is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from time import process_time

import numpy as np
from _by_model import measure_models
from _simulated import draw
from _timing import Table, one_thread
from default_penalties import load
from joblib import Parallel, delayed
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import LabelEncoder, StandardScaler

from discreg import (
    DLSRClassifier,
    DRMClassifier,
    GReLSRClassifier,
    LDMClassifier,
    LRLRClassifier,
    LRRRClassifier,
    LSRClassifier,
    ODMClassifier,
    ReLSRClassifier,
    SLRRClassifier,
)

SETS = (
    *("iris", "wine", "glass", "vehicle", "vowel", "tic-tac-toe", "keel/haberman", "keel/ecoli1"),
    *("keel/new-thyroid2", "keel/ecoli3", "keel/yeast-2_vs_4", "keel/yeast-0-5-6-7-9_vs_4"),
    *("keel/page-blocks-1-3_vs_4", "odm/heart", "odm/heart-c", "odm/colic", "odm/breast"),
    *("odm/liverDisorders", "odm/clean1", "odm/wdbc", "odm/diabetes", "odm/german", "odm/vote"),
    *("umist_28x23", "leukemia_golub72"),
)
REPEATS, MOST_ROWS, LEVEL = 2, 600, 0.9
PEER = "LogisticRegression"
MODELS = {
    "LSR": LSRClassifier(),
    "LSR, rbf": LSRClassifier(kernel="rbf", beta=0.01),
    "DLSR": DLSRClassifier(),
    "ReLSR": ReLSRClassifier(),
    "ReLSR, rbf": ReLSRClassifier(kernel="rbf", beta=0.01),
    "GReLSR": GReLSRClassifier(),
    "LRLR": LRLRClassifier(),
    "LRRR": LRRRClassifier(),
    "SLRR": SLRRClassifier(),
    "DRM": DRMClassifier(),
    "DRM, linear": DRMClassifier(kernel="linear"),
    "ODM": ODMClassifier(),
    "ODM, linear": ODMClassifier(kernel="linear"),
    "LDM": LDMClassifier(),
    "LDM, linear": LDMClassifier(kernel="linear"),
}
DRAWS, SIZES, N_NEW = 20, (100, 300), 2_000
SIMULATED = {  # kind of table, class weights, sample weights
    "logit": ("logit", None, None),
    "ring": ("ring", None, None),
    "rare": ("rare", None, None),
    "four": ("four", None, None),
    "separable": ("separable", None, None),
    "wide": ("wide", None, None),
    "noise": ("noise", None, None),
    "rare, balanced": ("rare", "balanced", None),
    "four, balanced": ("four", "balanced", None),
    "logit, weights of 10": ("logit", None, "10"),
    "logit, random weights": ("logit", None, "random"),
    "rare, random weights": ("rare", None, "random"),
}
HEADER = (
    *("model", "log-loss", "of five folds", "difference", "standard error"),
    *("calibration error", "of five folds", "time"),
)
TEXT = (
    f"Means over {REPEATS} random halves of each of {len(SETS)} data sets of at most {MOST_ROWS} "
    "samples, with standardised features and default parameters. Five folds: "
    'CalibratedClassifierCV(method="temperature", cv=5) of the same model. LogisticRegression has '
    "its penalty chosen by five folds. The calibration error is the mean distance, over ten bins "
    "of the largest probability, between its mean and the accuracy. The difference of the log-loss "
    "to five folds and its standard error are over data sets; time is the ratio of the CPU seconds "
    "that calibration adds to a fit to those of the five folds."
)
SET_HEADER = (
    *("model", "coverage", "of the rarest class", "size", "coverage, default", "conditional"),
    *("of the rarest class", "size", "split: coverage", "size"),
)
IN_SETS = (
    *("empty coverage", "empty rare", "empty size", "default coverage", "conditional coverage"),
    *("conditional rare", "conditional size", "split coverage", "split size"),
)
SET_TEXT = (
    f"Prediction sets at {100 * LEVEL:g} % on the same halves: with `allow_empty=True`, with the "
    "default, and class-conditional; and sets of split conformal prediction, which fits the model "
    "to one half of the training samples and calibrates on the other half."
)
TRUTH_HEADER = ("model", *SIMULATED, "largest standard error")
DRAWN = (
    f"Means over {DRAWS} draws of {SIZES[0]} / {SIZES[1]} training rows whose true probabilities "
    f"are known, judged on {N_NEW:,} new rows. logit: two classes, linear; ring: two classes, not "
    "linear; rare: 5 % cases, linear; four: four unequal classes, linear; separable: two classes "
    "that hardly overlap; wide: 200 columns, linear; noise: columns that say nothing; balanced: "
    '`class_weight="balanced"`; random weights: exponentially distributed sample weights. '
)
TRUTH_TEXTS = {
    "Mean probabilities": "Mean probability of a class minus its share of the training rows, by "
    "weight: the largest difference over the classes.",
    "Excess log-loss": "Expected log-loss minus that of the true probabilities.",
    "Coverage of prediction sets": f"Probability that sets at {100 * LEVEL:g} % with "
    "`allow_empty=True` contain the class. Where probabilities are the class frequencies, all rows "
    "have the same set, and no set of equally frequent classes covers less than all of them.",
}


def calibration_error(shares, y) -> float:
    top, right = shares.max(axis=1), shares.argmax(axis=1) == y
    places = np.minimum((10 * top).astype(int), 9)
    return sum(
        abs(top[places == k].mean() - right[places == k].mean()) * np.mean(places == k)
        for k in np.unique(places)
    )


def halves(name: str, seeds: Iterable[int] = range(REPEATS)) -> Iterator[tuple]:
    X, y = load(name)
    y = LabelEncoder().fit_transform(y)
    labels, counts = np.unique(y, return_counts=True)
    many = np.isin(y, labels[counts >= 20])  # five folds of a quarter need five of each class
    X, y = X[many], LabelEncoder().fit_transform(y[many])
    for seed in seeds:
        size = min(len(y), MOST_ROWS)
        some = np.random.RandomState(seed).permutation(len(y))[:size]
        parts = train_test_split(
            X[some], y[some], test_size=0.5, stratify=y[some], random_state=seed
        )
        scaler = StandardScaler().fit(parts[0])
        yield scaler.transform(parts[0]), scaler.transform(parts[1]), parts[2], parts[3]


def timed(function) -> tuple:
    start = process_time()
    found = function()
    return found, process_time() - start


def split_sets(model, X, y, X_test):
    """Sets of split conformal prediction with the probabilities of the half model."""
    X, X_held, y, y_held = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    half = clone(model).fit(X, y)
    own = np.sort(1 - half.predict_proba(X_held)[np.arange(len(y_held)), y_held])
    rank = int(np.ceil(LEVEL * (len(own) + 1)))
    limit = own[rank - 1] if rank <= len(own) else np.inf
    return 1 - half.predict_proba(X_test) <= limit


def measure_peer(X, X_test, y, y_test) -> dict[str, float]:
    peer = LogisticRegressionCV(cv=5, max_iter=2_000, scoring="neg_log_loss").fit(X, y)
    shares = peer.predict_proba(X_test)
    return {
        "loss": log_loss(y_test, shares, labels=peer.classes_),
        "error": calibration_error(shares, y_test),
    }


def measure_half(model, X, X_test, y, y_test) -> dict[str, float]:
    fitted, whole = timed(lambda: clone(model).fit(X, y))
    _, bare = timed(lambda: clone(model).set_params(probability=False).fit(X, y))
    plain = clone(model).set_params(probability=False)
    folds, five = timed(lambda: CalibratedClassifierCV(plain, method="temperature").fit(X, y))
    shares, theirs = fitted.predict_proba(X_test), folds.predict_proba(X_test)
    every = range(len(fitted.classes_))
    found = {
        "loss": log_loss(y_test, shares, labels=every),
        "folds": log_loss(y_test, theirs, labels=every),
        "error": calibration_error(shares, y_test),
        "folds error": calibration_error(theirs, y_test),
        "added": max(whole - bare, 0.0),
        "five": five,
    }
    rare = y_test == np.bincount(y).argmin()
    sets = {
        "empty": fitted.predict_set(X_test, LEVEL, allow_empty=True),
        "default": fitted.predict_set(X_test, LEVEL),
        "conditional": fitted.predict_set(X_test, LEVEL, class_conditional=True, allow_empty=True),
        "split": split_sets(model, X, y, X_test),
    }
    for name, each in sets.items():
        own = each[np.arange(len(y_test)), y_test]
        found |= {f"{name} coverage": own.mean(), f"{name} size": each.sum(axis=1).mean()}
        found[f"{name} rare"] = own[rare].mean()
    return found


@one_thread
def measure_set(name: str, data: str) -> dict[str, float]:
    """Means over the halves of a data set, by quantity."""
    warnings.simplefilter("ignore")
    every = [
        measure_peer(*half) if name == PEER else measure_half(MODELS[name], *half)
        for half in halves(data)
    ]
    means = {what: float(np.mean([each[what] for each in every])) for what in every[0]}
    print(name, data, {what: round(value, 4) for what, value in means.items()}, flush=True)
    return means


@one_thread
def measure_truth(name: str, table: str, n_rows: int) -> tuple[list, list]:
    """Means over the draws of a simulated table, and their standard errors."""
    warnings.simplefilter("ignore")
    kind, class_weight, weighting = SIMULATED[table]
    found = []
    for seed in range(DRAWS):
        X, y, _ = draw(kind, n_rows, seed)
        X_new, _, truth = draw(kind, N_NEW, DRAWS + seed)
        weights = {
            None: np.ones(n_rows),
            "10": np.full(n_rows, 10.0),
            "random": np.random.default_rng(seed).exponential(size=n_rows),
        }[weighting]
        if name == PEER:
            folds = StratifiedKFold(min(5, np.bincount(y).min()))
            model = LogisticRegressionCV(cv=folds, max_iter=2_000, scoring="neg_log_loss")
        else:
            model = clone(MODELS[name]).set_params(class_weight=class_weight)
        model.fit(X, y, sample_weight=weights)
        shares = model.predict_proba(X_new)
        sizes = np.bincount(y, weights)
        excess = xlogy(truth, truth) - xlogy(truth, np.clip(shares, 1e-15, 1))
        covered = np.nan
        if name != PEER:
            sets = model.predict_set(X_new, LEVEL, allow_empty=True)
            covered = (truth * sets).sum(axis=1).mean()
        apart = shares.mean(axis=0) - sizes / sizes.sum()
        found.append([excess.sum(axis=1).mean(), covered, *apart])
    means, errors = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(DRAWS)
    worst = 2 + np.abs(means[2:]).argmax()
    print(name, table, n_rows, means.round(3), flush=True)
    return means[[worst, 0, 1]], errors[[worst, 0, 1]]


def measure_truths(name: str, n_jobs: int) -> list[list]:
    """Rows of the tables of simulated truth."""
    every = [(table, n_rows) for table in SIMULATED for n_rows in SIZES]
    measured = Parallel(n_jobs=n_jobs)(delayed(measure_truth)(name, *each) for each in every)
    means, errors = np.array(measured).transpose(1, 2, 0)
    rows = []
    for k, sign in enumerate(("+", "", "")):
        cells = [
            " / ".join(f"{value:{sign}.3f}" for value in pair) for pair in means[k].reshape(-1, 2)
        ]
        rows.append([(name, *cells, f"{errors[k].max():.3f}")])
    if name == PEER:
        rows[2] = []
    return rows


def measure(name: str, n_jobs: int) -> list[list]:
    """Rows of all tables."""
    return measure_sets(name, n_jobs) + measure_truths(name, n_jobs)


def measure_sets(name: str, n_jobs: int) -> list[list]:
    """Rows of the tables of data sets."""
    sets = [data for data in SETS if load(data) is not None]
    measured = Parallel(n_jobs=n_jobs)(delayed(measure_set)(name, data) for data in sets)
    found = {what: np.array([each[what] for each in measured]) for what in measured[0]}
    mean = {what: values.mean() for what, values in found.items()}
    if name == PEER:
        empty = [""] * 3
        return [[(name, f"{mean['loss']:.3f}", *empty, f"{mean['error']:.3f}", "", "")], []]
    apart = found["loss"] - found["folds"]
    error = apart.std(ddof=1) / np.sqrt(len(apart))
    numbers = (mean["loss"], mean["folds"], apart.mean(), error, mean["error"], mean["folds error"])
    time = found["added"].sum() / found["five"].sum()
    losses = (name, *(f"{number:.3f}" for number in numbers), f"{time:.2f}")
    return [[losses], [(name, *(f"{mean[what]:.3f}" for what in IN_SETS))]]


if __name__ == "__main__":
    tables = [
        Table("Probabilities", TEXT, HEADER),
        Table("Prediction sets", SET_TEXT, SET_HEADER),
        *(Table(title, DRAWN + text, TRUTH_HEADER) for title, text in TRUTH_TEXTS.items()),
    ]
    measure_models("probabilities", tables, [*MODELS, PEER], measure)
