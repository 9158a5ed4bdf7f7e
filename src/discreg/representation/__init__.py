"""Discriminative regression machine: represent a sample by the training samples."""

from ._drm import DRMClassifier
from ._drm_cv import DRMClassifierCV
from ._problem import Penalty, prox

__all__ = ["DRMClassifier", "DRMClassifierCV", "Penalty", "prox"]
