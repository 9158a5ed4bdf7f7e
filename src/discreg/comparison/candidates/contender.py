"""What is known of a model of a comparison before it is fitted."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MAJORITY", "Contender"]

MAJORITY = "majority"  # name of the model that always predicts the class frequencies


@dataclass(frozen=True, kw_only=True)
class Contender:
    """What is known of a model before it is fitted.

    Attributes
    ----------
    name : str
    origin : str
        "discreg", "scikit-learn" or "own".
    place : int
        Position in the order of simplicity; the smallest is the simplest.
    keeps_rows : bool
        Whether a fitted model may contain training rows.
    """

    name: str
    origin: str
    place: int
    keeps_rows: bool = False
