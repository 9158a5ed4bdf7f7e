"""Shared parts of the papers on retargeted regression: baselines, schedule, data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import minmax_scale
from sklearn.svm import LinearSVC

from discreg import DLSRClassifier, LSRClassifier, ReLSRClassifier
from discreg_reproduction.protocol import Method, Tuned
from discreg_reproduction.registry import Dataset

# Algorithm 1 of ReLSR: thirty iterations, without a stopping rule.
N_ITERATIONS = 30
SCHEDULE: dict[str, Any] = {"solver": "alternating", "max_iter": N_ITERATIONS, "tol": 0}
COSTS = tuple(10.0**power for power in range(-3, 3))

LIBSVM_SCALED = frozenset({"iris", "vehicle", "glass"})
IMAGES = frozenset(
    {
        "att_28x23",
        "umist_28x23",
        "yale_32x32",
        "coil20_16x16",
        "ar_100x14_55x40",
        "pie_68x42_32x32",
        "yaleb_32x32",
    }
)
TEXTS = frozenset({"cora_os", "webkb_cl", "webkb_wt", "webkb_wc"})
USPS, USPS_PER_DIGIT = "usps_9298", 200

LIBSVM_COPIES = (
    "LIBSVM's copies of iris, vehicle and glass have every feature scaled to [-1, 1], so they are "
    "here; its other sets are taken as they are."
)
PIXELS = (
    "The paper does not say how pixels are scaled; here images are divided by their largest value."
)
PARTITIONS = (
    "The paper does not say whether its random partitions keep the shares of the classes; here "
    "they do, since otherwise some classes would have no training sample."
)
SELECTION = (
    "The paper does not say on which samples the parameters are chosen; here on the training part "
    "of each partition alone, with fewer folds where the smallest class has fewer samples, and "
    "ties go to the smallest."
)
FOLDS_OF_C = "The paper does not say by how many folds C is chosen; here by {}."
LIBLINEAR = (
    "The paper does not say how LIBLINEAR was set; here its default tolerances with an intercept, "
    "and its logistic regression, which is one against the rest."
)


def linear_baselines(n_folds: int = 5) -> dict[str, Method]:
    """Create LIBLINEAR's four classifiers, with its default tolerances."""
    logistic = OneVsRestClassifier(LogisticRegression(solver="liblinear", tol=0.01))
    C = {"C": COSTS}
    return {
        "L1-SVM": Tuned(LinearSVC(loss="hinge", tol=0.1), C, n_folds),
        "L2-SVM": Tuned(LinearSVC(loss="squared_hinge", dual=True, tol=0.1), C, n_folds),
        "MC-SVM": Tuned(LinearSVC(multi_class="crammer_singer", tol=0.1), C, n_folds),
        "LR": Tuned(logistic, {"estimator__C": COSTS}, n_folds),
    }


def regressions(**params: Any) -> dict[str, BaseEstimator]:
    """Create the regressions that both papers compare, with the papers' schedule."""
    return {
        "LSR": LSRClassifier(probability=False, **params),
        "DLSR": DLSRClassifier(probability=False, **params, **SCHEDULE),
        "ReLSR": ReLSRClassifier(probability=False, **params, **SCHEDULE),
    }


@dataclass(frozen=True)
class Published:
    """Give a data set the form that the papers take it in.

    Parameters
    ----------
    n_components : int
        Principal components that are left of the texts.
    """

    n_components: int

    def __call__(self, dataset: Dataset) -> Dataset:
        if dataset.name in LIBSVM_SCALED:
            return replace(dataset, X=minmax_scale(dataset.X, (-1, 1)))
        if dataset.name in IMAGES:
            return replace(dataset, X=dataset.X / dataset.X.max())
        if dataset.name in TEXTS:
            pca = PCA(self.n_components, svd_solver="arpack", random_state=0)
            return replace(dataset, X=pca.fit_transform(dataset.X))
        if dataset.name == USPS:
            rows = _drawn(dataset.y, USPS_PER_DIGIT)
            return Dataset(dataset.name, dataset.X[rows], dataset.y[rows])
        return dataset


def _drawn(y: NDArray[np.generic], per_class: int) -> NDArray[np.intp]:
    """Rows of as many samples of every class, drawn once and for all."""
    chance = np.random.default_rng(0)
    rows = [chance.choice(np.flatnonzero(y == k), per_class, replace=False) for k in np.unique(y)]
    return np.sort(np.concatenate(rows))
