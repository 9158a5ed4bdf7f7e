"""Kernel matrices: discreg beside scikit-learn, and the Laplacian kernel beside RBF.

Run as ``python benchmarks/kernels.py``, or with "kernels" or "laplacian" for one table to look at.
"""

from __future__ import annotations

import sys
from functools import partial
from time import process_time

import numpy as np
from _timing import Table, machine, side_by_side, write_page
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels
from threadpoolctl import threadpool_limits

from discreg.linalg.fitted_kernel import FittedKernel

KERNELS = ("rbf", "poly", "sigmoid")
SHAPES = ((1000, None), (5000, None), (5000, 1000))  # rows of X and of Y; None: X with itself
FEATURES = (10, 50, 200, 784)
SPARSE = (5000, 20_000, 0.002)  # rows, features, share of entries that are stored
REPEATS = 7
N_ROWS = 2000  # of the Laplacian kernel

TEXT = """\
Milliseconds for the matrix of a kernel between standard normal rows: medians of repeats in which
discreg and `sklearn.metrics.pairwise.pairwise_kernels` take turns. Both return float64; the last
column is the largest difference between two entries, relative to the largest entry. `X·Yᵀ` is the
product alone as numpy computes it: with many features a kernel matrix cannot take much less. Rests
between the calls keep out that OpenBLAS's threads spin for a while after each product; right after
one, discreg takes 10 to 25 ms more.
"""

LAPLACIAN_TEXT = f"""\
Milliseconds of CPU time in one thread for the kernel matrix of {N_ROWS:,} standard normal rows
with themselves or with {N_ROWS:,} others: medians of {REPEATS} repeats in which both kernels take
turns. For each pair and feature, the L1 distance is a subtraction, an absolute value
and an addition, and the inner product is one fused multiply-add: vector units need two to three
times as long for the distance.
"""


def compare(kernel, X, Y=None):
    """Milliseconds of both, how many times faster discreg is, and how far the results differ."""
    other = X if Y is None else Y
    seconds = side_by_side(
        {
            "discreg": lambda: FittedKernel(kernel)(X, Y),
            "scikit-learn": lambda: pairwise_kernels(X, Y, metric=kernel),
            "product": lambda: X @ other.T,
        },
        REPEATS,
    )
    ours, theirs = FittedKernel(kernel)(X, Y), pairwise_kernels(X, Y, metric=kernel)
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


def beside_rbf(shape, features, X, Y=None):
    """Milliseconds of CPU time of the Laplacian and the RBF kernel, and their ratio."""
    for dtype in (np.float64, np.float32):
        kernels = {
            kernel: partial(FittedKernel(kernel), X, Y, dtype=dtype)
            for kernel in ("laplacian", "rbf")
        }
        seconds = side_by_side(kernels, REPEATS, process_time)
        ours, rbf = seconds["laplacian"], seconds["rbf"]
        times = f"{1e3 * ours:.1f}", f"{1e3 * rbf:.1f}", f"{ours / rbf:.1f}"
        yield shape, features, np.dtype(dtype).name, *times


def laplacian():
    random = np.random.default_rng(0)
    with threadpool_limits(1):
        for n_features in FEATURES:
            X, Y = random.standard_normal((2, N_ROWS, n_features))
            yield from beside_rbf("X with X", n_features, X)
            yield from beside_rbf("X with Y", n_features, X, Y)


TABLES = {
    "kernels": lambda: Table(
        "Kernel matrices",
        TEXT.rstrip(),
        (
            *("kernel", "shape", "features"),
            *("discreg", "scikit-learn", "X·Yᵀ", "ratio", "difference"),
        ),
        measure(),
    ),
    "laplacian": lambda: Table(
        "Laplacian kernels beside RBF",
        LAPLACIAN_TEXT.rstrip(),
        ("rows", "features", "precision", "laplacian", "rbf", "times RBF"),
        laplacian(),
    ),
}


def main():
    chosen = sys.argv[1:]
    if chosen:
        for name in chosen:
            print(TABLES[name](), machine(), sep="\n")
    else:
        print(write_page("kernels", [make() for make in TABLES.values()]))


if __name__ == "__main__":
    main()
