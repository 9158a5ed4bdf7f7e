"""Data and models for fits by blocks, and the same rows in every form that a fit accepts."""

import dask.array as da
import numpy as np
from scipy import sparse
from sklearn import config_context

from discreg import (
    DLSRClassifier,
    DRMClassifier,
    GReLSRClassifier,
    LRLRClassifier,
    LRRRClassifier,
    LSRClassifier,
    ODMClassifier,
    ReLSRClassifier,
    SLRRClassifier,
)

N_ROWS, N_FEATURES, N_CLASSES = 240, 6, 3

MODELS = {
    "LSR": LSRClassifier(),
    "LSR without intercept": LSRClassifier(fit_intercept=False),
    "DLSR": DLSRClassifier(tol=1e-12, probability=False),
    "ReLSR": ReLSRClassifier(tol=1e-12, probability=False),
    "GReLSR": GReLSRClassifier(tol=1e-12, probability=False),
    "LRLR": LRLRClassifier(rank=1),
    "LRRR": LRRRClassifier(rank=1),
    "SLRR": SLRRClassifier(beta=0.3, tol=1e-12, probability=False),
    "DRM": DRMClassifier(kernel="linear"),
    "DRM, Nyström": DRMClassifier(n_components=15, random_state=0),
    "DRM, Fourier": DRMClassifier(n_components=20, approximation="random_features", random_state=0),
    "ODM": ODMClassifier(kernel="linear", tol=1e-12, probability=False),
}
BY_PARTS = ("LSR", "LSR without intercept", "LRLR", "LRRR", "DRM")
# Rows of each chunk: evenly, and with empty chunks and chunks of one row.
CHUNKS = {"even": (60,) * 4, "uneven": (1, 0, 130, 1, 1, 77, 0, 30)}


def rows(seed=0, dtype=np.float64):
    """Rows of three classes that overlap, with their labels."""
    random = np.random.default_rng(seed)
    y = random.integers(N_CLASSES, size=N_ROWS)
    centres = 1.5 * random.standard_normal((N_CLASSES, N_FEATURES))
    X = centres[y] + random.standard_normal((N_ROWS, N_FEATURES)) + 2
    return X.astype(dtype), y


def weights():
    """Whole numbers, some of them zero."""
    return np.random.default_rng(3).integers(0, 4, N_ROWS).astype(float)


def as_sparse(X):
    """Most entries zero, as CSR."""
    return sparse.csr_array(np.where(np.abs(X - 2) > 1.0, X, 0.0))


def mapped(X, folder):
    """The rows in a memory map."""
    path = folder / "rows.dat"
    writable = np.memmap(path, dtype=X.dtype, mode="w+", shape=X.shape)
    writable[:] = X
    writable.flush()
    return np.memmap(path, dtype=X.dtype, mode="r", shape=X.shape)


def blocks_of(n_rows, X):
    """scikit-learn's working memory for blocks of so many rows of X."""
    return config_context(working_memory=n_rows * X.shape[1] * X.itemsize / (1 << 20))


def chunked(X, lengths):
    """A Dask array of these chunks of rows, dense or sparse."""
    numbers = da.from_array(np.arange(X.shape[0]), chunks=(lengths,))
    more = {} if X.ndim == 1 else {"new_axis": 1, "chunks": (lengths, (X.shape[1],))}
    return numbers.map_blocks(lambda some: X[some], dtype=X.dtype, meta=X[:0], **more)


def largest_difference(one, other, X):
    """Of the decision values of two models, relative to their size."""
    values = one.decision_function(X)
    return np.abs(values - other.decision_function(X)).max() / np.abs(values).max()
