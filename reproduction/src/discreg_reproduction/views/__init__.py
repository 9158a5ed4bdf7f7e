"""Views of a study: tables, pictures and sentences on its results.

`show` creates the blocks of all views of a study; `pages` formats them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from discreg.comparison.words import listed
from discreg_reproduction.registry import entries

from .blocks import Agreement, Block, Evidence, Grid, Picture, Text
from .pictures import (
    bars,
    coefficients,
    critical_difference,
    curve,
    history,
    margins,
    tied_directions,
)
from .tables import table

__all__ = ["VIEWS", "Agreement", "Block", "Evidence", "Grid", "Picture", "Text", "show"]

# The names that a study may use for its views.
VIEWS: Mapping[str, Callable[[Evidence], Iterator[Block]]] = MappingProxyType(
    {
        "table": table,
        "bars": bars,
        "curve": curve,
        "critical difference": critical_difference,
        "history": history,
        "margins": margins,
        "coefficients": coefficients,
        "tied directions": tied_directions,
    }
)


def show(evidence: Evidence) -> tuple[Block, ...]:
    """Create the blocks of a study's views, and notes on its data sets."""
    blocks: list[Block] = []
    if evidence.means.empty:
        blocks.append(Text("There are no results yet."))
    else:
        for view in evidence.study.views:
            blocks += VIEWS[view](evidence)
    for text in (_copies_text(evidence), _not_run_text(evidence)):
        if text:
            blocks.append(Text(text))
    return tuple(blocks)


def _copies_text(evidence: Evidence) -> str:
    """Write a note on data sets that differ from the paper's."""
    there = set(evidence.means["dataset"])
    parts = [
        f"{dataset} ({entries()[source].difference})"
        for dataset, source in evidence.study.datasets.items()
        if dataset in there and isinstance(source, str) and entries()[source].difference
    ]
    return (
        f"The data sets, where they may differ from the paper's: {'; '.join(parts)}."
        if parts
        else ""
    )


def _not_run_text(evidence: Evidence) -> str:
    """Write a note on the data sets without results, with the reasons."""
    there = set(evidence.means["dataset"])
    reasons: dict[str, list[str]] = {}
    for dataset in evidence.study.datasets:
        if dataset not in there:
            reason = evidence.missing.get(dataset, "no results")
            reasons.setdefault(reason, []).append(dataset)
    parts = [f"{listed(datasets)} ({reason})" for reason, datasets in reasons.items()]
    return f"Not run: {'; '.join(parts)}." if parts else ""
