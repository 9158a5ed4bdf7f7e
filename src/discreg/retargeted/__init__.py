"""Regression onto learnt targets: LSR, DLSR, ReLSR and GReLSR."""

from ._dlsr import DLSRClassifier
from ._grelsr import GReLSRClassifier
from ._lsr import LSRClassifier
from ._relsr import ReLSRClassifier
from ._targets import retarget

__all__ = ["DLSRClassifier", "GReLSRClassifier", "LSRClassifier", "ReLSRClassifier", "retarget"]
