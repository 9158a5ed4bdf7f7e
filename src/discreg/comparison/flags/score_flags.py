"""Flags that follow from the results of a comparison."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from discreg.comparison.statistics.curves import confusion, one_prediction_per_row
from discreg.comparison.statistics.evidence import Evidence
from discreg.comparison.statistics.judged import judge
from discreg.comparison.words import listed

from .flag import Flag

__all__ = ["score_flags"]

N_LISTED = 4  # most names in a sentence


def score_flags(evidence: Evidence, model: str | None) -> list[Flag]:
    """Find what a reader must know of the scores, the most important first.

    Parameters
    ----------
    evidence : Evidence
        Scores and held-out predictions.
    model : str or None
        The model that a reader would use: the recommended one or the best mean.
    """
    return [
        *_never_recognised(evidence, model),
        *_absent_classes(evidence),
        *_not_judged(evidence),
    ]


def _never_recognised(evidence: Evidence, model: str | None) -> Iterator[Flag]:
    held = None if model is None else one_prediction_per_row(evidence, model)
    if held is None:
        return
    matrix = confusion(evidence, held)
    missed = [
        f"“{evidence.classes[place]}”"
        for place in range(len(matrix))
        if matrix[place].sum() and not matrix[place, place]
    ]
    if missed:
        label = "class" if len(missed) == 1 else "classes"
        yield Flag(
            "recall 0",
            f"{model} recognises no row of the {label} {listed(missed, N_LISTED)}. Do not use it "
            "to find such rows; look at the threshold, or compare by balanced accuracy or G-mean.",
            "danger",
        )


def _absent_classes(evidence: Evidence) -> Iterator[Flag]:
    """Report test folds without rows of a class."""
    held = next((each[0] for each in evidence.held_out.values() if each), None)
    if held is None:
        return
    folds = np.unique(held.folds)
    present = [np.unique(evidence.y[held.rows[held.folds == fold]]) for fold in folds]
    n_single = sum(len(each) == 1 for each in present)
    n_lacking = sum(len(each) < len(evidence.classes) for each in present)
    if n_single:
        yield Flag(
            "single-class folds",
            f"{n_single} of {len(folds)} test folds have rows of one class only. Scores that need "
            "all classes are computed from all held-out rows of a repeat, or left out.",
            "danger",
        )
    elif n_lacking:
        yield Flag(
            "absent classes",
            f"{n_lacking} of {len(folds)} test folds have no row of some class. Scores that need "
            "all classes are computed from all held-out rows of a repeat, or left out.",
        )


def _not_judged(evidence: Evidence) -> Iterator[Flag]:
    models = list(judge(evidence).not_judged)
    if models:
        verb = "was" if len(models) == 1 else "were"
        yield Flag(
            "not judged",
            f"{listed(models, N_LISTED)} {verb} not judged; the ranking gives the reasons.",
        )
