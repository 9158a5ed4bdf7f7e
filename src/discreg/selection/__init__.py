"""Classifiers that choose their own penalties."""

from ._dlsr import DLSRClassifierCV
from ._grelsr import GReLSRClassifierCV
from ._lsr import LSRClassifierCV
from ._relsr import ReLSRClassifierCV

__all__ = ["DLSRClassifierCV", "GReLSRClassifierCV", "LSRClassifierCV", "ReLSRClassifierCV"]
