"""What a search checks before its first fit: folds, scorer and candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import check_scoring, get_scorer, get_scorer_names, make_scorer

from discreg.blocks.validation import require_two_classes
from discreg.linalg.rows import class_sums, one_hot
from discreg.linalg.types import Scoring

from .held_out import Fold, HeldOut, NoProbabilitiesError, Setting, Weights, weighted_score
from .metrics import METRICS

__all__ = ["check_scorer", "check_settings", "find_missing_classes", "scorer_of"]


def find_missing_classes(
    folds: Sequence[Fold | None],
    classes: NDArray[Any],
    indices: NDArray[np.intp],
    weights: Weights,
) -> list[tuple[int, Any]]:
    """List the folds whose training part lacks a class, each with the first class that it lacks.

    Samples of weight zero do not count. A fold that cannot be fitted or scored raises ValueError.
    """
    weights = np.ones(len(indices)) if weights is None else weights
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
        missing += [(number, label) for label in classes[~learned].tolist()[:1]]
    return missing


def scorer_of(scoring: Scoring, classifier: Any) -> Callable[..., float]:
    """Return the scorer that `scoring` means."""
    known = METRICS.get(scoring) if isinstance(scoring, str) else None
    if known is not None and known.score and known.name not in get_scorer_names():
        scorer: Callable[..., float] = make_scorer(
            known.of_labels, greater_is_better=not known.lower_is_better
        )
    else:
        scorer = check_scoring(classifier, scoring=scoring)
    return scorer


def check_scorer(
    scorer: Callable[..., float],
    scoring: Scoring,
    classes: NDArray[Any],
    indices: NDArray[np.intp],
    weights: Weights,
    *,
    has_probabilities: bool,
) -> None:
    """Refuse a scorer that cannot score perfect decision values of these labels.

    Only scorers of scikit-learn are tried; other callables may count their calls.
    """
    if not isinstance(scorer, type(get_scorer("accuracy"))):
        return
    perfect = HeldOut(one_hot(indices, len(classes)), classes)
    temperature = 1.0 if has_probabilities else None
    try:
        weighted_score(scorer, perfect, classes[indices], weights, temperature)
    except NoProbabilitiesError:
        raise
    except Exception as error:
        if isinstance(scoring, str):  # a user's metric may be undefined for perfect scores
            raise ValueError(f"scoring={scoring!r} cannot be used. {error}") from error


def check_settings(classifier: Any, settings: Sequence[Setting]) -> None:
    """Check the candidates against what the classifier accepts."""
    trial = clone(classifier)
    for setting in settings:
        vars(trial).update(setting)
        trial._check_params()
