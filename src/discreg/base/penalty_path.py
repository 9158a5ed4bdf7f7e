"""Cross-validation errors of a path of penalties from one pass over the rows.

The squared error of a linear model on some rows is a function of their moments. The moments of the
k folds are therefore sufficient for k-fold cross-validation: the sum over the other folds trains
the model, and the moments of the held-out fold give its error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from discreg.blocks.kept_rows import KeptRows, reduce_and_keep
from discreg.blocks.moments import Moments, moments_by_group, relative_penalty
from discreg.blocks.opening import open_blocks
from discreg.blocks.source import AddableTuple, ArrayBlocks, Block, BlockSource, is_streamed
from discreg.linalg.types import Array, MatrixLike

from .validation import Number, check_params, training_rows


@dataclass(frozen=True)
class PenaltyPath:
    """Held-out errors along a path of penalties.

    Attributes
    ----------
    betas : ndarray of shape (n_betas,)
        The penalties.
    errors : ndarray of shape (n_betas, n_folds)
        Mean squared distance between scores and targets on each fold, for the model trained on the
        other folds.
    best_beta : float
        The penalty with the smallest mean error; ties go to the largest penalty.
    best_estimator : object
        The classifier with `best_beta`, fitted to all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from discreg import LRRRClassifier, penalty_path
    >>> path = penalty_path(LRRRClassifier(), *load_iris(return_X_y=True), betas=[10, 1, 0.1], cv=3)
    >>> path.betas, path.errors.shape, path.best_estimator.beta == path.best_beta
    (array([10. ,  1. ,  0.1]), (3, 3), True)
    """

    betas: Array
    errors: Array
    best_beta: float
    best_estimator: BaseEstimator


def penalty_path(
    estimator: BaseEstimator,
    X: MatrixLike,
    y: ArrayLike,
    betas: Sequence[float],
    *,
    cv: int = 5,
    sample_weight: ArrayLike | None = None,
) -> PenaltyPath:
    """Compute k-fold cross-validation errors of many penalties in one pass over the rows.

    Row i belongs to fold i mod k: shuffle sorted rows first.

    Parameters
    ----------
    estimator : LSRClassifier or LRRRClassifier
        The linear model; its `beta` is ignored.
    X : {array-like, sparse matrix, memory map, dask Array or DataFrame}
        Training data.
    y : array-like, dask Array or Series
        Labels.
    betas : array-like of float
        Penalties.
    cv : int, default=5
        Number of folds, at least 2.
    sample_weight : array-like, dask Array or float, default=None
        Sample weights; weight k is equivalent to repeating the row k times in the same fold.

    Returns
    -------
    path : PenaltyPath

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from discreg import LSRClassifier
    >>> from discreg import penalty_path
    >>> X, y = load_digits(return_X_y=True)
    >>> path = penalty_path(LSRClassifier(), X, y, betas=[10, 1, 0.1, 0.01])
    >>> path.errors.shape, path.best_beta
    ((4, 5), 0.01)
    >>> round(path.best_estimator.score(X, y), 2)
    0.94
    """
    if not hasattr(estimator, "_class_targets") or estimator.kernel != "linear":
        raise ValueError(
            f"penalty_path supports linear LSRClassifier and LRRRClassifier, not {estimator!r}."
        )
    if not Number(2, closed="left", integer=True).accepts(cv):
        raise ValueError(f"cv must be a whole number of folds, at least 2, got {cv!r}.")
    penalties = _checked(estimator, betas)
    model = clone(estimator)
    source = _open_source(model, X, y, sample_weight)
    smallest = relative_penalty(model.set_params(beta=float(penalties.min())))
    folds, kept = reduce_and_keep(
        source, model.probability, _fold_moments, int(cv), source.n_classes, smallest
    )
    candidate = clone(estimator).set_params(probability=False)
    empty = [number for number, fold in enumerate(folds) if fold.total == 0]
    if empty:
        raise ValueError(
            f"Fold {empty[0]} of {cv} has no row of positive weight. Row i belongs to fold i mod "
            "cv: use another cv, or leave rows of weight zero out."
        )
    if any(np.any(_without(folds, number).weights == 0) for number in range(len(folds))):
        raise ValueError(
            f"All rows of a class are in one of the {cv} folds, so that the other folds do not "
            "contain the class. Row i belongs to fold i mod cv: shuffle the rows, or use another "
            "cv."
        )
    errors = np.array(
        [
            [
                _error(
                    clone(candidate).set_params(beta=beta), _without(folds, number), fold, source
                )
                for number, fold in enumerate(folds)
            ]
            for beta in penalties
        ]
    )
    means = errors.mean(axis=1)
    best = float(penalties[means == means.min()].max())
    _fit(model.set_params(beta=best), reduce(add, folds), source.sizes, source, kept)
    return PenaltyPath(penalties, errors, best, model)


def _checked(estimator: Any, betas: Sequence[float]) -> Array:
    """Convert the penalties to an array and check each against the estimator's constraints."""
    penalties = np.atleast_1d(np.asarray(betas, dtype=np.float64))
    if penalties.ndim != 1 or not len(penalties):
        raise ValueError(f"betas must be a list of numbers, got {betas!r}.")
    for beta in penalties.tolist():
        check_params(clone(estimator).set_params(beta=beta), estimator._constraints)
    return penalties


def _open_source(model: Any, X: Any, y: Any, sample_weight: Any) -> BlockSource:
    """Open the rows as a block source and set the feature attributes of the model."""
    if is_streamed(X):
        return open_blocks(model, X, y, sample_weight, model.class_weight)
    rows, labels = training_rows(model, X, y)
    return ArrayBlocks(rows, labels, sample_weight, model.class_weight)


def _fold_moments(block: Block, n_folds: int, n_classes: int, penalty: float) -> AddableTuple:
    """Compute the moments of the rows of each fold."""
    folds = (block.first + np.arange(len(block.y))) % n_folds
    return moments_by_group(block, folds, n_folds, n_classes, penalty)


def _without(folds: AddableTuple, number: int) -> Moments:
    """Sum the moments of all folds but one."""
    others = [fold for other, fold in enumerate(folds) if other != number]
    total: Moments = reduce(add, others)
    return total


def _fit(
    model: Any,
    moments: Moments,
    sizes: Array,
    source: BlockSource,
    kept: KeptRows | None = None,
) -> None:
    prepared = model._prepare_moments(moments, source.layout.classes, sizes, np.dtype(np.float64))
    prepared.source, prepared.kept = source, kept
    model._fit_and_calibrate(prepared)


def _error(model: Any, training: Moments, fold: Moments, source: BlockSource) -> float:
    """Compute the mean squared distance between the scores and the targets of a fold."""
    sizes = training.weights / source.layout.factors
    _fit(model, training, sizes, source)
    coef, intercept = model.coef_, model.intercept_
    targets = model._class_targets(sizes)
    if len(coef) == 1:  # scores of two classes are differences, so targets must be too
        targets = targets[:, 1:] - targets[:, :1]
    scores = fold.means @ coef.T + intercept
    mean_score = fold.mean @ coef.T + intercept
    squares = float(np.einsum("kp,pq,kq->", coef, fold.scatter, coef))
    squares += fold.total * float(mean_score @ mean_score)
    cross = float(fold.weights @ np.einsum("ck,ck->c", scores, targets))
    own = float(fold.weights @ np.einsum("ck,ck->c", targets, targets))
    return max(squares - 2 * cross + own, 0.0) / fold.total
