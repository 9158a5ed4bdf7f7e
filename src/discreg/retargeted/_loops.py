"""Compiled loops over rows: the exact retargeting of ReLSR and GReLSR and its derivative.

The loops use scalars only and do not call NumPy, so that they compile in a fraction of a second.
"""

from __future__ import annotations

from discreg.linalg.compiled import REORDER, compiled
from discreg.linalg.types import Indices, RealArray

__all__ = ["active_sums", "margin_hessp", "true_targets"]


@compiled(fastmath=REORDER)
def true_targets(
    scores: RealArray,
    y: Indices,
    group_penalty: float,
    centres: RealArray,
    tops: RealArray,
    taken: RealArray,
) -> None:
    """Write t_k of each row's minimiser of ‖r − t‖² + γ (t_k − 1 − μ_k)² under t_k − t_j ≥ 1.

    t_k is the weighted mean of r_k (weight 1), 1 + μ_k (weight γ) and the values r_j + 1 (weight 1)
    of the false classes that exceed t_k. Their number is written to `taken`. Newton's method solves
    this equation from the mean without false classes; the iterates increase. Two or three steps
    are usual.
    """
    n_rows, n_classes = scores.shape
    base_weight = 1.0 + group_penalty
    for i in range(n_rows):
        true = y[i]
        base = scores[i, true] + group_penalty * (1.0 + centres[true])
        mean = base / base_weight
        while True:
            total = base
            weight = base_weight
            for j in range(n_classes):
                value = scores[i, j] + 1.0
                pulls = 1.0 if value > mean and j != true else 0.0
                total += pulls * value
                weight += pulls
            above = total / weight
            if not above > mean:
                break
            mean = above
        tops[i] = mean
        taken[i] = weight - base_weight


@compiled(fastmath=REORDER)
def active_sums(
    residuals: RealArray, direction: RealArray, y: Indices, sums: RealArray, sizes: RealArray
) -> None:
    """Write the sum of a direction over the active classes of each row, and their number."""
    n_rows, n_classes = residuals.shape
    for i in range(n_rows):
        total = 0.0
        size = 0.0
        for j in range(n_classes):
            active = 1.0 if residuals[i, j] > 0.0 or j == y[i] else 0.0
            total += active * direction[i, j]
            size += active
        sums[i] = total
        sizes[i] = size


@compiled(fastmath=REORDER)
def margin_hessp(
    residuals: RealArray,
    direction: RealArray,
    y: Indices,
    weights: RealArray,
    group_penalty: float,
    centre_steps: RealArray,
) -> None:
    """Overwrite a direction by the derivative of the weighted residuals R − T(R) along it."""
    n_rows, n_classes = residuals.shape
    for i in range(n_rows):
        true = y[i]
        own = direction[i, true]
        total = 0.0
        size = 0.0
        for j in range(n_classes):
            active = 1.0 if residuals[i, j] > 0.0 or j == true else 0.0
            total += active * direction[i, j]
            size += active
        step = (total + group_penalty * centre_steps[true]) / (size + group_penalty)
        for j in range(n_classes):
            weight = weights[i] if residuals[i, j] > 0.0 else 0.0
            direction[i, j] = weight * (direction[i, j] - step)
        direction[i, true] = weights[i] * (own - step)
