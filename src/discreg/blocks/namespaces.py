"""Arrays of other libraries, such as PyTorch, under scikit-learn's ``array_api_dispatch``.

The solvers are those of LAPACK. Arrays are copied to NumPy for a fit or a prediction, and the
predictions are copied back to the library and the device of the samples.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["as_numpy", "in_namespace_of"]

NUMBERS = "biuf"  # kinds of dtypes that every library has


def as_numpy(values: Any) -> Any:
    """Copy an array of another library to NumPy; return anything else as it is.

    Parameters
    ----------
    values : object
        What a user passed: data, labels or weights.
    """
    if not _is_foreign(values):
        return values
    try:
        return np.asarray(values.detach().cpu() if _is_tensor(values) else values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"An array of type {type(values).__module__}.{type(values).__name__} cannot be copied "
            f"to NumPy: {error}. Copy it to the CPU and convert it with numpy.asarray first."
        ) from error


def in_namespace_of(samples: Any, found: Any) -> Any:
    """Copy predictions to the library and the device of the samples; labels of text stay NumPy."""
    if found.dtype.kind not in NUMBERS:
        return found
    namespace = sys.modules["torch"] if _is_tensor(samples) else samples.__array_namespace__()
    return namespace.asarray(found, device=samples.device)


def _is_tensor(values: Any) -> bool:
    return type(values).__module__.split(".")[0] == "torch"


def _is_foreign(values: Any) -> bool:
    """Return whether values are an array of another library than NumPy."""
    if isinstance(values, np.ndarray | np.generic):
        return False
    return hasattr(values, "__array_namespace__") or (_is_tensor(values) and hasattr(values, "cpu"))
