"""What the claims of all papers are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discreg.comparison.words import listed
from discreg_reproduction.stored import StoredScores

EQUAL = 5e-4  # accuracies that are printed with three digits differ if they are further apart


@dataclass(frozen=True)
class Claim:
    """Sentences on a claim of a paper; `holds` is None for what is no claim of a paper."""

    holds: bool | None
    text: str


def gain(scores: StoredScores, study: str, dataset: str, method: str, other: str) -> float:
    return scores.mean(study, dataset, method, "accuracy") - scores.mean(
        study, dataset, other, "accuracy"
    )


def named(words: Sequence[str]) -> str:
    return listed(list(words)) if words else "none"
