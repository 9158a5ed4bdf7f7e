"""Time of a fit as the samples and the classes grow, with the fitted exponents beside the theory's.

Run as ``python benchmarks/growth.py``. It takes under five minutes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from _timing import Table, write_page
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import scale
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import discreg

N_FEATURES = 20
SAMPLES = {"linear": (1_000, 3_000, 10_000, 30_000, 100_000), "rbf": (1_000, 2_000, 4_000, 10_000)}
CLASSES = (2, 5, 10, 30, 100)
MANY_SAMPLES = {"linear": 10_000, "rbf": 1_000}  # while the classes grow
ENOUGH = 0.3  # seconds after which a fit is not repeated
MOST = 1.5  # seconds after which a model is not fitted to more samples or classes
LAST = 3  # sizes at the end that the exponent is fitted to


@dataclass(frozen=True)
class Model:
    """A model, its kernel, and how its time should grow with samples and with classes."""

    name: str
    kernel: str
    samples: str
    classes: str

    def create(self) -> Any:
        peers = {"RidgeClassifier": RidgeClassifier, "SVC": SVC}
        if self.name in peers:
            return peers[self.name]()
        model = getattr(discreg, f"{self.name}Classifier")(probability=False)
        return model.set_params(kernel=self.kernel) if "kernel" in model.get_params() else model


MODELS = (
    *(Model(name, "linear", "1", "0 to 1") for name in ("LSR", "LRLR", "LRRR", "SLRR", "DRM")),
    *(Model(name, "linear", "1", "1") for name in ("DLSR", "ReLSR", "GReLSR", "ODM", "LDM")),
    Model("RidgeClassifier", "linear", "1", "0 to 1"),
    *(Model(name, "rbf", "2 to 3", "0 to 1") for name in ("LSR", "LRLR", "LRRR", "DRM")),
    *(Model(name, "rbf", "2", "1") for name in ("DLSR", "ReLSR", "GReLSR", "ODM")),
    Model("LDM", "rbf", "2 to 3", "1"),
    Model("SVC", "rbf", "2", "0 to 2"),
)

TEXT = (
    f"Standardised samples of {N_FEATURES} features, defaults. CPU seconds of the first and the "
    "last fit in one thread, medians of three if they are short, and the slope of log(seconds) "
    f"against log(size) over the last {LAST} sizes. The sizes of a model end after a fit of more "
    f"than {MOST:g} s. "
)
OF_SAMPLES = (
    "Ten classes. Linear models compute a Gram matrix of the features, n d² multiplications. Exact "
    "kernel models compute n² entries; those that factor the kernel matrix take n³ / 6 for it, "
    "which outweighs the entries of many samples only."
)
OF_CLASSES = (
    f"{MANY_SAMPLES['linear']:,} samples for linear models, {MANY_SAMPLES['rbf']:,} for kernels. "
    "The work of one factorisation does not depend on the classes, that of the scores is "
    "proportional to them. SVC fits c (c - 1) / 2 pairs of classes, of 2 n / c samples each."
)


def problem(n_samples: int, n_classes: int) -> tuple[Any, Any]:
    X, y = make_classification(
        n_samples,
        N_FEATURES,
        n_informative=10,
        n_classes=n_classes,
        n_clusters_per_class=1,
        random_state=0,
    )
    return scale(X), y


def seconds_to_fit(model: Any, X: Any, y: Any) -> float:
    """Median CPU seconds of three fits, or those of the first one if it is long."""
    spent: list[float] = []
    while len(spent) < 3 and sum(spent) < ENOUGH:
        start = process_time()
        model.fit(X, y)
        spent.append(process_time() - start)
    return median(spent)


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Slope of log(seconds) against log(size) at the largest sizes."""
    last = slice(-LAST, None)
    return float(np.polyfit(np.log(sizes[last]), np.log(seconds[last]), 1)[0])


def rows(model: Model, sizes: Sequence[int], theory: str, *, of_classes: bool) -> tuple[Any, ...]:
    """Fit a model to problems of growing sizes; return a row of the table."""
    model.create().fit(*problem(600, 3))  # loads or compiles its loops
    done: list[int] = []
    seconds: list[float] = []
    for size in sizes:
        shape = (MANY_SAMPLES[model.kernel], size) if of_classes else (size, 10)
        seconds.append(seconds_to_fit(model.create(), *problem(*shape)))
        done.append(size)
        if seconds[-1] > MOST:
            break
    slope = f"{exponent(done, seconds):.2f}" if len(done) >= LAST else ""
    first, last = f"{seconds[0]:.3g}", f"{seconds[-1]:.3g}"
    return model.name, model.kernel, f"{done[0]:,}", first, f"{done[-1]:,}", last, slope, theory


def with_samples() -> Iterator[tuple[Any, ...]]:
    for model in MODELS:
        yield rows(model, SAMPLES[model.kernel], model.samples, of_classes=False)


def with_classes() -> Iterator[tuple[Any, ...]]:
    for model in MODELS:
        yield rows(model, CLASSES, model.classes, of_classes=True)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    header = ("model", "kernel", "from", "seconds", "to", "seconds", "exponent", "theory")
    tables = (
        Table("Growth with the samples", TEXT + OF_SAMPLES, header, with_samples()),
        Table("Growth with the classes", TEXT + OF_CLASSES, header, with_classes()),
    )
    with threadpool_limits(1):
        page = write_page("growth", tables)
    print(page)


if __name__ == "__main__":
    main()
