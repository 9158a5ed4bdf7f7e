"""The time that probabilities add to a fit: kernel machines, and linear models of 20,000 rows.

Run as ``python benchmarks/probability_cost.py``; it takes a minute.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np
from _timing import Table, side_by_side, write_page
from scipy import linalg
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

import discreg

KERNEL_MODELS = ("LSR", "DLSR", "ReLSR", "GReLSR", "LRRR", "DRM", "ODM", "LDM")
LINEAR_MODELS = ("LSR", "DLSR", "ReLSR", "GReLSR", "LRLR", "LRRR", "SLRR", "DRM", "ODM", "LDM")
REPEATS = 5
KERNEL = (
    "CPU seconds of a fit with an RBF kernel and otherwise defaults, without probabilities, the "
    "seconds that probabilities add, and these in Cholesky factorisations of a matrix with one row "
    "for each support sample. DRM predicts a sample with one product with the matrix of all "
    "samples, so that predicting all of them takes six factorisations. ReLSR and GReLSR of several "
    "classes solve a system with a row for each pair of sample and class with a residual."
)
LINEAR = (
    "CPU seconds of a linear fit to 20,000 rows of 50 features and 5 classes without "
    "probabilities, the seconds that probabilities add, and the ratio of the whole fits. At most "
    "2,000 rows are held out."
)


def model(name: str, **params: Any) -> Any:
    return getattr(discreg, f"{name}Classifier")(**params)


def timed(estimator: Any, X: Any, y: Any) -> tuple[float, float, Any]:
    """Seconds of a fit without and with probabilities, and the fitted model."""
    with_probabilities = clone(estimator).set_params(probability=True)
    without = clone(estimator).set_params(probability=False)
    seconds = side_by_side(
        {
            "without": lambda: without.fit(X, y),
            "with": lambda: with_probabilities.fit(X, y),
        },
        REPEATS,
        process_time,
    )
    return seconds["without"], seconds["with"], with_probabilities


def cholesky_seconds(size: int) -> float:
    matrix = np.exp(-np.abs(np.arange(size) - np.arange(size)[:, None]) / 10.0)
    factor = {"factor": lambda: linalg.cholesky(matrix, lower=True, check_finite=False)}
    return side_by_side(factor, REPEATS, process_time)["factor"]


def kernel_rows() -> Iterator[tuple[object, ...]]:
    digits, labels = load_digits(return_X_y=True)
    two = make_classification(2000, n_informative=8, class_sep=0.6, flip_y=0.1, random_state=0)
    sets = {
        "digits, 1,500 rows, 10 classes": (scale(digits)[:1500], labels[:1500]),
        "synthetic, 2,000 rows, 2 classes": two,
    }
    for title, (X, y) in sets.items():
        for name in KERNEL_MODELS:
            without, whole, fitted = timed(model(name, kernel="rbf"), X, y)
            size = len(getattr(fitted, "support_", y))
            ratio = (whole - without) / cholesky_seconds(size)
            yield title, name, size, f"{without:.3f}", f"{whole - without:.3f}", f"{ratio:.1f}"


def linear_rows() -> Iterator[tuple[object, ...]]:
    X, y = make_classification(20_000, 50, n_informative=20, n_classes=5, random_state=0)
    for name in LINEAR_MODELS:
        estimator = model(name)
        if "kernel" in estimator.get_params():
            estimator.set_params(kernel="linear")
        without, whole, _ = timed(estimator, X, y)
        yield name, f"{without:.3f}", f"{whole - without:.3f}", f"{whole / without:.2f}"


def main() -> None:
    warnings.simplefilter("ignore")
    header = ("model", "without", "added")
    with threadpool_limits(1):
        tables = [
            Table(
                "Time that probabilities add to kernel machines",
                KERNEL,
                ("data", "model", "support samples", *header[1:], "factorisations"),
                list(kernel_rows()),
            ),
            Table(
                "Time that probabilities add to linear models",
                LINEAR,
                (*header, "ratio"),
                list(linear_rows()),
            ),
        ]
        print(write_page("probability_cost", tables))


if __name__ == "__main__":
    main()
