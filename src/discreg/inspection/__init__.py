"""Plots of fitted classifiers as scikit-learn displays; matplotlib is imported when drawing."""

from ._coefficients import CoefficientDisplay
from ._leaderboard import LeaderboardDisplay
from ._margins import MarginDistributionDisplay
from ._prediction_sets import PredictionSetDisplay
from ._ranks import RankDisplay

__all__ = [
    "CoefficientDisplay",
    "LeaderboardDisplay",
    "MarginDistributionDisplay",
    "PredictionSetDisplay",
    "RankDisplay",
]
