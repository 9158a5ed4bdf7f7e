"""Classifiers that choose their own parameters, and scores to choose by.

Names resolve on first use (PEP 562): a search needs the modules of its own family only.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._dlsr import DLSRClassifierCV as DLSRClassifierCV
    from ._drm import DRMClassifierCV as DRMClassifierCV
    from ._g_mean import g_mean_score as g_mean_score
    from ._grelsr import GReLSRClassifierCV as GReLSRClassifierCV
    from ._lrrr import LRRRClassifierCV as LRRRClassifierCV
    from ._lsr import LSRClassifierCV as LSRClassifierCV
    from ._odm import ODMClassifierCV as ODMClassifierCV
    from ._penalty_path import PenaltyPath as PenaltyPath
    from ._penalty_path import penalty_path as penalty_path
    from ._relsr import ReLSRClassifierCV as ReLSRClassifierCV
    from ._slrr import SLRRClassifierCV as SLRRClassifierCV

# Each public name and the module it lives in.
_HOMES = {
    "DLSRClassifierCV": "_dlsr",
    "DRMClassifierCV": "_drm",
    "GReLSRClassifierCV": "_grelsr",
    "LRRRClassifierCV": "_lrrr",
    "LSRClassifierCV": "_lsr",
    "ODMClassifierCV": "_odm",
    "PenaltyPath": "_penalty_path",
    "ReLSRClassifierCV": "_relsr",
    "SLRRClassifierCV": "_slrr",
    "g_mean_score": "_g_mean",
    "penalty_path": "_penalty_path",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'discreg.selection' has no attribute {name!r}")
    public = getattr(import_module(f"discreg.selection.{_HOMES[name]}"), name)
    globals()[name] = public
    return public


def __dir__() -> list[str]:
    return sorted(__all__)
