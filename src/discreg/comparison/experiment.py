"""What an experiment is: a list of keys, and what one fit under a key gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

__all__ = ["Experiment", "Key", "Outcome"]


class Key(NamedTuple):
    """What tells one fit of an experiment from every other."""

    dataset: str
    model: str
    repeat: int
    fold: int


@dataclass(frozen=True)
class Outcome:
    """What one fit gave: numbers for the tables, arrays for the plots, what it warned of."""

    values: Mapping[str, float]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Experiment(Protocol):
    """Fits that can be made in any order, each in any process; pickled to every worker once."""

    def settings(self) -> Mapping[str, str]:
        """What must be equal for stored results to belong to this experiment."""

    def keys(self) -> Sequence[Key]:
        """Every fit, in the order in which they should be made."""

    def run(self, key: Key) -> Outcome:
        """Make one fit and judge it; deterministic but for the seconds it takes."""
