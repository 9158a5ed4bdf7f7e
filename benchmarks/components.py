"""Kernels approximated by components: accuracy beside the exact kernel.

Run as ``python benchmarks/components.py``. ``DISCREG_DATA`` names the folder of the data sets; the
default is ``../shared/data``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _timing import write_table
from sklearn.preprocessing import StandardScaler

from discreg import DRMClassifier, LRRRClassifier, ODMClassifier, ReLSRClassifier

DATA = Path(os.environ.get("DISCREG_DATA", "../shared/data"))
SETS = ("pendigits", "shuttle", "ijcnn1_train", "poker_train", "mnist")
N_ROWS, N_TEST = 10_000, 5_000
SIZES, SHOWN = (100, 300, 600, 1_000), 600
MODELS = {
    "ODM": ODMClassifier(probability=False, kernel="rbf", random_state=0),
    "ReLSR": ReLSRClassifier(probability=False, kernel="rbf", beta=0.01, random_state=0),
    "LRRR": LRRRClassifier(probability=False, kernel="rbf", beta=0.1, random_state=0),
    "DRM": DRMClassifier(probability=False, kernel="rbf", random_state=0),
}
TEXT = (
    f"Accuracy on up to {N_TEST:,} held-out rows after a fit to up to {N_ROWS:,} standardised rows "
    "(pendigits 7,494 and 3,498), with the exact RBF kernel and with the Nyström method. Other "
    "parameters: ReLSR with beta = 0.01, LRRR with beta = 0.1, otherwise defaults."
)


def one_set(name: str) -> tuple[Any, Any, Any, Any]:
    with np.load(DATA / f"{name}.npz") as data:
        X, y = data["X"].astype(np.float64), data["y"]
    order = np.random.RandomState(0).permutation(len(X))
    n_train = 7_494 if name == "pendigits" else N_ROWS
    train, test = order[:n_train], order[n_train:][:N_TEST]
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def accuracies() -> Iterator[tuple[Any, ...]]:
    for name in SETS:
        X, y, X_test, y_test = one_set(name)
        for title, model in MODELS.items():
            scores, error = [], ""
            for size in (None, *SIZES):
                scores.append(model.set_params(n_components=size).fit(X, y).score(X_test, y_test))
                if size == SHOWN:
                    error = f"{model.kernel_error_:.3f}"
            print(name, title, *(f"{score:.4f}" for score in scores), error, flush=True)
            yield (name, title, *(f"{score:.3f}" for score in scores), error)


if __name__ == "__main__":
    header = ["data", "model", "exact", *(f"{size:,} components" for size in SIZES)]
    header.append(f"kernel_error_, {SHOWN} components")
    title = "Accuracy of approximated kernels"
    print(write_table("components_accuracy", title, TEXT, header, accuracies()))
