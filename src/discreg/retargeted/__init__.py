"""Regression onto learned targets: LSR, DLSR, ReLSR and GReLSR."""

from ._losses import TargetLoss, retarget
from ._lsr import LSRClassifier
from ._models import DLSRClassifier, GReLSRClassifier, ReLSRClassifier
from ._retargeted_search import (
    DLSRClassifierCV,
    GReLSRClassifierCV,
    LSRClassifierCV,
    ReLSRClassifierCV,
)

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
