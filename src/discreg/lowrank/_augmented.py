"""Leave-one-out scores of LRRR with a kernel together with new samples.

A new sample of weight w changes the matrix M of `_leave_one_out` as a sample that loses the weight
−w does. The other quantities are those of `discreg.base.full_sets`, for the targets of the fitted
model, which are rescaled for the new sizes of the classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from discreg.base.full_sets import Augmented, BorderedRegression
from discreg.linalg.rows import class_sums
from discreg.linalg.types import Array

from ._indicators import Indicators
from ._leave_one_out import ROUNDING, LeftOutUnits

__all__ = ["augmented_at_rank"]


def augmented_at_rank(estimator: Any, X: Any) -> tuple[Array, Augmented]:
    """Compute the scores of new samples, and those of the training samples with each of them."""
    labels, centre, n_classes = estimator._labels, estimator.fit_intercept, len(estimator.classes_)
    copies = labels.weights / labels.factors[labels.y]
    units = labels.units / labels.factors[labels.y]
    sizes = class_sums(labels.y, copies, n_classes)
    given = Indicators(sizes, sizes * labels.factors, centre)
    rank = estimator.rank_
    full = BorderedRegression(
        estimator._kernel, estimator.X_fit_, labels, centre=centre, entries=given.entries
    )
    explained = full.moments.T @ full.coef
    _, vectors = np.linalg.eigh((explained + explained.T) / 2)
    chosen = vectors[:, ::-1][:, :rank]
    cross, squares, scores = full.bordered(X)
    own = ((scores - full.mean) @ chosen @ chosen.T + given.shift) * given.scale
    is_full = rank == n_classes - int(centre)

    def with_new(x: int, k: int) -> Array:
        """Compute the leave-one-out scores of the training samples and one new one of class k."""
        weight = labels.factors[[k]]
        added = LeftOutUnits(given, np.array([k]), -weight, -np.ones(1)).without(
            slice(None), scores[[x]] - full.mean, squares[[x], None] - centre / full.total
        )
        larger = sizes + (np.arange(n_classes) == k)
        after = Indicators(larger, larger * labels.factors, centre)
        gain = weight * cross[x] / (1 + weight * squares[x])
        change = np.outer(gain, added.away[0] + full.mean - scores[x])
        fitted = (full.scores + change) * added.rescale[0] - after.mean
        leverages = full.leverages - gain * cross[x] - centre / (full.total + weight)
        matrix = None if is_full else added.matrices(explained)[0]
        left_out = LeftOutUnits(after, labels.y, labels.units, units)
        remaining = larger[labels.y] - units
        rows = np.flatnonzero((units > 0) & (remaining > ROUNDING * larger[labels.y]))
        found = np.full((len(labels.y), n_classes), np.nan)
        those = rows, fitted[rows], leverages[rows, None], matrix, [rank]
        found[rows] = left_out.scores(*those)[0]
        return found

    def augmented(rows: slice) -> Iterator[tuple[int, Array]]:
        for k in range(n_classes):
            yield k, np.stack([with_new(x, k) for x in range(*rows.indices(len(own)))])

    return own, augmented
