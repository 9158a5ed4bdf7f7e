"""The papers' tables and figures, one module per paper."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

from discreg_reproduction.protocol import Study

__all__ = ["PAPERS", "studies"]

# Citations of the papers, by the name of the module.
PAPERS = MappingProxyType(
    {
        "drm": "C. Peng and Q. Cheng, Discriminative Regression Machine: A Classifier for "
        "High-Dimensional Data or Imbalanced Data",
        "relsr": "X.-Y. Zhang, L. Wang, S. Xiang and C.-L. Liu, Retargeted Least Squares "
        "Regression Algorithm, IEEE TNNLS 26 (2015)",
        "grelsr": "L. Wang and C. Pan, Groupwise Retargeted Least-Squares Regression, IEEE TNNLS "
        "29 (2018)",
        "lowrank": "X. Cai, C. Ding, F. Nie and H. Huang, On the Equivalent of Low-Rank "
        "Regressions and Linear Discriminant Analysis Based Regressions, KDD 2013",
        "odm": "T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, IEEE TKDE 32 (2020)",
    }
)


@cache
def studies() -> Mapping[str, Study]:
    """Return all studies by name, in the order of the papers."""
    found = (import_module(f"{__name__}.{paper}").STUDIES for paper in PAPERS)
    return MappingProxyType({study.name: study for group in found for study in group})
