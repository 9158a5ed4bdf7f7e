"""What the views of a study are made from, and the blocks that they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    """A table of words; a line break in a cell sets what follows beneath."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A drawing as an SVG document, with its words."""

    name: str
    svg: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Score:
    """Mean and standard deviation of a method over the fits of a data set."""

    mean: float
    std: float  # NaN where there is one fit
    n_fits: int
    scaling: str = ""  # what follows the metric's name where scalings are told apart


@dataclass(frozen=True)
class Agreement:
    """How near our numbers are to the reported ones."""

    n_values: int  # that both have
    n_judged: int  # of them with a reported standard deviation above 0
    within_one: int  # reported standard deviation, of those
    within_two: int
    mean_difference: float  # of the absolute differences of all values
    n_datasets: int  # with every method that the paper reports
    same_best: int  # of them with a method that is the best, or as good, there and here

    @property
    def text(self) -> str:
        """The counts in sentences."""
        deviations = (
            f"Of {self.n_judged} with a reported standard deviation, {self.within_one} are within "
            f"one of it and {self.within_two} within two."
            if self.n_judged
            else "The paper reports no standard deviations of them."
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
    """What there is to show of a study.

    Parameters
    ----------
    study : Study
        What was asked.
    results : DataFrame
        Columns dataset (its name in the paper), model (the method), repeat, fold, metric, value.
    arrays : mapping
        Arrays of the first fit by data set and method.
    majority : mapping
        Rate of the most frequent class among the judged samples, by data set.
    missing : mapping
        Data sets that could not be run, and why.
    """

    study: Study
    results: pd.DataFrame
    arrays: Mapping[Key, Mapping[str, NDArray[Any]]]
    majority: Mapping[str, float]
    missing: Mapping[str, str]
