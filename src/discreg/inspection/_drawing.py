"""What all displays need: matplotlib, imported only to draw, names, and the model in a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sklearn.pipeline import Pipeline

__all__ = ["by_name", "estimators_inside", "pyplot"]


def estimators_inside(estimator: Any) -> list[Any]:
    """An estimator and what pipelines and searches hold, down to the classifier at the end."""
    nested = [estimator]
    while True:
        if isinstance(nested[-1], Pipeline):
            nested.append(nested[-1][-1])
        elif hasattr(nested[-1], "best_estimator_"):
            nested.append(nested[-1].best_estimator_)
        else:
            return nested


def pyplot() -> Any:
    """matplotlib's pyplot, or an ImportError that says how to install it."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError(
            'The displays draw with matplotlib: pip install "discreg[plots]"'
        ) from error
    return plt


def by_name(
    models: Any, parameter: str, kind: str, *, single: str, name_of: Callable[[Any], str]
) -> dict[str, Any]:
    """Models by their names in the legend: a dict has them, those of a list follow from it.

    ``parameter`` is what the models were passed as, ``kind`` what they are, and ``single`` the
    method for one of them.
    """
    if not isinstance(models, Mapping | list | tuple):
        raise TypeError(
            f"{parameter} must be a list of fitted models or a dict from names to them, got "
            f"{type(models).__name__}. For a single {kind} use {single}."
        )
    if not models:
        raise ValueError(f"{parameter} is empty: pass at least one fitted {kind}.")
    if isinstance(models, Mapping):
        return dict(models)
    names = [name_of(model) for model in models]
    if len(set(names)) < len(names):
        raise ValueError(
            f"The legend could not tell {parameter} of the same class apart: {', '.join(names)}. "
            f"Pass a dict from names to {parameter}."
        )
    return dict(zip(names, models, strict=True))
