"""Regression onto learned targets: LSR, DLSR, ReLSR and GReLSR."""

from ._dlsr import DLSRClassifier
from ._dlsr_cv import DLSRClassifierCV
from ._grelsr import GReLSRClassifier
from ._grelsr_cv import GReLSRClassifierCV
from ._losses import TargetLoss
from ._lsr import LSRClassifier
from ._lsr_cv import LSRClassifierCV
from ._relsr import ReLSRClassifier
from ._relsr_cv import ReLSRClassifierCV
from ._retarget import retarget

__all__ = [
    "DLSRClassifier",
    "DLSRClassifierCV",
    "GReLSRClassifier",
    "GReLSRClassifierCV",
    "LSRClassifier",
    "LSRClassifierCV",
    "ReLSRClassifier",
    "ReLSRClassifierCV",
    "TargetLoss",
    "retarget",
]
