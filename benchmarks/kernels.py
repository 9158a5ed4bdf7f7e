"""Kernel matrices: discreg beside scikit-learn. Run as ``python benchmarks/kernels.py``."""

from __future__ import annotations

import numpy as np
from _timing import side_by_side, write_table
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels

from discreg.linalg.kernels import kernel_matrix

KERNELS = ("rbf", "poly", "sigmoid")
SHAPES = ((1000, None), (5000, None), (5000, 1000))  # rows of X and of Y; None: X with itself
FEATURES = (10, 50, 200, 784)
SPARSE = (5000, 20_000, 0.002)  # rows, features, share of entries that are stored
REPEATS = 7

TEXT = """\
Milliseconds for the matrix of a kernel between standard normal rows: medians of repeats in which
discreg and `sklearn.metrics.pairwise.pairwise_kernels` take turns. Both return float64; the last
column is the largest difference between two entries, relative to the largest entry. `X·Yᵀ` is the
product alone as numpy computes it: with many features a kernel matrix cannot take much less. Rests
between the calls keep out that OpenBLAS's threads spin for a while after each product; right after
one, discreg takes 10 to 25 ms more.
"""


def compare(kernel, X, Y=None):
    """Milliseconds of both, how many times faster discreg is, and how far the results differ."""
    other = X if Y is None else Y
    seconds = side_by_side(
        {
            "discreg": lambda: kernel_matrix(X, Y, kernel=kernel),
            "scikit-learn": lambda: pairwise_kernels(X, Y, metric=kernel),
            "product": lambda: X @ other.T,
        },
        REPEATS,
    )
    ours, theirs = kernel_matrix(X, Y, kernel=kernel), pairwise_kernels(X, Y, metric=kernel)
    return (
        *(f"{1e3 * seconds[name]:.1f}" for name in ("discreg", "scikit-learn", "product")),
        f"{seconds['scikit-learn'] / seconds['discreg']:.1f}x",
        f"{np.abs(ours - theirs).max() / np.abs(theirs).max():.0e}",
    )


def measure():
    random = np.random.default_rng(0)
    for kernel in KERNELS:
        for n_rows, n_cols in SHAPES:
            for n_features in FEATURES:
                X = random.standard_normal((n_rows, n_features))
                Y = None if n_cols is None else random.standard_normal((n_cols, n_features))
                yield kernel, f"{n_rows} x {n_cols or n_rows}", n_features, *compare(kernel, X, Y)
        n_rows, n_features, density = SPARSE
        X = sparse.random_array((n_rows, n_features), density=density, format="csr", rng=random)
        features = f"{n_features}, {density:.1%} stored"
        yield kernel, f"{n_rows} x {n_rows}", features, *compare(kernel, X)


if __name__ == "__main__":
    header = (
        "kernel",
        "shape",
        "features",
        "discreg",
        "scikit-learn",
        "X·Yᵀ",
        "ratio",
        "difference",
    )
    print(write_table("kernels", "Kernel matrices", TEXT.rstrip(), header, measure()))
