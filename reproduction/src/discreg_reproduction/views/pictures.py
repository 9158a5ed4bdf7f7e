"""Views of a study with a picture: bars, curves, ranks, histories, margins, coefficients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from discreg.base.metrics import metric as metric_called
from discreg.comparison.report.figures import svg
from discreg.comparison.words import listed, percent
from discreg_reproduction.paper_values import reported
from discreg_reproduction.protocol import Study
from discreg_reproduction.rank_figures import critical_difference_figure
from discreg_reproduction.ranks import LEVEL, Ranking, friedman_nemenyi

from .blocks import NOTHING, Block, Evidence, Grid, Key, Picture, Text
from .figures import (
    Curve,
    Rows,
    bars_figure,
    coefficients_figure,
    curves_figure,
    histories_figure,
    margins_panels_figure,
    singular_values_figure,
)
from .tables import measure, methods_grid, number_text, score_grid, scores

__all__ = [
    "bars",
    "coefficients",
    "critical_difference",
    "curve",
    "history",
    "margins",
    "ranking_of",
    "tied_directions",
]

DWARFED = 0.05  # fraction of the first value below which later values would look equal
SETTING = r"^(?P<metric>[^\[]+)\[(?P<parameter>[^=\]]+)=(?P<value>[^\]]+)\]$"


def bars(evidence: Evidence) -> Iterator[Block]:
    """Draw means and deviations as bars, with a table unless the study has one."""
    study = evidence.study
    ours = scores(study, evidence.means)
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
        alt=f"{measure(study.metric)} of {_methods(study)} on {len(rows)} data sets",
        caption=f"Mean {measure(study.metric)} ± standard deviation, bars in the order of the "
        f"legend.{' The axes do not begin at 0.' if share else _scale_text(figure)}",
    )
    if "table" not in study.views:
        yield score_grid(evidence, ours, reported(study.name))


def curve(evidence: Evidence) -> Iterator[Block]:
    """Draw scores as a function of a parameter, with a table of some values."""
    study = evidence.study
    name = measure(study.metric)
    found = _settings(evidence.means, study.metric)
    if found.empty:
        yield Text(f"There is no {name} at several values of a parameter.")
    for parameter, points in found.groupby("parameter", sort=False):
        curves = _curves_of(study, points)
        x_label = parameter.replace("_", " ")
        yield _picture(
            study,
            "curve",
            curves_figure(curves, x_label=x_label, y_label=name),
            alt=f"{name} of {_methods(study)} against {x_label} on {len(curves)} data sets",
            caption=f"Mean {name} against {x_label}.",
        )
        if metric_called(study.metric).is_share:
            caption = f"Best mean {name}, and the value of {x_label} that has it."
        else:
            caption = f"Mean {name} at the smallest and the largest {x_label}."
        yield _grid(study, caption, curves, lambda key, points: _points(points, study.metric))


def _settings(means: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Select means of ``metric[parameter=x]``, with the parameter and the number x."""
    parts = means["metric"].str.extract(SETTING)
    x = pd.to_numeric(parts["value"], errors="coerce")
    return means.assign(parameter=parts["parameter"], x=x)[(parts["metric"] == metric) & x.notna()]


def _curves_of(study: Study, points: pd.DataFrame) -> Rows:
    means = points.set_index(["dataset", "model", "x"])["value"].sort_index()
    there = set(zip(points["dataset"], points["model"], strict=True))
    curves: Rows = {}
    for key in study.cells:
        if key in there:
            line = means.loc[key]
            x, y = line.index.to_numpy(dtype=np.float64), line.to_numpy(dtype=np.float64)
            curves.setdefault(key[0], {})[key[1]] = (x, y)
    return curves


def _points(curve: Curve, metric: str) -> str:
    """Format the best value and its parameter for fractions, the end values for other metrics."""
    x, y = np.asarray(curve[0]), np.asarray(curve[1])
    if not metric_called(metric).is_share:
        ends = dict.fromkeys([0, len(x) - 1])
        return "\n".join(f"{number_text(y[end], metric)} at {x[end]:g}" for end in ends)
    best = int(np.argmin(y) if metric_called(metric).lower_is_better else np.argmax(y))
    level = len(y) > 1 and np.ptp(y) == 0
    return f"{number_text(y[best], metric)} {'throughout' if level else f'at {x[best]:g}'}"


def tied_directions(evidence: Evidence) -> Iterator[Block]:
    """Show the accuracies of random directions where a regression has no preferred ones."""
    found = {
        name: _settings(evidence.means, name).set_index(["dataset", "x"])["value"].sort_index()
        for name in ("accuracy_min", "accuracy_max")
    }
    own = _settings(evidence.means[evidence.means["model"] == "LRLR"], "accuracy")
    means = own.set_index(["dataset", "x"])["value"]
    rows = tuple(
        (dataset, f"{rank:g}", *(f"{each[dataset, rank]:.3f}" for each in (means, *found.values())))
        for dataset, rank in found["accuracy_min"].index
    )
    if rows:
        yield Grid(
            "LRLR below full rank where all its eigenvalues are equal, so that every choice of "
            "directions is optimal: mean accuracy by our rule, and of the worst and the best of "
            "random choices in each fold.",
            ("data set", "rank", "LRLR", "worst", "best"),
            rows,
        )


def critical_difference(evidence: Evidence) -> Iterator[Block]:
    """Draw mean ranks over the data sets that have every method, with Nemenyi's test."""
    study = evidence.study
    try:
        ranking = ranking_of(evidence)
    except ValueError as error:
        yield Text(f"There is no critical-difference diagram. {error}")
        return
    yield _picture(
        study,
        "critical difference",
        critical_difference_figure(ranking),
        alt=f"Mean ranks of {len(ranking.mean_ranks)} methods over {ranking.n_blocks} "
        f"{ranking.blocks}",
        caption="A bar on the right joins methods whose mean ranks differ by less than Nemenyi's "
        f"critical difference at the {percent(LEVEL)} level.",
    )
    yield Text(_ranking_text(ranking))


def ranking_of(evidence: Evidence) -> Ranking:
    """Rank the methods over the data sets that have all of them, variants left out."""
    study, results = evidence.study, evidence.results
    if evidence.n_earlier_fits:
        results = evidence.means.assign(repeat=0, fold=0)
    named = ~results["model"].isin(list(study.variants))
    chosen = results[(results["metric"] == study.metric) & named]
    n_methods = chosen.groupby("dataset")["model"].nunique()
    complete = n_methods.index[n_methods == chosen["model"].nunique()]
    ranking = friedman_nemenyi(chosen[chosen["dataset"].isin(complete)], study.metric)
    about = evidence.earlier_summary
    ranks = {method: about.get((method, "mean_rank")) for method in ranking.mean_ranks.index}
    if None in ranks.values():
        return ranking
    return replace(ranking, mean_ranks=pd.Series(ranks).sort_values(kind="stable"))


def _ranking_text(ranking: Ranking) -> str:
    """Write sentences on the results of the tests."""
    ranks = ranking.mean_ranks
    limit = ranks.iloc[0] + ranking.critical_difference
    beyond = [method for method in ranks.index[1:] if ranks[method] > limit]
    within = [method for method in ranks.index[1:] if ranks[method] <= limit]
    if beyond and within:
        lead = (
            f"Its lead over {listed(beyond)} is beyond the critical difference; "
            f"over {listed(within)} it is not."
        )
    else:
        place = "beyond" if beyond else "within"
        lead = f"Its lead over every other method is {place} the critical difference."
    said = [
        f"Mean ranks over {ranking.n_blocks} {ranking.blocks}: "
        f"{', '.join(f'{method} {rank:.2f}' for method, rank in ranks.items())}.",
        f"Friedman's test of their equality has {_p_value(ranking.p_value)}; the critical "
        f"difference is {ranking.critical_difference:.2f}.",
        f"{ranks.index[0]} has the best mean rank. {lead}",
    ]
    if ranking.left_out:
        said.append(f"{listed(list(ranking.left_out))} lack folds and are left out.")
    return " ".join([*said, ranking.caution]).rstrip()


def _p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def history(evidence: Evidence) -> Iterator[Block]:
    """Draw the objective by iteration, with a table of its last values."""
    study = evidence.study
    histories = _arrays(evidence, "history")
    if not histories:
        yield Text("There is no history of an objective to draw.")
        return
    caption = "The objective of the first fit by iteration"
    if any(_is_dwarfed(values) for row in histories.values() for values in row.values()):
        figure = histories_figure(_distances(histories), label="distance")
        caption += ", less the smallest value that any method reaches on the data set."
        caption += _scale_text(figure)
    else:
        figure = histories_figure(histories, label="objective")
        caption += "."
    alt = f"Objective of {_methods(study)} by iteration on {len(histories)} data sets"
    yield _picture(study, "history", figure, alt=alt, caption=caption)
    counts = scores(study, evidence.means) if study.metric == "iterations" else {}

    def cell(key: Key, values: NDArray[np.float64]) -> str:
        after = f" after {counts[key].mean:g}" if key in counts else ""
        return f"{values[-1]:.4g}{after}"

    iterations = ", and after how many iterations" if counts else ""
    yield _grid(study, f"The last objective{iterations}.", histories, cell)


def _is_dwarfed(history: NDArray[np.float64]) -> bool:
    """Return whether the first value is so large that later values would look equal."""
    if len(history) < 3:
        return False
    above = history - history.min()
    return bool(0 < above[1:].max() <= DWARFED * above[0])


def _distances(histories: Rows) -> Rows:
    """Compute positive distances from the smallest value of each data set, for a log axis."""
    found: Rows = {}
    for dataset, row in histories.items():
        smallest = min(history.min() for history in row.values())
        away = {method: history - smallest for method, history in row.items()}
        found[dataset] = {m: np.where(values > 0, values, np.nan) for m, values in away.items()}
    return found


def margins(evidence: Evidence) -> Iterator[Block]:
    """Draw the distribution of the margins, with a table of means and deviations."""
    study = evidence.study
    found = _arrays(evidence, "margins")
    if not found:
        yield Text("There are no margins to draw.")
        return
    yield _picture(
        study,
        "margins",
        margins_panels_figure(found),
        alt=f"Cumulative distribution of the margins of {_methods(study)} on {len(found)} data "
        "sets",
        caption="Fraction of the training samples whose margin is at most x, in the first fit.",
    )
    yield _grid(
        study,
        "Mean ± standard deviation of the margins.",
        found,
        lambda key, values: f"{values.mean():.3g} ± {values.std():.3g}",
    )


def coefficients(evidence: Evidence) -> Iterator[Block]:
    """Draw the singular values and the absolute values of the coefficients."""
    study = evidence.study
    for name, draw, caption in (
        (
            "singular values",
            singular_values_figure,
            "Singular values of the coefficients, relative to the largest.",
        ),
        (
            "coefficients",
            coefficients_figure,
            "Absolute coefficients, features in columns and classes in rows; 0 is blank.",
        ),
    ):
        rows = _arrays(evidence, name.replace(" ", "_"))
        if not rows:
            yield Text(f"There are no {name} to draw.")
            continue
        named = {
            dataset if len(study.methods) == 1 else f"{dataset}, {method}": values
            for dataset, row in rows.items()
            for method, values in row.items()
        }
        alt = f"{name} on {len(rows)} data sets"
        yield _picture(study, name, draw(named), alt=alt, caption=caption)


def _arrays(evidence: Evidence, name: str) -> Rows:
    """Select the named arrays in the order of the study."""
    rows: Rows = {}
    for dataset, method in evidence.study.cells:
        values = evidence.arrays.get((dataset, method), {}).get(name)
        if values is not None and len(values):
            rows.setdefault(dataset, {})[method] = np.asarray(values)
    return rows


def _grid(study: Study, caption: str, rows: Rows, cell: Any) -> Block:
    """Create a table with the function `cell` applied to the values of each method."""
    return methods_grid(
        study,
        caption,
        rows,
        lambda key: cell(key, rows[key[0]][key[1]]) if key[1] in rows[key[0]] else NOTHING,
    )


def _methods(study: Study) -> str:
    return listed(list(study.methods))


def _scale_text(figure: Figure) -> str:
    """Write a note if vertical axes are logarithmic."""
    scales = {axes.get_yscale() for axes in figure.axes}
    if scales == {"log"}:
        return " The vertical axes are logarithmic."
    return " Some of the vertical axes are logarithmic." if "log" in scales else ""


def _picture(study: Study, view: str, figure: Figure, *, alt: str, caption: str) -> Picture:
    return Picture(re.sub("[/ ]", "-", f"{study.name}-{view}"), svg(figure), alt, caption)
