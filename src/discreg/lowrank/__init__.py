"""Low-rank regression: regression inside a (regularised, sparse) LDA subspace."""

from ._lrlr import LRLRClassifier
from ._lrlr_cv import LRLRClassifierCV
from ._lrrr import LRRRClassifier
from ._lrrr_cv import LRRRClassifierCV
from ._ranks import RankPath
from ._reduced_rank import ReducedRankRegression
from ._reduced_rank_cv import ReducedRankRegressionCV
from ._slrr import SLRRClassifier, beta_max
from ._slrr_cv import SLRRClassifierCV

__all__ = [
    "LRLRClassifier",
    "LRLRClassifierCV",
    "LRRRClassifier",
    "LRRRClassifierCV",
    "RankPath",
    "ReducedRankRegression",
    "ReducedRankRegressionCV",
    "SLRRClassifier",
    "SLRRClassifierCV",
    "beta_max",
]
