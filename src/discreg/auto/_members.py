"""The members of an average, fitted to all samples."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sklearn.pipeline import Pipeline

from discreg.base.caller import user_stacklevel
from discreg.blocks.source import BlockSource

from ._machines import params_for
from ._rows import ScaledRows
from ._trials import Samples, Trial

__all__ = ["fitted_member", "n_components_for", "warn_of_constant", "warn_of_families"]

MOST_COMPONENTS, LARGEST_FEATURES = 1_000, 1 << 27  # components, and their number for all rows


def n_components_for(n_rows: int) -> int:
    """Return the number of components that approximate a kernel of many rows."""
    return min(MOST_COMPONENTS, n_rows, max(1, LARGEST_FEATURES // n_rows))


def fitted_member(
    trial: Trial, scalers: dict[str, Any], samples: Samples, source: BlockSource | None
) -> Pipeline:
    """Fit a candidate to all samples, or to all blocks of their source.

    For the source, of which the samples are a part, the penalty stays the same relative to the sum
    of the squared features, and a kernel is approximated.
    """
    machine, scaler = trial.machine, scalers[trial.machine.scaling]
    if source is None:
        classifier = machine.classifier(**trial.params)
        classifier.fit(samples.X[machine.scaling], samples.y, samples.copies)
    else:
        if machine.kernel != "linear":
            machine = replace(machine, n_components=n_components_for(source.n_rows))
        params = params_for(machine, trial.params, samples.size, float(source.sizes.sum()))
        classifier = machine.classifier(**params).fit(ScaledRows(source, scaler), None)
    return Pipeline([("scaler", scaler), ("classifier", classifier)])


def warn_of_constant(*, judged: bool) -> None:
    """Warn that the class frequencies are the prediction, and say why."""
    reason = (
        "No candidate predicts held-out samples better than the class frequencies by more than the "
        "standard error"
        if judged
        else "Every class has only one sample or group, so that none can be held out"
    )
    warnings.warn(
        f"{reason}: the class frequencies are the prediction. Check features and labels, or add "
        "samples.",
        UserWarning,
        stacklevel=user_stacklevel(),
    )


def warn_of_families(families: Sequence[str]) -> None:
    """Warn of given families that are not tried because there are many rows."""
    others = ", ".join(repr(name) for name in families if name != "LSR")
    if others:
        warnings.warn(
            f"Only the family 'LSR' is tried on this many rows, not {others}. "
            "Fit at most 2,000 rows in memory to try them, or use their ...CV classes.",
            UserWarning,
            stacklevel=user_stacklevel(),
        )
