"""Discriminative regression classifiers for scikit-learn.

Public names resolve on first use, so that ``import discreg`` imports nothing heavy.
"""

import lazy_loader

__version__ = "0.3.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
