"""Low-rank regression: regression inside a (regularised, sparse) LDA subspace."""

from ._lrlr import LRLRClassifier
from ._lrrr import LRRRClassifier
from ._lrrr_cv import LRRRClassifierCV
from ._path import RankPath
from ._slrr import SLRRClassifier
from ._slrr_cv import SLRRClassifierCV

__all__ = [
    "LRLRClassifier",
    "LRRRClassifier",
    "LRRRClassifierCV",
    "RankPath",
    "SLRRClassifier",
    "SLRRClassifierCV",
]
