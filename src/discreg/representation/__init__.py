"""Represent a point by the training samples: the discriminative regression machine."""

from ._drm import DRMClassifier

__all__ = ["DRMClassifier"]
