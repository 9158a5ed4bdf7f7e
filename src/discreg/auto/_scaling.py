"""Scalings of features: standard scores, ranks, normal scores, or division by the largest value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtri

from discreg.linalg.types import Array

MOST_KNOTS = 1_000  # of the distribution function of a feature
LARGEST = 1e150  # absolute value of which sums of squares do not overflow
CONSTANT = 1e-12  # relative standard deviation of a feature that does not vary


@dataclass(frozen=True)
class Shift:
    """Subtract a number from each feature, unless the rows are sparse, and divide by another."""

    mean: Array
    scale: Array

    def __call__(self, X: Any) -> Any:
        """Scale rows."""
        if sparse.issparse(X):
            return sparse.csr_array(X.multiply(1 / self.scale))
        return (np.asarray(X, dtype=np.float64) - self.mean) / self.scale


@dataclass(frozen=True)
class Ranks:
    """Map each feature by a function that is linear between values and constant outside.

    For ranks, a value is mapped to the share of the training samples that are smaller, plus half
    the share of those that are equal; for normal scores, to the normal quantile of this share. The
    function is stored at up to 1,000 values of each feature.
    """

    values: list[Array]
    ranks: list[Array]

    def __call__(self, X: Any) -> Array:
        """Scale rows."""
        ranks = np.empty(X.shape, order="F")
        for j, (values, of_values) in enumerate(zip(self.values, self.ranks, strict=True)):
            ranks[:, j] = np.interp(X[:, j], values, of_values)
        return np.ascontiguousarray(ranks)


Scaling = Shift | Ranks


def fitted_scalings(X: Any, weights: Array, indicators: NDArray[np.bool_]) -> dict[str, Scaling]:
    """Fit the scalings by name.

    The features that are `indicators` keep their scale in standard scores: otherwise those of rare
    categories would dominate the distances.
    """
    none: dict[str, Scaling] = {"none": Shift(np.zeros(1), np.ones(1))}
    if sparse.issparse(X):
        largest = np.asarray(abs(X).max(axis=0).todense()).ravel()
        return none | {"largest": Shift(np.zeros(1), np.where(largest > 0, largest, 1.0))}
    most = float(np.abs(X).max())
    if most > LARGEST:
        raise ValueError(
            f"X has values up to {most:.3g}, whose squares overflow. Divide the features by "
            "their largest values, for example with sklearn.preprocessing.MaxAbsScaler."
        )
    mean = weights @ X / weights.sum()
    scale = np.sqrt(weights @ (X - mean) ** 2 / weights.sum())
    scale[indicators | (scale <= CONSTANT * np.abs(mean))] = 1.0
    functions = [_distribution(column, weights) for column in X.T]
    values, ranks = [values for values, _ in functions], [ranks for _, ranks in functions]
    return none | {
        "standard": Shift(mean, scale),
        "ranks": Ranks(values, ranks),
        "normal": Ranks(values, [ndtri(each) for each in ranks]),
    }


def _distribution(column: Array, weights: Array) -> tuple[Array, Array]:
    """Compute the middle ranks of the distinct values, thinned out if there are many."""
    values, places = np.unique(column, return_inverse=True)
    shares = np.bincount(places, weights) / weights.sum()
    ranks = np.cumsum(shares) - shares / 2
    if len(values) > MOST_KNOTS:
        some = np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], MOST_KNOTS))
        some = np.unique(some)
        values, ranks = values[some], ranks[some]
    return values.astype(np.float64), ranks
