"""Scores of the judged models, their differences, and what the choice of the best one costs.

The model with the best score of many has a score that is too good, because it was selected by the
same rows. Each bootstrap sample selects a model by the rows that were drawn, and scores it by those
that were not: the mean of these scores estimates the score of the selected model.

References
----------
I. Tsamardinos, E. Greasidou and G. Borboudakis, "Bootstrapping the out-of-sample predictions for
efficient and accurate cross-validation", Machine Learning 107, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from discreg.base.metrics import METRICS
from discreg.base.metrics import metric as metric_called
from discreg.comparison.candidates.registry import MAJORITY
from discreg.comparison.running.scoring import MEASURED
from discreg.tables.classifier import Rule

from .evidence import Evidence
from .sample import LEVEL, MIN_FOLDS, N_SAMPLES, ROUNDING, corrected_scale

ROPE = 0.01  # smaller differences are practically equivalent; of a loss, see `Scores.rope`


class Posterior(NamedTuple):
    """Student's t-distribution of a score or of a difference: location, scale and freedom."""

    mean: float
    scale: float
    df: float

    def above(self, value: float) -> float:
        """Compute the probability of a larger value."""
        if self.scale == 0:
            return float(self.mean > value)
        return float(stats.t.sf((value - self.mean) / self.scale, self.df))

    def within(self, reach: float) -> float:
        """Compute the probability of a value between -reach and reach."""
        return max(0.0, self.above(-reach) - self.above(reach))

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval."""
        return self.scale * float(stats.t.isf(LEVEL / 2, self.df)) if self.scale else 0.0


def equivalence(metric: str) -> str:
    """Say which differences are practically equivalent; see `Scores.rope`."""
    if metric_called(metric).lower_is_better:
        return "1 % of that of the class frequencies"
    return f"{ROPE:g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Scores of the judged models by one metric; larger is better.

    Attributes
    ----------
    metric : str
    models : list of str
        The judged models, the majority class included.
    whole : ndarray of shape (n_models,)
        Scores of all held-out rows.
    folds : ndarray of shape (n_folds, n_models)
        Scores of the folds; NaN if undefined.
    drawn, rest : ndarray of shape (n_bootstrap, n_models)
        Scores of the rows that were drawn, and of the other rows.
    fold_drawn : ndarray of shape (n_bootstrap, n_models)
        Scores of bootstrap samples of folds.
    test_to_train : float
        Ratio of the sizes of a test set and its training set.
    """

    metric: str
    models: list[str]
    whole: NDArray[np.float64]
    folds: NDArray[np.float64]
    drawn: NDArray[np.float64]
    rest: NDArray[np.float64]
    fold_drawn: NDArray[np.float64]
    test_to_train: float

    @property
    def ranked(self) -> list[str]:
        """The models without the majority class, the best first; ties keep the given order."""
        order = np.argsort(-self.whole.round(12), kind="stable")
        return [self.models[place] for place in order if self.models[place] != MAJORITY]

    @property
    def rope(self) -> float:
        """Region of practical equivalence; of a loss, a fraction of that of the class frequencies.

        Losses are small for rare classes, and so are differences that matter.
        """
        if metric_called(self.metric).lower_is_better and MAJORITY in self.models:
            return ROPE * abs(float(self.whole[self.models.index(MAJORITY)]))
        return ROPE

    def by_rows(self, model: str, other: str | None = None) -> Posterior:
        """Compute the posterior of a score or of a lead by the bootstrap over rows or groups."""
        mean, drawn = self._of(self.whole, model, other), self._of(self.drawn, model, other)
        scale = float(np.nanstd(drawn, ddof=1))
        return Posterior(float(mean), scale if scale > ROUNDING else 0.0, np.inf)

    def score(self, model: str, overlap: float) -> Posterior:
        """Compute the posterior of the score of a model; see `Sample.overlap`."""
        by_rows = self.by_rows(model)
        return self._wider(by_rows._replace(scale=overlap * by_rows.scale), model, None)

    def lead(self, model: str, other: str) -> Posterior:
        """Compute the posterior of the lead of a model over another."""
        return self._wider(self.by_rows(model, other), model, other)

    def _wider(self, by_rows: Posterior, model: str, other: str | None) -> Posterior:
        """Return the wider one of the posteriors over rows and over folds, which is corrected."""
        scale, df = corrected_scale(self._of(self.folds, model, other), self.test_to_train)
        if not df or scale <= ROUNDING:
            return by_rows
        by_folds = Posterior(by_rows.mean, scale, df)
        return max(by_rows, by_folds, key=lambda each: each.half_width)

    def optimism(self, model: str, chosen: NDArray[np.intp]) -> float:
        """Estimate by how much the score of a model is too good because it was selected.

        `chosen` is the position of the model that each bootstrap sample selects.
        """
        selected = self.rest[np.arange(len(chosen)), chosen]
        if not np.isfinite(selected).any():
            return 0.0
        return max(0.0, float(self.whole[self.models.index(model)] - np.nanmean(selected)))

    def _of(
        self, values: NDArray[np.float64], model: str, other: str | None
    ) -> NDArray[np.float64]:
        own = values[..., self.models.index(model)]
        return own if other is None else own - values[..., self.models.index(other)]


def score_models(evidence: Evidence, metric: str, rule: Rule | None = None) -> Scores:
    """Score the judged models on the common folds, and on bootstrap samples of them.

    All models have the same bootstrap samples. A metric that does not follow from held-out
    probabilities has its fold scores only, and folds are drawn instead of rows.

    Parameters
    ----------
    evidence : Evidence
        Held-out predictions.
    metric : str
        Name of the metric.
    rule : Rule, optional
        How labels follow from probabilities, by default the rule of the comparison.
    """
    models = evidence.judged
    sign = -1.0 if metric_called(metric).lower_is_better else 1.0
    samples = [evidence.sample(name) for name in models]
    first = samples[0]
    scorers = [sample.scorer(metric, rule) for sample in samples]
    rng = np.random.default_rng(1)
    n_folds = len(evidence.common_folds)
    counts = rng.multinomial(n_folds, np.full(n_folds, 1 / n_folds), size=N_SAMPLES)
    known = [each for each in scorers if each is not None]
    if len(known) < len(scorers):
        folds = sign * np.column_stack(
            [
                np.asarray(evidence.contenders[name].fold_scores)[evidence.common_folds]
                for name in models
            ]
        )
        drawn, whole = counts @ folds / n_folds, folds.mean(axis=0)
        return Scores(
            metric=metric,
            models=models,
            whole=whole,
            folds=folds,
            drawn=drawn,
            rest=2 * whole - drawn,  # its expected value given the drawn score
            fold_drawn=drawn,
            test_to_train=evidence.test_to_train,
        )
    base = first.base[:, None]

    def score(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return sign * np.column_stack([each(weights) for each in known])

    fold_weights = first.fold_weights
    of_drawn, of_rest = [], []
    for each in first.drawn():
        of_drawn.append(score(base * each))
        of_rest.append(score(base * (each == 0)))
    n_samples = sum(map(len, of_drawn))
    by_fold = [score(fold_weights @ part.T) for part in np.array_split(counts[:n_samples], 5)]
    return Scores(
        metric=metric,
        models=models,
        whole=score(base)[0],
        folds=score(fold_weights),
        drawn=np.vstack(of_drawn),
        rest=np.vstack(of_rest),
        fold_drawn=np.vstack(by_fold),
        test_to_train=evidence.test_to_train,
    )


def enough_folds(evidence: Evidence) -> bool:
    """Return whether the models have as many common folds as are needed, or as were planned."""
    return len(evidence.common_folds) >= min(evidence.n_folds, MIN_FOLDS)


def summary_table(evidence: Evidence) -> pd.DataFrame:
    """Summarise a comparison, one row per model.

    Returns
    -------
    DataFrame
        Indexed by model, the best first; models that are not judged are at the end.

        - ``mean``, ``low``, ``high`` : the metric that decides, on the folds that all judged models
          have, and its 95 % interval.
        - ``difference``, ``difference_low``, ``difference_high`` : score minus the score of the
          best model, and its 95 % interval.
        - ``p_better``, ``p_equivalent`` : probabilities that the best model is better, and that the
          difference is within the region of practical equivalence.
        - One column per metric. Those of labels follow the decision rule of the comparison.
        - ``fit_seconds``, ``predict_seconds`` : medians over the folds.
        - ``origin``, ``parameters`` : where the model comes from, and the parameters that were
          selected most often.
        - ``reason`` : why the model is not judged; empty if it is.
    """
    rows = {}
    if evidence.judged:
        rows = _judged(evidence)
    rows |= {name: {"reason": why} for name, why in evidence.not_judged.items()}
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "model"
    for name, each in evidence.contenders.items():
        if name in table.index:
            table.loc[name, ["fit_seconds", "predict_seconds"]] = each.seconds
            table.loc[name, ["origin", "parameters"]] = [each.origin, each.usual_params]
    texts = ["origin", "parameters", "reason"]
    table = table.reindex(columns=dict.fromkeys([*table, *texts]))
    table[texts] = table[texts].fillna("").astype(object)
    return table


def _judged(evidence: Evidence) -> dict[str, dict[str, object]]:
    scores = score_models(evidence, evidence.metric)
    kind = metric_called(evidence.metric)
    sign = -1 if kind.lower_is_better else 1
    order = np.argsort(-scores.whole.round(12), kind="stable")
    best = scores.ranked[0] if scores.ranked else MAJORITY
    measured = [name for name in METRICS if name in MEASURED]
    rows: dict[str, dict[str, object]] = {}
    for name in (scores.models[place] for place in order):
        sample = evidence.sample(name)
        own = scores.score(name, sample.overlap)
        interval = sample.bounded(evidence.metric, sign * own.mean, own.half_width)
        row: dict[str, object] = dict(zip(("mean", "low", "high"), interval, strict=True))
        ends = (0.0, 0.0, 0.0)
        p_better, p_equivalent = 0.0, 1.0
        if name != best:
            lead = scores.lead(best, name)
            gap, reach = -sign * lead.mean, lead.half_width
            ends = gap, gap - reach, gap + reach
            p_better, p_equivalent = lead.above(0), lead.within(scores.rope)
        row |= dict(zip(("difference", "difference_low", "difference_high"), ends, strict=True))
        row |= {"p_better": p_better, "p_equivalent": p_equivalent}
        row |= {each: sample.score(each) for each in measured}
        rows[name] = row | {"reason": ""}
    return rows
