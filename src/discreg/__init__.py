"""Discriminative regression classifiers for scikit-learn.

Public names resolve on first use (PEP 562), so that ``import discreg`` imports nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreg import lowrank as lowrank
    from discreg import margin as margin
    from discreg import plots as plots
    from discreg import representation as representation
    from discreg import retargeted as retargeted
    from discreg import selection as selection
    from discreg.lowrank import LRLRClassifier as LRLRClassifier
    from discreg.lowrank import LRRRClassifier as LRRRClassifier
    from discreg.lowrank import SLRRClassifier as SLRRClassifier
    from discreg.margin import LDMClassifier as LDMClassifier
    from discreg.margin import ODMClassifier as ODMClassifier
    from discreg.plots import CoefficientDisplay as CoefficientDisplay
    from discreg.plots import MarginDistributionDisplay as MarginDistributionDisplay
    from discreg.plots import RankDisplay as RankDisplay
    from discreg.representation import DRMClassifier as DRMClassifier
    from discreg.retargeted import DLSRClassifier as DLSRClassifier
    from discreg.retargeted import GReLSRClassifier as GReLSRClassifier
    from discreg.retargeted import LSRClassifier as LSRClassifier
    from discreg.retargeted import ReLSRClassifier as ReLSRClassifier
    from discreg.selection import DLSRClassifierCV as DLSRClassifierCV
    from discreg.selection import DRMClassifierCV as DRMClassifierCV
    from discreg.selection import GReLSRClassifierCV as GReLSRClassifierCV
    from discreg.selection import LRRRClassifierCV as LRRRClassifierCV
    from discreg.selection import LSRClassifierCV as LSRClassifierCV
    from discreg.selection import ODMClassifierCV as ODMClassifierCV
    from discreg.selection import ReLSRClassifierCV as ReLSRClassifierCV
    from discreg.selection import SLRRClassifierCV as SLRRClassifierCV

__version__ = "0.1.0"

# Each public class and the folder it lives in; the folders are public names too.
_HOMES = {
    "LSRClassifier": "retargeted",
    "DLSRClassifier": "retargeted",
    "ReLSRClassifier": "retargeted",
    "GReLSRClassifier": "retargeted",
    "DRMClassifier": "representation",
    "ODMClassifier": "margin",
    "LDMClassifier": "margin",
    "LRLRClassifier": "lowrank",
    "LRRRClassifier": "lowrank",
    "SLRRClassifier": "lowrank",
    "LSRClassifierCV": "selection",
    "DLSRClassifierCV": "selection",
    "ReLSRClassifierCV": "selection",
    "GReLSRClassifierCV": "selection",
    "DRMClassifierCV": "selection",
    "ODMClassifierCV": "selection",
    "LRRRClassifierCV": "selection",
    "SLRRClassifierCV": "selection",
    "MarginDistributionDisplay": "plots",
    "RankDisplay": "plots",
    "CoefficientDisplay": "plots",
}

__all__ = ["__version__", *_HOMES, *dict.fromkeys(_HOMES.values())]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        public = getattr(import_module(f"discreg.{_HOMES[name]}"), name)
    elif name in _HOMES.values():
        public = import_module(f"discreg.{name}")
    else:
        raise AttributeError(f"module 'discreg' has no attribute {name!r}")
    globals()[name] = public
    return public


def __dir__() -> list[str]:
    return sorted(__all__)
