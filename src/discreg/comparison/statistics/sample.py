"""Probabilities of rows that a model has not seen, and every number that follows from them.

All scores, labels, intervals and curves of a comparison and of an evaluation are computed here or
by functions that take a `Sample`, so that equal numbers have one origin.

References
----------
C. Nadeau and Y. Bengio, "Inference for the Generalization Error", Machine Learning 52, 2003.

E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", Journal of
the American Statistical Association 22, 1927.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse, stats

from discreg.base.metrics import area_under_curve, ratio
from discreg.base.metrics import metric as metric_called
from discreg.tables.classifier import Rule

LEVEL = 0.05
MIN_FOLDS = 3  # with fewer scores, their spread is not known
N_SAMPLES, MIN_SAMPLES = 500, 100
MOST_PREDICTIONS = 1e9  # drawn in all bootstrap samples together
MOST_WEIGHTS = 5e6  # weights of rows that are in memory at once
ROUNDING = 1e-12
SMALLEST = float(np.finfo(np.float32).eps)  # probability, in the logarithm of the log-loss
Weights = NDArray[np.float64]  # of shape (n_predictions, n_samples)
Scorer = Callable[[Weights], NDArray[np.float64]]


class Interval(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


class Proportion(NamedTuple):
    """A fraction of rows and its 95 % interval."""

    value: float
    low: float
    high: float
    hits: int
    total: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Predicted probabilities of one model for rows that it was not fitted to.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Class labels.
    y : ndarray of shape (n,)
        Class indices.
    probabilities : ndarray of shape (n, n_classes)
    rule : Rule
        How labels follow from probabilities.
    rows : ndarray of shape (n,)
        Position of each row in its table.
    folds : ndarray of shape (n,) or None
        Fold whose model predicts each row; None if one model predicts all.
    test_to_train : float
        Ratio of the sizes of a test set and its training set.
    weights, groups : ndarray of shape (n,) or None
        Sample weights, and groups of rows that are drawn together.
    """

    classes: NDArray[Any]
    y: NDArray[np.intp]
    probabilities: NDArray[np.float64]
    rule: Rule
    rows: NDArray[np.intp]
    folds: NDArray[np.intp] | None = None
    test_to_train: float = 0.0
    weights: NDArray[np.float64] | None = None
    groups: NDArray[np.intp] | None = None

    @cached_property
    def labels(self) -> NDArray[np.intp]:
        """Predicted class indices, by the decision rule."""
        return self.rule.labels(self.probabilities)

    @cached_property
    def units(self) -> NDArray[np.intp]:
        """Number of the independent unit of each row: its group, or the row itself."""
        return np.asarray(pd.factorize(self.rows if self.groups is None else self.groups)[0])

    @property
    def counts(self) -> NDArray[np.intp]:
        """Number of rows of each class."""
        return np.bincount(self.y, minlength=len(self.classes))

    @property
    def rarest(self) -> int:
        """Index of the rarest class that there is."""
        counts = self.counts
        return int(np.argmin(np.where(counts > 0, counts, counts.sum() + 1)))

    @property
    def positive(self) -> int | None:
        """With two classes, index of the positive one."""
        return self.rule.positive

    @cached_property
    def losses(self) -> dict[str, NDArray[np.float64]]:
        """Log-loss and Brier score of each row; with two classes, the latter is of one class."""
        shares, n = self.probabilities, len(self.y)
        squares = ((shares - np.eye(len(self.classes))[self.y]) ** 2).sum(axis=1)
        own = np.clip(shares[np.arange(n), self.y], SMALLEST, 1)
        return {"log_loss": -np.log(own), "brier": squares / (2 if len(self.classes) == 2 else 1)}

    @cached_property
    def confusion(self) -> NDArray[np.intp]:
        """Rows of each class (rows) that are labelled as each class (columns)."""
        n_classes = len(self.classes)
        cells = np.bincount(self.y * n_classes + self.labels, minlength=n_classes**2)
        return cells.reshape(n_classes, n_classes)

    def scorer(self, metric: str, rule: Rule | None = None) -> Scorer | None:
        """Make the function that computes a metric for several weights of the rows.

        None if the metric does not follow from probabilities. Labels follow `rule`, by default
        that of the sample.
        """
        if metric in self.losses:
            return lambda weights: ratio(self.losses[metric] @ weights, weights.sum(axis=0))
        if metric == "roc_auc":
            return self._areas
        if metric == "average_precision" and self.positive is not None:
            return self._average_precision
        score = metric_called(metric).score
        if score is None:
            return None
        labels = self.labels if rule is None else rule.labels(self.probabilities)
        n_classes, n = len(self.classes), len(self.y)
        of_cell = sparse.csr_array(
            (np.ones(n), (self.y * n_classes + labels, np.arange(n))), shape=(n_classes**2, n)
        )
        return lambda weights: score((of_cell @ weights).T.reshape(-1, n_classes, n_classes))

    def score(self, metric: str) -> float:
        """Compute a metric; NaN if it does not follow from probabilities or is undefined."""
        scorer = self.scorer(metric)
        return np.nan if scorer is None else float(scorer(self.base[:, None])[0])

    @property
    def overlap(self) -> float:
        """Factor of a standard error over rows that corrects for overlapping training sets.

        Stratified folds hardly differ in the score of a nearly constant model, so that their
        spread does not show how much the fitted models differ; see `benchmarks/verdicts.py`.
        """
        if self.folds is None:
            return 1.0
        return float(np.sqrt(1 + len(np.unique(self.folds)) * self.test_to_train))

    @property
    def base(self) -> NDArray[np.float64]:
        """Weights of the rows."""
        return np.ones(len(self.y)) if self.weights is None else self.weights

    @property
    def fold_weights(self) -> Weights:
        """Weights of the rows in each fold, one column per fold."""
        assert self.folds is not None
        return np.asarray(self.base[:, None] * (self.folds[:, None] == np.unique(self.folds)))

    def drawn(self, seed: int = 0) -> Iterator[Weights]:
        """Yield how often each row is drawn in bootstrap samples of units, some at a time."""
        rng = np.random.default_rng(seed)
        n_units, n = int(self.units.max()) + 1, len(self.y)
        n_samples = int(np.clip(MOST_PREDICTIONS / n, MIN_SAMPLES, N_SAMPLES))
        size = max(1, int(MOST_WEIGHTS / n))
        for start in range(0, n_samples, size):
            n_here = min(size, n_samples - start)
            counts = np.empty((n_here, n))
            for each in counts:
                drawn = rng.integers(n_units, size=n_units)
                each[:] = np.bincount(drawn, minlength=n_units)[self.units]
            yield np.ascontiguousarray(counts.T)

    def interval(self, metric: str) -> Interval:
        """Compute a metric with its interval, or NaN if it is undefined.

        The interval is the wider one of the bootstrap of units and of the interval of the folds,
        both corrected for overlapping training sets (Nadeau and Bengio, 2003).
        """
        scorer = self.scorer(metric)
        if scorer is None or np.isnan(value := self.score(metric)):
            return Interval(np.nan, np.nan, np.nan)
        drawn = [scorer(self.base[:, None] * each) for each in self.drawn()]
        reach = stats.norm.isf(LEVEL / 2) * np.nanstd(np.concatenate(drawn), ddof=1)
        reach *= self.overlap
        if self.folds is not None:
            each = scorer(self.fold_weights)
            scale, df = corrected_scale(each, self.test_to_train)
            reach = max(reach, scale * stats.t.isf(LEVEL / 2, df) if df else 0.0)
        return self.bounded(metric, value, reach)

    def bounded(self, metric: str, value: float, reach: float) -> Interval:
        """Form an interval that stays within the range of the metric; NaN without a width."""
        low, high = value - reach, value + reach
        is_share = metric_called(metric).is_share
        if not np.isfinite(value) or not (is_share or reach > ROUNDING):
            return Interval(value, np.nan, np.nan)
        if is_share:
            units = pd.Series(self.units).groupby(self.y).nunique()
            n = units.sum() if metric == "accuracy" else units.min()
            wide = wilson(value, n)
            return Interval(value, max(min(low, wide[0]), 0.0), min(max(high, wide[1]), 1.0))
        return Interval(value, max(low, 0.0) if metric in self.losses else low, high)

    def proportion(self, hits: NDArray[np.bool_], among: NDArray[np.bool_]) -> Proportion:
        """Compute the fraction of some rows that are hits, with Wilson's interval.

        The number of rows is divided by the design effect of the groups, if that is above 1.
        """
        total, count = int(among.sum()), int((hits & among).sum())
        if not total:
            return Proportion(np.nan, np.nan, np.nan, 0, 0)
        weights = self.base * among
        value = float((weights * hits).sum() / weights.sum())
        n = weights.sum() ** 2 / (weights**2).sum()
        deviations = np.bincount(self.units, weights * (hits - value))
        spread, usual = (deviations**2).sum() / weights.sum() ** 2, value * (1 - value) / n
        if spread > usual > 0:
            n *= usual / spread
        elif usual == 0:
            n = min(n, len(np.unique(self.units[among])))
        return Proportion(value, *wilson(value, n), count, total)

    def select(self, kept: NDArray[np.bool_]) -> Sample:
        """Return some of the rows."""

        def part(values: NDArray[Any] | None) -> Any:
            return None if values is None else values[kept]

        return Sample(
            classes=self.classes,
            y=self.y[kept],
            probabilities=self.probabilities[kept],
            rule=self.rule,
            rows=self.rows[kept],
            folds=part(self.folds),
            test_to_train=self.test_to_train,
            weights=part(self.weights),
            groups=part(self.groups),
        )

    def _areas(self, weights: Weights) -> NDArray[np.float64]:
        """Compute the AUC of rows of the same fold; for several classes, the mean of all.

        Each class is compared with the others. Folds count by their number of pairs.
        """
        folds = np.zeros(len(self.y)) if self.folds is None else self.folds
        places = [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
        n_classes = len(self.classes)
        wanted = range(n_classes) if self.positive is None else [self.positive]
        areas = []
        for label in wanted:
            won = np.zeros(weights.shape[1])
            pairs = np.zeros(weights.shape[1])
            for here in places:
                is_class, drawn = self.y[here] == label, weights[here]
                area = area_under_curve(self.probabilities[here, label], is_class, drawn)
                of_class = drawn[is_class].sum(axis=0)
                n_pairs = of_class * (drawn.sum(axis=0) - of_class)
                won += np.nan_to_num(area) * n_pairs
                pairs += n_pairs
            areas.append(ratio(won, pairs))
        return np.asarray(np.mean(areas, axis=0))

    def _average_precision(self, weights: Weights) -> NDArray[np.float64]:
        values = self.probabilities[:, self.positive]
        order = np.argsort(-values, kind="stable")
        ends = np.flatnonzero(np.diff(values[order], append=-np.inf))  # equal values go together
        is_positive = (self.y == self.positive)[order, None]
        called = np.cumsum(weights[order], axis=0)[ends]
        found = np.cumsum(weights[order] * is_positive, axis=0)[ends]
        precision = found / np.where(called > 0, called, 1)
        return ratio((precision * np.diff(found, axis=0, prepend=0)).sum(axis=0), found[-1])


def wilson(share: Any, n: Any) -> tuple[Any, Any]:
    """Compute Wilson's 95 % interval of a fraction of n rows."""
    z = stats.norm.isf(LEVEL / 2)
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return centre - reach, centre + reach


def corrected_scale(values: Any, test_to_train: float) -> tuple[float, int]:
    """Compute the standard error of the mean over folds, and its degrees of freedom.

    The training sets overlap, so that the variance of the values is multiplied by 1/n + ρ, with
    the ratio ρ of the sizes of a test set and its training set. (0, 0) with too few values.
    """
    each = np.asarray(values, dtype=np.float64)
    each = each[~np.isnan(each)]
    if len(each) < MIN_FOLDS:
        return 0.0, 0
    return float(each.std(ddof=1) * np.sqrt(1 / len(each) + test_to_train)), len(each) - 1
