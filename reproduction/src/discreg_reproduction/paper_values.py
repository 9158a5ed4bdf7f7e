"""The numbers that the papers report.

``papers/reported.csv`` contains the printed means, and standard deviations if there are any. The
papers are listed in `discreg_reproduction.papers.PAPERS`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

__all__ = ["Reported", "reported"]

Values = Mapping[tuple[str, str], "Reported"]


@dataclass(frozen=True)
class Reported:
    """A printed mean, and its standard deviation if the paper has one."""

    mean: float
    std: float | None


def reported(study_name: str) -> Values:
    """Return the reported values of a study by data set and method; empty for figures."""
    return _all_reported().get(study_name, MappingProxyType({}))


@cache
def _all_reported() -> Mapping[str, Values]:
    text = (resources.files(f"{__package__}.papers") / "reported.csv").read_text(encoding="utf-8")
    studies: dict[str, dict[tuple[str, str], Reported]] = {}
    for row in csv.DictReader(text.splitlines()):
        value = Reported(float(row["mean"]), float(row["std"]) if row["std"] else None)
        studies.setdefault(row["study"], {})[row["dataset"], row["method"]] = value
    return {name: MappingProxyType(values) for name, values in studies.items()}
