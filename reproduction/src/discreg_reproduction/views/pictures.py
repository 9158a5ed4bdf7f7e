"""Views of a study with a picture: bars, curves, ranks, histories, margins, coefficients."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from discreg.comparison.figures import critical_difference_figure, svg
from discreg.comparison.metrics import metric as metric_called
from discreg.comparison.statistics import LEVEL, Ranking, friedman_nemenyi
from discreg.comparison.words import listed, p_value, percent
from discreg_reproduction.paper_values import reported
from discreg_reproduction.protocol import Study

from .blocks import Block, Evidence, Grid, Picture, Text
from .figures import (
    bars_figure,
    coefficients_figure,
    curves_figure,
    histories_figure,
    margins_panels_figure,
    singular_values_figure,
)
from .tables import NOTHING, measure, number_text, score_grid, scores

__all__ = ["bars", "coefficients", "critical_difference", "curve", "history", "margins"]

DWARFED = 0.05  # of the first value's height: what comes after it lies on one line
SETTING = re.compile(r"(?P<metric>[^\[]+)\[(?P<parameter>[^=\]]+)=(?P<value>[^\]]+)\]")

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
Rows = dict[str, dict[str, Any]]  # by data set, then by method


def bars(evidence: Evidence) -> Iterator[Block]:
    """Means and deviations as bars, and the numbers unless a table has them already."""
    study = evidence.study
    ours = scores(study, evidence.results)
    if not ours:
        yield Text(f"There is no {measure(study.metric)} to draw.")
        return
    rows: Rows = {}
    for (dataset, method), score in ours.items():
        rows.setdefault(dataset, {})[method] = (score.mean, score.std)
    share = metric_called(study.metric).is_share
    figure = bars_figure(rows, label=measure(study.metric), from_zero=not share)
    yield _picture(
        study,
        "bars",
        figure,
        alt=f"{measure(study.metric)} of {listed(list(study.methods))} on {len(rows)} data sets",
        caption=f"Mean {measure(study.metric)} ± standard deviation, bars in the order of the "
        f"legend.{' The axes do not begin at 0.' if share else _scale_text(figure)}",
    )
    if "table" not in study.views:
        yield score_grid(study, ours, reported(study.name), evidence.majority)


def curve(evidence: Evidence) -> Iterator[Block]:
    """Scores against the parameters that name them, and a few of the numbers."""
    study = evidence.study
    found = _settings(evidence.results, study.metric)
    if found.empty:
        yield Text(f"There is no {measure(study.metric)} at several values of a parameter.")
    for parameter, points in found.groupby("parameter", sort=False):
        curves = _curves_of(study, points)
        figure = curves_figure(curves, x_label=_words(parameter), y_label=measure(study.metric))
        yield _picture(
            study,
            "curve",
            figure,
            alt=f"{measure(study.metric)} of {listed(list(study.methods))} against "
            f"{_words(parameter)} on {len(curves)} data sets",
            caption=f"Mean {measure(study.metric)} against {_words(parameter)}.",
        )
        yield _curve_grid(study, _words(parameter), curves)


def _settings(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Values of ``metric[parameter=x]``, with the parameter and a number x."""
    parts = results["metric"].str.extract(f"^{SETTING.pattern}$")
    x = pd.to_numeric(parts["value"], errors="coerce")
    kept = (parts["metric"] == metric) & x.notna() & results["value"].notna()
    return results.assign(parameter=parts["parameter"], x=x)[kept]


def _curves_of(study: Study, points: pd.DataFrame) -> dict[str, dict[str, Curve]]:
    means = points.groupby(["dataset", "model", "x"])["value"].mean()
    curves: dict[str, dict[str, Curve]] = {}
    there = set(zip(points["dataset"], points["model"], strict=True))
    for key in _keys(study):
        if key in there:
            curve = means.loc[key]
            curves.setdefault(key[0], {})[key[1]] = (
                curve.index.to_numpy(dtype=np.float64),
                curve.to_numpy(dtype=np.float64),
            )
    return curves


def _curve_grid(study: Study, parameter: str, curves: Mapping[str, Mapping[str, Curve]]) -> Grid:
    """Of shares the best value and where it is, of other numbers those at the ends."""
    if metric_called(study.metric).is_share:
        caption = f"Best mean {measure(study.metric)}, and the value of {parameter} that has it."
        told = _best_point
    else:
        caption = f"Mean {measure(study.metric)} at the smallest and the largest {parameter}."
        told = _end_points

    def cell(dataset: str, method: str) -> str:
        curve = curves[dataset].get(method)
        return NOTHING if curve is None else told(curve, study.metric)

    return _grid_of(study, caption, curves, cell)


def _best_point(curve: Curve, metric: str) -> str:
    x, y = curve
    best = int(np.argmin(y) if metric_called(metric).lower_is_better else np.argmax(y))
    level = len(y) > 1 and np.ptp(y) == 0
    return f"{number_text(y[best], metric)} {'throughout' if level else f'at {x[best]:g}'}"


def _end_points(curve: Curve, metric: str) -> str:
    ends = dict.fromkeys([0, len(curve[0]) - 1])
    return "\n".join(f"{number_text(curve[1][end], metric)} at {curve[0][end]:g}" for end in ends)


def critical_difference(evidence: Evidence) -> Iterator[Block]:
    """Mean ranks over the data sets that have every method, and what Nemenyi's test says."""
    study, results = evidence.study, evidence.results
    chosen = results[results["metric"] == study.metric]
    n_methods = chosen.groupby("dataset")["model"].nunique()
    complete = n_methods.index[n_methods == chosen["model"].nunique()]
    chosen = chosen[chosen["dataset"].isin(complete)]
    try:
        ranking = friedman_nemenyi(chosen, study.metric)
    except ValueError as error:
        yield Text(f"There is no critical-difference diagram. {error}")
        return
    yield _picture(
        study,
        "critical difference",
        critical_difference_figure(ranking),
        alt=f"Mean ranks of {len(ranking.mean_ranks)} methods over {ranking.n_blocks} "
        f"{ranking.blocks}",
        caption="A bar at the right joins methods whose mean ranks are within Nemenyi's critical "
        f"difference at the {percent(LEVEL)} level.",
    )
    yield Text(_ranking_text(ranking))


def _ranking_text(ranking: Ranking) -> str:
    """What the tests say, in sentences."""
    ranks = ranking.mean_ranks
    best = ranks.index[0]
    limit = ranks.iloc[0] + ranking.critical_difference
    beyond = [method for method in ranks.index[1:] if ranks[method] > limit]
    within = [method for method in ranks.index[1:] if ranks[method] <= limit]
    said = [
        f"Mean ranks over {ranking.n_blocks} {ranking.blocks}: "
        f"{', '.join(f'{method} {rank:.2f}' for method, rank in ranks.items())}.",
        f"Friedman's test of their equality has {p_value(ranking.p_value)}; the critical "
        f"difference is {ranking.critical_difference:.2f}.",
        f"{best} has the best mean rank. {_lead_text(beyond, within)}",
    ]
    if ranking.left_out:
        said.append(f"{listed(list(ranking.left_out))} lack folds and are left out.")
    return " ".join([*said, ranking.caution]).rstrip()


def _lead_text(beyond: list[str], within: list[str]) -> str:
    """Over which methods the lead of the best mean rank is larger than the critical difference."""
    if not beyond:
        return "Its lead over every other method is within the critical difference."
    if not within:
        return "Its lead over every other method is beyond the critical difference."
    return (
        f"Its lead over {listed(beyond)} is beyond the critical difference; "
        f"over {listed(within)} it is not."
    )


def history(evidence: Evidence) -> Iterator[Block]:
    """The objective by iteration, and its last value."""
    study = evidence.study
    histories = _arrays(evidence, "history")
    if not histories:
        yield Text("There is no history of an objective to draw.")
        return
    if any(_is_dwarfed(h) for row in histories.values() for h in row.values()):
        figure = histories_figure(_distances(histories), label="distance")
        drawn = (
            "The objective of the first fit by iteration, less the smallest value that any method "
            f"reaches on the data set.{_scale_text(figure)}"
        )
    else:
        figure = histories_figure(histories, label="objective")
        drawn = "The objective of the first fit by iteration."
    yield _picture(
        study,
        "history",
        figure,
        alt=f"Objective of {listed(list(study.methods))} by iteration on {len(histories)} data "
        "sets",
        caption=drawn,
    )
    counts = scores(study, evidence.results) if study.metric == "iterations" else {}

    def cell(dataset: str, method: str) -> str:
        if method not in histories[dataset]:
            return NOTHING
        last = f"{histories[dataset][method][-1]:.4g}"
        count = counts.get((dataset, method))
        return last if count is None else f"{last} after {count.mean:g}"

    iterations = ", and after how many iterations" if counts else ""
    yield _grid_of(study, f"The last objective{iterations}.", histories, cell)


def _is_dwarfed(history: NDArray[np.float64]) -> bool:
    """Whether the first value leaves no room on an axis to tell the others apart."""
    if len(history) < 3:
        return False
    above = history - history.min()
    return bool(0 < above[1:].max() <= DWARFED * above[0])


def _distances(histories: Rows) -> Rows:
    """Distances from the smallest value of each data set; none where a logarithm has no place."""
    found: Rows = {}
    for dataset, row in histories.items():
        smallest = min(history.min() for history in row.values())
        away = {method: history - smallest for method, history in row.items()}
        found[dataset] = {m: np.where(values > 0, values, np.nan) for m, values in away.items()}
    return found


def margins(evidence: Evidence) -> Iterator[Block]:
    """The distribution of the margins, and its mean and deviation."""
    study = evidence.study
    margins = _arrays(evidence, "margins")
    if not margins:
        yield Text("There are no margins to draw.")
        return
    yield _picture(
        study,
        "margins",
        margins_panels_figure(margins),
        alt=f"Cumulative distribution of the margins of {listed(list(study.methods))} on "
        f"{len(margins)} data sets",
        caption="Share of the training samples whose margin is at most x, in the first fit.",
    )

    def cell(dataset: str, method: str) -> str:
        values = margins[dataset].get(method)
        return NOTHING if values is None else f"{values.mean():.3g} ± {values.std():.3g}"

    yield _grid_of(study, "Mean ± standard deviation of the margins.", margins, cell)


def coefficients(evidence: Evidence) -> Iterator[Block]:
    """Singular values of the coefficients, and their sizes."""
    study = evidence.study
    kinds = {
        "singular_values": (
            singular_values_figure,
            "Singular values of the coefficients, relative to the largest.",
        ),
        "coefficients": (
            coefficients_figure,
            "Sizes of the coefficients, features across and classes downwards; blank is 0.",
        ),
    }
    for name, (draw, caption) in kinds.items():
        rows = _arrays(evidence, name)
        one = len(study.methods) == 1
        named = {
            dataset if one else f"{dataset}, {method}": values
            for dataset, row in rows.items()
            for method, values in row.items()
        }
        if not named:
            yield Text(f"There are no {_words(name)} to draw.")
            continue
        alt = f"{_words(name)} on {len(rows)} data sets"
        yield _picture(study, _words(name), draw(named), alt=alt, caption=caption)


def _arrays(evidence: Evidence, name: str) -> Rows:
    """Arrays of one name in the order of the study."""
    rows: Rows = {}
    for dataset, method in _keys(evidence.study):
        values = evidence.arrays.get((dataset, method), {}).get(name)
        if values is not None and len(values):
            rows.setdefault(dataset, {})[method] = np.asarray(values)
    return rows


def _grid_of(
    study: Study, caption: str, datasets: Iterable[str], cell: Callable[[str, str], str]
) -> Grid:
    """A row a data set and a column a method."""
    rows = ((dataset, *(cell(dataset, method) for method in study.methods)) for dataset in datasets)
    return Grid(caption, ("data set", *study.methods), tuple(rows))


def _scale_text(figure: Figure) -> str:
    """That vertical axes are logarithmic, where they are."""
    scales = {axes.get_yscale() for axes in figure.axes}
    if scales == {"log"}:
        return " The vertical axes are logarithmic."
    return " Some of the vertical axes are logarithmic." if "log" in scales else ""


def _picture(study: Study, view: str, figure: Figure, *, alt: str, caption: str) -> Picture:
    name = f"{study.name}-{view}".replace("/", "-").replace(" ", "-")
    return Picture(name, svg(figure), alt, caption)


def _keys(study: Study) -> Iterator[tuple[str, str]]:
    for dataset in study.datasets:
        for method in study.methods:
            yield dataset, method


def _words(name: str) -> str:
    return name.replace("_", " ")
