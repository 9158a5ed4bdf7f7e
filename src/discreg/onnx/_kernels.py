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
        case _:
            return _of_products(graph, kernel, graph.product(x, rows.T))


def kernel_diagonal(graph: Graph, kernel: FittedKernel, x: str) -> str:
    """Compute k(x, x) of new rows, as one column."""
    _require_named(kernel)
    squares = graph.reduce("ReduceSumSquare", x)
    if kernel.facts.diagonal is not None:
        return graph("Add", graph("Mul", squares, 0.0), kernel.facts.diagonal)
    if kernel.kernel == "cosine":
        return graph("Sign", squares)
    return _of_products(graph, kernel, squares)


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
    """Compute exp(−γ ‖x − y‖²) from inner products of centred rows."""
    gamma, origin = _gamma(kernel), np.median(rows, axis=0)
    rows = rows - origin  # far from the origin, rounding errors of the norms would be large
    x = graph("Sub", x, origin)
    of_rows = -gamma * np.einsum("ij,ij->i", rows, rows)
    exponents = graph.product(x, 2 * gamma * rows.T, of_rows)
    of_new = graph("Mul", graph.reduce("ReduceSumSquare", x), gamma)
    return graph("Exp", graph("Min", graph("Sub", exponents, of_new), 0.0))


def _of_products(graph: Graph, kernel: FittedKernel, products: str) -> str:
    """Compute a kernel from inner products."""
    if kernel.kernel == "linear":
        return products
    shifted = graph("Add", graph("Mul", products, _gamma(kernel)), float(kernel.coef0))
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

    One row at a time needs memory for its differences from the stored rows only.
    """
    stored = graph.constant(rows)
    sum_of = _absolute if kernel.kernel == "laplacian" else _chi_squared
    sums = graph.for_each_row(
        x, rows.shape[1], lambda inner, row: sum_of(inner, stored, row), len(rows)
    )
    if kernel.kernel == "additive_chi2":
        return graph("Neg", sums)
    return graph("Exp", graph("Mul", sums, -_gamma(kernel)))


def _absolute(graph: Graph, rows: str, x: str) -> str:
    """Compute Σ |x − y|."""
    return graph.reduce("ReduceSum", graph("Abs", graph("Sub", rows, x)), keepdims=False)


def _chi_squared(graph: Graph, rows: str, x: str) -> str:
    """Compute Σ (x − y)² / (x + y), where 0 / 0 is 0."""
    differences, totals = graph("Sub", rows, x), graph("Add", rows, x)
    divisors = graph("Where", graph("Equal", totals, 0.0), 1.0, totals)
    terms = graph("Div", graph("Mul", differences, differences), divisors)
    return graph.reduce("ReduceSum", terms, keepdims=False)


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
