"""Compiled loops of the group lasso: coordinate descent over the rows of the coefficients.

The loops use scalars only and do not call NumPy, so that they compile in a fraction of a second.
"""

from __future__ import annotations

from math import sqrt

from discreg.linalg.compiled import REORDER, compiled
from discreg.linalg.types import RealArray

__all__ = ["descend", "descend_on_features"]


@compiled(fastmath=REORDER)
def _threshold_row(
    coef: RealArray, j: int, change: RealArray, threshold: float, scale: float
) -> bool:
    """Set row j to (1 − t/‖z‖)₊ z / g for z in `change`, and write there by how much it changes.

    Returns whether the row changes.
    """
    square = 0.0
    for k in range(len(change)):
        square += change[k] * change[k]
    norm = sqrt(square)
    shrink = (1.0 - threshold / norm) / scale if norm > threshold else 0.0
    moves = False
    for k in range(len(change)):
        new = shrink * change[k]
        change[k] = new - coef[j, k]
        coef[j, k] = new
        moves |= change[k] != 0.0
    return moves


@compiled(fastmath=REORDER)
def descend(
    gram: RealArray,
    correlations: RealArray,
    coef: RealArray,
    threshold: float,
    n_passes: int,
    change: RealArray,
) -> None:
    """Minimise ½⟨A, GA⟩ − ⟨A, C⟩ + t Σ‖a_j‖ over one row of A after another, in place.

    `correlations` contains C − GA and is updated; `change` is a buffer for one row. Each row is
    soft-thresholded: with z = (C − GA)_j + g_jj a_j it becomes (1 − t/‖z‖)₊ z / g_jj.
    """
    n_rows, n_columns = coef.shape
    for _ in range(n_passes):
        for j in range(n_rows):
            scale = gram[j, j]
            if scale <= 0.0:
                continue
            for k in range(n_columns):
                change[k] = correlations[j, k] + scale * coef[j, k]
            if _threshold_row(coef, j, change, threshold, scale):
                for i in range(n_rows):
                    for k in range(n_columns):
                        correlations[i, k] -= gram[j, i] * change[k]


@compiled(fastmath=REORDER)
def descend_on_features(
    features: RealArray,
    squares: RealArray,
    moments: RealArray,
    fitted: RealArray,
    coef: RealArray,
    threshold: float,
    n_passes: int,
    change: RealArray,
) -> None:
    """Minimise the objective of `descend` for G = FFᵀ, with the features F in rows, in place.

    `fitted` contains FᵀA and is updated.
    """
    n_rows, n_columns = coef.shape
    n_samples = features.shape[1]
    for _ in range(n_passes):
        for j in range(n_rows):
            scale = squares[j]
            if scale <= 0.0:
                continue
            for k in range(n_columns):
                change[k] = moments[j, k] + scale * coef[j, k]
            for i in range(n_samples):
                for k in range(n_columns):
                    change[k] -= features[j, i] * fitted[i, k]
            if _threshold_row(coef, j, change, threshold, scale):
                for i in range(n_samples):
                    for k in range(n_columns):
                        fitted[i, k] += features[j, i] * change[k]
