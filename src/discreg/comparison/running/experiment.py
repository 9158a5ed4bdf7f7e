"""Protocol of an experiment: a list of keys, and a function that runs the fit of a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

__all__ = ["Experiment", "Key", "Outcome"]


class Key(NamedTuple):
    """Identifier of a fit of an experiment."""

    dataset: str
    model: str
    repeat: int
    fold: int


@dataclass(frozen=True)
class Outcome:
    """Result of one fit: numbers for the tables, arrays for the plots, warning messages."""

    values: Mapping[str, float]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Experiment(Protocol):
    """Fits that can run in any order and in any process; pickled once for all workers."""

    def settings(self) -> Mapping[str, str]:
        """Settings; stored results are only reused if their settings are equal."""

    def keys(self) -> Sequence[Key]:
        """Keys of all fits, in the order in which they should run."""

    def run(self, key: Key) -> Outcome:
        """Run one fit and score it; deterministic except for the measured time."""
