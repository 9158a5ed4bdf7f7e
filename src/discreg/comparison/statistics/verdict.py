"""The decision of a comparison: which model to use, if any, and how certain that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from discreg.base.metrics import metric as metric_called
from discreg.comparison.candidates.contender import MAJORITY
from discreg.comparison.words import listed

from .contrasts import MIN_BLOCKS, Contrasts
from .evidence import Evidence
from .judged import scores_by_block
from .sentences import (
    Facts,
    about_clear_winner,
    about_equally_good,
    about_majority,
    about_possible_lead,
)

__all__ = [
    "P_BEATS",
    "P_BETTER",
    "P_EQUIVALENT",
    "P_POSSIBLE",
    "Estimate",
    "Kind",
    "Verdict",
    "decide",
]

P_BETTER = 0.975  # of being better than another model: the 95 % interval is above 0
P_EQUIVALENT = 0.8  # of a difference within the region of practical equivalence
P_BEATS = 0.95  # of being better than the majority class, after correction for selection
P_POSSIBLE = 0.9  # with less, nothing beats the majority class
MIN_ROWS = 5  # of a class, for metrics in which it counts as much as the others
QUICKER = 0.5  # a quicker model takes at most this part of the time
# Metrics that no model without information can raise above the score of the majority class.
INFORMED = ("accuracy", "balanced_accuracy", "roc_auc", "average_precision", "log_loss", "brier")
BY_ROW = ("accuracy", "log_loss", "brier")  # every row counts the same
BALANCED = "balanced_accuracy"  # above that of the majority class only with information
N_LISTED = 4  # most names in a sentence
FIRST = "Auto"  # named first among models that are equivalent to the best

Kind = Literal[
    "clear winner", "equally good", "nothing beats the majority class", "not enough evidence"
]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Score of the best model.

    Attributes
    ----------
    mean : float
        Mean over the folds.
    corrected : float
        The mean, corrected because the model is the best of many.
    low, high : float
        95 % interval around the corrected score.
    """

    mean: float
    corrected: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The decision of a comparison.

    Attributes
    ----------
    kind : str
        - "clear winner": the best model is better than every other with a probability of at least
          0.975, and none is practically equivalent.
        - "equally good": it is not. The simplest of the models that are practically equivalent to
          the best (probability of at least 0.8) is recommended, or the best if there are none.
        - "nothing beats the majority class": the probability that the best model beats it, after
          correction for selection, is below 0.9.
        - "not enough evidence": that probability is between 0.9 and 0.95, there are too few common
          folds, or too few rows of rare classes.
    sentence : str
        The decision in words, with its figures.
    metric : str
        Name of the metric that decides.
    recommended : str or None
        The recommended model; None for the last two kinds.
    best : str or None
        The model with the best mean; None if no model was judged.
    equivalent : tuple of str
        Other models that are practically equivalent to the best.
    undecided : tuple of str
        Other models that are neither practically equivalent to the best nor worse.
    quicker : str or None
        A model that is practically equivalent to the best and was fitted in half the time of the
        recommended model, or less.
    estimate : Estimate or None
        Score of the best model; None if no model was judged.
    baseline : float or None
        Score of always predicting the class frequencies; None if it is not known.
    p_beats_baseline : float or None
        Probability that the best model beats the majority class, after correction for selection.
    not_judged : dict
        Models that are not compared, and the reasons.
    """

    kind: Kind
    sentence: str
    metric: str
    recommended: str | None = None
    best: str | None = None
    equivalent: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    quicker: str | None = None
    estimate: Estimate | None = None
    baseline: float | None = None
    p_beats_baseline: float | None = None
    not_judged: Mapping[str, str] = field(default_factory=dict)


def decide(evidence: Evidence) -> Verdict:
    """Decide which model to use.

    Parameters
    ----------
    evidence : Evidence
        Scores of the folds and predictions of the held-out rows.

    Returns
    -------
    Verdict
        The recommended model, if any, and the reasons.
    """
    contrasts = Contrasts(evidence)
    verdict = Verdict(
        kind="not enough evidence",
        sentence="",
        metric=evidence.metric,
        best=contrasts.order[0] if contrasts.order else None,
        not_judged=contrasts.judged.not_judged,
    )
    if why := _too_little(evidence, contrasts):
        return replace(verdict, sentence=why)
    facts = _facts(evidence, contrasts)
    p_beats = None if facts.over_baseline is None else facts.over_baseline.above(0)
    verdict = replace(
        verdict,
        estimate=Estimate(
            mean=facts.means[facts.best],
            corrected=facts.corrected,
            low=facts.low,
            high=facts.high,
        ),
        baseline=facts.baseline,
        p_beats_baseline=p_beats,
    )
    if p_beats is not None and p_beats < P_POSSIBLE:
        kind: Kind = "nothing beats the majority class"
        return replace(verdict, kind=kind, sentence=about_majority(facts))
    if p_beats is not None and p_beats < P_BEATS:
        return replace(verdict, sentence=about_possible_lead(facts, P_BEATS))
    return _recommended(evidence, contrasts, facts, verdict)


def _recommended(
    evidence: Evidence, contrasts: Contrasts, facts: Facts, verdict: Verdict
) -> Verdict:
    """Choose the model to recommend and write the reasons."""
    best, rope = facts.best, facts.metric.rope
    equivalent = [name for name, lead in facts.leads.items() if lead.within(rope) >= P_EQUIVALENT]
    undecided = [
        name
        for name, lead in facts.leads.items()
        if name not in equivalent and lead.above(0) < P_BETTER
    ]
    if not equivalent and not undecided:
        sentence = about_clear_winner(facts)
        return replace(verdict, kind="clear winner", sentence=sentence, recommended=best)
    recommended = min([best, *equivalent], key=lambda name: _place(evidence, name))
    equivalent.sort(key=lambda name: (name != FIRST, _place(evidence, name)))
    quicker = _quicker(evidence, contrasts, recommended, [best, *equivalent])
    return replace(
        verdict,
        kind="equally good",
        recommended=recommended,
        equivalent=tuple(equivalent),
        undecided=tuple(undecided),
        quicker=quicker,
        sentence=about_equally_good(
            facts,
            recommended=recommended,
            equivalent=equivalent,
            undecided=undecided,
            needed=P_BETTER,
            quicker=quicker,
        ),
    )


def _too_little(evidence: Evidence, contrasts: Contrasts) -> str | None:
    """Explain why the scores cannot decide anything; None if they can."""
    judged = contrasts.judged
    if not contrasts.order:
        reasons = "; ".join(f"{name}: {why}" for name, why in judged.not_judged.items())
        return "Not enough evidence: no model was judged" + (f" ({reasons})." if reasons else ".")
    planned, n_common = evidence.n_folds * evidence.n_repeats, len(judged.fits)
    if n_common < min(planned, MIN_BLOCKS):
        return (
            f"Not enough evidence yet: the models have {n_common} of {planned} folds in common, "
            f"and at least {MIN_BLOCKS} are needed."
        )
    if not contrasts.has_spread:
        title = metric_called(evidence.metric).title
        return (
            f"Not enough evidence: with {len(judged.scores)} value of {title} per model, its "
            "uncertainty is not known. Use at least three folds."
        )
    return _too_few_rows(evidence)


def _too_few_rows(evidence: Evidence) -> str | None:
    """Explain which classes have too few rows for the metric; None if none has."""
    if evidence.metric in BY_ROW:
        return None
    counts = np.bincount(evidence.y, minlength=len(evidence.classes))
    rare = np.flatnonzero(counts < MIN_ROWS)
    if 2 * len(rare) < len(counts):
        return None
    names = listed([f"'{evidence.classes[each]}' ({counts[each]})" for each in rare], N_LISTED)
    title = metric_called(evidence.metric).title
    return (
        f"Not enough evidence: {len(rare)} of {len(counts)} classes have fewer than {MIN_ROWS} "
        f"rows, and {title} depends on them as much as on the others. These classes are (rows): "
        f"{names}."
    )


def _facts(evidence: Evidence, contrasts: Contrasts) -> Facts:
    """Collect what is known of the best model."""
    metric = metric_called(evidence.metric)
    sign = -1 if metric.lower_is_better else 1
    best, *others = contrasts.order
    means = sign * contrasts.means(evidence.metric)
    corrected = float(means[best] - sign * contrasts.optimism())
    reach = contrasts.score(best).half_width
    low, high = corrected - reach, corrected + reach
    if metric.is_share:
        low, high = max(low, 0.0), min(high, 1.0)
    check = evidence.metric
    if check not in INFORMED and (evidence.results["metric"] == BALANCED).any():
        check = BALANCED
    over_baseline = None
    if contrasts.has_majority:
        over_baseline = contrasts.over_majority(check)
    return Facts(
        metric=metric,
        baseline_metric=metric_called(check),
        best=best,
        means={name: float(means[name]) for name in contrasts.order},
        corrected=corrected,
        low=low,
        high=high,
        leads={name: contrasts.difference(best, name) for name in others},
        blocks=_blocks(contrasts),
        baseline=float(means[MAJORITY]) if contrasts.has_majority else None,
        over_baseline=over_baseline,
    )


def _blocks(contrasts: Contrasts) -> str:
    n_fits = len(contrasts.judged.fits)
    return "the test rows" if n_fits == 1 else f"{n_fits} folds"


def _place(evidence: Evidence, name: str) -> int:
    """Return the position of a model in the order of simplicity."""
    contender = evidence.contenders.get(name)
    return len(evidence.contenders) if contender is None else contender.place


def _quicker(
    evidence: Evidence, contrasts: Contrasts, recommended: str, models: Sequence[str]
) -> str | None:
    """Find the quickest of these models, if it takes much less time than the recommended one."""
    if not (evidence.results["metric"] == "fit_seconds").any():
        return None
    times = scores_by_block(evidence, "fit_seconds", contrasts.judged.fits).median()
    times = times.reindex(models).dropna()
    if recommended not in times:
        return None
    quickest = str(times.idxmin())
    return quickest if times[quickest] <= QUICKER * times[recommended] else None
