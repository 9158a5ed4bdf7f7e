"""Epochs of stochastic gradients by their step size, for the default of `svrg_step`.

Run ``python benchmarks/svrg_step.py``. The data are read from the folder named by
``DISCREG_DATA``, or from ``../shared/data`` beside the repository. Features are divided by their
largest absolute value; more than two classes become the largest one against the others.
"""

from __future__ import annotations

import warnings

import numpy as np
from _timing import Table, write_page
from default_penalties import DATA, load
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import MaxAbsScaler

from discreg import LDMClassifier, ODMClassifier

LARGE = ("a9a", "w8a")
SETS = (*LARGE, "ijcnn1_train", "pendigits", "shuttle", "usps_9298")
STEPS = (0.1, 0.3, 0.5, 1.0)
MOST_ROWS, SEEDS = 10_000, 3
FIXED = {"kernel": "linear", "solver": "svrg", "probability": False}
MODELS = {
    "ODM, default": (ODMClassifier(**FIXED), 300),
    "ODM, default, tol=1e-6": (ODMClassifier(tol=1e-6, **FIXED), 300),
    "ODM, C1=10, C2=5, tol=1e-6": (ODMClassifier(C1=10, C2=5, tol=1e-6, **FIXED), 300),
    "LDM, default, tol=0.01": (LDMClassifier(tol=0.01, **FIXED), 60),
    "LDM, C=100, lambda1=10, tol=0.01": (
        LDMClassifier(C=100, lambda1=10, tol=0.01, **FIXED),
        60,
    ),
}
TEXT = (
    "Epochs until the relative gap is at most `tol`, by the first step size in units of 1/L: the "
    f"mean of {SEEDS} seeds, at most {MOST_ROWS:,} rows of each set. `>` is the limit of the "
    "epochs, which a seed reached. An epoch has half as many steps as there are rows, on average. "
    "Johnson and Zhang, whom the ODM paper follows, take 0.1."
)


def two_classes(name):
    """Return some rows of a set, with features up to 1, and labels of two classes."""
    if name in LARGE:
        with np.load(DATA / "large" / f"{name}.npz") as parts:
            X = sparse.csr_array(
                (parts["data"], parts["indices"], parts["indptr"]), shape=parts["shape"]
            )
            y = parts["y"]
    else:
        X, y = load(name)
    labels, counts = np.unique(y, return_counts=True)
    rows = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    return MaxAbsScaler().fit_transform(X[rows].astype(float)), (y == labels[counts.argmax()])[rows]


def epochs(model, max_iter, X, y):
    """Return the mean number of epochs as text."""
    found, limited = [], False
    for seed in range(SEEDS):
        model.set_params(max_iter=max_iter, random_state=seed).fit(X, y)
        found.append(model.n_iter_)
        limited |= model.gap_ > model.tol
    return f">{max_iter}" if limited else f"{np.mean(found):.0f}"


def main():
    """Measure all models and write the page after each."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    tables = []
    for title, (model, max_iter) in MODELS.items():
        rows = []
        for name in SETS:
            X, y = two_classes(name)
            rows.append(
                [name]
                + [epochs(model.set_params(svrg_step=step), max_iter, X, y) for step in STEPS]
            )
            print(title, *rows[-1], sep=" | ", flush=True)
        tables.append(Table(title, TEXT, ["data set", *(f"{step:g}" for step in STEPS)], rows))
        write_page("svrg_step", tables)


if __name__ == "__main__":
    main()
