"""Posteriors of scores and of their differences: the Bayesian correlated t-test.

References
----------
C. Nadeau and Y. Bengio, "Inference for the Generalization Error", Machine Learning 52, 2003.

A. Benavoli, G. Corani, J. Demšar and M. Zaffalon, "Time for a Change: a Tutorial for Comparing
Multiple Classifiers Through Bayesian Analysis", Journal of Machine Learning Research 18, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from discreg.base.metrics import metric as metric_called
from discreg.comparison.candidates.contender import MAJORITY

from .evidence import Evidence
from .judged import judge, scores_by_block
from .resampling import Resampled, resample_folds, resample_rows

__all__ = ["MIN_BLOCKS", "Contrasts", "Posterior", "correlated_t", "correlated_t_test"]

LEVEL = 0.05
MIN_BLOCKS = 3  # with fewer scores, their spread is not known
ROUNDING = 1e-12


@dataclass(frozen=True)
class Posterior:
    """Student's t-distribution of a mean: location, scale and degrees of freedom."""

    mean: float
    scale: float
    df: float

    def above(self, value: float) -> float:
        """Compute the probability of a larger value."""
        if self.scale == 0:
            return float(self.mean > value)
        return float(stats.t.sf((value - self.mean) / self.scale, self.df))

    def below(self, value: float) -> float:
        """Compute the probability of a smaller value."""
        return Posterior(-self.mean, self.scale, self.df).above(-value)

    def within(self, reach: float) -> float:
        """Compute the probability of a value between -reach and reach."""
        return max(0.0, 1 - self.above(reach) - self.below(-reach))

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval."""
        return self.scale * float(stats.t.isf(LEVEL / 2, self.df)) if self.scale else 0.0


def correlated_t(values: ArrayLike, test_to_train: float) -> Posterior:
    """Compute the posterior of the mean score of a model.

    Parameters
    ----------
    values : array-like of shape (n,)
        At least two values, one per fold.
    test_to_train : float
        Ratio ρ of the sizes of a test set and its training set.

    Returns
    -------
    Posterior
        Student's t-distribution with n - 1 degrees of freedom around the mean. The square of its
        scale is (1/n + ρ) times the variance of the values, because the training sets overlap. Its
        95 % interval is the corrected confidence interval of Nadeau and Bengio (2003).
    """
    each = np.asarray(values, dtype=np.float64)
    n, mean, spread = len(each), float(each.mean()), float(each.std(ddof=1))
    if spread <= ROUNDING * max(1.0, abs(mean)):
        spread = 0.0
    return Posterior(mean, spread * float(np.sqrt(1 / n + test_to_train)), n - 1)


def correlated_t_test(differences: ArrayLike, test_to_train: float) -> Posterior:
    """Compute the posterior of the mean difference of two models, as `correlated_t` does.

    Equal differences that are not zero have no spread, but the next one may be another. Their
    spread is taken to be as large as they are.
    """
    found = correlated_t(differences, test_to_train)
    if found.scale > 0 or abs(found.mean) <= ROUNDING:
        return found
    return Posterior(
        found.mean, abs(found.mean) * np.sqrt(1 / (found.df + 1) + test_to_train), found.df
    )


class Contrasts:
    """Posteriors of scores and of their differences.

    The spread between folds gives the posterior, corrected for overlapping training sets. If there
    are fewer than three folds by plan, as with one test set, or if scores are of whole repeats,
    the bootstrap of held-out rows gives the posterior instead.

    Attributes
    ----------
    judged : JudgedScores
        Models and scores that are compared.
    order : list of str
        Judged models without the majority class, the best first. Ties go to the simplest.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.judged = judge(evidence)
        means = self.means(evidence.metric).round(12)  # rounding errors must not break ties
        place = {name: each.place for name, each in evidence.contenders.items()}
        self.order = sorted(
            self.judged.models, key=lambda name: (-means[name], place.get(name, len(place)))
        )
        self._resampled: dict[str, Resampled] = {}

    @property
    def by_rows(self) -> bool:
        """Whether the bootstrap of rows gives the posteriors."""
        planned = self.evidence.n_folds * self.evidence.n_repeats
        return planned < MIN_BLOCKS or self.judged.by_repeat

    @cached_property
    def has_spread(self) -> bool:
        """Whether the uncertainty of differences can be estimated."""
        if self.by_rows:
            return self._rows(self.evidence.metric) is not None
        return len(self.judged.scores) >= MIN_BLOCKS

    def means(self, metric: str) -> pd.Series:
        """Compute the mean score of each judged model; larger is better."""
        return self._scores(metric).mean()

    def score(self, model: str) -> Posterior:
        """Compute the posterior of the score of a model; larger is better."""
        values = self._scores(self.evidence.metric)[model]
        if not self.has_spread:
            return Posterior(float(values.mean()), np.nan, 1)
        if self.by_rows:
            return self._by_rows(float(values.mean()), self.evidence.metric, model, None)
        return correlated_t(values, self.evidence.test_to_train)

    def difference(self, model: str, other: str, metric: str | None = None) -> Posterior:
        """Compute the posterior of the lead of a model over another; larger is better."""
        name = metric or self.evidence.metric
        scores = self._scores(name)
        values = (scores[model] - scores[other]).dropna()
        if not self.has_spread:
            return Posterior(float(values.mean()), np.nan, 1)
        if self.by_rows:
            return self._by_rows(float(values.mean()), name, model, other)
        found = correlated_t_test(values, self.evidence.test_to_train)
        if np.ptp(values) <= ROUNDING < abs(found.mean) and (rows := self._rows(name)) is not None:
            # Equal leads of the folds have no spread; the held-out rows have one.
            scale = rows.standard_error(self._place(model), self._place(other))
            found = replace(found, scale=scale) if scale > 0 else found
        return found

    def over_majority(self, metric: str) -> Posterior:
        """Compute the posterior of the lead of the best model over the majority class.

        The lead is corrected because the model is the best of many. A model that differs from the
        majority class on a few rows has leads of the folds that are almost equal by chance. The
        scale is therefore at least the bootstrap standard error over rows.
        """
        best = self.order[0]
        lead = self.difference(best, MAJORITY, metric)
        rows, scale = self._rows(metric), lead.scale
        if rows is not None:
            scale = max(scale, rows.standard_error(self._place(best), self._place(MAJORITY)))
        return Posterior(lead.mean - self.optimism(metric), scale, lead.df)

    def optimism(self, metric: str | None = None) -> float:
        """Estimate by how much the best score is too good because it is the best of many.

        The best is selected by the metric of the comparison; `metric` is the one that scores it.
        """
        models = [self._place(model) for model in self.judged.models]
        if len(models) < 2:
            return 0.0
        name = metric or self.evidence.metric
        selection, scored = self._sampled(self.evidence.metric), self._sampled(name)
        if len(selection.drawn) == len(scored.drawn):
            found = scored.optimism(models, selection)
            if np.isfinite(found):
                return found
        return resample_folds(self.evidence, self.judged, name).optimism(models)

    def _scores(self, metric: str) -> pd.DataFrame:
        sign = -1 if metric_called(metric).lower_is_better else 1
        if metric == self.evidence.metric:
            return sign * self.judged.scores
        scores = scores_by_block(self.evidence, metric, self.judged.fits)
        return sign * scores.reindex(columns=self.judged.scores.columns)

    def _place(self, model: str) -> int:
        return list(self.judged.scores.columns).index(model)

    def _rows(self, metric: str) -> Resampled | None:
        if metric not in self._resampled:
            found = resample_rows(self.evidence, self.judged, metric)
            if found is None:
                return None
            self._resampled[metric] = found
        return self._resampled[metric]

    def _sampled(self, metric: str) -> Resampled:
        return self._rows(metric) or resample_folds(self.evidence, self.judged, metric)

    def _by_rows(self, mean: float, metric: str, model: str, other: str | None) -> Posterior:
        rows = self._rows(metric)
        if rows is None:
            return Posterior(mean, np.nan, 1)
        place = None if other is None else self._place(other)
        return Posterior(mean, rows.standard_error(self._place(model), place), np.inf)

    @property
    def has_majority(self) -> bool:
        """Whether the majority class was scored."""
        return MAJORITY in self.judged.scores
