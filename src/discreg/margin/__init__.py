"""Margin distribution machines: the mean and the variance of the margin instead of its minimum."""

from ._base import MarginStatistics
from ._ldm import LDMClassifier
from ._odm import ODMClassifier

__all__ = ["LDMClassifier", "MarginStatistics", "ODMClassifier"]
