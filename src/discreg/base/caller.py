"""Warnings at the user's line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from os import sep
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "collected_convergence",
    "user_stacklevel",
    "warn_of_convergence",
    "warn_of_early_stops",
    "warn_of_equal_weights",
]

_collected: ContextVar[list[str] | None] = ContextVar("collected convergence", default=None)

PACKAGES = ("discreg", "sklearn", "joblib", "skops", "numpy")  # numpy by its decorator errstate


def warn_of_convergence(message: str) -> None:
    """Issue a ConvergenceWarning at the user's line, unless the caller collects the messages."""
    messages = _collected.get()
    if messages is None:
        warnings.warn(message, ConvergenceWarning, stacklevel=user_stacklevel())
    else:
        messages.append(message)


@contextmanager
def collected_convergence() -> Iterator[list[str]]:
    """Collect the messages of `warn_of_convergence` in this thread.

    Unlike ``warnings.catch_warnings``, which belongs to the whole process, this takes nothing from
    other threads.
    """
    messages: list[str] = []
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)


def warn_of_early_stops(gaps: Sequence[float], n_fits: int, final: Sequence[str]) -> None:
    """Warn once of all fits of a search that stopped before `tol` was reached.

    Parameters
    ----------
    gaps : sequence of float
        Gaps of the fits on held-out samples that stopped early.
    n_fits : int
        Number of fits on held-out samples.
    final : sequence of str
        Messages of the final fit.
    """
    if not gaps and not final:
        return
    worst = f", the worst at a gap of {max(gaps):.2g}" if gaps else ""
    so_did = f" So did the final fit: {final[0]}" if final else ""
    warn_of_convergence(
        f"{len(gaps)} of {n_fits} fits on held-out samples stopped before tol was reached{worst}. "
        f"Increase max_iter or tol, leave out the weakest penalties, or scale the features.{so_did}"
    )


def warn_of_equal_weights(scoring: object) -> None:
    """Warn that a scorer ignores the sample weights."""
    warnings.warn(
        f"The scorer {scoring!r} does not accept sample_weight: its score weighs all held-out "
        "samples equally.",
        UserWarning,
        stacklevel=user_stacklevel(),
    )


def user_stacklevel() -> int:
    """Return the `stacklevel` for which `warnings.warn` names a line outside our packages.

    A method may be called by the user, by a pipeline or by another method. In a worker process
    without such a line, the outermost one is named.
    """
    ours = tuple(
        f"{Path(spec.origin).parent}{sep}"
        for spec in map(find_spec, PACKAGES)
        if spec is not None and spec.origin is not None
    )
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        level, frame = level + 1, frame.f_back
    return level
