"""Searches of the penalty beside RidgeClassifierCV and a grid search of SVC.

Run as ``python benchmarks/searches.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from _timing import ratio_to_peer, side_by_side, write_table
from sklearn.datasets import make_classification
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from discreg import (
    DRMClassifier,
    DRMClassifierCV,
    LRRRClassifier,
    LRRRClassifierCV,
    LSRClassifier,
    LSRClassifierCV,
)

REPEATS = 3
SHAPES = ((1_000, 50), (60, 5_000))
PENALTIES = np.logspace(-3, 3, 13)

TEXT = (
    f"Seconds for {len(PENALTIES)} penalties on samples of three classes, medians of {REPEATS} "
    "runs that take turns. LSR, LRRR, which also tries all ranks, DRM and RidgeClassifierCV hold "
    "out each sample once, by closed forms. SVC is fitted to five folds. The ratio is to the peer "
    "in the same run: RidgeClassifierCV for linear models, the grid search of SVC for kernels."
)


def searches() -> Iterator[tuple[str, dict[str, Any]]]:
    """Kernels, and our searches with that of the peer as the last one."""
    ours = {"betas": PENALTIES}
    yield (
        "linear",
        {
            "LSR": LSRClassifierCV(LSRClassifier(probability=False), **ours),
            "LRRR": LRRRClassifierCV(LRRRClassifier(probability=False), **ours),
            "DRM": DRMClassifierCV(
                DRMClassifier(probability=False, kernel="linear"), **ours, alphas=[0.1]
            ),
            "RidgeClassifierCV": RidgeClassifierCV(alphas=PENALTIES),
        },
    )
    yield (
        "rbf",
        {
            "LSR": LSRClassifierCV(
                LSRClassifier(probability=False, kernel="rbf"), **ours, gammas=["scale"]
            ),
            "LRRR": LRRRClassifierCV(
                LRRRClassifier(probability=False, kernel="rbf"), **ours, gammas=["scale"]
            ),
            "DRM": DRMClassifierCV(
                DRMClassifier(probability=False), **ours, alphas=[0.1], gammas=["scale"]
            ),
            "SVC": GridSearchCV(SVC(), {"C": PENALTIES}, cv=5),
        },
    )


def measure() -> Iterator[tuple[object, ...]]:
    for n_samples, n_features in SHAPES:
        X, y = make_classification(
            n_samples, n_features, n_informative=20, n_classes=3, random_state=0
        )
        X = scale(X)
        for kernel, models in searches():
            seconds = side_by_side(
                {name: lambda m=model, X=X, y=y: m.fit(X, y) for name, model in models.items()},
                REPEATS,
            )
            *ours, peer = models
            shape = f"{n_samples:,} x {n_features:,}"
            for name in ours:
                ratio_to_peer("search", f"{name}, {kernel}, {shape}", seconds[name], seconds[peer])
            for name, spent in seconds.items():
                yield shape, kernel, name, f"{spent:.3f}", f"{spent / seconds[peer]:.2f}"


if __name__ == "__main__":
    header = ("shape", "kernel", "model", "seconds", "ratio")
    print(write_table("searches", "Searches", TEXT, header, measure()))
