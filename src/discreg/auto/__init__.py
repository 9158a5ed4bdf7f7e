"""A classifier that chooses among the others."""

from ._auto import AutoClassifier
from ._explanation import PredictionExplanation

__all__ = ["AutoClassifier", "PredictionExplanation"]
