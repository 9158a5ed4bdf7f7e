"""Candidate values of parameters and of kernel parameters for a search."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.linalg.kernel_registry import KERNELS, KernelFacts
from discreg.linalg.kernels import resolve_gamma
from discreg.linalg.types import Array

from .held_out import Setting

__all__ = ["candidates_of", "kernel_settings"]


def kernel_settings(search: Any, X: Any, weights: Array) -> list[Setting]:
    """List all combinations of the candidates for `gamma` and `degree` that the kernel uses."""
    settings: dict[str, list[Any]] = {}
    known = KERNELS.get(search.kernel) if isinstance(search.kernel, str) else None
    facts = known or KernelFacts()
    if "gamma" in facts.params:
        gammas = search.gammas
        if gammas is None:
            scale = resolve_gamma("scale", X, weights)
            gammas = [scale * multiple for multiple in facts.default_gammas]
        else:
            gammas = gammas if np.iterable(gammas) and not isinstance(gammas, str) else [gammas]
            gammas = [
                resolve_gamma(gamma, X, weights) if str(gamma) in ("scale", "auto") else gamma
                for gamma in gammas
            ]
        settings["gamma"] = candidates_of("gammas", gammas, lambda values: values > 0, "positive")
    if "degree" in facts.params:
        degrees = candidates_of(
            "degrees", search.degrees, lambda values: values >= 0, "not negative"
        )
        settings["degree"] = [int(degree) if degree.is_integer() else degree for degree in degrees]
    return [dict(zip(settings, values, strict=True)) for values in product(*settings.values())]


def candidates_of(
    name: str, values: Any, allowed: Callable[[Array], NDArray[np.bool_]], described: str
) -> list[float]:
    """Check the candidates for a parameter and return distinct values, the largest first."""
    try:
        numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([np.nan])
    if numbers.ndim != 1 or not numbers.size or not np.all(np.isfinite(numbers) & allowed(numbers)):
        raise ValueError(
            f"{name} must hold one or more finite numbers, each {described}; got {values!r}."
        )
    return sorted(set(numbers.tolist()), reverse=True)
