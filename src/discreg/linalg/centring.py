"""Kernel matrices centred at the weighted mean of their feature maps."""

from __future__ import annotations

import numpy as np

from .rows import CONSTANT
from .types import Array

__all__ = ["centre_kernel", "largest_before_centring", "uncentred"]


def centre_kernel(kernel: Array, weights: Array) -> Array:
    """Centre the feature map of a kernel at its weighted mean, in place; return the mean row."""
    shares = weights / weights.sum()
    size = _largest(kernel)
    mean = kernel @ shares
    kernel -= mean
    kernel -= mean[:, None]
    kernel += shares @ mean
    if _largest(kernel) <= CONSTANT * size:
        kernel[...] = 0.0
    return np.asarray(mean)


def _largest(matrix: Array) -> float:
    """Compute the largest absolute value without a copy of the matrix."""
    return float(max(matrix.max(), -matrix.min()))


def largest_before_centring(diagonal: Array, mean: Array | None, weights: Array) -> float:
    """Compute the largest entry of a kernel matrix, whose rounding errors the centred one has."""
    if mean is not None:
        diagonal = diagonal + 2.0 * mean - float(weights @ mean) / weights.sum()
    return float(np.abs(diagonal).max(initial=0.0))


def uncentred(product: Array, coef: Array, mean: Array | None, weights: Array) -> Array:
    """Compute the product of a kernel matrix and coefficients from that of the centred matrix.

    With the mean row m and the shares s of the weights, K is the centred matrix plus
    1m' + m1' − (s'm) 11'.
    """
    if mean is None:
        return product
    middle = float(weights @ mean / weights.sum())
    return np.asarray(product + np.outer(mean - middle, coef.sum(axis=0)) + mean @ coef)
