"""Means of the fits of all studies, from which the summary of the results is written.

``results.csv`` has one row per study, data set, method and metric. Rows without a data set or a
method are about all of them: numbers of fits, agreement with the paper, mean ranks, paired tests.
The column ``run`` says which numbers are those of an earlier run: they are used for a method on a
data set of which this run has fewer fits.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from discreg.comparison.running.store import write_whole
from discreg.comparison.words import listed

from .papers import studies
from .views.baselines import OUTCOMES, paired_counts
from .views.blocks import Agreement, Evidence, Score
from .views.pictures import ranking_of
from .views.tables import scores

__all__ = ["NotStored", "Place", "StoredScores", "origin", "scores_of"]

COLUMNS = ("study", "dataset", "method", "metric", "mean", "std", "fits", "run")
EARLIER = "earlier"
MOST_NAMED = 8  # more data sets are counted
BEST = "[scaling=best]"

Place = tuple[str, str, str, str]  # study, data set, method and metric


class NotStored(KeyError):
    """The results do not contain this number."""


@dataclass(frozen=True)
class StoredScores:
    """Mean, standard deviation and number of fits by study, data set, method and metric."""

    by_place: Mapping[Place, Score] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> StoredScores:
        """Read a file that `write` wrote."""
        with path.open(encoding="utf-8", newline="") as file:
            return cls({_place(row): _score(row) for row in csv.DictReader(file)})

    def write(self, path: Path) -> None:
        """Write one line per number."""
        frame = pd.DataFrame(
            [(*place, *_printed(score)) for place, score in self.by_place.items()], columns=COLUMNS
        )
        write_whole(path, frame.to_csv(index=False, lineterminator="\n"))

    def earlier(self, study: str) -> dict[tuple[str, str, str], Score]:
        """Return the numbers of a study as those of an earlier run, without its name."""
        return {
            place[1:]: replace(score, earlier=True)
            for place, score in self.by_place.items()
            if place[0] == study
        }

    def updated(self, others: Mapping[Place, Score]) -> StoredScores:
        """Replace and add numbers."""
        return StoredScores({**self.by_place, **others})

    def score(self, study: str, dataset: str, method: str, metric: str) -> Score:
        """Return one number; raise `NotStored` if there is none."""
        try:
            return self.by_place[study, dataset, method, metric]
        except KeyError:
            raise NotStored(f"{study}: no {metric} of {method} on {dataset}") from None

    def mean(self, study: str, dataset: str, method: str, metric: str) -> float:
        """Return the mean of a metric."""
        return self.score(study, dataset, method, metric).mean

    def of_study(self, study: str, metric: str, method: str = "") -> float:
        """Return a number about all data sets of a study."""
        return self.mean(study, "", method, metric)

    def at_values(self, study: str, dataset: str, method: str, metric: str) -> dict[str, float]:
        """Return the means of ``metric[parameter=x]`` by x."""
        named = _at_values(metric)
        found = {
            match["x"]: score.mean
            for place, score in self.by_place.items()
            if place[:3] == (study, dataset, method) and (match := named.fullmatch(place[3]))
        }
        if not found:
            raise NotStored(f"{study}: no {metric} of {method} on {dataset} at several values")
        return found

    def datasets(self, study: str, method: str, metric: str) -> list[str]:
        """List the data sets with a metric of a method, in the order of the study."""
        return self._datasets(study, method, re.compile(re.escape(metric)))

    def datasets_at(self, study: str, method: str, metric: str) -> list[str]:
        """List the data sets with ``metric[parameter=x]`` of a method."""
        return self._datasets(study, method, _at_values(metric))

    def _datasets(self, study: str, method: str, metric: re.Pattern[str]) -> list[str]:
        there = {
            place[1]
            for place in self.by_place
            if (place[0], place[2]) == (study, method) and metric.fullmatch(place[3])
        }
        found = [dataset for dataset in studies()[study].datasets if dataset in there]
        if not found:
            raise NotStored(f"{study}: no {metric.pattern} of {method}")
        return found

    def agreement(self, study: str) -> Agreement | None:
        """Return the agreement of a study with the paper; None if nothing is compared."""
        try:
            return Agreement.read(
                {each.name: self.of_study(study, each.name) for each in fields(Agreement)}
            )
        except NotStored:
            return None


def _at_values(metric: str) -> re.Pattern[str]:
    return re.compile(re.escape(metric) + r"\[\w+=(?P<x>[^\]]+)\]")


def _place(row: Mapping[str, str]) -> Place:
    return row["study"], row["dataset"], row["method"], row["metric"]


def _score(row: Mapping[str, str]) -> Score:
    std = float(row["std"]) if row["std"] else float("nan")
    return Score(float(row["mean"]), std, int(row["fits"] or 0), earlier=row.get("run") == EARLIER)


def _printed(score: Score) -> tuple[str, str, str, str]:
    std = "" if pd.isna(score.std) else f"{score.std:.6g}"
    fits = str(score.n_fits) if score.n_fits else ""
    return f"{score.mean:.6g}", std, fits, EARLIER if score.earlier else ""


def scores_of(
    evidence: Evidence, agreement: Agreement | None, *, n_fits: int, n_done: int
) -> dict[Place, Score]:
    """Compute the stored numbers of a study from the results of its fits."""
    study = evidence.study
    found: dict[Place, Score] = {}
    for *place, mean, std, count in evidence.means.itertuples(index=False, name=None):
        dataset, method, metric = place
        older = (dataset, method) in evidence.n_earlier_fits
        found[study.name, dataset, method, metric] = Score(mean, std, count, earlier=older)
    for (dataset, method), score in scores(study, evidence.means).items():
        if score.scaling:
            place = study.name, dataset, method, f"{study.metric}{score.scaling}"
            found[*place[:3], f"{study.metric}{BEST}"] = found[place]
    for dataset, rate in evidence.majority.items():
        found[study.name, dataset, "", "majority_rate"] = _number(rate)
    about: dict[str, Any] = {
        "fits": n_fits,
        "fits_done": n_done,
        "fits_earlier": sum(evidence.n_earlier_fits.values()),
    }
    about |= asdict(agreement) if agreement else {}
    found |= {(study.name, "", "", name): _number(value) for name, value in about.items()}
    for method, counts in paired_counts(evidence).items():
        for outcome, count in zip(OUTCOMES, counts, strict=True):
            metric = f"{outcome}[against={study.tested_against}]"
            found[study.name, "", method, metric] = _number(count)
    if "critical difference" in study.views:
        found |= _ranks(evidence)
    return found


def _number(value: float) -> Score:
    return Score(float(value), float("nan"), 0)


def _ranks(evidence: Evidence) -> dict[Place, Score]:
    """Compute mean ranks over the data sets with every method; none without a test."""
    try:
        ranking = ranking_of(evidence)
    except ValueError:
        return {}
    study = evidence.study
    found = {
        (study.name, "", method, "mean_rank"): _number(rank)
        for method, rank in ranking.mean_ranks.items()
    }
    found[study.name, "", "", "critical_difference"] = _number(ranking.critical_difference)
    return found


def origin(stored: StoredScores, study: str) -> str:
    """Write which numbers of a study are those of this run; empty if all are."""
    of_run: dict[bool, dict[tuple[str, str], int]] = {True: {}, False: {}}
    for (name, dataset, method, _), score in stored.by_place.items():
        if name == study and dataset and method:
            fits = of_run[score.earlier]
            fits[dataset, method] = max(fits.get((dataset, method), 0), score.n_fits)
    own, older = of_run[False], of_run[True]
    if not older:
        return ""
    if not own:
        return "The numbers are those of an earlier run."
    known = {dataset for dataset, _ in own | older}
    datasets = [dataset for dataset in studies()[study].datasets if dataset in known]
    methods: dict[str, list[str]] = {}  # by where they were run and how often
    for method in studies()[study].methods:
        there = {dataset: own[dataset, method] for dataset in datasets if (dataset, method) in own}
        if there:
            methods.setdefault(_cells(list(there), len(datasets), there.values()), []).append(
                method
            )
    parts = [f"{listed(names)} on {where}" for where, names in methods.items()]
    return f"Of this run: {'; '.join(parts)}. The other numbers are those of an earlier run."


def _cells(some: Sequence[str], n_all: int, fits: Collection[int]) -> str:
    """Name data sets, or count many, with the number of fits of each."""
    where = listed(list(some)) if len(some) <= MOST_NAMED else f"{len(some)} data sets"
    least, most = min(fits), max(fits)
    n = f"{least}" if least == most else f"{least} to {most}"
    each = "fit" if n == "1" else "fits"
    return f"{'all data sets' if len(some) == n_all else where} ({n} {each} each)"
