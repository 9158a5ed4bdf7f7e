"""Low-rank regression: regression inside a (regularised, sparse) LDA subspace."""

from ._lrlr import LRLRClassifier
from ._lrrr import LRRRClassifier
from ._path import RankPath
from ._slrr import SLRRClassifier

__all__ = ["LRLRClassifier", "LRRRClassifier", "RankPath", "SLRRClassifier"]
