"""A classifier that chooses among the others."""

from ._auto import AutoClassifier

__all__ = ["AutoClassifier"]
