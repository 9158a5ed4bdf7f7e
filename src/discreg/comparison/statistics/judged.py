"""Which models of a comparison are judged, and on which scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from discreg.base.metrics import metric as metric_called
from discreg.comparison.candidates.contender import MAJORITY

from .evidence import WHOLE_REPEAT, Evidence

__all__ = ["JudgedScores", "common_fits", "judge", "scores_by_block"]

BLOCK = ["repeat", "fold"]


@dataclass(frozen=True, kw_only=True)
class JudgedScores:
    """Scores of the models that are compared, on the folds that they all have.

    Attributes
    ----------
    scores : DataFrame
        Blocks (repeat and fold) in the rows and models in the columns, in order of appearance. A
        block is a fold, or a whole repeat (fold -1) if the metric is undefined on a fold.
    fits : MultiIndex
        Repeats and folds that all judged models have finished.
    not_judged : dict
        Models that are not compared, and the reasons.
    """

    scores: pd.DataFrame
    fits: pd.MultiIndex
    not_judged: dict[str, str]

    @property
    def models(self) -> list[str]:
        """Judged models without the majority class."""
        return [model for model in self.scores.columns if model != MAJORITY]

    @property
    def by_repeat(self) -> bool:
        """Whether the scores are those of whole repeats."""
        return bool((self.scores.index.get_level_values("fold") == WHOLE_REPEAT).any())


def judge(evidence: Evidence) -> JudgedScores:
    """Select the models and the folds that are compared.

    If a run stopped early, the models are compared on the folds that keep the most scores: a fold
    that few models have finished is not used.
    """
    fits = common_fits(evidence)
    scores = scores_by_block(evidence, evidence.metric, fits)
    complete = scores.dropna(axis=1)
    models = dict.fromkeys([*evidence.contenders, *evidence.results["model"]])
    not_judged = {
        model: _reason(evidence, model, fits, scores)
        for model in models
        if model not in complete.columns and model != MAJORITY
    }
    not_judged |= {name: why for name, why in evidence.left_out.items() if name not in complete}
    return JudgedScores(scores=complete, fits=fits, not_judged=not_judged)


def common_fits(evidence: Evidence) -> pd.MultiIndex:
    """Select the finished folds that maximise (number of folds) × (models that have all)."""
    reached = _finished(evidence)
    failed = {key.model for key in evidence.failures}
    unfailing = [model for model in reached.columns if model not in failed | {MAJORITY}]
    reached = reached[unfailing or list(reached.columns)]
    order = reached.sum(axis=1).sort_values(ascending=False, kind="stable").index
    together = reached.loc[order].cummin()
    kept = together.sum(axis=1).to_numpy() * np.arange(1, len(order) + 1)
    if not kept.any():
        return order[:0]
    n_judged = len(order) - int(np.argmax(kept[::-1]))  # ties go to the most folds
    return order[:n_judged].sort_values()


def scores_by_block(evidence: Evidence, metric: str, fits: pd.MultiIndex) -> pd.DataFrame:
    """Collect the scores of a metric: blocks in the rows, models in the columns.

    Blocks are the given folds. A fold that is undefined for all models is dropped. If there are
    scores of whole repeats, the blocks are repeats; one that is not complete is dropped.
    """
    chosen = evidence.results[evidence.results["metric"] == metric]
    table = chosen.pivot(index=BLOCK, columns="model", values="value")
    table = table[chosen["model"].unique()].astype(np.float64)
    whole = table.index.get_level_values("fold") == WHOLE_REPEAT
    folds = table[~whole].reindex(fits)
    if not whole.any():
        return folds.dropna(how="all")
    repeats = table[whole]
    done = fits.get_level_values("repeat").value_counts()
    defined = (
        folds.groupby(level="repeat")
        .mean()
        .loc[lambda means: done[means.index].eq(evidence.n_folds)]
    )
    defined.index = pd.MultiIndex.from_product([defined.index, [WHOLE_REPEAT]], names=BLOCK)
    complete = repeats.index.get_level_values("repeat").isin(done[done == evidence.n_folds].index)
    return repeats[complete].combine_first(defined)[table.columns]


def _finished(evidence: Evidence) -> pd.DataFrame:
    """Find the finished fits, folds by models, including those with undefined metrics."""
    results = evidence.results[evidence.results["fold"] != WHOLE_REPEAT]
    return results.groupby([*BLOCK, "model"]).size().unstack("model").notna()


def _reason(evidence: Evidence, model: str, fits: pd.MultiIndex, scores: pd.DataFrame) -> str:
    """Explain why a model is not judged."""
    if model in evidence.left_out:
        return evidence.left_out[model]
    finished = _finished(evidence)
    n_fits = int(finished.loc[fits, model].sum()) if model in finished else 0
    why = f"finished {n_fits} of {len(fits) or evidence.n_folds * evidence.n_repeats} folds"
    if n_fits == len(fits) > 0:
        n_scores = int(scores[model].count()) if model in scores else 0
        title = metric_called(evidence.metric).title
        why = f"{title} is undefined in {len(scores) - n_scores} of {len(scores)} scores"
    errors = (text for key, text in evidence.failures.items() if key.model == model)
    return ": ".join([why, *[error.strip().split("\n")[0] for error in [*errors][:1]]])
