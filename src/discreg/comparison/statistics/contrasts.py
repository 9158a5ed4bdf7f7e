"""Differences between the judged models of a comparison."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from discreg.base.metrics import metric as metric_called
from discreg.comparison.candidates.contender import MAJORITY

from .evidence import Evidence
from .judged import judge, scores_by_block
from .posterior import MIN_BLOCKS, Posterior, correlated_t, correlated_t_test
from .resampling import Resampled, resample_folds, resample_rows

__all__ = ["Contrasts"]


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
        JudgedScores models without the majority class, the best first. Ties go to the simplest.
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
        return correlated_t_test(values, self.evidence.test_to_train)

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
        if len(selection.drawn) != len(scored.drawn):
            scored = selection = resample_folds(self.evidence, self.judged, name)
        return scored.optimism(models, selection)

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
