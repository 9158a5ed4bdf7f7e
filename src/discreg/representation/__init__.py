"""Represent a point by the training samples: the discriminative regression machine."""

from ._drm import DRMClassifier
from ._drm_cv import DRMClassifierCV
from ._penalties import Penalty, prox

__all__ = ["DRMClassifier", "DRMClassifierCV", "Penalty", "prox"]
