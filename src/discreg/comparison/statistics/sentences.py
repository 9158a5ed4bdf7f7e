"""Sentences on the decision of a comparison, with the figures behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor

from discreg.base.metrics import Metric
from discreg.comparison.words import listed, number

from .contrasts import Posterior

__all__ = [
    "Facts",
    "about_clear_winner",
    "about_equally_good",
    "about_majority",
    "about_possible_lead",
    "probability",
]

N_LISTED = 4  # most names in a list


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of the best model.

    Attributes
    ----------
    metric : Metric
        The metric that decides.
    baseline_metric : Metric
        The metric that compares the best model with the majority class.
    best : str
        The best model.
    means : dict
        Mean scores of the judged models without the majority class.
    corrected, low, high : float
        Score of the best model, corrected for its selection, and its 95 % interval.
    leads : dict
        Lead of the best model over each other model.
    blocks : str
        Where the scores come from, such as "10 folds".
    baseline : float or None
        Score of the majority class.
    over_baseline : Posterior or None
        Lead of the best model over the majority class, corrected for its selection.
    """

    metric: Metric
    baseline_metric: Metric
    best: str
    means: Mapping[str, float]
    corrected: float
    low: float
    high: float
    leads: Mapping[str, Posterior]
    blocks: str
    baseline: float | None
    over_baseline: Posterior | None


def probability(p: float) -> str:
    """Format a probability; it is rounded down and never 1, because nothing is certain."""
    if p >= 0.995:
        return "above 0.99"
    return "below 0.01" if p < 0.01 else f"{floor(100 * p + 1e-9) / 100:.2f}"


def about_clear_winner(facts: Facts) -> str:
    """Write the decision for a model that is better than all others."""
    best, others = facts.best, list(facts.leads)
    if not others:
        first = f"{best} is the only model that was judged; its {_score(facts)}."
        return _joined(first, _beats(facts), _practically_majority(facts))
    closest = min(others, key=lambda name: facts.leads[name].above(0))
    lead = facts.leads[closest]
    which = closest if len(others) == 1 else f"{closest}, the closest of {len(others)} others,"
    first = (
        f"{best} is the clear winner: its {_score(facts)}. It is better than {which} with "
        f"probability {probability(lead.above(0))}, by {_interval(lead)}."
    )
    return _joined(first, _corrected(facts), _practically_majority(facts))


def about_equally_good(
    facts: Facts,
    *,
    recommended: str,
    equivalent: Sequence[str],
    undecided: Sequence[str],
    needed: float,
    quicker: str | None,
) -> str:
    """Write the decision for a best model that is not better than all others."""
    best, rope = facts.best, facts.metric.rope
    if not equivalent:
        first = (
            f"No clear winner: {best} has the best mean and is recommended; its {_score(facts)}."
        )
    elif recommended == best:
        names = listed(list(equivalent), N_LISTED)
        lowest = min(facts.leads[name].within(rope) for name in equivalent)
        least = "" if len(equivalent) == 1 else " each"
        first = (
            f"{best} is recommended: it has the best mean, and it is the simplest of "
            f"{len(equivalent) + 1} equally good models; its {_score(facts)}. {names} "
            f"{_is_are(equivalent)} practically equivalent (less than {rope:g} apart),{least} with "
            f"probability {probability(lowest)}{' or more' if len(equivalent) > 1 else ''}."
        )
    else:
        rest = [name for name in equivalent if name != recommended]
        also = (
            f" {listed(rest, N_LISTED)} {_is_are(rest)} practically equivalent too." if rest else ""
        )
        p = probability(facts.leads[recommended].within(rope))
        first = (
            f"{recommended} is recommended: it is the simplest of {len(equivalent) + 1} equally "
            f"good models. {best} has the best mean; its {_score(facts)}. {recommended} has "
            f"{number(facts.means[recommended])} and is practically equivalent (less than {rope:g} "
            f"apart) with probability {p}.{also}"
        )
    return _joined(
        first,
        _about_undecided(facts, undecided, needed),
        f"{quicker} is equally good and quicker to fit." if quicker else "",
        _corrected(facts),
        _practically_majority(facts),
    )


def about_majority(facts: Facts) -> str:
    """Write the decision for a best model that does not beat the majority class."""
    assert facts.baseline is not None
    assert facts.over_baseline is not None
    return _joined(
        "Nothing beats the majority class with enough certainty, so no model is recommended. The "
        f"best, {facts.best}, has a mean {facts.metric.title} of "
        f"{number(facts.means[facts.best])} on {facts.blocks}{_after_selection(facts)}; the "
        f"majority class has {number(facts.baseline)}.",
        f"{facts.best} is better{_in_other_metric(facts)} with probability "
        f"{probability(facts.over_baseline.above(0))} only.",
    )


def about_possible_lead(facts: Facts, needed: float) -> str:
    """Write the decision for a best model whose lead over the majority class is uncertain."""
    assert facts.baseline is not None
    assert facts.over_baseline is not None
    return _joined(
        f"Not enough evidence: {facts.best} has the best mean {facts.metric.title}, "
        f"{number(facts.means[facts.best])} on {facts.blocks}{_after_selection(facts)}; the "
        f"majority class has {number(facts.baseline)}.",
        f"{facts.best} is better{_in_other_metric(facts)} with probability "
        f"{probability(facts.over_baseline.above(0))}; {needed:g} is needed to recommend a model. "
        "More rows would help.",
    )


def _score(facts: Facts) -> str:
    baseline = "" if facts.baseline is None else f" (majority class {number(facts.baseline)})"
    mean = number(facts.means[facts.best])
    return f"mean {facts.metric.title} on {facts.blocks} is {mean}{baseline}"


def _interval(lead: Posterior) -> str:
    low, high = lead.mean - lead.half_width, lead.mean + lead.half_width
    return f"{number(lead.mean)} (95 % interval {number(low)} to {number(high)})"


def _corrected(facts: Facts) -> str:
    if len(facts.means) < 2:
        return ""
    return (
        f"Corrected for choosing the best of {len(facts.means)} models, the {facts.metric.title} "
        f"of {facts.best} is {number(facts.corrected)} (95 % interval {number(facts.low)} to "
        f"{number(facts.high)})."
    )


def _after_selection(facts: Facts) -> str:
    if len(facts.means) < 2:
        return ""
    return (
        f", or {number(facts.corrected)} after correction for choosing the best of "
        f"{len(facts.means)} models"
    )


def _beats(facts: Facts) -> str:
    if facts.over_baseline is None:
        return ""
    p = probability(facts.over_baseline.above(0))
    return f"It is better than the majority class{_in_other_metric(facts)} with probability {p}."


def _in_other_metric(facts: Facts) -> str:
    if facts.baseline_metric.name == facts.metric.name:
        return ""
    return f" in {facts.baseline_metric.title}"


def _practically_majority(facts: Facts) -> str:
    """Warn if the lead over the majority class is practically zero."""
    lead = facts.over_baseline
    rope = facts.baseline_metric.rope
    if lead is None or lead.above(rope) >= 0.5:
        return ""
    return (
        f"Its lead over the majority class{_in_other_metric(facts)} is small: it is above {rope:g} "
        f"with probability {probability(lead.above(rope))}."
    )


def _about_undecided(facts: Facts, undecided: Sequence[str], needed: float) -> str:
    if not undecided:
        return ""
    closest = min(undecided, key=lambda name: facts.leads[name].above(0))
    p = probability(facts.leads[closest].above(0))
    which = "it" if len(undecided) == 1 else f"{closest}, the closest one,"
    return (
        f"{listed(list(undecided), N_LISTED)} may be as good as {facts.best}: {facts.best} is "
        f"better than {which} with probability {p}, and {needed:g} is needed to decide."
    )


def _is_are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))
