"""Comparison of scores with the majority class and with one of the methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from discreg.comparison.words import number, percent
from discreg_reproduction.paper_values import Reported
from discreg_reproduction.ranks import LEVEL, win_tie_loss

from .blocks import NOTHING, Block, Evidence, Grid, Key, Score, Text

__all__ = ["OUTCOMES", "ROUNDING", "majority_texts", "paired_counts", "paired_grid"]

NEAR = 0.005  # an accuracy up to this far above the majority-class rate counts as no better
ROUNDING = 1e-9  # tolerance for comparisons of printed numbers
OUTCOMES = ("wins", "ties", "losses")


def majority_texts(
    evidence: Evidence, ours: Mapping[Key, Score], theirs: Mapping[Key, Reported]
) -> Iterator[Block]:
    """Yield notes on accuracies that are no better than the majority class."""
    rates = evidence.majority
    rates_of_all = {**rates, **evidence.majority_of_all}
    reported = {
        key: f"{key[1]} {value.mean:g}"
        for key, value in theirs.items()
        if key[0] in rates and _no_better(key, value.mean, rates_of_all)
    }
    if reported:
        yield Text(
            "Reported accuracies that are no better than always predicting the most frequent "
            f"class, at most {NEAR} above its rate in all samples: "
            f"{_by_dataset(reported, rates_of_all)}. They do not show that the model learned "
            "anything."
        )
    balanced = evidence.means.set_index(["dataset", "model", "metric"])["value"]
    own = {
        key: f"{key[1]} {number(score.mean)}{_balanced_text(balanced, key, score)}"
        for key, score in ours.items()
        if _no_better(key, score.mean, rates)
    }
    if own:
        yield Text(
            "Our accuracies that are no better than always predicting the most frequent class, at "
            f"most {NEAR} above its rate in the test samples, with our balanced accuracy in "
            f"brackets: {_by_dataset(own, rates)}."
        )


def _no_better(key: Key, accuracy: float, rates: Mapping[str, float]) -> bool:
    return key[0] in rates and accuracy <= rates[key[0]] + NEAR + ROUNDING


def _by_dataset(values: Mapping[Key, str], rates: Mapping[str, float]) -> str:
    """Group values by data set, each with its majority rate."""
    named: dict[str, list[str]] = {}
    for (dataset, _), value in values.items():
        named.setdefault(dataset, []).append(value)
    return "; ".join(
        f"{dataset}, rate {number(rates[dataset])} ({', '.join(each)})"
        for dataset, each in named.items()
    )


def _balanced_text(means: pd.Series, key: Key, score: Score) -> str:
    """Format the balanced accuracy of the fits of a score."""
    mean = means.get((*key, f"balanced_accuracy{score.scaling}"))
    return "" if mean is None else f" [{number(mean)}]"


def paired_grid(
    evidence: Evidence, ours: Mapping[Key, Score], theirs: Mapping[Key, Reported]
) -> Grid | None:
    """Create a table of averages over data sets and outcomes of paired t-tests."""
    study = evidence.study
    other = study.tested_against
    if other is None or not ours:
        return None
    shared = {
        method: [key for key in study.cells if key[1] == method and key in ours and key in theirs]
        for method in study.methods
    }
    rows = [
        ("data sets", *(str(len(keys)) for keys in shared.values())),
        ("average, ours", *(_average(ours, keys) for keys in shared.values())),
        ("average, the paper's", *(_average(theirs, keys) for keys in shared.values())),
    ]
    caption = "Averages over the data sets on which a method has a score here and in the paper."
    outcomes = paired_counts(evidence)
    if outcomes:
        cells = (
            "/".join(map(str, outcomes[method])) if method in outcomes else NOTHING
            for method in study.methods
        )
        rows.append((f"win/tie/loss against {other}", *cells))
        caption += (
            f" Wins, ties and losses of each method against {other} by paired t-tests at the "
            f"{percent(LEVEL)} level over the repeats of each data set; the paper counts "
            f"{other}'s against each method."
        )
        if evidence.means["dataset"].nunique() == 1:
            caption += " On one data set the test is corrected for the overlap of training sets."
    else:
        caption += (
            f" A paired t-test of each method against {other} needs at least two repeats, and no "
            "data set has them."
        )
    return Grid(caption, ("summary", *study.methods), tuple(rows))


def _average(values: Mapping[Key, Score] | Mapping[Key, Reported], keys: list[Key]) -> str:
    return number(float(np.mean([values[key].mean for key in keys]))) if keys else NOTHING


def paired_counts(evidence: Evidence) -> dict[str, tuple[int, int, int]]:
    """Count wins, ties and losses of each method against one of them; empty without a test.

    The test needs all fits of both. If some are those of an earlier run, its counts are taken.
    """
    study, earlier = evidence.study, evidence.earlier
    other = study.tested_against
    if other is None or evidence.means.empty:
        return {}
    older = {method for _, method in evidence.n_earlier_fits}
    found: dict[str, tuple[int, int, int]] = {}
    for method in study.methods:
        places = [("", method, f"{outcome}[against={other}]") for outcome in OUTCOMES]
        if {method, other} & older and all(place in earlier for place in places):
            wins, ties, losses = (int(earlier[place].mean) for place in places)
            found[method] = wins, ties, losses
    own = evidence.results[~evidence.results["model"].isin(older)]
    if other not in older and (own["metric"] == study.metric).any():
        for (model, against), *counts in win_tie_loss(own, study.metric).itertuples(name=None):
            if against == other and any(counts):
                found[model] = counts[0], counts[1], counts[2]
    return found
