"""Held-out scores of training samples, and what `fit` keeps of them for probabilities and sets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.blocks.kept_rows import KeptRows
from discreg.linalg.types import Array, Indices, RealArray

from .calibration import Calibration
from .caller import user_stacklevel

__all__ = [
    "LeftOut",
    "calibrate",
    "classes_named",
    "forget_calibration",
    "leavable_rows",
    "one_column_if_binary",
]

ROUNDING = 1e-9
ENOUGH = 300  # held-out samples that calibrate well
CALIBRATED = (
    "inverse_temperature_",
    "loo_decision_function_",
    "loo_is_exact_",
    "_calibrated",
    "_labels",
)
_named: ContextVar[bool] = ContextVar("classes of one sample are named", default=False)


@contextmanager
def classes_named(named: bool) -> Iterator[None]:
    """Do not warn of classes of one sample in this thread if the caller has named them."""
    token = _named.set(named)
    try:
        yield
    finally:
        _named.reset(token)


@dataclass(frozen=True)
class LeftOut:
    """Scores of kept rows, each from the model without one unit of the weight of the row.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, n_classes)
        Decision values, one column per class. A row is NaN if the other samples do not determine
        its scores.
    is_exact : bool
        Whether the scores equal those of refits up to rounding.
    """

    scores: Array
    is_exact: bool


def leavable_rows(
    kept: KeptRows, sizes: Array, classes: NDArray[Any], *, warn: bool = True
) -> KeptRows:
    """Return the rows without which their class still has samples; warn of the other classes.

    Parameters
    ----------
    kept : KeptRows
    sizes : ndarray of shape (n_classes,)
        Sum of the weights of each class, with class weights as those of the rows.
    classes : ndarray of shape (n_classes,)
    warn : bool, default=True
        `partial_fit` does not warn, because more rows may follow.
    """
    alone = sizes[kept.y] - kept.units <= ROUNDING * sizes[kept.y]
    if not alone.any():
        return kept
    others = kept.take(np.flatnonzero(~alone))
    if not warn or _named.get():
        return others
    labels = classes[np.unique(kept.y[alone])].tolist()
    named = ", ".join(repr(label) for label in labels[:3]) + ", ..." * (len(labels) > 3)
    what = "Class {} has" if len(labels) == 1 else "Classes {} have"
    rest = (
        "Probabilities are calibrated on the other classes."
        if len(others)
        else "Probabilities are not calibrated, and prediction sets contain all classes."
    )
    warnings.warn(
        f"{what.format(named)} only one sample, which cannot be held out. {rest}",
        UserWarning,
        stacklevel=user_stacklevel(),
    )
    return others


def calibrate(
    estimator: Any,
    kept: KeptRows,
    left_out: LeftOut,
    *,
    seen: NDArray[np.bool_] | None = None,
    scores_of: Callable[[Indices], RealArray] | None = None,
    warn: bool = True,
) -> None:
    """Set the fitted attributes that depend on held-out scores.

    Parameters
    ----------
    estimator : object
        A classifier with `classes_`.
    kept : KeptRows
        The rows that were left out.
    left_out : LeftOut
        Their scores.
    seen : ndarray of bool of shape (n_samples,), optional
        Whether each training row has positive weight, if the rows are in memory.
        `loo_decision_function_` is set if all of these were left out.
    scores_of : callable, optional
        ``scores_of(rows)`` computes the scores of training rows of weight zero, which the model has
        not seen; needed with `seen`.
    warn : bool, default=True
        Whether to warn if some rows have no scores; `partial_fit` does not.
    """
    forget_calibration(estimator)
    known = np.isfinite(left_out.scores).all(axis=1)
    estimator._calibrated = Calibration.of(
        left_out.scores[known],
        kept.y[known],
        kept.weights[known],
        kept.units[known],
        len(estimator.classes_),
    )
    estimator.inverse_temperature_ = estimator._calibrated.temperature.inverse
    estimator.loo_is_exact_ = bool(left_out.is_exact and known.all())
    n_known = int(known.sum())
    if warn and n_known < min(len(kept) / 2, ENOUGH):
        _warn_of_unknown(n_known, len(kept))
    if seen is None or kept.places is None or not known.all():
        return
    if len(np.unique(kept.places)) == np.count_nonzero(seen):
        assert scores_of is not None
        scores, unseen = np.zeros((len(seen), len(estimator.classes_))), np.flatnonzero(~seen)
        if len(unseen):
            scores[unseen] = scores_of(unseen)
        totals = np.bincount(kept.places, kept.weights, len(scores))
        shares = kept.weights / totals[kept.places]  # of rows that are repeated
        np.add.at(scores, kept.places, shares[:, None] * left_out.scores)
        estimator.loo_decision_function_ = one_column_if_binary(scores)


def _warn_of_unknown(n_known: int, n_rows: int) -> None:
    rest = (
        f"Probabilities are calibrated on the other {n_known:,}."
        if n_known
        else "Probabilities are not calibrated, and prediction sets contain all classes."
    )
    warnings.warn(
        f"{n_rows - n_known:,} of {n_rows:,} samples have no held-out scores, because the others "
        "do not determine them, or because of overflow. "
        f"{rest} Penalise large coefficients more, add samples, or scale the features.",
        UserWarning,
        stacklevel=user_stacklevel(),
    )


def forget_calibration(estimator: Any) -> None:
    """Remove the attributes that an earlier call of `calibrate` has set."""
    for name in CALIBRATED:
        estimator.__dict__.pop(name, None)


def one_column_if_binary(scores: Array) -> Array:
    """Convert to scikit-learn's shape of decision values: one number for two classes."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
