"""Kernel fits of the retargeted models beside SVC.

Run as ``python benchmarks/retargeted_kernels.py``; it takes about two minutes. The second data
set is USPS, digits in ten classes like pendigits but with 256 features: satimage is not among the
data.

``DISCREG_DATA`` names the folder of the data sets; the default is ``../shared/data``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _timing import ratio_to_peer, side_by_side, write_table
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from discreg import DLSRClassifier, GReLSRClassifier, ReLSRClassifier

DATA = Path(os.environ.get("DISCREG_DATA", "../shared/data"))
SETS = {"pendigits": "pendigits", "USPS": "usps_9298"}
N_ROWS = 3_000
REPEATS = 5
MODELS = (DLSRClassifier, ReLSRClassifier, GReLSRClassifier)

TEXT = (
    f"Milliseconds to fit {N_ROWS:,} standardised rows, medians of {REPEATS} runs that take turns. "
    "RBF kernel with gamma = 1/d, `scale_beta=False`, other parameters at their defaults (a "
    "relative gap of 1e-6); SVC with C = 1/beta at its default tolerance. The ratio is to SVC in "
    'the same run. "stored" is the number of training samples in the model.'
)


def rows() -> Iterator[tuple[Any, ...]]:
    for name, file in SETS.items():
        with np.load(DATA / f"{file}.npz") as data:
            X, y = data["X"].astype(np.float64), data["y"]
        some = np.random.RandomState(0).permutation(len(X))[:N_ROWS]
        X, y = scale(X[some]), y[some]
        gamma = 1 / X.shape[1]
        for C in (1, 10, 100):
            models: dict[str, Any] = {"SVC": SVC(C=C, gamma=gamma)}
            for model in MODELS:
                models[model.__name__] = model(
                    probability=False, kernel="rbf", gamma=gamma, beta=1 / C, scale_beta=False
                )
            seconds = side_by_side(
                {title: partial(model.fit, X, y) for title, model in models.items()}, REPEATS
            )
            for title, model in models.items():
                if title != "SVC":
                    what = f"{title}, kernel, {name}, 1/beta = {C}"
                    ratio_to_peer("fit", what, seconds[title], seconds["SVC"])
                yield (
                    name,
                    f"{X.shape[0]:,} x {X.shape[1]}",
                    C,
                    title,
                    f"{1000 * seconds[title]:.0f}",
                    f"{seconds[title] / seconds['SVC']:.1f}",
                    "" if title == "SVC" else f"{model.gap_:.0e}",
                    "" if title == "SVC" else model.n_iter_,
                    len(model.support_),
                )


if __name__ == "__main__":
    header = ["data", "shape", "1/beta", "model", "ms", "times SVC", "gap", "sweeps", "stored"]
    print(
        write_table(
            "retargeted_kernels",
            "Kernel fits of the retargeted models beside SVC",
            TEXT,
            header,
            rows(),
        )
    )
