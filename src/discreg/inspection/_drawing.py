"""Shared parts of the displays: matplotlib, and classifiers inside pipelines."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline


def estimators_inside(estimator: BaseEstimator) -> list[Any]:
    """List an estimator and those nested in pipelines and searches, ending with the classifier."""
    nested = [estimator]
    while True:
        if isinstance(nested[-1], Pipeline):
            nested.append(nested[-1][-1])
        elif hasattr(nested[-1], "best_estimator_"):
            nested.append(nested[-1].best_estimator_)
        else:
            return nested


def pyplot() -> Any:
    """Import matplotlib's pyplot, or raise an ImportError with the installation command."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError('Displays need matplotlib: pip install "discreg[plots]"') from error
    return plt
