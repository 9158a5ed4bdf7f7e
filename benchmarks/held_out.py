"""Held-out scores of one fit beside those of refits.

Run ``python benchmarks/held_out.py`` or name models: ``python benchmarks/held_out.py ReLSR ODM``;
the page keeps the rows of the others. The data are read from the folder named by ``DISCREG_DATA``,
or from ``../shared/data`` beside the repository; what is missing is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import product

import numpy as np
from _by_model import measure_models
from _timing import Table
from default_penalties import load
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_distances
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

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
)

SETS = (
    *("iris", "wine", "glass", "vehicle", "vowel", "optdigits_1797", "keel/ecoli3"),
    *("keel/yeast-2_vs_4", "odm/clean1", "odm/heart", "odm/diabetes", "odm/german", "tic-tac-toe"),
)
MOST_ROWS, LEFT_OUT = 300, 20
MOVED = 1e-4  # change of scores by leaving a sample out that is more than the tolerance of fits
BETAS = tuple({"beta": beta} for beta in (1.0, 0.1, 0.01))
MODELS = {
    "LSR": (LSRClassifier(), BETAS),
    "DLSR": (DLSRClassifier(tol=1e-10), BETAS),
    "ReLSR": (ReLSRClassifier(tol=1e-10), BETAS),
    "GReLSR": (GReLSRClassifier(tol=1e-10), BETAS),
    "LRLR": (LRLRClassifier(), ({},)),
    "LRRR": (LRRRClassifier(), BETAS),
    "DRM": (DRMClassifier(), BETAS),
    "ODM": (ODMClassifier(tol=1e-10), tuple({"C1": C, "C2": C / 10} for C in (10.0, 1e3, 1e4))),
    "LDM": (LDMClassifier(tol=1e-10), tuple({"C": C} for C in (10.0, 1e3, 1e4))),
}
TEXT = (
    f"Scores of {LEFT_OUT} samples of each of {len(SETS)} standardised data sets of at most "
    f"{MOST_ROWS} samples, held out by one fit and by refits without them, for three penalties "
    "(LRLR has none), with and without sample weights from 0.5 to 3. The penalty and the kernel of "
    "a refit are those of the fit, and C is multiplied by the share of the weight that is left. "
    "Labels: share of samples with the same label. The difference is the median over the samples "
    f"whose scores change by more than {MOVED:g} by leaving them out, relative to the distance "
    "between the scores in training and in refits; the last column is its 90th percentile. LRLR is "
    "only compared where the other samples determine the scores. SLRR holds out folds and is not "
    "compared."
)


def absolute(model, X, y, weights):
    """Return a fitted model, and an unfitted one with the same absolute penalty and kernel."""
    fitted = clone(model).fit(X, y, weights)
    fixed = clone(model).set_params(probability=False)
    if hasattr(model, "scale_beta"):
        prepared = fitted._prepare(X, y, weights)
        scale = prepared.regression.scale
        fixed.set_params(beta=model.beta * scale, scale_beta=False)
    return fitted, fixed


def without(fixed, X, y, weights, left_out: int):
    """Fit the model without one unit of the weight of a sample."""
    rest = weights.copy()
    rest[left_out] -= min(rest[left_out], 1.0)
    share = rest.sum() / weights.sum()
    costs = {name: getattr(fixed, name) * share for name in ("C1", "C2", "C", "lambda1", "lambda2")
             if hasattr(fixed, name)}  # fmt: skip
    return clone(fixed).set_params(**costs).fit(X, y, rest)


def columns(scores):
    return np.column_stack([-scores / 2, scores / 2]) if scores.ndim == 1 else scores


def compare(model, X, y, weights, some) -> Iterator[tuple[bool, float, float]]:
    """Yield whether the labels agree, the difference, and the distance to the training scores."""
    fitted, fixed = absolute(model, X, y, weights)
    if not hasattr(fitted, "loo_decision_function_"):
        return
    held_out = columns(fitted.loo_decision_function_)
    training = columns(fitted.decision_function(X))
    for i in some:
        truth = columns(without(fixed, X, y, weights, i).decision_function(X[[i]]))[0]
        # Adding the same number to all scores of a sample changes nothing.
        centred = [each - each.mean() for each in (held_out[i], truth, training[i])]
        yield (
            int(held_out[i].argmax()) == int(truth.argmax()),
            float(np.abs(centred[0] - centred[1]).max()),
            float(np.abs(centred[2] - centred[1]).max()),
        )


@threadpool_limits.wrap(limits=1)
def row(name: str, kernel: str, weighted: bool) -> tuple[object, ...]:
    warnings.simplefilter("ignore")
    model, settings = MODELS[name]
    same, differences, moves = [], [], []
    for data in SETS:
        found = load(data)
        if found is None:
            continue
        X, y = found
        random = np.random.RandomState(0)
        order = random.permutation(len(y))[:MOST_ROWS]
        X, y = StandardScaler().fit_transform(X[order]), y[order]
        labels, counts = np.unique(y, return_counts=True)
        many = np.isin(y, labels[counts > 3])
        X, y = X[many], y[many]
        weights = random.choice([0.5, 1.0, 2.0, 3.0], len(y)) if weighted else np.ones(len(y))
        some = random.permutation(len(y))[:LEFT_OUT]
        gamma = 1.0 / np.median(pairwise_distances(X[:200])) ** 2
        for setting in settings:
            given = clone(model).set_params(kernel=kernel, gamma=float(gamma), **setting)
            for agrees, difference, move in compare(given, X, y, weights, some):
                same.append(agrees)
                differences.append(difference)
                moves.append(move)
    moved = np.array(moves) > MOVED
    relative = np.array(differences)[moved] / np.array(moves)[moved]
    what = f"{name}, {kernel}" + ", weights" * weighted
    print(what, flush=True)
    return (
        what,
        len(same),
        f"{100 * np.mean(same):.2f} %",
        f"{np.median(relative):.1e}",
        f"{np.quantile(relative, 0.9):.1e}",
    )


def measure(name: str, n_jobs: int) -> list[list]:
    every = product(("linear", "rbf"), (False, True))
    return [Parallel(n_jobs=n_jobs)(delayed(row)(name, *each) for each in every)]


if __name__ == "__main__":
    header = ("model", "samples", "labels", "median difference", "90 %")
    table = Table("Held-out scores beside refits", TEXT, header)
    measure_models("held_out", [table], MODELS, measure)
