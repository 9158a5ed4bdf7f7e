"""Results of the papers' studies that never ran, for tests of how they are shown."""

from functools import cache

import numpy as np
import pandas as pd

from discreg_reproduction.paper_values import Reported, reported
from discreg_reproduction.papers import studies
from discreg_reproduction.views import Evidence, show

COLUMNS = ["dataset", "model", "repeat", "fold", "metric", "value"]
SWEEPS = {
    "drm/fig2": ("n", [2_000, 10_000, 40_000]),
    "drm/fig4": ("beta", [1e3, 1e5]),
    "grelsr/fig2": ("dimension", [30, 60, 90, 120, 150]),
    "grelsr/fig3": ("group_penalty", [10.0**power for power in range(-4, 5)]),
    "lowrank/fig2": ("rank", list(range(10, 20))),
}


def frame(*rows):
    """A long table of (dataset, model, repeat, fold, metric, value)."""
    return pd.DataFrame(rows, columns=COLUMNS)


def fits(study, *, n_fits=3, datasets=None):
    """Data set, method and number of every fit."""
    for dataset in datasets or study.datasets:
        for method in study.methods:
            for repeat in range(n_fits):
                yield dataset, method, repeat


def results_of(name, *, n_fits=3, datasets=None, seed=0):
    """Numbers near the reported ones, or by chance where there are none."""
    study, theirs = studies()[name], reported(name)
    chance = np.random.default_rng(seed)
    rows = []
    for dataset, method, repeat in fits(study, n_fits=n_fits, datasets=datasets):
        value = theirs.get((dataset, method), Reported(0.8, 0.02))
        centre = value.mean + chance.normal(0, value.std or 0.01)
        place = list(study.methods).index(method)
        if name == "relsr/table1":
            metrics = {"loss": 0.5 * place, **{f"target[class={k}]": k - 1.0 for k in (1, 2, 3)}}
        elif name in SWEEPS:
            parameter, values = SWEEPS[name]
            metrics = {
                f"{study.metric}[{parameter}={x:g}]": centre + 0.01 * step
                for step, x in enumerate(values)
            }
        elif name in ("drm/table2", "drm/table7"):
            metrics = {
                study.metric: centre - 0.1,
                f"{study.metric}[scaling=plain]": centre - 0.2,
                f"{study.metric}[scaling=scaled]": centre,
            }
        elif name == "odm/fig2":
            metrics = {"fit_seconds": 10.0 ** (place - 1) * centre}
        elif name == "lowrank/fig1":
            metrics = {"accuracy": centre, "g_mean": centre, "rank": 12.0, "used_features": 0.25}
        elif study.metric == "accuracy":
            metrics = {"accuracy": centre, "balanced_accuracy": centre - 0.1}
        else:
            metrics = {study.metric: centre}
        rows += [(dataset, method, repeat, 0, metric, number) for metric, number in metrics.items()]
    return frame(*rows)


def arrays_of(name, *, datasets=None, seed=0):
    """A falling history, margins, singular values and coefficients of every first fit."""
    chance = np.random.default_rng(seed)
    return {
        (dataset, method): {
            "history": 1 + 5 * 0.8 ** np.arange(30),
            "margins": chance.normal(0.5, 0.4, 200),
            "singular_values": np.linspace(2, 0, 15),
            "coefficients": chance.normal(size=(600, 15)) * (chance.random((600, 1)) < 0.2),
        }
        for dataset, method, _ in fits(studies()[name], n_fits=1, datasets=datasets)
    }


def blocks_of(name, *, datasets=None, majority=None, missing=None, **changes):
    """Everything that is shown of a study."""
    evidence = Evidence(
        studies()[name],
        results_of(name, datasets=datasets, **changes),
        arrays=arrays_of(name, datasets=datasets),
        majority=majority or {},
        missing=missing or {},
    )
    return show(evidence)


def shown(name, results, **changes):
    """What is shown of some results of a study."""
    given = {"arrays": {}, "majority": {}, "missing": {}} | changes
    return show(Evidence(studies()[name], results, **given))


@cache
def everything(name):
    """Everything that is shown of a study, made once."""
    return blocks_of(name)


def of_kind(blocks, kind):
    """The blocks of one kind."""
    return [block for block in blocks if isinstance(block, kind)]


def cell_of(grid, dataset, method):
    """The cell of a data set and a method."""
    row = next(row for row in grid.rows if row[0] == dataset)
    return row[grid.header.index(method)]


def as_reported(name):
    """Our results, if they were the reported ones."""
    return frame(
        *(
            (dataset, method, 0, 0, studies()[name].metric, value.mean)
            for (dataset, method), value in reported(name).items()
        )
    )
