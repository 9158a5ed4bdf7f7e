"""How good the probabilities and the labels of one model are: numbers, tables and curves.

References
----------
B. Van Calster et al., "Calibration: the Achilles heel of predictive analytics", BMC Medicine 17,
2019.

A. J. Vickers and E. B. Elkin, "Decision Curve Analysis: A Novel Method for Evaluating Prediction
Models", Medical Decision Making 26, 2006.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import precision_recall_curve, roc_curve

from discreg.base.errors import InputError
from discreg.base.metrics import metric
from discreg.tables.classifier import Rule

from .sample import ROUNDING, Interval, Proportion, Sample, wilson

RECALLS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
N_BINS = 10
SHOWN = ("log_loss", "brier", "roc_auc")
MOST_SUBGROUPS = 12
STEPS, FLAT = 25, 1e-9  # Newton's method
Curve = tuple[NDArray[Any], NDArray[Any]]


class Measured(NamedTuple):
    """One number of a summary, with its interval and what it is."""

    title: str
    value: float
    low: float
    high: float
    remark: str = ""


class OperatingPoint(NamedTuple):
    """The largest threshold that reaches a wanted recall, and what is reached there."""

    wanted: float
    threshold: float
    recall: Proportion
    precision: Proportion
    alarms: Proportion  # of all rows


@dataclass(frozen=True, kw_only=True)
class CalibrationCurve:
    """Mean predicted probability and observed fraction in groups of rows.

    Groups have about equal sums of p (1 - p), so that a few rows with high probabilities are not
    lost among many with low ones.

    Attributes
    ----------
    predicted, observed, low, high, n_rows : ndarray of shape (n_bins,)
        With Wilson's 95 % intervals of the observed fractions.
    slope, intercept : Interval
        Of the logistic regression of the outcome on the logit of the probability; 1 and 0 are
        ideal. A slope below 1 means that probabilities are too extreme.
    """

    predicted: NDArray[Any]
    observed: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    n_rows: NDArray[Any]
    slope: Interval
    intercept: Interval


class DecisionCurve(NamedTuple):
    """Net benefit by the threshold: of the model, and of treating every row."""

    thresholds: NDArray[Any]
    model: NDArray[Any]
    everyone: NDArray[Any]


def measure(sample: Sample) -> list[Measured]:
    """Compute the summary of a model: proportions of its labels, and scores of probabilities."""
    found = []
    y, labels, place = sample.y, sample.labels, sample.positive
    if place is not None:
        name, other = (str(sample.classes[k]) for k in (place, 1 - place))
        is_case, is_called = y == place, labels == place
        for title, hits, among, what in (
            ("recall", is_called, is_case, f"{name} rows that are labelled {name}"),
            ("precision", is_case, is_called, f"rows labelled {name} that are {name}"),
            ("specificity", ~is_called, ~is_case, f"{other} rows that are labelled {other}"),
            ("NPV", ~is_case, ~is_called, f"rows labelled {other} that are {other}"),
        ):
            found.append(_of_proportion(title, sample.proportion(hits, among), what))
    everything = np.ones(len(y), dtype=bool)
    found.append(
        _of_proportion(
            "accuracy", sample.proportion(y == labels, everything), "rows labelled right"
        )
    )
    for name in SHOWN:
        interval = sample.interval(name)
        if np.isfinite(interval.value):
            found.append(Measured(metric(name).title, *interval))
    return found


def _of_proportion(title: str, share: Proportion, what: str) -> Measured:
    remark = f"{share.hits:,} of {share.total:,} {what}" if share.total else f"no {what}"
    return Measured(title, share.value, share.low, share.high, remark)


def subgroups(sample: Sample, values: NDArray[Any]) -> list[tuple[str, int, list[Measured]]]:
    """Measure a model in the rows of each value of a column.

    Numbers with more than 12 values are divided at their quartiles, and the most frequent 12
    categories are shown.
    """
    return [(name, int(mask.sum()), measure(sample.select(mask))) for name, mask in _parts(values)]


def _parts(values: NDArray[Any]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    column = pd.Series(values)
    missing = column.isna().to_numpy()
    if column.dtype.kind in "fiuM" and column.nunique() > MOST_SUBGROUPS:
        column = pd.qcut(column, 4, duplicates="drop").astype(object)
        names = sorted(column.dropna().unique())
    else:
        names = list(column.value_counts().index[:MOST_SUBGROUPS])
    for name in names:
        yield str(name), ~missing & (column == name).to_numpy()
    if missing.any():
        yield "missing", missing


def operating_points(sample: Sample) -> list[OperatingPoint]:
    """Find the thresholds of the positive class for recalls from 0.5 to 0.99.

    Empty with more than two classes, or if a class has no rows. Several wanted recalls may have
    the same threshold.
    """
    if sample.positive is None or not sample.counts.all():
        return []
    return [point_of(sample, wanted, rule_for(sample, recall=wanted)) for wanted in RECALLS]


def point_of(sample: Sample, wanted: float, rule: Rule) -> OperatingPoint:
    """Compute what a threshold of two classes reaches."""
    is_case, threshold = sample.y == sample.positive, rule.threshold
    assert threshold is not None
    is_called = rule.labels(sample.probabilities) == sample.positive
    everything = np.ones(len(is_case), dtype=bool)
    return OperatingPoint(
        wanted,
        threshold,
        sample.proportion(is_called, is_case),
        sample.proportion(is_case, is_called),
        sample.proportion(is_called, everything),
    )


def _reached(sample: Sample) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return thresholds, from the largest, and the recall and the precision that each reaches.

    A threshold is in the middle between two probabilities, so that rounding does not matter.
    """
    values = sample.probabilities[:, sample.positive]
    order = np.argsort(-values, kind="stable")
    ends = np.flatnonzero(np.diff(values[order], append=-np.inf))
    weights, is_case = sample.base[order], (sample.y == sample.positive)[order]
    found, called = np.cumsum(weights * is_case)[ends], np.cumsum(weights)[ends]
    distinct = values[order][ends]
    middles = np.append((distinct[:-1] + distinct[1:]) / 2, distinct[-1] / 2)
    # Neighbouring floating-point numbers have no middle.
    return np.minimum(middles, distinct), found / found[-1], found / called


def _at_recall(sample: Sample, wanted: float) -> float:
    thresholds, recalls, _ = _reached(sample)
    return float(thresholds[np.argmax(recalls >= wanted - ROUNDING)])


def rule_for(
    sample: Sample,
    *,
    recall: float | None = None,
    precision: float | None = None,
) -> Rule:
    """Choose the threshold of the positive class for a wanted recall or precision.

    Parameters
    ----------
    sample : Sample
        Held-out predictions of two classes.
    recall : float, optional
        The largest threshold with at least this recall is chosen.
    precision : float, optional
        The threshold with the largest recall among those with at least this precision is chosen.
        Pass either `recall` or `precision`.
    """
    if (recall is None) == (precision is None):
        raise InputError("Pass either recall or precision.")
    name, wanted = ("recall", recall) if recall is not None else ("precision", precision)
    assert wanted is not None
    if not 0 < wanted <= 1:
        raise InputError(f"{name} must be above 0 and at most 1; got {wanted:g}.")
    place = sample.positive
    if place is None:
        raise InputError(f"A threshold needs two classes; there are {len(sample.classes)}.")
    if not sample.counts[place]:
        raise InputError(f"No held-out row is of the positive class '{sample.classes[place]}'.")
    thresholds, _, precisions = _reached(sample)
    if recall is not None:
        threshold = _at_recall(sample, recall)
    else:
        enough = np.flatnonzero(precisions >= wanted - ROUNDING)
        if not len(enough):
            raise InputError(
                f"No threshold has a precision of {wanted:g}; the highest precision on held-out "
                f"rows is {precisions.max():.3f}."
            )
        threshold = float(thresholds[enough[-1]])
    text = f"the threshold for a {name} of at least {wanted:g}"
    return Rule.from_threshold(text, threshold, place)


def roc(sample: Sample, place: int) -> Curve | None:
    """False positive rates and recalls of a class; None if a side has no rows."""
    is_class = sample.y == place
    if is_class.all() or not is_class.any():
        return None
    others, recalls, _ = roc_curve(
        is_class, sample.probabilities[:, place], sample_weight=sample.weights
    )
    return others, recalls


def precision_recall(sample: Sample, place: int) -> Curve:
    """Recalls and precisions of a class, without the point at recall 0."""
    precisions, recalls, _ = precision_recall_curve(
        sample.y == place, sample.probabilities[:, place], sample_weight=sample.weights
    )
    return recalls[:-1], precisions[:-1]


def calibration(sample: Sample) -> CalibrationCurve:
    """Compare predicted probabilities with observed fractions.

    With two classes, the probability is that of the positive class; with more, that of the most
    probable class, and the observed fraction is its accuracy.
    """
    shares, y = sample.probabilities, sample.y
    if sample.positive is None:
        predicted, hit = shares.max(axis=1), shares.argmax(axis=1) == y
    else:
        predicted, hit = shares[:, sample.positive], y == sample.positive
    order = np.argsort(predicted, kind="stable")
    spread = np.cumsum((predicted * (1 - predicted))[order] + 1e-9)
    place = np.empty(len(predicted), dtype=np.intp)
    place[order] = np.minimum(N_BINS * (spread - spread[0]) / spread[-1], N_BINS - 1)
    first = np.searchsorted(predicted[order], predicted)  # equal probabilities share a group
    place = place[order][first]
    weights = sample.base
    groups = [np.flatnonzero(place == each) for each in np.unique(place)]
    observed = np.array([np.average(hit[group], weights=weights[group]) for group in groups])
    n_rows = np.array([len(group) for group in groups])
    slope, intercept = _slope(predicted, hit, sample)
    low, high = wilson(observed, n_rows)
    return CalibrationCurve(
        predicted=np.array([np.average(predicted[g], weights=weights[g]) for g in groups]),
        observed=observed,
        low=low,
        high=high,
        n_rows=n_rows,
        slope=slope,
        intercept=intercept,
    )


def _slope(
    predicted: NDArray[Any], hit: NDArray[np.bool_], sample: Sample
) -> tuple[Interval, Interval]:
    """Fit the slope, and the intercept if the slope is 1, with robust standard errors of units."""
    logits = np.log(np.clip(predicted, 1e-7, 1 - 1e-7))
    logits -= np.log1p(-np.clip(predicted, 1e-7, 1 - 1e-7))
    ones = np.ones_like(logits)
    both = _logistic(np.column_stack([ones, logits]), np.zeros_like(logits), hit, sample)
    alone = _logistic(ones[:, None], logits, hit, sample)
    return both[1], alone[0]


def _logistic(
    X: NDArray[Any], offset: NDArray[Any], hit: NDArray[np.bool_], sample: Sample
) -> list[Interval]:
    """Fit a logistic regression by Newton's method; NaN if it has no finite solution."""
    unknown = [Interval(np.nan, np.nan, np.nan)] * X.shape[1]
    if hit.all() or not hit.any() or np.linalg.matrix_rank(X - X[0]) < X.shape[1] - 1:
        return unknown
    weights, beta = sample.base, np.zeros(X.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(X @ beta + offset, -35, 35)))
        curvature = (X * (weights * p * (1 - p))[:, None]).T @ X
        gradient = (weights * (hit - p)) @ X
        if np.linalg.cond(curvature) > 1 / FLAT:
            return unknown
        step = np.linalg.solve(curvature, gradient)
        beta += np.clip(step, -3, 3)
        if np.abs(step).max() < FLAT:
            break
    else:
        return unknown
    scores = np.zeros((sample.units.max() + 1, X.shape[1]))
    np.add.at(scores, sample.units, X * (weights * (hit - p))[:, None])
    inverse = np.linalg.inv(curvature)
    reach = 1.96 * np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))
    return [
        Interval(float(b), float(b - r), float(b + r)) for b, r in zip(beta, reach, strict=True)
    ]


def decision_curve(sample: Sample) -> DecisionCurve | None:
    """Compute the net benefit by the threshold: true alarms minus the price of false ones.

    At a threshold t, a false alarm costs t / (1 - t) of what a found case gains. None with more
    than two classes.
    """
    place = sample.positive
    if place is None or not sample.counts.all():
        return None
    weights, is_case = sample.base / sample.base.sum(), sample.y == place
    share = float(weights[is_case].sum())
    end = min(0.99, max(3 * share, float(np.quantile(sample.probabilities[:, place], 0.99))))
    thresholds = np.linspace(0, end, 100)
    called = sample.probabilities[:, place, None] >= thresholds
    odds = thresholds / (1 - thresholds)
    found, false = (weights * is_case) @ called, (weights * ~is_case) @ called
    return DecisionCurve(thresholds, found - odds * false, share - odds * (1 - share))


def thresholds_to_store(points: Sequence[OperatingPoint]) -> list[dict[str, float]]:
    """Convert thresholds for the model file."""
    return [
        {
            "wanted": each.wanted,
            "threshold": each.threshold,
            "recall": each.recall.value,
            "low": each.recall.low,
            "high": each.recall.high,
        }
        for each in points
    ]
