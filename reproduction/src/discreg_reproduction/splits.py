"""Splits of a data set into training and test samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, train_test_split

from discreg.base.errors import InputError

from .registry import Dataset

__all__ = [
    "AllRows",
    "KFold",
    "OfficialSplit",
    "PerClass",
    "RandomSplit",
    "Rows",
    "Splits",
    "StoredFolds",
]

Rows = NDArray[np.intp]


class Splits(Protocol):
    """Repeated splits of a data set into folds."""

    @property
    def n_repeats(self) -> int:
        """Number of repetitions."""

    @property
    def n_folds(self) -> int:
        """Number of test parts per repetition."""

    def rows(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Rows, Rows]:
        """Return the rows of the training part and of the test part."""


@dataclass(frozen=True)
class StoredFolds:
    """The folds that are stored with the data set."""

    n_folds: int = 5
    n_repeats: int = 1

    def rows(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Rows, Rows]:
        if dataset.folds is None:
            raise InputError(f"This version of {dataset.name} has no folds.")
        held_out = dataset.folds == np.unique(dataset.folds)[fold]
        return np.flatnonzero(~held_out), np.flatnonzero(held_out)


@dataclass(frozen=True)
class KFold:
    """Random stratified folds: all of them, or the first `n_folds`."""

    n_folds: int = 5
    n_repeats: int = 1
    n_splits: int = 5

    def rows(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Rows, Rows]:
        folds = StratifiedKFold(self.n_splits, shuffle=True, random_state=repeat)
        train, test = list(folds.split(np.zeros(len(dataset.y)), dataset.y))[fold]
        return train, test


@dataclass(frozen=True)
class RandomSplit:
    """A random fraction of the samples for training, the rest for testing.

    If `test_sizes` is set, it contains the number of test samples of each data set instead.
    """

    n_repeats: int
    train_size: float = 0.5
    stratified: bool = False
    test_sizes: Mapping[str, int] | None = None
    n_folds: int = 1

    def rows(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Rows, Rows]:
        size: dict[str, float] = {"train_size": self.train_size}
        if self.test_sizes is not None:
            size = {"test_size": self.test_sizes[dataset.name]}
        return _random_split(dataset, repeat, stratified=self.stratified, **size)


@dataclass(frozen=True)
class PerClass:
    """A number of random samples per class for training, the rest for testing."""

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
    """The official split, or a random split with `held_out` test samples if there is none."""

    held_out: float | int
    n_repeats: int = 1
    n_folds: int = 1

    def rows(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Rows, Rows]:
        n_train = dataset.n_train
        if n_train is None or n_train >= len(dataset.y):
            return _random_split(dataset, repeat, stratified=True, test_size=self.held_out)
        return np.arange(n_train), np.arange(n_train, len(dataset.y))


@dataclass(frozen=True)
class AllRows:
    """All samples in both parts, for methods without a fit."""

    n_repeats: int = 1
    n_folds: int = 1

    def rows(self, dataset: Dataset, repeat: int, fold: int) -> tuple[Rows, Rows]:
        return np.arange(len(dataset.y)), np.arange(len(dataset.y))


def _random_split(
    dataset: Dataset, seed: int, *, stratified: bool, **size: float
) -> tuple[Rows, Rows]:
    train, test = train_test_split(
        np.arange(len(dataset.y)),
        random_state=seed,
        stratify=dataset.y if stratified else None,
        **size,
    )
    return train, test
