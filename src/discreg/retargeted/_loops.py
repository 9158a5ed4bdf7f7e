"""Compiled loops over rows: exact retargeting, its derivative, and dual coordinate descent."""

from __future__ import annotations

import numpy as np

from discreg.linalg.compiled import REORDER, compiled
from discreg.linalg.types import Indices, RealArray

PASSES = 10  # of coordinate descent over the rows of a block
ACCURACY = 0.1  # largest step of the last pass, relative to the first one


@compiled(fastmath=REORDER)
def _target_of_true(
    row: RealArray, true: int, base: float, base_weight: float
) -> tuple[float, float]:
    """Return the mean of a base and of those values r_j + 1 of false classes that exceed the mean.

    The second result is the number of these values. Newton's method solves this equation from the
    mean without false classes; the iterates increase. Two or three steps are usual.
    """
    mean, taken = base / base_weight, 0.0
    while True:
        total = base
        weight = base_weight
        for j in range(len(row)):
            value = row[j] + 1.0
            pulls = 1.0 if value > mean and j != true else 0.0
            total += pulls * value
            weight += pulls
        taken = weight - base_weight
        if not total / weight > mean:
            return mean, taken
        mean = total / weight


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
    of the false classes that exceed t_k. Their number is written to `taken`.
    """
    for i in range(len(scores)):
        base = scores[i, y[i]] + group_penalty * (1.0 + centres[y[i]])
        tops[i], taken[i] = _target_of_true(scores[i], y[i], base, 1.0 + group_penalty)


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


@compiled(fastmath=REORDER)
def _subtract(factor: float, row: RealArray, scores: RealArray) -> None:
    for i in range(len(row)):  # contiguous arrays, so that the loop is vectorised
        scores[i] -= factor * row[i]


@compiled(fastmath=REORDER)
def _descend(
    matrix: RealArray,
    scales: RealArray,
    y: Indices,
    dragged: bool,
    group_penalty: float,
    group_pulls: RealArray,
    scores: RealArray,
    residuals: RealArray,
    centres: RealArray,
) -> None:
    """Minimise the dual over the residuals of one row after the other, in place.

    With κ = matrix_ii · scale_i and the scores f = r + κ g without the share of the row's residuals
    g, the best residuals are g = (f − t) / (1 + κ), where t are the best targets for f and a group
    penalty of (1 + κ) γ. The centre of the row's class moves with the sum of its residuals.
    """
    n_rows, n_classes = residuals.shape
    free, steps = np.empty(n_classes), np.empty(n_classes)
    first = 0.0
    for _ in range(PASSES):
        largest = 0.0
        for i in range(n_rows):
            true = y[i]
            kappa = matrix[i, i] * scales[i]
            total = 0.0
            for j in range(n_classes):
                free[j] = scores[j, i] + kappa * residuals[i, j]
                total += residuals[i, j]
            top, limit = max(free[true], 1.0), 0.0
            if not dragged:
                centre = centres[true] - group_pulls[i] * total
                penalty = group_penalty / (1.0 + group_penalty * group_pulls[i]) * (1.0 + kappa)
                base = free[true] + penalty * (1.0 + centre)
                top, _ = _target_of_true(free, true, base, 1.0 + penalty)
                limit = top - 1.0
            step = 0.0
            moved = 0.0
            for j in range(n_classes):
                target = top if j == true else min(free[j], limit)
                steps[j] = (free[j] - target) / (1.0 + kappa) - residuals[i, j]
                step = max(step, abs(steps[j]))
                moved += steps[j]
            if step == 0.0:
                continue
            largest = max(largest, step * (1.0 + kappa))
            centres[true] += group_pulls[i] * moved
            for j in range(n_classes):
                if steps[j] != 0.0:
                    residuals[i, j] += steps[j]
                    _subtract(steps[j] * scales[i], matrix[i], scores[j])
        first = max(first, largest)
        if largest <= ACCURACY * first:
            break


@compiled(fastmath=REORDER)
def visit_block(
    kernel: RealArray,
    samples: Indices,
    pull: float,
    scales: RealArray,
    y: Indices,
    dragged: bool,
    group_penalty: float,
    group_pulls: RealArray,
    residuals: RealArray,
    products: RealArray,
    offset: RealArray,
    centres: RealArray,
) -> None:
    """Minimise the dual over the residuals of some samples, then update all products, in place.

    The products have one row per class, so that only those of classes that change are updated.
    """
    n_samples, n_classes = len(samples), len(products)
    matrix = np.empty((n_samples, n_samples))
    scores = np.empty((n_classes, n_samples))
    for i in range(n_samples):
        for other in range(n_samples):
            matrix[i, other] = kernel[samples[i], samples[other]] + pull
        for j in range(n_classes):
            scores[j, i] = products[j, samples[i]] + offset[j]
    changed = residuals[samples]
    _descend(
        matrix,
        scales[samples],
        y[samples],
        dragged,
        group_penalty,
        group_pulls[samples],
        scores,
        changed,
        centres,
    )
    for i, sample in enumerate(samples):
        for j in range(n_classes):
            step = (changed[i, j] - residuals[sample, j]) * scales[sample]
            if step != 0.0:
                residuals[sample, j] = changed[i, j]
                _subtract(step, kernel[sample], products[j])
                offset[j] -= pull * step
