"""Shared parts of the displays: matplotlib, legend names, and classifiers inside pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

__all__ = ["by_name", "estimators_inside", "pyplot"]


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


def by_name(
    models: Any, parameter: str, kind: str, *, single: str, name_of: Callable[[Any], str]
) -> dict[str, Any]:
    """Return a dict from legend names to models, naming the models of a list by `name_of`.

    For messages, ``parameter`` is the name of the parameter, ``kind`` the kind of model, and
    ``single`` the method for a single model.
    """
    if not isinstance(models, Mapping | list | tuple):
        raise TypeError(
            f"{parameter} must be a list of fitted models or a dict from names to models, got "
            f"{type(models).__name__}. For a single {kind} use {single}."
        )
    if not models:
        raise ValueError(f"{parameter} is empty: pass at least one fitted {kind}.")
    if isinstance(models, Mapping):
        return dict(models)
    names = [name_of(model) for model in models]
    if len(set(names)) < len(names):
        raise ValueError(
            f"Some {parameter} have the same class and would have the same name in the legend: "
            f"{', '.join(names)}. Pass a dict from names to {parameter}."
        )
    return dict(zip(names, models, strict=True))
