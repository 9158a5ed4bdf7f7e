"""Kernels between new rows and stored rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.types import Array

from ._graph import Graph

__all__ = ["dense", "kernel_diagonal", "kernel_rows"]

LARGEST = 1 << 31  # bytes of an ONNX file


def kernel_rows(graph: Graph, kernel: FittedKernel, x: str, rows: Any) -> str:
    """Compute the kernel between new rows and stored rows, one column per stored row."""
    _require_named(kernel)
    rows = dense(rows)
    match kernel.kernel:
        case "rbf":
            return _rbf(graph, kernel, x, rows)
        case "laplacian" | "chi2" | "additive_chi2":
            return _of_differences(graph, kernel, x, rows)
        case "cosine":
            norms = graph("Sqrt", graph.reduce("ReduceSumSquare", x))
            nonzero = graph("Where", graph("Equal", norms, 0.0), 1.0, norms)
            return graph.product(graph("Div", x, nonzero), normalize(rows).T)
        case "linear":
            return graph.product(x, rows.T)
        case _:
            shifted = graph.product(x, _gamma(kernel) * rows.T, np.array([float(kernel.coef0)]))
            return _of_shifted(graph, kernel, shifted)


def kernel_diagonal(graph: Graph, kernel: FittedKernel, x: str) -> str:
    """Compute k(x, x) of new rows, as one column."""
    _require_named(kernel)
    squares = graph.reduce("ReduceSumSquare", x)
    if kernel.facts.diagonal is not None:
        return graph("Add", graph("Mul", squares, 0.0), kernel.facts.diagonal)
    if kernel.kernel == "cosine":
        return graph("Sign", squares)
    if kernel.kernel == "linear":
        return squares
    shifted = graph("Add", graph("Mul", squares, _gamma(kernel)), float(kernel.coef0))
    return _of_shifted(graph, kernel, shifted)


def dense(rows: Any) -> Array:
    """Convert stored rows to an array; raise ValueError if they do not fit into an ONNX file."""
    if 8 * rows.shape[0] * rows.shape[1] >= LARGEST:
        raise ValueError(
            f"The model stores {rows.shape[0]:,} rows of {rows.shape[1]:,} features, which are "
            "more than 2 GB in an ONNX file. Fit a linear model, or approximate the kernel with "
            "fewer n_components."
        )
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)


def _rbf(graph: Graph, kernel: FittedKernel, x: str, rows: Array) -> str:
    """Compute exp(−γ ‖x − y‖²) from one product of centred rows, with ‖x‖² as another column."""
    gamma, origin = _gamma(kernel), np.median(rows, axis=0)
    rows = rows - origin  # far from the origin, rounding errors of the norms would be large
    x = graph("Sub", x, origin)
    with_square = graph("Concat", x, graph.reduce("ReduceSumSquare", x), axis=1)
    factors = np.vstack([2 * gamma * rows.T, np.full(len(rows), -gamma)])
    exponents = graph.product(with_square, factors, -gamma * np.einsum("ij,ij->i", rows, rows))
    return graph("Exp", graph("Min", exponents, 0.0))


def _of_shifted(graph: Graph, kernel: FittedKernel, shifted: str) -> str:
    """Compute a kernel from γ x·y + coef0."""
    if kernel.kernel == "sigmoid":
        return graph("Tanh", shifted)
    return _power(graph, shifted, float(kernel.degree))


def _power(graph: Graph, base: str, degree: float) -> str:
    """Compute a power, for integers by repeated squaring."""
    if not degree.is_integer() or degree < 1:
        return graph("Pow", base, degree)
    result, left = None, int(degree)
    while left:
        if left & 1:
            result = base if result is None else graph("Mul", result, base)
        left >>= 1
        if left:
            base = graph("Mul", base, base)
    assert result is not None
    return result


def _of_differences(graph: Graph, kernel: FittedKernel, x: str, rows: Array) -> str:
    """Compute a kernel that is a function of a sum over the features, row by row.

    One row at a time needs memory for its differences from the stored rows only. These are columns,
    so that each feature is one operation on a number and a contiguous vector.
    """
    stored, as_column = graph.constant(rows.T), np.array([-1, 1])
    terms_of = _absolute if kernel.kernel == "laplacian" else _chi_squared

    def sum_of(inner: Graph, row: str) -> str:
        terms = terms_of(inner, stored, inner("Reshape", row, as_column))
        return inner.reduce("ReduceSum", terms, axis=0, keepdims=False)

    sums = graph.for_each_row(x, rows.shape[1], sum_of, len(rows))
    if kernel.kernel == "additive_chi2":
        return graph("Neg", sums)
    return graph("Exp", graph("Mul", sums, -_gamma(kernel)))


def _absolute(graph: Graph, rows: str, x: str) -> str:
    """Compute |x − y|."""
    return graph("Abs", graph("Sub", rows, x))


def _chi_squared(graph: Graph, rows: str, x: str) -> str:
    """Compute (x − y)² / (x + y), where 0 / 0 is 0."""
    differences, totals = graph("Sub", rows, x), graph("Add", rows, x)
    divisors = graph("Where", graph("Equal", totals, 0.0), 1.0, totals)
    return graph("Div", graph("Mul", differences, differences), divisors)


def _gamma(kernel: FittedKernel) -> float:
    assert kernel.gamma is not None
    return float(kernel.gamma)


KNOWN = ("additive_chi2", "chi2", "cosine", "laplacian", "linear", "poly", "polynomial", "rbf",
         "sigmoid")  # fmt: skip


def _require_named(kernel: FittedKernel) -> None:
    if not isinstance(kernel.kernel, str):
        raise NotImplementedError(
            f"The {kernel.description} is a Python function, which ONNX cannot contain. Fit with "
            "the name of a kernel, or with kernel='precomputed': the input of the ONNX model is "
            "then the matrix of your kernel between new rows and training rows."
        )
    if kernel.kernel not in KNOWN:
        raise NotImplementedError(
            f"The {kernel.description} has no conversion to ONNX. Fit with one of "
            f"{', '.join(map(repr, KNOWN))}."
        )
