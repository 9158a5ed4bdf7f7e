"""Pictures of fitted classifiers, as scikit-learn's displays; matplotlib is imported to draw."""

from ._margins import MarginDistributionDisplay

__all__ = ["MarginDistributionDisplay"]
