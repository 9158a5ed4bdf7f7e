"""Compiled loop of dual coordinate descent over the rows of a block."""

from __future__ import annotations

import numpy as np

from discreg.linalg.compiled import REORDER, compiled
from discreg.linalg.types import Indices, RealArray

__all__ = ["visit_block"]

PASSES = 10  # over the rows of a block
ACCURACY = 0.1  # largest step of the last pass, relative to the first one


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
                top = base / (1.0 + penalty)
                while True:
                    pulled, weight = base, 1.0 + penalty
                    for j in range(n_classes):
                        if free[j] + 1.0 > top and j != true:
                            pulled += free[j] + 1.0
                            weight += 1.0
                    if not pulled / weight > top:
                        break
                    top = pulled / weight
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
    rows: RealArray,
    places: Indices,
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

    The kernel between the samples and all samples is in the given places of `rows`. The products
    have one row per class, so that only those of classes that change are updated.
    """
    n_samples, n_classes = len(samples), len(products)
    matrix = np.empty((n_samples, n_samples))
    scores = np.empty((n_classes, n_samples))
    for i in range(n_samples):
        for other in range(n_samples):
            matrix[i, other] = rows[places[i], samples[other]] + pull
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
                _subtract(step, rows[places[i]], products[j])
                offset[j] -= pull * step
