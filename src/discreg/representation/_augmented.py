"""Leave-one-out scores of DRM together with new samples.

With a new sample x of weight w in class i, n_i increases by w, which changes the block of the class
in the matrix M of `_leave_one_out`; the inverse of the changed M serves all new samples. The row
and column of x are added by the inverse of a bordered matrix: with m = (M_x; M_xx), p = N M_x and
s = M_xx − M_xᵀp,

    N' = (N + ppᵀ/s, −p/s; −pᵀ/s, 1/s).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from discreg.base.full_sets import Augmented, TrainingLabels
from discreg.linalg.types import Array

from ._closed import system_matrix
from ._leave_one_out import positive_inverse, residuals_without
from ._problem import Groups, TrainingSamples

__all__ = ["augmented_scores"]


def augmented_scores(
    training: TrainingSamples, labels: TrainingLabels, alpha: float, X: Any
) -> Augmented:
    """Return the scores of the training samples with each of some new samples."""
    kernel, groups = training.matrix(copies=9), training.groups
    points = training.points(X)
    cross, norms = training.cross(points), training.kernel.diagonal(points)

    def augmented(rows: slice) -> Iterator[tuple[int, Array]]:
        for k in range(groups.n_classes):
            yield k, _with_class(kernel, groups, labels, alpha, k, cross[rows], norms[rows])

    return augmented


def _with_class(
    kernel: Array,
    groups: Groups,
    labels: TrainingLabels,
    alpha: float,
    k: int,
    cross: Array,
    norms: Array,
) -> Array:
    """Compute the scores of the training samples with each of some new samples of class k."""
    n_samples, last, weight = len(groups.y), groups.n_classes - 1, labels.factors[k]
    order = np.argsort(groups.y == k, kind="stable")  # class k comes last
    places = np.argsort(np.arange(groups.n_classes) == k, kind="stable").argsort()
    y, weights = places[groups.y][order], groups.weights[order]
    K = kernel[np.ix_(order, order)]
    larger = Groups(
        np.arange(n_samples + 1), np.append(y, last), np.append(weights, weight), last + 1
    )
    shrinkage = np.append((alpha * K.diagonal() + labels.beta) / weights, 0.0)
    own = slice(larger.slices[last].start, n_samples)
    part = 1 - alpha / larger.totals[last]
    M = system_matrix(
        K.copy(), Groups(order, y, weights, last + 1), alpha, labels.beta, larger.totals
    )
    N = positive_inverse(M)
    blocks = [K[rows, rows] for rows in larger.slices[:-1]]
    inverse, block = np.empty((n_samples + 1,) * 2), np.empty((n_samples - own.start + 1,) * 2)
    scores = np.empty((len(cross), n_samples, last + 1))
    for x, (row, norm) in enumerate(zip(cross[:, order], norms, strict=True)):
        shrinkage[-1] = (alpha * norm + labels.beta) / weight
        column = row.copy()
        column[own] *= part
        p = N @ column
        left = part * norm + shrinkage[-1] - column @ p
        inverse[:-1, :-1] = N + np.outer(p, p / left)
        inverse[-1, :-1] = inverse[:-1, -1] = -p / left
        inverse[-1, -1] = 1 / left
        block[:-1, :-1] = K[own, own]
        block[-1, :-1] = block[:-1, -1] = row[own]
        block[-1, -1] = norm
        found = residuals_without(
            inverse,
            [*blocks, block],
            np.vstack([K, row]),
            larger,
            shrinkage,
            alpha,
            np.arange(n_samples),
            labels.units[order],
        )
        scores[x, order] = -found[:, places]
    return scores
