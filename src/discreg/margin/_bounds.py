"""Bounds of the leave-one-out error from one solution: Theorems 2 and 3 of the paper.

They hold without an intercept, and bound what changes when a sample leaves while 1/m stays fixed
(Theorem 3) or when its multiplier is held at zero (Theorem 2, whose H still contains the sample).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._terms import Terms

__all__ = ["ldm_bound", "odm_bound"]

Array = NDArray[np.float64]
ROUNDING = 1e-9  # by which a multiplier at its limit may be below it


def odm_bound(multipliers: Array, diagonal: Array, weights: Array, terms: Terms) -> float:
    """Theorem 3: (1/m) Σ max(0, |a| (k(x, x) + m/2C) ± D), each copy of a sample counted.

    A copy of a sample that weighs s has the multiplier a/s, and s times the U of the sample.
    """
    a = multipliers / weights
    D = terms.high - 1.0
    pulled = a * (diagonal + terms.ridge_low * weights) + D
    pushed = -a * (diagonal + terms.ridge_high * weights) - D
    terms_of_bound = np.where(a > 0, pulled, np.where(a < 0, pushed, 0.0))
    return float(weights @ np.maximum(terms_of_bound, 0.0)) / float(weights.sum())


def ldm_bound(multipliers: Array, diagonal: Array, weights: Array, upper: Array) -> float:
    """Theorem 2: (1/m) (Σ α h over 0 < α < C/m, plus the number of samples with α = C/m)."""
    at_limit = multipliers >= (1.0 - ROUNDING) * upper
    inside = (multipliers > 0) & ~at_limit
    total = float(multipliers[inside] @ diagonal[inside]) + float(weights[at_limit].sum())
    return total / float(weights.sum())
