"""Approximated kernels on rows in blocks: the components, and blocks of mapped rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernel_approximation import (
    CHECKED,
    FEWEST_ROWS,
    Draw,
    FeatureMap,
    draw_rows,
    map_of_draw,
    mapped_rows,
    random_seed,
)
from discreg.linalg.kernels import gamma_from_variance, spread_of_entries

from .moments import require_finite
from .source import AddableTuple, ArrayBlocks, Block, BlockSource, Counts, Statistic

FEATURE_BYTES = 32 << 20  # memory for the features of a batch of rows


class MappedBlocks(BlockSource):
    """Rows of another source, mapped to features.

    Each block is mapped in batches, so that memory does not depend on the number of components.

    Parameters
    ----------
    source : BlockSource
    features : FeatureMap
    """

    def __init__(self, source: BlockSource, features: FeatureMap) -> None:
        super().__init__(features.n_components, np.float64, source.class_weight)
        self._source, self._features = source, features

    @property
    def counts(self) -> Counts:
        return self._source.counts

    def reduce(self, statistic: Statistic, *args: Any) -> Any:
        return self._source.reduce(_on_mapped, self._features, statistic, args)

    def in_memory(self) -> ArrayBlocks:
        """Return the mapped rows as an array in memory."""
        X, y, weights = map(np.concatenate, self.reduce(_gathered))
        labels, weights = self.layout.classes[y], weights / self.layout.factors[y]
        return ArrayBlocks(X, labels, weights, self.class_weight)


def _gathered(block: Block) -> AddableTuple:
    return AddableTuple([[block.X], [block.y], [block.weights]])


def _on_mapped(block: Block, features: FeatureMap, statistic: Statistic, args: Any) -> Any:
    """Sum a statistic over batches of mapped rows of a block."""
    size = max(FEWEST_ROWS, FEATURE_BYTES // (8 * features.n_components))
    parts = (
        statistic(
            map_block(
                Block(block.X[k], block.y[k], block.weights[k], block.first + k.start), features
            ),
            *args,
        )
        for k in gen_batches(len(block.y), size)
    )
    return reduce(add, parts)


def map_block(block: Block, features: FeatureMap) -> Block:
    """Map the rows of a block."""
    require_finite(block.X)
    return block._replace(X=mapped_rows(features, block.X))


def kernel_of_blocks(estimator: Any, source: BlockSource) -> FittedKernel:
    """Create the kernel of an estimator; gamma="scale" needs a pass over the rows."""
    gamma: float | None = None
    if isinstance(estimator.kernel, str) and estimator.kernel != "linear":
        gamma = gamma_from_variance(
            estimator.gamma, source.layout.n_features, lambda: source.reduce(_spread).variance
        )
    return FittedKernel(
        estimator.kernel, gamma, estimator.degree, estimator.coef0, estimator.kernel_params
    )


def map_of_blocks(
    name: str,
    kernel: FittedKernel,
    source: BlockSource,
    n_components: int,
    random: np.random.RandomState,
) -> FeatureMap:
    """Create a feature map for rows in blocks by one pass."""
    drawn: Draw = source.reduce(_draw_from_block, n_components + CHECKED, random_seed(random))
    return map_of_draw(name, kernel, drawn, n_components, random)


def _draw_from_block(block: Block, size: int, seed: int) -> Draw:
    require_finite(block.X)
    return draw_rows(block.X[block.weights > 0], size, seed)


@dataclass(frozen=True)
class EntrySpread:
    """Total weight, mean and squared deviations of the entries of some rows."""

    total: float
    mean: float
    squares: float

    def __add__(self, other: EntrySpread) -> EntrySpread:
        if other.total == 0 or self.total == 0:
            return self if other.total == 0 else other
        total, apart = self.total + other.total, other.mean - self.mean
        share = other.total / total
        squares = self.squares + other.squares + self.total * share * apart * apart
        return EntrySpread(total, self.mean + share * apart, squares)

    @property
    def variance(self) -> float:
        """Weighted variance of the entries."""
        return self.squares / self.total


def _spread(block: Block) -> EntrySpread:
    require_finite(block.X)
    if not np.any(block.weights):
        return EntrySpread(0.0, 0.0, 0.0)
    return EntrySpread(*spread_of_entries(block.X, block.weights))
