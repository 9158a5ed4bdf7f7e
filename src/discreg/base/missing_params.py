"""Parameters that did not exist yet when a model was saved."""

from __future__ import annotations

import warnings
from inspect import Parameter, signature
from typing import Any

from .caller import user_stacklevel

__all__ = ["with_missing_params"]


def with_missing_params(cls: type, state: dict[str, Any]) -> dict[str, Any]:
    """Add the defaults of missing constructor parameters to a stored state, with a warning.

    Without them, a model from a pickle or a model file of an earlier release can predict, but it
    cannot be cloned or fitted.
    """
    missing = {
        name: parameter.default
        for name, parameter in signature(cls).parameters.items()
        if name not in state and parameter.default is not Parameter.empty
    }
    if missing:
        warnings.warn(
            f"This {cls.__name__} was saved by another release of discreg. Parameters that it does "
            f"not have are set to their defaults: {', '.join(missing)}.",
            UserWarning,
            stacklevel=user_stacklevel(),
        )
    return state | missing
