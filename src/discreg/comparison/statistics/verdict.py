"""The decision of a comparison: which model to use, if any, how good it will be, against what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreg.base.metrics import Metric
from discreg.base.metrics import metric as metric_called
from discreg.comparison.candidates.registry import AUTO, MAJORITY
from discreg.comparison.flags import Flag
from discreg.comparison.words import listed, number, percent
from discreg.tables.classifier import Rule

from .evidence import Evidence
from .sample import Interval
from .scores import Posterior, Scores, enough_folds, score_models

P_BETTER = 0.975  # of being better than another model: the 95 % interval is above 0
P_EQUIVALENT = 0.8  # of a difference within the region of practical equivalence
P_BEATS = 0.95  # of being better than the class frequencies, after correction for selection
P_POSSIBLE = 0.9  # with less, nothing is better than the class frequencies
STABLE = 0.7  # share of bootstrap samples that recommend a model as good as the recommended one
MIN_ROWS = 5  # of a class, for metrics in which it counts as much as the others
# Metrics that a model without information cannot raise above the score of the class frequencies.
INFORMED = ("accuracy", "balanced_accuracy", "roc_auc", "average_precision", "log_loss", "brier")
BY_ROW = ("accuracy", "log_loss", "brier")  # every row counts the same
N_LISTED = 4  # most names in a sentence

Kind = Literal[
    "clear winner",
    "equally good",
    "nothing is better than the class frequencies",
    "not enough evidence",
    "red flag",
]
NOTHING: Kind = "nothing is better than the class frequencies"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Score of one model.

    Attributes
    ----------
    mean : float
        Score of all held-out rows.
    corrected : float
        The same, corrected because the model was selected by these rows.
    low, high : float
        95 % interval of the corrected score.
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
        - "clear winner": the recommended model is better than every other with a probability of at
          least 0.975, and none is practically equivalent.
        - "equally good": other models are practically equivalent, or not certainly worse.
          AutoClassifier is recommended if it is one of them, otherwise the best mean.
        - "nothing is better than the class frequencies": the probability that the model is better,
          after correction for selection, is below 0.9.
        - "not enough evidence": that probability is between 0.9 and 0.95, the choice is not stable,
          or there are too few common folds or rows of rare classes.
        - "red flag": the scores are not those of new rows.
    sentences : tuple of str
        What to use, how good it will be, and against what.
    metric : str
        Name of the metric that decides.
    recommended : str or None
        The recommended model; None for the last three kinds.
    best : str or None
        The model that the report describes: the one that would be recommended. None if no model
        was judged.
    equivalent : tuple of str
        Other models that are equally good.
    estimate : Estimate or None
        Score of `best`; None if no model was judged or if the scores do not count.
    baseline : float or None
        Score of the class frequencies.
    gain : Interval or None
        By how much `best` is better than the class frequencies, with a 95 % interval; None if they
        have no score.
    p_informed : float or None
        Probability that the features say something about the label: that `best` has a better
        log-loss (or metric of the comparison) than the class frequencies.
    p_more_often_right : float or None
        Probability that its most probable classes are more often right than the majority class.
    stability : float or None
        Share of bootstrap samples of rows and of folds that recommend the same model, or one whose
        score is practically equivalent.
    not_judged : dict
        Models that are not compared, and the reasons.
    """

    kind: Kind
    sentences: tuple[str, ...]
    metric: str
    recommended: str | None = None
    best: str | None = None
    equivalent: tuple[str, ...] = ()
    estimate: Estimate | None = None
    baseline: float | None = None
    gain: Interval | None = None
    p_informed: float | None = None
    p_more_often_right: float | None = None
    stability: float | None = None
    not_judged: Mapping[str, str] = field(default_factory=dict)

    @property
    def beside(self) -> list[tuple[str, str]]:
        """What is known beside the sentences: titles and values."""
        found = [
            (title, probability(p))
            for title, p in (
                ("Probability that the features say something about the label", self.p_informed),
                (
                    "Probability that the most probable class is right more often than the "
                    "majority class",
                    self.p_more_often_right,
                ),
            )
            if p is not None
        ]
        if self.stability is not None and self.kind != NOTHING:
            title = "Bootstrap samples of rows and folds that recommend this model or one as good"
            found.append((title, percent(self.stability)))
        return found

    @property
    def sentence(self) -> str:
        """The decision in words."""
        return " ".join(self.sentences)


def decide(evidence: Evidence, flags: Sequence[Flag] = (), grouped_by: str = "") -> Verdict:
    """Decide which model to use.

    Parameters
    ----------
    evidence : Evidence
        Held-out predictions.
    flags : sequence of Flag
        Those of level "danger" replace the recommendation.
    grouped_by : str
        Name of the column that groups rows by default, for the first sentence.
    """
    verdict = Verdict(
        kind="not enough evidence",
        sentences=(),
        metric=evidence.metric,
        not_judged=evidence.not_judged,
    )
    if why := _too_little(evidence):
        return replace(verdict, sentences=(why,))
    scores = score_models(evidence, evidence.metric)
    choice = _Choice(scores)
    verdict = replace(verdict, best=choice.recommended)
    if dangers := [flag for flag in flags if flag.level == "danger"]:
        return replace(verdict, kind="red flag", sentences=_about_flags(dangers))
    verdict = _with_figures(evidence, choice, verdict)
    return _worded(verdict, choice, evidence, grouped_by)


class _Choice:
    """The model that the scores recommend, and those that bootstrap samples recommend."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores
        self.metric: Metric = metric_called(scores.metric)
        self._leads = {
            (one, other): scores.lead(one, other)
            for one in scores.ranked
            for other in scores.ranked
            if one != other
        }
        self.best = scores.ranked[0]
        self.equivalent = [name for name in scores.ranked[1:] if self._as_good(self.best, name)]
        self.recommended = self.best
        if AUTO in self.equivalent:
            self.recommended = AUTO
            self.equivalent = [self.best, *(each for each in self.equivalent if each != AUTO)]
        self.chosen = self._selected(scores.drawn)
        self.stability = float(
            np.mean(
                [
                    self._share(drawn, self._selected(drawn))
                    for drawn in (scores.drawn, scores.fold_drawn)
                ]
            )
        )

    def _as_good(self, best: str, other: str, shift: float = 0.0) -> bool:
        """Return whether a model is equivalent to the best, or not certainly worse."""
        lead = self._leads[best, other]
        lead = lead._replace(mean=lead.mean + shift)
        return lead.above(0) < P_BETTER or lead.within(self.scores.rope) >= P_EQUIVALENT

    def _selected(self, drawn: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the position of the model that each bootstrap sample recommends.

        Differences have the scales of all rows around the means of the sample.
        """
        names = self.scores.models
        places = np.array([names.index(name) for name in self.scores.ranked])
        values = np.where(np.isnan(drawn), -np.inf, drawn)
        best: NDArray[np.intp] = places[values[:, places].argmax(axis=1)]
        if AUTO not in self.scores.ranked:
            return best
        auto = names.index(AUTO)
        whole = self.scores.whole
        for sample, first in enumerate(best):
            if first != auto and np.isfinite(values[sample, auto]):
                shift = values[sample, first] - values[sample, auto] - whole[first] + whole[auto]
                if self._as_good(names[first], AUTO, float(shift)):
                    best[sample] = auto
        return best

    def _share(self, drawn: NDArray[np.float64], selected: NDArray[np.intp]) -> float:
        """Return the share of samples that recommend a model as good as the recommended one."""
        own = self.scores.models.index(self.recommended)
        gaps = drawn[np.arange(len(drawn)), selected] - drawn[:, own]
        return float(np.mean((selected == own) | (gaps <= self.scores.rope)))


def _with_figures(evidence: Evidence, choice: _Choice, verdict: Verdict) -> Verdict:
    """Add the estimate of the recommended model and what it is better than."""
    scores, name = choice.scores, choice.recommended
    sign = -1 if choice.metric.lower_is_better else 1
    own, sample = scores.score(name, evidence.sample(name).overlap), evidence.sample(name)
    corrected = sign * (own.mean - scores.optimism(name, choice.chosen))
    interval = sample.bounded(evidence.metric, corrected, own.half_width)
    verdict = replace(
        verdict,
        estimate=Estimate(
            mean=sign * own.mean, corrected=corrected, low=interval.low, high=interval.high
        ),
        stability=choice.stability,
    )
    if MAJORITY not in scores.models:
        return verdict
    check = evidence.metric if evidence.metric in INFORMED else "log_loss"
    of_check = scores if check == evidence.metric else score_models(evidence, check)
    right = score_models(evidence, "accuracy", Rule())
    return replace(
        verdict,
        baseline=float(sign * scores.whole[scores.models.index(MAJORITY)]),
        gain=_interval(_lead(scores, name, choice)),
        p_informed=_lead(of_check, name, choice).above(0),
        p_more_often_right=_lead(right, name, choice).above(0),
    )


def _lead(scores: Scores, name: str, choice: _Choice) -> Posterior:
    """Compute the posterior of the lead over the class frequencies, after correction.

    It is judged over rows or groups: the class frequencies are not tuned, so that the spread
    between folds would only cost power.
    """
    lead = scores.by_rows(name, MAJORITY)
    chosen = choice.chosen if len(scores.drawn) == len(choice.chosen) else choice.chosen[:0]
    optimism = scores.optimism(name, chosen) if len(chosen) else 0.0
    return lead._replace(mean=lead.mean - optimism)


def _interval(lead: Posterior) -> Interval:
    return Interval(lead.mean, lead.mean - lead.half_width, lead.mean + lead.half_width)


def _worded(verdict: Verdict, choice: _Choice, evidence: Evidence, grouped_by: str) -> Verdict:
    """Choose the kind of the verdict and write its sentences."""
    name, p = choice.recommended, verdict.p_informed
    n_models = len(choice.scores.ranked)
    kept = f"Rows of the same {grouped_by} were kept together. " if grouped_by else ""
    expected, against = _expected(verdict, choice.metric), _against(verdict, choice.metric)
    if p is not None and p < P_POSSIBLE:
        first = f"{kept}No model is better than the class frequencies, so none is recommended."
        return replace(
            verdict, kind=NOTHING, sentences=(first, f"{name} would have {expected}", against)
        )
    if p is not None and p < P_BEATS:
        first = (
            f"{kept}Not enough evidence: {name} is better than the class frequencies with "
            f"probability {probability(p)}, and {P_BEATS:g} is needed."
        )
        return replace(verdict, sentences=(first, f"{name} would have {expected}", against))
    equivalent = tuple(choice.equivalent)
    if verdict.stability is not None and verdict.stability < STABLE:
        first = (
            f"{kept}Not enough evidence to choose one of {n_models} models: "
            f"{percent(verdict.stability)} of bootstrap samples recommend {name} or one as good, "
            f"and {percent(STABLE)} are needed."
        )
        sentences = (first, f"{name} would have {expected}", against)
        return replace(verdict, equivalent=equivalent, sentences=sentences)
    verdict = replace(verdict, recommended=name, equivalent=equivalent)
    if not equivalent:
        of_all = f", which is better than all {n_models - 1} others" if n_models > 1 else ""
        first = f"{kept}Use {name}{of_all}."
        kind: Kind = "clear winner"
    else:
        verb = "is" if len(equivalent) == 1 else "are"
        first = f"{kept}Use {name}; {listed(equivalent, N_LISTED)} {verb} not certainly worse."
        kind = "equally good"
    return replace(verdict, kind=kind, sentences=(first, f"Expect {expected}", against))


def probability(p: float) -> str:
    """Format a probability; it is rounded down and never 1, because nothing is certain."""
    if p >= 0.995:
        return "above 0.99"
    return "below 0.01" if p < 0.01 else f"{floor(100 * p + 1e-9) / 100:.2f}"


def _expected(verdict: Verdict, metric: Metric) -> str:
    estimate = verdict.estimate
    assert estimate is not None
    ends = ""
    if np.isfinite(estimate.low):
        ends = f" (95 % interval {number(estimate.low)} to {number(estimate.high)})"
    return f"a {metric.title} of {number(estimate.corrected)}{ends} on new rows."


def _against(verdict: Verdict, metric: Metric) -> str:
    if verdict.baseline is None or verdict.p_informed is None:
        return "The class frequencies were not scored."
    gain, of = verdict.gain, ""
    if gain is not None and np.isfinite(gain.low) and gain.low < gain.high:
        than = "worse" if gain.value >= 0 else "better"
        ends = (gain.low, gain.high) if gain.value >= 0 else (-gain.high, -gain.low)
        of = (
            f", which is {than} by {number(abs(gain.value))} (95 % interval {number(ends[0])} to "
            f"{number(ends[1])})"
        )
    return f"The class frequencies alone have {number(verdict.baseline)}{of}."


def _about_flags(flags: Sequence[Flag]) -> tuple[str, ...]:
    rest = f" {len(flags) - 1} more below." if len(flags) > 1 else ""
    advice = " and ".join(
        f"--{name.replace('_', '-')} '{v}'" for name, v in flags[0].remedy.items()
    )
    remedy = f"Compare with {advice}" if advice else "Remove the cause"
    accepted = (*flags[0].columns, flags[0].kind)[0]
    return (
        f"These scores are not those of new rows: {flags[0].headline}.",
        f"No expectation is given and no model is saved.{rest}",
        f"{remedy}, or add --accept '{accepted}' if that is no fault.",
    )


def _too_little(evidence: Evidence) -> str | None:
    """Explain why the predictions cannot decide anything; None if they can."""
    judged = [name for name in evidence.judged if name != MAJORITY]
    if not judged:
        reasons = "; ".join(f"{name}: {why}" for name, why in evidence.not_judged.items())
        return "Not enough evidence: no model was judged" + (f" ({reasons})." if reasons else ".")
    if not enough_folds(evidence):
        return (
            f"Not enough evidence yet: the models have {len(evidence.common_folds)} of "
            f"{evidence.n_folds} folds in common, and at least 3 are needed."
        )
    if evidence.metric in BY_ROW:
        return None
    counts = np.bincount(evidence.y, minlength=len(evidence.classes))
    rare = np.flatnonzero(counts < MIN_ROWS)
    if 2 * len(rare) < len(counts):
        return None
    names = listed([f"'{evidence.classes[each]}' ({counts[each]})" for each in rare], N_LISTED)
    return (
        f"Not enough evidence: {len(rare)} of {len(counts)} classes have fewer than {MIN_ROWS} "
        f"rows, and {metric_called(evidence.metric).title} depends on them as much as on the "
        f"others. These classes are (rows): {names}."
    )
