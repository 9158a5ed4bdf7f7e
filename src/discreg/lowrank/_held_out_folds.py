"""Held-out scores of SLRR by folds of the rows that are held out, each at most a fifth of all rows.

Each fold is predicted by the model without it, which is fitted to the other rows or, if there are
many, from the moments of all rows minus those of the fold. These fits start from the model of all
samples. Folds are drawn by a hash of the rows within their classes, so that they do not depend on
the order of the rows, and equal rows of a class are in the same fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from discreg.base.left_out import LeftOut
from discreg.base.regression import Prepared
from discreg.blocks.kept_rows import MOST_ROWS, KeptRows
from discreg.blocks.moment_ridge import FeatureMoments
from discreg.blocks.moments import Moments, block_moments
from discreg.blocks.source import Block
from discreg.linalg.group_lasso import FeatureRegression
from discreg.linalg.kernel_approximation import hash_rows
from discreg.linalg.rows import class_sums, matmul
from discreg.linalg.types import Array, Indices

from ._indicators import Indicators

__all__ = ["left_out_by_folds"]

LARGEST_SHARE = 0.2  # of the weight of all rows in a fold
ROUNDING = 1e-9


def left_out_by_folds(
    prepared: Prepared, totals: Array, refit: Callable[[Prepared], Array]
) -> LeftOut:
    """Compute scores of the kept rows, each by the model without the fold of the row.

    Parameters
    ----------
    prepared : Prepared
        Training data.
    totals : ndarray of shape (n_features, n_classes)
        ΦᵀSY for the zero-one matrix Y of the classes.
    refit : callable
        Fits a model to other training data and returns its coefficients, one column per class.
    """
    kept = prepared.kept
    assert kept is not None
    in_rows = prepared.y is not None and (
        not prepared.regression.is_tall or len(prepared.y) <= MOST_ROWS
    )
    moments = None if in_rows else _moments(prepared, totals)
    scores = np.full((len(kept), len(prepared.classes)), np.nan)
    for fold in _folds(kept, prepared.class_weights):
        rest = _without(prepared, kept.take(fold), moments)
        indicators = Indicators.of(rest)
        coef, means = rest.regression.predictor(refit(rest))
        scores[fold] = indicators.scale * (matmul(kept.X[fold], coef) - means)
        scores[fold] += indicators.offset(coef)
    return LeftOut(scores, is_exact=False)


def _folds(kept: KeptRows, sizes: Array) -> Iterator[Indices]:
    """Yield the rows of each fold; rows without which their class has no samples are in none."""
    hashes = hash_rows(kept.X, 0)
    order = np.lexsort((hashes, kept.y))
    is_new = (np.diff(hashes[order]) != 0) | (np.diff(kept.y[order]) != 0)
    share = kept.weights.sum() / sizes.sum()
    n_folds = max(int(np.ceil(share / LARGEST_SHARE - ROUNDING)), 1)
    numbers = np.zeros(len(order), dtype=np.intp)
    numbers[order[1:]] = np.cumsum(is_new) % n_folds
    for number in range(n_folds):
        fold = np.flatnonzero(numbers == number)
        left = sizes - class_sums(kept.y[fold], kept.weights[fold], len(sizes))
        fold = fold[(left > ROUNDING * sizes)[kept.y[fold]]]
        if len(fold):
            yield fold


def _without(prepared: Prepared, fold: KeptRows, moments: Moments | None) -> Prepared:
    """Return the training data without some rows, by subtracting moments if there are some."""
    regression, n_classes = prepared.regression, len(prepared.classes)
    class_weights = prepared.class_weights - class_sums(fold.y, fold.weights, n_classes)
    sizes = prepared.sizes * (class_weights / prepared.class_weights)
    rest = replace(prepared, sizes=sizes, class_weights=class_weights)
    if moments is None:
        left = prepared.weights.copy()
        left[fold.places] = 0.0
        rows = np.flatnonzero(left)
        rest.y = prepared.y[rows]
        rest.regression = FeatureRegression(prepared.X[rows], left[rows], centre=regression.centred)
    else:
        others = moments + block_moments(Block(fold.X, fold.y, fold.weights), n_classes).scaled(-1)
        constant = others.scatter.diagonal() <= ROUNDING * moments.scatter.diagonal()
        others.scatter[constant | regression.constant] = 0.0
        others.scatter[:, constant | regression.constant] = 0.0
        others = replace(others, extremes=None)
        rest.regression = FeatureMoments(others, centre=regression.centred)
    return rest


def _moments(prepared: Prepared, totals: Array) -> Moments:
    """Compute the moments of the training data from the Gram matrix."""
    regression, weights = prepared.regression, prepared.class_weights
    if isinstance(regression, FeatureMoments):
        return regression.moments
    if regression.centred:
        means = (totals / weights).T + regression.mean
        return Moments(weights, means, regression.gram)
    summed = totals.sum(axis=1)
    scatter = regression.gram - np.outer(summed, summed) / regression.total
    return Moments(weights, (totals / weights).T, scatter)
