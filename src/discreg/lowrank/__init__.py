"""Low-rank regression: regression inside a (regularised, sparse) LDA subspace."""

from ._low_rank_search import LRLRClassifierCV, LRRRClassifierCV, SLRRClassifierCV
from ._reduced_rank import ReducedRankRegression
from ._ridge import LRLRClassifier, LRRRClassifier, RankPath
from ._slrr import SLRRClassifier, beta_max

__all__ = [
    "LRLRClassifier",
    "LRLRClassifierCV",
    "LRRRClassifier",
    "LRRRClassifierCV",
    "RankPath",
    "ReducedRankRegression",
    "SLRRClassifier",
    "SLRRClassifierCV",
    "beta_max",
]
