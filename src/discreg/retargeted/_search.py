"""Candidate penalties and held-out scores along a path, shared by the ...CV classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreg.base.candidates import candidates_of
from discreg.base.held_out import HeldOut, Setting

from ._fit import fit_path

__all__ = ["BETAS", "beta_candidates", "held_out_on_path"]

BETAS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


def beta_candidates(name: str, values: Any) -> list[float]:
    """Return the distinct candidates for a non-negative parameter, the largest first."""
    return candidates_of(name, values, lambda numbers: numbers >= 0, "not negative")


def held_out_on_path(
    classifier: Any,
    X: Any,
    y: NDArray[Any],
    sample_weight: NDArray[np.float64] | None,
    X_test: Any,
    penalties: Sequence[Setting],
) -> Iterator[HeldOut]:
    """Yield the scores of the test samples for each setting; fits start from the previous one."""
    for fitted in fit_path(classifier, X, y, sample_weight, penalties):
        scores = fitted.decision_function(X_test)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        tol = fitted.get_params().get("tol", 0.0)  # LSR is solved in closed form
        yield HeldOut(scores, fitted.classes_, fitted.gap_, not fitted.gap_ > tol > 0)
