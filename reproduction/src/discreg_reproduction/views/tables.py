"""Tables of a study: our scores, beside the reported ones where the paper has a table of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from discreg.comparison.metrics import metric as metric_called
from discreg.comparison.words import number
from discreg_reproduction.paper_values import Reported, reported
from discreg_reproduction.protocol import Study

from .baselines import NOTHING, ROUNDING, majority_texts, paired_grid
from .blocks import Agreement, Block, Evidence, Grid, Key, Score

__all__ = ["NOTHING", "agreement", "measure", "number_text", "score_grid", "scores", "table"]

SCALING = re.compile(r"(?P<metric>.+)\[scaling=\w+\]")
TARGET = re.compile(r"target\[class=(?P<place>\d+)\]")
BEST_SCALING = (
    " The paper reports the better of plain and scaled features, so each of our means is the "
    "larger of both: as in the paper, the test part chooses the scaling, which flatters every "
    "method."
)
TRAINED_SCALING = " Ours alone, with the scaling chosen on the training part."


def table(evidence: Evidence) -> Iterator[Block]:
    """A row a data set and a column a method, with what is reported and how near it is."""
    study, results = evidence.study, evidence.results
    theirs = reported(study.name)
    if len(study.methods) == 1 and not theirs:
        yield _metrics_grid(study, results)
        return
    ours = scores(study, results)
    if results["metric"].str.fullmatch(TARGET).any():
        yield _targets_grid(study, results, ours, theirs)
    else:
        yield from _score_grids(evidence, ours, theirs)
    lower_is_better = metric_called(study.metric).lower_is_better
    if found := agreement(ours, theirs, lower_is_better=lower_is_better):
        yield found
    if averages := paired_grid(study, results, ours, theirs):
        yield averages
    if study.metric == "accuracy":
        yield from majority_texts(evidence, ours, theirs)


def _score_grids(
    evidence: Evidence, ours: Mapping[Key, Score], theirs: Mapping[Key, Reported]
) -> Iterator[Grid]:
    """Ours beside theirs; where the paper's scaling is chosen by the test part, ours without."""
    study, results, majority = evidence.study, evidence.results, evidence.majority
    if not any(score.scaling for score in ours.values()):
        yield score_grid(study, ours, theirs, majority)
        return
    yield score_grid(study, ours, theirs, majority, more=BEST_SCALING)
    trained = scores(study, results[results["metric"] == study.metric])
    if trained:
        yield score_grid(study, trained, {}, majority, more=TRAINED_SCALING)


def scores(study: Study, results: pd.DataFrame) -> dict[Key, Score]:
    """Scores in the order of the study; where scalings are told apart, of the better one."""
    names = results["metric"].str.extract(SCALING)["metric"].fillna(results["metric"])
    chosen = results[(names == study.metric) & results["value"].notna()]
    groups = chosen.groupby(["dataset", "model", "metric"])["value"]
    found: dict[Key, list[Score]] = {}
    for dataset, model, metric, mean, std, count in (
        groups.agg(["mean", "std", "count"]).reset_index().itertuples(index=False)
    ):
        score = Score(mean, std, count, scaling=metric.removeprefix(study.metric))
        found.setdefault((dataset, model), []).append(score)
    return {
        key: max(found[key], key=lambda score: (bool(score.scaling), score.mean))
        for key in _keys(study)
        if key in found
    }


def score_grid(
    study: Study,
    ours: Mapping[Key, Score],
    theirs: Mapping[Key, Reported],
    majority: Mapping[str, float],
    *,
    more: str = "",
) -> Grid:
    """Ours, and beneath it theirs with the difference; of accuracies with the majority rate.

    Parameters
    ----------
    study : Study
        What was asked.
    ours, theirs : mapping
        Scores by data set and method.
    majority : mapping
        Rate of the most frequent class by data set.
    more : str
        What else the caption says.
    """
    digits = _digits(study, theirs or reported(study.name))
    with_rates = study.metric == "accuracy"
    rows = tuple(
        (
            dataset,
            *([_rate_text(majority.get(dataset))] if with_rates else []),
            *(_cell(ours.get(key), theirs.get(key), digits) for key in _row(study, dataset)),
        )
        for dataset in study.datasets
        if any(key in ours for key in _row(study, dataset))
    )
    caption = f"{_capital(measure(study.metric))}{_fits_text(ours)}."
    if theirs:
        caption += (
            " Beneath ours the paper's, and ours less theirs: in reported standard deviations (σ), "
            "or as it is where none is reported or it is 0."
        )
    first = ("data set", "majority") if with_rates else ("data set",)
    return Grid(caption + more, (*first, *study.methods), rows)


def _rate_text(rate: float | None) -> str:
    return NOTHING if rate is None else number(rate)


def agreement(
    ours: Mapping[Key, Score], theirs: Mapping[Key, Reported], *, lower_is_better: bool = False
) -> Agreement | None:
    """How near our scores are to the reported ones; None where there is nothing to compare."""
    pairs = {key: (ours[key].mean, theirs[key]) for key in theirs if key in ours}
    if not pairs:
        return None
    distances = {key: abs(mean - value.mean) for key, (mean, value) in pairs.items()}
    judged = {key: value.std for key, (_, value) in pairs.items() if value.std}
    complete = _complete_datasets(ours, theirs)
    sign = -1 if lower_is_better else 1
    return Agreement(
        n_values=len(pairs),
        n_judged=len(judged),
        within_one=sum(distances[key] <= std + ROUNDING for key, std in judged.items()),
        within_two=sum(distances[key] <= 2 * std + ROUNDING for key, std in judged.items()),
        mean_difference=sum(distances.values()) / len(distances),
        n_datasets=len(complete),
        same_best=sum(
            bool(
                _best({method: sign * ours[dataset, method].mean for method in methods})
                & _best({method: sign * mean for method, mean in methods.items()})
            )
            for dataset, methods in complete.items()
        ),
    )


def _complete_datasets(
    ours: Mapping[Key, Score], theirs: Mapping[Key, Reported]
) -> dict[str, dict[str, float]]:
    """Reported means of data sets of which we have every reported method, two at least."""
    means: dict[str, dict[str, float]] = {}
    for (dataset, method), value in theirs.items():
        means.setdefault(dataset, {})[method] = value.mean
    return {
        dataset: methods
        for dataset, methods in means.items()
        if len(methods) > 1 and all((dataset, method) in ours for method in methods)
    }


def _best(means: Mapping[str, float]) -> set[str]:
    highest = max(means.values())
    return {method for method, mean in means.items() if mean >= highest - ROUNDING}


def _metrics_grid(study: Study, results: pd.DataFrame) -> Grid:
    """The numbers of a study of one method: a column for each."""
    (method,) = study.methods
    there = dict.fromkeys(results["metric"])
    own = [name for name in there if metric_called(name).needs == "fit"]
    kept = [study.metric, *own, "accuracy"]
    metrics = [metric for metric in dict.fromkeys(kept) if metric in there]
    means = results.pivot_table(index="dataset", columns="metric", values="value")
    rows = tuple(
        (dataset, *(number_text(means.loc[dataset, metric], metric) for metric in metrics))
        for dataset in study.datasets
        if dataset in means.index
    )
    return Grid(f"Numbers of {method}.", ("data set", *map(measure, metrics)), rows)


def _targets_grid(
    study: Study,
    results: pd.DataFrame,
    ours: Mapping[Key, Score],
    theirs: Mapping[Key, Reported],
) -> Grid:
    """Losses, ours and theirs, and beneath them the targets that have ours."""
    values = results.set_index(["dataset", "model", "metric"])["value"].to_dict()
    places = sorted({match["place"] for match in map(TARGET.fullmatch, results["metric"]) if match})

    def cell(key: Key) -> str:
        losses = _cell(ours.get(key), theirs.get(key), None)
        if key not in ours:
            return losses
        targets = (values[*key, f"target[class={place}]"] for place in places)
        return f"{losses}\n({', '.join(f'{target + 0.0:.4g}' for target in targets)})"

    there = set(results["dataset"])
    rows = tuple(
        (dataset, *map(cell, _row(study, dataset)))
        for dataset in study.datasets
        if dataset in there
    )
    beneath = "beneath it the paper's with ours less theirs, and " if theirs else "beneath it "
    caption = f"{_capital(measure(study.metric))}, {beneath}the targets."
    return Grid(caption, ("data set", *study.methods), rows)


def measure(metric: str) -> str:
    """What a metric measures, where it is not followed by its unit."""
    return "seconds to fit" if metric == "fit_seconds" else metric_called(metric).title


def number_text(value: float, metric: str) -> str:
    """A number of a metric: shares with three decimals, others with three digits that count."""
    if math.isnan(value):
        return NOTHING
    return f"{value:.3f}" if metric_called(metric).is_share else f"{value:.3g}"


def _digits(study: Study, theirs: Mapping[Key, Reported]) -> int | None:
    """Decimals of the reported numbers; None for metrics that are no shares."""
    if not metric_called(study.metric).is_share:
        return None
    fine = any(abs(round(value.mean, 3) - value.mean) > ROUNDING for value in theirs.values())
    return 4 if fine else 3


def _cell(ours: Score | None, theirs: Reported | None, digits: int | None) -> str:
    lines = [NOTHING if ours is None else _with_spread(ours.mean, ours.std, digits)]
    if theirs is not None:
        line = _with_spread(theirs.mean, theirs.std, digits)
        if ours is not None:
            line += f" ({_difference(ours.mean - theirs.mean, theirs.std, digits)})"
        lines.append(line)
    return "\n".join(lines)


def _with_spread(mean: float, std: float | None, digits: int | None) -> str:
    if std is None or math.isnan(std):
        return f"{mean:.3g}" if digits is None else f"{mean:.{digits}f}"
    return f"{mean:.3g} ± {std:.2g}" if digits is None else f"{mean:.{digits}f} ± {std:.{digits}f}"


def _difference(difference: float, std: float | None, digits: int | None) -> str:
    """In standard deviations where there are any, with the sign."""
    value, places, unit = (difference / std, 1, "σ") if std else (difference, digits or 3, "")
    rounded = round(value, places) + 0.0  # no -0.0
    return f"{rounded:+.{places}f}{unit}".replace("-", "−")


def _fits_text(ours: Mapping[Key, Score]) -> str:
    """Over how many fits a mean is."""
    counts = sorted({score.n_fits for score in ours.values()})
    if counts == [1]:
        return " of one fit"
    fits = " to ".join(map(str, dict.fromkeys([*counts[:1], *counts[-1:]])))
    return f", mean ± standard deviation over {fits} fits"


def _row(study: Study, dataset: str) -> Sequence[Key]:
    return [(dataset, method) for method in study.methods]


def _keys(study: Study) -> Iterator[Key]:
    for dataset in study.datasets:
        yield from _row(study, dataset)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
