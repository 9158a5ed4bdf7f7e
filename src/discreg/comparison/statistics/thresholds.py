"""Decision thresholds for a wanted recall or precision, chosen on held-out predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreg.base.errors import InputError
from discreg.comparison.words import number

from .curves import one_prediction_per_row, operating_points, ranking_scores
from .evidence import Evidence, HeldOutPredictions

__all__ = ["Threshold", "choose_threshold", "recall_thresholds"]

ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A threshold for the positive class, and what it reaches on held-out rows.

    Attributes
    ----------
    value : float
        Rows with this probability, or decision value, or a larger one are predicted as `label`.
    response_method : {"predict_proba", "decision_function"}
        What the threshold applies to.
    label : label
        The positive class.
    recall, precision : float
        Recall and precision of `label` on held-out rows. They are slightly too good, because the
        threshold is chosen on the same rows.
    """

    value: float
    response_method: Literal["predict_proba", "decision_function"]
    label: Any
    recall: float
    precision: float

    def __str__(self) -> str:
        what = "probability" if self.response_method == "predict_proba" else "decision value"
        return (
            f"'{self.label}' from a {what} of {self.value:.3g}: recall {number(self.recall)}, "
            f"precision {number(self.precision)} on held-out rows"
        )


def choose_threshold(
    evidence: Evidence,
    model: str,
    *,
    recall: float | None = None,
    precision: float | None = None,
) -> Threshold:
    """Choose a threshold on the held-out predictions of a model, one per row.

    Parameters
    ----------
    evidence : Evidence
        Held-out predictions of two classes.
    model : str
        Name of the model.
    recall : float, optional
        The largest threshold with at least this recall is chosen.
    precision : float, optional
        The smallest threshold from which on the precision is at least this is chosen. Pass either
        `recall` or `precision`.
    """
    wanted = _wanted(recall, precision)
    held_out = one_prediction_per_row(evidence, model)
    if len(evidence.classes) != 2:
        raise InputError(f"A threshold needs two classes; there are {len(evidence.classes)}.")
    if held_out is None:
        raise InputError(f"There are no held-out predictions of {model}.")
    method, values = _positive_scores(evidence, model, held_out)
    is_positive = evidence.y[held_out.rows] == _positive(evidence)
    weights = np.ones(len(values)) if evidence.weights is None else evidence.weights[held_out.rows]
    order = np.argsort(-values, kind="stable")
    ends = np.flatnonzero(np.diff(values[order], append=-np.inf))  # equal values go together
    found = np.cumsum((weights * is_positive)[order])[ends]
    predicted = np.cumsum(weights[order])[ends]
    recalls, precisions = found / found[-1], found / predicted
    if recall is not None:
        place = int(np.argmax(recalls >= wanted - ROUNDING))
    else:
        reached = np.flatnonzero(precisions >= wanted - ROUNDING)
        if not len(reached):
            raise InputError(
                f"No threshold has a precision of {wanted:g}; the highest precision of {model} on "
                f"held-out rows is {number(float(precisions.max()))}."
            )
        place = int(reached[-1])
    return Threshold(
        value=float(values[order[ends[place]]]),
        response_method=method,
        label=evidence.classes[_positive(evidence)],
        recall=float(recalls[place]),
        precision=float(precisions[place]),
    )


def recall_thresholds(evidence: Evidence, model: str) -> dict[float, float]:
    """Choose thresholds of the probability of the positive class for recalls from 0.5 to 0.99.

    The result is empty if there are more than two classes or no probabilities.
    """
    held_out = one_prediction_per_row(evidence, model)
    if len(evidence.classes) != 2 or held_out is None or held_out.probabilities is None:
        return {}
    points = operating_points(evidence, held_out, _positive(evidence))
    return {each.wanted: each.threshold for each in points}


def _wanted(recall: float | None, precision: float | None) -> float:
    if (recall is None) == (precision is None):
        raise InputError("Pass either recall or precision.")
    wanted = recall if recall is not None else precision
    assert wanted is not None
    if not 0 < wanted <= 1:
        name = "recall" if recall is not None else "precision"
        raise InputError(f"{name} must be above 0 and at most 1; got {wanted:g}.")
    return wanted


def _positive(evidence: Evidence) -> int:
    return evidence.rarest if evidence.positive is None else evidence.positive


def _positive_scores(
    evidence: Evidence, model: str, held_out: HeldOutPredictions
) -> tuple[Literal["predict_proba", "decision_function"], NDArray[Any]]:
    """Return probabilities of the positive class, or decision values if there are none."""
    values = ranking_scores(held_out, _positive(evidence))
    if values is None:
        raise InputError(f"{model} has neither probabilities nor decision values.")
    return "decision_function" if held_out.probabilities is None else "predict_proba", values
