"""Held-out scores: how training rows are judged by models that have not seen them.

This is the one mechanism behind probabilities, prediction sets and searches. A model whose scores
without each row follow from one factorisation computes them itself. Every other one is fitted
without each of five folds or, if there are many rows, without one part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold

from discreg.blocks.kept_rows import MOST_ROWS, KeptRows, distinct_rows, kept_of_block
from discreg.blocks.source import Block, BlockSource, Counts, Statistic
from discreg.linalg.rows import class_sums, class_weights, hash_rows
from discreg.linalg.types import Array, Indices

from .calibration import (
    FEWEST,
    Calibration,
    Temperature,
    class_columns,
    fit_temperature,
    one_column_if_binary,
)
from .caller import silenced, warn_user
from .validation import LabelledRows, resolve_n_components

Fold = tuple[Indices, Indices]  # training and test rows

N_FOLDS = 5
MOST_IN_FOLDS = 10_000  # with more distinct rows, one part of 2,000 is held out
LARGEST_PART = 0.2  # share of the distinct rows that one part holds out
ENOUGH = 300  # held-out rows that calibrate well
SEED = 0
ROUNDING = 1e-9
CHANCE = 1e-9  # relative difference of log-losses that is rounding
BY_ROW, BY_GROUP = "one row at a time", "one group at a time"
UNCALIBRATED = "Probabilities are not calibrated, and prediction sets contain all classes."
CALIBRATED = (
    "inverse_temperature_",
    "class_offsets_",
    "held_out_decision_function_",
    "held_out_by_",
    "_calibrated",
)
_named: ContextVar[bool] = ContextVar("lost classes are named", default=False)


@contextmanager
def classes_named(named: bool = True) -> Iterator[None]:
    """Do not warn of classes that cannot be held out if the caller has named them."""
    token = _named.set(named)
    try:
        yield
    finally:
        _named.reset(token)


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of rows from models that have not seen them.

    Attributes
    ----------
    scores : ndarray of shape (n_judged, n_classes)
        Decision values, one column per class. A row is NaN if the other rows do not determine it.
    y : ndarray of shape (n_judged,)
        Indices of the classes.
    weights : ndarray of shape (n_judged,)
        Sample weights.
    by : str
        How rows were held out.
    of_rows : ndarray of shape (n_rows, n_classes) or None
        Scores of all training rows in their order, if these are in memory and all were judged.
    """

    scores: Array
    y: Indices
    weights: Array
    by: str
    of_rows: Array | None = None


def holdout_folds(
    keys: NDArray[np.uint64],
    y: Indices,
    weights: Array,
    groups: Indices | None = None,
) -> list[Fold]:
    """Split rows in memory into training and test rows of each fold.

    Rows of weight zero are in no fold.

    Parameters
    ----------
    keys : ndarray of shape (n_rows,)
        Those of `row_keys`.
    y : ndarray of shape (n_rows,)
        Indices of the classes.
    weights : ndarray of shape (n_rows,)
    groups : ndarray of shape (n_rows,), default=None
        Groups that are held out as a whole. Without them, equal rows of a class are.
    """
    numbers = distinct_rows(keys, y, weights)
    seen = np.flatnonzero(numbers >= 0)
    if groups is not None:
        parts = _parts_by_group(y, groups, seen)
    elif numbers.max() < MOST_IN_FOLDS:
        # Numbers are ordered by class: each part has its share of every class.
        parts = [seen[numbers[seen] % N_FOLDS == fold] for fold in range(N_FOLDS)]
    else:
        of_numbers = np.empty(numbers.max() + 1, dtype=keys.dtype)
        of_numbers[numbers[seen]] = keys[seen]
        last = np.partition(of_numbers, MOST_ROWS - 1)[MOST_ROWS - 1]
        parts = [seen[keys[seen] <= last]]
    return folds_of(parts, seen, y, weights)


def folds_of(parts: list[Indices], rows: Indices, y: Indices, weights: Array) -> list[Fold]:
    """Return the training and test rows of each part of some rows, which is held out.

    A class that a fold would lose stays in its training rows and is not tested there.
    """
    sizes, folds = np.bincount(y[rows], weights[rows]), []
    for part in parts:
        left = sizes - np.bincount(y[part], weights[part], len(sizes))
        test = part[(left > ROUNDING * sizes)[y[part]]]
        if len(test):
            folds.append((np.setdiff1d(rows, test, assume_unique=True), test))
    return folds


def judged_rows(folds: list[Fold], n_rows: int) -> NDArray[np.bool_]:
    """Return for each row whether it is held out."""
    judged = np.zeros(n_rows, dtype=bool)
    for _, test in folds:
        judged[test] = True
    return judged


def holdout_mask(y: Indices, weights: Array, groups: Indices | None) -> NDArray[np.bool_]:
    """Return for each row of positive weight whether its class remains without the row or group."""
    sizes = np.bincount(y, weights)[y]
    of_both = np.arange(len(y)) if groups is None else y + (y.max() + 1) * groups
    left = sizes - np.bincount(of_both, weights)[of_both]
    return np.asarray((left > ROUNDING * sizes) & (weights > 0))


def _parts_by_group(y: Indices, groups: Indices, seen: Indices) -> list[Indices]:
    """Split rows into parts of whole groups: five stratified ones, or one if there are many."""
    own = np.unique(groups[seen], return_inverse=True)[1]
    if len(seen) <= MOST_IN_FOLDS:
        return [seen[part] for part in stratified_parts(y[seen], own)]
    order = np.random.default_rng(SEED).permutation(int(own.max()) + 1)
    reached = np.cumsum(np.bincount(own)[order])
    drawn = order[: max(1, int(np.searchsorted(reached, MOST_ROWS)))]
    return [seen[np.isin(own, drawn)]]


def stratified_parts(y: Indices, groups: Indices) -> list[Indices]:
    """Split rows into five parts of whole groups, or fewer, with similar shares of the classes.

    Classes with fewer rows than parts count as rows of the largest class.
    """
    n_parts = min(N_FOLDS, len(np.unique(groups)))
    sizes = np.bincount(y)
    strata = np.where(sizes[y] < n_parts, sizes.argmax(), y)
    return [part for _, part in StratifiedGroupKFold(n_parts).split(y, strata, groups)]


def how_held_out(folds: list[Fold], groups: Indices | None) -> str:
    """Say how rows were held out."""
    if len(folds) == 1:
        return f"{len(folds[0][1]):,} rows"
    return f"{len(folds)} folds" + " of whole groups" * (groups is not None)


def scores_in_folds(
    estimator: Any,
    rows: LabelledRows,
    folds: list[Fold],
    start: Callable[[Any, Indices], None] | None = None,
) -> Array:
    """Fit a model without each fold and compute the scores of its rows.

    Parameters
    ----------
    estimator : BaseClassifier
        Its parameters are those of the models.
    rows : LabelledRows
    folds : list
    start : callable, default=None
        ``start(model, rows)`` gives a model that will be fitted to these rows a starting point.

    Returns
    -------
    scores : ndarray of shape (n_rows, n_classes)
        NaN for rows that are in no fold, or whose model cannot be fitted.
    """
    X, labels = rows.X, rows.labels
    scores = np.full((len(labels), len(rows.classes)), np.nan)
    for train, test in folds:
        model = _unfitted(estimator)
        if start is not None:
            start(model, train)
        columns = train if estimator.kernel == "precomputed" else slice(None)
        try:
            with silenced():  # the fit to all rows has warned
                resolve_n_components(model, len(labels))
                model.fit(X[train][:, columns], labels[train], rows.sample_weights[train])
                scores[test] = class_columns(model.decision_function(X[test][:, columns]))
        except ValueError:  # a numerical failure without these rows
            continue
    return scores


def _unfitted(estimator: Any) -> Any:
    """Create a model for a fit without some rows, which reports nothing to callbacks."""
    model = clone(estimator)
    model.probability = False  # an attribute, because a subclass may fix the parameter
    vars(model).pop("_skl_callbacks", None)
    return model


class WithoutRows(BlockSource):
    """Rows of another source, where some distinct rows have weight zero.

    Parameters
    ----------
    source : BlockSource
    part : KeptRows
    """

    def __init__(self, source: BlockSource, part: KeptRows) -> None:
        super().__init__(source.n_features, source.dtype, source.class_weight)
        self._source, self._part = source, part

    @cached_property
    def counts(self) -> Counts:
        source, part = self._source, self._part
        sizes = source.sizes - class_sums(part.y, part.weights, source.n_classes)
        return Counts(source.layout.classes, sizes, source.n_rows)

    def reduce(self, statistic: Statistic, *args: Any) -> Any:
        part, change = self._part, self.layout.factors / self._source.layout.factors
        return self._source.reduce(_on_others, part.hashes, part.y, change, statistic, args)


def _on_others(
    block: Block, hashes: Any, y: Indices, change: Array, statistic: Statistic, args: Any
) -> Any:
    """Compute a statistic of a block without some rows; class weights may change by that."""
    weights = block.weights * change[block.y]
    own = hash_rows(block.X, SEED)
    for k in np.unique(y):
        weights[(block.y == k) & np.isin(own, hashes[y == k])] = 0.0
    return statistic(block._replace(weights=weights), *args)


def holdout_part(source: BlockSource) -> KeptRows:
    """Draw the rows of a source that are held out together: 2,000, or a fifth if there are few."""
    factors = source.layout.factors
    kept: KeptRows = source.reduce(kept_of_block, factors)
    number = min(len(kept), max(1, int(LARGEST_PART * source.n_rows)))
    return kept.take(np.arange(number))


def calibrate(estimator: Any, held_out: HeldOutScores, sizes: Array, *, warn: bool = True) -> None:
    """Set the attributes of a classifier that follow from held-out scores.

    Probabilities estimate the population of the training rows with their sample weights. Where the
    scores are worse than chance, they are the shares of the classes.

    Parameters
    ----------
    estimator : BaseClassifier
        It has `classes_`.
    held_out : HeldOutScores
    sizes : ndarray of shape (n_classes,)
        Sum of the sample weights of each class.
    warn : bool, default=True
        Whether to warn; `partial_fit` does not, because more rows may follow.
    """
    forget_calibration(estimator)
    known = np.asarray(np.isfinite(held_out.scores).all(axis=1))
    judged = held_out.scores[known], held_out.y[known], held_out.weights[known]
    offsets = prior_offsets(estimator, estimator.classes_, sizes)
    with np.errstate(over="ignore"):
        agrees = estimator.class_weight is None
        temperature = fit_temperature(*judged, offsets, agrees=agrees)
        calibration = Calibration.of(*judged, len(sizes), temperature)
        reason = _worse_than_chance(*judged, calibration)
    if reason is not None:
        temperature = Temperature.constant(sizes / sizes.sum())
        calibration = Calibration.of(*judged, len(sizes), temperature)
    estimator._calibrated = calibration
    estimator.inverse_temperature_ = temperature.inverse
    if temperature.offsets is not None:
        estimator.class_offsets_ = temperature.offsets
    estimator.held_out_by_ = held_out.by
    if held_out.of_rows is not None and np.isfinite(held_out.of_rows).all():
        estimator.held_out_decision_function_ = one_column_if_binary(held_out.of_rows)
    if warn:
        _warn_of_unknown(int(known.sum()), len(known))
        if reason is not None:
            warn_user(
                f"The held-out scores of {type(estimator).__name__} are worse than chance: "
                f"{reason}. predict_proba returns the class frequencies. Use another model or "
                "other parameters, or features that say more about the classes."
            )


def calibrate_in_closed_form(
    estimator: Any,
    kept: KeptRows,
    sizes: Array,
    scores_without: Callable[[KeptRows], Array],
    unseen: Callable[[Indices], Array] | None = None,
    *,
    warn: bool = True,
) -> bool:
    """Calibrate a fitted classifier whose scores without each row follow from one factorisation.

    Returns False, and does nothing, if the rows are in memory and most scores are not determined.
    Folds can hold them out then.

    Parameters
    ----------
    estimator : BaseClassifier
    kept : KeptRows
        Rows to hold out; those that are all of their class are not.
    sizes : ndarray of shape (n_classes,)
        Sum of the sample weights of each class.
    scores_without : callable
        Computes the scores of rows, each without all of its weight, one column per class.
    unseen : callable, default=None
        Computes the scores of training rows of weight zero; None if the rows are not in memory.
    warn : bool, default=True
        As in `calibrate`.
    """
    own, y = sizes[kept.y], kept.y
    stays = own - kept.weights > ROUNDING * own
    if not stays.all():
        kept = replace(kept.take(np.flatnonzero(stays)), numbers=None)
    with np.errstate(all="ignore"):  # scores that are not finite are not used
        scores = scores_without(kept)
    unknown = ~np.isfinite(scores).all(axis=1)
    if unseen is not None and unknown.sum() > len(scores) / 2:
        return False
    if warn:
        warn_of_lost_classes(estimator.classes_, y, stays)
    of_rows = None
    if kept.numbers is not None:
        of_rows, zero = scores[kept.numbers], np.flatnonzero(kept.numbers < 0)
        if len(zero):
            assert unseen is not None
            of_rows[zero] = unseen(zero)
    held_out = HeldOutScores(scores, kept.y, kept.weights, BY_ROW, of_rows)
    calibrate(estimator, held_out, sizes, warn=warn)
    return True


def calibrate_on_rows(
    estimator: Any,
    rows: LabelledRows,
    groups: Indices | None = None,
    start: Callable[[Any, Indices], None] | None = None,
) -> None:
    """Calibrate a fitted classifier by fits without some rows, which are in memory.

    Parameters
    ----------
    estimator : BaseClassifier
    rows : LabelledRows
    groups : ndarray of shape (n_rows,), default=None
        Groups that are held out as a whole.
    start : callable, default=None
        As in `scores_in_folds`.
    """
    X, y, weights = rows.X, rows.y, rows.sample_weights
    folds = holdout_folds(rows.keys, y, weights, groups)
    judged, seen = judged_rows(folds, len(y)), weights > 0
    warn_of_lost_classes(rows.classes, y[seen], judged[seen], groups)
    scores = scores_in_folds(estimator, rows, folds, start)
    of_rows = None
    if len(folds) > 1:
        of_rows = scores.copy()
        if not seen.all():
            of_rows[~seen] = class_columns(estimator.decision_function(X[~seen]))
    places, merged = np.flatnonzero(judged), weights[judged]
    if groups is None:  # equal rows of a class have equal scores
        numbers = distinct_rows(rows.keys[places], y[places], merged)
        firsts = np.unique(numbers, return_index=True)[1]
        places, merged = places[firsts], np.bincount(numbers, merged).astype(np.float64)
    found = scores[places], y[places], merged, how_held_out(folds, groups), of_rows
    calibrate(estimator, HeldOutScores(*found), rows.sizes)


def calibrate_on_blocks(estimator: Any, source: BlockSource) -> None:
    """Calibrate a fitted classifier by a fit in which some rows in blocks have weight zero."""
    part = holdout_part(source)
    left = source.sizes - class_sums(part.y, part.weights, source.n_classes)
    stays = (left > ROUNDING * source.sizes)[part.y]
    warn_of_lost_classes(estimator.classes_, part.y, stays)
    part = part.take(np.flatnonzero(stays))
    scores = np.empty((0, source.n_classes))
    if len(part):
        model = _unfitted(estimator)
        with silenced():  # the fit to all rows has warned
            model._fit_blocks(WithoutRows(source, part))
            scores = model._scores_of_rows(part.X)
    by = f"{len(part):,} rows"
    calibrate(estimator, HeldOutScores(scores, part.y, part.weights, by), source.sizes)


def prior_offsets(estimator: Any, classes: NDArray[Any], sizes: Array) -> Array | None:
    """Return the class offsets that undo equal or given class weights; None if there are none."""
    if estimator._ignores_class_shares:
        return np.asarray(np.log(sizes / sizes.sum()))
    if estimator.class_weight is None:
        return None
    return -np.log(class_weights(estimator.class_weight, classes, sizes))


def _worse_than_chance(
    scores: Array, y: Indices, weights: Array, calibration: Calibration
) -> str | None:
    """Say why scores do not separate the classes; None if they do, or if there are few rows."""
    if len(y) < FEWEST or len(np.unique(y)) < 2:
        return None
    if scores.shape[1] == 2:
        difference = scores[:, 1] / 2 - scores[:, 0] / 2  # the difference itself may overflow
        area = roc_auc_score(y, difference, sample_weight=weights)
        if area < 0.5:
            return f"the area under the ROC curve is {area:.2g}"
    loss = calibration.log_loss()
    shares = class_sums(y, weights, scores.shape[1]) / weights.sum()
    shares = shares[shares > 0]
    chance = -float(shares @ np.log(shares))
    if not loss <= chance * (1 + CHANCE):
        return f"their log-loss is {loss:.3g}, that of the class frequencies {chance:.3g}"
    return None


def warn_of_lost_classes(
    classes: NDArray[Any],
    y: Indices,
    judged: NDArray[np.bool_],
    groups: Indices | None = None,
    *,
    judged_on_others: str = "Probabilities are calibrated",
) -> None:
    """Warn once of classes of which no row can be held out."""
    lost = np.setdiff1d(y, y[judged])
    if not len(lost) or _named.get():
        return
    what = "distinct row" if groups is None else "group"
    labels = classes[lost].tolist()
    named = ", ".join(repr(label) for label in labels[:3]) + ", ..." * (len(labels) > 3)
    verb = "Class {} has" if len(labels) == 1 else "Classes {} have"
    rest = f"{judged_on_others} on the other classes." if judged.any() else UNCALIBRATED
    warn_user(f"{verb.format(named)} only one {what}, which cannot be held out. {rest}")


def _warn_of_unknown(n_known: int, n_rows: int) -> None:
    if n_known >= min(n_rows / 2, ENOUGH):
        return
    rest = f"Probabilities are calibrated on the other {n_known:,}." if n_known else UNCALIBRATED
    warn_user(
        f"{n_rows - n_known:,} of {n_rows:,} rows have no held-out scores, because the others "
        "do not determine them, or because of overflow. "
        f"{rest} Penalise large coefficients more, add samples, or scale the features."
    )


def forget_calibration(estimator: Any) -> None:
    """Remove the attributes that an earlier call of `calibrate` has set."""
    for name in CALIBRATED:
        estimator.__dict__.pop(name, None)
