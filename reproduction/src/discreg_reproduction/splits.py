"""How a study divides a data set into what a model is fitted on and what judges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, train_test_split

from discreg.base.errors import InputError

from .registry import Dataset

__all__ = ["Halves", "KFold", "OfficialSplit", "PerClass", "Splits", "StoredFolds"]

Rows = NDArray[np.intp]


class Splits(Protocol):
    """Repeats, folds in each, and the rows of one of them."""

    @property
    def n_repeats(self) -> int:
        """How often a data set is divided anew."""

    @property
    def n_folds(self) -> int:
        """Into how many test parts it is divided each time."""

    def rows(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Rows, Rows]:
        """Rows of the training part and of the test part."""


@dataclass(frozen=True)
class StoredFolds:
    """The folds that come with the data set."""

    n_folds: int = 5
    n_repeats: int = 1

    def rows(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Rows, Rows]:
        if dataset.folds is None:
            raise InputError(f"This copy of {dataset.name} has no folds.")
        held_out = dataset.folds == np.unique(dataset.folds)[fold]
        return np.flatnonzero(~held_out), np.flatnonzero(held_out)


@dataclass(frozen=True)
class KFold:
    """Stratified folds by chance."""

    n_folds: int = 5
    n_repeats: int = 1

    def rows(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Rows, Rows]:
        folds = StratifiedKFold(self.n_folds, shuffle=True, random_state=repeat)
        return list(folds.split(np.zeros(len(dataset.y)), dataset.y))[fold]


@dataclass(frozen=True)
class Halves:
    """A share of the samples by chance for training, the rest for testing, again and again."""

    n_repeats: int
    train_size: float = 0.5
    stratified: bool = False
    n_folds: int = 1

    def rows(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Rows, Rows]:
        train, test = train_test_split(
            np.arange(len(dataset.y)),
            train_size=self.train_size,
            random_state=repeat,
            stratify=dataset.y if self.stratified else None,
        )
        return train, test


@dataclass(frozen=True)
class PerClass:
    """A number of samples of each class by chance for training, the rest for testing."""

    n_repeats: int
    per_class: int
    n_folds: int = 1

    def rows(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Rows, Rows]:
        chance = np.random.default_rng(repeat)
        drawn = [
            chance.permutation(np.flatnonzero(dataset.y == label))[: self.per_class]
            for label in np.unique(dataset.y)
        ]
        train = np.sort(np.concatenate(drawn))
        return train, np.setdiff1d(np.arange(len(dataset.y)), train)


@dataclass(frozen=True)
class OfficialSplit:
    """The training part that comes first in the data set, and the test part after it."""

    n_repeats: int = 1
    n_folds: int = 1

    def rows(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Rows, Rows]:
        if dataset.n_train is None:
            raise InputError(f"This copy of {dataset.name} has no official split into two parts.")
        rows: Any = np.arange(len(dataset.y))
        return rows[: dataset.n_train], rows[dataset.n_train :]
