"""Decision thresholds for a wanted recall or precision, chosen on held-out predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreg.base.errors import InputError
from discreg.comparison.words import number

from .curves import one_prediction_per_row, ranking_scores
from .evidence import Evidence, HeldOutPredictions

__all__ = [
    "OperatingPoint",
    "Threshold",
    "choose_threshold",
    "operating_points",
    "recall_thresholds",
]

RECALLS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
ROUNDING = 1e-12


class OperatingPoint(NamedTuple):
    """The largest threshold that reaches a wanted recall, and what is reached there."""

    wanted: float
    threshold: float
    recall: float
    precision: float
    false_positive_rate: float
    n_predicted: int  # rows at or above the threshold


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
    if not (evidence.y[held_out.rows] == _positive(evidence)).any():
        label = evidence.classes[_positive(evidence)]
        raise InputError(f"No held-out row is of the positive class '{label}'.")
    method, values = _positive_scores(evidence, model, held_out)
    reached = _reached(evidence, held_out, _positive(evidence), values)
    if recall is not None:
        place = reached.at_recall(wanted)
    else:
        enough = np.flatnonzero(reached.precisions >= wanted - ROUNDING)
        if not len(enough):
            raise InputError(
                f"No threshold has a precision of {wanted:g}; the highest precision of {model} on "
                f"held-out rows is {number(float(reached.precisions.max()))}."
            )
        place = int(enough[-1])
    return Threshold(
        value=float(reached.values[place]),
        response_method=method,
        label=evidence.classes[_positive(evidence)],
        recall=float(reached.recalls[place]),
        precision=float(reached.precisions[place]),
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


def operating_points(
    evidence: Evidence, held: HeldOutPredictions, place: int
) -> list[OperatingPoint]:
    """Find the thresholds of a class for recalls from 0.5 to 0.99; empty without scores."""
    values = ranking_scores(held, place)
    is_class = evidence.y[held.rows] == place
    if values is None or is_class.all() or not is_class.any():
        return []
    reached = _reached(evidence, held, place, values)
    points = []
    for wanted in RECALLS:
        at = reached.at_recall(wanted)
        points.append(
            OperatingPoint(
                wanted,
                float(reached.values[at]),
                float(reached.recalls[at]),
                float(reached.precisions[at]),
                float(reached.others[at] / reached.others[-1]),
                int(reached.n_rows[at]),
            )
        )
    return points


class _Reached(NamedTuple):
    """What every threshold of a class reaches, the largest threshold first."""

    values: NDArray[Any]  # the thresholds: the distinct scores of the rows
    found: NDArray[Any]  # weight of the rows of the class at or above each threshold
    others: NDArray[Any]  # weight of the other rows there
    n_rows: NDArray[np.intp]  # number of rows there

    @property
    def recalls(self) -> NDArray[Any]:
        return np.asarray(self.found / self.found[-1])

    @property
    def precisions(self) -> NDArray[Any]:
        return np.asarray(self.found / (self.found + self.others))

    def at_recall(self, wanted: float) -> int:
        """Return the position of the largest threshold with at least this recall."""
        return int(np.argmax(self.recalls >= wanted - ROUNDING))


def _reached(
    evidence: Evidence, held: HeldOutPredictions, place: int, values: NDArray[Any]
) -> _Reached:
    is_class = evidence.y[held.rows] == place
    weights = np.ones(len(values)) if evidence.weights is None else evidence.weights[held.rows]
    order = np.argsort(-values, kind="stable")
    ends = np.flatnonzero(np.diff(values[order], append=-np.inf))  # equal values go together
    return _Reached(
        values[order[ends]],
        np.cumsum((weights * is_class)[order])[ends],
        np.cumsum((weights * ~is_class)[order])[ends],
        ends + 1,
    )


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
