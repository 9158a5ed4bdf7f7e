"""Tables of a study: our scores and the reported scores."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import pandas as pd

from discreg.base.metrics import metric as metric_called
from discreg.comparison.words import number
from discreg_reproduction.paper_values import Reported, reported
from discreg_reproduction.protocol import Study

from .baselines import ROUNDING, majority_texts, paired_grid
from .blocks import NOTHING, Agreement, Block, Evidence, Grid, Key, Score

__all__ = ["agreement", "measure", "methods_grid", "number_text", "score_grid", "scores", "table"]

SCALING = re.compile(r"(?P<metric>.+)\[scaling=\w+\]")
TARGET = re.compile(r"target\[class=(?P<place>\d+)\]")
BEST_SCALING = (
    " The paper reports the better of unscaled and scaled features, so each of our means is the "
    "larger of both: as in the paper, the scaling is selected on the test part, which is "
    "optimistic for every method."
)
TRAINED_SCALING = " Our scores only, with the scaling selected on the training part."


def table(evidence: Evidence) -> Iterator[Block]:
    """Create the table with one row per data set and one column per method."""
    study, means = evidence.study, evidence.means
    theirs = reported(study.name)
    beside = _with_variants(study, theirs)
    if len(study.methods) == 1 and not theirs:
        yield _metrics_grid(study, means)
        return
    ours = scores(study, means)
    if means["metric"].str.fullmatch(TARGET).any():
        yield _targets_grid(study, means, ours, beside)
    elif any(score.scaling for score in ours.values()):
        yield score_grid(evidence, ours, beside, more=BEST_SCALING)
        if trained := scores(study, means[means["metric"] == study.metric]):
            yield score_grid(evidence, trained, {}, more=TRAINED_SCALING)
    else:
        yield score_grid(evidence, ours, beside)
    about = evidence.earlier_summary
    if ("", "n_values") in about:
        yield Agreement.read({metric: value for (_, metric), value in about.items()})
    elif found := agreement(
        ours, theirs, lower_is_better=metric_called(study.metric).lower_is_better
    ):
        yield found
    if averages := paired_grid(evidence, ours, beside):
        yield averages
    if study.metric == "accuracy":
        yield from majority_texts(evidence, ours, theirs)


def _with_variants(study: Study, theirs: Mapping[Key, Reported]) -> dict[Key, Reported]:
    """Add the reported values of the methods that variants vary."""
    added = {
        (dataset, variant): theirs[dataset, method]
        for variant, method in study.variants.items()
        for dataset in study.datasets
        if (dataset, method) in theirs
    }
    return {**theirs, **added}


def scores(study: Study, means: pd.DataFrame) -> dict[Key, Score]:
    """Select scores in the order of the study; with two scalings, those of the better one."""
    names = means["metric"].str.extract(SCALING)["metric"].fillna(means["metric"])
    found: dict[Key, list[Score]] = {}
    for dataset, model, metric, mean, std, count in means[names == study.metric].itertuples(
        index=False, name=None
    ):
        score = Score(mean, std, count, scaling=metric.removeprefix(study.metric))
        found.setdefault((dataset, model), []).append(score)
    return {
        key: max(found[key], key=lambda score: (bool(score.scaling), score.mean))
        for key in study.cells
        if key in found
    }


def methods_grid(
    study: Study, caption: str, datasets: Iterable[str], cell: Callable[[Key], str]
) -> Grid:
    """Create a table with one row per data set, in the order of the study."""
    there = set(datasets)
    rows = tuple(
        (dataset, *(cell((dataset, method)) for method in study.methods))
        for dataset in study.datasets
        if dataset in there
    )
    return Grid(caption, ("data set", *study.methods), rows)


def score_grid(
    evidence: Evidence, ours: Mapping[Key, Score], theirs: Mapping[Key, Reported], *, more: str = ""
) -> Grid:
    """Create a table of our scores, and below them the reported ones with the difference.

    Parameters
    ----------
    evidence : Evidence
        The study and its majority rates.
    ours, theirs : mapping
        Scores by data set and method.
    more : str
        Additional text of the caption.
    """
    study = evidence.study
    digits = _digits(study, theirs or reported(study.name))
    caption = f"{_capital(measure(study.metric))}{_fits_text(ours)}."
    if theirs:
        caption += (
            " Below each of our scores: the paper's score, and our score minus the paper's in "
            "reported standard deviations (σ), or without a unit if none is reported or it is 0."
        )
    grid = methods_grid(
        study,
        caption + more,
        {dataset for dataset, _ in ours},
        lambda key: _cell(ours.get(key), theirs.get(key), digits),
    )
    if study.metric != "accuracy":
        return grid
    rates = {dataset: number(rate) for dataset, rate in evidence.majority.items()}
    rows = tuple((row[0], rates.get(row[0], NOTHING), *row[1:]) for row in grid.rows)
    return Grid(grid.caption, ("data set", "majority", *study.methods), rows)


def agreement(
    ours: Mapping[Key, Score], theirs: Mapping[Key, Reported], *, lower_is_better: bool = False
) -> Agreement | None:
    """Compare our scores with the reported ones; None if there is nothing to compare."""
    distances = {key: abs(ours[key].mean - theirs[key].mean) for key in theirs if key in ours}
    if not distances:
        return None
    stds = {key: std for key in distances if (std := theirs[key].std)}
    complete = _complete_datasets(ours, theirs)
    sign = -1 if lower_is_better else 1
    return Agreement(
        n_values=len(distances),
        n_judged=len(stds),
        within_one=sum(distances[key] <= std + ROUNDING for key, std in stds.items()),
        within_two=sum(distances[key] <= 2 * std + ROUNDING for key, std in stds.items()),
        mean_difference=sum(distances.values()) / len(distances),
        n_datasets=len(complete),
        same_best=sum(
            bool(
                _best({key: sign * ours[key].mean for key in keys})
                & _best({key: sign * theirs[key].mean for key in keys})
            )
            for keys in complete
        ),
    )


def _complete_datasets(
    ours: Mapping[Key, Score], theirs: Mapping[Key, Reported]
) -> list[list[Key]]:
    """List the data sets for which we have all of at least two reported methods."""
    keys: dict[str, list[Key]] = {}
    for key in theirs:
        keys.setdefault(key[0], []).append(key)
    return [each for each in keys.values() if len(each) > 1 and all(key in ours for key in each)]


def _best(means: Mapping[Key, float]) -> set[Key]:
    highest = max(means.values())
    return {key for key, mean in means.items() if mean >= highest - ROUNDING}


def _metrics_grid(study: Study, found: pd.DataFrame) -> Grid:
    """Create the table of a study of one method, with one column per metric."""
    (method,) = study.methods
    there = dict.fromkeys(found["metric"])
    kept = [
        study.metric,
        *(name for name in there if metric_called(name).needs == "fit"),
        "accuracy",
    ]
    metrics = [metric for metric in dict.fromkeys(kept) if metric in there]
    means = found.pivot(index="dataset", columns="metric", values="value")
    rows = tuple(
        (dataset, *(number_text(means.loc[dataset, metric], metric) for metric in metrics))
        for dataset in study.datasets
        if dataset in means.index
    )
    return Grid(f"Numbers of {method}.", ("data set", *map(measure, metrics)), rows)


def _targets_grid(
    study: Study,
    means: pd.DataFrame,
    ours: Mapping[Key, Score],
    theirs: Mapping[Key, Reported],
) -> Grid:
    """Create a table of losses, ours and the paper's, and below them our targets."""
    values = means.set_index(["dataset", "model", "metric"])["value"].to_dict()
    places = sorted({match["place"] for match in map(TARGET.fullmatch, means["metric"]) if match})

    def cell(key: Key) -> str:
        losses = _cell(ours.get(key), theirs.get(key), None)
        names = [(*key, f"target[class={place}]") for place in places]
        targets = [f"{values[name] + 0.0:.4g}" for name in names if name in values]
        return f"{losses}\n({', '.join(targets)})" if targets else losses

    beneath = "below it the paper's with our minus the paper's, and " if theirs else "below it "
    caption = f"{_capital(measure(study.metric))}, {beneath}the targets."
    return methods_grid(study, caption, means["dataset"], cell)


def measure(metric: str) -> str:
    """Return the name of a metric in a caption."""
    return "seconds to fit" if metric == "fit_seconds" else metric_called(metric).title


def number_text(value: float, metric: str) -> str:
    """Format a number: fractions with three decimals, others with three significant digits."""
    if math.isnan(value):
        return NOTHING
    return f"{value:.3f}" if metric_called(metric).is_share else f"{value:.3g}"


def _digits(study: Study, theirs: Mapping[Key, Reported]) -> int | None:
    """Return the decimals of the reported numbers; None for metrics that are not fractions."""
    if not metric_called(study.metric).is_share:
        return None
    fine = any(abs(round(value.mean, 3) - value.mean) > ROUNDING for value in theirs.values())
    return 4 if fine else 3


def _cell(ours: Score | None, theirs: Reported | None, digits: int | None) -> str:
    line = NOTHING if ours is None else _with_spread(ours.mean, ours.std, digits)
    if theirs is None:
        return line
    line += f"\n{_with_spread(theirs.mean, theirs.std, digits)}"
    if ours is not None:
        line += f" ({_difference(ours.mean - theirs.mean, theirs.std, digits)})"
    return line


def _with_spread(mean: float, std: float | None, digits: int | None) -> str:
    shown = f"{mean:.3g}" if digits is None else f"{mean:.{digits}f}"
    if std is None or math.isnan(std):
        return shown
    return f"{shown} ± {std:.2g}" if digits is None else f"{shown} ± {std:.{digits}f}"


def _difference(difference: float, std: float | None, digits: int | None) -> str:
    """Format a difference with its sign, in standard deviations if there are any."""
    value, places, unit = (difference / std, 1, "σ") if std else (difference, digits or 3, "")
    rounded = round(value, places) + 0.0  # no -0.0
    return f"{rounded:+.{places}f}{unit}".replace("-", "−")


def _fits_text(ours: Mapping[Key, Score]) -> str:
    """Write the number of fits of a mean."""
    counts = sorted({score.n_fits for score in ours.values()})
    if counts == [1]:
        return " of one fit"
    fits = " to ".join(map(str, dict.fromkeys([*counts[:1], *counts[-1:]])))
    return f", mean ± standard deviation over {fits} fits"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
