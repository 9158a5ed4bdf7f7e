"""Means of the fits of all studies, from which the summary of the results is written.

``results.csv`` has one row per study, data set, method and metric. Rows without a data set or a
method are about all of them: numbers of fits, agreement with the paper, mean ranks, paired tests.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from discreg.comparison.running.files import write_whole
from discreg.comparison.statistics.ranks import win_tie_loss

from .papers import studies
from .protocol import Study
from .views.blocks import Agreement, Score
from .views.pictures import ranking_of
from .views.tables import scores

__all__ = ["NotStored", "Place", "StoredScores", "scores_of"]

COLUMNS = ("study", "dataset", "method", "metric", "mean", "std", "fits")
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
            values = {name: self.of_study(study, name) for name in Agreement.__annotations__}
        except NotStored:
            return None
        difference = values.pop("mean_difference")
        return Agreement(
            mean_difference=difference, **{name: int(value) for name, value in values.items()}
        )


def _at_values(metric: str) -> re.Pattern[str]:
    return re.compile(re.escape(metric) + r"\[\w+=(?P<x>[^\]]+)\]")


def _place(row: Mapping[str, str]) -> Place:
    return row["study"], row["dataset"], row["method"], row["metric"]


def _score(row: Mapping[str, str]) -> Score:
    std = float(row["std"]) if row["std"] else float("nan")
    return Score(float(row["mean"]), std, int(row["fits"] or 0))


def _printed(score: Score) -> tuple[str, str, str]:
    std = "" if pd.isna(score.std) else f"{score.std:.6g}"
    return f"{score.mean:.6g}", std, str(score.n_fits) if score.n_fits else ""


def scores_of(
    study: Study,
    results: pd.DataFrame,
    majority: Mapping[str, float],
    agreement: Agreement | None,
    *,
    n_fits: int,
    n_done: int,
) -> dict[Place, Score]:
    """Compute the stored numbers of a study from the results of its fits."""
    found: dict[Place, Score] = {}
    groups = results[results["value"].notna()].groupby(["dataset", "model", "metric"])["value"]
    for key, mean, std, count in groups.agg(["mean", "std", "count"]).itertuples(name=None):
        found[study.name, *key] = Score(mean, std, count)
    for (dataset, method), score in scores(study, results).items():
        if score.scaling:
            best = f"{study.metric}{BEST}"
            found[study.name, dataset, method, best] = Score(score.mean, score.std, score.n_fits)
    for dataset, rate in majority.items():
        found[study.name, dataset, "", "majority_rate"] = _number(rate)
    about: dict[str, Any] = {"fits_done": n_done, "fits": n_fits}
    about |= asdict(agreement) if agreement else {}
    found |= {(study.name, "", "", name): _number(value) for name, value in about.items()}
    if study.tested_against is not None:
        found |= _paired(study, results, study.tested_against)
    if "critical difference" in study.views:
        found |= _ranks(study, results)
    return found


def _number(value: float) -> Score:
    return Score(float(value), float("nan"), 0)


def _paired(study: Study, results: pd.DataFrame, other: str) -> dict[Place, Score]:
    """Count the data sets on which a paired t-test finds a method better or worse."""
    return {
        (study.name, "", model, f"{outcome}[against={other}]"): _number(count)
        for (model, against), *counts in win_tie_loss(results, study.metric).itertuples(name=None)
        if against == other and any(counts)
        for outcome, count in zip(("wins", "ties", "losses"), counts, strict=True)
    }


def _ranks(study: Study, results: pd.DataFrame) -> dict[Place, Score]:
    """Compute mean ranks over the data sets with every method; none without a test."""
    try:
        ranking = ranking_of(study, results)
    except ValueError:
        return {}
    found = {
        (study.name, "", method, "mean_rank"): _number(rank)
        for method, rank in ranking.mean_ranks.items()
    }
    found[study.name, "", "", "critical_difference"] = _number(ranking.critical_difference)
    return found
