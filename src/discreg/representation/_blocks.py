"""DRM on rows that are not in memory: scatter matrices by reduction over blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from discreg.blocks.moments import Moments, class_scatters, source_moments
from discreg.blocks.source import (
    Block,
    BlockSource,
)
from discreg.blocks.validation import (
    is_out_of_core,
)
from discreg.linalg.fitted_kernel import FittedKernel
from discreg.linalg.kernel_approximation import (
    Draw,
    FeatureMap,
    FourierMap,
    NystroemMap,
    draw_rows,
    random_seed,
)
from discreg.linalg.kernels import gamma_from_variance
from discreg.linalg.types import Array

from ._problem import LINEAR, Groups, TrainingSamples
from ._scatter import ScatterForm
from ._solvers import ScatterSolver, require_scatter_memory, threads_for

__all__ = ["scatter_solver", "solve_blocks"]

FEATURE_BYTES = 16 << 20  # memory for the features of a batch of rows


def solve_blocks(
    estimator: Any, source: BlockSource, random: np.random.RandomState, X: Any
) -> ScatterSolver:
    """Fit the scatter form to rows in blocks."""
    n_classes, n_features = source.n_classes, source.layout.n_features
    kernel = _source_kernel(estimator, source)
    features = None
    if estimator.n_components is not None:
        features = source_feature_map(
            estimator.approximation, kernel, source, estimator.n_components, random
        )
        n_features = features(np.zeros((1, n_features), dtype=source.layout.dtype)).shape[1]
    if (
        estimator.solver == "auto"
        and n_classes * n_features**2 > source.n_rows**2
        and is_out_of_core(X)
    ):
        raise ValueError(
            f"For {source.n_rows:,} samples with {n_features:,} features, solver='auto' selects "
            "'closed', which needs the rows in memory. Use solver='scatter', or compute X and y "
            "first."
        )
    require_scatter_memory(n_classes, n_features, "Reduce the features.")
    scatters = source.reduce(
        _scatters, n_classes, float(estimator.alpha), float(estimator.beta), features
    )
    return scatter_solver(estimator, scatters, source.weights, kernel, features)


def scatter_solver(
    estimator: Any,
    scatters: Sequence[Array] | Array,
    totals: Array,
    kernel: FittedKernel,
    features: FeatureMap | None = None,
) -> ScatterSolver:
    """Create the solver from the scatter matrices and the total weights of the classes."""
    with threads_for(scatters[0]):
        form = ScatterForm.from_scatters(
            list(scatters), totals, float(estimator.alpha), float(estimator.beta)
        )
    none = Groups.of(np.zeros(0, dtype=np.intp), np.zeros(0), len(totals))
    of_points = kernel if features is None else LINEAR
    return ScatterSolver(TrainingSamples(None, None, none, of_points, features, kernel), form)


def _source_kernel(estimator: Any, source: BlockSource) -> FittedKernel:
    """Create the kernel of an estimator; gamma="scale" needs a pass over the rows."""
    gamma: float | None = None
    if isinstance(estimator.kernel, str) and estimator.kernel != "linear":
        gamma = gamma_from_variance(
            estimator.gamma,
            source.layout.n_features,
            lambda: _variance_of_entries(source_moments(source)),
        )
    return FittedKernel(
        estimator.kernel, gamma, estimator.degree, estimator.coef0, estimator.kernel_params
    )


def _variance_of_entries(moments: Moments) -> float:
    """Compute the weighted variance of all entries from the moments of the rows."""
    mean = moments.mean
    within = float(np.trace(moments.scatter)) / moments.total / len(mean)
    return within + float(np.var(mean))


def _scatters(
    block: Block, n_classes: int, alpha: float, beta: float, features: FeatureMap | None
) -> Array:
    """Compute the scatter matrices of a block, after the feature map if there is one."""
    if features is None:
        return class_scatters(block, n_classes, alpha, beta)
    width = features(block.X[:1]).shape[1]
    total = np.zeros((n_classes, width, width))
    for rows in gen_batches(len(block.y), max(64, FEATURE_BYTES // (8 * width))):
        some = Block(features(block.X[rows]), block.y[rows], block.weights[rows])
        total += class_scatters(some, n_classes, alpha, beta)
    return total


def source_feature_map(
    name: str,
    kernel: FittedKernel,
    source: BlockSource,
    n_components: int,
    random: np.random.RandomState,
) -> FeatureMap:
    """Fit a feature map to rows in blocks; "nystroem" needs one pass over the rows."""
    if name == "fourier":
        return FourierMap.in_features(kernel, source.layout.n_features, n_components, random)
    drawn = source.reduce(_draw_from_block, n_components, random_seed(random))
    return NystroemMap.on(kernel, drawn.rows)


def _draw_from_block(block: Block, size: int, seed: int) -> Draw:
    return draw_rows(block.X[block.weights > 0], size, seed)
