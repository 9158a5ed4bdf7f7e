"""DRM on rows that are not in memory: scatter matrices by reduction over blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreg.base.components import fit_map_to_blocks
from discreg.base.regression import mapped_kept
from discreg.blocks.kept_rows import KeptRows, kept_of_block
from discreg.blocks.mapped import MappedBlocks
from discreg.blocks.moments import class_scatters
from discreg.blocks.source import AddableTuple, Block, BlockSource
from discreg.linalg.kernel_approximation import FeatureMap
from discreg.linalg.resources import threads_for
from discreg.linalg.types import Array

from ._problem import LINEAR, Groups, TrainingSamples
from ._scatter import ScatterForm
from ._solvers import ScatterSolver, require_scatter_memory

__all__ = ["scatter_solver", "solve_blocks"]


def solve_blocks(
    estimator: Any,
    source: BlockSource,
    random: np.random.RandomState,
    n_components: int | None,
    *,
    out_of_core: bool,
) -> tuple[ScatterSolver, KeptRows | None]:
    """Fit the scatter form to rows in blocks; with `probability`, also keep rows to hold out."""
    features, kept = None, None
    factors = source.layout.factors
    if n_components is not None:
        features = fit_map_to_blocks(estimator, source, n_components, random)
        if estimator.probability:  # drawn by the values of the rows themselves
            kept = mapped_kept(source, features)
        source = MappedBlocks(source, features)
    n_classes, n_features = source.n_classes, source.n_features
    if (
        estimator.solver == "auto"
        and features is None
        and n_classes * n_features**2 > source.n_rows**2
        and out_of_core
    ):
        raise ValueError(
            f"For {source.n_rows:,} samples with {n_features:,} features, solver='auto' selects "
            "'closed', which needs the rows in memory. Use solver='scatter', or compute X and y "
            "first."
        )
    remedy = "Reduce the features." if features is None else "Use fewer n_components."
    require_scatter_memory(n_classes, n_features, remedy)
    keep = estimator.probability and features is None
    sums: AddableTuple = source.reduce(
        _scatters_and_rows, n_classes, float(estimator.alpha), float(estimator.beta), factors, keep
    )
    if keep:
        kept = sums[1].scaled(factors)
    return scatter_solver(estimator, sums[0], source.weights, features), kept


def _scatters_and_rows(
    block: Block, n_classes: int, alpha: float, beta: float, factors: Array, keep: bool
) -> AddableTuple:
    scatters = class_scatters(block, n_classes, alpha, beta)
    return AddableTuple([scatters, kept_of_block(block, factors)] if keep else [scatters])


def scatter_solver(
    estimator: Any,
    scatters: Sequence[Array] | Array,
    totals: Array,
    features: FeatureMap | None,
) -> ScatterSolver:
    """Create the solver from the scatter matrices and the total weights of the classes."""
    with threads_for(len(scatters) * len(scatters[0]) ** 3):
        form = ScatterForm.from_scatters(
            list(scatters), totals, float(estimator.alpha), float(estimator.beta)
        )
    none = Groups.of(np.zeros(0, dtype=np.intp), np.zeros(0), len(totals))
    kernel = LINEAR if features is None else features.kernel
    return ScatterSolver(TrainingSamples(None, None, none, LINEAR, features, kernel), form)
