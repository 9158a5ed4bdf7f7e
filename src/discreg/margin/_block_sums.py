"""Sums over blocks of rows for linear ODM, for all two-class problems in one pass.

Margins, gradients and losses are computed in double precision. The products of rows for the Hessian
have the precision of the rows, or double precision if a problem needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import gen_batches

from discreg.blocks.source import Block
from discreg.linalg.resources import (
    run_in_threads,
)
from discreg.linalg.types import Array

from ._losses import Numbers

__all__ = ["BlockSums", "Line", "PrimalPoint", "Spread", "block_sums"]

SMALL_BLOCK = 1 << 19  # bytes of the rows of a small block, in double precision
FEWEST_ROWS = 64
PARTS = 4  # maximum number of parts of a block, for different threads
PART_BYTES = 64 << 20  # memory for the Hessians of all parts


class PrimalPoint(NamedTuple):
    """Point at which to compute all sums; `shift` is the score at the origin of the rows."""

    positive: int
    coef: Array
    shift: float
    precise: bool = False


class Line(NamedTuple):
    """Line from a point, with the lengths at which to compute slopes."""

    point: PrimalPoint
    step: Array
    step_of_shift: float
    lengths: Array


@dataclass(frozen=True)
class Spread:
    """Weight, mean, scatter and minimum of the margins of each problem, one column each."""

    columns: Array

    def __add__(self, other: Spread) -> Spread:
        weight, mean, scatter, minimum = self.columns
        its_weight, its_mean, its_scatter, its_minimum = other.columns
        both = weight + its_weight
        share = np.divide(its_weight, both, out=np.zeros_like(both), where=both > 0)
        apart = its_mean - mean
        return Spread(
            np.stack(
                [
                    both,
                    mean + share * apart,
                    scatter + its_scatter + weight * share * apart**2,
                    np.minimum(minimum, its_minimum),
                ]
            )
        )


@dataclass
class BlockSums:
    """Sums over rows, for each point and each line.

    Attributes
    ----------
    sizes, values : ndarray of shape (n_points, 2)
        Σ |a| and Σ ℓ over the rows with y a > 0 and over those with y a < 0.
    products : ndarray of shape (n_points, 3, n_features)
        Σ y a x over either side, and Σ ℓ'' x.
    curvature : ndarray of shape (n_points,)
        Σ ℓ''.
    grams : ndarray of shape (n_points, n_features, n_features)
        Σ ℓ'' x xᵀ.
    spread : Spread
        Statistics of the margins.
    slopes : ndarray of shape (n_lines, n_lengths)
        Derivatives of the losses along the lines.
    """

    sizes: Array
    values: Array
    products: Array
    curvature: Array
    grams: Array
    spread: Spread
    slopes: Array

    @classmethod
    def zero(cls, n_points: int, n_features: int, lines: tuple[Line, ...]) -> BlockSums:
        spread = np.zeros((4, n_points))
        spread[3] = np.inf
        return cls(
            np.zeros((n_points, 2)),
            np.zeros((n_points, 2)),
            np.zeros((n_points, 3, n_features)),
            np.zeros(n_points),
            np.zeros((n_points, n_features, n_features)),
            Spread(spread),
            np.zeros((len(lines), len(lines[0].lengths) if lines else 0)),
        )

    def __add__(self, other: BlockSums) -> BlockSums:
        return BlockSums(*(mine + its for mine, its in zip(self._all(), other._all(), strict=True)))

    def _all(self) -> tuple[Any, ...]:
        return tuple(vars(self).values())


def block_sums(
    block: Block,
    origin: Array,
    loss: Numbers,
    points: tuple[PrimalPoint, ...],
    lines: tuple[Line, ...],
) -> BlockSums:
    """Compute the sums of one block of rows x − origin; the origin is 0 for sparse blocks."""
    X, y, weights = block[:3]
    n_rows, n_features = X.shape
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    n_parts = min(max(PART_BYTES // (8 * n_features**2 * max(len(points), 1)), 1), PARTS)
    parts = list(gen_batches(n_rows, max(-(-n_rows // n_parts), FEWEST_ROWS)))
    found = [BlockSums.zero(len(points), n_features, lines) for _ in parts]

    def add_up(number: int) -> None:
        rows = parts[number]
        part = Block(X[rows], y[rows], weights[rows])
        if sparse.issparse(X):
            _add_rows(found[number], part, loss, points, lines, {})
        else:
            _add_part(found[number], part, origin, loss, points, lines)

    run_in_threads(add_up, range(len(parts)))
    return reduce(add, found)


def _add_part(
    total: BlockSums,
    part: Block,
    origin: Array,
    loss: Numbers,
    points: tuple[PrimalPoint, ...],
    lines: tuple[Line, ...],
) -> None:
    """Add the sums of dense rows, in small blocks."""
    n_rows, n_features = part.X.shape
    step = min(max(FEWEST_ROWS, SMALL_BLOCK // (8 * n_features), 2 * n_features), n_rows)
    centred = np.empty((step, n_features))
    scaled = {
        precise: np.empty((step, n_features), dtype=np.float64 if precise else part.X.dtype)
        for precise in {point.precise for point in points}
    }
    for rows in gen_batches(n_rows, step):
        some = centred[: rows.stop - rows.start]
        np.subtract(part.X[rows], origin, out=some)
        block = Block(some, part.y[rows], part.weights[rows])
        _add_rows(total, block, loss, points, lines, scaled)


def _add_rows(
    total: BlockSums,
    block: Block,
    loss: Numbers,
    points: tuple[PrimalPoint, ...],
    lines: tuple[Line, ...],
    scaled: dict[bool, NDArray[Any]],
) -> None:
    """Add the sums of a small block of rows; `scaled` holds buffers for dense rows."""
    from ._newton_loops import evaluate_block, slopes_along

    X, y, weights = block[:3]
    if points:
        scores = _scores(X, [(point.coef, point.shift) for point in points])
        signed = np.empty((len(points), 3, len(y)))
        for k, point in enumerate(points):
            evaluate_block(
                scores[k],
                y,
                point.positive,
                weights,
                loss,
                signed[k],
                total.sizes[k],
                total.values[k],
                total.spread.columns[:, k],
            )
            total.grams[k] += _gram(X, signed[k, 2], scaled.get(point.precise))
        total.curvature += signed[:, 2].sum(axis=1)
        total.products += (signed.reshape(-1, len(y)) @ X).reshape(total.products.shape)
    for line, slopes in zip(lines, total.slopes, strict=True):
        point = line.point
        here, moves = _scores(X, [(point.coef, point.shift), (line.step, line.step_of_shift)])
        slopes_along(here, moves, y, point.positive, weights, loss, line.lengths, slopes)


def _scores(X: Any, models: list[tuple[Array, float]]) -> Array:
    """Compute the scores of all rows, with one row per model."""
    coefs, shifts = zip(*models, strict=True)
    return np.ascontiguousarray((X @ np.array(coefs).T + np.array(shifts)).T)


def _gram(X: Any, curvature: Array, scaled: NDArray[Any] | None) -> NDArray[Any]:
    """Compute Σ curvature · x xᵀ over the rows with positive curvature."""
    from ._newton_loops import add_outer_products, scale_rows

    if scaled is None:
        half = np.zeros((X.shape[1], X.shape[1]))
        active = np.flatnonzero(curvature)
        add_outer_products(half, X.data, X.indices, X.indptr, active, curvature[active])
        return np.asarray(half + half.T - np.diag(half.diagonal()))
    some = scaled[: scale_rows(X, curvature, scaled)]
    return np.asarray(some.T @ some)
