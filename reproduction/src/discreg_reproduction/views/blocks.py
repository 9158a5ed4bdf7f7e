"""Input and blocks of the views of a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """

    study: Study
    results: pd.DataFrame
    arrays: Mapping[Key, Mapping[str, NDArray[Any]]]
    majority: Mapping[str, float]
    missing: Mapping[str, str]
    majority_of_all: Mapping[str, float] = field(default_factory=dict)
