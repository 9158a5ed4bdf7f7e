"""Classifiers that choose their own parameters, and scores to choose by."""

from ._dlsr import DLSRClassifierCV
from ._drm import DRMClassifierCV
from ._g_mean import g_mean_score
from ._grelsr import GReLSRClassifierCV
from ._lsr import LSRClassifierCV
from ._odm import ODMClassifierCV
from ._relsr import ReLSRClassifierCV

__all__ = [
    "DLSRClassifierCV",
    "DRMClassifierCV",
    "GReLSRClassifierCV",
    "LSRClassifierCV",
    "ODMClassifierCV",
    "ReLSRClassifierCV",
    "g_mean_score",
]
