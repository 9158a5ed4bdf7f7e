"""Compiled loop of the group lasso: coordinate descent over the rows of the coefficients."""

from __future__ import annotations

import numpy as np

from discreg.linalg.compiled import REORDER, compiled

__all__ = ["descend", "descend_on_features"]


@compiled(fastmath=REORDER)
def _threshold_row(coef, change, j, threshold, scale):
    """Soft-threshold z, given as `change`, to the new row j; leaves there what has changed."""
    square = 0.0
    for k in range(len(change)):
        square += change[k] * change[k]
    norm = np.sqrt(square)
    shrink = (1.0 - threshold / norm) / scale if norm > threshold else 0.0
    moved = 0.0
    for k in range(len(change)):
        new = shrink * change[k]
        change[k] = new - coef[j, k]
        coef[j, k] = new
        moved = max(moved, abs(change[k]))
    return moved


@compiled(fastmath=REORDER)
def descend(gram, correlations, coef, threshold, n_passes):
    """Minimise ½⟨A, GA⟩ − ⟨A, C⟩ + t Σ‖a_j‖ over one row of A after another, in place.

    `correlations` holds C − GA and is kept up. A row is soft-thresholded: with
    z = (C − GA)_j + g_jj a_j it becomes (1 − t/‖z‖)₊ z / g_jj.
    """
    n_rows, n_columns = coef.shape
    change = np.empty(n_columns)
    for _ in range(n_passes):
        for j in range(n_rows):
            scale = gram[j, j]
            if scale <= 0.0:
                continue
            for k in range(n_columns):
                change[k] = correlations[j, k] + scale * coef[j, k]
            moved = _threshold_row(coef, change, j, threshold, scale)
            if moved > 0.0:
                for i in range(n_rows):
                    factor = gram[j, i]
                    for k in range(n_columns):
                        correlations[i, k] -= factor * change[k]


@compiled(fastmath=REORDER)
def descend_on_features(features, squares, moments, fitted, coef, threshold, n_passes):
    """The same for G = FFᵀ, the features F in rows; `fitted` holds FᵀA and is kept up."""
    n_rows, n_columns = coef.shape
    n_samples = features.shape[1]
    change = np.empty(n_columns)
    for _ in range(n_passes):
        for j in range(n_rows):
            scale = squares[j]
            if scale <= 0.0:
                continue
            for k in range(n_columns):
                change[k] = moments[j, k] + scale * coef[j, k]
            for i in range(n_samples):
                value = features[j, i]
                for k in range(n_columns):
                    change[k] -= value * fitted[i, k]
            moved = _threshold_row(coef, change, j, threshold, scale)
            if moved > 0.0:
                for i in range(n_samples):
                    value = features[j, i]
                    for k in range(n_columns):
                        fitted[i, k] += value * change[k]
