"""Sentences on what the results say about the papers' claims, computed from the stored scores.

Every function of `CLAIMS` takes the stored scores and returns a `Claim`: whether a claim of a paper
holds here by the rule in the function, and the sentences with the numbers. A claim whose numbers
are not stored, as in a run of one study, is left out.
"""

from __future__ import annotations

from discreg_reproduction.stored import NotStored, StoredScores

from . import drm, lowrank, odm, retargeted
from ._shared import Claim

__all__ = ["CLAIMS", "Claim", "claims_of"]

CLAIMS = (*drm.CLAIMS, *retargeted.CLAIMS, *lowrank.CLAIMS, *odm.CLAIMS)


def claims_of(scores: StoredScores) -> list[Claim]:
    """Write all claims whose numbers are stored."""
    found = []
    for claim in CLAIMS:
        try:
            found.append(claim(scores))
        except NotStored:
            continue
    return found
