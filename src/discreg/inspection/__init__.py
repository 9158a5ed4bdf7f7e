"""Pictures of fitted classifiers, as scikit-learn's displays; matplotlib is imported to draw."""

from ._coefficients import CoefficientDisplay
from ._margins import MarginDistributionDisplay
from ._ranks import RankDisplay

__all__ = ["CoefficientDisplay", "MarginDistributionDisplay", "RankDisplay"]
