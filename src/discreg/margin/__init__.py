"""Margin distribution machines: classifiers that optimise the mean and variance of the margins."""

from ._ldm import LDMClassifier
from ._ldm_cv import LDMClassifierCV
from ._odm import ODMClassifier
from ._odm_cv import ODMClassifierCV
from ._problem import MarginStatistics

__all__ = [
    "LDMClassifier",
    "LDMClassifierCV",
    "MarginStatistics",
    "ODMClassifier",
    "ODMClassifierCV",
]
