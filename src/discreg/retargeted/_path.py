"""Many penalties on the same data: what does not depend on them is done once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from numpy.typing import ArrayLike

from discreg.base.params import check_params

from ._base import RetargetedClassifier
from ._problem import Start

__all__ = ["fit_path"]


def fit_path(
    estimator: RetargetedClassifier,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    grid: Iterable[dict[str, float]],
) -> Iterator[RetargetedClassifier]:
    """Fit an estimator for each setting of its penalties, each from the solution before it.

    Parameters
    ----------
    estimator : RetargetedClassifier
        The same object is yielded each time, refitted.
    X, y, sample_weight
        Training data as for `fit`.
    grid : iterable of dict
        Values of `beta` and, for GReLSR, `group_penalty`.
    """
    prepared = estimator._prepare(X, y, sample_weight)
    start = None
    for params in grid:
        check_params(estimator.set_params(**params), estimator._constraints)
        solution = estimator._fit_prepared(prepared, start, to_rounding=False)
        start = Start(solution.coef, solution.offset)
        yield estimator
