"""What an experiment is: keys, and a function that makes one fit per key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

__all__ = ["Experiment", "Key", "Outcome"]


class Key(NamedTuple):
    """What identifies a fit of an experiment."""

    dataset: str
    model: str
    repeat: int
    fold: int


@dataclass(frozen=True)
class Outcome:
    """What one fit gave: numbers for the tables, arrays for the plots, texts of warnings."""

    values: Mapping[str, float]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Experiment(Protocol):
    """Fits that can be made in any order, each in any process; pickled once for all workers."""

    def settings(self) -> Mapping[str, str]:
        """What must be equal for stored results to belong to this experiment."""

    def keys(self) -> Sequence[Key]:
        """Every fit, in the order in which they should be made."""

    def run(self, key: Key) -> Outcome:
        """Make one fit and score it; deterministic but for the seconds it takes."""
