"""Classifiers that choose their own parameters, and scores to choose by."""

from ._dlsr import DLSRClassifierCV
from ._drm import DRMClassifierCV
from ._g_mean import g_mean_score
from ._grelsr import GReLSRClassifierCV
from ._lrrr import LRRRClassifierCV
from ._lsr import LSRClassifierCV
from ._odm import ODMClassifierCV
from ._penalty_path import PenaltyPath, penalty_path
from ._relsr import ReLSRClassifierCV
from ._slrr import SLRRClassifierCV

__all__ = [
    "DLSRClassifierCV",
    "DRMClassifierCV",
    "GReLSRClassifierCV",
    "LRRRClassifierCV",
    "LSRClassifierCV",
    "ODMClassifierCV",
    "PenaltyPath",
    "ReLSRClassifierCV",
    "SLRRClassifierCV",
    "g_mean_score",
    "penalty_path",
]
