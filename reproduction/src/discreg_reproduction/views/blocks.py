"""Input and blocks of the views of a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from discreg_reproduction.protocol import Study

__all__ = ["NOTHING", "Agreement", "Block", "Evidence", "Grid", "Key", "Picture", "Score", "Text"]

Key = tuple[str, str]  # data set and method
NOTHING = "–"  # in a cell without a value


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Grid:
    """A table of strings; a cell may contain several lines."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A figure as an SVG document, with alternative text and caption."""

    name: str
    svg: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Score:
    """Mean and standard deviation of a method over the fits of a data set."""

    mean: float
    std: float  # NaN if there is only one fit
    n_fits: int
    scaling: str = ""  # suffix of the metric's name if there are two scalings
    earlier: bool = False  # whether it is that of an earlier run


@dataclass(frozen=True)
class Agreement:
    """Agreement of our numbers with the reported ones."""

    n_values: int  # compared values
    n_judged: int  # compared values with a reported standard deviation above 0
    within_one: int  # values within one reported standard deviation
    within_two: int
    mean_difference: float  # mean absolute difference of all values
    n_datasets: int  # data sets with every method that the paper reports
    same_best: int  # data sets with a common best method, including ties

    @classmethod
    def read(cls, numbers: Mapping[str, float]) -> Agreement:
        """Create the agreement from stored numbers by their names."""
        values: dict[str, Any] = {each.name: numbers[each.name] for each in fields(cls)}
        difference = values.pop("mean_difference")
        return cls(mean_difference=difference, **{name: int(n) for name, n in values.items()})

    @property
    def text(self) -> str:
        """The counts in sentences."""
        deviations = (
            f"Of {self.n_judged} with a reported standard deviation, {self.within_one} differ by "
            f"at most one and {self.within_two} by at most two standard deviations."
            if self.n_judged
            else "The paper reports no standard deviations."
        )
        best = (
            f" The paper's best method is among our best on {self.same_best} of {self.n_datasets} "
            "data sets."
            if self.n_datasets
            else ""
        )
        return (
            f"{self.n_values} values are compared. {deviations} The mean absolute difference is "
            f"{self.mean_difference:.4f}.{best}"
        )


Block = Text | Grid | Picture | Agreement


@dataclass(frozen=True)
class Evidence:
    """Input of the views of a study.

    Parameters
    ----------
    study : Study
        The study.
    results : DataFrame
        Columns dataset (its name in the paper), model (the method), repeat, fold, metric, value.
    arrays : mapping
        Arrays of the first fit by data set and method.
    majority : mapping
        Rate of the most frequent class in the test samples, by data set.
    missing : mapping
        Data sets that could not be run, and the reasons.
    majority_of_all : mapping
        Rate of the most frequent class in all samples, for the reported accuracies, whose test
        samples are not known; where it is missing, that in the test samples is used.
    earlier : mapping
        Scores of an earlier run by data set, method and metric.
    """

    study: Study
    results: pd.DataFrame
    arrays: Mapping[Key, Mapping[str, NDArray[Any]]]
    majority: Mapping[str, float]
    missing: Mapping[str, str]
    majority_of_all: Mapping[str, float] = field(default_factory=dict)
    earlier: Mapping[tuple[str, str, str], Score] = field(default_factory=dict)

    @cached_property
    def n_fits(self) -> dict[Key, int]:
        """Number of fits of this run by data set and method."""
        fits = self.results[["dataset", "model", "repeat", "fold"]].drop_duplicates()
        return dict(fits.groupby(["dataset", "model"]).size())

    @cached_property
    def n_earlier_fits(self) -> dict[Key, int]:
        """Number of fits of the earlier run, for data sets and methods of which it has more."""
        there: dict[Key, int] = {}
        for (dataset, method, _), score in self.earlier.items():
            key = dataset, method
            if key in self.study.cells:
                there[key] = max(there.get(key, 0), score.n_fits)
        return {key: n for key, n in there.items() if n > self.n_fits.get(key, 0)}

    @property
    def earlier_summary(self) -> dict[tuple[str, str], float]:
        """Numbers of the earlier run about all data sets, by method ("" for all) and metric.

        Empty if a number of this run is among those that they summarise. They were computed before
        the means were rounded.
        """
        own = set(zip(self.means["dataset"], self.means["model"], strict=True))
        own = {key for key in own if key[1] not in self.study.variants} - set(self.n_earlier_fits)
        numbers = {
            (method, metric): score.mean
            for (dataset, method, metric), score in self.earlier.items()
            if not dataset
        }
        return {} if own else numbers

    @cached_property
    def means(self) -> pd.DataFrame:
        """Columns dataset, model, metric, value (the mean), std and n_fits, over both runs."""
        own = self.results[self.results["value"].notna()]
        keys = pd.MultiIndex.from_frame(own[["dataset", "model"]])
        own = own[~keys.isin(list(self.n_earlier_fits))]
        groups = own.groupby(["dataset", "model", "metric"], sort=False)["value"]
        means = groups.agg(value="mean", std="std", n_fits="count").reset_index()
        rows = [
            (*place, score.mean, score.std, score.n_fits)
            for place, score in self.earlier.items()
            if place[:2] in self.n_earlier_fits
        ]
        if not rows:
            return means
        others = pd.DataFrame(rows, columns=means.columns)
        return others if means.empty else pd.concat([means, others], ignore_index=True)
