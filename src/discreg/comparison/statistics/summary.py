"""The table of a comparison: one row per model."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from discreg.base.metrics import METRICS
from discreg.base.metrics import metric as metric_called
from discreg.comparison.candidates.contender import MAJORITY

from .contrasts import Contrasts
from .evidence import Evidence
from .judged import scores_by_block

__all__ = ["summary_table"]

TIMES = ("fit_seconds", "predict_seconds")
SCORE = ("mean", "low", "high")
DIFFERENCE = ("difference", "difference_low", "difference_high")
PROBABILITIES = ("p_better", "p_equivalent", "p_worse")
LAST = ("n_scores", "reason")


def summary_table(evidence: Evidence) -> pd.DataFrame:
    """Summarise a comparison, one row per model.

    Parameters
    ----------
    evidence : Evidence
        Scores of the folds.

    Returns
    -------
    DataFrame
        Indexed by model, the best first; models that are not judged are at the end, in order of
        simplicity.

        - ``mean``, ``low``, ``high`` : the metric that decides, over the folds that all judged
          models have, and its 95 % interval.
        - ``difference``, ``difference_low``, ``difference_high`` : score minus the score of the
          best model, and its 95 % interval.
        - ``p_better``, ``p_equivalent``, ``p_worse`` : probabilities that the model is better than
          the best by more than the region of practical equivalence, differs less, or is worse by
          more than that.
        - One column per reported metric: the mean over the same folds.
        - ``fit_seconds``, ``predict_seconds`` : medians over the same folds.
        - ``origin``, ``parameters`` : where the model comes from, and the parameters that were
          selected most often.
        - ``n_scores`` : number of scores behind the mean.
        - ``reason`` : why the model is not judged; empty if it is.
    """
    contrasts = Contrasts(evidence)
    judged = contrasts.judged
    ranked = [*contrasts.order, *([MAJORITY] if contrasts.has_majority else [])]
    means = contrasts.means(evidence.metric).round(12)
    ranked = sorted(ranked, key=lambda model: -means[model])
    rows = {model: _compared(contrasts, model) for model in ranked}
    place = {name: each.place for name, each in evidence.contenders.items()}
    last = sorted(judged.not_judged, key=lambda model: place.get(model, len(place)))
    rows |= {model: {} for model in last}
    first = [*SCORE, *DIFFERENCE, *PROBABILITIES]
    table = pd.DataFrame.from_dict(rows, orient="index").reindex(columns=[*first, *LAST])
    table.index.name = "model"
    reported = _reported(evidence)
    for metric in reported:
        scores = scores_by_block(evidence, metric, judged.fits)
        average = scores.median() if metric in TIMES else scores.mean()
        table[metric] = average.reindex(table.index)
    origins = {name: each.origin for name, each in evidence.contenders.items()}
    table["origin"] = [origins.get(model, "") for model in table.index]
    table["parameters"] = [_most_frequent(evidence, model) for model in table.index]
    table["reason"] = [judged.not_judged.get(model, "") for model in table.index]
    table["n_scores"] = table["n_scores"].fillna(0).astype(int)
    return table[[*first, *reported, "origin", "parameters", *LAST]]


def _compared(contrasts: Contrasts, model: str) -> dict[str, float]:
    """Compute the score of a model and its difference from the first model."""
    kind = metric_called(contrasts.evidence.metric)
    sign = -1 if kind.lower_is_better else 1
    score = contrasts.score(model)
    best = contrasts.order[0] if contrasts.order else model
    ends = np.array(_ends(sign * score.mean, score.half_width))
    row = {
        **dict(zip(SCORE, ends.clip(0, 1) if kind.is_share else ends, strict=True)),
        "n_scores": len(contrasts.judged.scores),
    }
    if model == best:
        own = dict.fromkeys(DIFFERENCE, 0.0)
        return {**row, **own, "p_better": 0.0, "p_equivalent": 1.0, "p_worse": 0.0}
    lead = contrasts.difference(model, best)
    return {
        **row,
        **dict(zip(DIFFERENCE, _ends(sign * lead.mean, lead.half_width), strict=True)),
        "p_better": lead.above(kind.rope),
        "p_equivalent": lead.within(kind.rope),
        "p_worse": lead.below(-kind.rope),
    }


def _ends(middle: float, half_width: float) -> tuple[float, float, float]:
    return middle, middle - half_width, middle + half_width


def _reported(evidence: Evidence) -> list[str]:
    """List the metrics of the results: those of the registry first, times last."""
    there = dict.fromkeys(evidence.results["metric"])
    known = [name for name in METRICS if name in there and name not in TIMES]
    others = [name for name in there if name not in METRICS]
    return [*known, *others, *(name for name in TIMES if name in there)]


def _most_frequent(evidence: Evidence, model: str) -> str:
    """Find the parameters that were selected most often; ties go to the first fold."""
    counts = Counter(evidence.params.get(model, ()))
    return counts.most_common(1)[0][0] if counts else ""
