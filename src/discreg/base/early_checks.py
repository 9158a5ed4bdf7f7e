"""What a search checks before its first fit: folds, scorer and candidates."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import (
    brier_score_loss,
    check_scoring,
    get_scorer,
    get_scorer_names,
    log_loss,
    make_scorer,
)

from discreg.blocks.validation import require_two_classes
from discreg.linalg.rows import class_sums, one_hot
from discreg.linalg.types import Indices, Scoring

from .calibration import Temperature
from .held_out import Fold, HeldOut, Setting, Weights, weighted_score
from .metrics import METRICS, quick_auc_score

__all__ = [
    "check_scorer",
    "check_settings",
    "find_missing_classes",
    "is_of_labels",
    "is_of_single_samples",
    "leavable_rows",
    "scorer_of",
]

ROUNDING = 1e-9
SCORER = type(get_scorer("accuracy"))  # of `make_scorer`
LOSSES = (log_loss, brier_score_loss)


def leavable_rows(
    indices: Indices,
    weights: Weights,
    groups: Indices | None,
    *,
    by_units: bool,
) -> NDArray[np.bool_]:
    """Return for each sample whether its class remains if the sample is held out.

    Parameters
    ----------
    indices : ndarray of shape (n_samples,)
        Indices of the classes.
    weights : ndarray of shape (n_samples,) or None
        Sample weights. Samples of weight zero can be held out.
    groups : ndarray of shape (n_samples,) or None
        Groups that are held out as a whole.
    by_units : bool
        Whether one unit of a sample's weight is held out rather than all of it.
    """
    weights = np.ones(len(indices)) if weights is None else weights
    sizes = np.bincount(indices, weights)[indices]
    held_out = np.minimum(weights, 1.0) if by_units else weights
    if groups is not None:
        of_both = indices + (indices.max() + 1) * groups
        held_out = np.bincount(of_both, weights)[of_both]
    return np.asarray((sizes - held_out > ROUNDING * sizes) | (weights == 0))


def find_missing_classes(
    folds: Sequence[Fold | None],
    classes: NDArray[Any],
    indices: Indices,
    weights: Weights,
    counts: NDArray[np.bool_],
) -> list[tuple[int, Any]]:
    """List the folds whose training part lacks a class, each with the first class that it lacks.

    Classes of which no sample `counts` are left out. Samples of weight zero do not count. A fold
    that cannot be fitted or scored raises ValueError.
    """
    weights = np.ones(len(indices)) if weights is None else weights
    counted = np.bincount(indices[counts], minlength=len(classes)) > 0
    missing = []
    for number, fold in enumerate(folds):
        if fold is None:
            continue
        train, test = fold
        if not np.any(weights[test]):
            raise ValueError(
                f"The test part of fold {number} has no sample of positive weight. Leave "
                "samples of weight zero out, or use fewer folds."
            )
        learned = class_sums(indices[train], weights[train], len(classes)) > 0
        try:
            require_two_classes(classes[learned])
        except ValueError as error:
            raise ValueError(
                f"The training part of fold {number} cannot be fitted. {error}"
            ) from error
        missing += [(number, label) for label in classes[counted & ~learned].tolist()[:1]]
    return missing


def scorer_of(scoring: Scoring, classifier: Any, classes: NDArray[Any]) -> Callable[..., float]:
    """Return the scorer that `scoring` means.

    Held-out samples may lack some classes: the log-loss and the Brier score get the labels of all,
    and the metrics of `METRICS` do not warn of missing ones as those of scikit-learn do.
    """
    known = METRICS.get(scoring) if isinstance(scoring, str) else None
    if known is not None and known.score:
        scorer: Callable[..., float] = make_scorer(
            known.of_labels, greater_is_better=not known.lower_is_better, labels=classes
        )
    elif isinstance(scoring, str) and scoring == "roc_auc" and len(classes) == 2:
        # Thousands of calls: scikit-learn's checks would take most of the time of a search.
        scorer = make_scorer(
            quick_auc_score, response_method="decision_function", positive=classes[1]
        )
    else:
        scorer = check_scoring(classifier, scoring=scoring)
    if isinstance(scorer, SCORER) and scorer._score_func in LOSSES:
        loss, options = scorer._score_func, {"response_method": scorer._response_method}
        if "labels" in inspect.signature(loss).parameters:
            options |= {"labels": classes}
        scorer = make_scorer(loss, greater_is_better=scorer._sign > 0, **options | scorer._kwargs)
    return scorer


def check_scorer(
    scorer: Callable[..., float],
    scoring: Scoring,
    classes: NDArray[Any],
    indices: Indices,
    weights: Weights,
) -> None:
    """Refuse a scorer that cannot score perfect decision values of these labels.

    Only scorers of scikit-learn are tried; other callables may count their calls.
    """
    if not isinstance(scorer, SCORER):
        return
    perfect = HeldOut(one_hot(indices, len(classes)), classes)
    try:
        weighted_score(scorer, perfect, classes[indices], weights, classes, Temperature(1.0))
    except Exception as error:
        if isinstance(scoring, str):  # a user's metric may be undefined for perfect scores
            what = str(error) if str(error).endswith(".") else f"{error}."
            advice = _instead_of(scoring, scorer, classes, of_one_class="pos_label" in what)
            raise ValueError(f"scoring={scoring!r} cannot be used. {what}{advice}") from error


def _instead_of(scoring: str, scorer: Any, classes: NDArray[Any], *, of_one_class: bool) -> str:
    """Say which scorers fit the classes; `of_one_class` scores the label 1 only."""
    names = [f"{scoring}_{ending}" for ending in ("macro", "ovr")]
    advice = [f"use scoring={name!r}" for name in names if name in get_scorer_names()]
    if of_one_class:
        given = [scorer._score_func.__name__]
        given += ["greater_is_better=False"] if scorer._sign < 0 else []
        if scorer._response_method != "predict":
            given += [f"response_method={scorer._response_method!r}"]
        given += [f"pos_label={classes.tolist()[-1]!r}"]
        advice += [f"name the positive class: scoring=make_scorer({', '.join(given)})"]
    text = ", or ".join(advice)
    return f" {text[0].upper()}{text[1:]}." if text else ""


def is_of_labels(scorer: Callable[..., float]) -> bool:
    """Return whether a scorer is known to need only labels."""
    return isinstance(scorer, SCORER) and scorer._response_method == "predict"


def is_of_single_samples(scorer: Callable[..., float]) -> bool:
    """Return whether a scorer is known to need only labels, or to be the log-loss or Brier score.

    Others, such as the area under a curve, may compare scores of samples with each other.
    """
    if not isinstance(scorer, SCORER):
        return False
    return is_of_labels(scorer) or scorer._score_func in LOSSES


def check_settings(classifier: Any, settings: Sequence[Setting]) -> None:
    """Check the candidates against what the classifier accepts."""
    trial = clone(classifier)
    for setting in settings:
        vars(trial).update(setting)
        trial._check_params()
