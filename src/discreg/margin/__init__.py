"""Margin distribution machines: the mean and the variance of the margin instead of its minimum."""

from ._base import MarginStatistics
from ._ldm import LDMClassifier
from ._odm import ODMClassifier
from ._odm_cv import ODMClassifierCV

__all__ = ["LDMClassifier", "MarginStatistics", "ODMClassifier", "ODMClassifierCV"]
