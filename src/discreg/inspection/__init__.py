"""Plots of fitted classifiers as scikit-learn displays; matplotlib is imported when drawing."""

from ._coefficients import CoefficientDisplay
from ._curves import MarginDistributionDisplay, PredictionSetDisplay, RankDisplay
from ._leaderboard import LeaderboardDisplay

__all__ = [
    "CoefficientDisplay",
    "LeaderboardDisplay",
    "MarginDistributionDisplay",
    "PredictionSetDisplay",
    "RankDisplay",
]
