"""Margin distribution machines: classifiers that optimise the mean and variance of the margins."""

from ._ldm import LDMClassifier, LDMClassifierCV
from ._odm import ODMClassifier, ODMClassifierCV
from ._problem import MarginStatistics

__all__ = [
    "LDMClassifier",
    "LDMClassifierCV",
    "MarginStatistics",
    "ODMClassifier",
    "ODMClassifierCV",
]
